import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { messageOf, useSession } from "../../data/session";
import { idOf, parentOf } from "../../data/tree";
import type { TaskRun } from "../../data/types";
import { Notice } from "../../ui/States";
import { duration } from "../../ui/format";
import { StepBody } from "./Card";
import { nameOf, nodesOf, tookMs } from "./step";

const none = new Map<string, TaskRun>();

/** Nested are the steps of a graph that a node ran, read when they are unfolded. */
export function Nested({ name, ns }: { name: string; ns: string }) {
  const session = useSession();
  const [open, setOpen] = useState(false);
  const q = useQuery({ queryKey: ["nested", session.threadId, ns], queryFn: () => session.nested(ns), enabled: open });
  const steps = q.data ?? [];
  const byId = new Map(steps.map((s) => [idOf(s), s]));
  return (
    <div className="nested">
      <button type="button" className="json-fold" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span aria-hidden>{open ? "▾" : "▸"}</span> Steps of {name}
      </button>
      {open && q.isPending ? <p className="timeline-quiet">Loading…</p> : null}
      {q.error ? <Notice>{messageOf(q.error)}</Notice> : null}
      {open && q.data ? (
        <ol className="nested-steps">
          {[...steps].reverse().map((s) => {
            const parent = byId.get(parentOf(s));
            const took = tookMs(s, parent, none);
            return (
              <li key={idOf(s)} aria-label={`${nameOf(s)} of ${name}`}>
                <div className="row">
                  <span className="timeline-step">{nameOf(s)}</span>
                  {nodesOf(s, parent).map((n) => (
                    <span key={n.name} className="timeline-node cut">
                      {n.name}
                    </span>
                  ))}
                  <span className="grow" />
                  {took === null ? null : <span className="timeline-took">{duration(took)}</span>}
                </div>
                <StepBody step={s} parent={parent} />
              </li>
            );
          })}
        </ol>
      ) : null}
    </div>
  );
}
