import { expect, test } from "vitest";
import type { RecordedSpan } from "../../data/recorded";
import type { Step } from "../../data/types";
import { bodyOf, curl, goProgram, goTest, javascript, problemOf, python, recipeOf, type Recipe } from "./code";

const step = (id: string, parent: string | null, source: string, tasks: object[], values: object = {}): Step =>
  ({
    checkpoint: { checkpoint_id: id, checkpoint_ns: "" },
    parent_checkpoint: parent ? { checkpoint_id: parent } : null,
    values,
    next: [],
    tasks: tasks.map((t) => ({ interrupts: [], error: null, ...t })),
    metadata: { source },
  }) as unknown as Step;

const to = { url: "http://x", key: false, graph: "g" };
const base = { assistant_id: "a" };

const history = [
  step("1", null, "input", [{ name: "__start__", result: { n: 1 } }]),
  step("2", "1", "loop", [{ name: "ask", interrupts: [{ id: "i1", value: "?" }] }], { n: 1 }),
  step("3", "2", "loop", [], { n: 2 }),
];
// The node before "ask".
(history[0]!.tasks as object[]).push({ name: "first", interrupts: [], error: null });

test("a configuration that the server also stores as the context is sent once", () => {
  const body = (configurable: object, context: object | null) => {
    const { config, context: sent } = bodyOf("a", { input: null, config: { configurable }, context }, undefined, []);
    return { configurable: (config as { configurable?: object } | undefined)?.configurable, context: sent };
  };
  const own = { lang: "en", graph_id: "g" };
  expect(body(own, own)).toEqual({ configurable: { lang: "en" }, context: undefined });
  expect(body(own, null)).toEqual({ configurable: { lang: "en" }, context: undefined });
  expect(body({ graph_id: "g" }, { lang: "en" })).toEqual({ configurable: undefined, context: { lang: "en" } });
});

test("a first run is its input", () => {
  const r = recipeOf(to, { ...base, input: { n: 1 } }, history, history);
  expect(r).toEqual({ ...to, updates: [], runs: [{ ...base, input: { n: 1 } }], notes: [] });
});

test("a later input starts from the state before it", () => {
  const second = step("4", "3", "input", [], { n: 2 });
  const r = recipeOf(to, { ...base, input: { n: 5 } }, [second], [...history, second]);
  expect(r.updates).toEqual([{ values: { n: 2 }, as_node: "ask" }]);
  expect(r.runs).toEqual([{ ...base, input: { n: 5 } }]);
});

test("an answer follows the run that asks", () => {
  const body = { ...base, command: { resume: { i1: "yes" } } };
  const r = recipeOf(to, body, [history[2]!], history);
  expect(r.updates.map((u) => u.as_node)).toContain("first");
  expect(r.runs).toEqual([
    { ...base, input: null },
    { ...base, command: { resume: "yes" } },
  ]);
  expect(r.notes).toEqual([]);
});

test("a run from the checkpoint of an input repeats that input", () => {
  const r = recipeOf(to, { ...base, checkpoint_id: "1" }, [], history);
  expect([r.updates, r.runs]).toEqual([[], [{ ...base, input: { n: 1 } }]]);
});

test("an unknown start is noted", () => {
  expect(recipeOf(to, { ...base, checkpoint_id: "9" }, [], history).notes[0]).toMatch(/not loaded/);
});

const recipe: Recipe = {
  ...to,
  key: true,
  updates: [{ values: { "it's": "`" }, as_node: "n" }],
  runs: [
    { ...base, input: null },
    { ...base, command: { resume: true }, config: { tags: ["t"], recursion_limit: 5 } },
  ],
  notes: [],
};

test.each<[string, (r: Recipe) => string, string[]]>([
  ["curl", curl, [`"as_node": "n"`, `"it'\\''s"`, "$LANGGRAPH_API_KEY", "-o /dev/null"]],
  ["Go", goProgram, [`AsNode: "n"`, 'json.RawMessage("{\\"it\'s\\"', "Resume: json.RawMessage(`true`)", "os.Getenv"]],
  ["Python", python, ['"resume": True', 'graph_id="g"', "os.environ", "input=None"]],
  ["JavaScript", javascript, ["asNode", "graphId", "process.env", "recursion_limit"]],
])("%s repeats all requests", (_, of, parts) => {
  for (const part of parts) expect(of(recipe)).toContain(part);
});

const call = (more: object) =>
  ({ kind: "model", span_id: "s", status: "success", has_content: true, started_at: "1", ...more }) as RecordedSpan;

test("a test scripts the innermost model calls in their order", () => {
  const spans = [
    call({ span_id: "outer", output: { content: "not this" } }),
    call({ span_id: "b", started_at: "3", output: { content: "second" }, ended_at: "4" }),
    call({ span_id: "a", started_at: "1", parent_span_id: "outer", output: { content: "first" }, ended_at: "2" }),
    call({ span_id: "c", started_at: "5", status: "error", error: { message: "no" }, ended_at: "6" }),
    call({ span_id: "d", started_at: "7", output: { content: [{ type: "text" }] }, ended_at: "8" }),
  ];
  const text = goTest(recipe, { spans, values: { n: 1 }, next: ["x"], failed: true });
  const turns = /llmtest\.(Say|Fail|Turn)[^\n]*/g;
  expect(text.match(turns)).toEqual([
    "llmtest.Say(`first`),",
    "llmtest.Say(`second`),",
    'llmtest.Fail(errors.New("no")),',
    'llmtest.Turn{Message: message(t, `{"content":[{"type":"text"}]}`)},',
  ]);
  expect(text).toContain("the run did not fail");
  expect(text).toContain('strings.Join(state.Next, ", "), "x"');
});

test.each<[object, RegExp]>([
  [{ has_content: false }, /no responses/],
  [{ output: undefined }, /limits removed/],
  [{ output: {}, cut: [{ path: "output.content", bytes: 1 }] }, /limits removed/],
  [{ output: {}, status: "running" }, /Not all/],
  [{ output: {}, cut: [{ path: "input", bytes: 1 }] }, /^$/],
])("%j: a test needs the responses", (more, want) => expect(problemOf([call(more)])).toMatch(want));
