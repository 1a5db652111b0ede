// Messages as servers send them: whole, or in chunks that are assembled here.
import type { Message } from "@langchain/langgraph-sdk";

type Chunk = Record<string, unknown>;

interface ToolCallChunk {
  index?: number;
  id?: string | null;
  name?: string | null;
  args?: string | null;
}

const chunkTypes: Record<string, string> = {
  AIMessageChunk: "ai",
  HumanMessageChunk: "human",
  ToolMessageChunk: "tool",
  SystemMessageChunk: "system",
};

/** addChunk returns the message with a chunk added; a whole message replaces it. */
export function addChunk(before: Message | undefined, chunk: Chunk): Message {
  const type = chunkTypes[chunk.type as string];
  if (!type) return chunk as unknown as Message;
  const old = (before ?? { content: "" }) as unknown as Chunk;
  const calls = addCalls(
    old.tool_call_chunks as ToolCallChunk[] | undefined,
    chunk.tool_call_chunks as ToolCallChunk[] | undefined,
  );
  return {
    ...old,
    ...chunk,
    type,
    content: addContent(old.content, chunk.content),
    ...(calls.length
      ? {
          tool_call_chunks: calls,
          tool_calls: calls.map((c) => ({ id: c.id ?? "", name: c.name ?? "", args: parsed(c.args) })),
        }
      : {}),
    usage_metadata: chunk.usage_metadata ?? old.usage_metadata,
  } as unknown as Message;
}

/** The keys of blocks that arrive in pieces. */
const growing: Record<string, string> = { text: "text", reasoning: "reasoning", thinking: "thinking" };

function addContent(a: unknown, b: unknown): unknown {
  if (b === undefined || b === null || b === "") return a ?? "";
  if (typeof a === "string" && typeof b === "string") return a + b;
  const blocks = [...asBlocks(a)];
  for (const block of asBlocks(b)) {
    const last = blocks.at(-1);
    const key = growing[block.type as string];
    if (
      key &&
      last?.type === block.type &&
      (block.index === undefined || last?.index === undefined || last.index === block.index)
    )
      blocks[blocks.length - 1] = { ...last, ...block, [key]: String(last?.[key] ?? "") + String(block[key] ?? "") };
    else blocks.push(block);
  }
  return blocks;
}

function asBlocks(content: unknown): Chunk[] {
  if (Array.isArray(content)) return content as Chunk[];
  return content ? [{ type: "text", text: String(content) }] : [];
}

function addCalls(before: ToolCallChunk[] = [], chunks: ToolCallChunk[] = []): ToolCallChunk[] {
  if (!chunks?.length) return before;
  const out = [...before];
  for (const c of chunks) {
    const at = out.findIndex((o) => (c.index != null ? o.index === c.index : !c.id || o.id === c.id));
    const o = out[at];
    if (o) out[at] = { ...o, id: o.id ?? c.id, name: o.name || c.name, args: (o.args ?? "") + (c.args ?? "") };
    else out.push(c);
  }
  return out;
}

/** parsed parses the JSON of possibly incomplete arguments. */
function parsed(args: string | null | undefined): Record<string, unknown> {
  try {
    return JSON.parse(args || "{}") as Record<string, unknown>;
  } catch {
    return { "…": args };
  }
}

/** textOf returns the text of a message's content. */
export function textOf(message: Pick<Message, "content">): string {
  const content = message.content as unknown;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return content == null ? "" : JSON.stringify(content);
  return content
    .map((b: Chunk) => (typeof b === "string" ? b : b.type === "text" ? String(b.text ?? "") : ""))
    .join("");
}

/** isMessage reports whether a value looks like a message. */
export function isMessage(v: unknown): v is Message {
  return (
    typeof v === "object" &&
    v !== null &&
    typeof (v as Chunk).type === "string" &&
    "content" in v &&
    ["human", "ai", "tool", "system", "function", "remove"].includes((v as Chunk).type as string)
  );
}

/** messagesKey returns the key of the state that holds a list of messages, if any. */
export function messagesKey(values: Record<string, unknown>): string | null {
  if (Array.isArray(values.messages)) return "messages";
  for (const [key, v] of Object.entries(values)) if (Array.isArray(v) && v.length > 0 && v.every(isMessage)) return key;
  return null;
}
