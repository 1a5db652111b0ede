import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Collected } from "./events";

beforeEach(() => vi.useFakeTimers({ now: 1_000 }));
afterEach(() => vi.useRealTimers());

const start = (id: string, name = id) => ({ event: "tasks", data: { id, name, input: { n: 1 }, triggers: [] } });
const end = (id: string, more: object = {}) => ({ event: "tasks", data: { id, name: id, result: {}, ...more } });

function collected(...events: { event: string; data: unknown }[]) {
  const c = new Collected();
  return { c, effects: events.map((e) => c.apply(e)) };
}

test("events for the session are returned", () => {
  const checkpoint = { checkpoint_id: "c", thread_id: "t", checkpoint_ns: "" };
  const { c, effects } = collected(
    { event: "metadata", data: { run_id: "r" } },
    { event: "values", data: { n: 1 } },
    { event: "values|inner:1", data: { n: 2 } },
    { event: "checkpoints", data: { config: { configurable: checkpoint }, values: { n: 1 }, next: ["a"] } },
    { event: "checkpoints|inner:1", data: { checkpoint } },
    { event: "checkpoints", data: {} },
    { event: "error", data: { error: "ValueError", message: "boom" } },
    { event: "unknown", data: {} },
  );
  expect(effects).toMatchObject([
    { kind: "run", id: "r" },
    { kind: "values", values: { n: 1 } },
    null,
    { kind: "step", step: { checkpoint, next: ["a"], values: { n: 1 }, tasks: [] } },
    null,
    null,
    { kind: "error", text: "boom" },
    null,
  ]);
  expect(c.isEmpty).toBe(true);
});

test("tasks that start before one ends are one step, and later ones the next", () => {
  const { c } = collected(start("a"), start("b"), end("a"), start("c"), { ...start("d"), event: "tasks|a:1" });
  expect(c.parts().tasks.map((t) => [t.id, t.ns, t.step])).toEqual([
    ["a", "", 1],
    ["b", "", 1],
    ["c", "", 2],
    ["d", "a:1", 1],
  ]);
});

test("a task that starts again is another attempt, unless the server counts them", () => {
  const retries = [{ error: "no", started_at: "", ended_at: "" }];
  const { c } = collected(start("a"), start("a"), start("b"), end("b", { attempts: 3, retries }));
  expect(c.parts().tasks).toMatchObject([{ attempt: 2 }, { attempt: 3, retries }]);
});

test("a task ends with its result, error, or interrupts", () => {
  const { c } = collected(start("a"), start("b"), start("c"));
  vi.setSystemTime(2_000);
  c.apply(end("a", { result: { n: 2 } }));
  c.apply(end("b", { error: { message: "boom" } }));
  c.apply(end("c", { interrupts: [{ id: "i" }] }));
  expect(c.parts().tasks).toMatchObject([
    { result: { n: 2 }, started: 1_000, ended: 2_000, input: { n: 1 } },
    { error: "boom" },
    { interrupts: [{ id: "i" }] },
  ]);
});

test("tasks whose end was not reported end with the run", () => {
  const { c } = collected(start("a"), end("b"));
  vi.setSystemTime(5_000);
  c.end();
  expect(c.parts().tasks.map((t) => t.ended)).toEqual([5_000, 1_000]);
});

test("chunks add up to messages, with the task that called the model", () => {
  const meta = { langgraph_node: "model", langgraph_checkpoint_ns: "outer:1|model:2", ls_model_name: "m" };
  const chunk = (content: string) => ({
    event: "messages|outer:1",
    data: [{ type: "AIMessageChunk", id: "x", content }, meta],
  });
  const { c } = collected(chunk("Hel"), chunk("lo"), {
    event: "messages",
    data: [{ type: "ai", content: "no ID" }, {}],
  });
  expect(c.parts().messages).toMatchObject([
    { message: { content: "Hello" }, node: "model", ns: "outer:1", task: "2", chunks: 2, model: "m" },
  ]);
});

test("custom events are kept in order, with the graph that sent them", () => {
  const { c } = collected({ event: "custom", data: 1 }, { event: "custom|a:1", data: 2 });
  expect(c.parts().custom).toMatchObject([
    { ns: "", data: 1 },
    { ns: "a:1", data: 2 },
  ]);
});
