import { useEffect, useState } from "react";
import { isRunning, type RunPhase, type SessionState } from "../../data/types";
import { duration } from "../../ui/format";

const phases: Record<RunPhase, { text: string; look: string }> = {
  starting: { text: "Starting", look: "badge accent" },
  running: { text: "Running", look: "badge accent" },
  reconnecting: { text: "Connection lost, trying again", look: "badge warn" },
  success: { text: "Done", look: "badge ok" },
  error: { text: "Failed", look: "badge bad" },
  interrupted: { text: "Paused", look: "badge warn" },
  cancelled: { text: "Stopped", look: "badge" },
};

const asking = { text: "Waiting for an answer", look: "badge warn" };

/** RunStatus says how the last run went, or is going. */
export function RunStatus({ state, waiting, next }: { state: SessionState; waiting: boolean; next: string[] }) {
  const { run } = state;
  const running = isRunning(state);
  const now = useNow(running);
  const time = run && (run.ended ?? now) - run.started;
  const stops = next.length ? `next: ${next.join(", ")}` : "";
  const look = waiting ? asking : next.length && (!run || run.phase === "success" || run.phase === "interrupted") ? phases.interrupted : run ? phases[run.phase] : null;
  return (
    <span className="row run-status" role="status">
      {look ? <span className={look.look}>{look.text}</span> : null}
      {/* The time changes ten times a second, which nobody wants to be read out. */}
      {time != null ? (
        <span className="muted small run-time" aria-hidden>
          {duration(Math.max(0, time))}
        </span>
      ) : null}
      {run?.phase === "error" && run.error ? (
        <span className="run-error small" title={run.error}>
          {run.error}
        </span>
      ) : stops ? (
        <span className="muted small cut">{stops}</span>
      ) : null}
    </span>
  );
}

/** useNow is the time, as long as it is watched. */
function useNow(watched: boolean): number {
  const [now, set] = useState(Date.now);
  useEffect(() => {
    if (!watched) return;
    set(Date.now());
    const timer = setInterval(() => set(Date.now()), 100);
    return () => clearInterval(timer);
  }, [watched]);
  return now;
}
