// Moving about in the graph, by buttons and by keys.
import { Panel, useReactFlow } from "@xyflow/react";
import { useCallback, useEffect, useMemo, useRef, type FocusEvent, type KeyboardEvent, type RefObject } from "react";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";
import type { GraphNode } from "./nodes";

const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;
const motion = () => ({ duration: still() ? 0 : 200 });
const fitting = { padding: 0.12, maxZoom: 1.15 };

/** Below this, names cannot be read. */
const readable = 0.4;
/** How close the beginning of a graph is that does not fit. */
const closer = 0.6;

/** useFit shows the graph when it or its place changes: all of it, or else its beginning. */
export function useFit(nodes: GraphNode[]): RefObject<HTMLDivElement | null> {
  const host = useRef<HTMLDivElement>(null);
  const { fitView, setViewport, getNodesBounds } = useReactFlow<GraphNode>();
  const first = useRef(true);
  const fit = useCallback(
    (o: { duration?: number }) => {
      const { clientWidth: w, clientHeight: h } = host.current!;
      const all = getNodesBounds(nodes);
      const top = nodes.find((n) => n.data.vertex.kind === "start" && !n.data.vertex.parent) ?? nodes[0];
      if (!top || Math.min(w / all.width, h / all.height) >= readable) return void fitView({ ...fitting, ...o });
      void setViewport({ x: w / 2 - (top.position.x + (top.width ?? 0) / 2) * closer, y: 24 - top.position.y * closer, zoom: closer }, o);
    },
    [nodes, fitView, setViewport, getNodesBounds],
  );
  useEffect(() => {
    // The nodes that were given are known to the graph in the next frame.
    const frame = requestAnimationFrame(() => {
      fit(first.current ? {} : motion());
      first.current = false;
    });
    const size = () => `${host.current!.clientWidth} ${host.current!.clientHeight}`;
    let before = size();
    const observer = new ResizeObserver(() => {
      // It also reports the size that it begins with.
      if (before === (before = size())) return;
      fit({});
    });
    observer.observe(host.current!);
    return () => {
      cancelAnimationFrame(frame);
      observer.disconnect();
    };
  }, [fit]);
  return host;
}

const arrows: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };

/** useKeys moves and zooms by keys, and shows the node that the focus is on. */
export function useKeys() {
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
        else if (e.key === "0") void flow.fitView({ ...fitting, ...motion() });
        else return;
        e.preventDefault();
      },
      onFocus(e: FocusEvent) {
        const node = flow.getNode((e.target as Element).closest<HTMLElement>(".react-flow__node")?.dataset.id ?? "");
        if (!node || !e.target.matches(":focus-visible")) return;
        // Browsers scroll to what has the focus, but it is the viewport of the graph that has to move.
        for (let box = e.target.parentElement; box && e.currentTarget.contains(box); box = box.parentElement) box.scrollTo(0, 0);
        const { x, y, zoom } = flow.getViewport();
        const { width = 0, height = 0, position } = node;
        const [left, top] = [x + position.x * zoom, y + position.y * zoom];
        if (left >= 0 && top >= 0 && left + width * zoom <= e.currentTarget.clientWidth && top + height * zoom <= e.currentTarget.clientHeight) return;
        void flow.setCenter(position.x + width / 2, position.y + height / 2, { zoom: Math.max(zoom, closer) });
      },
    }),
    [flow],
  );
}

export function Controls({ map, onMap, groups, allOpen, onOpenAll }: { map: boolean; onMap(): void; groups: boolean; allOpen: boolean; onOpenAll(all: boolean): void }) {
  const flow = useReactFlow();
  return (
    <Panel position="bottom-left" className="graph-controls">
      <Button size="small" label="Zoom in" onClick={() => void flow.zoomIn(motion())}>
        <Icon name="plus" size={13} />
      </Button>
      <Button size="small" label="Zoom out" onClick={() => void flow.zoomOut(motion())}>
        <Icon name="minus" size={13} />
      </Button>
      <Button size="small" label="Show all" onClick={() => void flow.fitView({ ...fitting, ...motion() })}>
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
    </Panel>
  );
}
