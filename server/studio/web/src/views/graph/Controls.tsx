// Navigation in the graph, by buttons and keys.
import { getViewportForBounds, useOnViewportChange, useReactFlow } from "@xyflow/react";
import {
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
  type FocusEvent,
  type KeyboardEvent,
  type RefObject,
} from "react";
import { flushSync } from "react-dom";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import type { Box } from "./layout";
import type { GraphNode } from "./nodes";

const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;
const motion = () => ({ duration: still() ? 0 : 200 });
export const zooms = { min: 0.02, max: 2 };

/** Below this zoom level, nodes show only their names, in larger letters. */
export const far = 0.5;
/** Below this zoom level, graphs of many nodes are drawn without names. */
export const farther = 0.45;
/** Below this zoom level, names cannot be read. */
const readable = 0.18;
/** The zoom level for the start of a graph that does not fit. */
const closer = 0.6;

export interface Fit {
  host: RefObject<HTMLDivElement | null>;
  /** Whether the whole graph is about to be in view, and would be too small for names. */
  ahead: boolean;
  /** showAll fits the whole graph into view. */
  showAll(o: { duration?: number }): void;
}

/** useFit fits the graph into view when it or its container changes: the whole graph, or else its start. */
export function useFit(nodes: GraphNode[], bounds: Box): Fit {
  const host = useRef<HTMLDivElement>(null);
  const { setViewport } = useReactFlow<GraphNode>();
  const first = useRef(true);
  const [ahead, setAhead] = useState(false);
  // The promise of a movement that another one interrupts never settles, but a movement always ends.
  const onEnd = useCallback(() => setAhead(false), []);
  useOnViewportChange({ onEnd });
  const showAll = useCallback(
    (o: { duration?: number }) => {
      const { clientWidth: w, clientHeight: h } = host.current!;
      const to = getViewportForBounds(bounds, w, h, zooms.min, 1.15, 0.02);
      // Nodes that would be drawn as shapes a moment later are not drawn before.
      if (to.zoom < farther) flushSync(() => setAhead(true));
      void setViewport(to, o).then(onEnd);
    },
    [bounds, setViewport, onEnd],
  );
  const fit = useCallback(
    (o: { duration?: number }) => {
      const { clientWidth: w, clientHeight: h } = host.current!;
      const top = nodes.find((n) => n.data.vertex.kind === "start" && !n.data.vertex.parent) ?? nodes[0];
      if (!top || Math.min(w / bounds.width, h / bounds.height) >= readable) return showAll(o);
      void setViewport(
        { x: w / 2 - (top.position.x + (top.width ?? 0) / 2) * closer, y: 24 - top.position.y * closer, zoom: closer },
        o,
      );
    },
    [nodes, bounds, setViewport, showAll],
  );
  useEffect(() => {
    // The graph has the new nodes in the next frame.
    const frame = requestAnimationFrame(() => {
      fit(first.current ? {} : motion());
      first.current = false;
    });
    const size = () => `${host.current!.clientWidth} ${host.current!.clientHeight}`;
    let before = size();
    const observer = new ResizeObserver(() => {
      // It also reports the initial size.
      if (before === (before = size())) return;
      fit({});
    });
    observer.observe(host.current!);
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
    };
  }, [fit]);
  return useMemo(() => ({ host, ahead, showAll }), [ahead, showAll]);
}

const arrows: Record<string, [number, number]> = {
  ArrowLeft: [60, 0],
  ArrowRight: [-60, 0],
  ArrowUp: [0, 60],
  ArrowDown: [0, -60],
};

/** useKeys moves and zooms by keys, and scrolls the focused node into view. */
export function useKeys({ showAll }: Fit) {
  const flow = useReactFlow<GraphNode>();
  return useMemo(
    () => ({
      onKeyDown(e: KeyboardEvent) {
        // Keys in the box of a node's details come here too, although it is elsewhere on the page.
        if (e.ctrlKey || e.metaKey || e.altKey || !e.currentTarget.contains(e.target as Element)) return;
        const by = arrows[e.key];
        if (by) {
          const { x, y, zoom } = flow.getViewport();
          void flow.setViewport({ x: x + by[0], y: y + by[1], zoom });
        } else if (e.key === "+" || e.key === "=") void flow.zoomIn(motion());
        else if (e.key === "-") void flow.zoomOut(motion());
        else if (e.key === "0") showAll(motion());
        else return;
        e.preventDefault();
      },
      onFocus(e: FocusEvent) {
        const node = flow.getNode(e.target.closest<HTMLElement>(".react-flow__node")?.dataset.id ?? "");
        if (!node || !e.target.matches(":focus-visible")) return;
        // Browsers scroll to what has the focus, but it is the viewport of the graph that has to move.
        for (let box = e.target.parentElement; box && e.currentTarget.contains(box); box = box.parentElement)
          box.scrollTo(0, 0);
        const { x, y, zoom } = flow.getViewport();
        const { width = 0, height = 0, position } = node;
        const [left, top] = [x + position.x * zoom, y + position.y * zoom];
        if (
          left >= 0 &&
          top >= 0 &&
          left + width * zoom <= e.currentTarget.clientWidth &&
          top + height * zoom <= e.currentTarget.clientHeight
        )
          return;
        void flow.setCenter(position.x + width / 2, position.y + height / 2, { zoom: Math.max(zoom, closer) });
      },
    }),
    [flow, showAll],
  );
}

export function Controls({
  fit,
  map,
  onMap,
  groups,
  allOpen,
  onOpenAll,
}: {
  fit: Fit;
  map: boolean;
  onMap(): void;
  groups: boolean;
  allOpen: boolean;
  onOpenAll(all: boolean): void;
}) {
  const flow = useReactFlow();
  return (
    <div className="graph-controls">
      <Button size="small" label="Zoom in" onClick={() => void flow.zoomIn(motion())}>
        <Icon name="plus" size={13} />
      </Button>
      <Button size="small" label="Zoom out" onClick={() => void flow.zoomOut(motion())}>
        <Icon name="minus" size={13} />
      </Button>
      <Button size="small" label="Show all" onClick={() => fit.showAll(motion())}>
        <Icon name="fit" size={13} />
      </Button>
      <Button size="small" label="Map" aria-pressed={map} onClick={onMap}>
        <Icon name="map" size={13} />
      </Button>
      {groups ? (
        <Button size="small" onClick={() => onOpenAll(!allOpen)}>
          {allOpen ? "Close subgraphs" : "Open subgraphs"}
        </Button>
      ) : null}
    </div>
  );
}
