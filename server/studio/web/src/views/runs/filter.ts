// Runs in the list, and the filters that select them.
import type { Run, Thread } from "@langchain/langgraph-sdk";
import { textOfError } from "../../data/errors";
import type { FoundRun } from "../../data/types";
import { statusOf, type Status } from "../../data/status";

/** A ListedRun is a run in the list, with the facts about its thread that determine its status. */
export interface ListedRun {
  run: Pick<Run, "run_id" | "thread_id" | "assistant_id" | "created_at" | "updated_at" | "status">;
  thread: Pick<Thread, "thread_id" | "updated_at" | "metadata"> & {
    status?: string;
    interrupts?: Record<string, unknown[]> | null;
    title?: string;
  };
  graph: string;
  /** Whether this is the thread's newest run. */
  newest: boolean;
  /** The reason of its failure; undefined if it must be requested. */
  reason?: string;
}

/** A RunFilter selects runs. Empty fields select all. */
export interface RunFilter {
  status: Status | "";
  graph: string;
  assistant: string;
  /** The time of the oldest run, as the API writes times. */
  since: string;
  /** Words of the error, which only a search finds. */
  error: string;
}

/** statusOfRun returns the status of a run. A thread's interrupts concern its newest run. */
export const statusOfRun = ({ run, thread, newest }: Pick<ListedRun, "run" | "thread" | "newest">): Status =>
  statusOf({ run: { id: run.run_id, status: run.status }, thread: newest ? thread : null }) ?? "done";

/** matches reports whether a run meets a filter, except for the words of its error. */
export const matches = (r: ListedRun, f: RunFilter): boolean =>
  (!f.status || statusOfRun(r) === f.status) &&
  (!f.graph || r.graph === f.graph) &&
  (!f.assistant || r.run.assistant_id === f.assistant) &&
  (!f.since || new Date(r.run.created_at) >= new Date(f.since));

/** The conditions of the API that select at least the runs with a status. */
const conditions: Record<Status, Record<string, unknown>> = {
  queued: { status: ["pending"] },
  running: { status: ["running"] },
  failed: { status: ["error", "timeout"] },
  asks: { status: ["success", "interrupted"], thread_status: "interrupted" },
  stopped: { status: ["success", "interrupted"] },
  done: { status: ["success"] },
};

/** queryOf returns the body of a search. */
export const queryOf = ({ status, graph, assistant, since, error }: RunFilter): Record<string, unknown> => ({
  ...(status ? conditions[status] : {}),
  ...(graph ? { graph_id: graph } : {}),
  ...(assistant ? { assistant_id: assistant } : {}),
  ...(since ? { since } : {}),
  ...(error ? { error } : {}),
});

/** listed converts a run that the server has found. */
export function listed(r: FoundRun): ListedRun {
  return {
    run: { ...r, updated_at: r.ended_at ?? r.updated_at },
    thread: {
      thread_id: r.thread_id,
      updated_at: r.updated_at,
      metadata: {},
      status: r.thread.status,
      // Without its interrupts, an interrupted thread is taken to have one.
      interrupts: r.thread.needs_answer ? undefined : {},
      title: r.thread.title,
    },
    graph: r.graph_id,
    newest: r.latest,
    reason: r.error ? textOfError(r.error) : "",
  };
}
