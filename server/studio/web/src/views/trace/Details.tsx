import type { Message } from "@langchain/langgraph-sdk";
import type { ReactNode } from "react";
import { messageOf } from "../../data/errors";
import { isMessage, textOf } from "../../data/messages";
import type { RecordedSpan } from "../../data/recorded";
import { useSession } from "../../data/session";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { JsonView } from "../../ui/JsonView";
import { Notice } from "../../ui/States";
import { bytes, clock, duration } from "../../ui/format";
import { MessageLine } from "../timeline/Changes";
import { useSpan } from "./useRecording";
import { dollars, messagesIn, usageOf, type Span } from "./spans";
import { tries } from "./Waterfall";

const titles = {
  node: "Node",
  graph: "Subgraph",
  model: "Model call",
  tool: "Tool",
  retriever: "Retrieval",
  retry: "Retried attempt",
} as const;

interface Props {
  run: string;
  span: Span;
  start: number;
  onClose(): void;
}

/** Details shows the input, output, and figures of a span. */
export function Details({ run, span: s, start, onClose }: Props) {
  const usage = s.kind === "model" ? usageOf(s) : null;
  return (
    <aside className="trace-details" aria-label={`Details of ${s.name}`}>
      <header className="panel-head">
        <span className="badge">{titles[s.kind]}</span>
        <h2 className="cut">{s.name}</h2>
        <span className="grow" />
        <Button kind="quiet" size="small" label="Close details" onClick={onClose}>
          <Icon name="close" />
        </Button>
      </header>
      <div className="trace-details-body" tabIndex={0} role="region" aria-label="Details">
        {s.error ? <Notice>{s.error}</Notice> : null}
        {s.record?.status === "unfinished" ? <Notice kind="warn">Its process ended before the call did.</Notice> : null}
        <dl className="trace-facts">
          <Fact name="Began">
            {clock(s.start)} (after {duration(s.start - start)})
          </Fact>
          <Fact name="Duration">
            {s.end === null ? "still running" : duration(s.end - s.start)}
            {s.rough ? " (the whole step)" : ""}
          </Fact>
          {s.first && s.kind === "model" ? (
            <Fact name="First token">after {duration(Math.max(0, s.first - s.start))}</Fact>
          ) : null}
          {tries(s) > 1 ? <Fact name="Attempts">{s.attempt}</Fact> : null}
          {s.model ? <Fact name="Model">{s.model}</Fact> : null}
          {usage ? (
            <Fact name="Tokens">
              {usage.input.toLocaleString()} in, {usage.output.toLocaleString()} out, {usage.total.toLocaleString()} in
              total
            </Fact>
          ) : null}
          {usage?.cost == null ? null : (
            <Fact name="Cost">
              {dollars(usage.cost)}
              {usage.computed ? " by list price" : ""}
            </Fact>
          )}
          {s.ns ? (
            <Fact name="Namespace">
              <span className="mono">{s.ns}</span>
            </Fact>
          ) : null}
          {s.record ? <RecordFacts record={s.record} /> : null}
        </dl>
        {s.record ? (
          <Recorded run={run} span={s} record={s.record} />
        ) : (
          <>
            {s.kind === "model" ? (
              <p className="muted small">
                This call was not recorded. What was sent is unknown: below is the state before its step.
              </p>
            ) : null}
            <Section
              title={s.kind === "model" ? "State before" : s.kind === "tool" ? "Arguments" : "Input"}
              value={s.input}
            />
            <Section
              title={s.kind === "model" ? "Response" : s.kind === "tool" ? "Result" : "Output"}
              value={s.output}
            />
          </>
        )}
      </div>
    </aside>
  );
}

function RecordFacts({ record: r }: { record: RecordedSpan }) {
  return (
    <>
      {r.provider ? <Fact name="Provider">{r.provider}</Fact> : null}
      {r.finish_reason ? <Fact name="Stopped by">{r.finish_reason}</Fact> : null}
      <Fact name="Node">
        {r.path.map((p) => p.node).join(" › ") || r.node}, step {r.step}
      </Fact>
      {r.tool_call_id ? (
        <Fact name="Call ID">
          <span className="mono">{r.tool_call_id}</span>
        </Fact>
      ) : null}
      <Fact name="Span ID">
        <span className="mono">{r.span_id}</span>
      </Fact>
      <Fact name="Trace ID">
        <span className="mono">{r.trace_id}</span>
      </Fact>
    </>
  );
}

interface Sent {
  messages?: Message[];
  tools?: { name: string; description?: string }[];
  output_schema?: unknown;
}

/** Recorded shows what a call sent and received, as the server recorded it. */
function Recorded({ run, span: s, record: r }: { run: string; span: Span; record: RecordedSpan }) {
  const session = useSession();
  const q = useSpan(session.threadId!, run, r);
  if (q.isLoading) return <p className="muted small">Loading what was sent and received…</p>;
  const { input, output } = q.data ?? {};
  const sent = r.kind === "model" ? ((input ?? {}) as Sent) : null;
  const system = sent?.messages?.filter((m) => m.type === "system") ?? [];
  const others = sent?.messages?.filter((m) => m.type !== "system");
  const names = { model: ["Messages sent", "Response"], tool: ["Arguments", "Result"], retriever: ["Query", "Found"] };
  const [asked, got] = names[r.kind];
  return (
    <>
      {q.error ? <Notice>Failed to load what was sent and received: {messageOf(q.error)}</Notice> : null}
      {r.has_content ? null : <Notice kind="warn">The server stores neither inputs nor outputs of calls.</Notice>}
      {r.cut?.length ? (
        <Notice kind="warn">
          The server's limits removed: {r.cut.map((c) => `${c.path} (${bytes(c.bytes)})`).join(", ")}
        </Notice>
      ) : null}
      {system.length > 0 ? (
        <section>
          <h3>System prompt</h3>
          {system.map((m, i) => (
            <pre key={i} className="trace-prompt">
              {textOf(m)}
            </pre>
          ))}
        </section>
      ) : null}
      <Section title={asked!} value={sent ? others : input} />
      {sent?.tools?.length ? (
        <section>
          <h3>Tools offered</h3>
          <p>{sent.tools.map((t) => t.name).join(", ")}</p>
          <div className="trace-json">
            <JsonView value={sent.tools} open={0} />
          </div>
        </section>
      ) : null}
      <Section title="Response schema" value={sent?.output_schema} />
      <Section title="Parameters" value={r.parameters} />
      <Section title={got!} value={output ?? s.output} />
      {r.attempts.length > 1 ? (
        <section>
          <h3>Attempts</h3>
          <ol className="trace-attempts">
            {r.attempts.map((a) => (
              <li key={a.attempt}>
                {a.ended_at
                  ? duration(new Date(a.ended_at).getTime() - new Date(a.started_at).getTime())
                  : "not finished"}
                {a.error ? `: ${a.error}` : ""}
              </li>
            ))}
          </ol>
        </section>
      ) : null}
    </>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

/** The number of messages shown as lines; the JSON below contains all of them. */
const most = 30;

/** Section shows a value, with its messages as lines above the JSON. */
function Section({ title, value }: { title: string; value: unknown }) {
  if (value === undefined || value === null) return null;
  const messages: Message[] = isMessage(value) ? [value] : messagesIn(value);
  return (
    <section>
      <h3>{title}</h3>
      {messages.length > most ? (
        <p className="muted small">
          The last {most} of {messages.length} messages
        </p>
      ) : null}
      {messages.slice(-most).map((m, i) => (
        <MessageLine key={m.id ?? i} message={m} />
      ))}
      <div className="trace-json">
        <JsonView value={value} open={messages.length > 0 ? 0 : 3} />
      </div>
    </section>
  );
}
