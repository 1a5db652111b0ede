import { useEffect, useState } from "react";
import { looks, statusOfSession } from "../../data/status";
import { isRunning, type SessionState } from "../../data/types";
import { duration, nodeName } from "../../ui/format";

/** RunStatus shows the status of the thread, and the time and error of its last run. */
export function RunStatus({ state, next }: { state: SessionState; next: string[] }) {
  const { run } = state;
  const status = statusOfSession(state);
  const now = useNow(isRunning(state));
  const time = run && (run.ended ?? now) - run.started;
  return (
    <span className="row run-status" role="status">
      {status && (run || state.steps.length > 0) ? (
        <span className={looks[status].badge}>{looks[status].text}</span>
      ) : null}
      {/* The time changes ten times a second, so it is hidden from screen readers. */}
      {time != null ? (
        <span className="muted small run-time" aria-hidden>
          {duration(Math.max(0, time))}
        </span>
      ) : null}
      {run?.phase === "reconnecting" ? (
        <span className="small">Connection lost, reconnecting</span>
      ) : run?.phase === "looking" ? (
        <span className="small">{run.error}</span>
      ) : status === "failed" && run?.error ? (
        <span className="run-error small" title={run.error}>
          {run.error}
        </span>
      ) : next.length ? (
        <span className="muted small cut">next: {next.map(nodeName).join(", ")}</span>
      ) : null}
    </span>
  );
}

/** useNow returns the current time while it is displayed. */
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
