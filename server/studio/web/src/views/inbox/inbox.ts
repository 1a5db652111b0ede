// The questions of all threads.
import type { Thread } from "@langchain/langgraph-sdk";
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { useConnection } from "../../app/connection";
import { messageOf } from "../../data/errors";
import { questionsOf } from "../../data/questions";
import { useHasSearch } from "../../data/search";
import type { OpenQuestion } from "../../data/types";
import { threadFields, threadsKey } from "../threads/threads";

const pageSize = 100;

/** The badge waits until the view has loaded. */
const settled = 1_500;

/** A WaitingThread is a thread with at least one question. */
export interface WaitingThread {
  thread: Thread;
  graph: string;
  questions: OpenQuestion[];
}

function waitingOf(thread: Thread): WaitingThread {
  const graph = String(thread.metadata?.graph_id ?? "");
  // The interrupts of a thread do not name the node.
  const questions = Object.values(thread.interrupts ?? {}).flatMap((list) => questionsOf(list, graph || "A node", ""));
  return { thread, graph, questions };
}

/** useInbox returns the threads that wait for an answer, those that changed last first. */
export function useInbox({ now }: { now: boolean }) {
  const { client, url } = useConnection();
  const cache = useQueryClient();
  const [enabled, enable] = useState(now);
  useEffect(() => {
    const timer = setTimeout(() => enable(true), settled);
    return () => clearTimeout(timer);
  }, []);
  const indexed = useHasSearch();
  const key = [url, "inbox"];
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) =>
      client.threads.search({
        status: "interrupted",
        limit: pageSize,
        offset: pageParam,
        sortBy: "updated_at",
        sortOrder: "desc",
        select: threadFields(indexed),
        signal,
      }),
    initialPageParam: 0,
    getNextPageParam: (last, pages) => (last.length < pageSize ? undefined : pageSize * pages.length),
    refetchInterval: 10_000,
    enabled: (enabled || now) && indexed !== undefined,
  });
  const { data, isFetching, isError, hasNextPage, fetchNextPage } = query;
  const waiting = useMemo(() => {
    const byId = new Map(data?.pages.flat().map((t) => [t.thread_id, t]));
    return [...byId.values()].map(waitingOf).filter((w) => w.questions.length > 0);
  }, [data]);
  // A page may consist of threads that wait for nothing, such as those paused before a node.
  const none = waiting.length === 0 && hasNextPage;
  useEffect(() => {
    if (none && !isFetching && !isError) void fetchNextPage();
  }, [none, isFetching, isError, fetchNextPage]);
  return {
    waiting,
    query,
    searching: none && !isError,
    /** answer resumes a thread with answers by interrupt ID. */
    async answer({ thread, graph }: WaitingThread, answers: Record<string, unknown>) {
      const assistant = String(thread.metadata?.assistant_id ?? graph);
      // Someone else may have answered in the meantime. Answers by ID never reach another question.
      await client.runs.create(thread.thread_id, assistant, {
        command: { resume: answers },
        multitaskStrategy: "reject",
      });
      await Promise.all([
        cache.invalidateQueries({ queryKey: key }),
        cache.invalidateQueries({ queryKey: threadsKey(url) }),
      ]);
    },
  };
}

/** useInboxCount returns the number of questions that wait for an answer, and whether there may be more. */
export function useInboxCount(now: boolean): { count: number; more: boolean; error: string } {
  const { waiting, query } = useInbox({ now });
  return {
    count: waiting.reduce((n, w) => n + w.questions.length, 0),
    more: query.hasNextPage,
    error: query.error ? messageOf(query.error) : "",
  };
}
