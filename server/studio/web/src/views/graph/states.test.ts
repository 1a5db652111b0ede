import { expect, test } from "vitest";
import type { RunPhase, SessionState, Step } from "../../data/types";
import { sentence, statesOf } from "./states";

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)).toISOString();
const ms = (seconds: number) => Date.parse(at(seconds));

const task = (name: string, more: object = {}) => ({ id: name, name, interrupts: [], error: null, ...more });

/** steps returns checkpoints newest first, one second apart, each with the tasks that it schedules. */
const steps = (...scheduled: object[][]): Step[] =>
  scheduled
    .map(
      (tasks, i) =>
        ({
          checkpoint: { checkpoint_id: String(i).padStart(3, "0") },
          parent_checkpoint: i ? { checkpoint_id: String(i - 1).padStart(3, "0") } : null,
          created_at: at(i),
          values: {},
          next: (tasks as { name: string }[]).map((t) => t.name),
          tasks,
          metadata: { source: i ? "loop" : "input", run_id: "r" },
        }) as unknown as Step,
    )
    .reverse();

const words = (phase: RunPhase, saved: Step[], more: Partial<SessionState> = {}) => {
  const run = { id: "r", assistant: "a", phase, started: ms(0) };
  const states = statesOf({ tasks: [], steps: saved, run, thread: null, hasMore: false, ...more }, undefined);
  return [...states].map(([id, s]) => `${id}: ${sentence(s)}`);
};

const start = [task("__start__")];

test("a finished run is shown from its checkpoints", () => {
  expect(words("success", steps(start, [task("plan")], [task("work"), task("work", { id: "2" })], []))).toEqual([
    "plan: done, 1.0 s",
    "work: done, 2 of 2 tasks, 1.0 s",
  ]);
});

test("visits are counted", () => {
  expect(words("success", steps(start, [task("tick")], [task("tick")], [task("tick")], []))).toEqual([
    "tick: done, 1.0 s, 3 times",
  ]);
});

test("visits are not counted if the start of the run is not loaded", () => {
  const loaded = steps(start, [task("tick")], [task("tick")], [task("tick")], []).slice(0, 3);
  expect(words("success", loaded, { hasMore: true })).toEqual(["tick: done, 1.0 s"]);
});

test("the tasks of the newest checkpoint run", () => {
  expect(words("running", steps(start, [task("tick")], [task("tick")]))).toEqual(["tick: running, 2 times"]);
  expect(words("queued", steps(start, [task("tick")], [task("tick")]))).toEqual(["tick: done, 1.0 s"]);
});

test("the error of a canceled task is not a failure", () => {
  const saved = steps(start, [task("plan")], [task("work", { error: "run canceled" })]);
  expect(words("interrupted", saved)).toEqual(["plan: done, 1.0 s", "work: stopped"]);
  expect(words("error", saved)).toEqual(["plan: done, 1.0 s", "work: failed, run canceled"]);
});

test("a failed task counts as a visit", () => {
  const saved = steps(start, [task("tick")], [task("tick", { error: "no" })]);
  expect(words("error", saved)).toEqual(["tick: failed, 2 times, no"]);
});

test("a wait before the run does not count as time of a node", () => {
  const saved = steps(start, [task("ask", { interrupts: [{ id: "i", value: "?" }] })], []);
  const run = { id: "r", assistant: "a", phase: "success" as const, started: ms(1) + 900 };
  expect(words("success", saved, { run })).toEqual(["ask: done, 100 ms"]);
});

test("tasks of the stream are shown in place of checkpoints", () => {
  const tasks = [
    {
      id: "1",
      name: "live",
      ns: "",
      interrupts: [],
      result: {},
      started: 0,
      ended: 7,
      attempt: 1,
      retries: [],
      step: 1,
    },
  ];
  expect(words("success", steps(start, [task("plan")], []), { tasks })).toEqual(["live: done, 7 ms"]);
});
