import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useLayoutEffect, useRef, useState, type CSSProperties, type KeyboardEvent } from "react";
import { Icon, type IconName } from "../../ui/Icon";
import { duration } from "../../ui/format";
import { dollars, spanOfId, usageOf, type Span, type SpanKind, type SpanStatus } from "./spans";

const icons: Partial<Record<SpanKind, IconName>> = {
  graph: "graph",
  model: "chat",
  tool: "tool",
  retriever: "store",
  retry: "refresh",
};
const kinds: Record<SpanKind, string> = {
  node: "node",
  graph: "subgraph",
  model: "model call",
  tool: "tool",
  retriever: "retrieval",
  retry: "retried attempt",
};
const states: Record<SpanStatus, string> = {
  running: "running",
  done: "done",
  error: "failed",
  interrupted: "interrupted",
  stopped: "stopped",
};

interface Props {
  spans: Span[];
  start: number;
  end: number;
  opened: string | null;
  onOpen(id: string | null): void;
}

/** Waterfall draws spans as bars on a time axis. The up and down keys move, and Enter opens. */
export function Waterfall({ spans, start, end, opened, onOpen }: Props) {
  const scroller = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(0);
  const [pointed, setPointed] = useState<string | null>(null);
  const at = Math.min(active, spans.length - 1);
  const list = useVirtualizer({
    count: spans.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => 30,
    // A row stays the same when its call has been recorded.
    getItemKey: (i) => spans[i]!.said ?? spans[i]!.id,
    overscan: 10,
  });
  const onKey = (e: KeyboardEvent) => {
    const to = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      Home: 0,
      End: spans.length - 1,
      PageDown: at + 10,
      PageUp: at - 10,
    }[e.key];
    if (to !== undefined) {
      e.preventDefault();
      const next = Math.max(0, Math.min(spans.length - 1, to));
      setActive(next);
      list.scrollToIndex(next);
      // With the details open, they follow.
      if (opened !== null) onOpen(spans[next]!.id);
    } else if (e.key === "Enter" || e.key === " ") {
      e.preventDefault();
      onOpen(spans[at]!.id);
    } else if (e.key === "Escape") onOpen(null);
  };
  const told = spanOfId(spans, pointed) ?? spans[at]!;
  return (
    <div className="waterfall">
      <Axis length={end - start} />
      <div
        className="waterfall-scroll"
        ref={scroller}
        role="tree"
        aria-label="Trace"
        tabIndex={0}
        aria-activedescendant={rowId(spans[at]!)}
        onKeyDown={onKey}
        onPointerLeave={() => setPointed(null)}
      >
        <div className="waterfall-list" role="none" style={{ height: list.getTotalSize() }}>
          {list.getVirtualItems().map((item) => (
            <Line
              key={item.key}
              span={spans[item.index]!}
              top={item.start}
              from={start}
              length={end - start}
              active={item.index === at}
              opened={spans[item.index]!.id === opened}
              onPoint={setPointed}
              onOpen={(id) => {
                setActive(item.index);
                onOpen(id);
              }}
            />
          ))}
        </div>
      </div>
      <p className="waterfall-told">{tell(told, start, end)}</p>
    </div>
  );
}

const rowId = (s: Span) => "span-" + s.id.replaceAll(" ", "-");

/** tries returns the number of attempts; a retry span counts as one. */
export const tries = (s: Span): number => (s.kind === "retry" ? 1 : s.attempt);

/** tell describes a span in one line. */
function tell(s: Span, start: number, end: number): string {
  const u = s.kind === "model" ? usageOf(s) : null;
  return [
    `${s.name}: ${kinds[s.kind]}, ${states[s.status]}`,
    `${s.rough ? "within " : ""}${duration((s.end ?? end) - s.start)}, starting at ${duration(s.start - start)}`,
    tries(s) > 1 ? `${s.attempt} attempts` : "",
    u ? `${u.input.toLocaleString()} tokens in, ${u.output.toLocaleString()} out` : "",
    u?.cost == null ? "" : dollars(u.cost),
    s.error ?? "",
  ]
    .filter(Boolean)
    .join(" · ");
}

interface LineProps {
  span: Span;
  top: number;
  from: number;
  length: number;
  active: boolean;
  opened: boolean;
  onPoint(id: string): void;
  onOpen(id: string): void;
}

const Line = memo(
  function Line({ span: s, top, from, length, active, opened, onPoint, onOpen }: LineProps) {
    const end = s.end ?? from + length;
    const left = ((s.start - from) / length) * 100;
    const width = Math.max(0, ((end - s.start) / length) * 100);
    return (
      <div
        id={rowId(s)}
        role="treeitem"
        aria-level={s.depth + 1}
        aria-selected={opened}
        className="waterfall-row"
        data-active={active || undefined}
        style={{ transform: `translateY(${top}px)` }}
        onPointerEnter={() => onPoint(s.id)}
        onClick={() => onOpen(s.id)}
      >
        <span className="waterfall-name" data-kind={s.kind} style={{ "--depth": s.depth } as CSSProperties}>
          {icons[s.kind] ? <Icon name={icons[s.kind]!} size={13} /> : <span className="waterfall-node" aria-hidden />}
          <span className="cut">{s.name}</span>
          <span className="hidden">
            {" "}
            {kinds[s.kind]} {states[s.status]}{" "}
          </span>
          {tries(s) > 1 ? <span className="badge warn">{s.attempt} attempts</span> : null}
        </span>
        <span className="waterfall-track">
          <span
            className="waterfall-bar"
            data-kind={s.kind}
            data-status={s.status}
            data-rough={s.rough}
            style={{ left: `${left}%`, width: `max(3px, ${width}%)` }}
          />
          <span className="waterfall-took" style={{ left: `calc(max(${left}% + 3px, ${left + width}%) + 6px)` }}>
            {s.status === "running" ? "…" : duration(end - s.start)}
          </span>
        </span>
      </div>
    );
  },
  (a, b) =>
    a.span === b.span &&
    a.top === b.top &&
    a.from === b.from &&
    a.length === b.length &&
    a.active === b.active &&
    a.opened === b.opened,
);

/** The width in pixels that the label of a mark needs. */
const markWidth = 58;

/** Axis draws marks at round times, as many as there is space for. */
function Axis({ length }: { length: number }) {
  const track = useRef<HTMLSpanElement>(null);
  const [width, setWidth] = useState(Infinity);
  useLayoutEffect(() => {
    const fit = () => setWidth(Math.max(markWidth, track.current!.clientWidth));
    fit();
    const observer = new ResizeObserver(fit);
    observer.observe(track.current!);
    return () => observer.disconnect();
  }, []);
  const step = roundUp(length * Math.max(1 / 5, markWidth / width));
  const marks = Array.from({ length: Math.floor(length / step) + 1 }, (_, i) => i * step).filter(
    (t) => t / length < 0.94,
  );
  return (
    <div className="waterfall-axis" aria-hidden>
      <span className="waterfall-name">Name</span>
      <span className="waterfall-track" ref={track}>
        {marks.map((t) => (
          <span key={t} className="waterfall-mark" style={{ left: `${(t / length) * 100}%` }}>
            {t === 0 ? "0" : duration(t)}
          </span>
        ))}
      </span>
    </div>
  );
}

/** roundUp returns the next of 1, 2, 5, 10, 20, 50, … */
function roundUp(n: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 0.001)));
  return [1, 2, 5, 10].map((f) => f * power).find((f) => f >= n) ?? n;
}
