// The effects of a step, with the steps of its subgraphs.
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { messageOf } from "../../data/errors";
import { useSession } from "../../data/session";
import { idOf, parentOf } from "../../data/tree";
import type { Step, TaskRun, Values } from "../../data/types";
import { Notice } from "../../ui/States";
import { duration, nodeName } from "../../ui/format";
import { Changes, ValueText } from "./Changes";
import { changesOf, inputOf, nameOf, nodesOf, ranFor, sourceOf, tookMs } from "./step";

/** StepBody shows the effects of a step. */
export function StepBody({ step, parent, children }: { step: Step; parent: Step | undefined; children?: ReactNode }) {
  const changes = changesOf(step, parent);
  const input = sourceOf(step) === "input" ? inputOf(step) : undefined;
  const nested = ranFor(step, parent).filter((t) => t.checkpoint?.checkpoint_ns);
  return (
    <div className="timeline-body">
      {input === undefined || input === null ? null : (
        <ul className="changes">
          {Object.entries(typeof input === "object" && !Array.isArray(input) ? (input as Values) : { input }).map(
            ([k, v]) => (
              <li key={k} className="change" data-kind="input">
                <span className="change-sign" aria-hidden>
                  ›
                </span>
                <span className="change-key">{k}</span>
                <div className="change-value">
                  {Array.isArray(v) ? (
                    v.slice(-8).map((e: unknown, i) => <ValueText key={i} value={e} />)
                  ) : (
                    <ValueText value={v} />
                  )}
                </div>
              </li>
            ),
          )}
        </ul>
      )}
      {changes.length > 0 ? (
        <Changes changes={changes} />
      ) : input ? null : (
        <p className="timeline-quiet">
          {parent || !step.parent_checkpoint ? "No change of the state" : "The step before is not loaded"}
        </p>
      )}
      {nested.map((t) => (
        <Nested key={t.id} name={t.name} ns={t.checkpoint!.checkpoint_ns} />
      ))}
      {children}
    </div>
  );
}

const none = new Map<string, TaskRun>();

/** Nested shows the steps of a subgraph, loaded when they are expanded. */
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
                      {nodeName(n.name)}
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
