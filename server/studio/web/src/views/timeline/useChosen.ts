import { useEffect, useRef, useState } from "react";
import { go, useLocation } from "../../app/location";
import { useSession, useSessionPart } from "../../data/session";
import { idOf, newestBelow, type Tree } from "../../data/tree";
import { isRunning, type Step } from "../../data/types";
import { useTell } from "../../ui/Toast";

/**
 * useChosen finds the checkpoint in the URL: it loads older checkpoints until it is found.
 * It deselects the checkpoint when a run starts that does not continue from it.
 */
export function useChosen(tree: Tree, steps: Step[]): "searching" | "missing" | null {
  const session = useSession();
  const tell = useTell();
  const { checkpoint } = useLocation();
  const hasMore = useSessionPart((s) => s.hasMore);
  const ready = useSessionPart((s) => s.status === "ready");
  const run = useSessionPart((s) => (isRunning(s) ? s.run?.id : null));
  const [failed, setFailed] = useState(false);
  const seen = useRef<string | null | undefined>(null);

  const there = !checkpoint || tree.byId.has(checkpoint);
  const oldest = steps.at(-1);
  const older = !there && ready && hasMore && !failed && !!oldest && checkpoint < idOf(oldest);
  useEffect(() => {
    if (older)
      session.loadMore().catch((err: unknown) => {
        setFailed(true);
        void tell.attempt(Promise.reject(err as Error));
      });
  }, [older, oldest, session, tell]);

  const newest = steps[0] ? idOf(steps[0]) : "";
  useEffect(() => {
    if (!run || run === seen.current) return;
    const mine = steps[0]?.metadata && (steps[0].metadata as { run_id?: string }).run_id === run;
    if (!mine) return;
    // Once for each run: a step selected afterward stays selected.
    seen.current = run;
    if (checkpoint && tree.byId.has(checkpoint) && newestBelow(tree, checkpoint) !== newest)
      go({ checkpoint: null }, "replace");
  }, [run, newest, checkpoint, tree, steps]);

  if (there || !ready) return null;
  return older ? "searching" : "missing";
}
