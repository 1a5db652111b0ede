import type { Checkpoint, Interrupt, Message, ThreadState } from "@langchain/langgraph-sdk";

export type Values = Record<string, unknown>;

/** A Step is a stored checkpoint of a thread. */
export type Step = ThreadState<Values>;

/** A TaskRun is a node that a run executes, as the stream tells it. */
export interface TaskRun {
  id: string;
  name: string;
  /** The namespace of the graph that the node is in: "" for the root. */
  ns: string;
  input?: unknown;
  result?: unknown;
  error?: string;
  interrupts: Interrupt[];
  /** Milliseconds since 1970, by this machine's clock. */
  started: number;
  ended?: number;
  attempt: number;
  /** The attempts that failed before the last one, if the server tells them. */
  retries: Retry[];
  /** Counts the steps of the graph that the node is in; tasks with the same one run together. */
  step: number;
}

/** A Retry is an attempt that failed and was repeated, by the server's clock. */
export interface Retry {
  error: string;
  started_at: string;
  ended_at: string;
}

/** A StreamedMessage is a message whose tokens arrive. */
export interface StreamedMessage {
  message: Message;
  node: string;
  ns: string;
  /** The id of the task that the model was called in, if the server names it. */
  task?: string;
  started: number;
  ended: number;
  chunks: number;
  model?: string;
}

export type RunPhase = "starting" | "running" | "reconnecting" | "success" | "error" | "interrupted" | "cancelled";

/** The run of the thread that was started or joined last. */
export interface RunState {
  id: string | null;
  assistant: string;
  phase: RunPhase;
  started: number;
  ended?: number;
  error?: string;
  /** What was submitted, if this page did. */
  request?: RunOptions;
}

export interface RunOptions {
  assistant: string;
  input?: unknown;
  command?: Record<string, unknown>;
  /** The checkpoint to go on from: a fork. Null: the newest. */
  checkpoint?: Checkpoint | null;
  /** The state that is shown until the run sends its own. */
  expected?: Values;
  config?: Record<string, unknown>;
  context?: unknown;
  interruptBefore?: string[] | "*";
  interruptAfter?: string[] | "*";
  multitaskStrategy?: "reject" | "rollback" | "interrupt" | "enqueue";
  durability?: "sync" | "async" | "exit";
}

export interface OpenQuestion {
  /** The id of the interrupt, which an answer names. */
  id: string;
  value: unknown;
  node: string;
  ns: string;
}

export interface SessionState {
  threadId: string | null;
  /** "missing": the server has no such thread. */
  status: "empty" | "loading" | "ready" | "missing" | "failed";
  error?: string;
  metadata: Record<string, unknown>;
  /** The checkpoints of the root graph that were loaded, newest first, of all branches. */
  steps: Step[];
  hasMore: boolean;
  /** The state as the run that is going on leaves it, or that of the newest checkpoint. */
  values: Values;
  /** The nodes of the run, in the order in which they began. */
  tasks: TaskRun[];
  /** Messages whose tokens arrived during the run, in the order in which they began. */
  messages: StreamedMessage[];
  /** What nodes sent with the custom mode. */
  custom: { ns: string; data: unknown; at: number }[];
  questions: OpenQuestion[];
  run: RunState | null;
}

export function isRunning(s: SessionState): boolean {
  return s.run?.phase === "starting" || s.run?.phase === "running" || s.run?.phase === "reconnecting";
}
