import { memo, useState } from "react";
import { go, hrefOf } from "../../app/location";
import { useItemChanges } from "../../data/itemChanges";
import { Button } from "../../ui/Button";
import { Confirm } from "../../ui/Dialog";
import { ago, clock, oneLine, short } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { JsonEditor } from "../../ui/JsonEditor";
import { parseObject, pretty } from "../../ui/json";
import { useTell } from "../../ui/Toast";
import { useSave } from "../../ui/useSave";
import { Score } from "../store/Score";
import { withText, type Remembered } from "./memories";

/** MemoryCard shows one memory: its text, its source, and its actions. */
export const MemoryCard = memo(function MemoryCard({
  memory,
  showKind,
  top,
  now,
}: {
  memory: Remembered;
  showKind: boolean;
  top: number;
  now: number;
}) {
  const { item, text, fields } = memory;
  const changes = useItemChanges();
  const tell = useTell();
  const [editing, setEditing] = useState(false);
  const [asking, ask] = useState(false);
  const title = oneLine(text ?? item.value, 60);
  return (
    <article className="memory-card" aria-label={title}>
      {editing ? (
        <Edit memory={memory} onDone={() => setEditing(false)} />
      ) : (
        <>
          <div className="memory-main">
            <div className="grow">
              {text !== null ? <p className="memory-text">{text}</p> : null}
              {fields.length ? (
                <dl className="memory-fields">
                  {fields.map(([k, v]) => (
                    <div key={k}>
                      <dt>{k}</dt>
                      <dd>
                        {Array.isArray(v) && v.every((e) => typeof e !== "object") ? v.join(", ") : oneLine(v, 400)}
                      </dd>
                    </div>
                  ))}
                </dl>
              ) : null}
            </div>
            <div className="memory-actions">
              <Button kind="quiet" size="small" label="Edit" onClick={() => setEditing(true)}>
                <Icon name="edit" size={14} />
              </Button>
              <Button kind="quiet" size="small" label="Forget" onClick={() => ask(true)}>
                <Icon name="trash" size={14} />
              </Button>
            </div>
          </div>
          <About memory={memory} showKind={showKind} top={top} now={now} />
        </>
      )}
      <Confirm
        title="Forget this?"
        action="Forget"
        open={asking}
        onClose={() => ask(false)}
        onConfirm={() =>
          void tell.attempt(async () => {
            await changes.remove(item);
            tell("Forgotten");
          })
        }
      >
        <p className="memory-quote">{title}</p>
        <p>The item {item.key} is deleted from the store, and agents no longer recall it.</p>
      </Confirm>
    </article>
  );
});

function About({ memory, showKind, top, now }: { memory: Remembered; showKind: boolean; top: number; now: number }) {
  const { item, source } = memory;
  const ended = !!memory.until && new Date(memory.until).getTime() <= now;
  return (
    <div className="memory-about">
      {typeof item.score === "number" ? <Score score={item.score} top={top} /> : null}
      {showKind ? <span className="badge violet">{memory.kind}</span> : null}
      {memory.from ? <span className="badge">from {day(memory.from)}</span> : null}
      {memory.until ? (
        <span className={ended ? "badge warn" : "badge"}>
          {ended ? `ended ${day(memory.until)}` : `until ${day(memory.until)}`}
        </span>
      ) : null}
      {memory.confidence !== undefined ? (
        <span className="badge" title="How sure the model was">
          {Math.round(memory.confidence * 100)} % sure
        </span>
      ) : null}
      {memory.importance !== undefined ? (
        <span className="badge" title="How important the model thought it is">
          importance {memory.importance}
        </span>
      ) : null}
      <span className="memory-source">
        {source.thread ? (
          <>
            Learned in{" "}
            <a
              href={hrefOf({ view: "graph", thread: source.thread, checkpoint: source.checkpoint ?? null })}
              onClick={(e) => {
                if (e.metaKey || e.ctrlKey || e.shiftKey) return;
                e.preventDefault();
                go({ view: "graph", thread: source.thread, checkpoint: source.checkpoint ?? null });
              }}
            >
              thread {short(source.thread)}
            </a>
          </>
        ) : (
          "Source not recorded"
        )}
        {source.model ? ` by ${source.model}` : ""}
        {" · "}
        <span title={`Created ${clock(item.createdAt)}, updated ${clock(item.updatedAt)}`}>
          {ago(item.updatedAt, now)}
        </span>
      </span>
      {source.reason ? <p className="memory-reason">Changed because: {source.reason}</p> : null}
    </div>
  );
}

const day = (time: string) =>
  new Date(time).toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });

function Edit({ memory, onDone }: { memory: Remembered; onDone(): void }) {
  const { item, path } = memory;
  const plain = memory.text !== null;
  const changes = useItemChanges();
  const { busy, save } = useSave();
  const [text, setText] = useState(() => memory.text ?? pretty(item.value));
  const { object, error } = plain ? { object: withText(item.value, path, text) } : parseObject(text);
  const ready = !!object && (!plain || text.trim() !== "");
  const put = () => {
    if (ready) void save(() => changes.put(item, object), onDone);
  };
  return (
    <div className="column">
      {plain ? (
        <textarea
          className="input"
          aria-label="Memory"
          rows={3}
          value={text}
          autoFocus
          onChange={(e) => setText(e.target.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) put();
            if (e.key === "Escape") onDone();
          }}
        />
      ) : (
        <JsonEditor label="Memory" value={text} onChange={setText} onSubmit={put} />
      )}
      {error ? <p className="memory-wrong">{error}</p> : null}
      <div className="row">
        <Button kind="primary" size="small" busy={busy} disabled={!ready} onClick={put}>
          Save
        </Button>
        <Button size="small" onClick={onDone}>
          Cancel
        </Button>
      </div>
    </div>
  );
}
