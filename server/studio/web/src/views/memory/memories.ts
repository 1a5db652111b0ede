// Memories are items of the store. Packages write them in different shapes: Treadle's
// memory and LangMem as {"kind": …, "content": …}, others as {"text": …} or the like.
import type { StoredItem } from "../../data/items";

type Json = Record<string, unknown>;

export interface Source {
  thread?: string;
  checkpoint?: string;
  run?: string;
  model?: string;
  /** The model's reason for the change. */
  reason?: string;
}

export interface Remembered {
  item: StoredItem;
  kind: string;
  /** The remembered text, if any, and its path in the item's value. */
  text: string | null;
  path: string[];
  /** The other fields, or all of them if there is no text. */
  fields: [string, unknown][];
  source: Source;
  /** The model's confidence, from 0 to 1. */
  confidence?: number;
  importance?: number;
  from?: string;
  until?: string;
}

const textKeys = ["content", "text", "memory", "fact", "summary", "data", "value"];
/** Fields of a value that describe the memory and are not part of it. */
const aboutKeys = ["kind", "source", "provenance", "confidence", "importance", "validity", "thread_id", "run_id"];

const isObject = (v: unknown): v is Json => typeof v === "object" && v !== null && !Array.isArray(v);
const object = (v: unknown): Json => (isObject(v) ? v : {});
const text = (...all: unknown[]): string | undefined => all.find((v): v is string => typeof v === "string" && v !== "");
const number = (...all: unknown[]): number | undefined => all.find((v): v is number => typeof v === "number");

/** remembered extracts a memory from an item. */
export function remembered(item: StoredItem): Remembered {
  const value = object(item.value);
  const meta = object(item.meta);
  const p = { ...object(value.source), ...object(value.provenance), ...object(meta.provenance) };
  const validity = { ...object(value.validity), ...object(meta.validity) };
  const wrapped = isObject(value.content);
  const content = wrapped ? (value.content as Json) : value;
  const key = textKeys.find((k) => typeof content[k] === "string") ?? onlyText(content);
  return {
    item,
    kind: text(value.kind) ?? "Note",
    text: key ? (content[key] as string) : null,
    path: key ? (wrapped ? ["content", key] : [key]) : [],
    fields: Object.entries(content).filter(([k]) => k !== key && (wrapped || !aboutKeys.includes(k))),
    source: {
      thread: text(p.thread, p.thread_id, value.thread_id),
      checkpoint: text(p.checkpoint, p.checkpoint_id),
      run: text(p.run, p.run_id, value.run_id),
      model: text(p.model),
      reason: text(p.reason),
    },
    confidence: number(p.confidence, value.confidence),
    importance: number(meta.importance, value.importance),
    from: text(validity.from),
    until: text(validity.until),
  };
}

function onlyText(content: Json): string | undefined {
  const texts = Object.keys(content).filter((k) => typeof content[k] === "string" && !aboutKeys.includes(k));
  return texts.length === 1 && Object.keys(content).length === 1 ? texts[0] : undefined;
}

/** withText returns a value with another text at a path. */
export function withText(value: Json, [key, ...rest]: string[], text: string): Json {
  return { ...value, [key!]: rest.length ? withText(object(value[key!]), rest, text) : text };
}

/** An Owner is the subject of memories: one label of their namespaces. */
export interface Owner {
  name: string;
  namespaces: string[][];
}

const memoryLabel = /memor/i;

/**
 * ownersOf groups namespaces by owner. The owner is the label after the label
 * that names memories, as in memories / ada, or before it, as in ada / memories. Without such
 * a label, a namespace counts only if all do, and its second label is the owner.
 */
export function ownersOf(namespaces: string[][], all: boolean): Owner[] {
  const owners = new Map<string, Owner>();
  for (const ns of namespaces) {
    // Labels like __memory_uses__ are for the package that writes them.
    if (ns[0]?.startsWith("__")) continue;
    const at = ns.findIndex((l) => memoryLabel.test(l));
    if (at < 0 && !all) continue;
    const name = (at < 0 ? ns[1] : (ns[at + 1] ?? ns[at - 1])) ?? ns[0]!;
    const owner = owners.get(name) ?? { name, namespaces: [] };
    owner.namespaces.push(ns);
    owners.set(name, owner);
  }
  for (const o of owners.values())
    o.namespaces = o.namespaces.filter(
      (ns) => !o.namespaces.some((up) => up.length < ns.length && up.every((l, i) => l === ns[i])),
    );
  return [...owners.values()].sort((a, b) => a.name.localeCompare(b.name));
}

/** byKind groups memories, newest first. */
export function byKind(memories: Remembered[]): [string, Remembered[]][] {
  const kinds = new Map<string, Remembered[]>();
  for (const m of [...memories].sort((a, b) => (a.item.updatedAt < b.item.updatedAt ? 1 : -1))) {
    const list = kinds.get(m.kind);
    if (list) list.push(m);
    else kinds.set(m.kind, [m]);
  }
  return [...kinds].sort(([a], [b]) => a.localeCompare(b));
}
