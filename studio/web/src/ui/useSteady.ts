import { useEffect, useRef, useState } from "react";

/** How long after the pointer has moved the rows below it stay where they are. */
const calm = 1_000;

/**
 * useSteady keeps the order of a list while the pointer moves over it, so that nobody clicks on a row that was another one a
 * moment ago. Rows that are gone go, and new ones come when the pointer rests.
 */
export function useSteady<T>(items: T[], idOf: (item: T) => string): { items: T[]; onPointerMove(): void } {
  const moved = useRef(0);
  const shown = useRef(items);
  const [, again] = useState(0);
  const busy = performance.now() - moved.current < calm;
  const byId = busy ? new Map(items.map((i) => [idOf(i), i])) : null;
  const kept = byId ? shown.current.flatMap((i) => byId.get(idOf(i)) ?? []) : items;
  // An order that was asked for, such as by a filter, shows at once.
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
