import { useEffect, useState } from "react";

/** useNow returns the current time, updated regularly for texts like "2 min ago". */
export function useNow(every = 20_000): number {
  const [now, set] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}
