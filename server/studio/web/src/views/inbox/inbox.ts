// The questions of all threads.
import type { Thread } from "@langchain/langgraph-sdk";
import { useInfiniteQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { useConnection } from "../../app/connection";
import { useLocation } from "../../app/location";
import type { Client } from "../../data/client";
import { messageOf } from "../../data/errors";
import { questionsOf } from "../../data/questions";
import { useHasSearch } from "../../data/search";
import type { OpenQuestion, Questions } from "../../data/types";
import { questionsKey, threadFields, threadsKey } from "../threads/threads";

const pageSize = 100;
const status = "interrupted";

/** The badge waits until the view has loaded. */
const settled = 1_500;
/** The time after which the questions are loaded again. */
const refreshed = 10_000;

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
export function useInbox() {
  const { client, url } = useConnection();
  const cache = useQueryClient();
  const indexed = useHasSearch();
  const key = [url, "inbox"];
  const query = useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam, signal }) => interrupted(client, pageParam, indexed!, signal),
    initialPageParam: 0,
    getNextPageParam: (last, pages) => (last.length < pageSize ? undefined : pageSize * pages.length),
    refetchInterval: refreshed,
    enabled: indexed !== undefined,
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
  // The badge counts what the page shows.
  useEffect(() => {
    if (data && !none) cache.setQueryData<Questions>(questionsKey(url), { count: countOf(waiting), more: hasNextPage });
  }, [data, none, waiting, hasNextPage, cache, url]);
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

const countOf = (waiting: WaitingThread[]): number => waiting.reduce((n, w) => n + w.questions.length, 0);

/** interrupted returns a page of the threads that are interrupted. */
const interrupted = async (client: Client, offset: number, indexed: boolean, signal: AbortSignal) =>
  (await client.listThreads({ status, limit: pageSize, offset, select: threadFields(indexed), signal })).threads;

/** countQuestions counts the questions, on a server that does not count them those of the newest threads with any. */
async function countQuestions(client: Client, indexed: boolean, signal: AbortSignal): Promise<Questions> {
  if (indexed) {
    const { questions } = await client.listThreads({ status, limit: 1, select: ["thread_id"], signal }, true);
    if (questions) return questions;
  }
  for (let offset = 0; ; offset += pageSize) {
    const page = await interrupted(client, offset, indexed, signal);
    const count = countOf(page.map(waitingOf));
    const more = page.length >= pageSize;
    if (count > 0 || !more) return { count, more };
  }
}

/**
 * useQuestions counts the questions that wait for an answer. Where a list of threads or the inbox is shown, they bring
 * the number with them.
 */
export function useQuestions(): Questions & { error: string } {
  const { client, url } = useConnection();
  const { view } = useLocation();
  const indexed = useHasSearch();
  const [enabled, enable] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => enable(true), settled);
    return () => clearTimeout(timer);
  }, []);
  const { data, error } = useQuery({
    queryKey: questionsKey(url),
    queryFn: ({ signal }) => countQuestions(client, indexed!, signal),
    enabled: enabled && indexed !== undefined && view !== "inbox",
    staleTime: refreshed,
    refetchInterval: refreshed,
  });
  return { count: 0, more: false, ...data, error: error ? messageOf(error) : "" };
}
