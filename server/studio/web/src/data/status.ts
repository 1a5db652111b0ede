// One status for a thread, a run, and the newest checkpoint, wherever it is shown.
import type { SessionState } from "./types";

export type Status = "queued" | "running" | "asks" | "failed" | "stopped" | "done";

/** A Look is the appearance of a status. action is the word for a run that continues from it. */
interface Look {
  text: string;
  badge: string;
  dot: string;
  action?: string;
}

export const looks: Record<Status, Look> = {
  queued: { text: "Queued", badge: "badge", dot: "dot" },
  running: { text: "Running", badge: "badge accent", dot: "dot accent" },
  asks: { text: "Needs answer", badge: "badge warn", dot: "dot warn" },
  failed: { text: "Failed", badge: "badge bad", dot: "dot bad", action: "Retry" },
  stopped: { text: "Stopped", badge: "badge", dot: "dot", action: "Continue" },
  done: { text: "Done", badge: "badge ok", dot: "dot" },
};

/** Facts are the known parts of a thread. A list may know only the thread or the run. */
export interface Facts {
  /** The thread, unless another run is newer than the one that the status is about. */
  thread?: { status?: string; interrupts?: Record<string, unknown[]> | null } | null;
  /** The newest run. Its status is that of the API. */
  run?: { id?: string | null; status: string; started?: number } | null;
  /** The newest checkpoint. */
  head?: {
    next: string[];
    tasks?: { error?: unknown; interrupts?: unknown[] | null }[] | null;
    metadata?: unknown;
    created_at?: string | null;
  } | null;
}

/** statusOf returns the status, or null if nothing has run. */
export function statusOf({ thread, run, head }: Facts): Status | null {
  if (run?.status === "pending") return "queued";
  if (run?.status === "running" || (!run && thread?.status === "busy")) return "running";
  const current = run && !isEdited(run, head) ? run.status : undefined;
  if (current === "error" || current === "timeout") return "failed";
  if (isAsking(thread, head)) return "asks";
  if (current === "interrupted") return "stopped";
  if (current === undefined) {
    // A task of a canceled run has an error too. The thread is then interrupted, not failed.
    const failed = head?.tasks?.some((t) => t.error) ?? false;
    if (head ? failed && thread?.status !== "interrupted" : thread?.status === "error") return "failed";
  }
  if (head ? head.next.length > 0 : thread?.status === "interrupted") return "stopped";
  return run || head || thread ? "done" : null;
}

/** isEdited reports whether the newest checkpoint is an edit that was made after the run. */
function isEdited(run: NonNullable<Facts["run"]>, head: Facts["head"]): boolean {
  const { source, run_id } = (head?.metadata ?? {}) as { source?: string; run_id?: string };
  if (source !== "update" || run_id === run.id || !head?.created_at) return false;
  return new Date(head.created_at).getTime() > (run.started ?? 0);
}

/** isQuestion reports whether an interrupt waits for an answer. A task that sleeps or waits for a signal has a kind. */
const isQuestion = (interrupt: unknown): boolean => !(interrupt as { kind?: string } | null)?.kind;

function isAsking(thread: Facts["thread"], head: Facts["head"]): boolean {
  if (head) return head.tasks?.some((t) => t.interrupts?.some(isQuestion)) ?? false;
  if (thread?.status !== "interrupted") return false;
  // Without its interrupts, an interrupted thread most likely has one.
  return !thread.interrupts || Object.values(thread.interrupts).some((list) => list.some(isQuestion));
}

const phases = {
  starting: "running",
  looking: "running",
  queued: "pending",
  running: "running",
  reconnecting: "running",
  success: "success",
  error: "error",
  interrupted: "interrupted",
  cancelled: "interrupted",
} as const;

/** statusOfSession returns the status of the page's thread. */
export function statusOfSession({ run, steps, thread }: Pick<SessionState, "run" | "steps" | "thread">): Status | null {
  return statusOf({
    thread,
    run: run && { id: run.id, status: phases[run.phase], started: run.started },
    head: steps[0],
  });
}
