import type { Message } from "@langchain/langgraph-sdk";
import { expect, test } from "vitest";
import { addChunk, isMessage, messagesKey, textOf } from "./messages";

type Chunk = Record<string, unknown>;

const joined = (...chunks: Chunk[]) =>
  chunks.reduce<Message | undefined>((m, c) => addChunk(m, { type: "AIMessageChunk", id: "m", ...c }), undefined)!;

test("chunks of text are joined", () => {
  expect(joined({ content: "Hel" }, { content: "" }, { content: "lo" })).toMatchObject({
    type: "ai",
    content: "Hello",
  });
});

test("blocks of the same kind and index grow", () => {
  const block = (type: string, index: number, text: string) => ({ content: [{ type, index, [type]: text }] });
  expect(
    joined(block("reasoning", 0, "I "), block("reasoning", 0, "think"), block("text", 1, "so"), block("text", 2, "!"))
      .content,
  ).toEqual([
    { type: "reasoning", index: 0, reasoning: "I think" },
    { type: "text", index: 1, text: "so" },
    { type: "text", index: 2, text: "!" },
  ]);
});

test("text that follows blocks becomes a block", () => {
  expect(
    joined({ content: [{ type: "image_url", image_url: "x" }] }, { content: "a" }, { content: "b" }).content,
  ).toEqual([
    { type: "image_url", image_url: "x" },
    { type: "text", text: "ab" },
  ]);
});

test("arguments of tool calls are joined by index and shown before they are complete", () => {
  const call = (index: number, c: Chunk) => ({ content: "", tool_call_chunks: [{ index, ...c }] });
  const begun = joined(call(0, { id: "a", name: "mail", args: '{"to":' }), call(1, { id: "b", name: "get", args: "" }));
  expect(begun).toMatchObject({
    tool_calls: [
      { id: "a", name: "mail", args: { "…": '{"to":' } },
      { id: "b", name: "get", args: {} },
    ],
  });
  expect(addChunk(begun, { type: "AIMessageChunk", ...call(0, { args: '"ada"}' }) })).toMatchObject({
    tool_calls: [{ id: "a", name: "mail", args: { to: "ada" } }, { id: "b" }],
  });
});

test("usage is kept, and a whole message replaces its chunks", () => {
  const m = joined({ content: "a", usage_metadata: { total_tokens: 3 } }, { content: "b" });
  expect(m).toMatchObject({ usage_metadata: { total_tokens: 3 } });
  expect(addChunk(m, { type: "ai", id: "m", content: "all" })).toEqual({ type: "ai", id: "m", content: "all" });
});

test.each([
  ["text", "text"],
  [["a", { type: "text", text: "b" }, { type: "image_url" }], "ab"],
  [null, ""],
  [{ x: 1 }, '{"x":1}'],
])("textOf reads %j", (content, want) => expect(textOf({ content: content as string })).toBe(want));

test.each([
  [{ type: "human", content: "" }, true],
  [{ type: "human" }, false],
  [{ type: "box", content: "" }, false],
  [null, false],
  ["human", false],
])("isMessage recognizes %j", (value, want) => expect(isMessage(value)).toBe(want));

test.each([
  [{ messages: [] }, "messages"],
  [{ log: [{ type: "ai", content: "x" }] }, "log"],
  [{ log: [], names: ["x"] }, null],
])("messagesKey of %j", (values, want) => expect(messagesKey(values)).toBe(want));
