// A Session is a thread and what happens in it: its checkpoints, and the run that
// goes on. Views read its state and call its methods; none of them talks to a
// thread's API itself.
import type { Client } from "@langchain/langgraph-sdk/client";
import type { Checkpoint, Run } from "@langchain/langgraph-sdk";
import { createContext, useContext, useEffect, useState, useSyncExternalStore, type ReactNode } from "react";
import { useConnection } from "../app/connection";
import { go, useLocation } from "../app/location";
import { addChunk } from "./messages";
import { idOf } from "./tree";
import { isRunning, type OpenQuestion, type Retry, type RunOptions, type RunPhase, type SessionState, type Step, type StreamedMessage, type TaskRun, type Values } from "./types";

const modes = ["values", "messages-tuple", "tasks", "checkpoints", "custom"] as const;

interface StreamEvent {
  id?: string;
  event: string;
  data: unknown;
}

type Json = Record<string, unknown>;

/** How often a lost connection is tried again, and what is waited for in between. */
const retries = [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000, 8_000];

function emptyState(threadId: string | null): SessionState {
  return { threadId, status: threadId ? "loading" : "empty", metadata: {}, steps: [], hasMore: false, values: {}, tasks: [], messages: [], custom: [], questions: [], run: null };
}

export class Session {
  private state: SessionState;
  private listeners = new Set<() => void>();
  private frame = 0;
  private steps = new Map<string, Step>();
  private newestFirst: Step[] | null = null;
  private tasks = new Map<string, TaskRun>();
  private messages = new Map<string, StreamedMessage>();
  /** The newest step of each graph that the run is in, by its namespace. */
  private newest = new Map<string, { step: number; ending: boolean }>();
  private reading: AbortController | null = null;
  private closed = false;
  private pageSize = 30;

  constructor(
    private client: Client,
    threadId: string | null,
  ) {
    this.state = emptyState(threadId);
  }

  get threadId() {
    return this.state.threadId;
  }

  subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  getState = () => this.state;

  /** change sets parts of the state and tells the views. */
  private change(to: Partial<SessionState>) {
    this.state = { ...this.state, ...to };
    for (const listener of this.listeners) listener();
  }

  /** soon publishes what events have collected, once per frame at most. */
  private soon() {
    if (this.frame) return;
    const publish = () => {
      this.frame = 0;
      if (!this.closed) this.change({ tasks: [...this.tasks.values()], messages: [...this.messages.values()], steps: this.sorted() });
    };
    this.frame = document.hidden ? window.setTimeout(publish, 100) : requestAnimationFrame(publish);
  }

  private setStep(s: Step) {
    this.steps.set(idOf(s), s);
    this.newestFirst = null;
  }

  /** sorted is the same list until a step changes, so that views need not look again. */
  private sorted(): Step[] {
    return (this.newestFirst ??= [...this.steps.values()].sort((a, b) => (idOf(a) < idOf(b) ? 1 : -1)));
  }

  /** close stops reading. Runs go on at the server. */
  close() {
    this.closed = true;
    this.reading?.abort();
    this.reading = null;
  }

  /** load reads the thread, and joins the run that goes on. */
  async load() {
    const id = this.state.threadId;
    this.closed = false;
    if (!id) return;
    try {
      const [thread] = await Promise.all([this.client.threads.get(id), this.page()]);
      if (this.closed) return;
      this.change({ status: "ready", error: undefined, metadata: thread.metadata ?? {} });
      if (thread.status === "busy" && !this.reading) await this.joinNewest();
    } catch (err) {
      if (this.closed) return;
      const status = (err as { status?: number }).status;
      this.change(status === 404 || status === 422 ? { status: "missing" } : { status: "failed", error: messageOf(err) });
    }
  }

  /** page reads checkpoints: the newest ones, or those before one. */
  private async page(before?: Step) {
    const id = this.state.threadId!;
    const known = this.steps;
    const began = performance.now();
    const limit = before ? this.pageSize : Math.min(this.pageSize, 30);
    const steps = (await this.client.threads.getHistory<Values>(id, { limit, ...(before ? { before: { configurable: before.checkpoint } as never } : {}) })) as Step[];
    if (this.closed || id !== this.state.threadId || known !== this.steps) return;
    // Large states come in smaller pages, small ones in larger pages.
    const took = performance.now() - began;
    if (took > 1_500) this.pageSize = Math.max(3, Math.floor(this.pageSize / 3));
    else if (took < 300 && before) this.pageSize = Math.min(500, this.pageSize * 2);
    // What came in between since the last look is read too, so that no gap is left.
    const gap = !before && this.steps.size > 0 && steps.length >= limit && !steps.some((s) => this.steps.has(idOf(s)));
    for (let batch = steps; gap && batch.length > 0 && !batch.some((s) => this.steps.has(idOf(s))); ) {
      batch = (await this.client.threads.getHistory<Values>(id, { limit: 100, before: { configurable: batch.at(-1)!.checkpoint } as never })) as Step[];
      if (this.closed) return;
      steps.push(...batch);
    }
    for (const s of steps) this.setStep(s);
    const all = this.sorted();
    this.change({ steps: all, hasMore: before || this.state.steps.length <= steps.length ? steps.length >= limit : this.state.hasMore, ...(isRunning(this.state) ? {} : headOf(all[0])) });
  }

  /** loadMore reads the checkpoints before the oldest one that is there. */
  async loadMore() {
    const oldest = this.state.steps.at(-1);
    if (oldest && this.state.hasMore) await this.page(oldest);
  }

  /** nested reads the checkpoints of a nested graph, newest first. */
  async nested(ns: string): Promise<Step[]> {
    return (await this.client.threads.getHistory<Values>(this.state.threadId!, { limit: 100, checkpoint: { checkpoint_ns: ns } as never })) as Step[];
  }

  /** edit writes values as if a node had, and returns the new checkpoint. */
  async edit(values: unknown, asNode: string | undefined, checkpoint?: Checkpoint): Promise<string> {
    const answer = (await this.client.threads.updateState(this.state.threadId!, { values: values as never, asNode, checkpoint: checkpoint as never })) as unknown as { checkpoint?: Checkpoint; configurable?: Checkpoint };
    await this.page();
    return (answer.checkpoint ?? answer.configurable)?.checkpoint_id ?? "";
  }

  /** setMetadata changes the thread's metadata. */
  async setMetadata(metadata: Record<string, unknown>) {
    const thread = await this.client.threads.update(this.state.threadId!, { metadata });
    this.change({ metadata: thread.metadata ?? {} });
  }

  /** submit starts a run, on a new thread if there is none, and reads it to its end. */
  async submit(o: RunOptions): Promise<void> {
    let id = this.state.threadId;
    if (!id) {
      id = (await this.client.threads.create({})).thread_id;
      this.state = { ...this.state, threadId: id, status: "ready" };
      go({ thread: id });
    }
    const before = isRunning(this.state) ? this.state.run : null;
    const { expected, ...request } = o;
    const reading = this.begin({ id: null, assistant: o.assistant, phase: "starting", started: Date.now(), request }, expected);
    await this.read(reading, () =>
      this.client.runs.stream(id, o.assistant, {
        input: o.input as never,
        command: o.command as never,
        checkpoint: (o.checkpoint ?? undefined) as never,
        config: o.config as never,
        context: o.context as never,
        interruptBefore: o.interruptBefore as never,
        interruptAfter: o.interruptAfter as never,
        multitaskStrategy: o.multitaskStrategy,
        durability: o.durability,
        streamMode: [...modes],
        streamSubgraphs: true,
        streamResumable: true,
        onDisconnect: "continue",
        ifNotExists: "create",
        signal: reading.signal,
        onRunCreated: ({ run_id }: { run_id: string }) => this.setRun(reading, { id: run_id, phase: "running" }),
      } as never) as unknown as AsyncIterable<StreamEvent>,
    );
    const { run } = this.state;
    if (!before?.id || this.reading || run?.id || run?.phase !== "error") return;
    // The server refused a run beside the one that goes on.
    void this.join(before.id, before.assistant);
    throw new Error(run.error);
  }

  /** answer resumes the thread: with one value, or with one for each question. */
  answer(assistant: string, answers: Record<string, unknown>, o?: Partial<RunOptions>) {
    const [only] = this.state.questions;
    const resume = this.state.questions.length === 1 && only && only.id in answers ? answers[only.id] : answers;
    return this.submit({ ...o, assistant, command: { resume } });
  }

  /** stop ends the run: what it has done is kept, or taken back. */
  async stop(how: "interrupt" | "rollback" = "interrupt") {
    const { run, threadId } = this.state;
    if (!run?.id || !threadId) return;
    this.change({ run: { ...run, phase: "cancelled" } });
    try {
      await this.client.runs.cancel(threadId, run.id, how === "rollback", how);
    } catch (err) {
      if (this.state.run?.id === run.id) this.change({ run });
      throw err;
    }
    if (how === "interrupt") return;
    // The checkpoints of the run are gone.
    this.steps = new Map();
    this.newestFirst = null;
    await this.page();
  }

  /** runAt reads a run of the thread. Servers add the request as kwargs. */
  async runAt(id: string): Promise<Run & { kwargs?: Json }> {
    return this.client.runs.get(this.state.threadId!, id);
  }

  private async joinNewest() {
    const id = this.state.threadId!;
    const [run] = await this.client.runs.list(id, { limit: 1 });
    if (!run || (run.status !== "running" && run.status !== "pending") || this.closed) return;
    await this.join(run.run_id, run.assistant_id);
  }

  /** join reads a run that goes on, from its beginning. */
  async join(run: string, assistant: string) {
    const reading = this.begin({ id: run, assistant, phase: "running", started: Date.now() });
    void this.watch(reading);
    await this.read(reading, () => this.joined(reading, run, "-1"));
  }

  /** watch looks for new checkpoints of a run that was started without telling them. */
  private async watch(reading: AbortController) {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      if (this.reading !== reading || this.tasks.size > 0) return;
      await this.page().catch(() => undefined);
    }
  }

  private joined(reading: AbortController, run: string, lastEventId: string) {
    return this.client.runs.joinStream(this.state.threadId!, run, { signal: reading.signal, lastEventId, streamMode: [...modes] as never }) as unknown as AsyncIterable<StreamEvent>;
  }

  /** begin forgets the run before. */
  private begin(run: SessionState["run"], values = this.state.values): AbortController {
    this.reading?.abort();
    this.reading = new AbortController();
    this.tasks.clear();
    this.messages.clear();
    this.newest.clear();
    this.change({ run, values, tasks: [], messages: [], custom: [], questions: [], error: undefined });
    return this.reading;
  }

  private setRun(reading: AbortController, to: Partial<NonNullable<SessionState["run"]>>) {
    if (this.reading === reading && this.state.run) this.change({ run: { ...this.state.run, ...to } });
  }

  /** read reads a stream to its end. A connection that is lost is made again, from the last event on. */
  private async read(reading: AbortController, open: () => AsyncIterable<StreamEvent>) {
    let last = "-1";
    let since = performance.now();
    for (let attempt = 0; ; attempt++) {
      try {
        for await (const e of attempt === 0 ? open() : this.joined(reading, this.state.run!.id!, last)) {
          if (reading.signal.aborted) return;
          if (attempt > 0) this.setRun(reading, { phase: "running" });
          if (e.id) last = e.id;
          attempt = 0;
          this.apply(reading, e);
          // Events that have piled up, as when a run is joined, must not keep the page from drawing.
          if (performance.now() - since > 12) {
            await nextTask();
            since = performance.now();
          }
        }
        break;
      } catch (err) {
        if (reading.signal.aborted || this.closed) return;
        const wait = retries[attempt];
        const refused = (err as { status?: number }).status !== undefined;
        if (refused || wait === undefined || !this.state.run?.id) {
          this.setRun(reading, { phase: "error", error: messageOf(err), ended: Date.now() });
          this.change(headOf(this.state.steps[0]));
          this.reading = null;
          return;
        }
        this.setRun(reading, { phase: "reconnecting" });
        await new Promise((resolve) => setTimeout(resolve, wait));
      }
    }
    await this.ended(reading);
  }

  /** ended reads what is stored now, since a stream may end for several reasons. */
  private async ended(reading: AbortController) {
    if (this.reading !== reading) return;
    this.reading = null;
    const run = this.state.run!;
    let phase: RunPhase = run.phase;
    try {
      await this.page();
      if (phase !== "error" && phase !== "cancelled" && run.id) {
        const stored = await this.client.runs.get(this.state.threadId!, run.id);
        phase = stored.status === "error" || stored.status === "timeout" ? "error" : stored.status === "interrupted" ? "interrupted" : "success";
      }
    } catch (err) {
      this.change({ error: messageOf(err) });
    }
    if (this.reading || this.closed) return;
    for (const t of this.tasks.values()) t.ended ??= Date.now();
    const head = headOf(this.state.steps[0]);
    if (phase === "success" && head.questions.length > 0) phase = "interrupted";
    this.change({ run: { ...this.state.run!, phase, ended: Date.now() }, tasks: [...this.tasks.values()], messages: [...this.messages.values()], ...head });
  }

  /** apply takes one event of the stream into the state. */
  private apply(reading: AbortController, e: StreamEvent) {
    if (this.reading !== reading) return;
    const [mode = "", ...path] = e.event.split("|");
    const ns = path.join("|");
    const data = e.data as Json;
    switch (mode) {
      case "metadata":
        this.setRun(reading, { id: String(data.run_id ?? this.state.run?.id ?? ""), phase: "running" });
        return;
      case "values":
        if (ns === "") this.state = { ...this.state, values: data };
        break;
      case "checkpoints":
        this.applyCheckpoint(data, ns);
        break;
      case "tasks":
        this.applyTask(data, ns);
        break;
      case "messages":
        if (Array.isArray(e.data)) this.applyMessage(e.data[0] as Json, (e.data[1] ?? {}) as Json, ns);
        break;
      case "custom":
        this.state = { ...this.state, custom: [...this.state.custom, { ns, data: e.data, at: Date.now() }] };
        break;
      case "error":
        this.setRun(reading, { phase: "error", error: String(data.message ?? data.error ?? JSON.stringify(data)) });
        return;
      default:
        return;
    }
    this.soon();
  }

  private applyCheckpoint(data: Json, ns: string) {
    if (ns !== "") return;
    const configurable = (c: unknown) => ((c as Json | null)?.configurable ?? null) as Checkpoint | null;
    const checkpoint = (data.checkpoint ?? configurable(data.config)) as Checkpoint | null;
    if (!checkpoint?.checkpoint_id) return;
    const parent = (data.parent_checkpoint ?? configurable(data.parent_config)) as Checkpoint | null;
    this.setStep({
      values: (data.values ?? {}) as Values,
      next: (data.next ?? []) as string[],
      checkpoint,
      metadata: (data.metadata ?? {}) as Step["metadata"],
      created_at: new Date().toISOString(),
      parent_checkpoint: parent,
      tasks: ((data.tasks ?? []) as Json[]).map((t) => ({ interrupts: [], error: null, checkpoint: null, ...t, state: null }) as unknown as Step["tasks"][number]),
    });
  }

  private applyTask(data: Json, ns: string) {
    const id = String(data.id);
    const before = this.tasks.get(id);
    if ("triggers" in data || "input" in data) {
      this.tasks.set(id, { id, name: String(data.name), ns, input: data.input, interrupts: [], started: Date.now(), attempt: (before?.attempt ?? 0) + 1, retries: [], step: before?.step ?? this.stepOf(ns) });
      return;
    }
    const task = before ?? { id, name: String(data.name), ns, interrupts: [], started: Date.now(), attempt: 1, retries: [], step: this.stepOf(ns) };
    const newest = this.newest.get(ns);
    if (newest) newest.ending = true;
    const { attempt, retries } = triesOf(data, task.attempt);
    this.tasks.set(id, { ...task, attempt, retries, result: data.result, error: data.error ? textOfError(data.error) : undefined, interrupts: (data.interrupts ?? []) as TaskRun["interrupts"], ended: Date.now() });
  }

  /** stepOf is the step of a task that begins. All tasks of a step begin before one of them ends, so the first that begins after that begins a step. */
  private stepOf(ns: string): number {
    const newest = this.newest.get(ns);
    if (newest && !newest.ending) return newest.step;
    const step = (newest?.step ?? 0) + 1;
    this.newest.set(ns, { step, ending: false });
    return step;
  }

  private applyMessage(chunk: Json, meta: Json, ns: string) {
    const id = String(chunk.id ?? "");
    if (!id) return;
    const before = this.messages.get(id);
    const path = String(meta.langgraph_checkpoint_ns ?? meta.checkpoint_ns ?? "");
    this.messages.set(id, {
      message: addChunk(before?.message, chunk),
      node: String(meta.langgraph_node ?? ""),
      ns: ns || path.split("|").slice(0, -1).join("|"),
      task: path.split("|").at(-1)?.split(":")[1],
      started: before?.started ?? Date.now(),
      ended: Date.now(),
      chunks: (before?.chunks ?? 0) + 1,
      model: (meta.ls_model_name as string | undefined) ?? before?.model,
    });
  }
}

/** headOf are the parts of the state that come from the newest checkpoint. */
function headOf(head: Step | undefined): { values: Values; questions: OpenQuestion[] } {
  if (!head) return { values: {}, questions: [] };
  const questions: OpenQuestion[] = [];
  for (const task of head.tasks ?? []) {
    for (const i of task.interrupts ?? []) {
      const id = i.id ?? (i as { interrupt_id?: string }).interrupt_id ?? "";
      if (id && !questions.some((q) => q.id === id)) questions.push({ id, value: i.value, node: task.name, ns: task.checkpoint?.checkpoint_ns ?? "" });
    }
  }
  return { values: (head.values ?? {}) as Values, questions };
}

/** triesOf is how often a task was tried. Servers that do not tell it have known once. */
export function triesOf(task: unknown, once = 1): { attempt: number; retries: Retry[] } {
  const t = task as { attempts?: unknown; retries?: unknown };
  return { attempt: typeof t.attempts === "number" ? t.attempts : once, retries: Array.isArray(t.retries) ? (t.retries as Retry[]) : [] };
}

function textOfError(err: unknown): string {
  if (typeof err === "string") return err;
  const e = err as Json;
  return String(e.message ?? e.error ?? JSON.stringify(err));
}

/** messageOf is the text of an error, without the SDK's "HTTP 409:". */
export function messageOf(err: unknown): string {
  const text = err instanceof Error ? err.message : String(err);
  const body = /^HTTP \d+: (.*)$/s.exec(text)?.[1] ?? text;
  try {
    const parsed = JSON.parse(body) as Json;
    return String(parsed.detail ?? parsed.error ?? parsed.message ?? body);
  } catch {
    return body === "Failed to fetch" ? "The server cannot be reached." : body;
  }
}

/** nextTask lets the browser do what waits: draw, and take input. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

const Context = createContext<Session | null>(null);

export function SessionProvider({ children }: { children: ReactNode }) {
  const { client } = useConnection();
  const { thread } = useLocation();
  const [session, setSession] = useState(() => new Session(client, thread));
  const [of, setOf] = useState(client);
  // A session that has just created its thread is kept.
  if (session.threadId !== thread || of !== client) {
    setSession(new Session(client, thread));
    setOf(client);
  }
  useEffect(() => {
    void session.load();
    return () => session.close();
  }, [session]);
  return <Context value={session}>{children}</Context>;
}

/** useSession is the session of the thread in the address bar. */
export function useSession(): Session {
  const s = useContext(Context);
  if (!s) throw new Error("useSession outside of SessionProvider");
  return s;
}

/** useSessionState is its state, as it changes. */
export function useSessionState(): SessionState {
  const s = useSession();
  return useSyncExternalStore(s.subscribe, s.getState);
}

/** useSessionPart is a part of the state. The view is rendered again when that part is another one. */
export function useSessionPart<T>(pick: (s: SessionState) => T): T {
  const s = useSession();
  return useSyncExternalStore(s.subscribe, () => pick(s.getState()));
}
