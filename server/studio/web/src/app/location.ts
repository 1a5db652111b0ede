// The URL determines what is shown, so that it can be linked: the server, the
// assistant, the thread, one of its checkpoints, and the view with its filters.
import { useSyncExternalStore } from "react";

export const views = ["graph", "chat", "trace", "agent", "inbox", "runs", "store", "memory", "compare"] as const;
export type View = (typeof views)[number];

/** The parameters of a view: its filters, and what is open in it. */
const paramKeys = ["part", "status", "graph", "by", "since", "error", "namespace", "item", "user"] as const;
export type Params = Partial<Record<(typeof paramKeys)[number], string>>;

export interface Location {
  baseUrl: string | null;
  view: View;
  assistant: string | null;
  thread: string | null;
  checkpoint: string | null;
  run: string | null;
  params: Params;
  /** Of the view compare: the right assistant, the right checkpoint, and the threads of both runs. */
  other: string | null;
  with: string | null;
  left: string | null;
  right: string | null;
}

const compared = ["other", "with", "left", "right"] as const;
const keys = ["baseUrl", "assistant", "thread", "checkpoint", "run", ...compared] as const;

function read(): Location {
  const q = new URLSearchParams(window.location.search);
  const view = q.get("view") as View | null;
  const out: Location = {
    baseUrl: null,
    view: view && views.includes(view) ? view : "graph",
    assistant: null,
    thread: null,
    checkpoint: null,
    run: null,
    params: {},
    other: null,
    with: null,
    left: null,
    right: null,
  };
  for (const key of keys) out[key] = q.get(key) || null;
  for (const key of paramKeys) {
    const value = q.get(key);
    if (value) out.params[key] = value;
  }
  return out;
}

let current = read();
const listeners = new Set<() => void>();

function changed() {
  current = read();
  for (const listener of listeners) listener();
}

window.addEventListener("popstate", changed);

/**
 * hrefOf returns the URL with parts changed. Changing the thread removes the checkpoint and the run, and changing the
 * view removes the parameters of the previous one.
 */
export function hrefOf(to: Partial<Location>): string {
  const next = { ...current, ...to };
  if ("thread" in to && to.thread !== current.thread) {
    if (!("checkpoint" in to)) next.checkpoint = null;
    if (!("run" in to)) next.run = null;
  }
  if ("view" in to && to.view !== current.view && !("params" in to)) next.params = {};
  if (next.view !== "compare") for (const key of compared) next[key] = null;
  const q = new URLSearchParams();
  if (next.view !== "graph") q.set("view", next.view);
  for (const key of keys) if (next[key]) q.set(key, next[key]);
  for (const key of paramKeys) if (next.params[key]) q.set(key, next.params[key]);
  return q.toString() ? "?" + q.toString() : window.location.pathname;
}

/** go changes parts of the location. */
export function go(to: Partial<Location>, how: "push" | "replace" = "push") {
  if (how === "push") window.history.pushState(null, "", hrefOf(to));
  else window.history.replaceState(null, "", hrefOf(to));
  changed();
}

/** setParams changes parameters of the current view. */
export function setParams(to: Params, how: "push" | "replace" = "replace") {
  go({ params: { ...current.params, ...to } }, how);
}

export function useLocation(): Location {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}
