// What a deep agent has planned, written, and delegated, as its state and messages say.
import type { Message } from "@langchain/langgraph-sdk";
import { isMessage, messagesKey, textOf } from "../../data/messages";
import type { RecordedSpan } from "../../data/recorded";
import type { Step, Values } from "../../data/types";

export interface Todo {
  content: string;
  status: "pending" | "in_progress" | "completed";
}

/** A Stored is a file: its text, or null if it is not text. */
export interface Stored {
  text: string | null;
  bytes: number;
}

/** A Version is a change of a file. It has no content if the checkpoint deleted the file. */
export interface Version {
  step: Step;
  content: Stored | null;
}

export type CallKind = "agent" | "run";

/** A Delegated is a call that runs other work: a sub-agent, a command, or a script. */
export interface Delegated {
  id: string;
  kind: CallKind;
  /** The name of the sub-agent or the tool. */
  name: string;
  /** What was asked: the sub-agent's task, the command, or the script. */
  asked: string;
  result: string | null;
  failed: boolean;
}

const isObject = (v: unknown): v is Values => typeof v === "object" && v !== null && !Array.isArray(v);

const working = new WeakMap<Values, boolean>();

/** hasWork reports whether a state is that of an agent with to-dos or files, or that has run a script or a command. */
export function hasWork(values: Values): boolean {
  // It is called for each event of a run, and there may be many messages.
  let works = working.get(values);
  if (works === undefined) {
    works =
      (Array.isArray(values.todos) && values.todos.length > 0) ||
      (isObject(values.files) && Object.keys(values.files).length > 0) ||
      messagesOf(values).some((m) => toolCallsOf(m).some((call) => call.name in runners));
    working.set(values, works);
  }
  return works;
}

export function todosOf(values: Values): Todo[] {
  if (!Array.isArray(values.todos)) return [];
  return values.todos.filter((t): t is Todo => isObject(t) && typeof t.content === "string");
}

/** filesOf returns the files of a state by path. Older agents store a list of lines, or only the text. */
export function filesOf(values: Values): Record<string, Stored> {
  const out: Record<string, Stored> = {};
  if (!isObject(values.files)) return out;
  for (const [path, file] of Object.entries(values.files)) {
    const stored = storedOf(file);
    if (stored) out[path] = stored;
  }
  return out;
}

function storedOf(file: unknown): Stored | null {
  const content: unknown = isObject(file) ? file.content : file;
  const lines: unknown = Array.isArray(content) ? content.join("\n") : content;
  if (typeof lines !== "string") return null;
  if (isObject(file) && file.encoding === "base64") {
    const padding = lines.endsWith("==") ? 2 : lines.endsWith("=") ? 1 : 0;
    return { text: null, bytes: (lines.length / 4) * 3 - padding };
  }
  return { text: lines, bytes: new TextEncoder().encode(lines).length };
}

/** versionsOf returns the changes of a file along the checkpoints of a branch, oldest first. */
export function versionsOf(path: Step[], name: string): Version[] {
  const out: Version[] = [];
  let last = "null";
  for (const step of path) {
    const files = isObject(step.values?.files) ? step.values.files : {};
    const content = storedOf(files[name]);
    const now = JSON.stringify(content && (content.text ?? files[name]));
    if (now !== last) out.push({ step, content });
    last = now;
  }
  return out;
}

const runners: Record<string, string> = { execute: "command", run_code: "code" };

function messagesOf(values: Values): Message[] {
  const key = messagesKey(values);
  return key ? (values[key] as unknown[]).filter(isMessage) : [];
}

const toolCallsOf = (m: Message) =>
  (m as { tool_calls?: { id?: string; name: string; args: unknown }[] }).tool_calls ?? [];

/** delegatedOf returns the calls of a state's messages that run other work, in order. */
export function delegatedOf(values: Values): Delegated[] {
  const messages = messagesOf(values);
  const results = new Map<string, Message>();
  for (const m of messages) if (m.type === "tool") results.set((m as { tool_call_id?: string }).tool_call_id ?? "", m);
  const out: Delegated[] = [];
  for (const m of messages)
    for (const call of toolCallsOf(m)) {
      const args = isObject(call.args) ? call.args : {};
      const result = results.get(call.id ?? "");
      const shared = {
        id: call.id ?? String(out.length),
        result: result ? textOf(result) : null,
        failed: (result as { status?: string } | undefined)?.status === "error",
      };
      if (call.name === "task")
        out.push({
          ...shared,
          kind: "agent",
          name: text(args.subagent_type) || "agent",
          asked: text(args.description),
        });
      else if (runners[call.name])
        out.push({ ...shared, kind: "run", name: call.name, asked: text(args[runners[call.name]!]) });
    }
  return out;
}

/** runsOf returns the run that made each call, by the ID of the call, as far as its checkpoint is loaded. */
export function runsOf(path: Step[]): Map<string, string> {
  const runs = new Map<string, string>();
  let known = 0; // messages of the checkpoint before, which a checkpoint usually extends
  for (const { values, metadata } of path) {
    const run: unknown = (metadata as Values | undefined)?.run_id;
    const all = messagesOf(values ?? {});
    for (const m of all.slice(known))
      for (const call of toolCallsOf(m)) if (call.id && typeof run === "string") runs.set(call.id, run);
    known = all.length;
  }
  return runs;
}

/** Made are the recorded calls that an agent made while it worked on a task, or a script while it ran. */
export interface Made {
  /** The call of the tool. */
  span: RecordedSpan;
  /** The name of the agent, if its model has been called. */
  agent?: string;
  /** What it called, in order. */
  calls: Made[];
}

/** madeBy returns what a call of a tool made, or null if the recording lacks the call. */
export function madeBy(spans: RecordedSpan[], call: string): Made | null {
  const span = spans.findLast((s) => s.kind === "tool" && s.tool_call_id === call);
  return span ? madeIn(spans, span) : null;
}

function madeIn(spans: RecordedSpan[], span: RecordedSpan): Made {
  const inside = spans.filter((s) => s.parent_span_id === span.span_id);
  const agent = inside.find((s) => s.kind === "model")?.graph;
  return { span, ...(agent ? { agent } : {}), calls: inside.map((s) => madeIn(spans, s)) };
}

const text = (v: unknown): string => (typeof v === "string" ? v : v === undefined ? "" : JSON.stringify(v));
