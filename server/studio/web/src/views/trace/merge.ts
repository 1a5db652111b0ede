// Adds the calls that the server recorded to a trace from checkpoints or from a stream.
import type { RecordedSpan, Recording } from "../../data/recorded";
import { millis, retrySpans, type Span, type SpanStatus } from "./spans";

interface Node {
  span: Span;
  inside: Node[];
}

const statuses: Record<RecordedSpan["status"], SpanStatus> = {
  running: "running",
  success: "done",
  error: "error",
  interrupted: "interrupted",
  canceled: "stopped",
  unfinished: "stopped",
};

/**
 * withRecorded returns spans with the recorded calls, which replace the calls that come from messages: tool calls by
 * their ID, and model calls by their task. In a live trace, the times of nodes are by this page's clock, so the
 * recorded times are moved to it.
 */
export function withRecorded(spans: Span[], recorded: RecordedSpan[], live = false): Span[] {
  if (recorded.length === 0) return spans;
  const roots = treeOf(spans);
  const tasks = new Map<string, Node>();
  each(roots, (n) => {
    if (n.span.kind === "node" || n.span.kind === "graph") tasks.set(n.span.id, n);
  });
  const taskOf = (r: RecordedSpan) => tasks.get(r.path.findLast((p) => tasks.has(p.task_id))?.task_id ?? "");
  const ahead = live ? aheadOf(recorded, taskOf) : 0;

  const calls = new Map<string, Node>();
  for (const r of recorded) calls.set(r.span_id, { span: spanOf(r, ahead), inside: attemptsOf(r, ahead) });
  replace(roots, recorded, calls, taskOf);
  const touched = new Set<Node[]>();
  for (const r of recorded) {
    const task = taskOf(r);
    const outer = r.parent_span_id ? calls.get(r.parent_span_id) : undefined;
    // A node of a graph that runs within a call is a better place than the call.
    const within = outer && taskOf(outer.span.record!) === task ? outer : task;
    const list = within?.inside ?? roots;
    list.push(calls.get(r.span_id)!);
    touched.add(list);
  }
  for (const list of touched) list.sort((a, b) => orderOf(a) - orderOf(b) || a.span.start - b.span.start);
  const out: Span[] = [];
  for (const root of roots) flatten(fitted(root), 0, out);
  return out;
}

/** Failed attempts come first. */
const orderOf = (n: Node) => (n.span.kind === "retry" ? 0 : 1);

/** treeOf returns the tree of spans that are in the order of a walk. */
function treeOf(spans: Span[]): Node[] {
  const roots: Node[] = [];
  const open: Node[] = [];
  for (const span of spans) {
    const node = { span, inside: [] };
    open.length = span.depth;
    (open.at(-1)?.inside ?? roots).push(node);
    open.push(node);
  }
  return roots;
}

function each(nodes: Node[], visit: (n: Node) => void) {
  for (const n of nodes) {
    visit(n);
    each(n.inside, visit);
  }
}

function flatten(n: Node, depth: number, out: Span[]) {
  out.push(n.span.depth === depth ? n.span : { ...n.span, depth });
  for (const c of n.inside) flatten(c, depth + 1, out);
}

/** fitted extends a node to the recorded calls in it, because checkpoints say only when a step was saved. */
function fitted(n: Node): Node {
  const inside = n.inside.map(fitted);
  const real = inside.filter((c) => c.span.record || c.span.kind === "node" || c.span.kind === "graph");
  if (n.span.record || real.length === 0) return { ...n, inside };
  const start = Math.min(n.span.start, ...real.map((c) => c.span.start));
  const end = n.span.end === null ? null : Math.max(n.span.end, ...real.map((c) => c.span.end ?? c.span.start));
  return { span: start === n.span.start && end === n.span.end ? n.span : { ...n.span, start, end }, inside };
}

function spanOf(r: RecordedSpan, ahead: number): Span {
  const start = millis(r.started_at) + ahead;
  const ended = r.ended_at ?? (r.status === "running" ? null : (r.attempts.at(-1)?.started_at ?? r.started_at));
  return {
    id: "span " + r.span_id,
    kind: r.kind,
    name: r.response_model || r.name || r.kind,
    depth: 0,
    start,
    end: ended === null ? null : millis(ended) + ahead,
    status: statuses[r.status] ?? "done",
    attempt: Math.max(1, r.attempts.length),
    error: r.error ? r.error.message || r.error.error : undefined,
    first: r.first_chunk_at ? millis(r.first_chunk_at) + ahead : undefined,
    model: r.kind === "model" ? r.response_model || (r.parameters?.model as string | undefined) || r.name : undefined,
    ns: r.checkpoint_ns,
    record: r,
  };
}

/** attemptsOf returns the failed attempts within a call. */
function attemptsOf(r: RecordedSpan, ahead: number): Node[] {
  const failed = r.attempts.slice(0, -1).map((a) => ({
    error: a.error ?? "",
    started_at: a.started_at,
    ended_at: a.ended_at ?? a.started_at,
  }));
  const began = millis(r.started_at) + ahead;
  return retrySpans("span " + r.span_id, failed, 0, r.checkpoint_ns, began).map((span) => ({ span, inside: [] }));
}

/**
 * replace removes the calls that come from messages and were recorded. A recorded model call keeps the message, which
 * is all that is known about its response while it streams or if the server stores no contents.
 */
function replace(
  roots: Node[],
  recorded: RecordedSpan[],
  calls: Map<string, Node>,
  taskOf: (r: RecordedSpan) => Node | undefined,
) {
  const tools = new Map(recorded.filter((r) => r.kind === "tool").map((r) => [r.tool_call_id, r]));
  const models = new Set(recorded.filter((r) => r.kind === "model").flatMap((r) => r.path.map((p) => p.task_id)));
  const direct = (n: Node) => recorded.filter((r) => r.kind === "model" && taskOf(r) === n);
  const clear = (n: Node) => {
    const said = models.has(n.span.id) ? n.inside.filter((c) => isSaid(c.span, "model")) : [];
    if (said.length > 0) {
      const made = direct(n);
      // A node may keep only its last responses.
      for (const [i, m] of said.entries()) {
        const r = made[made.length < said.length ? i : made.length - said.length + i];
        if (r) give(calls.get(r.span_id)!, m.span);
      }
    }
    n.inside = n.inside.filter((c) => {
      if (said.includes(c)) return false;
      const r = isSaid(c.span, "tool") ? tools.get(callOf(c.span)) : undefined;
      if (r) give(calls.get(r.span_id)!, c.span);
      return !r;
    });
  };
  each(roots, clear);
}

const isSaid = (s: Span, kind: "model" | "tool") => s.kind === kind && !s.record;

const callOf = (s: Span) => (s.output as { tool_call_id?: string } | undefined)?.tool_call_id ?? "";

function give(call: Node, { id, output }: Span) {
  call.span = { ...call.span, output, said: id };
}

/** aheadOf returns how far this page's clock, and the way to it, are ahead of the server's. */
function aheadOf(recorded: RecordedSpan[], taskOf: (r: RecordedSpan) => Node | undefined): number {
  // A call starts after its node, so the nearest one tells most.
  const gaps = recorded.flatMap((r) => {
    const task = taskOf(r);
    return task ? [task.span.start - millis(r.started_at)] : [];
  });
  return gaps.length > 0 ? Math.max(...gaps) : 0;
}

/** notesOf returns what a reader must know about the calls of a trace: which are missing, and what of them. */
export function notesOf(ours: boolean, recording: Recording | undefined, spans: Span[]): string[] {
  const calls = "Model and tool calls come from the messages of the state, without prompts and true times.";
  if (!ours) return [`This server does not record calls. ${calls}`];
  if (!recording) return [];
  const { omitted } = recording;
  if (recording.spans.length === 0 && omitted.spans === 0) {
    if (!recording.recording)
      return [`This server does not record calls: set Options.Spans, or start it with --spans. ${calls}`];
    return spans.some((s) => isSaid(s, "model"))
      ? [`No call of this run was recorded, or the record has expired. ${calls}`]
      : [];
  }
  const notes: string[] = [];
  const bare = recording.spans.filter((s) => !s.has_content).length;
  const these = bare === recording.spans.length ? "these calls" : count(bare, "call");
  if (bare > 0) notes.push(`The server stored neither inputs nor outputs of ${these}.`);
  if (recording.redacted) notes.push("The server redacts texts before it stores them.");
  const cut = recording.spans.filter((s) => s.cut?.length).length;
  if (cut > 0) notes.push(`The server's limits removed contents of ${count(cut, "call")}.`);
  if (omitted.spans > 0)
    notes.push(
      `The server did not record ${count(omitted.spans, "more call")}, because of its limit per run.`,
      "The totals lack them.",
    );
  return notes;
}

const count = (n: number, what: string) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;
