// Protocol v2: client.threads.stream of SDK 1.12, and the wire below it

import { check, collect, has, ok, same, sleep, until, unknown, uuid, weather, webSocket } from "./kit.mjs";

const open = ({ client, later }, assistantId, options = {}) => {
  const thread = client.threads.stream(uuid(), { assistantId, webSocketFactory: webSocket, ...options });
  later(() => thread.close());
  return thread;
};

const command = ({ http }, thread, id, method, params) => http("POST", `/threads/${thread}/commands`, { id, method, params });
const events = ({ sse }, thread, channels, more = {}) => sse("POST", `/threads/${thread}/stream/events`, { channels, ...more });
const ended = (f) => f.event === "lifecycle" && f.data.params.namespace.length === 0 && ["completed", "failed", "interrupted"].includes(f.data.params.data.event);
const all = ["values", "updates", "messages", "tools", "lifecycle", "input", "tasks", "custom"];
const methods = (s) => s.frames.map((f) => f.data.method);
const dataOf = (s, method) => s.frames.filter((f) => f.data.method === method).map((f) => f.data.params.data);

// start runs a graph through the protocol and waits for its end.
async function start(t, graph, input, channels = all, more = {}) {
  const thread = uuid();
  const { json } = await command(t, thread, 1, "run.start", { assistant_id: graph, input });
  const s = await events(t, thread, channels.includes("lifecycle") ? channels : [...channels, "lifecycle"], more);
  await s.until(ended, "the end of the run");
  await sleep(100);
  return { thread, s, json };
}

// read reads messages until one that answers has come, and returns their texts.
async function read(messages) {
  const texts = [];
  for await (const message of messages) {
    const text = await message.text;
    if (text) texts.push(text);
    if (/^(Echo|It is)/.test(text)) return texts;
  }
  throw new Error(`the messages ended with ${JSON.stringify(texts)}`);
}

for (const transport of ["sse", "websocket"]) {
  check(`protocol.${transport}_output`, async (t) => {
    const thread = open(t, "router", { transport });
    const { run_id } = await thread.run.start({ input: { target: "right" } });
    ok(run_id, "run id");
    same(await thread.output, { target: "right", path: ["route", "right"] });
    same((await t.client.runs.get(thread.threadId, run_id)).status, "success");
  }, { sdk: 1 });

  check(`protocol.${transport}_messages`, async (t) => {
    const thread = open(t, "agent", { transport });
    const reading = read(thread.messages);
    await thread.run.start({ input: { messages: [{ role: "user", content: "hi there" }] } });
    same(await reading, ["Echo: hi there"]);
  }, { sdk: 1 });

  check(`protocol.${transport}_messages_with_tool_calls`, async (t) => {
    const thread = open(t, "agent", { transport });
    const reading = read(thread.messages);
    await thread.run.start({ input: weather });
    same((await reading).filter((x) => x.startsWith("It is")), ["It is sunny in Paris today."]);
  }, { sdk: 1, deviates: "streams tool calls as tool-call-delta, which this SDK does not know; block-delta works with all SDKs", timeout: 15000 });

  check(`protocol.${transport}_interrupt_and_respond`, async (t) => {
    const thread = open(t, "hitl", { transport });
    await thread.run.start({ input: { topic: "cats" } });
    await until(() => thread.interrupts[0], "the interrupt");
    const [pause] = thread.interrupts;
    same(pause.payload ?? pause.value, { question: "approve?", topic: "cats" });
    await thread.input.respond({ namespace: pause.namespace ?? [], interrupt_id: pause.interruptId ?? pause.interrupt_id, response: { ok: true } });
    const state = await until(async () => {
      const s = await t.client.threads.getState(thread.threadId);
      return s.next.length === 0 && s.values.approval && s;
    }, "the end");
    same(state.values.approval, { ok: true });
  }, { sdk: 1 });
}

check("protocol.values_iterate", async (t) => {
  const thread = open(t, "router");
  const reading = (async () => {
    const seen = [];
    for await (const v of thread.values) {
      seen.push(v.path);
      if (v.path.length === 2) break;
    }
    return seen;
  })();
  await thread.run.start({ input: { target: "left" } });
  same(await reading, [[], ["route"], ["route", "left"]]);
}, { sdk: 1 });

check("protocol.tool_calls", async (t) => {
  const thread = open(t, "agent");
  const reading = (async () => {
    for await (const call of thread.toolCalls) return call;
  })();
  await thread.run.start({ input: weather });
  const call = await reading;
  same([call.name, call.input], ["get_weather", { city: "Paris" }]);
  ok(JSON.stringify(await call.output).includes("sunny in Paris"), "output");
}, { sdk: 1 });

check("protocol.subgraphs", async (t) => {
  const thread = open(t, "nested");
  const reading = (async () => {
    for await (const handle of thread.subgraphs) return handle;
  })();
  await thread.run.start({ input: { value: "s" } });
  const handle = await reading;
  ok(JSON.stringify(handle.namespace ?? handle.path ?? handle.name).includes("child"), "child");
  same(await thread.output, { value: "s>before>c1>c2>after" });
}, { sdk: 1 });

check("protocol.subscribe", async (t) => {
  const thread = open(t, "custom");
  const handle = await thread.subscribe(["custom", "lifecycle"]);
  const seen = [];
  const reading = (async () => {
    for await (const event of handle) {
      seen.push(event);
      if (event.method === "lifecycle" && event.params.data.event === "completed") break;
    }
  })();
  await thread.run.start({ input: { n: 2 } });
  await reading;
  const custom = seen.filter((e) => e.method === "custom").map((e) => e.params.data.payload ?? e.params.data);
  same(custom, [0, 1].map((step) => ({ type: "progress", step, total: 2 })));
}, { sdk: 1 });

check("protocol.several_runs_on_a_thread", async (t) => {
  const thread = open(t, "router");
  await thread.run.start({ input: { target: "left" } });
  same((await thread.output).path, ["route", "left"]);
  await thread.run.start({ input: { target: "right" } });
  await until(async () => (await t.client.threads.getState(thread.threadId)).values.path.length === 4, "the second run");
}, { sdk: 1 });

check("protocol.submit_run_fork", async (t) => {
  const id = await t.thread("router", { target: "left" });
  const past = (await t.client.threads.getHistory(id)).find((s) => s.metadata.step === 0);
  const thread = t.client.threads.stream(id, { assistantId: "router" });
  t.later(() => thread.close());
  await thread.submitRun({ input: { target: "right" }, forkFrom: past.checkpoint.checkpoint_id, metadata: { forked: true } });
  const { values } = await until(async () => {
    const s = await t.client.threads.getState(id);
    return s.next.length === 0 && s.values.path.at(-1) === "right" && s;
  }, "the fork to end");
  same(values.path, ["route", "right"]);
}, { sdk: 1 });

check("protocol.failure", async (t) => {
  const { s } = await start(t, "failing", { message: "m" });
  const last = dataOf(s, "lifecycle").at(-1);
  same(last.event, "failed");
  ok(JSON.stringify(last.error).includes("boom: m"), JSON.stringify(last));
});

check("protocol.command_answer", async (t) => {
  const { json } = await start(t, "router", {});
  has(json, { type: "success", id: 1 });
  ok(json.result.run_id && json.meta, JSON.stringify(json));
});

check("protocol.envelopes", async (t) => {
  const { s } = await start(t, "router", {});
  const seqs = s.frames.map((f) => f.data.seq);
  same(seqs, seqs.toSorted((a, b) => a - b));
  for (const f of s.frames) {
    has(f.data, { type: "event", method: f.event });
    ok(f.id && f.data.event_id && Array.isArray(f.data.params.namespace) && Number.isInteger(f.data.params.timestamp), JSON.stringify(f));
  }
  same(new Set(s.frames.map((f) => f.data.event_id)).size, s.frames.length);
});

check("protocol.lifecycle", async (t) => {
  const { s } = await start(t, "router", {}, ["lifecycle"]);
  const root = s.frames.filter((f) => f.data.params.namespace.length === 0).map((f) => f.data.params.data);
  has(root, [{ event: "running", graph_name: "router" }, { event: "completed", graph_name: "router" }]);
});

check("protocol.values_and_updates", async (t) => {
  const { s } = await start(t, "router", { target: "left" }, ["values", "updates"]);
  same(dataOf(s, "values").map((v) => v.path), [[], ["route"], ["route", "left"]]);
  const updates = s.frames.filter((f) => f.data.method === "updates").map(({ data: { params } }) => (params.node ? { [params.node]: params.data } : params.data));
  same(updates, [{ route: { path: ["route"] } }, { left: { path: ["left"] } }]);
});

check("protocol.tasks", async (t) => {
  const { s } = await start(t, "fanout", { items: ["a"] }, ["tasks"]);
  same([...new Set(dataOf(s, "tasks").map((d) => d.name))], ["plan", "worker", "reduce"]);
}, { deviates: "sends none" });

check("protocol.custom", async (t) => {
  const { s } = await start(t, "custom", { n: 1 }, ["custom"]);
  same(dataOf(s, "custom").map((d) => d.payload ?? d), [{ type: "progress", step: 0, total: 1 }]);
});

check("protocol.checkpoints_channel_is_accepted", async (t) => {
  const { s } = await start(t, "router", {}, ["checkpoints", "values"]);
  same(s.status, 200);
});

check("protocol.message_blocks", async (t) => {
  const { s } = await start(t, "agent", { messages: [{ role: "user", content: "hi there" }] }, ["messages"]);
  const data = dataOf(s, "messages");
  same(data.map((d) => d.event), [
    "message-start", "content-block-start", "content-block-delta", "content-block-delta", "content-block-delta", "content-block-finish", "message-finish",
  ]);
  same(data.filter((d) => d.delta).map((d) => d.delta), ["Echo: ", "hi ", "there"].map((text) => ({ type: "text-delta", text })));
  has(data[5], { index: 0, content: { type: "text", text: "Echo: hi there" } });
  same(s.frames.find((f) => f.event === "messages").data.params.namespace, [], "of the graph, not of the node");
});

check("protocol.tool_call_blocks", async (t) => {
  const { s } = await start(t, "agent", weather, ["messages", "tools"]);
  const call = dataOf(s, "messages").find((d) => d.event === "content-block-finish" && d.content.type === "tool_call");
  has(call.content, { id: "call_weather_1", name: "get_weather", args: { city: "Paris" } });
  const tools = dataOf(s, "tools");
  same(tools.map((d) => d.event), ["tool-started", "tool-finished"]);
  has(tools[0], { tool_call_id: "call_weather_1", tool_name: "get_weather", input: { city: "Paris" } });
});

check("protocol.input_requested", async (t) => {
  const { s } = await start(t, "hitl", { topic: "cats" }, ["input"]);
  const [asked] = dataOf(s, "input.requested");
  same(asked.payload, { question: "approve?", topic: "cats" });
  ok(/^[0-9a-f]{32}$/.test(asked.interrupt_id), "id");
  same(dataOf(s, "lifecycle").at(-1).event, "interrupted");
});

check("protocol.input_respond", async (t) => {
  const { s, thread } = await start(t, "hitl", { topic: "cats" }, ["input"]);
  const [asked] = dataOf(s, "input.requested");
  const since = s.frames.at(-1).data.seq; // before the answer: s goes on and may get the end of the run as well
  const answer = await command(t, thread, 2, "input.respond", { namespace: [], interrupt_id: asked.interrupt_id, response: "yes" });
  has(answer.json, { type: "success", id: 2 });
  const rest = await events(t, thread, ["values", "lifecycle"], { since });
  await rest.until((f) => f.data.params.data.event === "completed", "the end");
  same(dataOf(rest, "values").at(-1).approval, "yes");
});

check("protocol.input_respond_to_several", async (t) => {
  const { s, thread } = await start(t, "hitl", { topic: "cats" }, ["input"]);
  const [asked] = dataOf(s, "input.requested");
  const responses = [{ namespace: [], interrupt_id: asked.interrupt_id, response: 7 }];
  has((await command(t, thread, 2, "input.respond", { responses })).json, { type: "success" });
  await until(async () => (await t.client.threads.getState(thread)).values.approval === 7, "the answer");
});

check("protocol.input_in_a_subgraph", async (t) => {
  const { s, thread } = await start(t, "nested", { value: "pause" }, ["input"]);
  const frame = s.frames.find((f) => f.data.method === "input.requested");
  const { params } = frame.data;
  await command(t, thread, 2, "input.respond", { namespace: params.namespace, interrupt_id: params.data.interrupt_id, response: "go" });
  await until(async () => (await t.client.threads.getState(thread)).values.value === "pause>before>c1>c2(go)>after", "the end");
});

check("protocol.subgraph_namespaces", async (t) => {
  const { s } = await start(t, "nested", { value: "s" }, ["values", "lifecycle"]);
  const inner = s.frames.filter((f) => f.data.params.namespace[0]?.startsWith("child:"));
  ok(inner.some((f) => f.event === "values" && f.data.params.data.steps), "values of the child");
  same(inner.filter((f) => f.event === "lifecycle").map((f) => f.data.params.data.event), ["started", "completed"]);
});

check("protocol.namespace_filter", async (t) => {
  const { thread } = await start(t, "nested", { value: "s" }, ["values", "lifecycle"]);
  const root = await events(t, thread, ["values"], { namespaces: [[]], depth: 0 });
  const child = await events(t, thread, ["values"], { namespaces: [["child"]] });
  await until(() => root.frames.length >= 4 && child.frames.length >= 3, "the replay");
  await sleep(200);
  ok(root.frames.every((f) => f.data.params.namespace.length === 0), "root");
  ok(child.frames.every((f) => f.data.params.namespace[0].startsWith("child:")), "child");
});

check("protocol.replay_and_since", async (t) => {
  const { thread, s } = await start(t, "router", {}, ["values", "lifecycle"]);
  const again = await events(t, thread, ["values", "lifecycle"]);
  await again.until(ended, "the replay");
  same(again.frames.map((f) => f.data.event_id), s.frames.map((f) => f.data.event_id));
  const since = await events(t, thread, ["values", "lifecycle"], { since: s.frames[1].data.seq });
  await since.until(ended, "the rest");
  same(since.frames.map((f) => f.data.seq), s.frames.slice(2).map((f) => f.data.seq));
});

check("protocol.streams_stay_open", async (t) => {
  const { s, thread } = await start(t, "router", {}, ["values", "lifecycle"]);
  let closed = false;
  s.done.then(() => (closed = true));
  await sleep(500);
  ok(!closed, "closed");
  const before = s.frames.length;
  await command(t, thread, 2, "run.start", { assistant_id: "router", input: {} });
  await until(() => s.frames.length > before && ended(s.frames.at(-1)), "the second run");
});

check("protocol.opened_before_the_run", async (t) => {
  const thread = uuid();
  const s = await events(t, thread, ["values", "lifecycle"]);
  await sleep(200);
  await command(t, thread, 1, "run.start", { assistant_id: "router", input: { target: "left" } });
  await s.until(ended, "the end");
  same(dataOf(s, "values").length, 3);
});

check("protocol.errors", async (t) => {
  const { thread } = await start(t, "router", {});
  has((await command(t, thread, 5, "nope")).json, { type: "error", id: 5, error: "unknown_command" });
  has((await command(t, thread, 6, "run.start", {})).json, { type: "error", id: 6, error: "invalid_argument" });
  same((await t.http("POST", `/threads/${thread}/commands`, { method: "run.start" })).status, 400);
  const nothing = (await command(t, thread, 7, "input.respond", { namespace: [], interrupt_id: unknown.replaceAll("-", ""), response: 1 })).json;
  same(nothing.type, "error", JSON.stringify(nothing));
});

check("protocol.unknown_channel", async ({ http }) => {
  const res = await http("POST", `/threads/${uuid()}/stream/events`, { channels: ["nope"] });
  ok([400, 422].includes(res.status), `status ${res.status}`);
});

check("protocol.run_start_fields", async (t) => {
  const thread = uuid();
  const { json } = await command(t, thread, 1, "run.start", {
    assistant_id: "configurable",
    input: {},
    config: { configurable: { model: "m" } },
    metadata: { via: "protocol" },
  });
  await until(async () => (await t.client.runs.get(thread, json.result.run_id)).status === "success", "the end");
  same((await t.client.threads.getState(thread)).values.seen.model, "m");
  has((await t.client.runs.get(thread, json.result.run_id)).metadata, { via: "protocol" });
});

check("protocol.multitask_strategy", async (t) => {
  const { thread } = await start(t, "router", {});
  const { json } = await command(t, thread, 2, "run.start", { assistant_id: "router", input: {}, multitaskStrategy: "reject", langsmith_tracer: { project_name: "p" } });
  same((await t.client.runs.get(thread, json.result.run_id)).multitask_strategy, "reject");
});

check("protocol.input_respond_fields", async (t) => {
  const { s, thread } = await start(t, "hitl", { topic: "cats" }, ["input"]);
  const [{ interrupt_id }] = dataOf(s, "input.requested");
  const params = { interrupt_id, response: "yes", update: { topic: "dogs" }, config: { tags: ["a"] }, metadata: { via: "answer" } };
  has((await command(t, thread, 2, "input.respond", params)).json, { type: "success" });
  await until(async () => (await t.client.threads.getState(thread)).next.length === 0, "the end");
  has((await t.client.threads.getState(thread)).values, { topic: "dogs", approval: "yes" });
  has((await t.client.runs.list(thread))[0], { metadata: { via: "answer" }, kwargs: { config: { tags: ["a"] } } });
});

check("protocol.input_respond_goto", async (t) => {
  const { s, thread } = await start(t, "hitl", { topic: "cats" }, ["input"]);
  const [{ interrupt_id }] = dataOf(s, "input.requested");
  has((await command(t, thread, 2, "input.respond", { interrupt_id, response: "yes", goto: "review" })).json, { type: "success" });
  await until(async () => (await t.client.runs.list(thread))[0].kwargs.command.goto === "review", "the run");
});

check("protocol.state_and_tree", async (t) => {
  const { thread } = await start(t, "nested", { value: "pause" }, ["input"]);
  const state = (await command(t, thread, 2, "state.get", { namespace: [], keys: ["value"] })).json;
  same(state.result.values, { value: "pause>before" });
  const tree = (await command(t, thread, 3, "agent.getTree", {})).json.result.tree;
  has(tree, { namespace: [], status: "interrupted" });
  ok(tree.children[0].namespace[0].startsWith("child:"), JSON.stringify(tree));
}, { deviates: "has neither of the commands" });

check("protocol.commands_that_no_server_has", async (t) => {
  const { thread } = await start(t, "router", {});
  for (const method of ["input.inject", "state.listCheckpoints", "state.fork"]) {
    has((await command(t, thread, 2, method, {})).json, { type: "error", error: "unknown_command" }, method);
  }
});

check("protocol.input_on_an_interrupted_thread_resumes", async (t) => {
  const { thread } = await start(t, "hitl", { topic: "cats" });
  await command(t, thread, 2, "run.start", { assistant_id: "hitl", input: { answer: 1 } });
  await until(async () => (await t.client.threads.getState(thread)).next.length === 0, "the end");
  same((await t.client.threads.getState(thread)).values.approval, { answer: 1 });
});

check("protocol.websocket_commands", async (t) => {
  const thread = uuid();
  const socket = webSocket(`${t.url.replace("http", "ws")}/threads/${thread}/stream/events`);
  t.later(() => socket.close());
  const got = [];
  socket.on("message", (m) => got.push(JSON.parse(m)));
  await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
  socket.send(JSON.stringify({ id: 1, method: "subscription.subscribe", params: { channels: ["values", "lifecycle"] } }));
  const answer = await until(() => got.find((m) => m.id === 1), "the subscription");
  has(answer, { type: "success" });
  ok(answer.result.subscription_id, "subscription_id");
  socket.send(JSON.stringify({ id: 2, method: "run.start", params: { assistant_id: "router", input: { target: "left" } } }));
  await until(() => got.find((m) => m.method === "lifecycle" && m.params.data.event === "completed"), "the end");
  same(got.filter((m) => m.method === "values").length, 3);
  socket.send(JSON.stringify({ id: 3, method: "subscription.unsubscribe", params: { subscription_id: answer.result.subscription_id } }));
  has(await until(() => got.find((m) => m.id === 3), "the end of the subscription"), { type: "success" });
  socket.send("{not json");
  has(await until(() => got.find((m) => m.type === "error"), "the error"), { error: "invalid_argument" });
});

check("protocol.websocket_filters", async (t) => {
  const { thread, s } = await start(t, "nested", { value: "s" }, ["values", "lifecycle"]);
  const socket = webSocket(`${t.url.replace("http", "ws")}/threads/${thread}/stream/events`);
  t.later(() => socket.close());
  const got = [];
  socket.on("message", (m) => got.push(JSON.parse(m)));
  await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
  const since = s.frames.find((f) => f.event === "values").data.seq;
  socket.send(JSON.stringify({ id: 1, method: "subscription.subscribe", params: { channels: ["values"], namespaces: [[]], depth: 0, since } }));
  await until(() => got.some((m) => m.id === 1) && got.some((m) => m.params?.data.value === "s>before>c1>c2>after"), "the replay");
  const values = got.filter((m) => m.type === "event");
  ok(values.every((m) => m.params.namespace.length === 0 && m.seq > since), JSON.stringify(values));
  socket.send(JSON.stringify({ id: 2, method: "subscription.reconnect", params: {} }));
  has(await until(() => got.find((m) => m.id === 2), "the answer"), { type: "error" });
}, { deviates: "ignores since on a WebSocket" });

check("protocol.runs_are_ordinary_runs", async (t) => {
  const { thread, json } = await start(t, "router", {});
  same((await t.client.runs.list(thread)).map((r) => r.run_id), [json.result.run_id]);
  same((await collect(t.client.runs.stream(thread, "router", { input: { target: "left" } }))).length, 4);
});
