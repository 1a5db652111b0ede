import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useConnection } from "../../app/connection";
import { storeKey } from "../../data/items";
import { messageOf } from "../../data/errors";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";

const pageSize = 200;
export const pathOf = (ns: string[]) => ns.join("\0");

/** useChildren returns the namespaces one label below a prefix. */
function useChildren(prefix: string[], enabled: boolean) {
  const { client, url } = useConnection();
  return useInfiniteQuery({
    queryKey: [...storeKey(url), "namespaces", prefix],
    queryFn: async ({ pageParam, signal }) =>
      (
        await client.store.listNamespaces({
          prefix: prefix.length ? prefix : undefined,
          maxDepth: prefix.length + 1,
          limit: pageSize,
          offset: pageParam,
          signal,
        })
      ).namespaces,
    initialPageParam: 0,
    getNextPageParam: (last, pages) => (last.length < pageSize ? undefined : pages.length * pageSize),
    enabled,
    select: (d) =>
      [
        ...new Map(
          d.pages.flat().flatMap((ns) => (ns.length === prefix.length + 1 ? [[pathOf(ns), ns]] : [])),
        ).values(),
      ] as string[][],
  });
}

interface Props {
  chosen: string[];
  onChoose(namespace: string[]): void;
}

/** Namespaces shows the namespaces of the store as a tree, whose levels are loaded when they are expanded. */
export function Namespaces({ chosen, onChoose }: Props) {
  return (
    <div className="store-tree" role="group" aria-label="Namespaces">
      <div className="store-node">
        <button
          type="button"
          className="store-name"
          aria-current={chosen.length === 0 ? "true" : undefined}
          onClick={() => onChoose([])}
        >
          All items
        </button>
      </div>
      <Level prefix={[]} chosen={chosen} onChoose={onChoose} />
    </div>
  );
}

function Level({ prefix, chosen, onChoose }: Props & { prefix: string[] }) {
  const q = useChildren(prefix, true);
  if (q.isPending)
    return (
      <p className="store-wait" role="status">
        <span className="spinner" aria-hidden /> Loading…
      </p>
    );
  if (q.isError && !q.data)
    return (
      <p className="store-wait" role="alert">
        {messageOf(q.error)}{" "}
        <Button size="small" onClick={() => void q.refetch()}>
          Try again
        </Button>
      </p>
    );
  return (
    <>
      <ul>
        {q.data?.map((ns) => (
          <Node key={pathOf(ns)} namespace={ns} chosen={chosen} onChoose={onChoose} />
        ))}
      </ul>
      {q.hasNextPage ? (
        <Button size="small" kind="quiet" busy={q.isFetchingNextPage} onClick={() => void q.fetchNextPage()}>
          More namespaces
        </Button>
      ) : null}
    </>
  );
}

function Node({ namespace, chosen, onChoose }: Props & { namespace: string[] }) {
  const current = pathOf(chosen) === pathOf(namespace);
  const [open, setOpen] = useState(
    chosen.length > namespace.length && pathOf(chosen.slice(0, namespace.length)) === pathOf(namespace),
  );
  const children = useChildren(namespace, open);
  const name = namespace.at(-1)!;
  // Whether a namespace has children is unknown until they are loaded.
  const leaf = children.data?.length === 0;
  return (
    <li>
      <div className="store-node">
        {leaf ? (
          <span className="store-fold" />
        ) : (
          <button
            type="button"
            className="store-fold"
            aria-expanded={open}
            aria-label={`${open ? "Close" : "Open"} ${namespace.join(" / ")}`}
            onClick={() => setOpen(!open)}
          >
            <Icon name={open ? "down" : "right"} size={12} />
          </button>
        )}
        <button
          type="button"
          className="store-name"
          aria-current={current ? "true" : undefined}
          title={namespace.join(" / ")}
          onClick={() => {
            setOpen(true);
            onChoose(namespace);
          }}
        >
          {name}
        </button>
      </div>
      {open && !leaf ? <Level prefix={namespace} chosen={chosen} onChoose={onChoose} /> : null}
    </li>
  );
}
