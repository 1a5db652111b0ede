// client.runs: create, wait, list, get, join, delete, and the fields of the payload

import { check, collect, fails, has, idOf, isDetail, isTime, isUUID, ok, same, sleep, unknown, uuid } from "./kit.mjs";

check("runs.create", async ({ client, thread, ended }) => {
  const id = await thread();
  const run = await client.runs.create(id, "router", { input: { target: "right" }, metadata: { m: 1 } });
  ok(isUUID(run.run_id) && isTime(run.created_at) && isTime(run.updated_at), "ids and times");
  has(run, { thread_id: id, assistant_id: idOf("router"), multitask_strategy: "enqueue", metadata: { m: 1, graph_id: "router", assistant_id: idOf("router") } });
  ok(["pending", "running"].includes(run.status), run.status);
  has(run.kwargs, { input: { target: "right" } });
  has(await ended(id, run.run_id), { run_id: run.run_id, status: "success" });
  same((await client.threads.getState(id)).values.path, ["route", "right"]);
});

check("runs.create_reports_the_run", async ({ client, thread }) => {
  const id = await thread();
  let seen;
  const run = await client.runs.create(id, "router", { input: {}, onRunCreated: (r) => (seen = r) });
  same(seen, { run_id: run.run_id, thread_id: id });
});

check("runs.create_stateless", async ({ client }) => {
  let seen;
  const run = await client.runs.create(null, "router", { input: {}, onRunCreated: (r) => (seen = r) });
  ok(isUUID(run.run_id) && isUUID(run.thread_id), "ids");
  same(seen.run_id, run.run_id);
});

check("runs.wait", async ({ client, thread }) => {
  const id = await thread();
  let seen;
  const out = await client.runs.wait(id, "router", { input: { target: "right" }, onRunCreated: (r) => (seen = r) });
  same(out, { target: "right", path: ["route", "right"] });
  same(seen.thread_id, id);
  same((await client.runs.get(id, seen.run_id)).status, "success");
});

check("runs.wait_stateless", async ({ client }) => {
  same(await client.runs.wait(null, "router", { input: { target: "left" } }), { target: "left", path: ["route", "left"] });
});

check("runs.wait_by_assistant_id", async ({ client }) => {
  same((await client.runs.wait(null, idOf("fanout"), { input: {} })).summary, "A,B,C");
});

check("runs.wait_headers", async ({ http, thread }) => {
  const id = await thread();
  const res = await http("POST", `/threads/${id}/runs/wait`, { assistant_id: "router", input: {} });
  ok(res.headers.get("content-type").startsWith("application/json"), "content type");
  const at = res.headers.get("content-location");
  ok(new RegExp(`^/threads/${id}/runs/[0-9a-f-]{36}$`).test(at), `content-location ${at}`);
  same(res.headers.get("location"), `${at}/join`);
});

check("runs.wait_raises", async ({ client, thread }) => {
  const err = await fails(client.runs.wait(await thread(), "failing", { input: { message: "m" } }));
  ok(err.message.includes("boom: m"), err.message);
});

check("runs.wait_returns_the_error", async ({ client, thread }) => {
  const id = await thread();
  const out = await client.runs.wait(id, "failing", { input: { message: "m" }, raiseError: false });
  has(out.__error__, { message: "boom: m" });
  ok(typeof out.__error__.error === "string", "class");
  const [run] = await client.runs.list(id);
  same(run.status, "error");
});

check("runs.wait_at_an_interrupt", async ({ client, thread }) => {
  const out = await client.runs.wait(await thread(), "hitl", { input: { topic: "cats" } });
  has(out.__interrupt__, [{ value: { question: "approve?", topic: "cats" } }]);
  has(out, { topic: "cats", log: ["proposed:cats"] });
});

check("runs.wait_at_a_breakpoint", async ({ client, thread }) => {
  same(await client.runs.wait(await thread(), "router", { input: {}, interruptBefore: ["left"] }), { path: ["route"] });
});

check("runs.a_stop_at_an_interrupt_is_success", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "t" });
  same((await client.runs.list(id))[0].status, "success");
});

check("runs.messages_are_coerced", async ({ client, thread }) => {
  const id = await thread();
  for (const messages of [[{ role: "user", content: "a" }], [{ type: "human", content: "b" }], [["human", "c"]]]) {
    await client.runs.wait(id, "agent", { input: { messages } });
  }
  const { values } = await client.threads.getState(id);
  same(values.messages.map((m) => [m.type, m.content]), [
    ["human", "a"], ["ai", "Echo: a"], ["human", "b"], ["ai", "Echo: b"], ["human", "c"], ["ai", "Echo: c"],
  ]);
  ok(values.messages.every((m) => m.id), "ids");
});

check("runs.messages_replace_by_id", async ({ client, thread }) => {
  const id = await thread("agent", { messages: [{ role: "user", content: "a", id: "h1" }] });
  await client.threads.updateState(id, { values: { messages: [{ role: "user", content: "changed", id: "h1" }] }, asNode: "agent" });
  same((await client.threads.getState(id)).values.messages.map((m) => m.content), ["changed", "Echo: a"]);
});

check("runs.messages_are_removed", async ({ client, thread }) => {
  const id = await thread("agent", { messages: [{ role: "user", content: "a", id: "h1" }] });
  await client.threads.updateState(id, { values: { messages: [{ type: "remove", id: "h1", content: "" }] }, asNode: "agent" });
  same((await client.threads.getState(id)).values.messages.map((m) => m.content), ["Echo: a"]);
});

check("runs.agent_calls_its_tool", async ({ client, thread }) => {
  const out = await client.runs.wait(await thread(), "agent", { input: { messages: [{ role: "user", content: "what is the weather" }] } });
  same(out.messages.map((m) => [m.type, m.content]), [
    ["human", "what is the weather"], ["ai", ""], ["tool", "sunny in Paris"], ["ai", "It is sunny in Paris today."],
  ]);
  has(out.messages[1].tool_calls, [{ id: "call_weather_1", name: "get_weather", args: { city: "Paris" } }]);
  has(out.messages[2], { name: "get_weather", tool_call_id: "call_weather_1" });
});

check("runs.batch", async ({ client }) => {
  const runs = await client.runs.createBatch([
    { assistantId: "router", input: { target: "left" } },
    { assistantId: "fanout", input: {} },
  ]);
  same(runs.map((r) => r.assistant_id), [idOf("router"), idOf("fanout")]);
  ok(runs.every((r) => isUUID(r.run_id)), "ids");
});

check("runs.batch_is_not_empty", async ({ http }) => isDetail(await http("POST", "/runs/batch", []), 422));

check("runs.list", async ({ client, thread, http }) => {
  const id = await thread();
  for (let n = 0; n < 3; n++) await client.runs.wait(id, "router", { input: {}, metadata: { n } });
  await client.runs.wait(id, "failing", { input: {}, raiseError: false });
  const ns = (runs) => runs.map((r) => r.metadata.n ?? "failed");
  same(ns(await client.runs.list(id)), ["failed", 2, 1, 0]);
  same(ns(await client.runs.list(id, { limit: 2, offset: 1 })), [2, 1]);
  same(ns(await client.runs.list(id, { status: "error" })), ["failed"]);
  same(ns(await client.runs.list(id, { status: "success", limit: 1 })), [2]);
  const res = await http("GET", `/threads/${id}/runs?limit=1&select=run_id&select=status`);
  same(Object.keys(res.json[0]).sort(), ["run_id", "status"]);
});

check("runs.list_select", async ({ client, thread }) => {
  const id = await thread("router", {});
  const [run] = await client.runs.list(id, { select: ["run_id", "kwargs"] });
  same(Object.keys(run).sort(), ["kwargs", "run_id"]);
}, { sdk: 1 });

check("runs.list_select_as_json", async ({ http, thread }) => {
  const id = await thread("router", {});
  const res = await http("GET", `/threads/${id}/runs?select=${encodeURIComponent('["run_id","status"]')}`);
  same(Object.keys(res.json[0]).sort(), ["run_id", "status"]);
}, { deviates: "takes lists in queries only as repeated parameters" });

check("runs.list_of_an_unknown_thread", async ({ client }) => fails(client.runs.list(unknown), 404));

check("runs.get_unknown", async ({ client, thread }) => {
  await fails(client.runs.get(await thread(), unknown), 404);
  await fails(client.runs.get(unknown, unknown), 404);
});

check("runs.join", async ({ client, thread }) => {
  const id = await thread();
  const run = await client.runs.create(id, "slow", { input: { count: 2, delay_ms: 50, label: "j" } });
  same((await client.runs.join(id, run.run_id)).ticks, ["j0", "j1"]);
  same((await client.runs.join(id, run.run_id)).ticks, ["j0", "j1"], "joined after its end");
});

check("runs.join_of_an_error", async ({ client, thread }) => {
  const id = await thread();
  const run = await client.runs.create(id, "failing", { input: { message: "j" } });
  const out = await client.runs.join(id, run.run_id);
  ok(JSON.stringify(out).includes("boom: j") || out.prepared === true, JSON.stringify(out));
});

check("runs.delete", async ({ client, thread }) => {
  const id = await thread();
  await client.runs.wait(id, "router", { input: { x: 1 } });
  const [run] = await client.runs.list(id);
  await client.runs.delete(id, run.run_id);
  await fails(client.runs.get(id, run.run_id), 404);
  same(await client.runs.list(id), []);
  await fails(client.runs.delete(id, run.run_id), 404);
});

check("runs.unknown_thread", async ({ client }) => {
  await fails(client.runs.create(unknown, "router", { input: {} }), 404);
  await fails(client.runs.wait(unknown, "router", { input: {} }), 404);
  await fails(collect(client.runs.stream(unknown, "router", { input: {} })), 404);
  await fails(client.runs.create(unknown, "router", { input: {}, ifNotExists: "reject" }), 404);
});

check("runs.if_not_exists_create", async ({ client }) => {
  const id = uuid();
  same((await client.runs.wait(id, "router", { input: {}, ifNotExists: "create" })).path, ["route", "left"]);
  same((await client.threads.get(id)).status, "idle");
  const other = uuid();
  await client.runs.create(other, "router", { input: {}, ifNotExists: "create" });
  await collect(client.runs.stream(uuid(), "router", { input: {}, ifNotExists: "create" }));
  same((await client.threads.get(other)).thread_id, other);
});

check("runs.unknown_assistant", async ({ client, thread }) => {
  await fails(client.runs.wait(null, "nope", { input: {} }), 404, 422);
  await fails(client.runs.wait(null, unknown, { input: {} }), 404);
  await fails(client.runs.create(await thread(), "nope", { input: {} }), 404, 422);
});

check("runs.config_configurable_and_tags", async ({ client, thread }) => {
  const id = await thread();
  const { seen } = await client.runs.wait(id, "configurable", { input: { note: "n" }, config: { configurable: { model: "m" }, tags: ["a", "b"] } });
  has(seen, { model: "m", thread_id: id, graph_id: "configurable", assistant_id: idOf("configurable"), tier: null });
  same(seen.tags.filter((x) => ["a", "b"].includes(x)), ["a", "b"]);
  const [run] = await client.runs.list(id);
  same(seen.run_id, run.run_id);
});

check("runs.context", async ({ client }) => {
  has((await client.runs.wait(null, "configurable", { input: {}, context: { tier: "gold" } })).seen, { tier: "gold", region: null });
});

check(
  "runs.config_and_context",
  async ({ client }) => {
    const out = await client.runs.wait(null, "configurable", { input: {}, config: { configurable: { model: "m" } }, context: { tier: "gold" } });
    has(out.seen, { model: "m", tier: "gold" });
  },
  { deviates: "refuses configurable and context together" },
);

check("runs.recursion_limit", async ({ client }) => {
  const err = await fails(client.runs.wait(null, "slow", { input: { count: 9, delay_ms: 0 }, config: { recursion_limit: 4 } }));
  ok(/recursion/i.test(err.message), err.message);
});

check("runs.metadata_reaches_checkpoints", async ({ client, thread }) => {
  const id = await thread();
  await client.runs.wait(id, "router", { input: {}, metadata: { origin: "check", n: 1 } });
  has((await client.threads.getState(id)).metadata, { origin: "check", n: 1 });
  has((await client.runs.list(id))[0].metadata, { origin: "check", n: 1 });
});

check("runs.headers_reach_the_graph", async ({ newClient }) => {
  const client = newClient({ defaultHeaders: { "x-harness": "yes", "x-api-key": "secret" } });
  has((await client.runs.wait(null, "configurable", { input: {} })).seen, { header: "yes", api_key: null });
});

check("runs.interrupt_before_and_after", async ({ client, thread }) => {
  const id = await thread();
  await client.runs.wait(id, "router", { input: {}, interruptBefore: ["left"] });
  same((await client.threads.getState(id)).next, ["left"]);
  same((await client.threads.get(id)).status, "interrupted");
  same((await client.runs.wait(id, "router", { input: null })).path, ["route", "left"]);
  const other = await thread();
  await client.runs.wait(other, "router", { input: {}, interruptAfter: ["route"] });
  same((await client.threads.getState(other)).next, ["left"]);
});

check("runs.interrupt_before_all", async ({ client, thread }) => {
  const id = await thread();
  const nexts = [];
  let input = { target: "left" };
  for (let i = 0; i < 3; i++) {
    await client.runs.wait(id, "router", { input, interruptBefore: "*" });
    nexts.push((await client.threads.getState(id)).next);
    input = null;
  }
  same(nexts, [["route"], ["left"], []]);
});

check("runs.interrupt_after_all", async ({ client, thread }) => {
  const id = await thread();
  await client.runs.wait(id, "hitl", { input: { topic: "t" }, interruptAfter: "*" });
  same((await client.threads.getState(id)).next, ["review"]);
  same((await client.threads.getState(id)).tasks[0].interrupts, []);
});

check("runs.checkpoint_id_forks", async ({ client, thread }) => {
  const id = await thread("router", { target: "left" });
  const past = (await client.threads.getHistory(id)).find((s) => s.metadata.step === 1);
  same((await client.runs.wait(id, "router", { input: null, checkpointId: past.checkpoint.checkpoint_id })).path, ["route", "left"]);
  const head = await client.threads.getState(id);
  const history = await client.threads.getHistory(id, { limit: 20 });
  same(history.length, 5 + (history.some((s) => s.metadata.source === "fork") ? 1 : 0));
  ok(head.checkpoint.checkpoint_id !== history.at(-4).checkpoint.checkpoint_id, "the head moved");
});

check("runs.checkpoint_with_input", async ({ client, thread }) => {
  const id = await thread("router", { target: "left" });
  await client.runs.wait(id, "router", { input: { target: "right" } });
  const first = (await client.threads.getHistory(id, { limit: 20 })).find((s) => s.metadata.step === 2);
  const out = await client.runs.wait(id, "router", { input: { target: "left" }, checkpoint: first.checkpoint });
  same(out.path, ["route", "left", "route", "left"]);
});

check("runs.new_input_on_an_interrupted_thread", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "cats" });
  const out = await client.runs.wait(id, "hitl", { input: { topic: "dogs" } });
  same(out.log, ["proposed:cats", "proposed:dogs"]);
});

check("runs.durability", async ({ client, thread }) => {
  const count = async (options) => {
    const id = await thread();
    await client.runs.wait(id, "router", { input: {}, ...options });
    return (await client.threads.getHistory(id)).length;
  };
  same(await count({ durability: "sync" }), 4);
  same(await count({ durability: "async" }), 4);
  same(await count({ durability: "exit" }), 1);
});

check("runs.checkpoint_during", async ({ client, thread }) => {
  const id = await thread();
  await client.runs.wait(id, "router", { input: {}, checkpointDuring: false });
  same((await client.threads.getHistory(id)).length, 1);
  const other = await thread();
  await client.runs.wait(other, "router", { input: {}, checkpointDuring: true });
  same((await client.threads.getHistory(other)).length, 4);
});

check("runs.after_seconds", async ({ client, thread, ended }) => {
  const id = await thread();
  const began = Date.now();
  const run = await client.runs.create(id, "router", { input: {}, afterSeconds: 2 });
  await sleep(300);
  same((await client.runs.get(id, run.run_id)).status, "pending");
  same((await ended(id, run.run_id)).status, "success");
  ok(Date.now() - began >= 1900, `it ran after ${Date.now() - began} ms`);
});

check("runs.webhook", async ({ client, thread, receiver }) => {
  const hook = await receiver();
  const id = await thread();
  const run = await client.runs.create(id, "router", { input: { target: "right" }, webhook: hook.url, metadata: { w: 1 } });
  const { body, method } = await hook.first();
  same(method, "POST");
  has(body, { run_id: run.run_id, thread_id: id, status: "success", values: { path: ["route", "right"] }, metadata: { w: 1 } });
  ok(isTime(body.run_started_at) && isTime(body.run_ended_at) && isTime(body.webhook_sent_at), "times");
});

check("runs.webhook_of_a_failure", async ({ client, thread, receiver }) => {
  const hook = await receiver();
  await client.runs.wait(await thread(), "failing", { input: { message: "w" }, webhook: hook.url, raiseError: false });
  const { body } = await hook.first();
  same(body.status, "error");
  ok(JSON.stringify(body.error).includes("boom: w"), "error");
});

check("runs.webhook_of_a_stateless_stream", async ({ client, receiver }) => {
  const hook = await receiver();
  await collect(client.runs.stream(null, "router", { input: {}, webhook: hook.url }));
  same((await hook.first()).body.status, "success");
});

check("runs.on_completion_keep", async ({ client, http }) => {
  let seen;
  await client.runs.wait(null, "router", { input: { target: "right" }, onCompletion: "keep", onRunCreated: (r) => (seen = r) });
  // SDK 2.0.0 does not send the field when it creates a run.
  const run = (await http("POST", "/runs", { assistant_id: "router", input: {}, on_completion: "keep" })).json;
  await client.runs.join(run.thread_id, run.run_id);
  same((await client.threads.getState(run.thread_id)).values.path, ["route", "left"]);
  ok(seen.run_id, "run id");
});

check("runs.on_completion_delete", async ({ client, until }) => {
  const run = await client.runs.create(null, "router", { input: {}, onCompletion: "delete" });
  await until(() => client.threads.get(run.thread_id).then(() => false, () => true), "the thread to go");
});

check("runs.feedback_keys_are_accepted", async ({ client, thread }) => {
  const frames = await collect(client.runs.stream(await thread(), "router", { input: { target: "left" }, feedbackKeys: ["good"] }));
  same(frames.filter((f) => f.event === "values").length, 3);
  same(frames.filter((f) => f.event === "error"), []);
}, { deviates: "asks LangSmith for addresses and fails without it" });

check("runs.langsmith_tracer_is_accepted", async ({ client, thread }) => {
  const out = await client.runs.wait(await thread(), "router", { input: {}, _langsmithTracer: { projectName: "p", exampleId: uuid() } });
  same(out.path, ["route", "left"]);
});

check("runs.input_types", async ({ client, thread }) => {
  const id = await thread();
  const x = { text: "ü\u2028\n", list: [1, 2.5, null, true], big: 9007199254740991, "a.b": "dot" };
  same((await client.runs.wait(id, "router", { input: { x } })).x, x);
  same((await client.threads.get(id)).values.x, x);
});

check("runs.nul_is_kept", async ({ client, thread }) => {
  same((await client.runs.wait(await thread(), "router", { input: { x: "a\u0000b" } })).x, "a\u0000b");
}, { deviates: "replaces it" });

check("runs.no_input_on_a_new_thread", async ({ client, thread }) => {
  const out = await client.runs.wait(await thread(), "router", { input: null, raiseError: false });
  ok(out.__error__, JSON.stringify(out));
});

check("runs.input_that_is_no_object", async ({ client, thread }) => {
  const id = await thread();
  const out = await client.runs.wait(id, "router", { input: "text", raiseError: false }).catch((err) => err);
  ok(out instanceof Error || out.__error__, JSON.stringify(out));
});

check("runs.store_is_shared_with_graphs", async ({ client }) => {
  const user = uuid();
  same((await client.runs.wait(null, "memory", { input: { user, fact: "likes tea" } })).recalled, ["likes tea"]);
  has(await client.store.getItem(["harness_memories", user], "fact"), { value: { text: "likes tea" } });
  await client.store.putItem(["harness_memories", user], "more", { text: "and owls" });
  same((await client.runs.wait(null, "memory", { input: { user } })).recalled, ["and owls", "likes tea"]);
});

check("runs.stream_mode_and_subgraphs_are_kept", async ({ client, thread }) => {
  const run = await client.runs.create(await thread(), "router", { input: {}, streamMode: ["updates", "custom"], streamSubgraphs: true, streamResumable: true });
  has(run.kwargs, { stream_mode: ["updates", "custom"], subgraphs: true, resumable: true });
});

check("runs.concurrent_runs_on_many_threads", async ({ client }) => {
  const outs = await Promise.all(Array.from({ length: 20 }, (_, x) => client.runs.wait(null, "router", { input: { x } })));
  same(outs.map((o) => o.x), Array.from({ length: 20 }, (_, x) => x));
});
