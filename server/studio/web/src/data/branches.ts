// The rows of a timeline, oldest first: the checkpoints of the shown branch and,
// where it forks, the other branches, each next to the branch that it leaves.
import { idOf, newestBelow, parentOf, pathTo, type Tree } from "./tree";
import type { Step } from "./types";

/** The checkpoints with the same parent: the branches of a fork, and which of them this is. */
export interface Fork {
  at: number;
  of: string[];
}

interface Place {
  key: string;
  step: Step;
  /** The shown branch has lane 0; others are drawn to its right. */
  lane: number;
  /** The line comes from the lane to the left. */
  leaves: boolean;
  /** The line comes from above in its lane. */
  up: boolean;
  /** The line continues below. */
  down: boolean;
  fork?: Fork;
}

export interface StepRow extends Place {
  kind: "step";
  parent: Step | undefined;
  current: boolean;
}

/** A BranchRow is a collapsed branch: step is its first step. */
export interface BranchRow extends Place {
  kind: "branch";
  head: Step;
  /** The step before head. */
  before: Step | undefined;
  count: number;
}

export type Row = StepRow | BranchRow;

/** headOfBranch returns the end of the shown branch: below the selected checkpoint, or the newest. */
export function headOfBranch(tree: Tree, steps: Step[], chosen: string | null): string {
  if (chosen && tree.byId.has(chosen)) return newestBelow(tree, chosen);
  return steps[0] ? idOf(steps[0]) : "";
}

/** rowsOf lays out a tree for the branch that ends at head. unfolded contains the first steps of expanded branches. */
export function rowsOf(tree: Tree, head: string, unfolded: ReadonlySet<string>): Row[] {
  const current = new Set(pathTo(tree, head).map(idOf));
  const rows: Row[] = [];
  // A stack, since a thread may have more steps than calls may be nested.
  const open: { step: Step; lane: number; leaves: boolean; up: boolean }[] = [];
  const push = (parent: string, lane: number) => {
    const children = tree.children.get(parent) ?? [];
    const main = children.find((c) => current.has(idOf(c))) ?? (lane > 0 ? children.at(-1) : undefined);
    // The last pushed item is drawn first: other branches, and then the continuing one.
    if (main) open.push({ step: main, lane, leaves: false, up: parent !== "" });
    for (const c of [...children].reverse())
      if (c !== main) open.push({ step: c, lane: lane + 1, leaves: parent !== "", up: false });
  };
  push("", 0);
  for (let at = open.pop(); at; at = open.pop()) {
    const { step, ...place } = at;
    const id = idOf(step);
    const siblings = tree.children.get(tree.byId.has(parentOf(step)) ? parentOf(step) : "") ?? [];
    const fork = siblings.length > 1 ? { at: siblings.indexOf(step), of: siblings.map(idOf) } : undefined;
    if (!place.up && place.lane > 0 && !unfolded.has(id)) {
      const last = tree.byId.get(newestBelow(tree, id)) ?? step;
      rows.push({
        kind: "branch",
        key: "branch " + id,
        step,
        head: last,
        before: tree.byId.get(parentOf(last)),
        count: sizeBelow(tree, id),
        ...place,
        down: false,
        fork,
      });
      continue;
    }
    rows.push({
      kind: "step",
      key: id,
      step,
      parent: tree.byId.get(parentOf(step)),
      current: current.has(id),
      ...place,
      down: (tree.children.get(id) ?? []).length > 0,
      fork,
    });
    push(id, place.lane);
  }
  return rows;
}

/** sizeBelow counts a checkpoint and its descendants. */
function sizeBelow(tree: Tree, id: string): number {
  let n = 0;
  const open = [id];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    n++;
    for (const child of tree.children.get(at) ?? []) open.push(idOf(child));
  }
  return n;
}
