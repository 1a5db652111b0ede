import { useEffect, useState } from "react";

/** useLate reports whether a component has been shown for a while, so that it need not wait for something slow. */
export function useLate(ms: number): boolean {
  const [late, set] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => set(true), ms);
    return () => clearTimeout(timer);
  }, [ms]);
  return late;
}
