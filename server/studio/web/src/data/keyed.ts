import { useSyncExternalStore } from "react";

/** keyed keeps a value per key while the page is open, even if no view shows it. */
export function keyed<T>(initial: T) {
  const values = new Map<string, T>();
  const listeners = new Set<() => void>();
  const subscribe = (listener: () => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  const get = (key: string): T => values.get(key) ?? initial;
  return {
    get,
    set(key: string, to: T) {
      values.set(key, to);
      for (const listener of listeners) listener();
    },
    use: (key: string): T => useSyncExternalStore(subscribe, () => get(key)),
  };
}
