// Places the nodes of a graph in layers from top to bottom, or, if a group has many nodes, as compact.ts does. Each
// open group is laid out by itself first, and is then one node of its size in its parent graph.
import { Graph, layout as dagre } from "@dagrejs/dagre";
import { compact } from "./compact";
import type { Point, Size } from "./geometry";
import { titleOf, type Link, type Model, type Vertex } from "./model";

export type Box = Point & Size;

export interface Layout extends Size {
  /** Boxes by node, with their upper left corners. */
  boxes: Map<string, Box>;
  /** Edges by id. */
  routes: Map<string, Route>;
}

export interface Route {
  /** The points that the edge runs through. */
  points: Point[];
  label: Point;
  /** Straight lines between the points, instead of a curve. */
  straight?: boolean;
  /** A line that may run below nodes. */
  across?: boolean;
}

const nodeHeight = 46;
const pillHeight = 26;
/** The space inside of an open group, whose head is above. */
const padding = 20;
const head = 34;
/**
 * The largest group that is laid out in layers: dagre takes a tenth of a second for 60 nodes, and most of a second for
 * 300.
 */
const layered = 60;
/** The same, if the graph has more than 200 nodes. */
const layeredOfMany = 24;

/**
 * sizeOf estimates the size of a node from the length of its name, because all nodes are placed before any is drawn.
 */
function sizeOf(v: Vertex, many: boolean): Size {
  const length = titleOf(v).length;
  if (v.kind === "start" || v.kind === "end") return { width: 28 + length * 7, height: pillHeight };
  const width = Math.ceil(44 + length * 7.8 + (v.kind === "group" ? 26 : 0));
  return { width: Math.min(260, Math.max(many ? 92 : 124, width)), height: nodeHeight };
}

export function layoutOf(model: Model): Layout {
  const out: Layout = { width: 0, height: 0, boxes: new Map(), routes: new Map() };
  return { ...out, ...place("", "", model, out) };
}

/** place lays out a group at 0, 0 and returns its size. */
function place(group: string, title: string, model: Model, out: Layout): Size {
  const members = [...model.vertices.values()].filter((v) => v.parent === group);
  const many = members.length > (model.vertices.size > 200 ? layeredOfMany : layered);
  const sizes = new Map(
    members.map((v) => [v.id, v.open ? place(v.id, titleOf(v), model, out) : sizeOf(v, many)] as const),
  );
  const edges = model.links.flatMap((link): GroupEdge[] => {
    const [source, target] = [within(group, link.source), within(group, link.target)];
    if (source === null || target === null || (source === target && link.source !== link.target)) return [];
    return [{ source, target, link }];
  });
  const { width, height } = (many ? pack : rank)(members, sizes, edges, model, out);
  if (!group) return { width, height };
  // The head has the name, the state and a button.
  const wide = Math.max(width, 170 + title.length * 8);
  move(group, (wide - width) / 2, head, model, out);
  return { width: wide, height: height + head };
}

/** A GroupEdge is an edge between members of a group that are or contain the ends of a link. */
interface GroupEdge {
  source: string;
  target: string;
  link: Link;
}

/** rank lays out a group in layers. */
function rank(members: Vertex[], sizes: Map<string, Size>, edges: GroupEdge[], model: Model, out: Layout): Size {
  const g = new Graph({ multigraph: true });
  g.setGraph({ rankdir: "TB", nodesep: 36, ranksep: 44, edgesep: 24, marginx: padding, marginy: padding });
  for (const [id, size] of sizes) g.setNode(id, { ...size });
  const links = new Map<string, Link>();
  for (const { source, target, link: l } of edges) {
    links.set(l.id, l);
    // An edge without a label still takes room, so that edges between the same nodes stay apart.
    g.setEdge(
      source,
      target,
      { width: l.label ? 14 + l.label.length * 6.5 : 10, height: l.label ? 18 : 4, labelpos: "c" },
      l.id,
    );
  }
  dagre(g);
  for (const v of members) {
    const at = g.node(v.id) as Box;
    put(v, { ...at, x: at.x - at.width / 2, y: at.y - at.height / 2 }, model, out);
  }
  for (const e of g.edges()) {
    const l = links.get(e.name ?? "");
    const at = g.edge(e) as { points: Point[]; x?: number; y?: number };
    if (!l) continue;
    const label = { x: at.x ?? at.points[0]!.x, y: at.y ?? at.points[0]!.y };
    out.routes.set(l.id, ended({ source: e.v, target: e.w, link: l }, { points: at.points, label }, out));
  }
  const { width = 0, height = 0 } = g.graph() as Partial<Size>;
  return { width, height };
}

/** pack lays out a group in blocks. */
function pack(members: Vertex[], sizes: Map<string, Size>, edges: GroupEdge[], model: Model, out: Layout): Size {
  const { size, corners, routes } = compact(sizes, edges);
  const by = (p: Point) => ({ x: p.x + padding, y: p.y + padding });
  for (const v of members) put(v, { ...by(corners.get(v.id)!), ...sizes.get(v.id)! }, model, out);
  for (const e of edges) {
    const route = routes.get(e.target);
    const [from, to] = [out.boxes.get(e.source)!, out.boxes.get(e.target)!];
    const across = route?.source !== e.source;
    const points = across ? [side(from, to), side(to, from)] : route.points.map(by);
    const last = points.at(-1)!;
    const label = across
      ? { x: (points[0]!.x + last.x) / 2, y: (points[0]!.y + last.y) / 2 }
      : { x: last.x, y: last.y - 18 };
    out.routes.set(e.link.id, ended(e, { points, label, straight: true, across }, out));
  }
  return { width: size.width + 2 * padding, height: size.height + 2 * padding };
}

/** put places a node, or an open group with its contents. */
function put(v: Vertex, { x, y, width, height }: Box, model: Model, out: Layout) {
  if (v.open) move(v.id, x, y, model, out);
  out.boxes.set(v.id, { x, y, width, height });
}

/** ended returns the route of an edge, which ends at a node inside of an open group if the link does. */
function ended({ source, target, link: l }: GroupEdge, route: Route, out: Layout): Route {
  if (l.source === l.target) return loop(out.boxes.get(l.source)!);
  const points = [...route.points];
  if (l.source !== source) points[0] = side(out.boxes.get(l.source)!, points[0]!);
  if (l.target !== target) points[points.length - 1] = side(out.boxes.get(l.target)!, points.at(-1)!);
  return { ...route, points };
}

/** within returns the member of a group that is or contains a node. */
function within(group: string, id: string): string | null {
  const prefix = group ? group + ":" : "";
  if (!id.startsWith(prefix)) return null;
  return prefix + id.slice(prefix.length).split(":")[0];
}

/** side returns the middle of the upper or lower side of a box, whichever faces a point. */
function side(box: Box, towards: Point): Point {
  return { x: box.x + box.width / 2, y: towards.y < box.y + box.height / 2 ? box.y : box.y + box.height };
}

/** loop returns the route of an edge from a node to itself, on its right side. */
function loop(box: Box): Route {
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

/** move moves the contents of a group. */
function move(group: string, dx: number, dy: number, model: Model, out: Layout) {
  const inside = (id: string) => id.startsWith(group + ":");
  for (const [id, box] of out.boxes) if (inside(id)) out.boxes.set(id, { ...box, x: box.x + dx, y: box.y + dy });
  const by = (p: Point) => ({ x: p.x + dx, y: p.y + dy });
  for (const l of model.links) {
    const route = out.routes.get(l.id);
    if (route && inside(l.source) && inside(l.target))
      out.routes.set(l.id, { ...route, points: route.points.map(by), label: by(route.label) });
  }
}

const between = (p: Point, q: Point, part: number): Point => ({
  x: p.x + (q.x - p.x) * part,
  y: p.y + (q.y - p.y) * part,
});

/** curve returns the path of a smooth line (a B-spline) from the first to the last point. */
export function curve(points: Point[]): string {
  const [a, ...rest] = points;
  if (!a) return "";
  if (points.length < 3) return `M${a.x},${a.y}` + rest.map((p) => `L${p.x},${p.y}`).join("");
  const b = points[1]!;
  let path = `M${a.x},${a.y}L${(5 * a.x + b.x) / 6},${(5 * a.y + b.y) / 6}`;
  const last = points.at(-1)!;
  for (let i = 2; i <= points.length; i++) {
    const [p, q, r] = [points[i - 2]!, points[i - 1]!, points[i] ?? last];
    const [c, d] = [between(p, q, 1 / 3), between(p, q, 2 / 3)];
    const end = between(d, between(q, r, 1 / 3), 1 / 2);
    path += `C${c.x},${c.y} ${d.x},${d.y} ${end.x},${end.y}`;
  }
  return path + `L${last.x},${last.y}`;
}

/** bends returns the path of straight lines between points, with round corners. */
export function bends(points: Point[]): string {
  let path = "";
  points.forEach((p, i) => {
    const [before, after] = [points[i - 1], points[i + 1]];
    if (!before || !after) {
      path += `${before ? "L" : "M"}${p.x},${p.y}`;
      return;
    }
    const [a, b] = [towards(p, before), towards(p, after)];
    path += `L${a.x},${a.y}Q${p.x},${p.y} ${b.x},${b.y}`;
  });
  return path;
}

/** towards returns the point on the way from p to q that is 6 from p, or half of the way. */
function towards(p: Point, q: Point): Point {
  const length = Math.hypot(q.x - p.x, q.y - p.y);
  const part = length ? Math.min(0.5, 6 / length) : 0;
  return { x: p.x + (q.x - p.x) * part, y: p.y + (q.y - p.y) * part };
}
