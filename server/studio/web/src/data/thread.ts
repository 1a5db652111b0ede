// A Session is a thread and its activity: its checkpoints, and the current run. Views read its state and call its
// methods; none of them calls a thread's API itself.
import type { Checkpoint } from "@langchain/langgraph-sdk";
import type { Client, StreamEvent } from "./client";
import { httpStatusOf, messageOf } from "./errors";
import { Collected } from "./events";
import { readToEnd } from "./follow";
import { newId } from "./ids";
import { endedRun, findRun, insist, mayHaveStarted, timeOf } from "./outcome";
import { questionsOf } from "./questions";
import { idOf } from "./tree";
import {
  isRunning,
  type KeptRun,
  type NewestRun,
  type OpenQuestion,
  type RunOptions,
  type RunState,
  type SessionState,
  type Step,
  type Values,
} from "./types";

function emptyState(threadId: string | null): SessionState {
  return {
    threadId,
    status: threadId ? "loading" : "empty",
    graph: null,
    thread: null,
    steps: [],
    hasMore: false,
    values: {},
    tasks: [],
    messages: [],
    custom: [],
    questions: [],
    run: null,
  };
}

/** The number of checkpoints of a subgraph in the first request. */
const nestedSize = 100;

export class Session {
  private state: SessionState;
  private listeners = new Set<() => void>();
  private frame = 0;
  private steps = new Map<string, Step>();
  private newestFirst: Step[] | null = null;
  private collected = new Collected();
  private reading: AbortController | null = null;
  private closed = false;
  /** The run that stop rolls back; the server deletes it. */
  private discarded: string | null = null;
  private pageSize = 30;
  /** The IDs of the thread's runs that the page has seen. */
  private seen = new Set<string>();
  /** The runs of the thread before the last one that was submitted. */
  private known = new Set<string>();
  private submits = 0;
  /** The ID of the thread that the first run creates. */
  private readonly newThread = newId();

  constructor(
    private client: Client,
    threadId: string | null,
    /** Called when a run creates the thread. */
    private onThread: (id: string) => void,
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

  /** change sets parts of the state and notifies the views. */
  private change(to: Partial<SessionState>) {
    this.state = { ...this.state, ...to };
    for (const listener of this.listeners) listener();
  }

  /** soon publishes the collected events, at most once per frame. */
  private soon() {
    if (this.frame) return;
    const publish = () => {
      this.frame = 0;
      if (!this.closed) this.change({ ...this.collected.parts(), steps: this.sorted() });
    };
    this.frame = document.hidden ? window.setTimeout(publish, 100) : requestAnimationFrame(publish);
  }

  private setStep(s: Step) {
    this.steps.set(idOf(s), s);
    this.newestFirst = null;
    const { run_id } = (s.metadata ?? {}) as { run_id?: unknown };
    if (typeof run_id === "string") this.seen.add(run_id);
  }

  /** sorted returns the same list until a step changes, so that views need not compare it. */
  private sorted(): Step[] {
    return (this.newestFirst ??= [...this.steps.values()].sort((a, b) => (idOf(a) < idOf(b) ? 1 : -1)));
  }

  /** close stops reading. Runs continue on the server. */
  close() {
    this.closed = true;
    this.reading?.abort();
    this.reading = null;
  }

  /** load loads the thread, and joins its current run. */
  async load() {
    const id = this.state.threadId;
    this.closed = false;
    if (!id) return;
    const { submits } = this;
    try {
      const { limit, add } = this.adding();
      const { run, states, thread, error } = await this.client.overview(id, limit);
      if (run) this.seen.add(run.run_id);
      // A run that was submitted in the meantime is newer.
      const newer = submits < this.submits;
      if (run && newer) this.known.add(run.run_id);
      await add(states);
      const active = run?.status === "running" || run?.status === "pending";
      const ended =
        run && !active && !this.reading && !newer ? await endedRun(this.client, run, run.error, this.state.run) : null;
      if (this.closed) return;
      const graph = (run?.metadata ?? thread?.metadata)?.graph_id;
      this.change({
        status: "ready",
        error,
        graph: typeof graph === "string" ? graph : null,
        thread: run ? null : thread,
      });
      if (this.reading || !run || submits < this.submits) return;
      if (active) return await this.join(run);
      if (ended) this.change({ run: ended });
    } catch (err) {
      if (this.closed) return;
      const status = httpStatusOf(err);
      this.change(
        status === 404 || status === 422 ? { status: "missing" } : { status: "failed", error: messageOf(err) },
      );
    }
  }

  /** page loads checkpoints: the newest ones, or those before a checkpoint. */
  private async page(before?: Step) {
    const { limit, add } = this.adding(before);
    await add(await this.client.history(this.state.threadId!, { limit, before: before?.checkpoint }));
  }

  /** adding returns how many checkpoints to load, and a function that adds them: the newest, or those before one. */
  private adding(before?: Step) {
    const id = this.state.threadId!;
    const known = this.steps;
    const began = performance.now();
    const limit = before ? this.pageSize : Math.min(this.pageSize, 30);
    const add = async (steps: Step[]) => {
      if (this.closed || id !== this.state.threadId || known !== this.steps) return;
      // Large states are loaded in smaller pages, small states in larger ones.
      const took = performance.now() - began;
      if (took > 1_500) this.pageSize = Math.max(3, Math.floor(this.pageSize / 3));
      else if (took < 300 && before) this.pageSize = Math.min(500, this.pageSize * 2);
      // Checkpoints added since the last load are loaded too, so that there is no gap.
      const isKnown = (s: Step) => this.steps.has(idOf(s));
      const gap = !before && this.steps.size > 0 && steps.length >= limit && !steps.some(isKnown);
      for (let batch = steps; gap && batch.length > 0 && !batch.some(isKnown);) {
        batch = await this.client.history(id, { limit: 100, before: batch.at(-1)!.checkpoint });
        if (this.closed) return;
        steps.push(...batch);
      }
      for (const s of steps) this.setStep(s);
      const all = this.sorted();
      this.change({
        steps: all,
        hasMore: before || this.state.steps.length <= steps.length ? steps.length >= limit : this.state.hasMore,
        ...(isRunning(this.state) ? {} : headOf(all[0])),
      });
    };
    return { limit, add };
  }

  /** loadMore loads the checkpoints before the oldest loaded one. */
  async loadMore() {
    const oldest = this.state.steps.at(-1);
    if (oldest && this.state.hasMore) await this.page(oldest);
  }

  /** nested loads all checkpoints of a subgraph, newest first. newest are those that subgraphs has loaded. */
  async nested(ns: string, newest?: Step[]): Promise<Step[]> {
    const load = (limit: number, before?: Step) =>
      this.client.history(this.state.threadId!, { limit, ns, before: before?.checkpoint });
    let limit = nestedSize;
    let page = newest ?? (await load(limit));
    const steps = [...page];
    while (page.length >= limit) {
      limit = 500;
      page = await load(limit, steps.at(-1));
      steps.push(...page);
    }
    return steps;
  }

  /** subgraphs loads the newest checkpoints of subgraphs by namespace, as far as the server returns them together. */
  subgraphs(namespaces: string[]): Promise<Record<string, Step[]>> {
    return this.client.subgraphs(this.state.threadId!, namespaces, nestedSize);
  }

  /** edit writes values as if a node had written them, and returns the new checkpoint. */
  async edit(values: unknown, asNode: string | undefined, checkpoint?: Checkpoint): Promise<string> {
    const id = await this.client.edit(this.state.threadId!, values, asNode, checkpoint);
    await this.page();
    return id;
  }

  /** submit starts a run, on a new thread if there is none, and reads it to its end. */
  async submit(o: RunOptions): Promise<void> {
    const id = this.state.threadId ?? this.newThread;
    const before = isRunning(this.state) ? this.state.run : null;
    this.known = new Set(this.seen);
    this.submits++;
    const { expected, ...request } = o;
    const reading = this.begin(
      { id: null, assistant: o.assistant, phase: "starting", started: Date.now(), request },
      expected,
    );
    const queued = before && o.multitaskStrategy === "enqueue";
    const created = (run: string) => {
      this.enter(reading, id);
      this.setRun(reading, { id: run, phase: queued ? "queued" : "running" });
    };
    await this.read(reading, id, () => this.client.stream(id, o, reading.signal, created));
    if (this.state.run?.phase === "looking") await this.find(id);
    const { run } = this.state;
    if (!before?.id || this.reading || run?.id || run?.phase !== "error") return;
    // The server rejected a second run alongside the current one.
    void this.rejoin(before);
    throw new Error(run.error);
  }

  /** enter opens the thread that a run has created. */
  private enter(reading: AbortController, id: string) {
    if (this.reading !== reading || this.state.threadId) return;
    this.state = { ...this.state, threadId: id, status: "ready" };
    this.onThread(id);
  }

  /** answer resumes the thread: with one value, or with one value per interrupt. */
  answer(assistant: string, answers: Record<string, unknown>, o?: Partial<RunOptions>) {
    const [only] = this.state.questions;
    const resume = this.state.questions.length === 1 && only && only.id in answers ? answers[only.id] : answers;
    return this.submit({ ...o, assistant, command: { resume } });
  }

  /** stop ends the run and keeps its work, or rolls it back. */
  async stop(how: "interrupt" | "rollback" = "interrupt") {
    const { run, threadId } = this.state;
    if (!run?.id || !threadId) return;
    this.change({ run: { ...run, phase: "cancelled" } });
    this.discarded = how === "rollback" ? run.id : null;
    try {
      await this.client.runs.cancel(threadId, run.id, how === "rollback", how);
    } catch (err) {
      this.discarded = null;
      if (this.state.run?.id === run.id) this.change({ run });
      throw err;
    }
    if (how === "interrupt") return;
    // The checkpoints of the run are gone.
    this.steps = new Map();
    this.newestFirst = null;
    await this.page();
  }

  /** runAt loads a run of the thread. Servers include the request as kwargs. */
  runAt(id: string): Promise<KeptRun> {
    return this.client.run(this.state.threadId!, id);
  }

  /** join reads the current run from its start. */
  private async join(run: NewestRun, request?: RunOptions) {
    const phase = run.status === "pending" ? "queued" : "running";
    const { run_id: id, assistant_id: assistant, kwargs } = run;
    await this.rejoin({ id, assistant, phase, started: timeOf(run.created_at), request, kwargs });
  }

  private async rejoin(run: RunState) {
    const reading = this.begin(run);
    void this.watch(reading);
    const id = this.state.threadId!;
    await this.read(reading, id, () => this.client.follow(id, run.id!, "-1", reading.signal));
  }

  /** watch polls for new checkpoints of a run whose stream does not include them. */
  private async watch(reading: AbortController) {
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      if (this.reading !== reading || !this.collected.isEmpty) return;
      await this.page().catch(() => undefined);
    }
  }

  /** begin resets the state of the previous run. */
  private begin(run: RunState, values = this.state.values): AbortController {
    if (run.id) this.seen.add(run.id);
    this.reading?.abort();
    this.reading = new AbortController();
    this.collected = new Collected();
    this.change({ run, values, thread: null, tasks: [], messages: [], custom: [], questions: [], error: undefined });
    return this.reading;
  }

  private setRun(reading: AbortController, to: Partial<NonNullable<SessionState["run"]>>) {
    if (to.id) this.seen.add(to.id);
    if (this.reading === reading && this.state.run) this.change({ run: { ...this.state.run, ...to } });
  }

  /** read reads a stream of the thread to its end. */
  private async read(reading: AbortController, thread: string, open: () => AsyncIterable<StreamEvent>) {
    const { signal } = reading;
    try {
      const whole = await readToEnd({
        signal,
        open,
        isKnown: () => !!this.state.run?.id,
        reopen: (after) => this.client.follow(thread, this.state.run!.id!, after, signal),
        onEvent: (e) => {
          this.enter(reading, thread);
          this.apply(reading, e);
        },
        onLost: () => this.setRun(reading, { phase: "reconnecting" }),
        onResumed: () => this.setRun(reading, { phase: "running" }),
      });
      if (!whole) return;
    } catch (err) {
      if (this.closed || this.reading !== reading) return;
      const error = messageOf(err);
      if (mayHaveStarted(err) && !this.state.run?.id) {
        this.enter(reading, thread);
        const unsure = " The run may have started: the studio looks for it when the server responds.";
        this.setRun(reading, { phase: "looking", error: error + unsure });
      } else {
        this.setRun(reading, { phase: "error", error, ended: Date.now() });
        this.change(headOf(this.state.steps[0]));
      }
      this.reading = null;
      return;
    }
    this.enter(reading, thread);
    await this.ended(reading);
  }

  /** recover loads what could not be loaded while the server did not respond. */
  recover() {
    if (this.state.status === "failed") void this.load();
  }

  /** find joins the run of a request that got no response, if the run has started. */
  private async find(thread: string) {
    const lost = this.state.run!;
    const { known } = this;
    const isOver = () => !!this.reading || this.closed || this.state.run !== lost;
    const found = await findRun({ newest: () => this.client.newestRun(thread), known, isOver });
    if (found === undefined) return;
    if (!found) {
      const error = "Cannot reach the server: the run has not started.";
      this.change({ run: { ...lost, phase: "error", error, ended: Date.now() }, ...headOf(this.state.steps[0]) });
      return;
    }
    if (found.status === "running" || found.status === "pending") return await this.join(found, lost.request);
    await this.ended(this.begin({ ...lost, id: found.run_id, phase: "running", error: undefined }));
  }

  /** ended loads the saved state, because a stream may end for several reasons. */
  private async ended(reading: AbortController) {
    if (this.reading !== reading) return;
    this.reading = null;
    const { id, error } = this.state.run!;
    const isOver = () => !!this.reading || this.closed;
    const load = async () => {
      await this.page();
      return id && id !== this.discarded
        ? await endedRun(this.client, await this.runAt(id), error, this.state.run)
        : undefined;
    };
    const onAway = () => this.change({ run: { ...this.state.run!, phase: "reconnecting" } });
    const run = await insist(load, { isOver, onAway }).catch((err: unknown) => {
      // A run that was rolled back no longer exists.
      if (this.state.run?.phase !== "cancelled") this.change({ error: messageOf(err) });
    });
    if (isOver()) return;
    this.collected.end();
    const { phase, ...rest } = this.state.run!;
    this.change({
      run: run ?? { ...rest, phase: phase === "cancelled" ? phase : error ? "error" : "success", ended: Date.now() },
      thread: null,
      ...this.collected.parts(),
      ...headOf(this.state.steps[0]),
    });
  }

  /** apply applies one stream event to the state. */
  private apply(reading: AbortController, e: StreamEvent) {
    if (this.reading !== reading) return;
    const effect = this.collected.apply(e);
    switch (effect?.kind) {
      case "run":
        if (effect.id) this.setRun(reading, { id: effect.id });
        if (this.state.run?.phase === "starting") this.setRun(reading, { phase: "running" });
        return;
      case "error":
        // The run's status, read at the end, decides whether it failed or was canceled.
        return this.setRun(reading, { error: effect.text });
      case "step":
        this.setStep(effect.step);
        break;
      case "values":
        this.state = { ...this.state, values: effect.values };
    }
    if (!effect) return;
    if (this.state.run?.phase === "queued") this.setRun(reading, { phase: "running" });
    this.soon();
  }
}

/** headOf returns the parts of the state that come from the newest checkpoint. */
function headOf(head: Step | undefined): { values: Values; questions: OpenQuestion[] } {
  if (!head) return { values: {}, questions: [] };
  const questions: OpenQuestion[] = [];
  for (const task of head.tasks ?? []) {
    for (const q of questionsOf(task.interrupts, task.name, task.checkpoint?.checkpoint_ns ?? ""))
      if (!questions.some((other) => other.id === q.id)) questions.push(q);
  }
  return { values: head.values ?? {}, questions };
}
