import type { Message } from "@langchain/langgraph-sdk";
import { useState, type ReactNode } from "react";
import { textOf } from "../../data/messages";
import { oneLine } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { JsonView } from "../../ui/JsonView";
import type { ToolCall } from "./rows";
import "./chat.css";

// Rows are unmounted when they are scrolled away; expanded ones stay expanded.
const unfolded = new Set<string>();

/** Fold shows its summary, and its children when it is opened. */
export function Fold({
  id,
  summary,
  children,
  className,
  onOpen,
}: {
  id: string;
  summary: ReactNode;
  children: ReactNode;
  className?: string;
  onOpen?: () => void;
}) {
  const [open, setOpen] = useState(() => unfolded.has(id));
  return (
    <details
      className={className ? "chat-fold " + className : "chat-fold"}
      open={open}
      onToggle={(e) => {
        const now = e.currentTarget.open;
        setOpen(now);
        if (!now) return void unfolded.delete(id);
        unfolded.add(id);
        onOpen?.();
      }}
    >
      <summary>
        <Icon name="right" size={12} />
        {summary}
      </summary>
      {open ? <div className="chat-fold-body">{children}</div> : null}
    </details>
  );
}

/** Tool shows a tool call and its result. running means that the run is still running. */
export function Tool({ call, result, running }: { call: ToolCall; result: Message | undefined; running: boolean }) {
  const failed = (result as { status?: string } | undefined)?.status === "error";
  return (
    <Fold
      id={"call " + call.id}
      className="chat-tool"
      summary={
        <>
          <Icon name="tool" size={13} />
          <strong className="mono">{call.name || "…"}</strong>
          <span className="chat-tool-args mono cut">{oneLine(call.args, 100)}</span>
          {failed ? (
            <span className="badge bad">failed</span>
          ) : result ? (
            <span className="badge ok">done</span>
          ) : running ? (
            <span className="spinner" aria-label="running" role="img" />
          ) : (
            <span className="badge warn">no result yet</span>
          )}
        </>
      }
    >
      <h2>Arguments</h2>
      <JsonView value={call.args} open={3} />
      {result ? (
        <>
          <h2>Result</h2>
          <Result message={result} />
        </>
      ) : null}
    </Fold>
  );
}

/** Result shows a tool's result: JSON as such, and text. */
export function Result({ message }: { message: Message }) {
  const text = textOf(message);
  const value = jsonOf(text);
  return value === undefined ? (
    <pre className="chat-result">{text || "(empty)"}</pre>
  ) : (
    <JsonView value={value} open={2} />
  );
}

function jsonOf(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}
