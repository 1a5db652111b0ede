// client.threads, except state

import { answered, check, collect, fails, has, idOf, isDetail, isTime, isUUID, ok, same, sleep, unknown, until, uuid } from "./kit.mjs";

check("threads.create", async ({ client }) => {
  const t = await client.threads.create();
  ok(isUUID(t.thread_id) && isTime(t.created_at) && isTime(t.updated_at), "ids and times");
  has(t, { status: "idle", metadata: {} });
  ok(t.values == null, "values before the first run");
  has(await client.threads.get(t.thread_id), { thread_id: t.thread_id, status: "idle", created_at: t.created_at });
});

check("threads.create_with_id_and_metadata", async ({ client }) => {
  const threadId = uuid();
  const t = await client.threads.create({ threadId, metadata: { a: { b: [1, null] } }, graphId: "router" });
  has(t, { thread_id: threadId, metadata: { a: { b: [1, null] }, graph_id: "router" } });
});

check("threads.create_duplicate", async ({ client }) => {
  const { thread_id: threadId } = await client.threads.create({ metadata: { n: 1 } });
  await fails(client.threads.create({ threadId }), 409);
  await fails(client.threads.create({ threadId, ifExists: "raise" }), 409);
  has(await client.threads.create({ threadId, ifExists: "do_nothing", metadata: { n: 2 } }), { thread_id: threadId, metadata: { n: 1 } });
});

check("threads.create_invalid_id", async ({ client }) => fails(client.threads.create({ threadId: "x" }), 422));

check(
  "threads.create_ttl",
  async ({ client, http }) => {
    const { thread_id: a } = await client.threads.create({ ttl: 5 });
    const { thread_id: b } = await client.threads.create({ ttl: { ttl: 7, strategy: "delete" } });
    const [one, two] = [await http("GET", `/threads/${a}?include=ttl`), await http("GET", `/threads/${b}?include=ttl`)];
    has(one.json.ttl, { ttl_minutes: 5, strategy: "delete" });
    ok(isTime(one.json.ttl.expires_at), "expires_at");
    has(two.json.ttl, { ttl_minutes: 7 });
    same((await http("GET", `/threads/${a}`)).json.ttl, undefined);
  },
  { deviates: "has no expiry of threads in memory" },
);

check("threads.create_supersteps", async ({ client }) => {
  const supersteps = [
    { updates: [{ values: { target: "left" }, asNode: "__input__" }] },
    { updates: [{ values: { target: "left" }, asNode: "__start__" }] },
    { updates: [{ values: { path: ["route"] }, command: { goto: "left", update: { path: ["route"] } }, asNode: "route" }] },
    { updates: [{ values: { path: ["left"] }, asNode: "left" }] },
  ].map((s) => ({ updates: s.updates.map((u) => (u.command ? { command: u.command, asNode: u.asNode } : u)) }));
  const { thread_id: id } = await client.threads.create({ graphId: "router", supersteps });
  const state = await client.threads.getState(id);
  same(state.values, { target: "left", path: ["route", "left"] });
  same(state.next, []);
  same((await client.threads.getHistory(id)).length, 4);
});

check("threads.create_supersteps_without_graph", async ({ http }) => {
  const res = await http("POST", "/threads", { supersteps: [{ updates: [{ values: {}, as_node: "__start__" }] }] });
  ok(typeof res.json.detail === "string", "it says what is missing");
});

check("threads.get_unknown", async ({ client }) => fails(client.threads.get(unknown), 404));

check("threads.after_a_run", async ({ client, thread }) => {
  const id = await thread("router", { target: "right" });
  const t = await client.threads.get(id);
  has(t, { status: "idle", metadata: { graph_id: "router", assistant_id: idOf("router") }, interrupts: {} });
  same(t.values, { target: "right", path: ["route", "right"] });
});

check("threads.status_interrupted", async ({ client, thread }) => {
  const t = await client.threads.get(await thread("hitl", { topic: "cats" }));
  same(t.status, "interrupted");
  const [pauses] = Object.values(t.interrupts);
  has(pauses, [{ value: { question: "approve?", topic: "cats" } }]);
  ok(/^[0-9a-f]{32}$/.test(pauses[0].id), "id");
});

check("threads.status_error", async ({ client, thread }) => {
  const t = await client.threads.get(await thread("failing", { message: "m" }));
  same(t.status, "error");
  same(t.values, { message: "m", prepared: true });
});

check("threads.status_busy", async ({ client, thread, ended }) => {
  const id = await thread();
  const run = await client.runs.create(id, "slow", { input: { count: 2, delay_ms: 1500 } });
  same((await client.threads.get(id)).status, "busy");
  await ended(id, run.run_id);
  same((await client.threads.get(id)).status, "idle");
});

check("threads.update_merges_metadata", async ({ client }) => {
  const { thread_id: id } = await client.threads.create({ metadata: { a: 1, b: 1 } });
  has(await client.threads.update(id, { metadata: { b: 2, c: 3 } }), { thread_id: id, metadata: { a: 1, b: 2, c: 3 } });
  same((await client.threads.get(id)).metadata, { a: 1, b: 2, c: 3 });
});

check(
  "threads.update_ttl",
  async ({ client, http }) => {
    const { thread_id: id } = await client.threads.create();
    await client.threads.update(id, { metadata: {}, ttl: 9 });
    has((await http("GET", `/threads/${id}?include=ttl`)).json.ttl, { ttl_minutes: 9 });
  },
  { deviates: "has no expiry of threads in memory" },
);

check("threads.update_minimal", async ({ client, http, sdk }) => {
  const { thread_id: id } = await client.threads.create();
  same((await http("PATCH", `/threads/${id}`, { metadata: { a: 1 } }, { prefer: "return=minimal" })).status, 204);
  if (sdk === 1) same(await client.threads.update(id, { metadata: { b: 1 }, returnMinimal: true }), undefined);
  has((await client.threads.get(id)).metadata, { a: 1 });
});

check("threads.update_unknown", async ({ client }) => fails(client.threads.update(unknown, { metadata: {} }), 404));

check("threads.delete", async ({ client, thread }) => {
  const id = await thread("router", {});
  await client.threads.delete(id);
  await fails(client.threads.get(id), 404);
  await fails(client.threads.getState(id), 404);
  await fails(client.threads.delete(id), 404);
});

check("threads.copy", async ({ client, thread }) => {
  const id = await thread("router", { target: "left" });
  await client.threads.update(id, { metadata: { mine: 1 } });
  const copy = await client.threads.copy(id);
  ok(copy.thread_id !== id, "same id");
  const [a, b] = [await client.threads.getState(id), await client.threads.getState(copy.thread_id)];
  same(b.values, a.values);
  same(b.checkpoint.thread_id, copy.thread_id);
  same((await client.threads.getHistory(copy.thread_id)).length, (await client.threads.getHistory(id)).length);
  has((await client.threads.get(copy.thread_id)).metadata, { mine: 1, graph_id: "router" });
});

check("threads.copy_is_independent", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "x" });
  const { thread_id: copy } = await client.threads.copy(id);
  await client.runs.wait(copy, "hitl", { command: { resume: 1 } });
  same((await client.threads.getState(copy)).next, []);
  same((await client.threads.getState(id)).next, ["review"]);
  await client.threads.delete(id);
  same((await client.threads.getState(copy)).values.log.at(-1), "finished");
});

check("threads.copy_unknown", async ({ client }) => fails(client.threads.copy(unknown), 404, 409));

check("threads.search_by_metadata", async ({ client }) => {
  const tag = uuid();
  const a = await client.threads.create({ metadata: { tag, deep: { x: 1, y: 2 } } });
  await client.threads.create({ metadata: { tag, deep: { x: 2 } } });
  same((await client.threads.search({ metadata: { tag, deep: { x: 1 } } })).map((t) => t.thread_id), [a.thread_id]);
  same((await client.threads.search({ metadata: { tag } })).length, 2);
  same(await client.threads.search({ metadata: { tag: uuid() } }), []);
});

check("threads.search_by_ids", async ({ client }) => {
  const ids = [];
  for (let i = 0; i < 3; i++) ids.push((await client.threads.create()).thread_id);
  const found = await client.threads.search({ ids: [ids[0], ids[2], unknown] });
  same(found.map((t) => t.thread_id).sort(), [ids[0], ids[2]].sort());
}, { sdk: 1 });

check("threads.search_by_ids_over_http", async ({ client, http }) => {
  const { thread_id: id } = await client.threads.create();
  same((await http("POST", "/threads/search", { ids: [id] })).json.map((t) => t.thread_id), [id]);
});

check("threads.search_by_status", async ({ client }) => {
  const tag = uuid();
  const make = async (graph, input) => {
    const { thread_id: id } = await client.threads.create({ metadata: { tag } });
    await client.runs.wait(id, graph, { input, raiseError: false });
    return id;
  };
  const [idle, interrupted, error] = await Promise.all([make("router", {}), make("hitl", { topic: "t" }), make("failing", { message: "m" })]);
  const by = async (status) => (await client.threads.search({ metadata: { tag }, status })).map((t) => t.thread_id);
  same([await by("idle"), await by("interrupted"), await by("error"), await by("busy")], [[idle], [interrupted], [error], []]);
});

check("threads.search_by_values", async ({ client }) => {
  const tag = uuid();
  for (const target of ["left", "right"]) {
    const { thread_id: id } = await client.threads.create({ metadata: { tag } });
    await client.runs.wait(id, "router", { input: { target, x: { deep: 1, more: 2 } } });
  }
  const found = await client.threads.search({ metadata: { tag }, values: { target: "right", x: { deep: 1 } } });
  same(found.map((t) => t.values.target), ["right"]);
  same(await client.threads.search({ metadata: { tag }, values: { target: "up" } }), []);
}, { sdk: 1 });

check("threads.search_by_values_over_http", async ({ client, http }) => {
  const tag = uuid();
  const { thread_id: id } = await client.threads.create({ metadata: { tag } });
  await client.runs.wait(id, "router", { input: { target: "right" } });
  const res = await http("POST", "/threads/search", { metadata: { tag }, values: { target: "right" } });
  same(res.json.map((t) => t.thread_id), [id]);
});

check(
  "threads.search_by_values_alone",
  async ({ client, http }) => {
    const target = uuid();
    const { thread_id: id } = await client.threads.create();
    await client.threads.create(); // without values
    await client.runs.wait(id, "router", { input: { target } });
    const res = await http("POST", "/threads/search", { values: { target } });
    same(res.json.map((t) => t.thread_id), [id]);
  },
  { deviates: "fails as soon as it meets a thread without values" },
);

check("threads.search_sorts", async ({ client }) => {
  const tag = uuid();
  const ids = [];
  for (let n = 0; n < 3; n++) {
    ids.push((await client.threads.create({ metadata: { tag, n } })).thread_id);
    await sleep(5);
  }
  await client.threads.update(ids[0], { metadata: { touched: true } });
  const by = async (query) => (await client.threads.search({ metadata: { tag }, ...query })).map((t) => t.thread_id);
  same(await by({ sortBy: "created_at", sortOrder: "asc" }), ids);
  same(await by({ sortBy: "created_at", sortOrder: "desc" }), ids.toReversed());
  same(await by({ sortBy: "thread_id", sortOrder: "asc" }), ids.toSorted());
  same((await by({ sortBy: "updated_at", sortOrder: "desc" }))[0], ids[0]);
  same(await by({ sortBy: "created_at", sortOrder: "asc", limit: 1, offset: 1 }), [ids[1]]);
  same((await by({ sortBy: "status", sortOrder: "asc" })).length, 3);
  same((await by({ sortBy: "state_updated_at", sortOrder: "asc" })).length, 3);
  same((await by({})).length, 3);
});

check("threads.search_select", async ({ client }) => {
  const tag = uuid();
  await client.threads.create({ metadata: { tag } });
  const [t] = await client.threads.search({ metadata: { tag }, select: ["thread_id", "status"] });
  same(Object.keys(t).sort(), ["status", "thread_id"]);
});

check("threads.search_extract", async ({ client, thread, http }) => {
  const id = await thread("router", { target: "left" });
  const extract = { last: "values.path[-1]", first: "values.path[0]", target: "values.target", graph: "metadata.graph_id" };
  const res = await http("POST", "/threads/search", { ids: [id], select: ["thread_id"], extract });
  same(res.json, [{ thread_id: id, extracted: { last: "left", first: "route", target: "left", graph: "router" } }]);
});

check("threads.search_pagination_headers", async ({ client, http }) => {
  const tag = uuid();
  for (let i = 0; i < 3; i++) await client.threads.create({ metadata: { tag } });
  const page = (offset) => http("POST", "/threads/search", { metadata: { tag }, limit: 2, offset });
  const [first, last] = [await page(0), await page(2)];
  same([first.json.length, first.headers.get("x-pagination-next")], [2, "2"]);
  same([last.json.length, last.headers.get("x-pagination-next"), last.headers.get("x-pagination-total")], [1, null, "3"]);
});

check("threads.search_limit_is_checked", async ({ http }) => {
  isDetail(await http("POST", "/threads/search", { limit: 0 }), 422);
  isDetail(await http("POST", "/threads/search", { limit: 1001 }), 422);
  isDetail(await http("POST", "/threads/search", { offset: -1 }), 422);
});

check("threads.count", async ({ client }) => {
  const tag = uuid();
  const { thread_id: id } = await client.threads.create({ metadata: { tag } });
  await client.threads.create({ metadata: { tag, second: true } });
  await client.runs.wait(id, "hitl", { input: { topic: "t" } });
  same(await client.threads.count({ metadata: { tag } }), 2);
  same(await client.threads.count({ metadata: { tag, second: true } }), 1);
  same(await client.threads.count({ metadata: { tag }, status: "interrupted" }), 1);
});

check("threads.count_by_values", async ({ client, http }) => {
  const tag = uuid();
  const { thread_id: id } = await client.threads.create({ metadata: { tag } });
  await client.runs.wait(id, "router", { input: { target: "right" } });
  same((await http("POST", "/threads/count", { metadata: { tag }, values: { target: "right" } })).json, 1);
});

check("threads.prune", async ({ client, thread }) => {
  const ids = [await thread("router", {}), await thread()];
  has(await client.threads.prune([...ids, unknown]), { pruned_count: 2 });
  for (const id of ids) await fails(client.threads.get(id), 404);
}, { sdk: 1 });

check(
  "threads.prune_keep_latest",
  async ({ client, thread }) => {
    const id = await thread("router", { target: "left" });
    has(await client.threads.prune([id], { strategy: "keep_latest" }), { pruned_count: 1 });
    same((await client.threads.getState(id)).values, { target: "left", path: ["route", "left"] });
    same((await client.threads.getHistory(id)).length, 1);
  },
  { sdk: 1, deviates: "cannot do so in memory" },
);

check("threads.storage", async ({ http, thread }) => {
  const id = await thread("router", {});
  const { json } = await http("GET", `/threads/${id}/storage`);
  has(json, { thread_id: id, checkpoints: { count: 4 } });
  ok(json.total_bytes > 0, "total_bytes");
});

check("threads.join_stream", async ({ client, thread }) => {
  const id = await thread();
  const stop = new AbortController();
  const seen = [];
  const reading = (async () => {
    try {
      for await (const part of client.threads.joinStream(id, { signal: stop.signal })) {
        seen.push(part);
        if (part.data?.status === "run_done") break;
      }
    } catch (err) {
      if (!stop.signal.aborted) throw err;
    }
  })();
  await until(() => answered.has(`/threads/${id}/stream`), "the stream");
  await collect(client.runs.stream(id, "router", { input: { target: "left" } }));
  await Promise.race([reading, sleep(20000)]);
  stop.abort();
  same(seen.filter((p) => p.event === "values").map((p) => p.data.path), [[], ["route"], ["route", "left"]]);
  same(seen.filter((p) => p.event === "metadata").map((p) => p.data.status ?? "begun"), ["begun", "run_done"]);
});

check("threads.join_stream_replays", async ({ client, thread, sse }) => {
  const id = await thread();
  await collect(client.runs.stream(id, "router", { input: { target: "left" }, streamResumable: true }));
  const stream = await sse("GET", `/threads/${id}/stream`, undefined, { "last-event-id": "-" });
  await stream.until((f) => f.data?.status === "run_done", "the end of the run");
  same(stream.frames.map((f) => f.event), ["metadata", "values", "values", "values", "metadata"]);
  ok(stream.frames.every((f) => f.id), "ids");
});

check("threads.search_rejects_invalid_extract", async ({ http }) => {
  for (const path of ["status", "thread_id", ".values", "valuesx", ""]) {
    const res = await http("POST", "/threads/search", { limit: 1, extract: { a: path } });
    same(res.status, 422);
  }
  for (const path of ["values", "metadata", "interrupts", "config", "values.a[0]"]) {
    const res = await http("POST", "/threads/search", { limit: 1, extract: { a: path } });
    same(res.status, 200);
  }
});

check("threads.join_stream_modes_take_precedence", async ({ client, thread, sse }) => {
  const id = await thread();
  await collect(client.runs.stream(id, "router", { input: {}, streamResumable: true }));
  for (const modes of ["lifecycle", "lifecycle,state_update"]) {
    const stream = await sse("GET", `/threads/${id}/stream?stream_modes=${modes}&stream_mode=run_modes`, undefined, { "last-event-id": "0" });
    await stream.until((f) => f.data?.status === "run_done", "the end of the run");
    same(stream.frames.map((f) => f.event), ["metadata", "metadata"]);
  }
});

check("threads.join_stream_lifecycle", async ({ client, thread, sse }) => {
  const id = await thread();
  const stream = await sse("GET", `/threads/${id}/stream?stream_modes=lifecycle&stream_mode=lifecycle`);
  await sleep(200);
  await collect(client.runs.stream(id, "router", { input: {}, streamResumable: true }));
  await stream.until((f) => f.data?.status === "run_done", "the end of the run");
  same(stream.frames.map((f) => f.event), ["metadata", "metadata"]);
});
