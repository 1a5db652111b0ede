// Every field of the payload with each way to make a run: create, wait and stream

import { check, collect, has, idOf, isTime, ok, same, uuid } from "./kit.mjs";

// The ways run a graph to its end and return the run.
const ways = {
  async create(t, id, graph, options) {
    const run = await t.client.runs.create(id, graph, options);
    return t.ended(id, run.run_id);
  },
  async wait(t, id, graph, options) {
    let made;
    await t.client.runs.wait(id, graph, { raiseError: false, onRunCreated: (r) => (made = r), ...options });
    return t.client.runs.get(id, made.run_id);
  },
  async stream(t, id, graph, options) {
    let made;
    await collect(t.client.runs.stream(id, graph, { onRunCreated: (r) => (made = r), ...options }));
    return t.client.runs.get(id, made.run_id);
  },
};

const left = { target: "left" };

// The fields, each with what it does.
const fields = {
  async input(t, run) {
    const id = await t.thread();
    same((await run(id, "router", { input: { target: "right", x: [1] } })).kwargs.input, { target: "right", x: [1] });
    same((await t.client.threads.getState(id)).values, { target: "right", x: [1], path: ["route", "right"] });
  },
  async command(t, run) {
    const id = await t.thread("hitl", { topic: "t" });
    await run(id, "hitl", { command: { resume: "yes", update: { topic: "u" } } });
    has((await t.client.threads.getState(id)).values, { topic: "u", approval: "yes" });
  },
  async command_goto(t, run) {
    const id = await t.thread("router", left);
    await run(id, "router", { command: { goto: [{ node: "right", input: {} }] } });
    same((await t.client.threads.getState(id)).values.path, ["route", "left", "right"]);
  },
  async config(t, run) {
    const id = await t.thread();
    await run(id, "configurable", { input: { note: "n" }, config: { tags: ["a"], configurable: { model: "m" }, recursion_limit: 9 } });
    const { seen } = (await t.client.threads.getState(id)).values;
    same(seen.model, "m");
    ok(seen.tags.includes("a"), "tags");
  },
  async context(t, run) {
    const id = await t.thread();
    await run(id, "configurable", { input: { note: "n" }, context: { region: "eu" } });
    has((await t.client.threads.getState(id)).values.seen, { region: "eu", tier: null });
  },
  async metadata(t, run) {
    const id = await t.thread();
    has((await run(id, "router", { input: left, metadata: { m: { deep: 1 } } })).metadata, { m: { deep: 1 } });
    has((await t.client.threads.getState(id)).metadata, { m: { deep: 1 } });
  },
  async interrupt_before(t, run) {
    const id = await t.thread();
    same((await run(id, "router", { input: left, interruptBefore: ["left"] })).status, "success");
    same((await t.client.threads.getState(id)).next, ["left"]);
  },
  async interrupt_after(t, run) {
    const id = await t.thread();
    await run(id, "router", { input: left, interruptAfter: "*" });
    same((await t.client.threads.getState(id)).next, ["left"]);
  },
  async checkpoint(t, run) {
    const id = await t.thread("router", left);
    const { checkpoint } = (await t.client.threads.getHistory(id)).find((s) => s.metadata.step === 0);
    await run(id, "router", { input: { target: "right" }, checkpoint: { ...checkpoint, checkpoint_map: {} } });
    same((await t.client.threads.getState(id)).values.path.at(-1), "right");
    ok(!(await t.client.threads.getState(id)).values.path.includes("left"), "it begins before the first run's nodes");
  },
  async checkpoint_id(t, run) {
    const id = await t.thread("router", left);
    const { checkpoint } = (await t.client.threads.getHistory(id)).find((s) => s.metadata.step === 1);
    await run(id, "router", { input: null, checkpointId: checkpoint.checkpoint_id });
    same((await t.client.threads.getState(id)).values.path, ["route", "left"]);
  },
  async webhook(t, run) {
    const hook = await t.receiver();
    const made = await run(await t.thread(), "router", { input: left, webhook: hook.url });
    const { body } = await hook.first();
    has(body, { run_id: made.run_id, status: "success" });
    ok(isTime(body.run_ended_at), "run_ended_at");
  },
  async multitask_strategy(t, run) {
    for (const multitaskStrategy of ["reject", "enqueue", "interrupt", "rollback"]) {
      same((await run(await t.thread(), "router", { input: left, multitaskStrategy })).multitask_strategy, multitaskStrategy);
    }
  },
  async if_not_exists(t, run) {
    const id = uuid();
    same((await run(id, "router", { input: left, ifNotExists: "create" })).thread_id, id);
  },
  async after_seconds(t, run) {
    const began = Date.now();
    same((await run(await t.thread(), "router", { input: left, afterSeconds: 1.5 })).status, "success");
    ok(Date.now() - began >= 1400, `it ended after ${Date.now() - began} ms`);
  },
  async durability(t, run) {
    const id = await t.thread();
    await run(id, "router", { input: left, durability: "exit" });
    same((await t.client.threads.getHistory(id)).length, 1);
  },
  async checkpoint_during(t, run) {
    const id = await t.thread();
    await run(id, "router", { input: left, checkpointDuring: false });
    same((await t.client.threads.getHistory(id)).length, 1);
  },
  async stream_options(t, run) {
    const made = await run(await t.thread(), "nested", { input: { value: "s" }, streamMode: ["updates"], streamSubgraphs: true, streamResumable: true });
    same(made.status, "success");
  },
};

for (const [field, test] of Object.entries(fields)) {
  for (const [way, run] of Object.entries(ways)) {
    check(`fields.${field}_of_${way}`, (t) => test(t, (...args) => run(t, ...args)));
  }
}

// The same without a thread.
const stateless = {
  wait: (t, graph, options) => t.client.runs.wait(null, graph, options),
  async stream(t, graph, options) {
    return (await collect(t.client.runs.stream(null, graph, options))).findLast((p) => p.event === "values").data;
  },
  // Its thread is kept, to see the end. SDK 2.0.0 does not send on_completion when it creates a run.
  async create(t, graph, options) {
    const keep = (url, init) => ({ ...init, body: JSON.stringify({ ...JSON.parse(init.body), on_completion: "keep" }) });
    const run = await t.newClient({ onRequest: keep }).runs.create(null, graph, options);
    await t.ended(run.thread_id, run.run_id);
    return (await t.client.threads.getState(run.thread_id)).values;
  },
};

for (const [way, run] of Object.entries(stateless)) {
  check(`fields.stateless_${way}`, async (t) => {
    same(await run(t, "router", { input: left }), { target: "left", path: ["route", "left"] });
    const { seen } = await run(t, "configurable", {
      input: { note: "n" },
      config: { configurable: { model: "m" }, tags: ["a"] },
      metadata: { m: 1 },
      durability: "exit",
    });
    has(seen, { model: "m", graph_id: "configurable" });
    same((await run(t, "router", { input: left, interruptBefore: ["left"] })).path, ["route"]);
  });
}

check("fields.stateless_context", async (t) => {
  has((await stateless.stream(t, "configurable", { input: { note: "n" }, context: { tier: "gold" } })).seen, { tier: "gold" });
});

// Fields without a thread that the SDKs do not send everywhere, so without them. A way makes a run and returns its last values.
const bare = {
  async wait(t, body) {
    return (await t.http("POST", "/runs/wait", body)).json;
  },
  async stream(t, body) {
    const s = await t.sse("POST", "/runs/stream", body);
    return (await s.done).findLast((f) => f.event.split("|")[0] === "values" && !f.event.includes("|")).data;
  },
  async create(t, body) {
    return kept(t, (await t.http("POST", "/runs", { ...body, on_completion: "keep" })).json);
  },
  async batch(t, body) {
    return kept(t, (await t.http("POST", "/runs/batch", [{ ...body, on_completion: "keep" }])).json[0]);
  },
};

async function kept(t, run) {
  await t.ended(run.thread_id, run.run_id);
  return (await t.client.threads.getState(run.thread_id)).values;
}

const router = { assistant_id: "router", input: left };
const done = { target: "left", path: ["route", "left"] };

const bareFields = {
  command: async (t, run) => same((await run({ assistant_id: "router", command: { goto: "right" } })).path, ["right", "route", "left"]),
  context: async (t, run) => has((await run({ assistant_id: "configurable", input: { note: "n" }, context: { tier: "gold" } })).seen, { tier: "gold" }),
  interrupt_before: async (t, run) => same((await run({ ...router, interrupt_before: ["left"] })).path, ["route"]),
  interrupt_after: async (t, run) => same((await run({ ...router, interrupt_after: ["route"] })).path, ["route"]),
  async webhook(t, run) {
    const hook = await t.receiver();
    same(await run({ ...router, webhook: hook.url }), done);
    has((await hook.first()).body, { status: "success" });
  },
  async after_seconds(t, run) {
    const began = Date.now();
    same(await run({ ...router, after_seconds: 0.5 }), done);
    ok(Date.now() - began >= 450, `it ended after ${Date.now() - began} ms`);
  },
  async durability(t, run) {
    for (const durability of ["sync", "async", "exit"]) same(await run({ ...router, durability }), done, durability);
    for (const checkpoint_during of [true, false]) same(await run({ ...router, checkpoint_during }), done, checkpoint_during);
  },
  feedback_keys: async (t, run) => same(await run({ ...router, feedback_keys: ["k"] }), done),
  on_disconnect: async (t, run) => same(await run({ ...router, on_disconnect: "continue" }), done),
  on_completion: async (t, run) => same(await run({ ...router, on_completion: "keep" }), done),
  stream_options: async (t, run) =>
    has(await run({ assistant_id: "nested", input: { value: "s" }, stream_mode: ["values", "updates"], stream_subgraphs: true, stream_resumable: true }), { value: "s>before>c1>c2>after" }),
};

const bareDeviates = {
  durability: "fails a run without a thread that says sync",
  feedback_keys: "asks LangSmith for links",
};

for (const [field, test] of Object.entries(bareFields)) {
  for (const [way, run] of Object.entries(bare)) {
    check(`fields.stateless_${field}_of_${way}`, (t) => test(t, (body) => run(t, body)), { deviates: bareDeviates[field] });
  }
}

check("fields.feedback_keys", async (t) => {
  const id = await t.thread();
  const run = (await t.http("POST", `/threads/${id}/runs`, { ...router, feedback_keys: ["k"], on_disconnect: "cancel" })).json;
  same((await t.ended(id, run.run_id)).kwargs.feedback_keys, ["k"]);
  same((await t.http("POST", `/threads/${await t.thread()}/runs/wait`, { ...router, feedback_keys: ["k"] })).json, done);
}, { deviates: "asks LangSmith for links" });

check("fields.stream_options_that_wait_ignores", async (t) => {
  const body = { assistant_id: "nested", input: { value: "s" }, stream_mode: ["updates"], stream_subgraphs: true, stream_resumable: true };
  has((await t.http("POST", `/threads/${await t.thread()}/runs/wait`, body)).json, { value: "s>before>c1>c2>after" });
});

check("fields.join_of_a_stateless_run", async (t) => {
  const run = (await t.http("POST", "/runs", { ...router, on_completion: "keep" })).json;
  same((await t.http("GET", `/runs/${run.run_id}/join?cancel_on_disconnect=0`)).json, done);
}, { deviates: "joins runs by their threads only" });

check("fields.stream_mode_of_a_join_of_a_stateless_run", async (t) => {
  const body = { ...router, stream_mode: ["values", "updates"], stream_resumable: true, on_completion: "keep" };
  const run = (await t.http("POST", "/runs", body)).json;
  const s = await t.sse("GET", `/runs/${run.run_id}/stream?stream_mode=updates&cancel_on_disconnect=0`, undefined, { "last-event-id": "-1" });
  same([...new Set((await s.done).map((f) => f.event))].sort(), ["metadata", "updates"]);
}, { deviates: "joins runs by their threads only" });

check("fields.batch", async (t) => {
  const hook = await t.receiver();
  const payload = { assistant_id: "configurable", input: { note: "n" }, config: { configurable: { model: "m" } }, metadata: { n: 1 }, webhook: hook.url, on_completion: "keep" };
  const [run] = (await t.http("POST", "/runs/batch", [payload])).json;
  has((await hook.first()).body, { run_id: run.run_id, status: "success", metadata: { n: 1 } });
  same((await t.client.threads.getState(run.thread_id)).values.seen.model, "m");
});

check("fields.cron_of_a_thread", async (t) => {
  const id = await t.thread();
  const cron = await t.client.crons.createForThread(id, "router", {
    schedule: "0 0 1 1 *",
    input: left,
    config: { configurable: { model: "m" } },
    metadata: { m: 1 },
    interruptBefore: ["left"],
    interruptAfter: ["right"],
    webhook: "http://127.0.0.1:1/hook",
    multitaskStrategy: "reject",
    durability: "sync",
    enabled: false,
    streamMode: ["updates"],
    streamSubgraphs: true,
    streamResumable: true,
  });
  t.later(() => t.client.crons.delete(cron.cron_id));
  has(cron, { thread_id: id, enabled: false, metadata: { m: 1 } });
  has(cron.payload, { input: left, interrupt_before: ["left"], interrupt_after: ["right"], multitask_strategy: "reject" });
});

check("fields.cron_of_a_thread_with_an_end", async (t) => {
  const body = { assistant_id: "configurable", schedule: "0 0 1 1 *", context: { tier: "gold" }, timezone: "Europe/Paris", end_time: "2099-01-01T00:00:00Z" };
  const cron = (await t.http("POST", `/threads/${await t.thread()}/runs/crons`, body)).json;
  t.later(() => t.client.crons.delete(cron.cron_id));
  has(cron, { timezone: "Europe/Paris", payload: { context: { tier: "gold" } } });
  ok(cron.end_time.startsWith("2099-01-01T00:00:00"), cron.end_time);
});

check("fields.cron_of_an_older_client", async (t) => {
  const body = { assistant_id: "router", schedule: "0 0 1 1 *", if_not_exists: "create", checkpoint_during: true };
  const cron = (await t.http("POST", "/runs/crons", body)).json;
  t.later(() => t.client.crons.delete(cron.cron_id));
  has(cron, { schedule: "0 0 1 1 *", enabled: true });
});

check("fields.cron_count", async (t) => {
  const tag = uuid();
  const cron = await t.client.crons.create("router", { schedule: "0 0 1 1 *", metadata: { tag } });
  t.later(() => t.client.crons.delete(cron.cron_id));
  const count = async (body) => (await t.http("POST", "/runs/crons/count", { metadata: { tag }, ...body })).json;
  same([await count({}), await count({ metadata: { tag: "x" } })], [1, 0]);
});

check("fields.cron_count_enabled", async (t) => {
  const tag = uuid();
  const cron = await t.client.crons.create("router", { schedule: "0 0 1 1 *", metadata: { tag } });
  t.later(() => t.client.crons.delete(cron.cron_id));
  same((await t.http("POST", "/runs/crons/count", { metadata: { tag }, enabled: false })).json, 0);
}, { deviates: "does not count by enabled" });

check("fields.cron_update_of_the_rest", async (t) => {
  const cron = await t.client.crons.create("router", { schedule: "0 0 1 1 *" });
  t.later(() => t.client.crons.delete(cron.cron_id));
  const patch = async (body) => (await t.http("PATCH", `/runs/crons/${cron.cron_id}`, body)).json;
  has((await patch({ context: { tier: "gold" } })).payload, { context: { tier: "gold" } });
  ok((await patch({ end_time: "2099-01-01T00:00:00Z" })).end_time.startsWith("2099-01-01T00:00:00"), "end_time");
  same((await patch({ end_time: null })).end_time, null);
});

check("fields.cron_update_of_the_assistant", async (t) => {
  const cron = await t.client.crons.create("router", { schedule: "0 0 1 1 *" });
  t.later(() => t.client.crons.delete(cron.cron_id));
  const changed = (await t.http("PATCH", `/runs/crons/${cron.cron_id}`, { assistant_id: "memory", multitask_strategy: "reject" })).json;
  has(changed, { assistant_id: idOf("memory"), payload: { multitask_strategy: "reject" } });
}, { deviates: "keeps the assistant" });

check("fields.thread_count_by_ids", async (t) => {
  const ids = [await t.thread(), await t.thread()];
  same((await t.http("POST", "/threads/count", { ids })).json, 2);
}, { deviates: "does not count by ids" });

check("fields.cron_update", async (t) => {
  const cron = await t.client.crons.create("router", { schedule: "0 0 1 1 *" });
  t.later(() => t.client.crons.delete(cron.cron_id));
  const changed = await t.client.crons.update(cron.cron_id, {
    schedule: "0 0 2 2 *",
    input: left,
    config: { configurable: { model: "m" } },
    metadata: { m: 1 },
    interruptBefore: ["left"],
    interruptAfter: ["right"],
    webhook: "http://127.0.0.1:1/hook",
    onRunCompleted: "keep",
    enabled: false,
  });
  has(changed, { schedule: "0 0 2 2 *", enabled: false, metadata: { m: 1 }, on_run_completed: "keep" });
  has(changed.payload, { input: left, interrupt_before: ["left"], interrupt_after: ["right"] });
});
