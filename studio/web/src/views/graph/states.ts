// What the nodes of the graph are doing, from the tasks of the run and from a checkpoint.
import { isRunning, type RunPhase, type SessionState, type Step, type TaskRun } from "../../data/types";
import { triesOf } from "../../data/session";
import { duration } from "../../ui/format";

export type Status = "idle" | "running" | "done" | "failed" | "interrupted" | "stopped";

export interface NodeState {
  status: Status;
  /** Of the tasks of the node in its last step: how many there are, and how many have ended. */
  total: number;
  ended: number;
  /** In how many steps the node has run. */
  visits: number;
  attempts: number;
  /** Milliseconds from the first begin to the last end of these tasks. */
  time?: number;
  errors: string[];
  /** What the node asks. */
  asks: unknown[];
  /** The node is what runs next from the checkpoint. */
  next: boolean;
}

export const idle: NodeState = { status: "idle", total: 0, ended: 0, visits: 0, attempts: 0, errors: [], asks: [], next: false };

/** pathOf is the id that a task's node has in the graph. */
const pathOf = (t: TaskRun): string => [...t.ns.split("|").filter(Boolean).map((part) => part.split(":")[0]), t.name].join(":");

/** statesOf are the states of the nodes, by their ids. step is the checkpoint that is looked at, if one is. */
export function statesOf(s: SessionState, step: Step | undefined): Map<string, NodeState> {
  const running = isRunning(s);
  const states = new Map<string, NodeState>();
  if (running || !step) fromTasks(s, running, states);
  const at = step ?? (running ? undefined : s.steps[0]);
  if (at && !running) fromCheckpoint(at, states);
  return states;
}

function fromTasks(s: SessionState, running: boolean, states: Map<string, NodeState>) {
  const byNode = new Map<string, TaskRun[]>();
  const current = new Set<string>();
  for (const t of s.tasks) {
    const path = pathOf(t);
    const list = byNode.get(path);
    if (list) list.push(t);
    else byNode.set(path, [t]);
  }
  // A parent's path is shorter than that of the nodes inside of it.
  for (const path of [...byNode.keys()].sort((a, b) => a.length - b.length)) {
    const tasks = byNode.get(path)!;
    const newest = new Map<string, number>();
    for (const t of tasks) newest.set(t.ns, Math.max(newest.get(t.ns) ?? 0, t.step));
    const inside = tasks.filter((t) => t.step === newest.get(t.ns));
    // Of nested graphs, those count whose own task is of the last step.
    const last = inside.filter((t) => !t.ns || current.has(t.ns.slice(t.ns.lastIndexOf(":") + 1)));
    const shown = last.length ? last : inside;
    for (const t of shown) current.add(t.id);
    states.set(path, stateOf(shown, new Set(tasks.map((t) => t.ns + " " + t.step)).size, running, s.run?.phase));
  }
}

function stateOf(tasks: TaskRun[], visits: number, running: boolean, phase: RunPhase | undefined): NodeState {
  const ended = tasks.filter((t) => t.ended !== undefined);
  const errors = [...new Set(tasks.flatMap((t) => (t.error ? [t.error] : [])))];
  const asks = tasks.flatMap((t) => t.interrupts.map((i) => i.value));
  const cut = tasks.some((t) => t.result === undefined && !t.error && !t.interrupts.length);
  // Of a run that was stopped, the error is that it was.
  const stopped = (phase === "cancelled" && errors.length > 0) || (cut && phase !== "success");
  const status: Status = running && ended.length < tasks.length ? "running" : stopped ? "stopped" : errors.length ? "failed" : asks.length ? "interrupted" : "done";
  const time = ended.length ? Math.max(...ended.map((t) => t.ended!)) - Math.min(...tasks.map((t) => t.started)) : undefined;
  return { status, total: tasks.length, ended: ended.length, visits, attempts: Math.max(...tasks.map((t) => t.attempt)), time: status === "running" ? undefined : time, errors, asks, next: false };
}

/** fromCheckpoint adds what is stored about the tasks that come next. */
function fromCheckpoint(step: Step, states: Map<string, NodeState>) {
  for (const name of new Set(step.next)) {
    const before = states.get(name) ?? idle;
    const tasks = (step.tasks ?? []).filter((t) => t.name === name);
    const errors = tasks.flatMap((t) => (t.error ? [textOf(t.error)] : []));
    const asks = tasks.flatMap((t) => (t.interrupts ?? []).map((i) => i.value));
    if (before.status === "failed" || before.status === "interrupted" || before.status === "stopped") continue;
    const total = Math.max(tasks.length, 1);
    const attempts = Math.max(before.attempts, ...tasks.map((t) => triesOf(t).attempt));
    if (errors.length) states.set(name, { ...before, status: "failed", errors, total, attempts });
    else if (asks.length) states.set(name, { ...before, status: "interrupted", asks, total });
    else states.set(name, { ...before, next: true });
  }
}

function textOf(err: unknown): string {
  if (typeof err === "string") return err;
  return String((err as { message?: unknown }).message ?? JSON.stringify(err));
}

const words: Record<Status, string> = { idle: "", running: "running", done: "done", failed: "failed", interrupted: "interrupted", stopped: "stopped" };

/** sentence is the state of a node in words. */
export function sentence(s: NodeState): string {
  return [
    words[s.status],
    s.total > 1 ? `${s.ended} of ${s.total} tasks` : "",
    s.time === undefined ? "" : duration(s.time),
    s.attempts > 1 ? `${s.attempts} attempts` : "",
    s.visits > 1 ? `${s.visits} times` : "",
    s.next ? "next" : "",
    ...s.errors,
  ]
    .filter(Boolean)
    .join(", ");
}

const equal = (a: NodeState, b: NodeState): boolean =>
  a.status === b.status && a.total === b.total && a.ended === b.ended && a.visits === b.visits && a.attempts === b.attempts && a.time === b.time && a.next === b.next && a.errors.join() === b.errors.join() && a.asks.length === b.asks.length;

/** A Board tells each node of its own state only, so that the others are not drawn again. */
export class Board {
  private states = new Map<string, NodeState>();
  private listeners = new Set<() => void>();

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get = (id: string): NodeState => this.states.get(id) ?? idle;

  /** update keeps the states that have not changed. */
  update(to: Map<string, NodeState>) {
    for (const [id, s] of to) {
      const before = this.states.get(id);
      if (before && equal(before, s)) to.set(id, before);
    }
    this.states = to;
    for (const listener of this.listeners) listener();
  }
}
