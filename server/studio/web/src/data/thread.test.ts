import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Client, StreamEvent } from "./client";
import { Session } from "./thread";
import { idOf } from "./tree";
import type { NewestRun, Step } from "./types";

beforeEach(() => {
  vi.stubGlobal("window", new EventTarget());
  vi.stubGlobal("document", { hidden: false });
  vi.stubGlobal("requestAnimationFrame", (publish: () => void) => setTimeout(publish, 16));
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const step = (n: number, ns = ""): Step =>
  ({
    values: { n },
    next: [],
    tasks: [],
    metadata: {},
    created_at: "2026-01-01T00:00:00Z",
    checkpoint: { checkpoint_id: String(1_000 + n), checkpoint_ns: ns, thread_id: "t" },
    parent_checkpoint: null,
  }) as unknown as Step;

const run = (id: string, status: string): NewestRun => ({
  run_id: id,
  thread_id: "t",
  assistant_id: "a",
  status: status as NewestRun["status"],
  created_at: "2026-01-01T00:00:00Z",
  updated_at: "2026-01-01T00:00:00Z",
  metadata: {},
});

/** session returns a session whose client has only the given methods. */
function session(thread: string | null, client: object) {
  const opened: string[] = [];
  return { s: new Session(client as unknown as Client, thread, (id) => opened.push(id)), opened };
}

async function* lost(): AsyncGenerator<StreamEvent> {
  await Promise.resolve();
  throw new TypeError("Failed to fetch");
}

test("all checkpoints of a subgraph are read", async () => {
  const all = Array.from({ length: 150 }, (_, i) => step(149 - i, "inner:1"));
  const asked: number[] = [];
  const { s } = session("t", {
    history(_: string, o: { limit: number; before?: { checkpoint_id: string }; ns: string }) {
      asked.push(o.limit);
      const from = o.before ? all.findIndex((s) => idOf(s) === o.before!.checkpoint_id) + 1 : 0;
      return Promise.resolve(all.slice(from, from + o.limit));
    },
  });
  expect(await s.nested("inner:1")).toEqual(all);
  expect(asked).toEqual([100, 500]);
  // What was loaded with other subgraphs is not loaded again.
  expect(await s.nested("inner:1", all.slice(0, 100))).toEqual(all);
  expect(await s.nested("inner:1", all.slice(140))).toEqual(all.slice(140));
  expect(asked).toEqual([100, 500, 500]);
});

describe("a run whose request got no response", () => {
  /** submit submits a run whose request is lost, and returns the phases that the page shows. */
  async function submit(thread: string | null, ...newest: NewestRun[]) {
    const first = newest.shift();
    let left = newest;
    const phases: string[] = [];
    const { s, opened } = session(thread, {
      newestRun: () => Promise.resolve(first && left.length > 1 ? left.shift() : (left[0] ?? first)),
      overview: () => Promise.resolve({ run: first ?? null, states: [step(1)], thread: { metadata: {} } }),
      history: () => Promise.resolve([step(1)]),
      run: () => Promise.resolve(run("new", "success")),
      stream: lost,
    });
    if (thread) {
      left = [];
      await s.load();
      left = newest;
    }
    s.subscribe(() => {
      const phase = s.getState().run?.phase;
      if (phase && phase !== phases.at(-1)) phases.push(phase);
    });
    const done = s.submit({ assistant: "a" }).catch((err: Error) => err.message);
    await vi.runAllTimersAsync();
    await done;
    return { phases, opened, s };
  }

  test("is found without ever being shown as failed, whatever the clock says", async () => {
    vi.setSystemTime("2030-01-01T00:00:00Z");
    const { phases, s } = await submit("t", run("old", "success"), run("old", "success"), run("new", "success"));
    expect(phases).toEqual(
      ["success", "starting", "looking", "running", "success"].slice(phases[0] === "success" ? 0 : 1),
    );
    expect(s.getState().run).toMatchObject({ id: "new" });
  });

  test("has failed if it has not started", async () => {
    const { phases } = await submit("t", run("old", "success"));
    expect(phases.slice(-3)).toEqual(["starting", "looking", "error"]);
  });
});

test("a thread that is loaded while a run is lost does not hide the run", async () => {
  const newest: ((run: NewestRun) => void)[] = [];
  const newestRun = () => new Promise<NewestRun>((resolve) => newest.push(resolve));
  const { s } = session("t", {
    newestRun,
    overview: async () => ({ run: await newestRun(), states: [step(1)], thread: null }),
    history: () => Promise.resolve([step(1)]),
    run: () => Promise.resolve(run("new", "success")),
    stream: lost,
  });
  const answer = async (...all: [string, string]) => {
    await vi.advanceTimersByTimeAsync(10_000);
    newest.pop()!(run(...all));
    await vi.advanceTimersByTimeAsync(0);
  };
  void s.load();
  const done = s.submit({ assistant: "a" });
  await vi.advanceTimersByTimeAsync(0);
  newest.shift()!(run("old", "success"));
  await vi.advanceTimersByTimeAsync(0);
  expect(s.getState()).toMatchObject({ status: "ready", run: { id: null, phase: "looking" } });
  await answer("old", "success");
  expect(s.getState().run?.phase).toBe("looking");
  await answer("new", "success");
  await done;
  expect(s.getState().run).toMatchObject({ id: "new", phase: "success" });
});

test("the first run creates the thread, whose ID is opened with the first event", async () => {
  const sent: string[] = [];
  const { s, opened } = session(null, {
    history: () => Promise.resolve([step(1)]),
    run: () => Promise.resolve(run("r", "success")),
    async *stream(thread: string): AsyncGenerator<StreamEvent> {
      sent.push(thread);
      expect(opened).toEqual([]);
      await Promise.resolve();
      yield { event: "metadata", data: { run_id: "r" } };
      expect(opened).toEqual([thread]);
    },
  });
  await s.submit({ assistant: "a" });
  expect(sent).toEqual(opened);
  expect(s.getState()).toMatchObject({ threadId: sent[0], status: "ready", run: { id: "r", phase: "success" } });
});

test("a rejected first run opens no thread", async () => {
  const { s, opened } = session(null, {
    stream: () => {
      throw Object.assign(new Error("HTTP 422: no"), { status: 422 });
    },
  });
  await s.submit({ assistant: "a" });
  expect(opened).toEqual([]);
  expect(s.getState()).toMatchObject({ threadId: null, run: { phase: "error", error: "no" } });
});
