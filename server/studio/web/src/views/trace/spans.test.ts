import { describe, expect, test } from "vitest";
import type { SessionState, Step, TaskRun } from "../../data/types";
import { dollars, liveSpans, messagesIn, runsOf, storedSpans, totalsOf, usageOf, type Span } from "./spans";

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)).toISOString();
const ms = (seconds: number) => Date.UTC(2026, 0, 1, 0, 0, seconds);

const task = (name: string, more: object = {}) => ({ id: name, name, interrupts: [], error: null, ...more });

const step = (id: string, parent: string | null, seconds: number, tasks: object[], metadata: object = {}): Step =>
  ({
    checkpoint: { checkpoint_id: id, checkpoint_ns: "" },
    parent_checkpoint: parent ? { checkpoint_id: parent } : null,
    created_at: at(seconds),
    values: {},
    next: [],
    tasks,
    metadata: { source: "loop", run_id: "r", ...metadata },
  }) as unknown as Step;

const shown = (spans: Span[]) =>
  spans.map((s) => `${"  ".repeat(s.depth)}${s.kind} ${s.name} ${s.status} ${s.end! - s.start}`);

describe("stored spans", () => {
  const none = { nested: () => Promise.resolve([]) };

  test("a task lasts from its checkpoint to the next one", async () => {
    const steps = [
      step("1", null, 0, [task("__start__")], { source: "input" }),
      step("2", "1", 1, [task("one"), task("two")]),
      step("3", "2", 3, []),
    ];
    expect(shown(await storedSpans(none, "r", steps, steps, 0))).toEqual(["node one done 2000", "node two done 2000"]);
  });

  test("a run does not start before it was created", async () => {
    const steps = [step("1", null, 0, [task("one")], { run_id: "q" }), step("2", "1", 60, [])];
    expect(shown(await storedSpans(none, "r", steps.slice(1), steps, ms(58)))).toEqual(["node one done 2000"]);
  });

  test("failed and interrupted tasks end a run", async () => {
    const ask = task("ask", { interrupts: [{ id: "i", value: "?" }] });
    const steps = [step("1", null, 0, [task("bad", { error: "no\nway" }), ask, task("next")])];
    const spans = await storedSpans(none, "r", steps, steps, 0);
    expect(shown(spans)).toEqual(["node bad error 0", "node ask interrupted 0"]);
    expect(spans[0]!.error).toBe("no\nway");
  });

  test("a subgraph contains the spans of its checkpoints", async () => {
    const outer = [
      step("1", null, 0, [task("child", { checkpoint: { checkpoint_ns: "child:1" } })]),
      step("2", "1", 5, []),
    ];
    const inner = [step("b", "a", 4, []), step("a", null, 1, [task("inner")])];
    const nested = { nested: (ns: string) => Promise.resolve(ns === "child:1" ? inner : []) };
    expect(shown(await storedSpans(nested, "r", outer, outer, 0))).toEqual([
      "graph child done 5000",
      "  node inner done 3000",
    ]);
  });

  test("retries come before the last attempt", async () => {
    const retries = [{ error: "busy", started_at: at(10), ended_at: at(11) }];
    const steps = [step("1", null, 0, [task("call", { attempts: 2, retries })]), step("2", "1", 4, [])];
    expect(shown(await storedSpans(none, "r", steps, steps, 0))).toEqual([
      "node call done 4000",
      "  retry attempt 1 error 1000",
    ]);
  });

  test("model and tool calls come from the result of a task", async () => {
    const messages = [
      { type: "ai", id: "m", content: "", tool_calls: [{ id: "c", name: "add", args: {} }] },
      { type: "tool", id: "t", tool_call_id: "c", name: "add", content: "3", status: "error" },
    ];
    const steps = [step("1", null, 0, [task("agent", { result: { messages } })]), step("2", "1", 1, [])];
    expect(shown(await storedSpans(none, "r", steps, steps, 0))).toEqual([
      "node agent done 1000",
      "  model model call done 1000",
      "  tool add error 1000",
    ]);
  });
});

test("live spans nest tasks by their namespaces", () => {
  const live = (id: string, name: string, ns: string, more: Partial<TaskRun> = {}): TaskRun => ({
    id,
    name,
    ns,
    interrupts: [],
    started: 0,
    ended: 5,
    attempt: 1,
    retries: [],
    step: 1,
    ...more,
  });
  const tasks = [live("1", "child", ""), live("2", "inner", "child:1", { error: "no" }), live("3", "next", "")];
  expect(shown(liveSpans({ tasks, messages: [] as SessionState["messages"] } as SessionState))).toEqual([
    "graph child done 5",
    "  node inner error 5",
    "node next done 5",
  ]);
});

test("runsOf groups steps by run, oldest first", () => {
  const steps = [step("3", "2", 3, [], { run_id: "b" }), step("2", "1", 2, []), step("1", null, 1, [])];
  expect(runsOf(steps).map((r) => [r.id, r.steps.map((s) => s.checkpoint.checkpoint_id)])).toEqual([
    ["b", ["3"]],
    ["r", ["1", "2"]],
  ]);
  expect(runsOf([step("1", null, 1, [], { run_id: undefined })]).map((r) => r.id)).toEqual([""]);
});

test("messagesIn finds messages in results, lists, and several writes", () => {
  const m = { type: "ai", content: "x" };
  expect(
    [m, [m], { messages: [m] }, { messages: { $writes: [[m], m] } }, null, "x"].map((r) => messagesIn(r).length),
  ).toEqual([1, 1, 1, 2, 0, 0]);
});

test.each<[string, object, object | null]>([
  ["tokens", { usage_metadata: { input_tokens: 2, output_tokens: 3 } }, { input: 2, output: 3, total: 5, cost: null }],
  [
    "another provider's names and its cost",
    { response_metadata: { token_usage: { prompt_tokens: 2, completion_tokens: 3, total_tokens: 6, cost: 0.5 } } },
    { input: 2, output: 3, total: 6, cost: 0.5, computed: false },
  ],
  ["nothing", {}, null],
])("usageOf reads %s", (_, output, want) => {
  const usage = usageOf({ output, model: undefined });
  if (want) expect(usage).toMatchObject(want);
  else expect(usage).toBeNull();
});

test("totalsOf adds up model calls", () => {
  const call = (kind: Span["kind"], cost?: number) =>
    ({ kind, output: { usage_metadata: { total_tokens: 10, ...(cost ? { cost } : {}) } } }) as unknown as Span;
  expect(totalsOf([call("model", 1), call("model"), call("tool"), call("node")])).toEqual({
    models: 2,
    tools: 1,
    tokens: 20,
    cost: 1,
  });
});

test.each([
  [0, "$0"],
  [12.345, "$12.35"],
  [0.0123, "$0.0123"],
  [0.00000123, "$0.0000012"],
])("dollars formats %d", (cost, want) => expect(dollars(cost)).toBe(want));
