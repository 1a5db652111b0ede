// The changes of a step: the state after it compared with the state before it, key by key.
import type { Values } from "./types";

export type Change =
  | { kind: "added"; key: string; after: unknown }
  | { kind: "changed"; key: string; before: unknown; after: unknown }
  | { kind: "removed"; key: string; before: unknown }
  /** A list in which entries were replaced. If none were removed, entries were inserted at an index. */
  | { kind: "list"; key: string; at: number; removed: unknown[]; added: unknown[]; length: number };

/** Objects are compared key by key to this depth, and as a whole below it. */
const depth = 3;

const isObject = (v: unknown): v is Values => typeof v === "object" && v !== null && !Array.isArray(v);

/** same reports whether two JSON values are equal. */
export function same(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a)) return Array.isArray(b) && a.length === b.length && a.every((v, i) => same(v, b[i]));
  if (Array.isArray(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((k) => k in b && same((a as Values)[k], (b as Values)[k]));
}

/** diffOf returns the changes from one state to another. An empty key stands for the whole value. */
export function diffOf(before: unknown, after: unknown): Change[] {
  const out: Change[] = [];
  compare(out, "", before, after, 0);
  return out;
}

function compare(out: Change[], key: string, before: unknown, after: unknown, level: number) {
  if (isObject(before ?? (level === 0 ? {} : before)) && isObject(after) && level < depth) {
    compareKeys(out, key, (before ?? {}) as Values, after, level);
    return;
  }
  if (same(before, after)) return;
  if (Array.isArray(before) && Array.isArray(after)) {
    out.push(listChange(key, before, after));
    return;
  }
  out.push({ kind: "changed", key, before, after });
}

function compareKeys(out: Change[], prefix: string, before: Values, after: Values, level: number) {
  for (const k of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const key = prefix ? prefix + "." + k : k;
    // A new list is treated like one that was empty.
    if (!(k in before)) {
      const v = after[k];
      if (Array.isArray(v) && v.length > 0)
        out.push({ kind: "list", key, at: 0, removed: [], added: v, length: v.length });
      else out.push({ kind: "added", key, after: v });
    } else if (!(k in after)) out.push({ kind: "removed", key, before: before[k] });
    else compare(out, key, before[k], after[k], level + 1);
  }
}

/** listChange omits the common start and end of both lists. */
function listChange(key: string, before: unknown[], after: unknown[]): Change {
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && same(before[head], after[head])) head++;
  let tail = 0;
  while (tail < most - head && same(before[before.length - 1 - tail], after[after.length - 1 - tail])) tail++;
  return {
    kind: "list",
    key,
    at: head,
    removed: before.slice(head, before.length - tail),
    added: after.slice(head, after.length - tail),
    length: after.length,
  };
}

/** updateOf returns the keys whose values an edit changed, as an update of the state. */
export function updateOf(before: Values, after: Values): Values {
  const out: Values = {};
  for (const [k, v] of Object.entries(after)) if (!(k in before) || !same(before[k], v)) out[k] = v;
  // A key cannot be deleted, but it can be set to null.
  for (const k of Object.keys(before)) if (!(k in after)) out[k] = null;
  return out;
}

/** appendedTo returns the entries that an edit appended to a list, or null if it did something else. */
export function appendedTo(before: unknown, after: unknown): unknown[] | null {
  if (!Array.isArray(before) || !Array.isArray(after) || after.length <= before.length) return null;
  return before.every((v, i) => same(v, after[i])) ? after.slice(before.length) : null;
}
