// What agents remember about people, and where they learned it.
import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useConnection } from "../../app/connection";
import { setParams, useLocation } from "../../app/location";
import { storeKey } from "../../data/items";
import { messageOf } from "../../data/errors";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import { Empty, Failed, Loading, Notice } from "../../ui/States";
import { useDebounced } from "../../ui/useDebounced";
import { useNow } from "../../ui/useNow";
import { aboutScores } from "../store/Score";
import { byKind, ownersOf, remembered, type Owner, type Remembered } from "./memories";
import { MemoryCard } from "./MemoryCard";
import "./memory.css";

const namespacesAtOnce = 1000;
const itemsAtOnce = 100;

function useOwners(all: boolean) {
  const { client, url } = useConnection();
  const q = useInfiniteQuery({
    queryKey: [...storeKey(url), "owners"],
    queryFn: async ({ pageParam, signal }) =>
      (await client.store.listNamespaces({ limit: namespacesAtOnce, offset: pageParam, signal })).namespaces,
    initialPageParam: 0,
    getNextPageParam: (last, pages) => (last.length < namespacesAtOnce ? undefined : pages.length * namespacesAtOnce),
  });
  const owners = useMemo(() => ownersOf(q.data?.pages.flat() ?? [], all), [q.data, all]);
  return { q, owners };
}

export default function Memory() {
  const [all, setAll] = useState(false);
  const { q, owners } = useOwners(all);
  const { user: name } = useLocation().params;
  const setName = (user: string) => setParams({ user }, "push");
  const [search, setSearch] = useState("");
  const owner = owners.find((o) => o.name === name) ?? null;
  if (q.isPending) return <Loading what="memories" />;
  if (q.isError && !q.data)
    return <Failed what="Failed to load the store" error={messageOf(q.error)} retry={() => void q.refetch()} />;
  if (owners.length === 0) return <NoMemories all={all} onAll={() => setAll(true)} />;
  const shown = owners.filter((o) => o.name.toLowerCase().includes(search.trim().toLowerCase()));
  return (
    <div className="memory" data-chosen={owner ? true : undefined}>
      <nav className="panel memory-owners" aria-label="Users">
        <div className="panel-head">
          <h2 className="grow">Users</h2>
          <span className="muted small">
            {owners.length}
            {q.hasNextPage ? "+" : ""}
          </span>
        </div>
        <div className="memory-find">
          <input
            className="input"
            type="search"
            placeholder="Find a user"
            aria-label="Find a user"
            value={search}
            onChange={(e) => setSearch(e.target.value)}
          />
        </div>
        <ul className="panel-body">
          {shown.map((o) => (
            <li key={o.name}>
              <button
                type="button"
                className="memory-owner"
                aria-current={o === owner ? "true" : undefined}
                onClick={() => setName(o.name)}
                title={o.namespaces.map((ns) => ns.join(" / ")).join("\n")}
              >
                <Icon name="person" size={14} />
                <span className="cut">{o.name}</span>
              </button>
            </li>
          ))}
          {shown.length === 0 ? <li className="memory-none">No matching users.</li> : null}
        </ul>
        {q.hasNextPage ? (
          <Button kind="quiet" busy={q.isFetchingNextPage} onClick={() => void q.fetchNextPage()}>
            More users
          </Button>
        ) : null}
        <label className="memory-all">
          <input type="checkbox" checked={all} onChange={(e) => setAll(e.target.checked)} /> All namespaces of the store
        </label>
      </nav>
      <section className="panel memory-panel" aria-label="Memories">
        {owner ? (
          <Memories key={owner.name} owner={owner} onBack={() => setName("")} />
        ) : (
          <Empty title={name ? `No user ${name}` : "No user selected"}>
            Select a user to see what is remembered and where it was learned, and to correct or forget it.
          </Empty>
        )}
      </section>
    </div>
  );
}

function NoMemories({ all, onAll }: { all: boolean; onAll(): void }) {
  return (
    <div className="state memory-empty">
      <h2>No memories yet</h2>
      <p>
        Memories are items of the store in a namespace like <code>memories / ada</code>, where the second label is the
        user. Graphs create them while they run: an agent with <code>memory.Middleware</code> learns from its
        conversations, a <code>memory.StoreManager</code> reads them in a node or in the background, and LangMem's tools
        write the same items.
      </p>
      {all ? null : <Button onClick={onAll}>Search all namespaces</Button>}
    </div>
  );
}

function useMemories(owner: Owner, query: string) {
  const { client, url } = useConnection();
  return useInfiniteQuery({
    queryKey: [...storeKey(url), "memories", owner.namespaces, query],
    queryFn: async ({ pageParam, signal }) => {
      const answers = await Promise.all(
        owner.namespaces.map((ns) =>
          client.store.searchItems(ns, { query: query || undefined, limit: itemsAtOnce, offset: pageParam, signal }),
        ),
      );
      return {
        memories: answers.flatMap((a) => a.items.map(remembered)),
        more: answers.some((a) => a.items.length >= itemsAtOnce),
      };
    },
    initialPageParam: 0,
    getNextPageParam: (last, pages) => (last.more ? pages.length * itemsAtOnce : undefined),
    placeholderData: keepPreviousData,
  });
}

function Memories({ owner, onBack }: { owner: Owner; onBack(): void }) {
  const [query, setQuery] = useState("");
  const settled = useDebounced(query.trim());
  const q = useMemories(owner, settled);
  const memories = useMemo(() => q.data?.pages.flatMap((p) => p.memories) ?? [], [q.data]);
  return (
    <>
      <div className="panel-head">
        <Button kind="quiet" size="small" className="memory-back" onClick={onBack}>
          <Icon name="left" size={14} /> Users
        </Button>
        <h2 className="cut">{owner.name}</h2>
        <span className="muted small cut grow">{owner.namespaces.map((ns) => ns.join(" / ")).join(", ")}</span>
      </div>
      <div className="memory-find">
        <input
          className="input"
          type="search"
          placeholder={`Search what is known about ${owner.name}`}
          aria-label="Search memories"
          value={query}
          onChange={(e) => setQuery(e.target.value)}
        />
      </div>
      <div className="panel-body memory-body">
        {q.isError && q.data ? <Notice kind="warn">{messageOf(q.error)} You see what was loaded before.</Notice> : null}
        {q.isPending ? (
          <Loading what="memories" />
        ) : q.isError && !q.data ? (
          <Failed what="Failed to load memories" error={messageOf(q.error)} retry={() => void q.refetch()} />
        ) : memories.length === 0 ? (
          <Empty title={settled ? "No results" : "No memories"}>
            {settled ? "No memory matches this search." : `All memories about ${owner.name} have been deleted.`}
          </Empty>
        ) : (
          <Cards memories={memories} query={settled} more={q.hasNextPage} />
        )}
        {q.hasNextPage ? (
          <Button busy={q.isFetchingNextPage} onClick={() => void q.fetchNextPage()}>
            Older memories
          </Button>
        ) : null}
      </div>
    </>
  );
}

function Cards({ memories, query, more }: { memories: Remembered[]; query: string; more: boolean }) {
  const now = useNow();
  const top = Math.max(0, ...memories.map((m) => m.item.score ?? 0));
  const keyOf = (m: Remembered) => [...m.item.namespace, m.item.key].join("\0");
  if (query)
    return (
      <>
        <p className="muted small">
          {aboutScores(memories.some((m) => typeof m.item.score === "number") ? top : null)}
        </p>
        {memories.map((m) => (
          <MemoryCard key={keyOf(m)} memory={m} showKind top={top} now={now} />
        ))}
      </>
    );
  return byKind(memories).map(([kind, list]) => (
    <section key={kind} className="memory-kind" aria-label={kind}>
      <h3>
        {kind}{" "}
        <span className="muted">
          {list.length}
          {more ? "+" : ""}
        </span>
      </h3>
      {list.map((m) => (
        <MemoryCard key={keyOf(m)} memory={m} showKind={false} top={top} now={now} />
      ))}
    </section>
  ));
}
