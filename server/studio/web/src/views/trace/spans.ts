// A trace is a list of spans: nodes, subgraphs, and their model and tool calls.
import type { Message } from "@langchain/langgraph-sdk";
import { isMessage } from "../../data/messages";
import { costOf, priceOf } from "../../data/prices";
import { triesOf } from "../../data/events";
import type { Session } from "../../data/thread";
import type { RecordedSpan } from "../../data/recorded";
import { idOf, parentOf } from "../../data/tree";
import type { Retry, SessionState, Step, StreamedMessage, TaskRun, Values } from "../../data/types";
import { metaOf, sourceOf } from "../timeline/step";

export type SpanKind = "node" | "graph" | "model" | "tool" | "retriever" | "retry";
export type SpanStatus = "running" | "done" | "error" | "interrupted" | "stopped";

export interface Span {
  id: string;
  kind: SpanKind;
  name: string;
  depth: number;
  /** Milliseconds since 1970. */
  start: number;
  /** null means that it is still running. */
  end: number | null;
  status: SpanStatus;
  attempt: number;
  input?: unknown;
  output?: unknown;
  error?: string;
  /** When the first token arrived. */
  first?: number;
  /** The saved checkpoints contain the start and end of the surrounding step, not of this call. */
  rough?: boolean;
  model?: string;
  ns: string;
  /** The call as the server recorded it. Without it, a model or tool call comes from a message of the state. */
  record?: RecordedSpan;
  /** The ID of the call from a message that this recorded call replaced. */
  said?: string;
}

/** spanOfId returns the span with an ID, even if a recorded call has replaced it since. */
export const spanOfId = (spans: Span[], id: string | null): Span | undefined =>
  id === null ? undefined : spans.find((s) => s.id === id || s.said === id);

export interface Usage {
  input: number;
  output: number;
  total: number;
  /** In US dollars. */
  cost: number | null;
  /** The cost is computed from the price list, not reported by the provider. */
  computed: boolean;
}

/** messagesIn returns the messages of a node's result. Several writes of a key arrive as {$writes: […]}. */
export function messagesIn(result: unknown): Message[] {
  if (Array.isArray(result)) return result.flatMap(messagesIn);
  if (isMessage(result)) return [result];
  if (typeof result !== "object" || result === null) return [];
  return Object.values(result).flatMap((v) =>
    Array.isArray(v) ? v.flatMap(messagesIn) : isMessage(v) ? [v] : isWrites(v) ? messagesIn(v.$writes) : [],
  );
}

const isWrites = (v: unknown): v is { $writes: unknown } => typeof v === "object" && v !== null && "$writes" in v;

const numberOf = (...candidates: unknown[]): number | null =>
  candidates.find((c): c is number => typeof c === "number") ?? null;

/** usageOf returns the tokens and cost of a model call. Few providers report the cost, in different places. */
export function usageOf({ output: message, model, record }: Pick<Span, "output" | "model" | "record">): Usage | null {
  const m = message as { usage_metadata?: Values | null; response_metadata?: Values | null } | null | undefined;
  const u = record?.usage ?? m?.usage_metadata;
  const r = m?.response_metadata;
  const tokens = (r?.token_usage ?? r?.usage) as Values | undefined;
  const input = numberOf(u?.input_tokens, tokens?.prompt_tokens, tokens?.input_tokens) ?? 0;
  const output = numberOf(u?.output_tokens, tokens?.completion_tokens, tokens?.output_tokens) ?? 0;
  const told = numberOf(u?.total_cost, u?.cost, r?.total_cost, r?.cost, tokens?.total_cost, tokens?.cost);
  if (!u && !tokens && told === null) return null;
  const price = told === null ? priceOf(model) : undefined;
  const details = (u?.input_token_details ?? {}) as Values;
  const cost = price
    ? costOf(price, input, output, numberOf(details.cache_read) ?? 0, numberOf(details.cache_creation) ?? 0)
    : told;
  return {
    input,
    output,
    total: numberOf(u?.total_tokens, tokens?.total_tokens) ?? input + output,
    cost,
    computed: price !== undefined,
  };
}

/** dollars formats a cost. */
export const dollars = (cost: number): string =>
  "$" +
  (cost === 0
    ? "0"
    : cost >= 1
      ? cost.toFixed(2)
      : cost.toFixed(Math.min(8, Math.max(4, 1 - Math.floor(Math.log10(cost))))));

/** totalsOf sums up the model calls of a trace. */
export function totalsOf(spans: Span[]): { models: number; tools: number; tokens: number; cost: number | null } {
  const sum = { models: 0, tools: 0, tokens: 0, cost: null as number | null };
  for (const s of spans) {
    if (s.kind === "tool") sum.tools++;
    if (s.kind !== "model") continue;
    sum.models++;
    const u = usageOf(s);
    sum.tokens += u?.total ?? 0;
    if (u?.cost != null) sum.cost = (sum.cost ?? 0) + u.cost;
  }
  return sum;
}

function push<T>(lists: Map<string, T[]>, key: string, value: T) {
  const list = lists.get(key);
  if (list) list.push(value);
  else lists.set(key, [value]);
}

/** liveSpans returns the spans of the run that the session reads. */
export function liveSpans(state: SessionState): Span[] {
  const inside = new Map<string, TaskRun[]>();
  const known = new Set(state.tasks.map((t) => t.id));
  for (const t of state.tasks) {
    const around = t.ns.split("|").at(-1)?.split(":")[1] ?? "";
    const key = known.has(around) ? around : "";
    push(inside, key, t);
  }
  const said = new Map<string, StreamedMessage[]>();
  for (const m of state.messages) {
    const task =
      (m.task && known.has(m.task) ? m.task : undefined) ??
      state.tasks.findLast((t) => t.name === m.node && t.ns === m.ns && t.started <= m.started)?.id ??
      "";
    push(said, task, m);
  }
  const out: Span[] = [];
  const add = (t: TaskRun, depth: number) => {
    const nested = inside.get(t.id) ?? [];
    const status = t.error ? "error" : t.interrupts.length > 0 ? "interrupted" : t.ended ? "done" : "running";
    out.push({
      id: t.id,
      kind: nested.length > 0 ? "graph" : "node",
      name: t.name,
      depth,
      start: t.started,
      end: t.ended ?? null,
      status,
      attempt: t.attempt,
      input: t.input,
      output: t.result ?? (t.interrupts.length > 0 ? t.interrupts : undefined),
      error: t.error,
      ns: t.ns,
    });
    out.push(...retrySpans(t.id, t.retries, depth + 1, t.ns, t.started));
    let from = t.started;
    for (const m of said.get(t.id) ?? []) {
      out.push(
        callSpan(m.message, t.id, depth + 1, {
          start: from,
          end: m.ended,
          first: m.started,
          input: t.input,
          model: m.model,
          ns: t.ns,
          status: t.ended || m.message.type !== "ai" ? "done" : status,
        }),
      );
      from = m.ended;
    }
    for (const n of nested) add(n, depth + 1);
  };
  for (const t of inside.get("") ?? []) add(t, 0);
  return out;
}

/**
 * retrySpans returns the failed attempts of a task. Its start is by the page's clock, which may differ from the
 * server's.
 */
export function retrySpans(task: string, retries: Retry[], depth: number, ns: string, began: number): Span[] {
  const first = retries[0] ? millis(retries[0].started_at) : 0;
  const time = (text: string) => began + millis(text) - first;
  return retries.map((r, i) => ({
    id: `${task} attempt ${i + 1}`,
    kind: "retry",
    name: `attempt ${i + 1}`,
    depth,
    start: time(r.started_at),
    end: time(r.ended_at),
    status: "error",
    attempt: i + 1,
    error: r.error,
    ns,
  }));
}

type Call = Pick<Span, "start" | "end" | "input" | "ns"> & Partial<Pick<Span, "first" | "model" | "rough" | "status">>;

/** stopped returns the spans of a canceled run. The error of a task that was canceled is the cancellation itself. */
export const stopped = (spans: Span[]): Span[] =>
  spans.map((s) =>
    s.status === "error" && s.kind !== "retry" && s.kind !== "tool" ? { ...s, status: "stopped", error: undefined } : s,
  );

/** callSpan returns the span of the model or tool call that produced a message. */
function callSpan(m: Message, task: string, depth: number, call: Call): Span {
  const rest = m as Message & { name?: string; tool_call_id?: string; status?: string; response_metadata?: Values };
  const tool = m.type === "tool";
  const model =
    call.model ??
    (rest.response_metadata?.model_name as string | undefined) ??
    (rest.response_metadata?.model as string | undefined);
  const input = tool ? argsOf(messagesIn(call.input), rest.tool_call_id) : messagesIn(call.input);
  const failed = tool && rest.status === "error";
  return {
    status: failed ? "error" : "done",
    ...call,
    id: task + " " + (m.id ?? rest.tool_call_id ?? m.type),
    kind: tool ? "tool" : "model",
    name: tool ? (rest.name ?? "tool") : (model ?? "model call"),
    depth,
    attempt: 1,
    input,
    output: m,
    model,
  };
}

/** argsOf returns the arguments of a tool call. */
function argsOf(messages: Message[], id: string | undefined): unknown {
  for (const m of messages.toReversed()) {
    const call = (m as { tool_calls?: { id?: string; args: unknown }[] }).tool_calls?.find((c) => c.id === id);
    if (call) return call.args;
  }
  return undefined;
}

export interface StoredRun {
  id: string;
  /** Oldest first. */
  steps: Step[];
}

/** runsOf groups steps, which are sorted newest first, by run. */
export function runsOf(steps: Step[]): StoredRun[] {
  const runs = new Map<string, Step[]>();
  for (const s of steps) {
    const id = metaOf(s).run_id;
    if (typeof id === "string") push(runs, id, s);
  }
  // If the server does not name the run, all steps form one trace.
  if (runs.size === 0 && steps.length > 0) runs.set("", steps);
  return [...runs].map(([id, s]) => ({ id, steps: s.toReversed() }));
}

/** timeOf returns the time at which a step was saved. */
const timeOf = (s: Step): number => (s.created_at ? millis(s.created_at) : 0);

/** millis parses a time in fractional milliseconds. A Date has only whole ones, and many steps are faster. */
export function millis(time: string): number {
  const micros = /\.\d{3}(\d{1,6})/.exec(time)?.[1];
  return new Date(time).getTime() + (micros ? Number("0." + micros) : 0);
}

/** Deeper graphs are not read. */
const deepest = 5;

/** fromOf returns the steps from which a run went on, oldest first: its own, and those before them. */
function fromOf(steps: Step[], all: Step[]): Step[] {
  const byId = new Map(all.map((s) => [idOf(s), s]));
  return [...new Set([...steps.flatMap((s) => byId.get(parentOf(s)) ?? []), ...steps])].sort((a, b) =>
    idOf(a) < idOf(b) ? -1 : 1,
  );
}

/** loaderOf loads the subgraphs of a run together, and returns a function that returns the checkpoints of each. */
export async function loaderOf(session: Pick<Session, "nested" | "subgraphs">, steps: Step[], all: Step[]) {
  const namespaces = fromOf(steps, all).flatMap((s) =>
    (s.tasks ?? []).flatMap((t) => t.checkpoint?.checkpoint_ns ?? []),
  );
  const loaded = await session.subgraphs([...new Set(namespaces)]);
  return { nested: (ns: string) => session.nested(ns, loaded[ns]) };
}

/**
 * storedSpans returns the spans of a run from its checkpoints. steps are oldest first; all contains the thread's steps,
 * and began is the start of the run.
 */
export async function storedSpans(
  session: Pick<Session, "nested">,
  run: string,
  steps: Step[],
  all: Step[],
  began: number,
  depth = 0,
): Promise<Span[]> {
  const next = new Map<string, Step>();
  for (const s of steps) if (sourceOf(s) === "loop" || sourceOf(s) === "") next.set(parentOf(s), s);
  const from = fromOf(steps, all);
  const own = new Set(steps);
  const out: Span[] = [];
  for (const before of from) {
    const after = next.get(idOf(before));
    const mine = own.has(before);
    for (const t of before.tasks ?? []) {
      if (t.name === "__start__" || (!after && (!mine || (!t.error && t.interrupts.length === 0)))) continue;
      const start = Math.max(timeOf(before), began);
      const end = Math.max(start, after ? timeOf(after) : start);
      const ns = before.checkpoint?.checkpoint_ns ?? "";
      const nested = t.checkpoint?.checkpoint_ns;
      const result = (t as { result?: unknown }).result;
      const { attempt, retries } = triesOf(t, Number(metaOf(before).run_attempt ?? 1));
      const span: Span = {
        id: t.id,
        kind: nested ? "graph" : "node",
        name: t.name,
        depth,
        start,
        end,
        status: t.error ? "error" : after ? "done" : "interrupted",
        attempt,
        input: before.values,
        output: result ?? (t.interrupts.length > 0 ? t.interrupts : undefined),
        error: t.error ? textOfError(t.error) : undefined,
        ns,
      };
      const tried = retrySpans(t.id, retries, depth + 1, ns, start);
      out.push(span, ...tried);
      const inner = nested && depth < deepest ? (await session.nested(nested)).toReversed() : [];
      const innerSpans =
        inner.length > 0
          ? await storedSpans(
              session,
              run,
              inner.filter((s) => !run || metaOf(s).run_id === run),
              inner,
              start,
              depth + 1,
            )
          : [];
      out.push(...innerSpans);
      // An interrupt in a subgraph is timed by its last checkpoint, and a failure by the last retry.
      if (!after) span.end = Math.max(end, ...[...tried, ...innerSpans].map((s) => s.end ?? s.start));
      if (inner.length === 0)
        for (const m of messagesIn(result))
          if (m.type === "ai" || m.type === "tool")
            out.push(callSpan(m, t.id, depth + 1, { start, end, input: before.values, rough: true, ns }));
    }
  }
  return out;
}

function textOfError(err: unknown): string {
  return typeof err === "string" ? err : String((err as { message?: string }).message ?? JSON.stringify(err));
}
