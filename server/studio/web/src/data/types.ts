import type { Checkpoint, Interrupt, Message, Metadata, Run, Thread, ThreadState } from "@langchain/langgraph-sdk";

export type Values = Record<string, unknown>;

/** A Step is a stored checkpoint of a thread. */
export type Step = ThreadState<Values>;

/** A TaskRun is a node that a run executes, as reported by the stream. */
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
  /** The failed attempts before the last one, if the server reports them. */
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

/** A StreamedMessage is a message whose tokens are arriving. */
export interface StreamedMessage {
  message: Message;
  node: string;
  ns: string;
  /** The ID of the task that called the model, if the server names it. */
  task?: string;
  started: number;
  ended: number;
  chunks: number;
  model?: string;
}

/**
 * A RunPhase is the state of a run as the page follows it. A cancelled run may not have ended yet. The page is looking
 * for a run if the request that starts it got no response.
 */
export type RunPhase =
  "starting" | "looking" | "queued" | "running" | "reconnecting" | "success" | "error" | "interrupted" | "cancelled";

/** The run of the thread that was started or joined last. */
export interface RunState {
  id: string | null;
  assistant: string;
  phase: RunPhase;
  /** Milliseconds since 1970: by the server's clock, or by this machine's until the server reports the run. */
  started: number;
  ended?: number;
  error?: string;
  /** The submitted input, if this page started the run. */
  request?: RunOptions;
  /** The request as the server keeps it, if it was loaded with the run. */
  kwargs?: KeptRun["kwargs"];
}

export interface RunOptions {
  assistant: string;
  input?: unknown;
  command?: Record<string, unknown>;
  /** The checkpoint to continue from, which creates a fork. Null means the newest. */
  checkpoint?: Checkpoint | null;
  /** The state to show until the run sends its own. */
  expected?: Values;
  config?: Record<string, unknown>;
  context?: unknown;
  interruptBefore?: string[] | "*";
  interruptAfter?: string[] | "*";
  multitaskStrategy?: "reject" | "rollback" | "interrupt" | "enqueue";
  durability?: "sync" | "async" | "exit";
}

export interface OpenQuestion {
  /** The ID of the interrupt, which an answer names. */
  id: string;
  value: unknown;
  node: string;
  ns: string;
}

export interface SessionState {
  threadId: string | null;
  /** "missing": the thread does not exist. */
  status: "empty" | "loading" | "ready" | "missing" | "failed";
  error?: string;
  /** The graph of the thread's newest run. */
  graph: string | null;
  /** The thread as loaded, if it has no runs. It is outdated once a run starts. */
  thread: { status?: string; interrupts?: Record<string, unknown[]> | null } | null;
  /** The loaded checkpoints of the root graph, newest first, of all branches. */
  steps: Step[];
  hasMore: boolean;
  /** The state of the current run, or of the newest checkpoint. */
  values: Values;
  /** The nodes of the run, in the order in which they started. */
  tasks: TaskRun[];
  /** Messages streamed during the run, in the order in which they started. */
  messages: StreamedMessage[];
  /** Events that nodes emitted in custom mode. */
  custom: { ns: string; data: unknown; at: number }[];
  questions: OpenQuestion[];
  run: RunState | null;
}

export function isRunning(s: Pick<SessionState, "run">): boolean {
  return !!s.run && ["starting", "looking", "queued", "running", "reconnecting"].includes(s.run.phase);
}

/** A FoundThread is a thread that the server has found. */
export interface FoundThread extends Thread {
  title: string;
  matched: "title" | "text" | "";
  /** Whether the thread is so long that not all of its text is indexed. */
  truncated: boolean;
}

export interface ThreadsPage {
  threads: FoundThread[];
  next_cursor: string | null;
  /** The number of threads whose last change is not indexed yet. */
  pending: number;
  /** False if the server indexes only names. */
  text: boolean;
}

/** A ThreadList is a list of threads with the questions of all threads, if the server counts them. */
export interface ThreadList {
  threads: Thread[];
  questions?: Questions;
}

/** Questions are those that wait for an answer. */
export interface Questions {
  count: number;
  /** Whether there may be more. */
  more: boolean;
}

/** A FoundRun is a run with the title and status of its thread. */
export interface FoundRun {
  run_id: string;
  thread_id: string;
  assistant_id: string;
  graph_id: string;
  status: "pending" | "running" | "success" | "error" | "timeout" | "interrupted";
  created_at: string;
  updated_at: string;
  started_at: string | null;
  ended_at: string | null;
  error: { error?: string; message?: string } | null;
  metadata: Metadata;
  /** Whether no run of the thread is newer. */
  latest: boolean;
  thread: { title: string; status: string; needs_answer: boolean };
}

export interface RunsPage {
  runs: FoundRun[];
  next_cursor: string | null;
}

/** A KeptRun is a run with its request, which most servers return. */
export type KeptRun = Run & { kwargs?: Record<string, unknown> };

/** The NewestRun is the run of a thread that was created last. */
export type NewestRun = Pick<Run, "run_id" | "thread_id" | "assistant_id" | "status" | "created_at" | "updated_at"> & {
  metadata: Metadata;
  /** Why the run failed, if the server returns it with the run. */
  error?: FoundRun["error"];
  kwargs?: KeptRun["kwargs"];
};

/** An Overview is a thread with its newest run and checkpoints. */
export interface Overview {
  /** The thread, which may be null if it has a run. */
  thread: { status?: string; interrupts?: Record<string, unknown[]> | null; metadata?: Metadata } | null;
  run: NewestRun | null;
  /** Newest first. */
  states: Step[];
  /** What could not be loaded. */
  error?: string;
}
