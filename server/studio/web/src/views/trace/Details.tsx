import type { Message } from "@langchain/langgraph-sdk";
import type { ReactNode } from "react";
import { isMessage } from "../../data/messages";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { JsonView } from "../../ui/JsonView";
import { Notice } from "../../ui/States";
import { clock, duration } from "../../ui/format";
import { MessageLine } from "../timeline/Changes";
import { dollars, messagesIn, usageOf, type Span } from "./spans";
import { tries } from "./Waterfall";

const titles = {
  node: "Node",
  graph: "Subgraph",
  model: "Model call",
  tool: "Tool",
  retry: "Retried attempt",
} as const;

/** Details shows the input, output, and figures of a span. */
export function Details({ span: s, start, onClose }: { span: Span; start: number; onClose(): void }) {
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
        </dl>
        <Section title={s.kind === "model" ? "Prompt" : s.kind === "tool" ? "Arguments" : "Input"} value={s.input} />
        <Section title={s.kind === "model" ? "Response" : s.kind === "tool" ? "Result" : "Output"} value={s.output} />
      </div>
    </aside>
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
