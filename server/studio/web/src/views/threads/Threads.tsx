// The list of threads next to the views of a thread.
import type { Thread, ThreadStatus } from "@langchain/langgraph-sdk";
import { useQueryClient } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useDeferredValue, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { useAssistant, useAssistants, useConnection } from "../../app/connection";
import { go, useLocation } from "../../app/location";
import { messageOf } from "../../data/errors";
import { maxPending, useHasSearch } from "../../data/search";
import { Button } from "../../ui/Button";
import { short } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { Empty, Failed, Notice } from "../../ui/States";
import { useDebounced } from "../../ui/useDebounced";
import { useNow } from "../../ui/useNow";
import { useSteady } from "../../ui/useSteady";
import { ThreadRow } from "./ThreadRow";
import {
  givenName,
  parseSearch,
  statuses,
  statusLabels,
  useFoundThreads,
  useThreads,
  type ThreadFilter,
} from "./threads";
import "./threads.css";

const rowHeight = 50;

/** Threads lists threads; onChoose is called when one is selected. */
export function Threads({ onChoose }: { onChoose(): void }) {
  const assistant = useAssistant();
  // The assistant determines the graph. Without a key, the server returns neither.
  const { data: assistants } = useAssistants();
  const [typed, setTyped] = useState("");
  const [status, setStatus] = useState<ThreadStatus | null>(null);
  const [all, setAll] = useState(false);
  const search = useDeferredValue(typed);
  const { id, metadata, text } = useMemo(() => parseSearch(search), [search]);
  const graph = all ? null : (assistant?.graph_id ?? null);
  const filter: ThreadFilter = { graph, status, metadata, text };
  const choose = (thread: string | null) => {
    go({ thread });
    onChoose();
  };
  return (
    <div className="threads">
      <div className="threads-head">
        <Button onClick={() => choose(null)}>
          <Icon name="plus" /> New thread
        </Button>
        <form
          role="search"
          className="threads-search"
          onSubmit={(e) => {
            e.preventDefault();
            if (id) choose(id);
          }}
        >
          <Icon name="search" size={14} />
          <input
            className="input"
            type="search"
            placeholder="Text, ID, or key:value"
            aria-label="Search threads"
            title="Words of its name, messages, or state, a thread's ID, or pairs key:value of its metadata"
            value={typed}
            onChange={(e) => setTyped(e.target.value)}
            spellCheck={false}
          />
        </form>
        <div className="row">
          <select
            className="input threads-select"
            aria-label="Graph"
            value={all ? "all" : ""}
            onChange={(e) => setAll(e.target.value === "all")}
          >
            <option value="">{assistant?.graph_id ?? "This graph"}</option>
            <option value="all">All graphs</option>
          </select>
          <select
            className="input threads-select"
            aria-label="Status"
            value={status ?? ""}
            onChange={(e) => setStatus((e.target.value || null) as ThreadStatus | null)}
          >
            <option value="">Any status</option>
            {statuses.map((s) => (
              <option key={s} value={s}>
                {statusLabels[s]}
              </option>
            ))}
          </select>
        </div>
      </div>
      {id ? (
        <div className="threads-direct">
          <Button onClick={() => choose(id)}>
            Open thread <span className="mono">{short(id)}</span>
          </Button>
        </div>
      ) : (
        <List
          waiting={!assistants}
          filter={filter}
          onChoose={choose}
          filtered={!!search || !!status}
          onAll={all ? undefined : () => setAll(true)}
        />
      )}
    </div>
  );
}

interface ListProps {
  filter: ThreadFilter;
  onChoose(id: string): void;
  filtered: boolean;
  onAll?: () => void;
}

function List({ waiting, filter, onChoose, filtered, onAll }: ListProps & { waiting: boolean }) {
  const indexed = useHasSearch();
  if (waiting) return <Skeletons />;
  if (filter.text && indexed) return <Found filter={filter} onChoose={onChoose} onAll={onAll} />;
  return <Newest filter={filter} onChoose={onChoose} filtered={filtered} onAll={onAll} />;
}

const noMatch = "No matching threads";

const allGraphs = (onAll: (() => void) | undefined, label: string) =>
  onAll ? <Button onClick={onAll}>{label}</Button> : undefined;

/** Found shows the threads that the server finds by their text. */
function Found({ filter, onChoose, onAll }: Omit<ListProps, "filtered">) {
  const text = useDebounced(filter.text);
  const { threads, query, pending, namesOnly, searching, more } = useFoundThreads({ ...filter, text });
  if (query.isPending || searching) return <Skeletons />;
  if (query.isError && !query.data)
    return <Failed what="Failed to search" error={messageOf(query.error)} retry={() => void query.refetch()} />;
  return (
    <>
      {query.isError ? <Notice>The list may be out of date: {messageOf(query.error)}</Notice> : null}
      {namesOnly ? <Note>This server indexes only the names of threads, so their content is not searched.</Note> : null}
      {pending > 0 ? (
        <Note>
          {pending >= maxPending ? `${maxPending}+ threads` : pending === 1 ? "1 thread" : `${pending} threads`} changed
          just now and may be missing.
        </Note>
      ) : null}
      {threads.length === 0 ? (
        <Empty title={noMatch} action={allGraphs(onAll, "Search all graphs")}>
          No title, input, or state of a thread contains all of these words.
        </Empty>
      ) : (
        <Rows
          threads={threads}
          showGraph={!filter.graph}
          onEnd={more}
          loadingMore={query.isFetchingNextPage}
          onChoose={onChoose}
        />
      )}
    </>
  );
}

const Note = ({ children }: { children: ReactNode }) => (
  <p className="threads-note" role="status">
    {children}
  </p>
);

/** Newest shows the threads that changed last. On servers without a text index, it searches for text among them. */
function Newest({ filter, onChoose, filtered, onAll }: ListProps) {
  const { threads, query, more, loadingMore } = useThreads(filter);
  const shown = useMatching(threads, filter.text);
  if (query.isPending) return <Skeletons />;
  if (query.isError && !query.data)
    return <Failed what="Failed to load threads" error={messageOf(query.error)} retry={() => void query.refetch()} />;
  const note = filter.text ? (
    <Note>
      This server cannot search for text. The list shows matches among the names, IDs, and metadata of the{" "}
      {threads.length} threads that changed last.
    </Note>
  ) : null;
  const error = query.isError ? <Notice>The list may be out of date: {messageOf(query.error)}</Notice> : null;
  const empty = filtered ? (
    <Empty title={noMatch} action={allGraphs(onAll, "Search all graphs")}>
      {filter.text ? null : "No thread has this metadata and status."}
    </Empty>
  ) : (
    <Empty title="No threads yet" action={allGraphs(onAll, "Show all graphs")}>
      A thread starts with the first run{filter.graph ? ` of ${filter.graph}` : ""}.
    </Empty>
  );
  return (
    <>
      {error}
      {note}
      {shown.length === 0 ? (
        empty
      ) : (
        <Rows threads={shown} showGraph={!filter.graph} onEnd={more} loadingMore={loadingMore} onChoose={onChoose} />
      )}
    </>
  );
}

/** useMatching returns the threads with a text in their name, ID, or metadata. */
function useMatching(threads: Thread[], text: string): Thread[] {
  const { url } = useConnection();
  const cache = useQueryClient();
  return useMemo(() => {
    if (!text) return threads;
    const want = text.toLowerCase();
    return threads.filter((t) => {
      const name = givenName(t.metadata) || cache.getQueryData<string>([url, "thread name", t.thread_id]) || "";
      return [name, t.thread_id, JSON.stringify(t.metadata ?? {})].some((s) => s.toLowerCase().includes(want));
    });
  }, [threads, text, cache, url]);
}

function Rows({
  threads: sorted,
  showGraph,
  onEnd,
  loadingMore,
  onChoose,
}: {
  threads: Thread[];
  showGraph: boolean;
  onEnd(): void;
  loadingMore: boolean;
  onChoose(id: string): void;
}) {
  const { thread: current } = useLocation();
  const now = useNow();
  const { items: threads, onPointerMove } = useSteady(sorted, (t) => t.thread_id);
  const scroller = useRef<HTMLDivElement>(null);
  const [focused, setFocused] = useState<number | null>(null);
  const rows = useVirtualizer({
    count: threads.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 8,
    getItemKey: (i) => threads[i]!.thread_id,
  });
  const items = rows.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= threads.length - 10) onEnd();
  }, [last, threads.length, onEnd]);
  const currentAt = threads.findIndex((t) => t.thread_id === current);
  const stop = Math.min(focused ?? Math.max(currentAt, 0), threads.length - 1);
  const move = (to: number) => {
    const at = Math.max(0, Math.min(threads.length - 1, to));
    setFocused(at);
    rows.scrollToIndex(at);
    // The row exists after the list has been rendered at its new position.
    requestAnimationFrame(() =>
      requestAnimationFrame(() => scroller.current?.querySelector<HTMLElement>(`[data-index="${at}"] a`)?.focus()),
    );
  };
  const onKeyDown = (e: React.KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowDown: stop + 1, ArrowUp: stop - 1, Home: 0, End: threads.length - 1 };
    const to = steps[e.key];
    // Keys in a row's menu and dialogs also arrive here, through React's tree.
    if (to === undefined || !(e.target as HTMLElement).closest(".threads-link")) return;
    e.preventDefault();
    move(to);
  };
  const chosen = useRef(onChoose);
  useEffect(() => {
    chosen.current = onChoose;
  });
  const choose = useMemo(() => (id: string) => chosen.current(id), []);
  return (
    <div className="threads-list" ref={scroller} onKeyDown={onKeyDown} onPointerMove={onPointerMove}>
      <ul style={{ height: rows.getTotalSize() }}>
        {items.map((item) => {
          const t = threads[item.index]!;
          return (
            <li
              key={item.key}
              data-index={item.index}
              aria-setsize={threads.length}
              aria-posinset={item.index + 1}
              style={{ height: rowHeight, transform: `translateY(${item.start}px)` }}
              onFocus={() => setFocused(item.index)}
            >
              <ThreadRow
                thread={t}
                current={t.thread_id === current}
                stop={item.index === stop}
                showGraph={showGraph}
                now={now}
                onChoose={choose}
              />
            </li>
          );
        })}
      </ul>
      {loadingMore ? (
        <p className="threads-more" role="status">
          <span className="spinner" aria-hidden /> Loading older threads…
        </p>
      ) : null}
    </div>
  );
}

function Skeletons() {
  return (
    <div className="threads-skeletons" role="status">
      <span className="hidden">Loading threads…</span>
      {Array.from({ length: 6 }, (_, i) => (
        <div key={i} className="skeleton" />
      ))}
    </div>
  );
}
