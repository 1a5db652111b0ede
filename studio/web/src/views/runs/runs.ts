// The runs of the threads that changed last: the API lists runs thread by thread.
import type { Run, Thread } from "@langchain/langgraph-sdk";
import { keepPreviousData, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { useConnection } from "../../app/connection";

const perThread = 10;

export interface ListedRun {
  run: Run;
  thread: Thread;
  /** Whether no run of the thread is newer. */
  newest: boolean;
}

/** useRuns are the runs of so many threads, newest first. */
export function useRuns(threads: number) {
  const { client, url } = useConnection();
  const cache = useQueryClient();
  const key = [url, "runs"];
  const recent = useQuery({
    queryKey: [...key, "threads", threads],
    queryFn: ({ signal }) => client.threads.search({ limit: threads, sortBy: "updated_at", sortOrder: "desc", select: ["thread_id", "created_at", "updated_at", "metadata", "status"], signal }),
    refetchInterval: 3_000,
    placeholderData: keepPreviousData,
  });
  const lists = useQueries({
    queries: (recent.data ?? []).map((t) => ({
      // A thread that has not changed has no new runs.
      queryKey: [...key, "of", t.thread_id, t.updated_at],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        client.runs.list(t.thread_id, { limit: perThread, select: ["run_id", "thread_id", "assistant_id", "created_at", "updated_at", "status", "metadata", "multitask_strategy"], signal }),
      staleTime: t.status === "busy" ? 0 : Infinity,
      refetchInterval: t.status === "busy" ? 3_000 : (false as const),
      placeholderData: keepPreviousData,
    })),
    combine: (all) => ({ data: all.map((q) => q.data), pending: all.some((q) => q.isPending) }),
  });
  const runs = useMemo(() => {
    const out: ListedRun[] = [];
    recent.data?.forEach((thread, i) => {
      const list = lists.data[i]?.filter((r) => r.thread_id === thread.thread_id) ?? [];
      const last = list.reduce<string>((at, r) => (r.created_at > at ? r.created_at : at), "");
      for (const run of list) out.push({ run, thread, newest: run.created_at === last });
    });
    return out.sort((a, b) => (a.run.created_at < b.run.created_at ? 1 : -1));
  }, [recent.data, lists.data]);
  return {
    runs,
    query: recent,
    pending: recent.isPending || lists.pending,
    full: (recent.data?.length ?? 0) >= threads,
    refetch: () => cache.invalidateQueries({ queryKey: key }),
  };
}

/** useReason is why a run has failed. */
export function useReason(run: Run, failed: boolean): string | undefined {
  const { client, url } = useConnection();
  return useQuery({
    queryKey: [url, "reason", run.run_id],
    queryFn: async ({ signal }) => {
      const values = (await client.runs.join(run.thread_id, run.run_id, { signal })) as { __error__?: { error?: string; message?: string } } | null;
      const e = values?.__error__;
      return e?.message || e?.error || "";
    },
    enabled: failed,
    staleTime: Infinity,
    retry: false,
  }).data;
}

type Json = Record<string, unknown>;

/** Keys of a run's configuration that the server adds, and that another run gets anew. */
const added = /^(run_id|thread_id|graph_id|assistant_id|user_id|cron_id|checkpoint.*|langgraph_.*|__.*|user-agent|x-.*)$/;

/** sameAgain is the payload of a run that repeats another, as far as the server tells it. */
export function sameAgain(run: Run): Json | null {
  const kwargs = (run as unknown as { kwargs?: Json }).kwargs;
  if (!kwargs || !("input" in kwargs)) return null;
  const config = (kwargs.config ?? {}) as Json;
  const configurable = Object.fromEntries(Object.entries((config.configurable ?? {}) as Json).filter(([k]) => !added.test(k)));
  const context = kwargs.context as Json | null;
  // Servers refuse a context together with a configuration.
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
