// The information that a card shows about a step.
import { diffOf, type Change } from "../../data/diff";
import type { Step, TaskRun } from "../../data/types";

export type StoredTask = Step["tasks"][number];

/** Metadata comes from servers and clients, so each field may be missing. */
type Meta = Record<string, unknown>;

export const metaOf = (step: Step): Meta => step.metadata ?? {};

export function stepNumber(step: Step): number | null {
  const n = metaOf(step).step;
  return typeof n === "number" ? n : null;
}

/** nameOf returns the name of a step: "Step 3", or "Input". */
export function nameOf(step: Step): string {
  const n = stepNumber(step);
  if (n === null) return "Checkpoint";
  return n < 0 ? "Input" : `Step ${n}`;
}

export const sourceOf = (step: Step): string => String(metaOf(step).source ?? "");

/** The origin of a step, as text for the badge. */
export const sourceTexts: Record<string, string> = { input: "input", loop: "run", update: "edit", fork: "replay" };

/** ranFor returns the tasks whose writes created a step: the tasks that its parent had scheduled. */
export function ranFor(step: Step, parent: Step | undefined): StoredTask[] {
  return sourceOf(step) === "loop" || sourceOf(step) === "" ? (parent?.tasks ?? []) : [];
}

/** nodesOf returns the names of the nodes that ran, with their counts. */
export function nodesOf(step: Step, parent: Step | undefined): { name: string; count: number }[] {
  const counts = new Map<string, number>();
  const writes = metaOf(step).writes;
  const names = ranFor(step, parent).map((t) => t.name);
  // Older servers list the nodes in the metadata.
  if (names.length === 0 && typeof writes === "object" && writes !== null && sourceOf(step) !== "input")
    names.push(...Object.keys(writes));
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, count]) => ({ name, count }));
}

/**
 * tookMs returns the duration of a step: from its tasks, if this page observed them, or else from the checkpoints of
 * its run.
 */
export function tookMs(step: Step, parent: Step | undefined, tasks: ReadonlyMap<string, TaskRun>): number | null {
  const ran = ranFor(step, parent).flatMap((t) => tasks.get(t.id) ?? []);
  if (ran.length > 0 && ran.every((t) => t.ended))
    return Math.max(...ran.map((t) => t.ended!)) - Math.min(...ran.map((t) => t.started));
  if (
    !parent?.created_at ||
    !step.created_at ||
    sourceOf(step) !== "loop" ||
    metaOf(parent).run_id !== metaOf(step).run_id
  )
    return null;
  return Math.max(0, new Date(step.created_at).getTime() - new Date(parent.created_at).getTime());
}

const diffs = new WeakMap<Step, { parent: Step | undefined; changes: Change[] }>();

/** changesOf returns the changes of a step. They are cached, because cards are unmounted while the user scrolls. */
export function changesOf(step: Step, parent: Step | undefined): Change[] {
  const kept = diffs.get(step);
  if (kept && kept.parent === parent) return kept.changes;
  // Without the parent, the changes of a step are unknown, unless it has none.
  const changes = parent || !step.parent_checkpoint ? diffOf(parent?.values ?? {}, step.values ?? {}) : [];
  // A field with a reducer starts with an empty value, which is not a change.
  const telling = parent ? changes : changes.filter((c) => c.kind !== "added" || !isEmpty(c.after));
  diffs.set(step, { parent, changes: telling });
  return telling;
}

function isEmpty(v: unknown): boolean {
  return v === null || v === "" || v === 0 || v === false || (typeof v === "object" && Object.keys(v).length === 0);
}

/** inputOf returns the input of a step of source "input". */
export function inputOf(step: Step): unknown {
  return step.tasks?.find((t) => t.name === "__start__")?.result;
}
