import { useEffect, useRef, useState } from "react";
import { go, useLocation } from "../../app/location";
import { useSession, useSessionPart } from "../../data/session";
import { idOf, newestBelow, type Tree } from "../../data/tree";
import { isRunning, type Step } from "../../data/types";

/**
 * useChosen finds the checkpoint of the address bar: it loads older ones until it is there.
 * It leaves that checkpoint when a run begins that does not come from it.
 */
export function useChosen(tree: Tree, steps: Step[]): "searching" | "missing" | null {
  const session = useSession();
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
    if (older) session.loadMore().catch(() => setFailed(true));
  }, [older, oldest, session]);

  const newest = steps[0] ? idOf(steps[0]) : "";
  useEffect(() => {
    if (!run || run === seen.current) return;
    const mine = steps[0]?.metadata && (steps[0].metadata as { run_id?: string }).run_id === run;
    if (!mine) return;
    // Once for each run: who chooses another step afterwards wants to see it.
    seen.current = run;
    if (checkpoint && tree.byId.has(checkpoint) && newestBelow(tree, checkpoint) !== newest) go({ checkpoint: null }, "replace");
  }, [run, newest, checkpoint, tree, steps]);

  if (there || !ready) return null;
  return older ? "searching" : "missing";
}
