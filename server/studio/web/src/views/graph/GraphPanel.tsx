// The graph of the assistant, and the state of its nodes.
import type { AssistantGraph } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { Background, MarkerType, Position, ReactFlow, ReactFlowProvider, useStore } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { memo, use, useDeferredValue, useEffect, useMemo, useState } from "react";
import { useAssistant, useConnection } from "../../app/connection";
import { useLocation } from "../../app/location";
import { keyed } from "../../data/keyed";
import { useSessionState } from "../../data/session";
import { idOf } from "../../data/tree";
import { Empty, Failed, Loading } from "../../ui/States";
import { Controls, far, farther, useFit, useKeys, zooms } from "./Controls";
import { layoutOf, type Layout } from "./layout";
import { modelOf, titleOf, type Link, type Model } from "./model";
import { Context, GroupNode, PillNode, StepNode, useNodeState, type GraphContext, type GraphNode } from "./nodes";
import { GraphMap, Overview } from "./Overview";
import { RoutedEdge, type GraphEdge } from "./RoutedEdge";
import { Board, sentence, statesOf } from "./states";
import "./graph.css";

/** The groups of each assistant's graph that are open. */
const opened = keyed<ReadonlySet<string>>(new Set());

function useGraphOf(assistant: string | undefined) {
  const { client, url } = useConnection();
  return useQuery({
    queryKey: [url, "graph", assistant],
    // Some graphs cannot show their subgraphs.
    queryFn: () =>
      client.assistants.getGraph(assistant!, { xray: true }).catch(() => client.assistants.getGraph(assistant!)),
    enabled: !!assistant,
    staleTime: 60_000,
  });
}

export function GraphPanel() {
  const assistant = useAssistant();
  const graph = useGraphOf(assistant?.assistant_id);
  if (!assistant || graph.isPending) return <Loading what="the graph" />;
  if (graph.isError)
    return <Failed what="Failed to load the graph" error={graph.error.message} retry={() => void graph.refetch()} />;
  if (graph.data.nodes.length === 0) return <Empty title="This graph has no nodes" />;
  return <Panel key={assistant.assistant_id} id={assistant.assistant_id} graph={graph.data} />;
}

function Panel({ id, graph }: { id: string; graph: AssistantGraph }) {
  const open = opened.use(id);
  const model = useMemo(() => modelOf(graph, open), [graph, open]);
  // A long list is rendered in the background.
  const listed = useDeferredValue(model, null);
  const [board] = useState(() => new Board());
  const context = useMemo<GraphContext>(
    () => ({
      assistant: id,
      board,
      toggle(group) {
        const next = new Set(opened.get(id));
        if (!next.delete(group)) next.add(group);
        opened.set(id, next);
      },
    }),
    [id, board],
  );
  return (
    <Context value={context}>
      <Watch board={board} />
      <ReactFlowProvider>
        <Drawing model={model} onOpenAll={(all) => opened.set(id, new Set(all ? model.groups : []))} />
      </ReactFlowProvider>
      {listed ? <List model={listed} board={board} /> : null}
    </Context>
  );
}

/** Watch updates the board. It renders nothing, so that the graph is not rerendered for each event. */
function Watch({ board }: { board: Board }) {
  const state = useSessionState();
  const { checkpoint } = useLocation();
  const { tasks, steps, run, thread, hasMore } = state;
  useEffect(() => {
    board.update(
      statesOf(
        { tasks, steps, run, thread, hasMore },
        checkpoint ? steps.find((s) => idOf(s) === checkpoint) : undefined,
      ),
    );
  }, [board, checkpoint, tasks, steps, run, thread, hasMore]);
  return null;
}

const nodeTypes = { step: StepNode, pill: PillNode, open: GroupNode };
const edgeTypes = { routed: RoutedEdge };
/** Graphs of more nodes are drawn only where they are in view, and as shapes if they are zoomed out. */
const many = 400;
const nothing: never[] = [];

const Drawing = memo(function Drawing({ model, onOpenAll }: { model: Model; onOpenAll(all: boolean): void }) {
  const layout = useMemo(() => layoutOf(model), [model]);
  const { nodes, edges } = useMemo(() => drawn(model, layout), [model, layout]);
  const bounds = useMemo(() => ({ x: 0, y: 0, width: layout.width, height: layout.height }), [layout]);
  const [map, setMap] = useState(nodes.length > 40);
  const small = useStore((s) => s.transform[2] < far);
  const fit = useFit(nodes, bounds);
  const away = useStore((s) => s.transform[2] < farther);
  const shapes = nodes.length > many && (away || fit.ahead);
  const keys = useKeys(fit);
  const { board } = use(Context)!;
  return (
    <div className="graph">
      <div
        className="graph-canvas"
        data-far={small || undefined}
        ref={fit.host}
        role="group"
        aria-label="Graph. Arrows move it, plus and minus zoom, 0 shows all."
        tabIndex={0}
        {...keys}
      >
        <ReactFlow<GraphNode, GraphEdge>
          nodes={shapes ? nothing : nodes}
          edges={shapes ? nothing : edges}
          nodeTypes={nodeTypes}
          edgeTypes={edgeTypes}
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          disableKeyboardA11y
          zoomOnDoubleClick={false}
          minZoom={zooms.min}
          maxZoom={zooms.max}
          onlyRenderVisibleElements={nodes.length > many}
        >
          <Background gap={20} size={1} />
          {shapes ? <Overview layout={layout} board={board} /> : null}
        </ReactFlow>
      </div>
      {/* The map is next to the graph, so that it covers no nodes. */}
      <div className="graph-foot" data-map={map || undefined}>
        <Controls
          fit={fit}
          map={map}
          onMap={() => setMap(!map)}
          groups={model.groups.length > 0}
          allOpen={model.groups.every((g) => model.vertices.get(g)?.open)}
          onOpenAll={onOpenAll}
        />
        {map ? <GraphMap layout={layout} bounds={bounds} /> : null}
      </div>
    </div>
  );
});

/** drawn returns the positioned nodes and edges. */
function drawn(model: Model, { boxes, routes }: Layout): { nodes: GraphNode[]; edges: GraphEdge[] } {
  const nodes = [...model.vertices.values()].map((vertex): GraphNode => {
    const { x, y, width, height } = boxes.get(vertex.id)!;
    const depth = vertex.id.split(":").length;
    return {
      id: vertex.id,
      type: vertex.open ? "open" : vertex.kind === "start" || vertex.kind === "end" ? "pill" : "step",
      position: { x, y },
      width,
      height,
      measured: { width, height },
      // Without these, the library would draw all nodes once to find out where edges start and end.
      handles: [
        { type: "target", position: Position.Top, x: width / 2, y: 0, width: 1, height: 1 },
        { type: "source", position: Position.Bottom, x: width / 2, y: height, width: 1, height: 1 },
      ],
      zIndex: vertex.open ? -10 + depth : 2,
      style: { pointerEvents: vertex.open ? "none" : "all" },
      data: { vertex, width },
    };
  });
  const edges = model.links.map((l): GraphEdge => {
    const { label, ...route } = routes.get(l.id)!;
    return {
      id: l.id,
      type: "routed",
      source: l.source,
      target: l.target,
      label: l.label || undefined,
      className: (l.conditional ? "graph-conditional " : "") + (route.across ? "graph-across" : ""),
      zIndex: 1,
      markerEnd: { type: MarkerType.ArrowClosed, width: 16, height: 16, color: "var(--graph-edge)" },
      data: { route, at: label },
    };
  });
  // Groups come first, so that they are drawn below their contents.
  return { nodes: nodes.sort((a, b) => (a.zIndex ?? 0) - (b.zIndex ?? 0)), edges };
}

/** List describes the diagram to screen readers. */
function List({ model, board }: { model: Model; board: Board }) {
  const links = useMemo(() => {
    const bySource = new Map<string, Link[]>();
    for (const l of model.links) bySource.set(l.source, [...(bySource.get(l.source) ?? []), l]);
    return bySource;
  }, [model]);
  return (
    <ul className="hidden" aria-label="Nodes of the graph">
      {[...model.vertices.values()].map((v) => (
        <li key={v.id}>
          {titleOf(v)}
          <Said board={board} id={v.id} />
          {(links.get(v.id) ?? [])
            .map((l) => {
              const when = l.label ? ` if ${l.label}` : l.conditional ? " conditionally" : "";
              return ` leads to ${titleOf(model.vertices.get(l.target)!)}${when}`;
            })
            .join(",")}
        </li>
      ))}
    </ul>
  );
}

function Said({ board, id }: { board: Board; id: string }) {
  const text = sentence(useNodeState(board, id));
  return text ? ` (${text})` : "";
}
