import { describe, expect, test } from "vitest";
import type { RecordedSpan, Recording } from "../../data/recorded";
import { notesOf, withRecorded } from "./merge";
import { spanOfId, totalsOf, usageOf, type Span } from "./spans";

const at = (ms: number) => new Date(Date.UTC(2026, 0, 1) + ms).toISOString();
const ms = (n: number) => Date.UTC(2026, 0, 1) + n;

const span = (kind: Span["kind"], id: string, depth: number, start: number, end: number | null, more = {}): Span => ({
  id,
  kind,
  name: id,
  depth,
  start: ms(start),
  end: end === null ? null : ms(end),
  status: end === null ? "running" : "done",
  attempt: 1,
  ns: "",
  ...more,
});

const record = (kind: RecordedSpan["kind"], id: string, task: string, start: number, end: number, more = {}) =>
  ({
    span_id: id,
    parent_span_id: null,
    kind,
    name: id,
    status: "success",
    path: task.split(" ").map((t) => ({ node: t, task_id: t })),
    started_at: at(start),
    ended_at: at(end),
    first_chunk_at: null,
    attempts: [{ attempt: 1, started_at: at(start), ended_at: at(end), error: null }],
    checkpoint_ns: "",
    error: null,
    cut: [],
    has_content: true,
    ...more,
  }) as unknown as RecordedSpan;

const shown = (spans: Span[]) =>
  spans.map((s) => {
    const end = s.end === null ? "" : s.end - ms(0);
    return `${"  ".repeat(s.depth)}${s.kind} ${s.name} ${s.status} ${s.start - ms(0)}-${end}`;
  });

describe("recorded calls", () => {
  test("replace the calls that come from messages", () => {
    const spans = [
      span("node", "a", 0, 0, 10),
      span("model", "said", 1, 0, 10, { output: { type: "ai", content: "x" }, rough: true }),
      span("node", "b", 0, 10, 30),
      span("tool", "told", 1, 10, 30, { output: { type: "tool", tool_call_id: "c1" } }),
      span("tool", "kept", 1, 10, 30, { output: { type: "tool", tool_call_id: "c2" } }),
    ];
    const recorded = [
      record("model", "m", "a", 2, 9),
      record("tool", "t", "b", 12, 20, { tool_call_id: "c1", status: "error", error: { message: "no" } }),
    ];
    const got = withRecorded(spans, recorded);
    expect(shown(got)).toEqual([
      "node a done 0-10",
      "  model m done 2-9",
      "node b done 10-30",
      "  tool kept done 10-30",
      "  tool t error 12-20",
    ]);
    expect(got[1]!.output).toEqual({ type: "ai", content: "x" });
    expect(got[4]!.error).toBe("no");
  });

  test("are found by the ID of what they replace", () => {
    const spans = [span("node", "a", 0, 0, null), span("model", "said", 1, 0, null, { output: "so far" })];
    const got = withRecorded(spans, [record("model", "m", "a", 1, 2, { status: "running", ended_at: null })], true);
    expect([spanOfId(got, "said"), spanOfId(got, "span m")]).toEqual([got[1], got[1]]);
    expect(got[1]!.output).toBe("so far");
    expect(spanOfId(got, null)).toBeUndefined();
  });

  test("of which only the last response was kept replace that", () => {
    const spans = [span("node", "a", 0, 0, 10), span("model", "said", 1, 0, 10, { output: "last" })];
    const got = withRecorded(spans, [record("model", "m1", "a", 1, 2), record("model", "m2", "a", 3, 4)]);
    expect(got.map((s) => [s.name, s.output])).toEqual([
      ["a", undefined],
      ["m1", undefined],
      ["m2", "last"],
    ]);
  });

  test("extend their nodes, which checkpoints time only roughly", () => {
    const spans = [span("graph", "a", 0, 5, 5), span("node", "b", 1, 5, 5, { status: "error" })];
    expect(shown(withRecorded(spans, [record("model", "m", "a b", 4, 20)]))).toEqual([
      "graph a done 4-20",
      "  node b error 4-20",
      "    model m done 4-20",
    ]);
  });

  test("nest, and calls of unknown tasks are at the top, by time", () => {
    const spans = [span("node", "a", 0, 10, 20)];
    const recorded = [
      record("model", "early", "gone", 1, 2),
      record("tool", "t", "a", 11, 19),
      record("model", "m", "a inner", 12, 13, { parent_span_id: "t" }),
    ];
    expect(shown(withRecorded(spans, recorded))).toEqual([
      "model early done 1-2",
      "node a done 10-20",
      "  tool t done 11-19",
      "    model m done 12-13",
    ]);
  });

  test("contain their failed attempts", () => {
    const attempts = [
      { attempt: 1, started_at: at(1), ended_at: at(3), error: "busy" },
      { attempt: 2, started_at: at(4), ended_at: at(8), error: null },
    ];
    const got = withRecorded([span("node", "a", 0, 0, 9)], [record("model", "m", "a", 1, 8, { attempts })]);
    expect(shown(got)).toEqual(["node a done 0-9", "  model m done 1-8", "    retry attempt 1 error 1-3"]);
    expect([got[1]!.attempt, got[2]!.error]).toEqual([2, "busy"]);
  });

  test("move to the clock of a live trace", () => {
    const spans = [span("node", "a", 0, 1_000, 1_010), span("node", "b", 0, 1_010, null)];
    const recorded = [record("model", "m", "a", 2, 9), record("model", "n", "b", 11, 12, { status: "running" })];
    expect(shown(withRecorded(spans, recorded, true))).toEqual([
      "node a done 1000-1010",
      "  model m done 1001-1008",
      "node b running 1010-",
      "  model n running 1010-1011",
    ]);
  });

  test("of a dead process end with their last attempt", () => {
    const dead = record("model", "m", "a", 2, 9, { status: "unfinished", ended_at: null });
    expect(shown(withRecorded([span("node", "a", 0, 0, 10)], [dead]))).toContain("  model m stopped 2-2");
  });

  test("have the usage that the server stores", () => {
    const usage = { input_tokens: 2, output_tokens: 3, total_tokens: 5 };
    const spans = withRecorded([], [record("model", "m", "a", 1, 2, { usage }), record("tool", "t", "a", 1, 2)]);
    expect(usageOf(spans[0]!)).toMatchObject({ input: 2, output: 3, total: 5 });
    expect(totalsOf(spans)).toEqual({ models: 1, tools: 1, tokens: 5, cost: null });
  });
});

describe("notes", () => {
  const of = (spans: RecordedSpan[], more: Partial<Recording> = {}): Recording => ({
    spans,
    recording: true,
    redacted: false,
    omitted: { spans: 0, bytes: 0 },
    ...more,
  });
  const said = [span("model", "said", 0, 0, 1)];
  const call = record("model", "m", "a", 1, 2);

  test.each<[string, string[], RegExp | null]>([
    ["another server", notesOf(false, undefined, said), /^This server does not record calls\. Model/],
    ["no recording", notesOf(true, of([], { recording: false }), said), /set Options\.Spans/],
    ["an old run", notesOf(true, of([]), said), /has expired/],
    ["a run without calls", notesOf(true, of([]), []), null],
    ["a recorded run", notesOf(true, of([call]), said), null],
    ["no content", notesOf(true, of([{ ...call, has_content: false }]), []), /nor outputs of these calls/],
    ["some content", notesOf(true, of([call, { ...call, has_content: false }]), []), /nor outputs of 1 call\./],
    ["redacted", notesOf(true, of([call], { redacted: true }), []), /redacts texts/],
    ["cut", notesOf(true, of([{ ...call, cut: [{ path: "input", bytes: 9 }] }]), []), /contents of 1 call\./],
    ["omitted", notesOf(true, of([call], { omitted: { spans: 2, bytes: 0 } }), []), /2 more calls.* lack them/],
  ])("tell of %s", (_, notes, want) => {
    if (want) expect(notes.join(" ")).toMatch(want);
    else expect(notes).toEqual([]);
  });
});
