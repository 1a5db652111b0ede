// The SDK's client with the types that servers actually accept and return. Only this file casts them.
import { Client as Sdk } from "@langchain/langgraph-sdk/client";
import type { Checkpoint, Cron, Metadata, Run } from "@langchain/langgraph-sdk";
import type { StoredItem } from "./items";
import type { RecordedSpan, Recording } from "./recorded";
import type { FoundRun, RunsPage } from "./search";
import type { RunOptions, Step, Values } from "./types";

export interface StreamEvent {
  id?: string;
  event: string;
  data: unknown;
}

/** A KeptRun is a run with its request, which most servers return. */
export type KeptRun = Run & { kwargs?: Record<string, unknown> };

/** The NewestRun is the run of a thread that was created last. */
export type NewestRun = Pick<Run, "run_id" | "thread_id" | "assistant_id" | "status" | "created_at" | "updated_at"> & {
  metadata: Metadata;
  /** Why the run failed, if the server returns it with the run. */
  error?: FoundRun["error"];
};

/** A ListedCron is a cron with its time zone, which Treadle's server returns. */
export type ListedCron = Cron & { timezone?: string | null };

export const modes = ["values", "messages-tuple", "tasks", "checkpoints", "custom"] as const;

export type Client = ReturnType<typeof newClient>;

/** newClient returns a client of the server at url. own reports whether that is the server of the page. */
export function newClient(url: string, apiKey: string | null, fetch: typeof globalThis.fetch, own = false) {
  const sdk = new Sdk({ apiUrl: url, apiKey, callerOptions: { maxRetries: 1, maxConcurrency: Infinity, fetch } });
  const get = async (path: string, signal?: AbortSignal, body?: unknown): Promise<unknown> => {
    const answer = await fetch(url + path, {
      signal,
      headers: {
        ...(body ? { "content-type": "application/json" } : {}),
        ...(apiKey ? { "x-api-key": apiKey } : {}),
      },
      ...(body ? { method: "POST", body: JSON.stringify(body) } : {}),
    });
    if (!answer.ok)
      throw Object.assign(new Error(`HTTP ${answer.status}: ${await answer.text()}`), { status: answer.status });
    return answer.json();
  };
  return {
    assistants: sdk.assistants,
    threads: sdk.threads,
    runs: sdk.runs,
    store: sdk.store,
    crons: sdk.crons,

    /** history returns checkpoints of a thread, newest first: those before a checkpoint, or those of a subgraph. */
    history(thread: string, o: { limit: number; before?: Checkpoint; ns?: string }): Promise<Step[]> {
      return sdk.threads.getHistory<Values>(thread, {
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
      const events: unknown = sdk.runs.stream(thread, assistant, {
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
      return sdk.runs.joinStream(thread, run, o) as AsyncIterable<StreamEvent>;
    },

    /** run returns a run of a thread. */
    run: (thread: string, id: string): Promise<KeptRun> => sdk.runs.get(thread, id),

    /** newestRun returns the run of a thread that was created last. */
    async newestRun(thread: string): Promise<NewestRun | undefined> {
      if (!own) return (await sdk.runs.list(thread, { limit: 1 }))[0];
      // Unlike a list of runs, this says why the run failed.
      const found = (await get("/search/runs", undefined, { thread_id: thread, limit: 1 })) as RunsPage;
      return found.runs[0];
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

    /** listCrons returns all crons. */
    listCrons: (signal?: AbortSignal): Promise<ListedCron[]> => sdk.crons.search({ limit: 1000, signal }),
  };
}
