// The appearance of the graph's nodes.
import * as Popover from "@radix-ui/react-popover";
import { Handle, Position, type Node, type NodeProps } from "@xyflow/react";
import { createContext, memo, use, useSyncExternalStore, type CSSProperties, type ReactNode } from "react";
import { toggleBreakpoint, useBreakpoints, type When } from "../../data/breakpoints";
import { duration, oneLine } from "../../ui/format";
import { Icon } from "../../ui/Icon";
import { titleOf, type Vertex } from "./model";
import { Board, sentence, type NodeState } from "./states";

export interface GraphContext {
  assistant: string;
  board: Board;
  toggle(group: string): void;
}

export const Context = createContext<GraphContext | null>(null);

export type GraphNode = Node<{ vertex: Vertex; width: number }>;

const useGraph = (): GraphContext => use(Context)!;

export function useNodeState(board: Board, id: string): NodeState {
  return useSyncExternalStore(board.subscribe, () => board.get(id));
}

/** Ends are where edges begin and end; the edges' routes are laid out, so that they are not seen. */
function Ends() {
  return (
    <>
      <Handle type="target" position={Position.Top} isConnectable={false} />
      <Handle type="source" position={Position.Bottom} isConnectable={false} />
    </>
  );
}

/** letters returns the size of a name's letters in a graph that is zoomed out: the largest for one line or two. */
function letters(v: Vertex, width: number): CSSProperties {
  const space = (width - 12) / (titleOf(v).length * 0.7);
  const size =
    v.open || v.kind === "start" || v.kind === "end"
      ? Math.min(22, space)
      : Math.max(Math.min(32, space), Math.min(19, space * 1.7));
  return { "--far": `${Math.max(13, size).toFixed(1)}px` } as CSSProperties;
}

export const PillNode = memo(function PillNode({ data }: NodeProps<GraphNode>) {
  return (
    <div className="graph-pill" style={letters(data.vertex, data.width)}>
      {titleOf(data.vertex)}
      <Ends />
    </div>
  );
});

export const StepNode = memo(function StepNode({ data }: NodeProps<GraphNode>) {
  const { board, toggle } = useGraph();
  const v = data.vertex;
  const state = useNodeState(board, v.id);
  return (
    <div
      className="graph-node"
      data-status={state.status}
      data-next={state.next || undefined}
      style={letters(v, data.width)}
    >
      <Details vertex={v} state={state}>
        <button type="button" className="graph-face">
          <Face vertex={v} state={state} />
        </button>
      </Details>
      {v.kind === "group" ? (
        <button
          type="button"
          className="graph-open"
          aria-label={`Open ${v.name}`}
          title={`Open: ${v.size} nodes`}
          onClick={() => toggle(v.id)}
        >
          {v.size}
          <Icon name="plus" size={10} />
        </button>
      ) : null}
      <Points vertex={v} />
      <Ends />
    </div>
  );
});

/** GroupNode is an expanded subgraph: a box around its nodes. */
export const GroupNode = memo(function GroupNode({ data }: NodeProps<GraphNode>) {
  const { board, toggle } = useGraph();
  const v = data.vertex;
  const state = useNodeState(board, v.id);
  return (
    <div
      className="graph-group"
      data-status={state.status}
      data-next={state.next || undefined}
      style={letters(v, data.width)}
    >
      <div className="graph-group-head">
        <Details vertex={v} state={state}>
          <button type="button" className="graph-face">
            <Face vertex={v} state={state} />
          </button>
        </Details>
        <button
          type="button"
          className="graph-open"
          aria-label={`Close ${v.name}`}
          title="Close"
          onClick={() => toggle(v.id)}
        >
          <Icon name="minus" size={10} />
        </button>
      </div>
      <Points vertex={v} />
      <Ends />
    </div>
  );
});

/** Face shows the name and the state: in words for screen readers, abbreviated for others. */
function Face({ vertex: v, state }: { vertex: Vertex; state: NodeState }) {
  return (
    <>
      <span className="hidden">
        {[v.kind === "group" ? `Subgraph ${v.name}` : `Node ${v.name}`, sentence(state)].filter(Boolean).join(": ")}
      </span>
      <span className="graph-name" aria-hidden>
        {v.name}
      </span>
      <Line state={state} />
    </>
  );
}

/** Line shows the abbreviated state. */
function Line({ state: s }: { state: NodeState }) {
  const parts = [
    s.status === "failed"
      ? "failed"
      : s.status === "interrupted"
        ? "interrupted"
        : s.status === "stopped"
          ? "stopped"
          : s.status === "running" && s.total < 2
            ? "running"
            : "",
    s.total > 1 ? `${s.ended}/${s.total}` : "",
    s.attempts > 1 ? `${s.attempts} attempts` : "",
    // The time until an interrupt or a stop is not useful.
    s.time === undefined || s.status === "interrupted" || s.status === "stopped" ? "" : duration(s.time),
    s.visits > 1 ? `×${s.visits}` : "",
    s.next ? "next" : "",
  ].filter(Boolean);
  return parts.length ? (
    <span className="graph-line" aria-hidden>
      {parts.join(" · ")}
    </span>
  ) : null;
}

const moments: { when: When; text: string }[] = [
  { when: "before", text: "Pause before" },
  { when: "after", text: "Pause after" },
];

/**
 * Points toggles whether runs pause before and after a node. Servers support this only for nodes of the top-level
 * graph.
 */
function Points({ vertex: v }: { vertex: Vertex }) {
  const { assistant } = useGraph();
  const points = useBreakpoints(assistant);
  if (v.parent) return null;
  return moments.map(({ when, text }) => (
    // The node's details have the same for the keyboard, so that tabbing goes from node to node.
    <button
      key={when}
      type="button"
      tabIndex={-1}
      className={"graph-point " + when}
      aria-label={`${text} ${v.name}`}
      title={`${text} ${v.name}`}
      aria-pressed={points[when].includes(v.name)}
      onClick={() => toggleBreakpoint(assistant, v.name, when)}
    >
      <Icon name="pause" size={10} />
    </button>
  ));
}

/** Details shows everything known about a node, in a box next to it. */
function Details({ vertex: v, state: s, children }: { vertex: Vertex; state: NodeState; children: ReactNode }) {
  return (
    <Popover.Root>
      <Popover.Trigger asChild>{children}</Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          className="graph-details"
          side="right"
          sideOffset={8}
          collisionPadding={12}
          aria-label={v.name}
        >
          <h3>{v.name}</h3>
          <p className="muted small">
            {sentence({ ...s, errors: [] }) || (v.kind === "group" ? `A graph of ${v.size} nodes` : "Has not run")}
          </p>
          {s.errors.map((e) => (
            <pre key={e} className="graph-error">
              {e}
            </pre>
          ))}
          {s.asks.map((a, i) => (
            <p key={i} className="small graph-ask">
              Asks: {oneLine(a, 300)}
            </p>
          ))}
          {v.parent ? null : <Choices name={v.name} />}
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function Choices({ name }: { name: string }) {
  const { assistant } = useGraph();
  const points = useBreakpoints(assistant);
  return moments.map(({ when, text }) => (
    <label key={when} className="row graph-choice">
      <input
        type="checkbox"
        checked={points[when].includes(name)}
        onChange={() => toggleBreakpoint(assistant, name, when)}
      />
      {text} this node
    </label>
  ));
}
