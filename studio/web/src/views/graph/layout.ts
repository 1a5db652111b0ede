// Places the nodes of a graph in layers from top to bottom. Each open group is laid out by
// itself first, and is then one node of its size in the graph around it.
import { Graph, layout as dagre } from "@dagrejs/dagre";
import { titleOf, type Link, type Model, type Vertex } from "./model";

export interface Point {
  x: number;
  y: number;
}

interface Box extends Point {
  width: number;
  height: number;
}

export interface Layout {
  /** Boxes by node, with their upper left corners. */
  boxes: Map<string, Box>;
  /** Edges by id: the points that they run through and where their labels are. */
  routes: Map<string, { points: Point[]; label: Point }>;
}

const nodeHeight = 46;
const pillHeight = 26;
/** The space inside of an open group, whose head is above. */
const padding = 20;
const head = 34;

/** sizeOf is the size of a node, by the length of its name, since all nodes are placed before any is drawn. */
function sizeOf(v: Vertex): { width: number; height: number } {
  const length = titleOf(v).length;
  if (v.kind === "start" || v.kind === "end") return { width: 28 + length * 7, height: pillHeight };
  return { width: Math.min(260, Math.max(124, 44 + length * 7.8 + (v.kind === "group" ? 26 : 0))), height: nodeHeight };
}

export function layoutOf(model: Model): Layout {
  const out: Layout = { boxes: new Map(), routes: new Map() };
  place("", "", model, out);
  return out;
}

/** place lays out a group at 0, 0 and returns its size. */
function place(group: string, title: string, model: Model, out: Layout): { width: number; height: number } {
  const g = new Graph({ multigraph: true });
  g.setGraph({ rankdir: "TB", nodesep: 36, ranksep: 44, edgesep: 24, marginx: padding, marginy: padding });
  const members = [...model.vertices.values()].filter((v) => v.parent === group);
  for (const v of members) {
    const size = v.open ? place(v.id, titleOf(v), model, out) : sizeOf(v);
    g.setNode(v.id, { ...size });
  }
  const links = new Map<string, Link>();
  for (const l of model.links) {
    const [source, target] = [within(group, l.source), within(group, l.target)];
    if (source === null || target === null || (source === target && l.source !== l.target)) continue;
    links.set(l.id, l);
    // An edge without a label still takes room, so that edges between the same nodes stay apart.
    g.setEdge(source, target, { width: l.label ? 14 + l.label.length * 6.5 : 10, height: l.label ? 18 : 4, labelpos: "c" }, l.id);
  }
  dagre(g);
  for (const v of members) {
    const at = g.node(v.id) as Box;
    const corner = { x: at.x - at.width / 2, y: at.y - at.height / 2 };
    if (v.open) move(v.id, corner.x, corner.y, model, out);
    out.boxes.set(v.id, { ...corner, width: at.width, height: at.height });
  }
  for (const e of g.edges()) {
    const l = links.get(e.name ?? "");
    const at = g.edge(e) as { points: Point[]; x?: number; y?: number };
    if (!l) continue;
    if (l.source === l.target) {
      out.routes.set(l.id, loop(out.boxes.get(l.source)!));
      continue;
    }
    const points = [...at.points];
    // An edge to a node inside of an open group ends at that node.
    if (l.source !== e.v) points[0] = side(out.boxes.get(l.source)!, points[0]!);
    if (l.target !== e.w) points[points.length - 1] = side(out.boxes.get(l.target)!, points.at(-1)!);
    out.routes.set(l.id, { points, label: { x: at.x ?? points[0]!.x, y: at.y ?? points[0]!.y } });
  }
  const { width = 0, height = 0 } = g.graph() as { width?: number; height?: number };
  if (!group) return { width, height };
  // The head has the name, the state and a button.
  const wide = Math.max(width, 170 + title.length * 8);
  move(group, (wide - width) / 2, head, model, out);
  return { width: wide, height: height + head };
}

/** within is the member of a group that a node is or is inside of. */
function within(group: string, id: string): string | null {
  const prefix = group ? group + ":" : "";
  if (!id.startsWith(prefix)) return null;
  return prefix + id.slice(prefix.length).split(":")[0];
}

/** side is the middle of the upper or the lower side of a box, whichever faces a point. */
function side(box: Box, towards: Point): Point {
  return { x: box.x + box.width / 2, y: towards.y < box.y + box.height / 2 ? box.y : box.y + box.height };
}

/** loop is the route of an edge from a node to itself, on its right side. */
function loop(box: Box): { points: Point[]; label: Point } {
  const x = box.x + box.width;
  const y = box.y + box.height / 2;
  const points = [
    { x, y: y + 10 },
    { x: x + 36, y: y + 30 },
    { x: x + 36, y: y - 30 },
    { x, y: y - 10 },
  ];
  return { points, label: { x: x + 30, y } };
}

/** move moves what is inside of a group. */
function move(group: string, dx: number, dy: number, model: Model, out: Layout) {
  const inside = (id: string) => id.startsWith(group + ":");
  for (const [id, box] of out.boxes) if (inside(id)) out.boxes.set(id, { ...box, x: box.x + dx, y: box.y + dy });
  const by = (p: Point) => ({ x: p.x + dx, y: p.y + dy });
  for (const l of model.links) {
    const route = out.routes.get(l.id);
    if (route && inside(l.source) && inside(l.target)) out.routes.set(l.id, { points: route.points.map(by), label: by(route.label) });
  }
}

/** curve is the path of a smooth line (a B-spline) from the first to the last of some points. */
export function curve(points: Point[]): string {
  const [a, ...rest] = points;
  if (!a) return "";
  if (points.length < 3) return `M${a.x},${a.y}` + rest.map((p) => `L${p.x},${p.y}`).join("");
  const b = points[1]!;
  let path = `M${a.x},${a.y}L${(5 * a.x + b.x) / 6},${(5 * a.y + b.y) / 6}`;
  const last = points.at(-1)!;
  for (let i = 2; i <= points.length; i++) {
    const [p, q, r] = [points[i - 2]!, points[i - 1]!, points[i] ?? last];
    path += `C${(2 * p.x + q.x) / 3},${(2 * p.y + q.y) / 3} ${(p.x + 2 * q.x) / 3},${(p.y + 2 * q.y) / 3} ${(p.x + 4 * q.x + r.x) / 6},${(p.y + 4 * q.y + r.y) / 6}`;
  }
  return path + `L${last.x},${last.y}`;
}
