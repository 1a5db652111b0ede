// Where each message of a conversation was added to the thread, and the alternatives
// that were added there.
import type { Message } from "@langchain/langgraph-sdk";
import { isMessage } from "../../data/messages";
import { idOf, parentOf, pathTo, type Tree } from "../../data/tree";
import type { Step, Values } from "../../data/types";

export interface Origin {
  /** The checkpoint before the message was added, to fork from. */
  before: Step | null;
  /** The checkpoints that add a message here, one per branch, oldest first. */
  branches: string[];
  /** The index of the shown one. */
  at: number;
}

export function messagesOf(values: Values | null | undefined, key: string): Message[] {
  const list = values?.[key];
  return Array.isArray(list) ? list.filter(isMessage) : [];
}

const signatures = new WeakMap<Step, string>();

/** signature distinguishes states with different messages. */
function signature(step: Step, key: string): string {
  let s = signatures.get(step);
  if (s === undefined) {
    const list = (step.values as Values | null)?.[key];
    s = Array.isArray(list) ? `${list.length} ${(list.at(-1) as Message | undefined)?.id}` : "0 undefined";
    signatures.set(step, s);
  }
  return s;
}

/** originsOf finds the origins of the messages of a checkpoint, as far as its history is loaded. */
export function originsOf(tree: Tree, head: string, key: string): Map<string, Origin> {
  const origins = new Map<string, Origin>();
  const seen = new Set<string>();
  let length = 0;
  let last: string | undefined;
  for (const step of pathTo(tree, head)) {
    const before = tree.byId.get(parentOf(step)) ?? null;
    const list = ((step.values as Values | null)?.[key] ?? []) as Message[];
    if (!Array.isArray(list)) continue;
    // Most steps only append.
    const appends = length <= list.length && (length === 0 || list[length - 1]?.id === last);
    const added = (appends ? list.slice(length) : list).filter((m) => m.id && !seen.has(m.id));
    length = list.length;
    last = list.at(-1)?.id;
    for (const [i, m] of added.entries()) {
      seen.add(m.id!);
      // Nothing is known before the first loaded checkpoint.
      if (!before && step.parent_checkpoint) continue;
      const branches = i === 0 && before ? siblings(tree, before, key) : [];
      origins.set(m.id!, { before, branches, at: branches.indexOf(idOf(step)) });
    }
  }
  return origins;
}

/**
 * siblings returns the first checkpoints with different messages below a checkpoint, or below its ancestors with the
 * same messages.
 */
function siblings(tree: Tree, from: Step, key: string): string[] {
  const base = signature(from, key);
  let top = from;
  for (let p = tree.byId.get(parentOf(top)); p && signature(p, key) === base; p = tree.byId.get(parentOf(p))) top = p;
  const found: string[] = [];
  const open = [top];
  for (let at = open.pop(); at; at = open.pop()) {
    for (const child of tree.children.get(idOf(at)) ?? []) {
      if (signature(child, key) === base) open.push(child);
      else found.push(idOf(child));
    }
  }
  return found.sort();
}
