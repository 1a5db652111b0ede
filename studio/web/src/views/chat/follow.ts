import { useCallback, useEffect, useRef, useState } from "react";

/** Nearer to the end than this counts as being there. */
const near = 48;

/** useFollow keeps a scroller at its end while content grows, until the user scrolls up. */
export function useFollow() {
  const scroller = useRef<HTMLDivElement | null>(null);
  const content = useRef<HTMLDivElement | null>(null);
  const following = useRef(true);
  const [away, setAway] = useState(false);
  const toEnd = useCallback(() => {
    following.current = true;
    setAway(false);
    const el = scroller.current;
    if (el) el.scrollTop = el.scrollHeight;
  }, []);
  useEffect(() => {
    const el = scroller.current;
    const inner = content.current;
    if (!el || !inner) return;
    let top = el.scrollTop;
    const onScroll = () => {
      const gap = el.scrollHeight - el.scrollTop - el.clientHeight;
      // Growing content makes the gap larger too; only the user moves up.
      if (gap < near) following.current = true;
      else if (el.scrollTop < top - 1) following.current = false;
      top = el.scrollTop;
      setAway(!following.current);
    };
    const sizes = new ResizeObserver(() => {
      if (following.current) el.scrollTop = el.scrollHeight;
    });
    sizes.observe(inner);
    sizes.observe(el);
    el.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      sizes.disconnect();
      el.removeEventListener("scroll", onScroll);
    };
  }, []);
  return { scroller, content, following, away, toEnd };
}
