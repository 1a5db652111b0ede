// The work that an agent has delegated: sub-agents as a tree, and commands and scripts, each with its steps.
import { useMemo, useState } from "react";
import { go } from "../../app/location";
import { messageOf } from "../../data/errors";
import { useSession } from "../../data/session";
import { idOf } from "../../data/tree";
import type { Step } from "../../data/types";
import type { RecordedSpan } from "../../data/recorded";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { JsonView } from "../../ui/JsonView";
import { Notice } from "../../ui/States";
import { duration } from "../../ui/format";
import { Fold } from "../chat/ToolCalls";
import { useRecording, useSpan } from "../trace/useRecording";
import { madeBy, runsOf, type CallKind, type Delegated, type Made } from "./work";

interface Props {
  kind: CallKind;
  title: string;
  calls: Delegated[];
  /** The checkpoints of the branch, oldest first. */
  path: Step[];
  running: boolean;
}

/** Calls lists the calls of a kind. */
export function Calls({ kind, title, calls, path, running }: Props) {
  const shown = calls.filter((c) => c.kind === kind);
  const runs = useMemo(() => runsOf(path), [path]);
  if (shown.length === 0) return null;
  const last = path.at(-1);
  const newest = runs.get(calls.at(-1)!.id);
  return (
    <section className="panel" aria-label={title}>
      <div className="panel-head">
        <h2 className="grow">{title}</h2>
        <Button kind="quiet" size="small" onClick={() => go({ view: "trace" })}>
          <Icon name="trace" size={13} /> Trace
        </Button>
      </div>
      <ul className="agent-calls">
        {shown.map((c) => (
          <Call
            key={c.id}
            call={c}
            run={runs.get(c.id) ?? ""}
            recent={runs.get(c.id) === newest}
            version={last ? idOf(last) : ""}
            running={running}
          />
        ))}
      </ul>
    </section>
  );
}

interface CallProps {
  call: Delegated;
  run: string;
  /** The call is one of the newest run. */
  recent: boolean;
  version: string;
  running: boolean;
}

function Call({ call, run, recent, version, running }: CallProps) {
  const session = useSession();
  // A thread may have many runs, so the recordings of older ones are loaded when they are needed.
  const [opened, setOpened] = useState(false);
  const wanted = recent || opened ? session.threadId : null;
  const { recording } = useRecording(wanted, run, version, running && call.result === null);
  const made = madeBy(recording?.spans ?? [], call.id)?.calls ?? [];
  return (
    <li>
      <Fold
        id={"work " + call.id}
        onOpen={() => setOpened(true)}
        summary={
          <>
            <strong className="mono">{call.name}</strong>
            <span className="muted cut grow">{call.asked}</span>
            <Outcome call={call} running={running} />
          </>
        }
      >
        <pre className="agent-text">{call.asked}</pre>
        <Steps of={call.name} run={run} made={made} />
        {call.result === null ? null : (
          <>
            <h2>Result</h2>
            <pre className="agent-text">{call.result || "(empty)"}</pre>
          </>
        )}
      </Fold>
      <Inner run={run} made={made} />
    </li>
  );
}

/** Inner shows the agents among the calls of an agent, each with its own steps. */
function Inner({ run, made }: { run: string; made: Made[] }) {
  const agents = made.filter((m) => m.agent);
  if (agents.length === 0) return null;
  return (
    <ul className="agent-calls">
      {agents.map(({ span, agent, calls }) => (
        <li key={span.span_id}>
          <Fold
            id={"work " + span.span_id}
            summary={
              <>
                <strong className="mono grow cut">{agent}</strong>
                <Status span={span} />
              </>
            }
          >
            <Steps of={agent!} run={run} made={calls} />
          </Fold>
          <Inner run={run} made={calls} />
        </li>
      ))}
    </ul>
  );
}

/** Steps is the timeline of an agent or a script: its calls, in order. Those of tools open to show their contents. */
function Steps({ of, run, made }: { of: string; run: string; made: Made[] }) {
  if (made.length === 0) return null;
  return (
    <>
      <h2>Steps</h2>
      <ol className="agent-steps" aria-label={`Steps of ${of}`}>
        {made.map(({ span, agent }) => {
          const head = (
            <>
              <span className="mono grow cut">{agent ? `${span.name} ${agent}` : span.name}</span>
              <Status span={span} />
              <span className="muted small">{tookOf(span)}</span>
            </>
          );
          return span.kind === "tool" && !agent ? (
            <li key={span.span_id}>
              <Fold id={"step " + span.span_id} summary={head}>
                <Contents run={run} span={span} />
              </Fold>
            </li>
          ) : (
            <li key={span.span_id} className="row">
              {head}
            </li>
          );
        })}
      </ol>
    </>
  );
}

/** Contents shows the arguments and the result of a tool call. */
function Contents({ run, span }: { run: string; span: RecordedSpan }) {
  const { threadId } = useSession();
  const q = useSpan(threadId!, run, span);
  const error = span.error?.message || span.error?.error;
  if (q.isLoading) return <p className="muted small">Loading the arguments and the result…</p>;
  if (q.error) return <Notice>Failed to load the arguments and the result: {messageOf(q.error)}</Notice>;
  const { input, output } = q.data ?? {};
  return (
    <>
      {span.has_content ? null : <Notice kind="warn">The server stores neither inputs nor outputs of calls.</Notice>}
      {input === undefined ? null : (
        <>
          <h2>Arguments</h2>
          <JsonView value={input} open={3} />
        </>
      )}
      {output === undefined || output === null ? null : (
        <>
          <h2>Result</h2>
          <JsonView value={output} open={3} />
        </>
      )}
      {error ? <Notice>{error}</Notice> : null}
    </>
  );
}

const tookOf = (s: RecordedSpan): string =>
  s.ended_at ? duration(new Date(s.ended_at).getTime() - new Date(s.started_at).getTime()) : "";

const statuses: Record<RecordedSpan["status"], { text: string; kind: "ok" | "bad" | "warn" }> = {
  running: { text: "running", kind: "warn" },
  success: { text: "done", kind: "ok" },
  error: { text: "failed", kind: "bad" },
  interrupted: { text: "interrupted", kind: "warn" },
  canceled: { text: "stopped", kind: "warn" },
  unfinished: { text: "unfinished", kind: "warn" },
};

function Status({ span }: { span: RecordedSpan }) {
  const { text, kind } = statuses[span.status];
  return <span className={"badge " + kind}>{text}</span>;
}

function Outcome({ call, running }: { call: Delegated; running: boolean }) {
  if (call.failed) return <span className="badge bad">failed</span>;
  if (call.result !== null) return <span className="badge ok">done</span>;
  return <span className="badge warn">{running ? "running" : "no result yet"}</span>;
}
