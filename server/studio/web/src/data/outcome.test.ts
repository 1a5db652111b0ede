import { afterEach, beforeEach, describe, expect, test, vi, type Mock } from "vitest";
import { endedRun, findRun, insist, mayHaveStarted } from "./outcome";
import type { NewestRun, RunState } from "./types";

beforeEach(() => {
  vi.stubGlobal("window", new EventTarget());
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const run = (id: string, status = "running") =>
  ({
    run_id: id,
    thread_id: "t",
    assistant_id: "a",
    status,
    created_at: "2026-01-01T00:00:00Z",
    updated_at: "2026-01-01T00:00:02Z",
    metadata: {},
  }) as NewestRun;
const away = () => new TypeError("Failed to fetch");
const failure = (status: number) => Object.assign(new Error(`HTTP ${status}: no`), { status });

/** answers returns a function that returns or throws these, one per call, and the last one from then on. */
const answers = <T>(...all: (T | Error)[]): Mock<() => Promise<T>> => {
  let at = 0;
  return vi.fn(() => {
    const answer = all[Math.min(at++, all.length - 1)];
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer as T);
  });
};

describe("findRun", () => {
  const find = async (newest: () => Promise<NewestRun | undefined>, isOver = () => false) => {
    const found = findRun({ newest, known: new Set(["old"]), isOver });
    await vi.runAllTimersAsync();
    return found;
  };

  test("finds the run whose ID was unknown, whatever the clocks say", async () => {
    expect(await find(answers(run("new")))).toMatchObject({ run_id: "new" });
  });
  test("finds a run that appears after a moment", async () => {
    expect(await find(answers(run("old"), undefined, failure(404), run("new")))).toMatchObject({ run_id: "new" });
  });
  test("waits for the server, however long it is away", async () => {
    const newest = answers<NewestRun | undefined>(...Array<Error>(50).fill(away()), failure(500), run("new"));
    expect(await find(newest)).toMatchObject({ run_id: "new" });
    expect(newest).toHaveBeenCalledTimes(52);
  });
  test("does not take a known run for the lost one", async () => {
    expect(await find(answers(run("old")))).toBe(null);
  });
  test("ends when the result is no longer needed", async () => {
    const newest = answers<NewestRun>(away());
    expect(await find(newest, () => newest.mock.calls.length > 2)).toBe(undefined);
  });
});

test("insist repeats only what got no response", async () => {
  const onAway = vi.fn();
  const o = { isOver: () => false, onAway };
  const got = insist(answers<string>(away(), failure(503), "here"), o);
  await vi.runAllTimersAsync();
  expect(await got).toBe("here");
  expect(onAway).toHaveBeenCalledTimes(2);
  await expect(insist(answers(failure(404)), o)).rejects.toThrow("HTTP 404");
  expect(await insist(answers("late"), { ...o, isOver: () => true })).toBe(undefined);
});

test.each<[number | undefined, boolean]>([
  [undefined, true],
  [502, true],
  [503, true],
  [504, true],
  [429, false],
  [409, false],
  [500, false],
])("mayHaveStarted after status %s", (status, want) =>
  expect(mayHaveStarted(status === undefined ? away() : failure(status))).toBe(want),
);

describe("endedRun", () => {
  const reason = () => Promise.resolve("boom");
  const shown = (phase: RunState["phase"]): RunState => ({ id: "r", assistant: "a", phase, started: 1 });

  test.each<[string, RunState["phase"] | null, RunState["phase"]]>([
    ["success", null, "success"],
    ["success", "cancelled", "success"],
    ["interrupted", "cancelled", "interrupted"],
    ["running", "cancelled", "cancelled"],
    ["error", "cancelled", "error"],
    ["timeout", null, "error"],
  ])("a run with status %s that the page shows as %s is %s", async (status, phase, want) => {
    const state = await endedRun({ reason }, run("r", status), undefined, phase && shown(phase));
    expect(state).toMatchObject({ id: "r", phase: want, ended: state.started + 2_000 });
  });
  test("a failed run has the reason of the stream, or else of the server", async () => {
    const failed = run("r", "error");
    expect(await endedRun({ reason }, failed, { message: "no paper" }, null)).toMatchObject({ error: "no paper" });
    expect(await endedRun({ reason }, failed, undefined, null)).toMatchObject({ error: "boom" });
    const none = () => Promise.reject(failure(500));
    expect(await endedRun({ reason: none }, failed, undefined, null)).toMatchObject({
      error: "Failed to load the reason: no",
    });
  });
});
