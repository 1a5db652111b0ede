// The runs of the threads that changed last: the API lists runs thread by thread.
import type { Run, Thread } from "@langchain/langgraph-sdk";
import { keepPreviousData, useQueries, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { useConnection } from "../../app/connection";
import type { KeptRun } from "../../data/client";
import { statusOf, type Status } from "../../data/status";

const perThread = 10;
/**
 * The parts of a run that the list needs. The SDK would send them as one value, which LangGraph's Python server
 * rejects.
 */
const fields = [
  "run_id",
  "thread_id",
  "assistant_id",
  "created_at",
  "updated_at",
  "status",
  "metadata",
  "multitask_strategy",
];

export interface ListedRun {
  run: Run;
  thread: Thread;
  /** Whether this is the thread's newest run. */
  newest: boolean;
}

/** statusOfRun returns the status of a run. A thread's interrupts concern its newest run. */
export const statusOfRun = ({ run, thread, newest }: ListedRun): Status =>
  statusOf({ run: { id: run.run_id, status: run.status }, thread: newest ? thread : null }) ?? "done";

/** useRuns returns the runs of the given number of threads, newest first. */
export function useRuns(threads: number) {
  const { client, request, url } = useConnection();
  const cache = useQueryClient();
  const key = [url, "runs"];
  const recent = useQuery({
    queryKey: [...key, "threads", threads],
    queryFn: ({ signal }) =>
      client.threads.search({
        limit: threads,
        sortBy: "updated_at",
        sortOrder: "desc",
        select: ["thread_id", "created_at", "updated_at", "metadata", "status", "interrupts"],
        signal,
      }),
    refetchInterval: 3_000,
    placeholderData: keepPreviousData,
  });
  const lists = useQueries({
    queries: (recent.data ?? []).map((t) => ({
      // A thread that has not changed has no new runs.
      queryKey: [...key, "of", t.thread_id, t.updated_at],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        request(
          "GET",
          `/threads/${t.thread_id}/runs?limit=${perThread}${fields.map((f) => "&select=" + f).join("")}`,
          undefined,
          signal,
        ) as Promise<Run[]>,
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
      for (const run of list) out.push({ run, thread, newest: run.created_at === last });
    });
    return out.sort((a, b) => (a.run.created_at < b.run.created_at ? 1 : -1));
  }, [recent.data, lists.data]);
  return {
    runs,
    query: recent,
    /** Why the list lacks runs, if it does. */
    error: recent.error ?? lists.error,
    pending: recent.isPending || lists.pending,
    full: (recent.data?.length ?? 0) >= threads,
    refetch: () => cache.invalidateQueries({ queryKey: key }),
  };
}

/** useReason returns the reason that a run failed. */
export function useReason(run: Run, failed: boolean): string | undefined {
  const { client, url } = useConnection();
  return useQuery({
    queryKey: [url, "reason", run.run_id],
    queryFn: ({ signal }) => client.reason(run.thread_id, run.run_id, signal),
    enabled: failed,
    staleTime: Infinity,
    retry: false,
  }).data;
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
