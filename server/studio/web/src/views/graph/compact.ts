// Places the nodes of a large group so that the whole group fits a screen. Layers would make a tree of 300 nodes forty
// times as wide as high. Here each node has a block, which contains all nodes that can only be reached through it. The
// block has the node at its top and the blocks of the node's children below, in rows. A long sequence continues in
// columns. Edges to children run between the blocks; other edges are straight lines.
import type { Point, Size } from "./geometry";

/** A Block is a node with everything placed below it, relative to the block's upper left corner. */
interface Block extends Size {
  /** The middle of the node's upper side. */
  entry: number;
  nodes: { id: string; x: number; y: number }[];
  /** The routes of edges to nodes in the block, by target. */
  routes: Map<string, Point[]>;
}

export interface Compact {
  size: Size;
  corners: Map<string, Point>;
  /** The routes of edges from a node to its child, by target. */
  routes: Map<string, { source: string; points: Point[] }>;
}

/** The space between blocks, next to and above each other. Edges and their labels are in it. */
const [gapX, gapY] = [12, 30];
/** The distance of an edge's horizontal line above the target, and of its vertical line from a block. */
const [above, beside] = [12, 6];
/** The ratio of width to height that the whole aims at, and those that the parts may have. */
const [shape, shapes] = [1.6, [0.3, 0.8, 1.6, 4]];

/** An Arrangement is one of several ways to place a node and everything below it. */
interface Arrangement extends Size {
  build(): Block;
}

/** best returns the arrangement that is largest on a screen of some ratio. */
const best = (all: Arrangement[], ratio: number): Arrangement => {
  const cost = (a: Arrangement) => Math.max(a.width / ratio, a.height) + (a.width * a.height) / 1e7;
  return all.reduce((a, b) => (cost(b) < cost(a) ? b : a));
};

/** split splits sizes into lines of at most some length, except for lines that have to continue. */
function split(lengths: number[], gap: number, most: number, continues?: (line: number[]) => boolean): number[][] {
  const lines: number[][] = [];
  let used = Infinity;
  lengths.forEach((length, i) => {
    if (used + gap + length > most && !(lines.length && continues?.(lines.at(-1)!))) {
      lines.push([]);
      used = -gap;
    }
    lines.at(-1)!.push(i);
    used += gap + length;
  });
  return lines;
}

/** tries returns lengths of lines to try, for one line and more. */
function tries(lengths: number[], gap: number): number[] {
  const longest = Math.max(...lengths);
  const total = lengths.reduce((sum, length) => sum + gap + length, 0);
  const count = Math.min(lengths.length, 40);
  return Array.from({ length: count }, (_, i) => Math.max(longest, total / (i + 1)));
}

export function compact(sizes: Map<string, Size>, edges: readonly { source: string; target: string }[]): Compact {
  const parents = dominators([...sizes.keys()], edges);
  const children = new Map<string, string[]>();
  const weights = new Map<string, number>();
  const order = [...parents.keys()];
  for (const id of order) {
    const list = children.get(parents.get(id)!);
    if (list) list.push(id);
    else children.set(parents.get(id)!, [id]);
  }
  // A parent comes before its children.
  for (const id of order.reverse()) {
    weights.set(id, (weights.get(id) ?? 0) + 1);
    const parent = parents.get(id)!;
    weights.set(parent, (weights.get(parent) ?? 0) + weights.get(id)!);
  }
  const arrangementsOf = (id: string): Arrangement[] => {
    // The sequence continues with the child that has most of what follows.
    const items: Item[] = [];
    for (let next: string | undefined = id; next !== undefined;) {
      const own: string = next;
      const below: string[] = children.get(own) ?? [];
      next = below.find((c) => 2 * weights.get(c)! >= weights.get(own)!);
      const others = below.filter((c) => c !== next).map((c) => ({ id: c, ways: arrangementsOf(c) }));
      items.push({ id: own, size: sizes.get(own)!, ways: rowsOf(own, sizes.get(own)!, others) });
    }
    return items.length === 1 ? items[0]!.ways : columnsOf(items);
  };
  const roots = (children.get("") ?? []).map((c) => ({ id: c, ways: arrangementsOf(c) }));
  const all = best(rowsOf("", { width: 0, height: -gapY }, roots), shape).build();
  const corners = new Map(all.nodes.map((n) => [n.id, { x: n.x, y: n.y }]));
  const routes: Compact["routes"] = new Map();
  for (const [target, points] of all.routes) {
    const source = parents.get(target)!;
    if (source) routes.set(target, { source, points });
  }
  return { size: all, corners, routes };
}

/** few returns an arrangement for each of the ratios. */
const few = (all: Arrangement[]): Arrangement[] => [...new Set(shapes.map((ratio) => best(all, ratio)))];

/** alike returns how several parts may be arranged together: each for the same ratio. */
const alike = (parts: { ways: Arrangement[] }[]): Arrangement[][] =>
  shapes
    .slice(0, Math.max(...parts.map((p) => p.ways.length)))
    .map((_, k) => parts.map(({ ways }) => ways[Math.min(k, ways.length - 1)]!));

const sum = (lengths: number[], gap: number): number => lengths.reduce((all, length) => all + gap + length, -gap);

interface Child {
  id: string;
  ways: Arrangement[];
}

/** rowsOf returns the arrangements of a node with some of its children in rows below. The node "" is not drawn. */
function rowsOf(id: string, size: Size, below: Child[]): Arrangement[] {
  if (below.length === 0)
    return [
      { ...size, build: () => ({ ...size, entry: size.width / 2, nodes: [{ id, x: 0, y: 0 }], routes: new Map() }) },
    ];
  const all = alike(below).flatMap((parts) => {
    const widths = parts.map((p) => p.width);
    return tries(widths, gapX).map((most): Arrangement => {
      const rows = split(widths, gapX, most);
      const wide = rows.map((row) =>
        sum(
          row.map((i) => widths[i]!),
          gapX,
        ),
      );
      const high = rows.map((row) => Math.max(...row.map((i) => parts[i]!.height)));
      // Edges to other rows than the first run to the left of all rows.
      const width = Math.max(size.width, Math.max(...wide) + (rows.length > 1 ? 2 * beside : 0));
      const height = size.height + gapY + sum(high, gapY);
      const build = () => {
        const out: Block = { width, height, entry: width / 2, nodes: [], routes: new Map() };
        if (id) out.nodes.push({ id, x: out.entry - size.width / 2, y: 0 });
        const from = { x: out.entry, y: size.height };
        const turn = from.y + gapY - above;
        let y = size.height;
        rows.forEach((row, r) => {
          y += gapY;
          let x = rows.length === 1 ? (width - wide[r]!) / 2 : 2 * beside;
          for (const i of row) {
            const block = parts[i]!.build();
            add(out, block, x, y);
            const line = [from, { x: from.x, y: turn }];
            if (r > 0) line.push({ x: beside, y: turn }, { x: beside, y: y - above });
            line.push({ x: x + block.entry, y: y - above }, { x: x + block.entry, y });
            out.routes.set(below[i]!.id, line);
            x += block.width + gapX;
          }
          y += high[r]!;
        });
        return out;
      };
      return { width, height, build };
    });
  });
  return few(all);
}

interface Item extends Child {
  size: Size;
}

/** columnsOf returns the arrangements of a sequence of items, which may continue in other columns. */
function columnsOf(items: Item[]): Arrangement[] {
  const all = alike(items).flatMap((parts) => {
    const heights = parts.map((p) => p.height);
    return tries(heights, gapY).map((most): Arrangement => {
      // A column does not end after a few nodes with nothing below them, such as the start.
      const short = (c: number[]) => c.length < 4 && c.every((i) => heights[i] === items[i]!.size.height);
      const columns = split(heights, gapY, most, short);
      const wide = columns.map((c) => Math.max(...c.map((i) => parts[i]!.width)));
      const high = columns.map((c) =>
        sum(
          c.map((i) => heights[i]!),
          gapY,
        ),
      );
      // Edges run to the left of each column, and to another column below its end.
      const width = sum(wide, gapX) + columns.length * 2 * beside;
      const height = Math.max(...high) + (columns.length > 1 ? 2 * beside : 0);
      const build = () => {
        const out: Block = { width, height, entry: 0, nodes: [], routes: new Map() };
        let x = 0;
        let before: Placed | undefined;
        columns.forEach((column, c) => {
          let y = 0;
          for (const i of column) {
            const item = items[i]!;
            const block = parts[i]!.build();
            const at = { x: x + 2 * beside + (wide[c]! - block.width) / 2, y };
            add(out, block, at.x, y);
            const end = { x: at.x + block.entry, y };
            if (before) {
              const line = around(before, y === 0 ? x : undefined);
              out.routes.set(item.id, [...line, { x: end.x, y: line.at(-1)!.y }, end]);
            } else out.entry = end.x;
            before = { size: item.size, block, at };
            y += block.height + gapY;
          }
          x += 2 * beside + wide[c]! + gapX;
        });
        return out;
      };
      return { width, height, build };
    });
  });
  return few(all);
}

interface Placed {
  size: Size;
  block: Block;
  at: Point;
}

/**
 * around returns the line from an item's node around the item's other nodes, and around the column if the next starts
 * at x.
 */
function around({ size, block, at }: Placed, x: number | undefined): Point[] {
  const line = [{ x: at.x + block.entry, y: at.y + size.height }];
  if (block.height > size.height) {
    const turn = at.y + size.height + gapY - above;
    line.push({ x: line[0]!.x, y: turn }, { x: at.x - beside, y: turn });
  }
  line.push({ x: line.at(-1)!.x, y: at.y + block.height + (x === undefined ? gapY - above : beside) });
  if (x !== undefined) line.push({ x, y: line.at(-1)!.y }, { x, y: -above / 2 });
  return line;
}

/** add adds the contents of a block to another. */
function add(to: Block, from: Block, dx: number, dy: number) {
  for (const n of from.nodes) to.nodes.push({ id: n.id, x: n.x + dx, y: n.y + dy });
  for (const [target, points] of from.routes)
    to.routes.set(
      target,
      points.map((p) => ({ x: p.x + dx, y: p.y + dy })),
    );
}

/**
 * dominators returns the immediate dominator of each node: the last node through which all paths to it lead. It is ""
 * for a node where paths start. A dominator comes before the nodes that it dominates.
 */
function dominators(ids: string[], edges: readonly { source: string; target: string }[]): Map<string, string> {
  const [to, from] = [new Map<string, string[]>(), new Map<string, string[]>()];
  for (const id of ids) {
    to.set(id, []);
    from.set(id, []);
  }
  for (const { source, target } of edges) {
    if (source === target) continue;
    to.get(source)!.push(target);
    from.get(target)!.push(source);
  }
  const order = ordered(ids, to, from);
  const rank = new Map(order.map((id, i) => [id, i]));
  const of = new Map<string, string>();
  const meet = (a: string, b: string): string => {
    while (a !== b) {
      if (a === "" || b === "") return "";
      if (rank.get(a)! > rank.get(b)!) a = of.get(a)!;
      else b = of.get(b)!;
    }
    return a;
  };
  for (let changed = true; changed;) {
    changed = false;
    for (const id of order) {
      const known = from.get(id)!.filter((p) => of.has(p));
      const next = known.length ? known.reduce(meet) : "";
      if (of.get(id) === next) continue;
      of.set(id, next);
      changed = true;
    }
  }
  return new Map(order.map((id) => [id, of.get(id)!]));
}

/** ordered returns the nodes in reverse postorder: but for loops, a node comes after all that lead to it. */
function ordered(ids: string[], to: Map<string, string[]>, from: Map<string, string[]>): string[] {
  const seen = new Set<string>();
  const out: string[] = [];
  // Nodes without edges to them first, and then those that only loops reach.
  for (const root of [...ids.filter((id) => from.get(id)!.length === 0), ...ids]) {
    if (seen.has(root)) continue;
    seen.add(root);
    const path = [{ id: root, next: to.get(root)!.length }];
    const done: string[] = [];
    while (path.length) {
      const top = path.at(-1)!;
      // The last edge first, because the order is reversed in the end.
      const child = top.next > 0 ? to.get(top.id)![--top.next]! : undefined;
      if (child === undefined) done.push(path.pop()!.id);
      else if (!seen.has(child)) {
        seen.add(child);
        path.push({ id: child, next: to.get(child)!.length });
      }
    }
    out.push(...done.reverse());
  }
  return out;
}
