// What has become of a run: of one that has ended, and of one whose request got no response.
import type { Client } from "./client";
import { httpStatusOf, isAway, messageOf, textOfError } from "./errors";
import { pause } from "./follow";
import type { KeptRun, NewestRun, RunState } from "./types";

export const timeOf = (time: string): number => new Date(time).getTime();

/** endedRun returns the state of a run that has ended, with the reason if it failed. shown is its state so far. */
export async function endedRun(
  client: Pick<Client, "reason">,
  run: KeptRun | NewestRun,
  error: unknown,
  shown: RunState | null,
): Promise<RunState> {
  const failed = run.status === "error" || run.status === "timeout";
  const reason = !failed
    ? undefined
    : error
      ? textOfError(error)
      : await client
          .reason(run.thread_id, run.run_id)
          .catch((err: unknown) => `Failed to load the reason: ${messageOf(err)}`);
  return {
    id: run.run_id,
    assistant: run.assistant_id,
    phase: failed
      ? "error"
      : run.status === "interrupted"
        ? "interrupted"
        : shown?.phase === "cancelled" && run.status !== "success"
          ? "cancelled"
          : "success",
    started: timeOf(run.created_at),
    ended: timeOf(run.updated_at),
    error: reason || (run.status === "timeout" ? "The run took longer than the server allows." : undefined),
    request: shown?.request,
    kwargs: run.kwargs,
  };
}

/** A Wait ends when its result is no longer needed. */
interface Wait {
  isOver(): boolean;
}

/** insist calls load until the server responds. It returns undefined if the result is no longer needed. */
export async function insist<T>(load: () => Promise<T>, o: Wait & { onAway(): void }): Promise<T | undefined> {
  for (let attempt = 0; !o.isOver(); attempt++) {
    try {
      const value = await load();
      return o.isOver() ? undefined : value;
    } catch (err) {
      if (o.isOver()) return undefined;
      if (!isAway(err)) throw err;
      o.onAway();
      await pause(attempt);
    }
  }
  return undefined;
}

/** mayHaveStarted reports whether a request that failed with an error may have started a run. */
export const mayHaveStarted = (err: unknown): boolean => isAway(err) && httpStatusOf(err) !== 429;

/** The number of responses without the run after which it has not started. The request may still be on its way. */
const looks = 5;

/**
 * findRun looks for a run whose request got no response: the newest run of the thread, unless its ID was known before
 * the request. It returns null if the run has not started, and undefined if the result is no longer needed.
 */
export async function findRun(
  o: Wait & { newest(): Promise<NewestRun | undefined>; known: ReadonlySet<string> },
): Promise<NewestRun | null | undefined> {
  for (let attempt = 0, looked = 0; looked < looks; attempt++) {
    await pause(looked || attempt);
    if (o.isOver()) return undefined;
    try {
      const run = await o.newest();
      if (o.isOver()) return undefined;
      if (run && !o.known.has(run.run_id)) return run;
      looked++;
    } catch (err) {
      // The run would also have created the thread.
      if (httpStatusOf(err) === 404) looked++;
    }
  }
  return null;
}
