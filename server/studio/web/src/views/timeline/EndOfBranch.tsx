// Below the last card: the running tasks, or the tasks that run next.
import { useEffect, useState } from "react";
import { textOfError } from "../../data/errors";
import { waitsOf } from "../../data/questions";
import { useSessionPart, useSessionState } from "../../data/session";
import { looks, statusOf, statusOfSession } from "../../data/status";
import {
  isRunning,
  type RunPhase,
  type SessionState,
  type Step,
  type StreamedMessage,
  type TaskRun,
} from "../../data/types";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { Notice } from "../../ui/States";
import { clock, duration, nodeName, oneLine } from "../../ui/format";
import { Interrupts } from "../interrupts/Interrupts";
import { MessageLine } from "./Changes";
import { Nested } from "./StepBody";

interface Props {
  /** The last step of the branch. */
  head: Step | undefined;
  /** No other branch has a newer step. */
  newest: boolean;
  onContinue(head: Step): void;
}

export function EndOfBranch(props: Props) {
  return (
    <>
      {props.newest ? <Sent /> : null}
      <End {...props} />
    </>
  );
}

/** The number of custom events of a run that are shown. */
const shownEvents = 50;

/** Sent shows the custom events of the run. */
function Sent() {
  const custom = useSessionPart((s) => s.custom);
  if (custom.length === 0) return null;
  return (
    <details className="timeline-sent">
      <summary>{custom.length === 1 ? "1 custom event" : `${custom.length} custom events`}</summary>
      {custom.slice(-shownEvents).map((c, i) => (
        <pre key={custom.length - i}>{oneLine(c.data, 300)}</pre>
      ))}
    </details>
  );
}

function End({ head, newest, onContinue }: Props) {
  const s = useSessionState();
  if (newest && isRunning(s)) return <Running state={s} head={head} />;
  const status = newest ? statusOfSession(s) : head ? statusOf({ head }) : null;
  const failed = status === "failed" && newest ? s.run?.error : undefined;
  if (!head) return failed ? <Notice>{failed}</Notice> : null;
  // The error of a stopped task is the stop itself.
  const errors = status === "stopped" ? [] : (head.tasks ?? []).filter((t) => t.error);
  const asks = newest && s.questions.length > 0;
  const nested = (head.tasks ?? []).filter((t) => t.checkpoint?.checkpoint_ns);
  return (
    <>
      {errors.map((t) => (
        <Notice key={t.id}>
          <strong>{nodeName(t.name)} failed:</strong> {textOfError(t.error)}
        </Notice>
      ))}
      {failed && errors.length === 0 ? <Notice>{failed}</Notice> : null}
      {nested.map((t) => (
        <Nested key={t.id} name={t.name} ns={t.checkpoint!.checkpoint_ns} />
      ))}
      {asks ? <Interrupts /> : null}
      {waitsOf(head).map((w, i) => (
        <p key={i} className="muted small">
          {w.kind === "sleep" ? `${w.node} sleeps` : `${w.node} waits for ${oneLine(w.value, 100)}`}
          {w.due ? ` until ${clock(w.due)}` : ""}
        </p>
      ))}
      {head.next.length > 0 && !asks ? (
        <div className="timeline-next">
          <span>
            Next: <strong>{head.next.map(nodeName).join(", ")}</strong>
          </span>
          <span className="grow" />
          <Button size="small" onClick={() => onContinue(head)}>
            <Icon name="play" size={13} /> {(status && looks[status].action) ?? "Continue"}
          </Button>
        </div>
      ) : null}
    </>
  );
}

const phases: Partial<Record<RunPhase, string>> = {
  reconnecting: "Reconnecting",
  looking: "Looking for the run",
  queued: "Queued",
};

function Running({ state, head }: { state: SessionState; head: Step | undefined }) {
  const planned = new Set((head?.tasks ?? []).map((t) => t.id));
  const tasks = state.tasks.filter((t) => t.ns === "" && (!t.ended || planned.has(t.id)));
  return (
    <article className="timeline-card running" aria-label="Running">
      <header className="timeline-head">
        <span className="spinner" aria-hidden />
        <span className="timeline-step">{phases[state.run?.phase ?? "running"] ?? "Running"}</span>
        {tasks.length === 0 ? <span className="timeline-node cut">{head?.next.map(nodeName).join(", ")}</span> : null}
      </header>
      {tasks.map((t) => (
        <RunningTask
          key={t.id}
          task={t}
          messages={state.messages.filter((m) => isOf(m, t))}
          inner={state.tasks.filter((i) => isInside(i.ns, t))}
        />
      ))}
    </article>
  );
}

/** isInside reports whether a namespace belongs to the graph that a task runs. */
const isInside = (ns: string, t: TaskRun): boolean =>
  (ns + "|").startsWith((t.ns ? t.ns + "|" : "") + t.name + ":" + t.id + "|");

function isOf(m: StreamedMessage, t: TaskRun): boolean {
  if (m.task) return m.task === t.id || isInside(m.ns, t);
  return m.node === t.name && m.started >= t.started;
}

function RunningTask({ task, messages, inner }: { task: TaskRun; messages: StreamedMessage[]; inner: TaskRun[] }) {
  return (
    <div className="running-task">
      <div className="row">
        <span className="timeline-node cut">{task.name}</span>
        {task.attempt > 1 ? <span className="badge warn">attempt {task.attempt}</span> : null}
        {inner.length > 0 ? (
          <span className="muted small cut">
            {inner
              .filter((t) => !t.ended)
              .map((t) => t.name)
              .join(", ")}
          </span>
        ) : null}
        <span className="grow" />
        <span className="timeline-took">
          {task.ended ? duration(task.ended - task.started) : <Elapsed since={task.started} />}
        </span>
      </div>
      {task.error ? <Notice>{task.error}</Notice> : null}
      {messages.slice(-6).map((m, i) => (
        <MessageLine key={m.message.id ?? i} message={m.message} streaming={!task.ended} />
      ))}
    </div>
  );
}

function Elapsed({ since }: { since: number }) {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 200);
    return () => clearInterval(timer);
  }, []);
  return duration(Math.max(0, now - since));
}
