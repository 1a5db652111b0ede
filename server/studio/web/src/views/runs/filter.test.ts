import { expect, test } from "vitest";
import type { FoundRun } from "../../data/types";
import { listed, matches, queryOf, statusOfRun, type RunFilter } from "./filter";

const found = (status: FoundRun["status"], latest = true, thread: Partial<FoundRun["thread"]> = {}): FoundRun => ({
  run_id: "r",
  thread_id: "t",
  assistant_id: "a",
  graph_id: "g",
  metadata: null,
  status,
  created_at: "2026-01-02T00:00:00Z",
  updated_at: "2026-01-02T00:00:09Z",
  started_at: null,
  ended_at: "2026-01-02T00:00:03Z",
  error: null,
  latest,
  thread: { title: "T", status: "idle", needs_answer: false, ...thread },
});
const all: RunFilter = { status: "", graph: "", assistant: "", since: "", error: "" };
const waits = { status: "interrupted", needs_answer: true };

test.each([
  ["a run that finished", found("success"), "done"],
  ["the newest run of a thread that waits", found("success", true, waits), "asks"],
  ["an older run of a thread that waits", found("success", false, waits), "done"],
  ["the newest run of a paused thread", found("success", true, { status: "interrupted" }), "stopped"],
  ["a canceled run", found("interrupted", false), "stopped"],
  ["a run that took too long", found("timeout"), "failed"],
  ["a run that waits for another", found("pending", true, { status: "busy" }), "queued"],
])("the status of %s", (_, run, want) => {
  const r = listed(run);
  expect(statusOfRun(r)).toBe(want);
  // What the filter keeps is among what the server is asked for.
  const { status } = queryOf({ ...all, status: want as RunFilter["status"] }) as { status: string[] };
  expect(status).toContain(run.status);
  expect(matches(r, { ...all, status: want as RunFilter["status"] })).toBe(true);
});

test("a run is filtered by its graph, assistant, and time", () => {
  const r = listed(found("success"));
  expect(matches(r, { ...all, graph: "g", assistant: "a", since: "2026-01-02T00:00:00Z" })).toBe(true);
  for (const other of [{ graph: "h" }, { assistant: "b" }, { since: "2026-01-02T00:00:01Z" }])
    expect(matches(r, { ...all, ...other })).toBe(false);
});

test("a query omits empty conditions", () => {
  expect(queryOf(all)).toEqual({});
  expect(queryOf({ ...all, status: "failed", graph: "g", error: "no quota" })).toEqual({
    status: ["error", "timeout"],
    graph_id: "g",
    error: "no quota",
  });
});

test("a found run lasts until its end and has the reason of its failure", () => {
  const r = listed({ ...found("error"), error: { error: "NodeError", message: "no quota" } });
  expect([r.run.updated_at, r.reason]).toEqual(["2026-01-02T00:00:03Z", "no quota"]);
});
