// Two runs with the same input, side by side: of two assistants on new threads, or from two checkpoints on copies of a
// thread.
import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { useAssistant, useAssistants, useConnection, useSchemas } from "../../app/connection";
import { go, useLocation } from "../../app/location";
import { modes } from "../../data/client";
import { diffOf } from "../../data/diff";
import { messagesKey } from "../../data/messages";
import { looks, statusOfSession } from "../../data/status";
import { Session } from "../../data/thread";
import { isRunning, type SessionState } from "../../data/types";
import { blank, type AnySchema } from "../../schema/schema";
import { Button } from "../../ui/Button";
import { JsonEditor } from "../../ui/JsonEditor";
import { parse, pretty } from "../../ui/json";
import { JsonView } from "../../ui/JsonView";
import { Notice } from "../../ui/States";
import { useTell } from "../../ui/Toast";
import { duration, short } from "../../ui/format";
import { useNow } from "../../ui/useNow";
import { MessageLine } from "../timeline/Changes";
import { Differences } from "../timeline/Differences";
import { withRecorded } from "../trace/merge";
import { dollars, liveSpans, totalsOf } from "../trace/spans";
import { useRecording } from "../trace/useRecording";
import "./compare.css";

export default function SideBySide() {
  const at = useLocation();
  const { client, url } = useConnection();
  const { data: assistants = [] } = useAssistants();
  const first = useAssistant();
  const forks = !!at.thread && !!at.checkpoint && !!at.with;
  const second =
    assistants.find((a) => a.assistant_id === at.other || a.graph_id === at.other) ??
    (forks ? first : (assistants.find((a) => a !== first && a.graph_id === first?.graph_id) ?? first));
  const left = useThread(at.left);
  const right = useThread(at.right);
  const tell = useTell();
  const [draft, setDraft] = useState<string | null>(null);
  const [starting, setStarting] = useState(false);
  // The input is that of the linked run, or of the runs that are shown.
  const linked = at.thread && at.run ? { thread: at.thread, run: at.run } : undefined;
  const { data: schemas } = useSchemas(linked || at.left ? undefined : first?.assistant_id);
  const schema = schemas?.input_schema as AnySchema;
  const sent = useQuery({
    queryKey: [url, "input of", linked?.thread, linked?.run],
    queryFn: () => client.run(linked!.thread, linked!.run),
    enabled: !!linked,
    staleTime: Infinity,
  });
  const kwargs = linked ? sent.data?.kwargs : left?.run?.kwargs;
  const input = kwargs && "input" in kwargs ? kwargs.input : undefined;
  const text = draft ?? pretty(input !== undefined ? input : forks ? null : blank(schema, schema));
  const parsed = parse(text);
  const running = [left, right].some((s) => s && isRunning(s));
  const ended = left?.run && right?.run && !running;
  const changes = useMemo(() => (ended ? diffOf(left.values, right.values) : []), [ended, left?.values, right?.values]);

  const start = async () => {
    if (!first || !second || parsed.error) return;
    setStarting(true);
    const side = async () => (forks ? client.threads.copy(at.thread!) : client.threads.create()) as Promise<unknown>;
    await tell.attempt(async () => {
      const threads = (await Promise.all([side(), side()])) as { thread_id: string }[];
      const [a, b] = threads.map((t) => t.thread_id) as [string, string];
      const from = (id: string | null) => (forks ? { checkpointId: id } : {});
      const common = { input: parsed.value ?? null, streamMode: [...modes], streamSubgraphs: true };
      await Promise.all([
        client.start(a, first.assistant_id, { ...common, ...from(at.checkpoint) }),
        client.start(b, second.assistant_id, { ...common, ...from(at.with) }),
      ]);
      go({ left: a, right: b, assistant: first.assistant_id, other: second.assistant_id });
    });
    setStarting(false);
  };

  return (
    <div className="sides">
      <section className="sides-input" aria-label="Input of both runs">
        <h2>Side by side</h2>
        <p className="muted small">
          {forks
            ? `The same input from two checkpoints of thread ${short(at.thread!)}, each on a copy of the thread.`
            : "The same input for two assistants, each on a new thread."}
        </p>
        <JsonEditor label="Input of both runs as JSON" value={text} onChange={setDraft} onSubmit={() => void start()} />
        {parsed.error ? (
          <p className="run-wrong" role="alert">
            {parsed.error}
          </p>
        ) : null}
        <Button kind="primary" disabled={starting || running || !!parsed.error} onClick={() => void start()}>
          Run both
        </Button>
      </section>
      <div className="sides-pair">
        {(["Left", "Right"] as const).map((side) => {
          const isLeft = side === "Left";
          const chosen = isLeft ? first : second;
          const checkpoint = isLeft ? at.checkpoint : at.with;
          return (
            <section key={side} className="panel sides-side" aria-label={side}>
              <header className="panel-head">
                <label className="grow">
                  <span className="hidden">{side} assistant</span>
                  <select
                    className="input"
                    value={chosen?.assistant_id ?? ""}
                    onChange={(e) => go(isLeft ? { assistant: e.target.value } : { other: e.target.value }, "replace")}
                  >
                    {assistants.map((a) => (
                      <option key={a.assistant_id} value={a.assistant_id}>
                        {a.name === a.graph_id ? a.name : `${a.name} (${a.graph_id})`}
                      </option>
                    ))}
                  </select>
                </label>
                {forks && checkpoint ? <span className="mono small">{checkpoint.slice(0, 13)}</span> : null}
              </header>
              <Side state={isLeft ? left : right} />
            </section>
          );
        })}
      </div>
      {ended ? (
        <section className="sides-changes" aria-label="Differences">
          <h2>Differences</h2>
          <Differences changes={changes} />
        </section>
      ) : null}
    </div>
  );
}

const never = () => () => undefined;
const nothing = () => null;

/** useThread follows a thread, and returns its state. */
function useThread(thread: string | null): SessionState | null {
  const { client } = useConnection();
  const session = useMemo(() => {
    // The input is loaded with the run.
    const whole = { ...client, overview: (id: string, limit: number) => client.overview(id, limit, true) };
    return thread ? new Session(whole, thread, () => undefined) : null;
  }, [client, thread]);
  useEffect(() => {
    void session?.load();
    return () => session?.close();
  }, [session]);
  return useSyncExternalStore(session?.subscribe ?? never, session?.getState ?? nothing);
}

function Side({ state }: { state: SessionState | null }) {
  const running = !!state && isRunning(state);
  const run = state?.run?.id ?? "";
  const { recording } = useRecording(state?.threadId ?? null, run, running ? "running" : "ended", running);
  const now = useNow(running ? 200 : 60_000);
  const totals = useMemo(
    () => (state ? totalsOf(withRecorded(liveSpans(state), recording?.spans ?? [], true)) : null),
    [state, recording],
  );
  if (!state || !totals) return <p className="muted sides-body">Not started yet.</p>;
  const status = statusOfSession(state);
  const key = messagesKey(state.values);
  const messages = key ? (state.values[key] as Parameters<typeof MessageLine>[0]["message"][]) : [];
  const known = new Set(messages.map((m) => m.id));
  const arriving = running ? state.messages.map((m) => m.message).filter((m) => !known.has(m.id)) : [];
  return (
    <div className="sides-body">
      <p className="row">
        {status ? <span className={looks[status].badge}>{looks[status].text}</span> : null}
        {state.run ? <span>{duration((state.run.ended ?? now) - state.run.started)}</span> : null}
        {totals.tokens > 0 ? <span>{totals.tokens.toLocaleString()} tokens</span> : null}
        {totals.cost === null ? null : <span>{dollars(totals.cost)}</span>}
        <span className="grow" />
        <Button size="small" onClick={() => go({ view: "trace", thread: state.threadId })}>
          Trace
        </Button>
        <Button size="small" onClick={() => go({ view: "graph", thread: state.threadId })}>
          Thread
        </Button>
      </p>
      {state.status === "missing" ? <Notice>This thread no longer exists.</Notice> : null}
      {state.error ? <Notice>{state.error}</Notice> : null}
      {state.run?.error && status === "failed" ? <Notice>{state.run.error}</Notice> : null}
      {state.questions.length > 0 ? <Notice kind="warn">The run waits for an answer: open its thread.</Notice> : null}
      {[...messages, ...arriving].map((m, i) => (
        <MessageLine key={m.id ?? i} message={m} />
      ))}
      <JsonView value={state.values} open={messages.length > 0 ? 0 : 3} />
    </div>
  );
}
