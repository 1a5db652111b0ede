// The threads of the server, newest first: the first page is reloaded regularly, so
// that its status is up to date, and the others when the list is scrolled to them.
import type { Message, Metadata, Thread, ThreadStatus } from "@langchain/langgraph-sdk";
import { keepPreviousData, useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { useConnection, type Connection } from "../../app/connection";
import { batched } from "../../data/batch";
import { messageOf } from "../../data/errors";
import { messagesKey, textOf } from "../../data/messages";
import { useHasSearch } from "../../data/search";
import { useSession } from "../../data/session";
import { isRunning, type Questions } from "../../data/types";
import { oneLine } from "../../ui/format";

/** The number of threads per page. */
const pageSize = 60;
/** The number of threads loaded to search for a text on servers that cannot. */
const searched = 500;

/** threadFields returns the fields that lists of threads show. States may be large, so titles come from the index. */
export const threadFields = (indexed: boolean | undefined): string[] => {
  const fields = ["thread_id", "created_at", "updated_at", "metadata", "status", "interrupts"];
  return indexed ? [...fields, "title"] : fields;
};

export const statuses: ThreadStatus[] = ["idle", "busy", "interrupted", "error"];

/** The statuses that servers filter by, in the words of data/status. */
export const statusLabels: Record<ThreadStatus, string> = {
  idle: "Done",
  busy: "Queued or running",
  interrupted: "Needs answer or stopped",
  error: "Failed",
};

export interface ThreadFilter {
  /** The graph that threads have run, or null for all. */
  graph: string | null;
  status: ThreadStatus | null;
  metadata: Record<string, unknown>;
  text: string;
}

const idPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const pairPattern = /(?:^|\s)([\w.-]+):("[^"]*"|\S+)/g;

/** parseSearch parses a query: an ID, metadata pairs key:value, and other text. */
export function parseSearch(typed: string): { id?: string; metadata: Record<string, unknown>; text: string } {
  const all = typed.trim();
  if (idPattern.test(all)) return { id: all.toLowerCase(), metadata: {}, text: "" };
  const metadata: Record<string, unknown> = {};
  for (const [, key, value] of all.matchAll(pairPattern)) metadata[key!] = valueOf(value!);
  return { metadata, text: all.replace(pairPattern, " ").trim() };
}

/** valueOf parses true, 3, or "text" as JSON, and otherwise returns the text itself. */
function valueOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** questionsKey is the key of the number of questions in all threads. */
export const questionsKey = (url: string) => [url, "questions"];

/** threadsKey is the prefix of the keys of all thread list queries. */
export const threadsKey = (url: string) => [url, "threads"];

/** useFoundThreads returns the threads that the server finds by their text. */
export function useFoundThreads({ graph, status, metadata, text }: ThreadFilter) {
  const { client, url } = useConnection();
  const query = useInfiniteQuery({
    queryKey: [...threadsKey(url), "found", graph, status, metadata, text],
    queryFn: ({ pageParam, signal }) =>
      client.searchThreads(
        {
          text,
          ...(graph ? { graph_id: graph } : {}),
          ...(status ? { status } : {}),
          metadata,
          limit: pageSize,
          ...(pageParam ? { cursor: pageParam } : {}),
        },
        signal,
      ),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    placeholderData: keepPreviousData,
    // Statuses change, and new text is indexed within a second. A long list is not reloaded as a whole.
    refetchInterval: (q) => ((q.state.data?.pages.length ?? 0) <= 2 ? 3_000 : false),
  });
  const threads = useMemo(
    () =>
      query.data?.pages.flatMap((p) => p.threads.map((t) => ({ ...t, title: t.title || (p.text ? "" : null) }))) ?? [],
    [query.data],
  );
  useRefetchWithRun(query.refetch);
  const { hasNextPage, isFetching, isError, fetchNextPage } = query;
  // A page may be empty, though there are more: the server examines a limited number of threads per request.
  const none = threads.length === 0 && hasNextPage;
  useEffect(() => {
    if (none && !isFetching && !isError) void fetchNextPage();
  }, [none, isFetching, isError, fetchNextPage]);
  const last = query.data?.pages.at(-1);
  return {
    threads,
    query,
    pending: last?.pending ?? 0,
    namesOnly: last?.text === false,
    searching: none,
    more: () => void (hasNextPage && !isFetching && fetchNextPage()),
  };
}

/** useThreads returns the threads that match a filter, except for its text. */
export function useThreads({ graph, status, metadata, text }: ThreadFilter) {
  const { client, url } = useConnection();
  const cache = useQueryClient();
  const indexed = useHasSearch();
  const key = [...threadsKey(url), graph, status, metadata, !!text, indexed];
  const limit = text ? searched : pageSize;
  const search = async (offset: number, signal: AbortSignal) => {
    const query = {
      metadata: { ...metadata, ...(graph ? { graph_id: graph } : {}) },
      status: status ?? undefined,
      limit,
      offset,
      select: threadFields(indexed),
      signal,
    };
    // The badge of the inbox then needs no request.
    const { threads, questions } = await client.listThreads(query, indexed && offset === 0);
    if (questions) cache.setQueryData<Questions>(questionsKey(url), questions);
    return threads;
  };
  const head = useQuery({
    queryKey: [...key, "head"],
    queryFn: ({ signal }) => search(0, signal),
    enabled: indexed !== undefined,
    refetchInterval: 3_000,
    placeholderData: keepPreviousData,
  });
  const [wanted, want] = useState("");
  const scrolled = wanted === JSON.stringify(key);
  const rest = useInfiniteQuery({
    queryKey: [...key, "rest"],
    queryFn: ({ pageParam, signal }) => search(pageParam, signal),
    initialPageParam: limit,
    getNextPageParam: (last, pages) => (last.length < limit ? undefined : limit * (pages.length + 1)),
    enabled: scrolled && !text,
    staleTime: Infinity,
    refetchOnWindowFocus: false,
  });
  const threads = useMemo(
    () => merged(head.data ?? [], rest.data?.pages.flat() ?? [], limit),
    [head.data, rest.data, limit],
  );
  useRefetchWithRun(head.refetch);
  const full = (head.data?.length ?? 0) >= limit && !text;
  return {
    threads,
    query: head,
    loadingMore: rest.isFetching,
    /** more loads the next page, if any. */
    more() {
      if (!full) return;
      if (!scrolled) want(JSON.stringify(key));
      else if (rest.hasNextPage && !rest.isFetching) void rest.fetchNextPage();
    },
  };
}

/** merged combines the newest threads with older ones, which may have changed since they were loaded. */
function merged(head: Thread[], rest: Thread[], limit: number): Thread[] {
  const oldest = head.at(-1)?.updated_at;
  if (!oldest || head.length < limit) return head;
  const seen = new Set(head.map((t) => t.thread_id));
  const out = [...head];
  for (const t of rest) {
    // A thread that is newer than the oldest of head but missing from it was deleted, or no longer matches the filter.
    if (seen.has(t.thread_id) || t.updated_at > oldest) continue;
    seen.add(t.thread_id);
    out.push(t);
  }
  return out;
}

/** useRefetchWithRun calls refetch when a run of the session starts, ends, or changes. */
function useRefetchWithRun(refetch: () => unknown) {
  const session = useSession();
  const run = useSyncExternalStore(session.subscribe, () => {
    const s = session.getState();
    return isRunning(s) ? [s.threadId, s.run?.id, s.run?.phase].join(" ") : "";
  });
  const seen = useRef(run);
  useEffect(() => {
    if (seen.current === run) return;
    seen.current = run;
    refetch();
  }, [run, refetch]);
}

/** givenName returns the name that a user gave to a thread. */
export function givenName(metadata: Metadata): string {
  for (const key of ["thread_name", "title"]) {
    const name = metadata?.[key];
    if (typeof name === "string" && name.trim()) return name.trim();
  }
  return "";
}

/** firstText returns the first user message of a thread, or another text of its state. */
export function firstText(values: unknown): string {
  if (!values || typeof values !== "object") return "";
  const state = values as Record<string, unknown>;
  const key = messagesKey(state);
  const messages = key ? (state[key] as Message[]) : [];
  const first = messages.find((m) => m.type === "human") ?? messages[0];
  if (first) return oneLine(textOf(first), 100);
  const text = Object.values(state).find((v) => typeof v === "string" && v.trim());
  return text ? oneLine(text, 100) : "";
}

const loaders = new WeakMap<Connection, (id: string) => Promise<string | undefined>>();

/** loaderOf returns the function that loads names of threads from their states, many at a time. */
function loaderOf(c: Connection) {
  const known = loaders.get(c);
  if (known) return known;
  // The states may be large.
  const loader = batched(async (ids) => {
    const found = await c.client.threads.search({ ids, limit: ids.length, select: ["thread_id", "values"] });
    return new Map(found.map((t) => [t.thread_id, firstText(t.values)]));
  }, 20);
  loaders.set(c, loader);
  return loader;
}

/**
 * useThreadName returns the name of a thread, or "", and the reason if it could not be loaded. Treadle's server lists
 * titles, which are "" until a thread is indexed, and null if it may index only names.
 */
export function useThreadName(
  thread: Pick<Thread, "thread_id" | "metadata" | "updated_at"> & { values?: unknown; title?: string | null },
): { name: string; error: string } {
  const connection = useConnection();
  const { url } = connection;
  const cache = useQueryClient();
  const given = givenName(thread.metadata) || thread.title || firstText(thread.values);
  const key = [url, "thread name", thread.thread_id];
  const { data, error } = useQuery({
    queryKey: [...key, thread.updated_at],
    queryFn: async () => cache.getQueryData<string>(key) || ((await loaderOf(connection)(thread.thread_id)) ?? ""),
    enabled: !given && typeof thread.title !== "string",
    staleTime: Infinity,
    retry: false,
  });
  // The first text does not change while the thread continues.
  useEffect(() => {
    if (data) cache.setQueryData([url, "thread name", thread.thread_id], data);
  }, [data, cache, url, thread.thread_id]);
  return {
    name: given || data || cache.getQueryData<string>(key) || "",
    error: error ? messageOf(error) : "",
  };
}
