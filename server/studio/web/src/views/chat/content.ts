// The content of messages, in the forms that models and SDKs use.
import type { Message } from "@langchain/langgraph-sdk";

type Block = Record<string, unknown>;

export type Part =
  | { kind: "text"; text: string }
  | { kind: "reasoning"; text: string }
  | { kind: "image"; src: string }
  | { kind: "other"; value: unknown };

/** partsOf splits a message's content. Blocks that repeat a tool call are omitted. */
export function partsOf(message: Message): Part[] {
  const parts: Part[] = [];
  const extra = (message as { additional_kwargs?: Block }).additional_kwargs?.reasoning_content;
  if (typeof extra === "string" && extra) parts.push({ kind: "reasoning", text: extra });
  const content = message.content as unknown;
  if (typeof content === "string") {
    if (content) parts.push({ kind: "text", text: content });
    return parts;
  }
  for (const b of Array.isArray(content) ? (content as (Block | string)[]) : []) {
    const part = typeof b === "string" ? ({ kind: "text", text: b } as Part) : partOf(b);
    const last = parts.at(-1);
    if (!part) continue;
    if (part.kind === "text" && last?.kind === "text")
      parts[parts.length - 1] = { kind: "text", text: last.text + part.text };
    else parts.push(part);
  }
  return parts;
}

function partOf(b: Block): Part | null {
  switch (b.type) {
    case "text":
    case "text-plain":
      return b.text ? { kind: "text", text: String(b.text) } : null;
    case "reasoning":
    case "thinking": {
      const summary = Array.isArray(b.summary)
        ? (b.summary as Block[]).map((s) => String(s.text ?? "")).join("\n\n")
        : "";
      const text = String(b.reasoning ?? b.thinking ?? summary);
      return text ? { kind: "reasoning", text } : null;
    }
    case "tool_use":
    case "tool_call":
    case "tool_call_chunk":
    case "input_json_delta":
    case "function_call":
      return null;
    case "image_url": {
      const url = b.image_url as string | { url?: string } | undefined;
      return { kind: "image", src: String(typeof url === "string" ? url : (url?.url ?? "")) };
    }
    case "image": {
      const source = b.source as Block | undefined;
      const data = b.data ?? b.base64 ?? (typeof source === "object" ? source?.data : undefined);
      const type =
        b.mime_type ?? b.mimeType ?? (typeof source === "object" ? source?.media_type : undefined) ?? "image/png";
      return {
        kind: "image",
        src: data
          ? `data:${String(type)};base64,${String(data)}`
          : String(b.url ?? (typeof source === "object" ? source?.url : undefined) ?? ""),
      };
    }
    default:
      return { kind: "other", value: b };
  }
}

export interface Attachment {
  name: string;
  src: string;
}

/** contentOf returns the content of a message with a text and images. */
export function contentOf(text: string, images: Attachment[]): unknown {
  if (images.length === 0) return text;
  return [
    ...(text ? [{ type: "text", text }] : []),
    ...images.map((i) => ({ type: "image_url", image_url: { url: i.src } })),
  ];
}

/** withText replaces the text of a content and keeps its other blocks. */
export function withText(content: unknown, text: string): unknown {
  if (!Array.isArray(content)) return text;
  return [{ type: "text", text }, ...(content as Block[]).filter((b) => typeof b === "object" && b.type !== "text")];
}

/** usageOf returns the token usage of a message. */
export function usageOf(message: Message): { input: number; output: number } | null {
  const u = (message as { usage_metadata?: { input_tokens?: number; output_tokens?: number } }).usage_metadata;
  return u && (u.input_tokens || u.output_tokens) ? { input: u.input_tokens ?? 0, output: u.output_tokens ?? 0 } : null;
}
