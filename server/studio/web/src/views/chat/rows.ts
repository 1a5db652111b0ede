// The rows of the chat: messages of the state, and streaming messages.
import type { Message } from "@langchain/langgraph-sdk";
import type { StreamedMessage } from "../../data/types";
import type { Origin } from "./branches";

export interface ToolCall {
  id?: string;
  name: string;
  args: unknown;
}

export interface Row {
  key: string;
  message: Message;
  /** The available results of the message's tool calls. */
  results: (Message | undefined)[];
  /** Tokens still arrive. */
  growing: boolean;
  /** The subgraph that the message comes from, if any. */
  from: string;
  /** The message is not in the state, because the run ended first. */
  lost: boolean;
  origin: Origin | undefined;
}

export const callsOf = (m: Message): ToolCall[] => (m as { tool_calls?: ToolCall[] }).tool_calls ?? [];

/** pathOf formats a namespace. */
const pathOf = (ns: string) =>
  ns
    .split("|")
    .map((part) => part.split(":")[0])
    .join(" › ");

/** rowsOf builds the rows. Unchanged rows are reused, so that they are not rerendered. */
export function rowsOf(
  stored: Message[],
  streamed: StreamedMessage[],
  running: boolean,
  origins: Map<string, Origin>,
  before: Map<string, Row>,
): Row[] {
  const known = new Set(stored.map((m) => m.id));
  const live = streamed.filter(
    (s) => !known.has(s.message.id) && (s.message.type === "ai" || s.message.type === "tool" || s.ns === ""),
  );
  const results = new Map<string, Message>();
  const calls = new Set<string>();
  const all = [
    ...stored.map((message) => ({ message, live: undefined as StreamedMessage | undefined })),
    ...live.map((s) => ({ message: s.message, live: s })),
  ];
  for (const { message } of all) {
    if (message.type === "tool") results.set(message.tool_call_id, message);
    else if (message.type === "ai") for (const c of callsOf(message)) if (c.id) calls.add(c.id);
  }
  const rows: Row[] = [];
  for (const [i, { message, live }] of all.entries()) {
    // A result is shown in the row of its call.
    if ((message.type === "tool" && calls.has(message.tool_call_id)) || message.type === "remove") continue;
    const row: Row = {
      key: message.id ?? `at ${i}`,
      message,
      results: message.type === "ai" ? callsOf(message).map((c) => results.get(c.id ?? "")) : [],
      growing: !!live && running,
      from: live?.ns ? pathOf(live.ns) : "",
      lost: !!live && !running,
      origin: message.id ? origins.get(message.id) : undefined,
    };
    const old = before.get(row.key);
    rows.push(old && same(old, row) ? old : row);
  }
  return rows;
}

function same(a: Row, b: Row): boolean {
  return (
    a.message === b.message &&
    a.growing === b.growing &&
    a.lost === b.lost &&
    a.from === b.from &&
    a.results.length === b.results.length &&
    a.results.every((r, i) => r === b.results[i]) &&
    a.origin?.before === b.origin?.before &&
    a.origin?.at === b.origin?.at &&
    a.origin?.branches.length === b.origin?.branches.length
  );
}
