// The checkpoints of a thread form a tree: a fork shares the parent of another checkpoint.
import type { Step } from "./types";

export const idOf = (s: Step): string => s.checkpoint?.checkpoint_id ?? "";
export const parentOf = (s: Step): string => s.parent_checkpoint?.checkpoint_id ?? "";

export interface Tree {
  byId: Map<string, Step>;
  /** The children of each checkpoint, oldest first. "" has those whose parent is unknown. */
  children: Map<string, Step[]>;
}

/** treeOf builds the tree of steps that are sorted newest first. */
export function treeOf(steps: Step[]): Tree {
  const byId = new Map(steps.map((s) => [idOf(s), s]));
  const children = new Map<string, Step[]>();
  for (let i = steps.length - 1; i >= 0; i--) {
    const s = steps[i]!;
    const parent = byId.has(parentOf(s)) ? parentOf(s) : "";
    const list = children.get(parent);
    if (list) list.push(s);
    else children.set(parent, [s]);
  }
  return { byId, children };
}

/** newestBelow returns the newest descendant of a checkpoint, or the checkpoint itself. */
export function newestBelow(tree: Tree, id: string): string {
  let newest = id;
  const open = [id];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (at > newest) newest = at;
    for (const child of tree.children.get(at) ?? []) open.push(idOf(child));
  }
  return newest;
}

/** pathTo returns the checkpoints from the first to the given one, oldest first. */
export function pathTo(tree: Tree, id: string): Step[] {
  // A set keeps its order, and ends the walk if a broken server sends a cycle.
  const path = new Set<Step>();
  for (let s = tree.byId.get(id); s && !path.has(s); s = tree.byId.get(parentOf(s))) path.add(s);
  return [...path].reverse();
}
