// Search across all threads and runs, which only Treadle's server has. Other servers list threads without their
// titles, and runs thread by thread.
import { useServer } from "../app/connection";

/** maxPending is the highest number that ThreadsPage.pending counts to. */
export const maxPending = 1_000;

/** useHasSearch reports whether the server has these searches, or undefined until it is known. */
export function useHasSearch(): boolean | undefined {
  const { info } = useServer();
  return info && info.flags?.search === true;
}
