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
  // True from toEnd until the user's next input, because an earlier wheel or key event may still move the page up.
  const returning = useRef(false);
  const [away, setAway] = useState(false);
  const toEnd = useCallback(() => {
    following.current = returning.current = true;
    setAway(false);
    const el = scroller.current;
    if (el) el.scrollTop = el.scrollHeight;
  }, []);
  const leaveEnd = useCallback(() => {
    following.current = returning.current = false;
  }, []);
  useEffect(() => {
    const el = scroller.current!;
    let top = el.scrollTop;
    let height = el.scrollHeight;
    // While this timer runs, the user scrolls up. That starts with a few pixels, where the end is still near, and
    // returning to the end would stop it.
    let leaving: number | undefined;
    const isNear = () => el.scrollHeight - el.scrollTop - el.clientHeight < near;
    const moved = () => {
      if (isNear()) following.current ||= leaving === undefined;
      else if (returning.current) el.scrollTop = el.scrollHeight;
      // Growing content also increases the distance to the end, but does not move up. The list moves up by itself when
      // rows turn out shorter.
      else if (el.scrollTop < top - 1 && el.scrollHeight === height) following.current = false;
      top = el.scrollTop;
      height = el.scrollHeight;
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
    const newInput = () => {
      returning.current = false;
    };
    for (const type of ["wheel", "touchstart", "keydown", "pointerdown"])
      window.addEventListener(type, newInput, { ...options, capture: true });
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
