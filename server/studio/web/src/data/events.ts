// The state of a run, collected from the events of its stream.
import type { Checkpoint } from "@langchain/langgraph-sdk";
import type { StreamEvent } from "./client";
import { textOfError } from "./errors";
import { addChunk } from "./messages";
import type { Retry, SessionState, Step, StreamedMessage, TaskRun, Values } from "./types";

type Json = Record<string, unknown>;

/** An Effect is a part of an event that concerns more than the collected tasks and messages. */
export type Effect =
  | { kind: "run"; id: string }
  | { kind: "error"; text: string }
  | { kind: "step"; step: Step }
  | { kind: "values"; values: Values }
  | { kind: "collected" };

/** Collected is the state of a run that its events add up to. */
export class Collected {
  private tasks = new Map<string, TaskRun>();
  private messages = new Map<string, StreamedMessage>();
  private custom: SessionState["custom"] = [];
  /** The newest step of each graph that the run is in, by its namespace. */
  private newest = new Map<string, { step: number; ending: boolean }>();

  get isEmpty() {
    return this.tasks.size === 0;
  }

  parts(): Pick<SessionState, "tasks" | "messages" | "custom"> {
    return { tasks: [...this.tasks.values()], messages: [...this.messages.values()], custom: this.custom };
  }

  /** end ends the tasks whose end was not reported. */
  end() {
    for (const t of this.tasks.values()) t.ended ??= Date.now();
  }

  /** apply adds an event. It returns null if the event has no effect. */
  apply(e: StreamEvent): Effect | null {
    const [mode = "", ...path] = e.event.split("|");
    const ns = path.join("|");
    const data = e.data as Json;
    switch (mode) {
      case "metadata":
        return { kind: "run", id: String(data.run_id ?? "") };
      case "values":
        return ns === "" ? { kind: "values", values: data } : null;
      case "checkpoints": {
        const step = ns === "" ? stepOf(data) : null;
        return step && { kind: "step", step };
      }
      case "tasks":
        this.addTask(data, ns);
        return { kind: "collected" };
      case "messages":
        if (Array.isArray(e.data)) this.addMessage(e.data[0] as Json, (e.data[1] ?? {}) as Json, ns);
        return { kind: "collected" };
      case "custom":
        this.custom = [...this.custom, { ns, data: e.data, at: Date.now() }];
        return { kind: "collected" };
      case "error":
        return { kind: "error", text: textOfError(data) };
      default:
        return null;
    }
  }

  private addTask(data: Json, ns: string) {
    const id = String(data.id);
    const before = this.tasks.get(id);
    if ("triggers" in data || "input" in data) {
      this.tasks.set(id, {
        id,
        name: String(data.name),
        ns,
        input: data.input,
        interrupts: [],
        started: Date.now(),
        attempt: (before?.attempt ?? 0) + 1,
        retries: [],
        step: before?.step ?? this.stepIn(ns),
      });
      return;
    }
    const task = before ?? {
      id,
      name: String(data.name),
      ns,
      interrupts: [],
      started: Date.now(),
      attempt: 1,
      retries: [],
      step: this.stepIn(ns),
    };
    const newest = this.newest.get(ns);
    if (newest) newest.ending = true;
    const { attempt, retries } = triesOf(data, task.attempt);
    this.tasks.set(id, {
      ...task,
      attempt,
      retries,
      result: data.result,
      error: data.error ? textOfError(data.error) : undefined,
      interrupts: (data.interrupts ?? []) as TaskRun["interrupts"],
      ended: Date.now(),
    });
  }

  /**
   * stepIn returns the step of a starting task. All tasks of a step start before one of them ends, so the first task
   * that starts after that starts a new step.
   */
  private stepIn(ns: string): number {
    const newest = this.newest.get(ns);
    if (newest && !newest.ending) return newest.step;
    const step = (newest?.step ?? 0) + 1;
    this.newest.set(ns, { step, ending: false });
    return step;
  }

  private addMessage(chunk: Json, meta: Json, ns: string) {
    const id = String(chunk.id ?? "");
    if (!id) return;
    const before = this.messages.get(id);
    const path = String(meta.langgraph_checkpoint_ns ?? meta.checkpoint_ns ?? "");
    this.messages.set(id, {
      message: addChunk(before?.message, chunk),
      node: String(meta.langgraph_node ?? ""),
      ns: ns || path.split("|").slice(0, -1).join("|"),
      task: path.split("|").at(-1)?.split(":")[1],
      started: before?.started ?? Date.now(),
      ended: Date.now(),
      chunks: (before?.chunks ?? 0) + 1,
      model: (meta.ls_model_name as string | undefined) ?? before?.model,
    });
  }
}

/** stepOf returns the checkpoint in an event, or null if the event does not name it. */
function stepOf(data: Json): Step | null {
  const configurable = (c: unknown) => ((c as Json | null)?.configurable ?? null) as Checkpoint | null;
  const checkpoint = (data.checkpoint ?? configurable(data.config)) as Checkpoint | null;
  if (!checkpoint?.checkpoint_id) return null;
  const parent = (data.parent_checkpoint ?? configurable(data.parent_config)) as Checkpoint | null;
  return {
    values: (data.values ?? {}) as Values,
    next: (data.next ?? []) as string[],
    checkpoint,
    metadata: (data.metadata ?? {}) as Step["metadata"],
    created_at: new Date().toISOString(),
    parent_checkpoint: parent,
    tasks: ((data.tasks ?? []) as Json[]).map(
      (t) => ({ interrupts: [], error: null, checkpoint: null, ...t, state: null }) as unknown as Step["tasks"][number],
    ),
  };
}

/** triesOf returns the number of attempts of a task, or 1 if the server does not report it. */
export function triesOf(task: unknown, once = 1): { attempt: number; retries: Retry[] } {
  const t = task as { attempts?: unknown; retries?: unknown };
  return {
    attempt: typeof t.attempts === "number" ? t.attempts : once,
    retries: Array.isArray(t.retries) ? (t.retries as Retry[]) : [],
  };
}
