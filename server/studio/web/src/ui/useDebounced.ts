import { useEffect, useState } from "react";

/**
 * useDebounced returns a value after it has not changed for a while, so that typing does not send a request per key.
 */
export function useDebounced<T>(value: T, wait = 250): T {
  const [settled, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), wait);
    return () => clearTimeout(timer);
  }, [value, wait]);
  return settled;
}
