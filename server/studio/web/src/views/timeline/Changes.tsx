// The writes of a step, in readable form.
import { memo, useState } from "react";
import type { Message } from "@langchain/langgraph-sdk";
import type { Change } from "../../data/diff";
import { isMessage, textOf } from "../../data/messages";
import { Icon } from "../../ui/Icon";
import { JsonView } from "../../ui/JsonView";
import { oneLine } from "../../ui/format";
import "./timeline.css";

const signs = { added: "+", changed: "~", removed: "−", list: "+" } as const;
const words = { added: "added", changed: "changed", removed: "removed", list: "list changed" } as const;

/** The number of changes and list entries that a card shows before a button for more. */
const page = 8;

export const Changes = memo(function Changes({ changes }: { changes: Change[] }) {
  const [limit, setLimit] = useState(page);
  return (
    <ul className="changes">
      {changes.slice(0, limit).map((c) => (
        <li key={c.key} className="change" data-kind={kindOf(c)}>
          <ChangeView change={c} />
        </li>
      ))}
      {changes.length > limit ? <More left={changes.length - limit} onMore={() => setLimit(limit + 50)} /> : null}
    </ul>
  );
});

/** A list that only lost entries reads as a removal. */
function kindOf(c: Change): Change["kind"] {
  if (c.kind !== "list") return c.kind;
  return c.added.length === 0 ? "removed" : c.removed.length > 0 ? "changed" : "added";
}

function ChangeView({ change: c }: { change: Change }) {
  const kind = kindOf(c);
  return (
    <>
      <span className="change-sign" aria-hidden>
        {signs[kind]}
      </span>
      <span className="hidden">{words[kind]}</span>
      <span className="change-key">{c.key || "value"}</span>
      <div className="change-value">
        {c.kind === "list" ? <ListChange change={c} /> : null}
        {c.kind === "changed" ? (
          <div className={isShort(c.before) && isShort(c.after) ? "change-inline" : undefined}>
            <ValueText value={c.before} gone />
            <ValueText value={c.after} />
          </div>
        ) : null}
        {c.kind === "added" ? <ValueText value={c.after} /> : null}
        {c.kind === "removed" ? <ValueText value={c.before} gone /> : null}
      </div>
    </>
  );
}

function ListChange({ change: c }: { change: Change & { kind: "list" } }) {
  const [limit, setLimit] = useState(page);
  return (
    <>
      {c.at > 0 && c.removed.length === 0 && c.at + c.added.length < c.length ? (
        <span className="muted small">at {c.at}</span>
      ) : null}
      {c.removed.slice(0, limit).map((v, i) => (
        <Entry key={"-" + i} value={v} gone />
      ))}
      {c.added.slice(0, limit).map((v, i) => (
        <Entry key={c.at + i} value={v} />
      ))}
      {Math.max(c.added.length, c.removed.length) > limit ? (
        <More left={Math.max(c.added.length, c.removed.length) - limit} onMore={() => setLimit(limit + 50)} />
      ) : null}
    </>
  );
}

function More({ left, onMore }: { left: number; onMore(): void }) {
  return (
    <button type="button" className="json-fold" onClick={onMore}>
      {left.toLocaleString()} more
    </button>
  );
}

function Entry({ value, gone }: { value: unknown; gone?: boolean }) {
  return isMessage(value) ? <MessageLine message={value} gone={gone} /> : <ValueText value={value} gone={gone} />;
}

/** ValueText shows a value in one line, or an expandable value if it is longer. */
export function ValueText({ value, gone }: { value: unknown; gone?: boolean }) {
  const [open, setOpen] = useState(false);
  if (isMessage(value)) return <MessageLine message={value} gone={gone} />;
  const text = typeof value === "string" ? value : undefined;
  const line = oneLine(text === undefined ? preview(value) : text.slice(0, 400), 160);
  const more =
    text !== undefined ? line !== text : typeof value === "object" && value !== null && Object.keys(value).length > 0;
  const body = open ? (
    <JsonView value={value} open={2} />
  ) : (
    <span className="mono">{text === undefined ? line : `"${line}"`}</span>
  );
  return (
    <div className={gone ? "value gone" : "value"}>
      {gone ? <span className="hidden">was </span> : null}
      {more ? (
        <button type="button" className="json-fold" aria-expanded={open} onClick={() => setOpen(!open)}>
          <span aria-hidden>{open ? "▾" : "▸"}</span>
          <span className="hidden">{open ? "Fold" : "Unfold"}</span>
        </button>
      ) : null}
      {body}
    </div>
  );
}

/** isShort reports whether a value fits next to another one. */
const isShort = (v: unknown): boolean => (typeof v === "string" ? v.length < 24 : typeof v !== "object" || v === null);

/** preview returns the start of a value, without formatting all of a large state. */
function preview(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return value.slice(0, 100);
  if (typeof value !== "object" || value === null) return value;
  if (depth > 2) return "…";
  if (Array.isArray(value)) return value.slice(0, 12).map((v) => preview(v, depth + 1));
  return Object.fromEntries(
    Object.entries(value)
      .slice(0, 12)
      .map(([k, v]) => [k, preview(v, depth + 1)]),
  );
}

const longText = 400;

interface Call {
  id?: string;
  name: string;
  args: unknown;
}

/** MessageLine shows a message: its role, text, and tool calls. */
export const MessageLine = memo(function MessageLine({
  message,
  gone,
  streaming,
}: {
  message: Message;
  gone?: boolean;
  streaming?: boolean;
}) {
  const [whole, setWhole] = useState(false);
  const m = message as Message & { tool_calls?: Call[]; name?: string; status?: string };
  const text = textOf(m);
  // While a response streams, its end is visible.
  const cut = !whole && text.length > longText;
  const shown = !cut ? text : streaming ? "…" + text.slice(-longText) : text.slice(0, longText) + "…";
  return (
    <div className={gone ? "message-line gone" : "message-line"} data-role={m.type}>
      {gone ? <span className="hidden">was </span> : null}
      <span className="message-role">{m.type === "tool" ? (m.name ?? "tool") : m.type}</span>
      <div className="message-text">
        {shown}
        {streaming ? <span className="caret" aria-hidden /> : null}
        {cut && !streaming ? (
          <button type="button" className="json-fold" onClick={() => setWhole(true)}>
            show all
          </button>
        ) : null}
        {(m.tool_calls ?? []).map((c, i) => (
          <div key={c.id ?? i} className="message-call">
            <Icon name="tool" size={12} /> <span className="mono">{c.name}</span>{" "}
            <span className="mono muted">{oneLine(c.args, 200)}</span>
          </div>
        ))}
      </div>
    </div>
  );
});
