// The SDK's client with the types that servers actually accept and return. Only this file casts them.
import { Client as Sdk } from "@langchain/langgraph-sdk/client";
import type { Checkpoint, Cron, Run } from "@langchain/langgraph-sdk";
import type { ItemChange, StoredItem } from "./items";
import type { RecordedSpan, Recording } from "./recorded";
import type { Transport } from "./transport";
import type { KeptRun, NewestRun, RunOptions, RunsPage, Step, ThreadsPage, Values } from "./types";

export interface StreamEvent {
  id?: string;
  event: string;
  data: unknown;
}

/** A ListedCron is a cron with its time zone, which Treadle's server returns. */
export type ListedCron = Cron & { timezone?: string | null };

/** A NewCron is a cron to create. */
export interface NewCron {
  assistant_id: string;
  schedule: string;
  input: Record<string, unknown>;
  on_run_completed: "keep" | "delete";
  timezone?: string;
  end_time?: string;
}

/** ServerInfo is what a server says about itself. */
export interface ServerInfo {
  version?: string;
  context?: string;
  langgraph_js_version?: string;
  langgraph_py_version?: string;
  flags?: Record<string, unknown>;
}

/** The parts of a run that lists need. The SDK would send them as one value, which LangGraph's server rejects. */
const listed = [
  "run_id",
  "thread_id",
  "assistant_id",
  "created_at",
  "updated_at",
  "status",
  "metadata",
  "multitask_strategy",
];

export const modes = ["values", "messages-tuple", "tasks", "checkpoints", "custom"] as const;

export type Client = ReturnType<typeof newClient>;

/** newClient returns a client of the server at url. own reports whether that is the server of the page. */
export function newClient(url: string, apiKey: string | null, transport: Transport, own = false) {
  // The SDK would repeat a request that a gateway gave up on, even if it starts a run.
  const sdkWith = (fetch: typeof globalThis.fetch) =>
    new Sdk({ apiUrl: url, apiKey, callerOptions: { maxRetries: 0, maxConcurrency: Infinity, fetch } });
  const sdk = sdkWith(transport.background);
  /** What the user waits for. */
  const first = sdkWith(transport.fetch);
  const call = async (fetch: typeof globalThis.fetch, path: string, init: RequestInit = {}): Promise<unknown> => {
    const answer = await fetch(url + path, {
      ...init,
      headers: {
        ...(init.body ? { "content-type": "application/json" } : {}),
        ...(apiKey ? { "x-api-key": apiKey } : {}),
      },
    });
    const text = await answer.text();
    if (!answer.ok) throw Object.assign(new Error(`HTTP ${answer.status}: ${text}`), { status: answer.status });
    return text ? (JSON.parse(text) as unknown) : undefined;
  };
  const get = (path: string, signal?: AbortSignal) => call(transport.background, path, { signal });
  const send = (method: string, path: string, body: unknown, signal?: AbortSignal) =>
    call(transport.background, path, { method, body: JSON.stringify(body), signal });
  return {
    assistants: sdk.assistants,
    threads: sdk.threads,
    runs: sdk.runs,
    store: sdk.store,
    crons: sdk.crons,

    /** info returns what the server says about itself. */
    info: async (): Promise<ServerInfo> => (await call(transport.fetch, "/info")) as ServerInfo,

    /** searchThreads finds threads by their text. Only Treadle's server has this route. */
    searchThreads: async (query: Record<string, unknown>, signal?: AbortSignal) =>
      (await send("POST", "/search/threads", query, signal)) as ThreadsPage,

    /** searchRuns finds runs of all threads. Only Treadle's server has this route. */
    searchRuns: async (query: Record<string, unknown>, signal?: AbortSignal) =>
      (await send("POST", "/search/runs", query, signal)) as RunsPage,

    /** recentRuns returns the newest runs of a thread, without their requests. */
    recentRuns: async (thread: string, limit: number, signal?: AbortSignal) =>
      (await get(
        `/threads/${thread}/runs?limit=${limit}${listed.map((f) => "&select=" + f).join("")}`,
        signal,
      )) as Run[],

    /** thread returns a thread. */
    thread: (id: string) => first.threads.get(id),

    /** history returns checkpoints of a thread, newest first: those before a checkpoint, or those of a subgraph. */
    history(thread: string, o: { limit: number; before?: Checkpoint; ns?: string }): Promise<Step[]> {
      const { threads } = o.before || o.ns !== undefined ? sdk : first;
      return threads.getHistory<Values>(thread, {
        limit: o.limit,
        ...(o.before ? { before: { configurable: o.before } } : {}),
        ...(o.ns === undefined ? {} : { checkpoint: { checkpoint_ns: o.ns } }),
      });
    },

    /** edit writes values as if a node had written them, and returns the ID of the new checkpoint. */
    async edit(thread: string, values: unknown, asNode?: string, checkpoint?: Checkpoint): Promise<string> {
      const answer = await sdk.threads.updateState(thread, { values, asNode, checkpoint });
      const saved = answer as { checkpoint?: Checkpoint; configurable?: Checkpoint };
      return (saved.checkpoint ?? saved.configurable)?.checkpoint_id ?? "";
    },

    /** stream starts a run and returns its events. */
    stream(thread: string, o: RunOptions, signal: AbortSignal, onCreated: (run: string) => void) {
      const { assistant, expected: _, checkpoint, ...rest } = o;
      const events: unknown = first.runs.stream(thread, assistant, {
        ...rest,
        checkpoint: checkpoint ?? undefined,
        streamMode: [...modes],
        streamSubgraphs: true,
        streamResumable: true,
        onDisconnect: "continue",
        ifNotExists: "create",
        signal,
        onRunCreated: ({ run_id }: { run_id: string }) => onCreated(run_id),
      } as never);
      return events as AsyncIterable<StreamEvent>;
    },

    /** follow returns the events of a run after an event: "-1" means from the start. */
    follow(thread: string, run: string, after: string, signal: AbortSignal) {
      const o = { signal, lastEventId: after, streamMode: [...modes] };
      return first.runs.joinStream(thread, run, o) as AsyncIterable<StreamEvent>;
    },

    /** run returns a run of a thread. */
    run: (thread: string, id: string): Promise<KeptRun> => first.runs.get(thread, id),

    /** newestRun returns the run of a thread that was created last, and with whole, its request, which may be large. */
    async newestRun(thread: string, whole = false): Promise<NewestRun | undefined> {
      if (!own || whole) return (await first.runs.list(thread, { limit: 1 }))[0];
      // Unlike a list of runs, this says why the run failed.
      const body = JSON.stringify({ thread_id: thread, limit: 1 });
      return ((await call(transport.fetch, "/search/runs", { method: "POST", body })) as RunsPage).runs[0];
    },

    /** spans returns the recorded calls of a run. Only Treadle's server has this route. */
    async spans(thread: string, run: string, signal?: AbortSignal, content = false): Promise<Recording> {
      const path = `/threads/${thread}/runs/${run}/spans?limit=1000&content=${content}`;
      type Page = Recording & { next_cursor: string | null };
      const all = (await get(path, signal)) as Page;
      for (let next = all.next_cursor; next;) {
        const page = (await get(`${path}&cursor=${encodeURIComponent(next)}`, signal)) as Page;
        all.spans.push(...page.spans);
        next = page.next_cursor;
      }
      return all;
    },

    /** span returns a recorded call with its contents. */
    span: async (thread: string, run: string, id: string, signal?: AbortSignal) =>
      (await get(`/threads/${thread}/runs/${run}/spans/${id}`, signal)) as RecordedSpan,

    /** start starts a run without reading it. */
    start: (thread: string, assistant: string, payload: Record<string, unknown>) =>
      sdk.runs.create(thread, assistant, { ...payload, streamResumable: true }),

    /** reason returns the reason that a run failed, or "". */
    async reason(thread: string, run: string, signal?: AbortSignal): Promise<string> {
      const values = await sdk.runs.join(thread, run, { signal });
      const e = (values as { __error__?: { error?: string; message?: string } } | null)?.__error__;
      return e?.message || e?.error || "";
    },

    /** item returns an item of the store, or null if it does not exist. */
    async item(namespace: string[], key: string, signal?: AbortSignal): Promise<StoredItem | null> {
      return await sdk.store.getItem(namespace, key, { signal });
    },

    /** itemHistory returns the versions of an item that the store keeps, newest first. Only Treadle's server has it. */
    async itemHistory(namespace: string[], key: string): Promise<ItemChange[]> {
      const query = new URLSearchParams({ namespace: namespace.join("."), key });
      return ((await get(`/store/items/history?${query}`)) as { changes: ItemChange[] }).changes;
    },

    /** explainItems finds items, with the explanation of their scores, which only Treadle's server returns. */
    async explainItems(
      namespace_prefix: string[],
      o: { query: string; filter?: Values; limit: number; offset: number },
      signal?: AbortSignal,
    ): Promise<StoredItem[]> {
      const body = { namespace_prefix, ...o, explain: true };
      const answer = (await send("POST", "/store/items/search", body, signal)) as {
        items: (StoredItem & { created_at: string; updated_at: string })[];
      };
      return answer.items.map(({ created_at: createdAt, updated_at: updatedAt, ...item }) => ({
        ...item,
        createdAt,
        updatedAt,
      }));
    },

    /** putItem writes a whole item, with its metadata, which the SDK does not send. */
    async putItem({ namespace, key, meta }: Pick<StoredItem, "namespace" | "key" | "meta">, value: Values) {
      if (meta) await send("PUT", "/store/items", { namespace, key, value, meta });
      else await sdk.store.putItem(namespace, key, value);
    },

    /** createCron creates a cron. The SDK sends neither a time zone nor an end. */
    createCron: (cron: NewCron) => send("POST", "/runs/crons", cron),

    /** listCrons returns all crons. */
    listCrons: (signal?: AbortSignal): Promise<ListedCron[]> => sdk.crons.search({ limit: 1000, signal }),
  };
}
