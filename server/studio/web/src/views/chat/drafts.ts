// Unsent drafts, by thread. They outlive the view.
import { useSyncExternalStore } from "react";
import type { Attachment } from "./content";

export interface Draft {
  text: string;
  images: Attachment[];
}

const empty: Draft = { text: "", images: [] };
const drafts = new Map<string, Draft>();
const listeners = new Set<() => void>();

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export function setDraft(thread: string | null, to: Partial<Draft>) {
  drafts.set(thread ?? "", { ...(drafts.get(thread ?? "") ?? empty), ...to });
  for (const listener of listeners) listener();
}

/** moveDraft keeps what was typed while the first run of a thread created it. */
export function moveDraft(thread: string) {
  setDraft(thread, getDraft(null));
  clearDraft(null);
}

export const clearDraft = (thread: string | null) => setDraft(thread, empty);
export const getDraft = (thread: string | null): Draft => drafts.get(thread ?? "") ?? empty;

export function useDraft(thread: string | null): Draft {
  return useSyncExternalStore(subscribe, () => getDraft(thread));
}
