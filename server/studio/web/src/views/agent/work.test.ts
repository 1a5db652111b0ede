import { expect, test } from "vitest";
import type { Step } from "../../data/types";
import type { RecordedSpan } from "../../data/recorded";
import { delegatedOf, filesOf, hasWork, madeBy, runsOf, todosOf, versionsOf, type Made } from "./work";

const step = (files: unknown) => ({ values: { files } }) as unknown as Step;

test("files are text, lists of lines, or base64", () => {
  const files = {
    "/a": { content: "é\n", encoding: "utf-8" },
    "/b": { content: ["x", "y"] },
    "/c": { content: "AAE=", encoding: "base64" },
    "/d": "old",
    "/e": { content: 7 },
  };
  expect(filesOf({ files })).toEqual({
    "/a": { text: "é\n", bytes: 3 },
    "/b": { text: "x\ny", bytes: 3 },
    "/c": { text: null, bytes: 2 },
    "/d": { text: "old", bytes: 3 },
  });
});

test("a version is a checkpoint that changed the file", () => {
  const file = (content: string) => ({ "/a": { content } });
  const path = [step(undefined), step(file("1")), step(file("1")), step(file("2")), step({}), step(file("2"))];
  expect(versionsOf(path, "/a").map((v) => v.content?.text)).toEqual(["1", "2", undefined, "2"]);
});

test("an agent that has run a script has work, also without to-dos and files", () => {
  const calling = (name: string) => ({
    messages: [
      { type: "human", content: "Hi", id: "1" },
      { type: "ai", content: "", id: "2", tool_calls: [{ id: "a", name, args: {} }] },
    ],
  });
  expect(hasWork(calling("run_code"))).toBe(true);
  expect(hasWork(calling("search"))).toBe(false);
});

test("state of other agents has no work", () => {
  for (const values of [{}, { todos: "buy milk", files: null }, { todos: [], files: {} }, { files: ["a"] }])
    expect(hasWork(values)).toBe(false);
  expect(todosOf({ todos: ["milk", { content: "tea", status: "pending" }] })).toEqual([
    { content: "tea", status: "pending" },
  ]);
});

test("calls of sub-agents, commands, and scripts have their results", () => {
  const call = (id: string, name: string, args: unknown) => ({ id, name, args });
  const messages = [
    { type: "human", content: "go" },
    {
      type: "ai",
      content: "",
      tool_calls: [
        call("1", "task", { subagent_type: "reader", description: "read a" }),
        call("2", "execute", { command: "ls" }),
        call("3", "read_file", { path: "/a" }),
        call("4", "run_code", { code: "return 1" }),
      ],
    },
    { type: "tool", content: "found", tool_call_id: "1" },
    { type: "tool", content: "no", tool_call_id: "2", status: "error" },
  ];
  expect(delegatedOf({ messages })).toEqual([
    { id: "1", kind: "agent", name: "reader", asked: "read a", result: "found", failed: false },
    { id: "2", kind: "run", name: "execute", asked: "ls", result: "no", failed: true },
    { id: "4", kind: "run", name: "run_code", asked: "return 1", result: null, failed: false },
  ]);
});

const span = (id: string, parent: string | null, rest: Partial<RecordedSpan>) =>
  ({ span_id: id, parent_span_id: parent, kind: "tool", status: "success", name: "task", ...rest }) as RecordedSpan;

test("recorded calls are a tree", () => {
  const model = (id: string, parent: string | null, graph: string) =>
    span(id, parent, { kind: "model", name: "m", graph });
  const spans = [
    model("m0", null, "deep"),
    span("t1", null, { tool_call_id: "1" }),
    model("m1", "t1", "reader"),
    span("t2", "t1", { tool_call_id: "2", status: "error" }),
    model("m2", "t2", "clerk"),
    span("s", null, { name: "run_code", tool_call_id: "4" }),
    span("a", "s", { name: "ls" }),
  ];
  const shape = (m: Made | null): unknown => m && [m.span.span_id, m.agent, m.calls.map(shape)];
  expect(shape(madeBy(spans, "1"))).toEqual([
    "t1",
    "reader",
    [
      ["m1", undefined, []],
      ["t2", "clerk", [["m2", undefined, []]]],
    ],
  ]);
  expect(shape(madeBy(spans, "4"))).toEqual(["s", undefined, [["a", undefined, []]]]);
  expect(madeBy(spans, "none")).toBeNull();
});

test("a call belongs to the run of the first checkpoint that has it", () => {
  const messages = [{ type: "ai", content: "", tool_calls: [{ id: "1", name: "task", args: {} }] }];
  const at = (run: string, values: unknown) => ({ values, metadata: { run_id: run } }) as unknown as Step;
  const path = [at("a", {}), at("b", { messages }), at("c", { messages })];
  expect([...runsOf(path)]).toEqual([["1", "b"]]);
});
