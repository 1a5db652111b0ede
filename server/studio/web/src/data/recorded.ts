// The calls of models, tools, and retrievers that Treadle's server records.
import type { Values } from "./types";

export interface RecordedSpan {
  span_id: string;
  trace_id: string;
  /** The recorded call that contains this one. */
  parent_span_id: string | null;
  kind: "model" | "tool" | "retriever";
  name: string;
  /** "unfinished" means that the process died during the call. */
  status: "running" | "success" | "error" | "interrupted" | "canceled" | "unfinished";
  provider?: string;
  graph: string;
  node: string;
  step: number;
  task_id: string;
  checkpoint_ns: string;
  /** The nodes that contain the call, outermost first. */
  path: { node: string; task_id: string }[];
  started_at: string;
  ended_at: string | null;
  first_chunk_at: string | null;
  attempts: { attempt: number; started_at: string; ended_at: string | null; error: string | null }[];
  tool_call_id?: string;
  parameters?: Values;
  usage?: Values;
  response_model?: string;
  finish_reason?: string;
  error: { error?: string; message?: string } | null;
  /** What the server's size limits removed. */
  cut: { path: string; bytes: number }[] | null;
  /** The server stores input and output, which a list omits. */
  has_content: boolean;
  input?: unknown;
  output?: unknown;
}

/** A Recording contains the recorded calls of a run, oldest first, without their contents. */
export interface Recording {
  spans: RecordedSpan[];
  /** The server records calls of new runs. */
  recording: boolean;
  /** The server redacts texts before it stores them. */
  redacted: boolean;
  /** What limits left out of the run. */
  omitted: { spans: number; bytes: number };
}
