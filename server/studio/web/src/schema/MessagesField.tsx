// Messages: role, text, and images.
import { useRef } from "react";
import { textOf } from "../data/messages";
import { Button } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { useTell } from "../ui/Toast";
import type { ControlProps } from "./form";
import { isObject } from "./schema";

type Block = Record<string, unknown>;
type Draft = Record<string, unknown>;

const roles = { human: "Human", ai: "AI", system: "System", tool: "Tool" } as const;
type Role = keyof typeof roles;
const byRole: Record<string, Role> = { user: "human", assistant: "ai", developer: "system" };

/** Larger images make runs slow to start and threads slow to load. */
const largest = 5_000_000;

/** MessagesField edits a list of messages. An empty list starts with a user message. */
export function MessagesField({ value, onChange, name }: ControlProps) {
  const given = draftsOf(value);
  const list = given.length ? given : [{ type: "human", content: "" }];
  const set = (i: number, to: Draft) => {
    const next = list.map((m, k) => (k === i ? to : m));
    // A single message without content counts as none.
    onChange(next.length === 1 && !next[0]!.id && next[0]!.content === "" ? undefined : next);
  };
  return (
    <div className="schema-messages">
      {list.map((m, i) => (
        <MessageField
          key={i}
          draft={m}
          onChange={(to) => set(i, to)}
          name={list.length > 1 ? `Message ${i + 1}` : "Message"}
          onRemove={given.length > 1 ? () => onChange(list.filter((_, k) => k !== i)) : undefined}
        />
      ))}
      <Button
        size="small"
        className="schema-add"
        onClick={() => onChange([...list, { type: list.at(-1)?.type === "human" ? "ai" : "human", content: "" }])}
      >
        <Icon name="plus" size={12} /> Add to {name}
      </Button>
    </div>
  );
}

/** draftsOf also accepts the short forms that servers accept: a text, one message, pairs. */
function draftsOf(value: unknown): Draft[] {
  if (value === undefined || value === null) return [];
  const all = Array.isArray(value) ? (value as unknown[]) : [value];
  return all.map((m) =>
    typeof m === "string"
      ? { type: "human", content: m }
      : Array.isArray(m)
        ? { type: byRole[String(m[0])] ?? String(m[0]), content: m[1] }
        : isObject(m)
          ? m
          : { type: "human", content: JSON.stringify(m) },
  );
}

const roleOf = (m: Draft): string => {
  const r = String(m.type ?? m.role ?? "human");
  return byRole[r] ?? r;
};

const blocksOf = (content: unknown): Block[] =>
  Array.isArray(content)
    ? (content as unknown[]).map((b) => (isObject(b) ? b : { type: "text", text: String(b) }))
    : [];

function urlOf(b: Block): string | null {
  if (b.type === "image_url") return isObject(b.image_url) ? String(b.image_url.url ?? "") : String(b.image_url ?? "");
  if (b.type === "image")
    return typeof b.url === "string"
      ? b.url
      : typeof b.data === "string"
        ? `data:${String(b.mime_type ?? "image/png")};base64,${b.data}`
        : null;
  return null;
}

function MessageField({
  draft,
  onChange,
  name,
  onRemove,
}: {
  draft: Draft;
  onChange(to: Draft): void;
  name: string;
  onRemove?: () => void;
}) {
  const file = useRef<HTMLInputElement>(null);
  const tell = useTell();
  const role = roleOf(draft);
  const others = blocksOf(draft.content).filter((b) => b.type !== "text");
  const text = textOf({ content: draft.content as string });
  const set = (to: { text?: string; others?: Block[] }) => {
    const t = to.text ?? text;
    const rest = to.others ?? others;
    onChange({ ...draft, content: rest.length ? [...(t ? [{ type: "text", text: t }] : []), ...rest] : t });
  };
  const attach = async (files: Iterable<File>) => {
    const added: Block[] = [];
    for (const f of files) {
      if (!f.type.startsWith("image/")) continue;
      if (f.size > largest) tell(`${f.name} is larger than 5 MB, so it was not attached`);
      else added.push({ type: "image_url", image_url: { url: await dataUrl(f) } });
    }
    if (added.length) set({ others: [...others, ...added] });
  };
  return (
    <div className="schema-message" role="group" aria-label={name}>
      <div className="row">
        <select
          className="input schema-role"
          aria-label={`Role of ${name.toLowerCase()}`}
          value={role}
          onChange={(e) => {
            const { role: _, ...rest } = draft;
            onChange({ ...rest, type: e.target.value });
          }}
        >
          {role in roles ? null : <option value={role}>{role}</option>}
          {Object.entries(roles).map(([id, label]) => (
            <option key={id} value={id}>
              {label}
            </option>
          ))}
        </select>
        {role === "tool" ? (
          <input
            className="input schema-key"
            aria-label={`Tool call id of ${name.toLowerCase()}`}
            placeholder="Tool call id"
            value={String(draft.tool_call_id ?? "")}
            onChange={(e) => onChange({ ...draft, tool_call_id: e.target.value })}
          />
        ) : null}
        <span className="grow" />
        <Button
          kind="quiet"
          size="small"
          label={`Attach an image to ${name.toLowerCase()}`}
          onClick={() => file.current?.click()}
        >
          <Icon name="image" size={14} />
        </Button>
        {onRemove ? (
          <Button kind="quiet" size="small" label={`Remove ${name.toLowerCase()}`} onClick={onRemove}>
            <Icon name="trash" size={12} />
          </Button>
        ) : null}
        <input
          ref={file}
          type="file"
          accept="image/*"
          multiple
          hidden
          aria-label={`Image for ${name.toLowerCase()}`}
          onChange={(e) => {
            void attach([...(e.target.files ?? [])]);
            e.target.value = "";
          }}
        />
      </div>
      <textarea
        className="input schema-text"
        rows={2}
        aria-label={name}
        value={text}
        onChange={(e) => set({ text: e.target.value })}
        onPaste={(e) => {
          const files = [...e.clipboardData.files];
          if (files.length === 0) return;
          e.preventDefault();
          void attach(files);
        }}
      />
      {others.length ? (
        <div className="schema-images">
          {others.map((b, i) => (
            <Attachment
              key={i}
              block={b}
              label={`Remove attachment ${i + 1}`}
              onRemove={() => set({ others: others.filter((_, k) => k !== i) })}
            />
          ))}
        </div>
      ) : null}
    </div>
  );
}

function Attachment({ block, label, onRemove }: { block: Block; label: string; onRemove(): void }) {
  const url = urlOf(block);
  return (
    <span className="schema-image">
      {/* Images from other origins are only named: the page does not load them. */}
      {url?.startsWith("data:") ? (
        <img src={url} alt="Attached" />
      ) : (
        <span className="badge">{url ?? String(block.type)}</span>
      )}
      <Button size="small" label={label} onClick={onRemove}>
        <Icon name="close" size={10} />
      </Button>
    </span>
  );
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`Cannot read ${file.name}`));
    reader.readAsDataURL(file);
  });
}
