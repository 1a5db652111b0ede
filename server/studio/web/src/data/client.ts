// The SDK's client with the types that servers actually accept and return. Only this file casts them.
import { Client as Sdk } from "@langchain/langgraph-sdk/client";
import type { Checkpoint, Cron, Run, Thread, ThreadStatus } from "@langchain/langgraph-sdk";
import type { ItemChange, StoredItem } from "./items";
import { isAway, messageOf } from "./errors";
import type { RecordedSpan, Recording } from "./recorded";
import type { Transport } from "./transport";
import type {
  KeptRun,
  NewestRun,
  Overview,
  RunOptions,
  RunsPage,
  Step,
  ThreadList,
  ThreadsPage,
  Values,
} from "./types";

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

type ThreadSearch = NonNullable<Parameters<Sdk["threads"]["search"]>[0]>;

export interface ListOptions {
  status?: ThreadStatus;
  metadata?: Record<string, unknown>;
  limit: number;
  offset?: number;
  /** The fields to return. Treadle's server also returns titles, which the SDK does not know. */
  select?: string[];
  signal?: AbortSignal;
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
  const request = async (fetch: typeof globalThis.fetch, path: string, init: RequestInit = {}): Promise<Response> => {
    const answer = await fetch(url + path, {
      ...init,
      headers: {
        ...(init.body ? { "content-type": "application/json" } : {}),
        ...(apiKey ? { "x-api-key": apiKey } : {}),
      },
    });
    if (answer.ok) return answer;
    throw Object.assign(new Error(`HTTP ${answer.status}: ${await answer.text()}`), { status: answer.status });
  };
  const call = async (...to: Parameters<typeof request>): Promise<unknown> => {
    const text = await (await request(...to)).text();
    return text ? (JSON.parse(text) as unknown) : undefined;
  };
  const get = (path: string, signal?: AbortSignal) => call(transport.background, path, { signal });
  const send = (method: string, path: string, body: unknown, signal?: AbortSignal) =>
    call(transport.background, path, { method, body: JSON.stringify(body), signal });

  /** history returns checkpoints of a thread, newest first: those before a checkpoint, or those of a subgraph. */
  const history = (thread: string, o: { limit: number; before?: Checkpoint; ns?: string }): Promise<Step[]> => {
    const { threads } = o.before || o.ns !== undefined ? sdk : first;
    return threads.getHistory<Values>(thread, {
      limit: o.limit,
      ...(o.before ? { before: { configurable: o.before } } : {}),
      ...(o.ns === undefined ? {} : { checkpoint: { checkpoint_ns: o.ns } }),
    });
  };

  /** newestRun returns the run of a thread that was created last. */
  const newestRun = async (thread: string): Promise<NewestRun | undefined> => {
    if (!own) return (await first.runs.list(thread, { limit: 1 }))[0];
    // Unlike a list of runs, this says why the run failed.
    const body = JSON.stringify({ thread_id: thread, limit: 1 });
    return ((await call(transport.fetch, "/search/runs", { method: "POST", body })) as RunsPage).runs[0];
  };

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

    history,

    /**
     * overview returns a thread with its newest run and checkpoints, and with whole, the request of the run, which may
     * be large. Only Treadle's server returns them together.
     */
    async overview(thread: string, limit: number, whole = false): Promise<Overview> {
      if (own)
        return (await call(transport.fetch, `/threads/${thread}/overview?limit=${limit}&kwargs=${whole}`)) as Overview;
      let error: string | undefined;
      const newest = newestRun(thread).catch((err: unknown) => {
        if (isAway(err)) throw err;
        error = `Failed to load the newest run: ${messageOf(err)}`;
        return undefined;
      });
      const [run = null, states] = await Promise.all([newest, history(thread, { limit })]);
      // The newest run and the checkpoints say what the thread would say.
      return { run, states, thread: run ? null : await first.threads.get(thread), error };
    },

    /**
     * subgraphs returns the newest checkpoints of subgraphs, and of the subgraphs in them, by namespace. Some may be
     * missing, and on other servers than Treadle's, all of them.
     */
    async subgraphs(thread: string, checkpoint_ns: string[], limit: number): Promise<Record<string, Step[]>> {
      if (!own || checkpoint_ns.length === 0) return {};
      const body = { checkpoint_ns: checkpoint_ns.slice(0, 1_000), limit };
      const answer = await send("POST", `/threads/${thread}/subgraphs`, body);
      return (answer as { subgraphs: Record<string, Step[]> }).subgraphs;
    },

    /**
     * listThreads lists the threads that changed last. With counted, the list includes the number of questions in all
     * threads, which only Treadle's server counts.
     */
    async listThreads(o: ListOptions, counted = false): Promise<ThreadList> {
      const { signal, ...query } = o;
      if (!counted)
        return { threads: await sdk.threads.search({ ...o, sortBy: "updated_at", sortOrder: "desc" } as ThreadSearch) };
      const body = JSON.stringify({ ...query, sort_by: "updated_at", sort_order: "desc", questions: true });
      const answer = await request(transport.background, "/threads/search", { method: "POST", body, signal });
      const threads = (await answer.json()) as Thread[];
      const count = answer.headers.get("x-questions");
      return { threads, questions: count ? { count: parseInt(count), more: count.endsWith("+") } : undefined };
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

    newestRun,

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
