// Runs: on Treadle's server those of all threads, which it searches; on other servers those of the threads that
// changed last, because they list runs thread by thread.
import { keepPreviousData, useInfiniteQuery, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { useConnection } from "../../app/connection";
import { messageOf } from "../../data/errors";
import type { KeptRun } from "../../data/types";
import { threadFields } from "../threads/threads";
import { listed, matches, queryOf, type ListedRun, type RunFilter } from "./filter";

/** The number of runs per request. */
const pageSize = 50;
/** The number of runs to find before the user asks for more, and the number of requests to spend on them. */
const enough = 20;
const maxPages = 10;

/** The number of runs per thread, on servers without a search. */
export const perThread = 10;
/** A RunPages is a list of runs as far as it is loaded. */
export interface RunPages {
  runs: ListedRun[];
  pending: boolean;
  /** Why the list lacks runs, if it does. */
  error: unknown;
  /** Loads older runs; undefined if there are none. */
  more?: () => void;
  loadingMore: boolean;
  refetch(): Promise<unknown>;
}

const runsKey = (url: string) => [url, "runs"];

/** useFoundRuns returns the runs of all threads that match a filter, newest first. */
export function useFoundRuns(filter: RunFilter): RunPages {
  const { client, url } = useConnection();
  const cache = useQueryClient();
  const query = useInfiniteQuery({
    queryKey: [...runsKey(url), "found", filter],
    queryFn: ({ pageParam, signal }) =>
      client.searchRuns({ ...queryOf(filter), limit: pageSize, ...(pageParam ? { cursor: pageParam } : {}) }, signal),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_cursor ?? undefined,
    // A long list is not reloaded as a whole.
    refetchInterval: (q) => ((q.state.data?.pages.length ?? 0) <= 3 ? 3_000 : false),
  });
  const pages = query.data?.pages;
  const runs = useMemo(
    () => (pages?.flatMap((p) => p.runs.map(listed)) ?? []).filter((r) => matches(r, filter)),
    [pages, filter],
  );
  const { hasNextPage, isFetching, isError, fetchNextPage } = query;
  // A page may lack matches, though there are more.
  const go = runs.length < enough && hasNextPage && (pages?.length ?? 0) < maxPages;
  useEffect(() => {
    if (go && !isFetching && !isError) void fetchNextPage();
  }, [go, isFetching, isError, fetchNextPage]);
  return {
    runs,
    pending: query.isPending || (go && runs.length === 0),
    error: query.error,
    more: hasNextPage ? () => void (isFetching || fetchNextPage()) : undefined,
    loadingMore: query.isFetchingNextPage,
    refetch: () => cache.invalidateQueries({ queryKey: runsKey(url) }),
  };
}

/** useRunsOfThreads returns the runs of the given number of threads, newest first. */
export function useRunsOfThreads(threads: number, filter: RunFilter, onMore: () => void): RunPages & { of: number } {
  const { client, url } = useConnection();
  const cache = useQueryClient();
  const key = runsKey(url);
  const recent = useQuery({
    queryKey: [...key, "threads", threads],
    queryFn: async ({ signal }) =>
      (await client.listThreads({ limit: threads, select: threadFields(false), signal })).threads,
    refetchInterval: 3_000,
    placeholderData: keepPreviousData,
  });
  const lists = useQueries({
    queries: (recent.data ?? []).map((t) => ({
      // A thread that has not changed has no new runs.
      queryKey: [...key, "of", t.thread_id, t.updated_at],
      queryFn: ({ signal }: { signal: AbortSignal }) => client.recentRuns(t.thread_id, perThread, signal),
      staleTime: t.status === "busy" ? 0 : Infinity,
      refetchInterval: t.status === "busy" ? 3_000 : (false as const),
      placeholderData: keepPreviousData,
    })),
    combine: (all) => ({
      data: all.map((q) => q.data),
      pending: all.some((q) => q.isPending),
      error: all.find((q) => q.error)?.error,
    }),
  });
  const runs = useMemo(() => {
    const out: ListedRun[] = [];
    recent.data?.forEach((thread, i) => {
      const list = lists.data[i]?.filter((r) => r.thread_id === thread.thread_id) ?? [];
      const last = list.reduce<string>((at, r) => (r.created_at > at ? r.created_at : at), "");
      const graph = String(thread.metadata?.graph_id ?? "");
      for (const run of list) out.push({ run, thread, graph, newest: run.created_at === last });
    });
    return out.sort((a, b) => (a.run.created_at < b.run.created_at ? 1 : -1)).filter((r) => matches(r, filter));
  }, [recent.data, lists.data, filter]);
  return {
    runs,
    of: recent.data?.length ?? 0,
    error: recent.error ?? lists.error,
    pending: recent.isPending || lists.pending,
    more: (recent.data?.length ?? 0) >= threads ? onMore : undefined,
    loadingMore: recent.isPlaceholderData,
    refetch: () => cache.invalidateQueries({ queryKey: key }),
  };
}

/** useReason returns the reason that a run failed, or why it could not be loaded. */
export function useReason({ run, reason }: ListedRun, failed: boolean): string {
  const { client, url } = useConnection();
  const { data, error } = useQuery({
    queryKey: [url, "reason", run.run_id],
    queryFn: ({ signal }) => client.reason(run.thread_id, run.run_id, signal),
    enabled: failed && reason === undefined,
    staleTime: Infinity,
    retry: false,
  });
  if (error) return `Failed to load the reason: ${messageOf(error)}`;
  return (reason ?? data) || (run.status === "timeout" ? "The run took longer than the server allows." : "");
}

type Json = Record<string, unknown>;

/** Keys that the server adds to the configuration of each run. */
const added =
  /^(run_id|thread_id|graph_id|assistant_id|user_id|cron_id|checkpoint.*|langgraph_.*|__.*|user-agent|x-.*)$/;

/** sameAgain returns the payload of a run that repeats another, as far as the server returns it. */
export function sameAgain({ kwargs }: KeptRun): Json | null {
  if (!kwargs || !("input" in kwargs)) return null;
  const config = (kwargs.config ?? {}) as Json;
  const configurable = Object.fromEntries(
    Object.entries((config.configurable ?? {}) as Json).filter(([k]) => !added.test(k)),
  );
  const context = kwargs.context as Json | null;
  // Servers reject a context together with a configuration.
  const hasContext = !!context && Object.keys(context).length > 0;
  return {
    input: kwargs.input,
    ...(kwargs.command ? { command: kwargs.command } : {}),
    ...(hasContext ? { context } : {}),
    config: {
      ...(config.recursion_limit ? { recursion_limit: config.recursion_limit } : {}),
      ...(config.tags ? { tags: config.tags } : {}),
      ...(hasContext ? {} : { configurable }),
    },
  };
}
