// A graph for drawing: nodes, edges, and expanded or collapsed subgraphs.
// Servers name a node of a subgraph by its path, such as "child:child_one".
import type { AssistantGraph } from "@langchain/langgraph-sdk";
import { nodeName } from "../../ui/format";

export type Kind = "start" | "end" | "node" | "group";

export interface Vertex {
  id: string;
  name: string;
  kind: Kind;
  /** The group that it is in: "" is the graph itself. */
  parent: string;
  /** The nodes of an open group are drawn inside it. */
  open: boolean;
  /** The number of nodes in a group. */
  size: number;
}

export interface Link {
  id: string;
  source: string;
  target: string;
  label: string;
  conditional: boolean;
}

export interface Model {
  vertices: Map<string, Vertex>;
  links: Link[];
  /** All groups, also those inside of closed ones. */
  groups: string[];
}

const parentOf = (id: string): string => id.slice(0, Math.max(0, id.lastIndexOf(":")));
const nameOf = (id: string): string => id.slice(id.lastIndexOf(":") + 1);

const kindOf = (id: string): Kind => (nameOf(id) === "__start__" ? "start" : nameOf(id) === "__end__" ? "end" : "node");

/** above returns the groups around a node, outermost first. */
function above(id: string): string[] {
  const all: string[] = [];
  for (let p = parentOf(id); p; p = parentOf(p)) all.unshift(p);
  return all;
}

/** modelOf returns the visible part of a graph with some groups open. */
export function modelOf(graph: AssistantGraph, open: ReadonlySet<string>): Model {
  const ids = graph.nodes.map((n) => String(n.id));
  const sizes = new Map<string, number>();
  for (const id of ids) for (const g of above(id)) sizes.set(g, (sizes.get(g) ?? 0) + 1);
  const shown = (id: string): string => above(id).find((g) => !open.has(g)) ?? id;
  const vertices = new Map<string, Vertex>();
  const add = (id: string, kind: Kind) => {
    if (!vertices.has(id))
      vertices.set(id, {
        id,
        name: nameOf(id),
        kind,
        parent: parentOf(id),
        open: kind === "group" && open.has(id),
        size: sizes.get(id) ?? 0,
      });
  };
  for (const id of ids) {
    const at = shown(id);
    for (const g of above(at)) add(g, "group");
    add(at, sizes.has(at) ? "group" : kindOf(at));
  }
  const links = new Map<string, Link>();
  for (const e of graph.edges) {
    const from = String(e.source);
    const to = String(e.target);
    const [source, target] = [shown(from), shown(to)];
    // Edges inside of a closed group are hidden with it.
    if (!vertices.has(source) || !vertices.has(target) || (source === target && from !== to)) continue;
    const label = e.data === undefined || e.data === null ? "" : String(e.data);
    const id = [source, target, label].join(" → ");
    links.set(id, { id, source, target, label: label === nameOf(to) ? "" : label, conditional: !!e.conditional });
  }
  return { vertices, links: [...links.values()], groups: [...sizes.keys()] };
}

/** titleOf returns the displayed name of a node. */
export const titleOf = (v: Vertex): string => nodeName(v.name);
