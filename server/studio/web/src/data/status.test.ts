import { describe, expect, test } from "vitest";
import { statusOf, statusOfSession, type Facts, type Status } from "./status";
import type { RunPhase, Step } from "./types";

type Task = { error?: unknown; interrupts?: unknown[] };

const head = (next: string[], ...tasks: Task[]) => ({ next, tasks, metadata: { source: "loop", run_id: "r" } });
const end = head([]);
const bad = { error: "no" };
const ask = { interrupts: [{ id: "i" }] };
const run = (status: string) => ({ id: "r", status, started: 1_000 });
const thread = (status: string, ...interrupts: unknown[]): Facts["thread"] => ({
  status,
  interrupts: interrupts.length ? { t: interrupts } : {},
});
const edited = (...tasks: Task[]) => ({
  ...head(["n"], ...tasks),
  metadata: { source: "update" },
  created_at: new Date(2_000).toISOString(),
});

describe("statusOf", () => {
  test.each<[string, Facts, Status | null]>([
    ["nothing", {}, null],
    ["a new thread", { thread: thread("idle") }, "done"],
    ["a queued run", { thread: thread("busy"), run: run("pending"), head: end }, "queued"],
    ["a running run", { thread: thread("busy"), run: run("running"), head: head(["n"]) }, "running"],
    ["a busy thread", { thread: thread("busy") }, "running"],
    ["a run after an answer", { thread: thread("busy"), run: run("running"), head: head(["n"], ask) }, "running"],
    ["a finished run", { thread: thread("idle"), run: run("success"), head: end }, "done"],
    ["a failed run", { thread: thread("error"), run: run("error"), head: head(["n"], bad) }, "failed"],
    ["a run that failed before its first checkpoint", { thread: thread("error"), run: run("error") }, "failed"],
    ["a run that took too long", { thread: thread("error"), run: run("timeout"), head: head(["n"]) }, "failed"],
    ["a run that failed next to a question", { run: run("error"), head: head(["n"], bad, ask) }, "failed"],
    ["a canceled run", { thread: thread("interrupted"), run: run("interrupted"), head: head(["n"], bad) }, "stopped"],
    ["a canceled run that was queued", { thread: thread("idle"), run: run("interrupted"), head: end }, "stopped"],
    ["a pause", { thread: thread("interrupted"), run: run("success"), head: head(["n"]) }, "stopped"],
    ["a question", { thread: thread("interrupted", 1), run: run("success"), head: head(["n"], ask) }, "asks"],
    ["a question of another server", { run: run("interrupted"), head: head(["n"], ask) }, "asks"],
    ["only a thread that failed", { thread: thread("error") }, "failed"],
    ["only a thread that asks", { thread: thread("interrupted", 1) }, "asks"],
    ["only a thread that stopped", { thread: thread("interrupted") }, "stopped"],
    ["only an interrupted thread without details", { thread: { status: "interrupted" } }, "asks"],
    ["only a checkpoint that failed", { head: head(["n"], bad) }, "failed"],
    ["only a checkpoint with work left", { head: head(["n"]) }, "stopped"],
    ["only a checkpoint that asks", { head: head(["n"], ask) }, "asks"],
    ["a checkpoint that sleeps", { head: head(["n"], { interrupts: [{ id: "1", kind: "sleep" }] }) }, "stopped"],
    ["only the last checkpoint", { head: end }, "done"],
    ["a canceled thread without its run", { thread: thread("interrupted"), head: head(["n"], bad) }, "stopped"],
    ["only a run that failed", { run: run("error") }, "failed"],
    ["only a run that was canceled", { run: run("interrupted") }, "stopped"],
    ["only a run that finished", { run: run("success") }, "done"],
    ["an edit after a failed run", { thread: thread("error"), run: run("error"), head: edited() }, "stopped"],
    ["a run that failed after an edit", { run: { ...run("error"), started: 3_000 }, head: edited() }, "failed"],
  ])("%s", (_, facts, want) => expect(statusOf(facts)).toBe(want));
});

describe("the status of a session follows its run", () => {
  test.each<[RunPhase, Status]>([
    ["starting", "running"],
    ["looking", "running"],
    ["queued", "queued"],
    ["running", "running"],
    ["reconnecting", "running"],
    ["success", "done"],
    ["error", "failed"],
    ["interrupted", "stopped"],
    ["cancelled", "stopped"],
  ])("%s", (phase, want) => {
    const state = {
      run: { id: "r", assistant: "a", phase, started: 1 },
      steps: [end as unknown as Step],
      thread: null,
    };
    expect(statusOfSession(state)).toBe(want);
  });
});
