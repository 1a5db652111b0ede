// The states of the graph's nodes, from the tasks of the run and from its checkpoints.
import { textOfError } from "../../data/errors";
import { statusOf, statusOfSession, type Status as RunStatus } from "../../data/status";
import { idOf, parentOf } from "../../data/tree";
import { isRunning, type SessionState, type Step, type TaskRun } from "../../data/types";
import { triesOf } from "../../data/events";
import { duration } from "../../ui/format";
import { metaOf, ranFor } from "../timeline/step";

export type Status = "idle" | "running" | "done" | "failed" | "interrupted" | "stopped";

export interface NodeState {
  status: Status;
  /** The number of the node's tasks in its last step, and how many of them have ended. */
  total: number;
  ended: number;
  /** The number of steps in which the node has run. */
  visits: number;
  attempts: number;
  /** Milliseconds from the first start to the last end of these tasks. */
  time?: number;
  errors: string[];
  /** The node's pending interrupts. */
  asks: unknown[];
  /** The node runs next from the checkpoint. */
  next: boolean;
}

export const idle: NodeState = {
  status: "idle",
  total: 0,
  ended: 0,
  visits: 0,
  attempts: 0,
  errors: [],
  asks: [],
  next: false,
};

/** pathOf returns the ID of a task's node in the graph. */
const pathOf = (t: TaskRun): string =>
  [
    ...t.ns
      .split("|")
      .filter(Boolean)
      .map((part) => part.split(":")[0]),
    t.name,
  ].join(":");

/** A Part is the part of the session's state that the nodes show. */
type Part = Pick<SessionState, "tasks" | "steps" | "run" | "thread" | "hasMore">;

/** statesOf returns the states of the nodes by ID. step is the selected checkpoint, if any. */
export function statesOf(s: Part, step: Step | undefined): Map<string, NodeState> {
  const running = isRunning(s);
  const states = new Map<string, NodeState>();
  const status = step && !running ? statusOf({ head: step }) : statusOfSession(s);
  if (running || !step) fromTasks(s.tasks.length ? s.tasks : savedTasks(s, running), running, status, states);
  const at = step ?? s.steps[0];
  if (at && !running) fromCheckpoint(at, status, states);
  return states;
}

/**
 * savedTasks returns the tasks of the newest run, as far as its checkpoints are loaded. A page that has not read the
 * run's stream knows them only from there.
 */
function savedTasks({ steps, run, hasMore }: Part, running: boolean): TaskRun[] {
  const byId = new Map(steps.map((s) => [idOf(s), s]));
  const head = steps[0];
  const id = head && metaOf(head).run_id;
  if (!head || !id || (run?.id && run.id !== id)) return [];
  const began = run?.id === id ? run.started : 0;
  const found: TaskRun[] = [];
  const add = (s: Step, t: Step["tasks"][number], ended: string | null | undefined, step: number) => {
    if (t.name === "__start__") return;
    found.push({
      id: t.id,
      name: t.name,
      ns: "",
      interrupts: [],
      // Only tasks that have not ended lack a result.
      result: ended ? (t.result ?? null) : undefined,
      started: Math.max(began, timeOf(s.created_at)),
      ended: ended ? Math.max(began, timeOf(ended)) : undefined,
      step,
      ...triesOf(t),
    });
  };
  let step = 0;
  let at: Step | undefined = head;
  for (let before = byId.get(parentOf(at)); at && metaOf(at).run_id === id; before = at && byId.get(parentOf(at))) {
    for (const t of before ? ranFor(at, before) : []) add(before!, t, at.created_at, step);
    step--;
    at = before;
  }
  found.reverse();
  for (const t of head.tasks ?? []) {
    const [error, interrupts] = [t.error ? textOfError(t.error) : undefined, t.interrupts ?? []];
    if (running ? run?.phase === "queued" : !error && !interrupts.length) continue;
    add(head, t, null, 1);
    if (!running) Object.assign(found.at(-1) ?? {}, { error, interrupts, ended: run?.ended });
  }
  if (!hasMore || at) return found;
  // The run's first checkpoints are not loaded, so the number of visits is unknown: the last one is shown.
  const last = new Map(found.map((t) => [t.name, t.step]));
  return found.filter((t) => t.step === last.get(t.name));
}

const timeOf = (time: string | null | undefined): number => (time ? new Date(time).getTime() : 0);

function fromTasks(all: TaskRun[], running: boolean, status: RunStatus | null, states: Map<string, NodeState>) {
  const byNode = new Map<string, TaskRun[]>();
  const current = new Set<string>();
  for (const t of all) {
    const path = pathOf(t);
    const list = byNode.get(path);
    if (list) list.push(t);
    else byNode.set(path, [t]);
  }
  // A parent's path is shorter than that of the nodes inside of it.
  for (const path of [...byNode.keys()].sort((a, b) => a.length - b.length)) {
    const tasks = byNode.get(path)!;
    const newest = new Map<string, number>();
    for (const t of tasks) newest.set(t.ns, Math.max(newest.get(t.ns) ?? -Infinity, t.step));
    const inside = tasks.filter((t) => t.step === newest.get(t.ns));
    // A subgraph counts if its task belongs to the last step.
    const last = inside.filter((t) => !t.ns || current.has(t.ns.slice(t.ns.lastIndexOf(":") + 1)));
    const shown = last.length ? last : inside;
    for (const t of shown) current.add(t.id);
    states.set(path, stateOf(shown, new Set(tasks.map((t) => t.ns + " " + t.step)).size, running, status));
  }
}

function stateOf(tasks: TaskRun[], visits: number, running: boolean, run: RunStatus | null): NodeState {
  const ended = tasks.filter((t) => t.ended !== undefined);
  const errors = [...new Set(tasks.flatMap((t) => (t.error ? [t.error] : [])))];
  const asks = tasks.flatMap((t) => t.interrupts.map((i) => i.value));
  const cut = tasks.some((t) => t.result === undefined && !t.error && !t.interrupts.length);
  // The error of a stopped run is the stop itself.
  const stopped = (run === "stopped" && errors.length > 0) || (cut && run !== "done");
  const status: Status =
    running && ended.length < tasks.length
      ? "running"
      : stopped
        ? "stopped"
        : errors.length
          ? "failed"
          : asks.length
            ? "interrupted"
            : "done";
  const time = ended.length
    ? Math.max(...ended.map((t) => t.ended!)) - Math.min(...tasks.map((t) => t.started))
    : undefined;
  return {
    status,
    total: tasks.length,
    ended: ended.length,
    visits,
    attempts: Math.max(...tasks.map((t) => t.attempt)),
    time: status === "running" ? undefined : time,
    errors: status === "stopped" ? [] : errors,
    asks,
    next: false,
  };
}

/** fromCheckpoint adds the saved information about the next tasks. */
function fromCheckpoint(step: Step, status: RunStatus | null, states: Map<string, NodeState>) {
  for (const name of new Set(step.next)) {
    const before = states.get(name) ?? idle;
    const tasks = (step.tasks ?? []).filter((t) => t.name === name);
    const errors = tasks.flatMap((t) => (t.error ? [textOfError(t.error)] : []));
    const asks = tasks.flatMap((t) => (t.interrupts ?? []).map((i) => i.value));
    if (before.status === "failed" || before.status === "interrupted" || before.status === "stopped") continue;
    const total = Math.max(tasks.length, 1);
    const attempts = Math.max(before.attempts, ...tasks.map((t) => triesOf(t).attempt));
    if (errors.length && status === "stopped") states.set(name, { ...before, status: "stopped", total, next: true });
    else if (errors.length) states.set(name, { ...before, status: "failed", errors, total, attempts });
    else if (asks.length) states.set(name, { ...before, status: "interrupted", asks, total });
    else states.set(name, { ...before, next: true });
  }
}

const words: Record<Status, string> = {
  idle: "",
  running: "running",
  done: "done",
  failed: "failed",
  interrupted: "interrupted",
  stopped: "stopped",
};

/** sentence describes the state of a node in words. */
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
  a.status === b.status &&
  a.total === b.total &&
  a.ended === b.ended &&
  a.visits === b.visits &&
  a.attempts === b.attempts &&
  a.time === b.time &&
  a.next === b.next &&
  a.errors.join() === b.errors.join() &&
  a.asks.length === b.asks.length;

/** A Board notifies each node only of its own state, so that the others are not rerendered. */
export class Board {
  private states = new Map<string, NodeState>();
  private listeners = new Set<() => void>();

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  all = (): ReadonlyMap<string, NodeState> => this.states;

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
