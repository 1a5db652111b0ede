// Search across all threads and runs, which only Treadle's server has. Other servers list threads without their
// titles, and runs thread by thread.
import type { Metadata, Thread } from "@langchain/langgraph-sdk";
import { useServer, type Connection } from "../app/connection";

/** A FoundThread is a thread that the server has found. */
export interface FoundThread extends Thread {
  title: string;
  matched: "title" | "text" | "";
  /** Whether the thread is so long that not all of its text is indexed. */
  truncated: boolean;
}

export interface ThreadsPage {
  threads: FoundThread[];
  next_cursor: string | null;
  /** The number of threads whose last change is not indexed yet. */
  pending: number;
  /** False if the server indexes only names. */
  text: boolean;
}

/** A FoundRun is a run with the title and status of its thread. */
export interface FoundRun {
  run_id: string;
  thread_id: string;
  assistant_id: string;
  graph_id: string;
  status: "pending" | "running" | "success" | "error" | "timeout" | "interrupted";
  created_at: string;
  updated_at: string;
  started_at: string | null;
  ended_at: string | null;
  error: { error?: string; message?: string } | null;
  metadata: Metadata;
  /** Whether no run of the thread is newer. */
  latest: boolean;
  thread: { title: string; status: string; needs_answer: boolean };
}

export interface RunsPage {
  runs: FoundRun[];
  next_cursor: string | null;
}

/** maxPending is the highest number that ThreadsPage.pending counts to. */
export const maxPending = 1_000;

export const searchThreads = (c: Connection, query: Record<string, unknown>, signal?: AbortSignal) =>
  c.request("POST", "/search/threads", query, signal) as Promise<ThreadsPage>;

export const searchRuns = (c: Connection, query: Record<string, unknown>, signal?: AbortSignal) =>
  c.request("POST", "/search/runs", query, signal) as Promise<RunsPage>;

/** useHasSearch reports whether the server has these searches, or undefined until it is known. */
export function useHasSearch(): boolean | undefined {
  const { info } = useServer();
  return info && info.flags?.search === true;
}
