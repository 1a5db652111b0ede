import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef } from "react";
import { useConnection, useIsTreadle } from "../../app/connection";
import { sameItem, storeKey, type StoredItem } from "../../data/items";
import { messageOf } from "../../data/errors";
import { ago, clock, oneLine } from "../../ui/format";
import { Empty, Failed, Loading, Notice } from "../../ui/States";
import { useNow } from "../../ui/useNow";
import { aboutScores, Score } from "./Score";

const pageSize = 50;
const rowHeight = 56;

interface ItemQuery {
  namespace: string[];
  query: string;
  filter?: Record<string, unknown>;
}

function useSearch({ namespace, query, filter }: ItemQuery) {
  const { client, url } = useConnection();
  const explain = useIsTreadle() && query !== "";
  return useInfiniteQuery({
    queryKey: [...storeKey(url), "items", namespace, query, filter, explain],
    queryFn: async ({ pageParam, signal }): Promise<StoredItem[]> => {
      if (!explain)
        return (
          await client.store.searchItems(namespace, {
            query: query || undefined,
            filter,
            limit: pageSize,
            offset: pageParam,
            signal,
          })
        ).items;
      return client.explainItems(namespace, { query, filter, limit: pageSize, offset: pageParam }, signal);
    },
    initialPageParam: 0,
    getNextPageParam: (last, pages) => (last.length < pageSize ? undefined : pages.length * pageSize),
    placeholderData: keepPreviousData,
  });
}

interface Props extends ItemQuery {
  chosen: Pick<StoredItem, "namespace" | "key"> | null;
  onChoose(item: StoredItem): void;
}

/** Items shows the items of a namespace and of the namespaces below it. */
export function Items({ chosen, onChoose, ...search }: Props) {
  const q = useSearch(search);
  const found = q.data?.pages.flat() ?? [];
  // Without a query, servers differ in their order.
  const items = search.query ? found : found.sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1));
  if (q.isPending) return <Loading what="items" />;
  if (q.isError && !q.data)
    return <Failed what="Failed to load items" error={messageOf(q.error)} retry={() => void q.refetch()} />;
  const top = items.reduce<number | null>(
    (most, i) => (typeof i.score === "number" ? Math.max(most ?? 0, i.score) : most),
    null,
  );
  const searching = !!search.query || !!search.filter;
  if (items.length === 0)
    return searching ? (
      <Empty title="No results">No item here matches the query and the filter.</Empty>
    ) : (
      <Empty title={search.namespace.length ? "No items here" : "The store is empty"}>
        Graphs store items while they run. You can also create one here.
      </Empty>
    );
  return (
    <>
      {q.isError ? <Notice kind="warn">{messageOf(q.error)} You see what was loaded before.</Notice> : null}
      {search.query ? <p className="store-about">{aboutScores(top, items)}</p> : null}
      <Rows
        items={items}
        top={top ?? 0}
        base={search.namespace}
        chosen={chosen}
        onChoose={onChoose}
        onEnd={() => q.hasNextPage && !q.isFetching && void q.fetchNextPage()}
        stale={q.isPlaceholderData}
      />
    </>
  );
}

function Rows({
  items,
  top,
  base,
  chosen,
  onChoose,
  onEnd,
  stale,
}: {
  items: StoredItem[];
  top: number;
  base: string[];
  chosen: Props["chosen"];
  onChoose(item: StoredItem): void;
  onEnd(): void;
  stale: boolean;
}) {
  const now = useNow();
  const scroller = useRef<HTMLDivElement>(null);
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 8,
  });
  const shown = rows.getVirtualItems();
  const last = shown.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= items.length - 5) onEnd();
  }, [last, items.length, onEnd]);
  return (
    <div className="store-items" ref={scroller} data-stale={stale || undefined}>
      <ul aria-label="Items" style={{ height: rows.getTotalSize() }}>
        {shown.map((row) => {
          const item = items[row.index]!;
          const below = item.namespace.slice(base.length).join(" / ");
          return (
            <li
              key={row.key}
              aria-setsize={items.length}
              aria-posinset={row.index + 1}
              style={{ height: rowHeight, transform: `translateY(${row.start}px)` }}
            >
              <button
                type="button"
                className="store-item"
                aria-current={sameItem(item, chosen) ? "true" : undefined}
                onClick={() => onChoose(item)}
              >
                <span className="row">
                  <span className="store-key cut">
                    {below ? <span className="muted">{below} / </span> : null}
                    {item.key}
                  </span>
                  <span className="grow" />
                  {typeof item.score === "number" ? <Score score={item.score} top={top} /> : null}
                  <span className="muted small store-time" title={clock(item.updatedAt)}>
                    {ago(item.updatedAt, now)}
                  </span>
                </span>
                <span className="store-value cut">{oneLine(item.value, 160)}</span>
              </button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}
