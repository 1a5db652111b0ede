import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useConnection } from "../../app/connection";
import { useItemChanges } from "../../data/itemChanges";
import { storeKey, type StoredItem } from "../../data/items";
import { httpStatusOf, messageOf } from "../../data/errors";
import { History } from "./History";
import { Why } from "./Score";
import { Button } from "../../ui/Button";
import { copyText } from "../../ui/copy";
import { Confirm } from "../../ui/Dialog";
import { ago, clock } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { JsonEditor } from "../../ui/JsonEditor";
import { parseObject, pretty } from "../../ui/json";
import { JsonView } from "../../ui/JsonView";
import { Empty, Failed, Loading } from "../../ui/States";
import { useTell } from "../../ui/Toast";
import { useNow } from "../../ui/useNow";
import { useSave } from "../../ui/useSave";

/** ItemDetail shows an item. It loads the item again, because the list may be outdated. */
export function ItemDetail({ item, onGone }: { item: StoredItem; onGone(): void }) {
  const { client, url } = useConnection();
  const q = useQuery({
    queryKey: [...storeKey(url), "item", item.namespace, item.key],
    queryFn: ({ signal }) => client.item(item.namespace, item.key, signal),
    retry: false,
  });
  const gone = q.data === null || httpStatusOf(q.error) === 404;
  if (gone) return <Empty title="Item not found">{item.key} has been deleted.</Empty>;
  if (q.isError && !q.data)
    return <Failed what="Failed to load the item" error={messageOf(q.error)} retry={() => void q.refetch()} />;
  if (!q.data) return <Loading what="the item" />;
  return (
    <Detail
      item={{ ...q.data, meta: q.data.meta ?? item.meta, score: item.score, explanation: item.explanation }}
      onGone={onGone}
    />
  );
}

function Detail({ item, onGone }: { item: StoredItem; onGone(): void }) {
  const changes = useItemChanges();
  const tell = useTell();
  const now = useNow();
  const [editing, setEditing] = useState(false);
  const [asking, ask] = useState(false);
  return (
    <>
      <div className="store-detail-head">
        <p className="store-path">{item.namespace.join(" / ")}</p>
        <div className="row wrap">
          <h2 className="grow store-title">{item.key}</h2>
          <Button
            size="small"
            onClick={() => void tell.attempt(() => copyText(pretty(item.value)).then(() => tell("Value copied")))}
          >
            <Icon name="copy" size={14} /> Copy
          </Button>
          <Button size="small" onClick={() => setEditing(true)} disabled={editing}>
            <Icon name="edit" size={14} /> Edit
          </Button>
          <Button size="small" kind="danger" onClick={() => ask(true)}>
            <Icon name="trash" size={14} /> Delete
          </Button>
        </div>
        <p className="muted small">
          <span title={clock(item.createdAt)}>Created {ago(item.createdAt, now)}</span> ·{" "}
          <span title={clock(item.updatedAt)}>updated {ago(item.updatedAt, now)}</span>
        </p>
      </div>
      <div className="store-detail-body">
        {item.explanation && typeof item.score === "number" ? (
          <Why score={item.score} explanation={item.explanation} />
        ) : null}
        {editing ? <Edit item={item} onDone={() => setEditing(false)} /> : <JsonView value={item.value} open={3} />}
        {item.meta ? (
          <section>
            <h3>About this value</h3>
            <JsonView value={item.meta} open={2} />
          </section>
        ) : null}
        <History item={item} />
      </div>
      <Confirm
        title="Delete this item?"
        action="Delete item"
        open={asking}
        onClose={() => ask(false)}
        onConfirm={() =>
          void tell.attempt(async () => {
            onGone();
            await changes.remove(item);
            tell(`Deleted ${item.key}`);
          })
        }
      >
        <p>
          <strong>{item.key}</strong> is deleted from {item.namespace.join(" / ")}.
        </p>
      </Confirm>
    </>
  );
}

function Edit({ item, onDone }: { item: StoredItem; onDone(): void }) {
  const changes = useItemChanges();
  const { busy, save } = useSave();
  const [text, setText] = useState(() => pretty(item.value));
  const { object, error } = parseObject(text);
  const put = () => {
    if (object) void save(() => changes.put(item, object), onDone);
  };
  return (
    <div className="column">
      <JsonEditor label="Value" value={text} onChange={setText} onSubmit={put} />
      {error ? <p className="store-wrong">{error}</p> : null}
      <div className="row">
        <Button kind="primary" busy={busy} disabled={!object} onClick={put}>
          Save
        </Button>
        <Button onClick={onDone}>Cancel</Button>
      </div>
    </div>
  );
}
