import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useConnection, useIsTreadle } from "../../app/connection";
import { diffOf } from "../../data/diff";
import { messageOf } from "../../data/errors";
import { useItemChanges } from "../../data/itemChanges";
import { storeKey, type ItemChange, type StoredItem } from "../../data/items";
import { Button } from "../../ui/Button";
import { clock } from "../../ui/format";
import { Notice } from "../../ui/States";
import { useTell } from "../../ui/Toast";
import { Changes } from "../timeline/Changes";

const words: Record<ItemChange["kind"], string> = {
  put: "Changed",
  deleted: "Deleted",
  expired: "Expired",
  forgotten: "Forgotten",
};

/** The number of changes shown before a button for more. */
const page = 10;

/** History shows the versions of an item that the store keeps, newest first. Only Treadle's servers return them. */
export function History({ item }: { item: StoredItem }) {
  const { client, url } = useConnection();
  const known = useIsTreadle();
  const changes = useItemChanges();
  const tell = useTell();
  const [limit, setLimit] = useState(page);
  const q = useQuery({
    queryKey: [...storeKey(url), "history", item.namespace, item.key],
    queryFn: () => client.itemHistory(item.namespace, item.key),
    enabled: known,
    retry: false,
  });
  if (q.isError && !q.data) return <Notice kind="warn">Failed to load the history: {messageOf(q.error)}</Notice>;
  if (!q.data) return null;
  const all = q.data;
  return (
    <section aria-label="History">
      <h3>History</h3>
      <ol className="store-history">
        {all.slice(0, limit).map((c, i) => {
          const before = all[i + 1]?.value;
          return (
            <li key={c.at + i}>
              <div className="row">
                <span className="grow small">
                  <strong>{c.kind === "put" && !before ? "Created" : words[c.kind]}</strong>{" "}
                  <span className="muted">{clock(c.at)}</span>
                </span>
                {c.value && i > 0 ? (
                  <Button
                    size="small"
                    onClick={() =>
                      void tell.attempt(
                        async () => (await changes.put({ ...item, meta: c.meta }, c.value!), tell("Restored")),
                      )
                    }
                  >
                    Restore
                  </Button>
                ) : null}
              </div>
              {c.value ? <Changes changes={diffOf(before ?? {}, c.value)} /> : null}
            </li>
          );
        })}
      </ol>
      {all.length > limit ? (
        <Button size="small" kind="quiet" onClick={() => setLimit(limit + 50)}>
          Older versions
        </Button>
      ) : null}
    </section>
  );
}
