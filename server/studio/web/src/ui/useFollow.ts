import { useCallback, useEffect, useRef, useState } from "react";

/** A distance to the end below this counts as being at the end. */
const near = 32;

/** The time in milliseconds for which the page may keep moving after a wheel, key, or touch event. */
const moving = 300;

/** The keys that scroll up. */
const up = new Set(["ArrowUp", "PageUp", "Home"]);

/**
 * useFollow keeps a scroller at its end while content grows, until the user scrolls up. begin controls whether the end
 * is followed at first.
 */
export function useFollow(begin = true) {
  const scroller = useRef<HTMLDivElement | null>(null);
  const content = useRef<HTMLDivElement | null>(null);
  const following = useRef(begin);
  const [away, setAway] = useState(false);
  const toEnd = useCallback(() => {
    following.current = true;
    setAway(false);
    const el = scroller.current;
    if (el) el.scrollTop = el.scrollHeight;
  }, []);
  const leaveEnd = useCallback(() => {
    following.current = false;
  }, []);
  useEffect(() => {
    const el = scroller.current!;
    let top = el.scrollTop;
    // While this timer runs, the user scrolls up. That starts with a few pixels, where the end is still near, and
    // returning to the end would stop it.
    let leaving: number | undefined;
    const isNear = () => el.scrollHeight - el.scrollTop - el.clientHeight < near;
    const moved = () => {
      if (isNear()) following.current ||= leaving === undefined;
      // Growing content also increases the distance to the end, but does not move up.
      else if (el.scrollTop < top - 1) following.current = false;
      top = el.scrollTop;
      setAway(!following.current && !isNear());
    };
    const grown = () => {
      if (following.current) el.scrollTop = el.scrollHeight;
      else setAway(!isNear());
    };
    const leave = () => {
      if (el.scrollTop === 0) return;
      following.current = false;
      clearTimeout(leaving);
      leaving = window.setTimeout(() => {
        leaving = undefined;
        moved();
      }, moving);
    };
    const ended = new AbortController();
    const options = { passive: true, signal: ended.signal };
    el.addEventListener("scroll", moved, options);
    el.addEventListener("touchmove", leave, options);
    el.addEventListener("wheel", (e) => e.deltaY < 0 && leave(), options);
    el.addEventListener("keydown", (e) => e.target === el && up.has(e.key) && leave(), options);
    const sizes = new ResizeObserver(grown);
    sizes.observe(content.current!);
    sizes.observe(el);
    return () => {
      clearTimeout(leaving);
      sizes.disconnect();
      ended.abort();
    };
  }, []);
  return { scroller, content, following, away, toEnd, leaveEnd };
}
