import type { Message } from "@langchain/langgraph-sdk";
import { memo, useEffect, useRef } from "react";
import { textOf } from "../../data/messages";
import { Button } from "../../ui/Button";
import { copyText } from "../../ui/copy";
import { Icon } from "../../ui/Icon";
import { JsonView } from "../../ui/JsonView";
import { Markdown } from "../../ui/Markdown";
import { shows } from "../../ui/markdown";
import { useTell } from "../../ui/Toast";
import { partsOf, usageOf, type Part } from "./content";
import { callsOf, type Row } from "./rows";
import { Fold, Result, Tool } from "./ToolCalls";

export interface Actions {
  edit(id: string | null, text?: string): void;
  resend(message: Message, text: string): void;
  regenerate(message: Message): void;
  show(checkpoint: string): void;
}

interface Props {
  row: Row;
  running: boolean;
  /** The text of the message while it is edited. */
  editing: string | null;
  actions: Actions;
}

export const MessageRow = memo(function MessageRow({ row, running, editing, actions }: Props) {
  const { message } = row;
  switch (message.type) {
    case "human":
      return (
        <div className="chat-human">
          {editing === null ? (
            <div className="chat-bubble">
              {partsOf(message).map((p, i) =>
                p.kind === "text" ? (
                  <p key={i}>{p.text}</p>
                ) : (
                  <PartView key={i} part={p} id={row.key} growing={false} />
                ),
              )}
            </div>
          ) : (
            <EditForm
              text={editing}
              onChange={(t) => actions.edit(row.key, t)}
              onCancel={() => actions.edit(null)}
              onSend={() => actions.resend(message, editing)}
            />
          )}
          {editing === null ? <Foot row={row} running={running} actions={actions} /> : null}
        </div>
      );
    case "ai":
      return (
        <div className="chat-ai">
          {row.from ? <span className="badge violet chat-from">{row.from}</span> : null}
          {partsOf(message).map((p, i) => (
            <PartView key={i} part={p} id={row.key + i} growing={row.growing} />
          ))}
          {callsOf(message).map((c, i) => (
            <Tool key={c.id || i} call={c} result={row.results[i]} running={running} />
          ))}
          <Foot row={row} running={running} actions={actions} />
        </div>
      );
    case "tool":
      return (
        <div className="chat-ai">
          <Fold
            id={"result " + row.key}
            className="chat-tool"
            summary={
              <>
                <Icon name="tool" size={13} />
                <span>
                  Result of <strong className="mono">{message.name ?? "a tool"}</strong>
                </span>
              </>
            }
          >
            <Result message={message} />
          </Fold>
        </div>
      );
    default:
      return (
        <div className="chat-ai">
          <Fold
            id={"system " + row.key}
            summary={
              <span className="muted">{message.type === "system" ? "System message" : message.type + " message"}</span>
            }
          >
            <Markdown text={textOf(message)} />
          </Fold>
        </div>
      );
  }
});

function PartView({ part, id, growing }: { part: Part; id: string; growing: boolean }) {
  switch (part.kind) {
    case "text":
      return <Markdown text={part.text} growing={growing} />;
    case "reasoning":
      return (
        <Fold
          id={"reasoning " + id}
          className="chat-reasoning"
          summary={<span>{growing ? "Reasoning…" : "Reasoning"}</span>}
        >
          <Markdown text={part.text} growing={growing} />
        </Fold>
      );
    case "image":
      // The page's policy allows no images from other origins.
      if (shows(part.src)) return <img className="chat-image" src={part.src} alt="Attached" />;
      if (!/^https?:/i.test(part.src)) return <span className="muted">{part.src}</span>;
      return (
        <a href={part.src} target="_blank" rel="noopener noreferrer">
          {part.src}
        </a>
      );
    case "other":
      return (
        <div className="chat-other">
          <JsonView value={part.value} open={1} />
        </div>
      );
  }
}

/** Foot shows the actions for a message. */
function Foot({ row, running, actions }: Pick<Props, "row" | "running" | "actions">) {
  const tell = useTell();
  const { message, origin } = row;
  const usage = usageOf(message);
  const text = textOf(message);
  const copy = () =>
    tell.attempt(async () => {
      await copyText(text);
      tell("Copied");
    });
  if (row.growing) return null;
  return (
    <div className="chat-foot">
      {row.lost ? <span className="chat-lost">Not saved: the run ended before this message was complete</span> : null}
      {origin && origin.branches.length > 1 ? (
        <Branches branches={origin.branches} at={origin.at} disabled={running} show={actions.show} />
      ) : null}
      {usage ? (
        <span
          className="chat-usage"
          title={`${usage.input.toLocaleString()} tokens in, ${usage.output.toLocaleString()} out`}
        >
          {usage.input.toLocaleString()} in · {usage.output.toLocaleString()} out
        </span>
      ) : null}
      <span className="chat-actions">
        {text ? (
          <Button kind="quiet" size="small" label="Copy message" onClick={() => void copy()}>
            <Icon name="copy" size={14} />
          </Button>
        ) : null}
        {message.type === "human" && !row.lost ? (
          <Button
            kind="quiet"
            size="small"
            label="Edit and resend"
            disabled={running}
            onClick={() => actions.edit(row.key, text)}
          >
            <Icon name="edit" size={14} />
          </Button>
        ) : null}
        {message.type === "ai" && !row.lost ? (
          <Button
            kind="quiet"
            size="small"
            label="Regenerate"
            disabled={running}
            onClick={() => actions.regenerate(message)}
          >
            <Icon name="refresh" size={14} />
          </Button>
        ) : null}
      </span>
    </div>
  );
}

function Branches({
  branches,
  at,
  disabled,
  show,
}: {
  branches: string[];
  at: number;
  disabled: boolean;
  show(checkpoint: string): void;
}) {
  return (
    <span className="chat-branches" role="group" aria-label="Branches">
      <Button
        kind="quiet"
        size="small"
        label="Previous branch"
        disabled={disabled || at <= 0}
        onClick={() => show(branches[at - 1]!)}
      >
        <Icon name="left" size={12} />
      </Button>
      <span>
        {at + 1}/{branches.length}
      </span>
      <Button
        kind="quiet"
        size="small"
        label="Next branch"
        disabled={disabled || at >= branches.length - 1}
        onClick={() => show(branches[at + 1]!)}
      >
        <Icon name="right" size={12} />
      </Button>
    </span>
  );
}

function EditForm({
  text,
  onChange,
  onCancel,
  onSend,
}: {
  text: string;
  onChange(text: string): void;
  onCancel(): void;
  onSend(): void;
}) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current?.focus(), []);
  return (
    <form
      className="chat-edit"
      onSubmit={(e) => {
        e.preventDefault();
        if (text.trim()) onSend();
      }}
    >
      <textarea
        ref={field}
        className="input"
        rows={Math.min(10, text.split("\n").length + 1)}
        aria-label="Edited message"
        value={text}
        onChange={(e) => onChange(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "Escape") onCancel();
          if (e.key !== "Enter" || e.shiftKey || e.nativeEvent.isComposing) return;
          e.preventDefault();
          if (text.trim()) onSend();
        }}
      />
      <div className="row">
        <span className="muted small grow">Resends it on a new branch.</span>
        <Button size="small" onClick={onCancel}>
          Cancel
        </Button>
        <Button size="small" kind="primary" type="submit" disabled={!text.trim()}>
          Resend
        </Button>
      </div>
    </form>
  );
}
