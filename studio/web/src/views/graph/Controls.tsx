// Moving about in the graph, by buttons and by keys.
import { Panel, useReactFlow } from "@xyflow/react";
import { useCallback, useEffect, useRef, type KeyboardEvent, type RefObject } from "react";
import { Button } from "../../ui/Button";
import { Icon } from "../../ui/Icon";

const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;
const motion = () => ({ duration: still() ? 0 : 200 });
const fitting = { padding: 0.12, maxZoom: 1.15 };

/** useFit shows the whole graph when it or its place changes. */
export function useFit(nodes: unknown): RefObject<HTMLDivElement | null> {
  const host = useRef<HTMLDivElement>(null);
  const { fitView } = useReactFlow();
  const first = useRef(true);
  useEffect(() => {
    // The nodes that were given are known to the graph in the next frame.
    const frame = requestAnimationFrame(() => {
      void fitView({ ...fitting, ...(first.current ? {} : motion()) });
      first.current = false;
    });
    return () => cancelAnimationFrame(frame);
  }, [nodes, fitView]);
  useEffect(() => {
    const observer = new ResizeObserver(() => void fitView(fitting));
    observer.observe(host.current!);
    return () => observer.disconnect();
  }, [fitView]);
  return host;
}

const arrows: Record<string, [number, number]> = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };

/** useKeys moves and zooms by keys. */
export function useKeys() {
  const flow = useReactFlow();
  return useCallback(
    (e: KeyboardEvent) => {
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
