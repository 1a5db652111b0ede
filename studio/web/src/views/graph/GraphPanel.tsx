// The graph of the assistant, and what its nodes are doing.
import type { AssistantGraph } from "@langchain/langgraph-sdk";
import { useQuery } from "@tanstack/react-query";
import { Background, MarkerType, MiniMap, ReactFlow, ReactFlowProvider } from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { memo, useEffect, useMemo, useState } from "react";
import { useAssistant, useConnection } from "../../app/connection";
import { useLocation } from "../../app/location";
import { keyed } from "../../data/keyed";
import { useSessionState } from "../../data/session";
import { idOf } from "../../data/tree";
import { Empty, Failed, Loading } from "../../ui/States";
import { Controls, useKeys, useFit } from "./Controls";
import { layoutOf } from "./layout";
import { modelOf, titleOf, type Model } from "./model";
import { Context, GroupNode, PillNode, StepNode, useNodeState, type GraphContext, type GraphNode } from "./nodes";
import { RoutedEdge, type GraphEdge } from "./RoutedEdge";
import { Board, sentence, statesOf } from "./states";
import "./graph.css";

/** The groups of each assistant's graph that are open. */
const opened = keyed<ReadonlySet<string>>(new Set());

function useGraphOf(assistant: string | undefined) {
  const { client, url } = useConnection();
  return useQuery({
    queryKey: [url, "graph", assistant],
    // Some graphs cannot show what is inside of their nodes.
    queryFn: () => client.assistants.getGraph(assistant!, { xray: true }).catch(() => client.assistants.getGraph(assistant!)),
    enabled: !!assistant,
    staleTime: 60_000,
  });
}

export function GraphPanel() {
  const assistant = useAssistant();
  const graph = useGraphOf(assistant?.assistant_id);
  if (!assistant || graph.isPending) return <Loading what="the graph" />;
  if (graph.isError) return <Failed what="The graph cannot be shown" error={graph.error.message} retry={() => void graph.refetch()} />;
  if (graph.data.nodes.length === 0) return <Empty title="This graph has no nodes" />;
  return <Panel key={assistant.assistant_id} id={assistant.assistant_id} graph={graph.data} />;
}

function Panel({ id, graph }: { id: string; graph: AssistantGraph }) {
  const open = opened.use(id);
  const model = useMemo(() => modelOf(graph, open), [graph, open]);
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
      <List model={model} board={board} />
    </Context>
  );
}

/** Watch keeps the board up to date. It draws nothing, so that the graph is not drawn again for each event. */
function Watch({ board }: { board: Board }) {
  const state = useSessionState();
  const { checkpoint } = useLocation();
  const { tasks, steps, run } = state;
  useEffect(() => {
    board.update(statesOf(state, checkpoint ? steps.find((s) => idOf(s) === checkpoint) : undefined));
    // The rest of the state does not matter here.
  }, [board, checkpoint, tasks, steps, run]);
  return null;
}

const nodeTypes = { step: StepNode, pill: PillNode, open: GroupNode };
const edgeTypes = { routed: RoutedEdge };

const Drawing = memo(function Drawing({ model, onOpenAll }: { model: Model; onOpenAll(all: boolean): void }) {
  const { nodes, edges } = useMemo(() => drawn(model), [model]);
  const [map, setMap] = useState(nodes.length > 14);
  const host = useFit(nodes);
  const keys = useKeys();
  return (
    <div className="graph" ref={host} role="group" aria-label="Graph. Arrows move it, plus and minus zoom, 0 shows all." tabIndex={0} {...keys}>
      <ReactFlow<GraphNode, GraphEdge>
        nodes={nodes}
        edges={edges}
        nodeTypes={nodeTypes}
        edgeTypes={edgeTypes}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        disableKeyboardA11y
        zoomOnDoubleClick={false}
        minZoom={0.05}
        maxZoom={2}
        onlyRenderVisibleElements={nodes.length > 400}
      >
        <Background gap={20} size={1} />
        {map ? <MiniMap<GraphNode> pannable zoomable ariaLabel="Map of the graph" nodeBorderRadius={6} style={{ width: 150, height: 100 }} /> : null}
        <Controls map={map} onMap={() => setMap(!map)} groups={model.groups.length > 0} allOpen={model.groups.every((g) => model.vertices.get(g)?.open)} onOpenAll={onOpenAll} />
      </ReactFlow>
    </div>
  );
});

/** drawn are the nodes and edges in their places. */
function drawn(model: Model): { nodes: GraphNode[]; edges: GraphEdge[] } {
  const { boxes, routes } = layoutOf(model);
  const nodes = [...model.vertices.values()].map((vertex): GraphNode => {
    const { x, y, width, height } = boxes.get(vertex.id)!;
    const depth = vertex.id.split(":").length;
    return { id: vertex.id, type: vertex.open ? "open" : vertex.kind === "start" || vertex.kind === "end" ? "pill" : "step", position: { x, y }, width, height, zIndex: vertex.open ? -10 + depth : 2, style: { pointerEvents: vertex.open ? "none" : "all" }, data: { vertex } };
  });
  const edges = model.links.map((l): GraphEdge => {
    const { points, label } = routes.get(l.id)!;
    return { id: l.id, type: "routed", source: l.source, target: l.target, label: l.label || undefined, className: l.conditional ? "graph-conditional" : "", zIndex: 1, markerEnd: { type: MarkerType.ArrowClosed, width: 16, height: 16, color: "var(--graph-edge)" }, data: { points, at: label } };
  });
  // Groups come first, so that they lie below what is inside of them.
  return { nodes: nodes.sort((a, b) => (a.zIndex ?? 0) - (b.zIndex ?? 0)), edges };
}

/** List says for screen readers what the drawing shows. */
function List({ model, board }: { model: Model; board: Board }) {
  return (
    <ul className="hidden" aria-label="Nodes of the graph">
      {[...model.vertices.values()].map((v) => (
        <li key={v.id}>
          {titleOf(v)}
          <Said board={board} id={v.id} />
          {model.links
            .filter((l) => l.source === v.id)
            .map((l) => ` leads to ${titleOf(model.vertices.get(l.target)!)}${l.label ? ` if ${l.label}` : l.conditional ? " perhaps" : ""}`)
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
