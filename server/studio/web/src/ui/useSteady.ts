import { useEffect, useRef, useState } from "react";

/** The time for which rows keep their place after the pointer has moved. */
const calm = 1_000;

/**
 * useSteady keeps the order of a list while the pointer moves over it, so that a row does not change under the pointer
 * just before a click. Removed rows disappear, and new ones appear when the pointer rests.
 */
export function useSteady<T>(items: T[], idOf: (item: T) => string): { items: T[]; onPointerMove(): void } {
  const moved = useRef(-Infinity);
  const shown = useRef(items);
  const [, again] = useState(0);
  const busy = performance.now() - moved.current < calm;
  const byId = busy ? new Map(items.map((i) => [idOf(i), i])) : null;
  const kept = byId ? shown.current.flatMap((i) => byId.get(idOf(i)) ?? []) : items;
  // A requested order, such as by a filter, applies immediately.
  const next = kept.length > 0 ? kept : items;
  shown.current = next;
  const waiting = busy && next.length === items.length ? next.some((n, i) => idOf(n) !== idOf(items[i]!)) : busy;
  useEffect(() => {
    if (!waiting) return;
    const timer = setTimeout(() => again((n) => n + 1), Math.max(50, calm - (performance.now() - moved.current) + 10));
    return () => clearTimeout(timer);
  });
  return { items: next, onPointerMove: () => (moved.current = performance.now()) };
}
