// The whole of a large graph, in a few shapes instead of an element per node.
import { useReactFlow, useStore, ViewportPortal } from "@xyflow/react";
import { useMemo, useRef, useSyncExternalStore, type PointerEvent } from "react";
import { bends, curve, type Box, type Layout } from "./layout";
import type { Board, Status } from "./states";

const around = (boxes: Iterable<Box>): string => {
  let path = "";
  for (const { x, y, width, height } of boxes) path += `M${x},${y}h${width}v${height}h${-width}z`;
  return path;
};

/** Overview draws nodes in the colors of their states, and edges. */
export function Overview({ layout, board }: { layout: Layout; board: Board }) {
  const states = useSyncExternalStore(board.subscribe, board.all);
  const edges = useMemo(() => {
    const routes = [...layout.routes.values()];
    return routes.map((r) => (r.straight ? bends : curve)(r.points)).join("");
  }, [layout]);
  const nodes = useMemo(() => {
    const byStatus = new Map<Status, Box[]>();
    for (const [id, box] of layout.boxes) {
      const status = states.get(id)?.status ?? "idle";
      byStatus.set(status, [...(byStatus.get(status) ?? []), box]);
    }
    return [...byStatus].map(([status, boxes]) => ({ status, path: around(boxes) }));
  }, [layout, states]);
  return (
    <ViewportPortal>
      <svg className="graph-overview" aria-hidden>
        <path className="graph-overview-edges" d={edges} />
        {nodes.map(({ status, path }) => (
          <path key={status} className="graph-overview-nodes" data-status={status} d={path} />
        ))}
      </svg>
    </ViewportPortal>
  );
}

/** View is the part of the graph that is shown. */
interface View {
  x: number;
  y: number;
  width: number;
  height: number;
}

const same = (a: View, b: View) => a.x === b.x && a.y === b.y && a.width === b.width && a.height === b.height;

/** GraphMap shows the whole graph and the part that is in view. Pressing on it moves that part. */
export function GraphMap({ layout, bounds }: { layout: Layout; bounds: Box }) {
  const svg = useRef<SVGSVGElement>(null);
  const flow = useReactFlow();
  const view = useStore(({ transform: [x, y, zoom], width, height }): View => {
    return { x: -x / zoom, y: -y / zoom, width: width / zoom, height: height / zoom };
  }, same);
  const nodes = useMemo(() => around(layout.boxes.values()), [layout]);
  const move = (e: PointerEvent) => {
    const matrix = svg.current!.getScreenCTM();
    if (!e.buttons || !matrix) return;
    const { x, y } = new DOMPoint(e.clientX, e.clientY).matrixTransform(matrix.inverse());
    void flow.setCenter(x, y, { zoom: flow.getZoom() });
  };
  return (
    <svg
      ref={svg}
      className="graph-map"
      role="img"
      aria-label="Graph overview"
      viewBox={[bounds.x, bounds.y, bounds.width, bounds.height].join(" ")}
      onPointerDown={move}
      onPointerMove={move}
    >
      <path className="graph-map-nodes" d={nodes} />
      <rect className="graph-map-view" {...view} />
    </svg>
  );
}
