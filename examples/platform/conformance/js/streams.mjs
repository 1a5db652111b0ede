// client.runs.stream and joinStream: every mode, with and without subgraphs

import { check, collect, dataOf, eventsOf, has, ok, same, unknown, uuid, weather } from "./kit.mjs";

const stream = ({ client }, id, graph, options) => collect(client.runs.stream(id, graph, options));

// nsOf is the namespace in an event's name, without the task ids.
const nsOf = (event) => event.split("|").slice(1).map((part) => part.split(":")[0]).join("|");
const modeOf = (event) => event.split("|")[0];

check("stream.default_mode", async (t) => {
  const frames = await stream(t, await t.thread(), "router", { input: { target: "left" } });
  same(eventsOf(frames), ["metadata", "values", "values", "values"]);
  same(dataOf(frames, "values").map((v) => v.path), [[], ["route"], ["route", "left"]]);
});

check("stream.metadata_comes_first", async (t) => {
  const id = await t.thread();
  let seen;
  const [first] = await stream(t, id, "router", { input: {}, onRunCreated: (r) => (seen = r) });
  same(first.event, "metadata");
  has(first.data, { run_id: seen.run_id, attempt: 1 });
  same(seen.thread_id, id);
});

check("stream.http_headers", async ({ sse, thread }) => {
  const id = await thread();
  const s = await sse("POST", `/threads/${id}/runs/stream`, { assistant_id: "router", input: {} });
  await s.done;
  ok(s.headers.get("content-type").startsWith("text/event-stream"), "content type");
  const at = s.headers.get("content-location");
  ok(new RegExp(`^/threads/${id}/runs/[0-9a-f-]{36}$`).test(at), `content-location ${at}`);
  same(s.headers.get("location"), `${at}/stream`);
  ok(/no-(store|cache)/.test(s.headers.get("cache-control")), "cache-control");
});

check("stream.values", async (t) => {
  const frames = await stream(t, await t.thread(), "nested", { input: { value: "s" }, streamMode: "values" });
  same(dataOf(frames, "values").map((v) => v.value), ["s", "s>before", "s>before>c1>c2", "s>before>c1>c2>after"]);
});

check("stream.updates", async (t) => {
  const frames = await stream(t, await t.thread(), "router", { input: { target: "right" }, streamMode: "updates" });
  same(dataOf(frames, "updates"), [{ route: { path: ["route"] } }, { right: { path: ["right"] } }]);
});

check("stream.updates_of_sends", async (t) => {
  const frames = await stream(t, await t.thread(), "fanout", { input: { items: ["a", "b"] }, streamMode: "updates" });
  const data = dataOf(frames, "updates");
  same(data[0], { plan: { items: ["a", "b"] } });
  same(data.slice(1, 3).map((d) => d.worker.results[0]).sort(), ["A", "B"]);
  same(data[3], { reduce: { summary: "A,B" } });
});

check("stream.custom", async (t) => {
  const frames = await stream(t, await t.thread(), "custom", { input: { n: 2 }, streamMode: "custom" });
  same(dataOf(frames, "custom"), [0, 1].map((step) => ({ type: "progress", step, total: 2 })));
});

check("stream.messages_tuple", async (t) => {
  const id = await t.thread();
  const frames = await stream(t, id, "agent", { input: weather, streamMode: "messages-tuple" });
  const parts = dataOf(frames, "messages");
  const ai = parts.filter(([m]) => m.type === "AIMessageChunk" || m.type === "ai");
  const calls = ai.flatMap(([m]) => m.tool_call_chunks ?? []);
  same(calls.map((c) => c.args), ["", '{"city":', '"Paris"}']);
  has(calls[0], { id: "call_weather_1", name: "get_weather", index: 0 });
  same(ai.map(([m]) => m.content).filter(Boolean), ["It ", "is ", "sunny ", "in ", "Paris ", "today."]);
  const tools = parts.filter(([m]) => m.type === "tool");
  same(tools.map(([m, meta]) => [m.content, meta.langgraph_node]), [["sunny in Paris", "tools"]]);
  const { messages } = (await t.client.threads.getState(id)).values;
  same([...new Set(ai.map(([m]) => m.id))], [messages[1].id, messages[3].id], "ids of the stream and of the state");
});

check("stream.messages_tuple_metadata", async (t) => {
  const id = await t.thread();
  const frames = await stream(t, id, "agent", { input: { messages: "hi there" }, streamMode: "messages-tuple", metadata: { mine: 1 } });
  const [first] = dataOf(frames, "messages");
  has(first[1], { langgraph_node: "agent", langgraph_step: 1, thread_id: id, graph_id: "agent", mine: 1 });
  ok(first[1].langgraph_checkpoint_ns.startsWith("agent:"), "langgraph_checkpoint_ns");
  ok(first[1].run_id && first[1].assistant_id, "ids");
});

check("stream.messages_legacy", async (t) => {
  const frames = await stream(t, await t.thread(), "agent", { input: { messages: [{ role: "user", content: "hi there" }] }, streamMode: "messages" });
  const partial = dataOf(frames, "messages/partial").map(([m]) => m.content);
  same([...new Set(partial)], ["Echo: ", "Echo: hi ", "Echo: hi there"]);
  const [meta] = dataOf(frames, "messages/metadata");
  has(Object.values(meta)[0].metadata, { langgraph_node: "agent" });
});

check("stream.messages_legacy_tool", async (t) => {
  const frames = await stream(t, await t.thread(), "agent", { input: weather, streamMode: "messages" });
  ok(dataOf(frames, "messages/complete").flat().some((m) => m.type === "tool" && m.content === "sunny in Paris"), "tool message");
});

check("stream.debug", async (t) => {
  const frames = await stream(t, await t.thread(), "fanout", { input: { items: ["a", "b"] }, streamMode: "debug" });
  const data = dataOf(frames, "debug");
  same(data.map((d) => `${d.type}@${d.step}`), [
    "checkpoint@-1", "checkpoint@0", "task@1", "task_result@1", "checkpoint@1", "task@2", "task@2",
    "task_result@2", "task_result@2", "checkpoint@2", "task@3", "task_result@3", "checkpoint@3",
  ]);
  const task = data.find((d) => d.type === "task");
  has(task.payload, { name: "plan", input: { items: ["a", "b"], results: [] } });
  has(data.find((d) => d.type === "task_result").payload, { name: "plan", result: { items: ["a", "b"] }, interrupts: [] });
  const last = data.at(-1).payload;
  has(last, { values: { results: ["A", "B"], summary: "A,B" }, next: [], tasks: [], metadata: { source: "loop", step: 3 } });
  ok(last.config && last.parent_config && last.checkpoint?.checkpoint_id, "configs");
});

check("stream.tasks", async (t) => {
  const frames = await stream(t, await t.thread(), "fanout", { input: { items: ["a", "b"] }, streamMode: "tasks" });
  const data = dataOf(frames, "tasks");
  const [starts, ends] = [data.filter((d) => "input" in d), data.filter((d) => "result" in d)];
  same(starts.map((d) => d.name), ["plan", "worker", "worker", "reduce"]);
  same(starts.slice(1, 3).map((d) => d.input), [{ item: "a" }, { item: "b" }]);
  same(ends.map((d) => d.id).sort(), starts.map((d) => d.id).sort());
  ok(ends.every((d) => (d.error ?? null) === null && Array.isArray(d.interrupts)), "ends");
});

check("stream.tasks_of_a_failure", async (t) => {
  const frames = await stream(t, await t.thread(), "failing", { input: { message: "m" }, streamMode: "tasks" });
  const failed = dataOf(frames, "tasks").find((d) => d.name === "boom" && d.error);
  ok(JSON.stringify(failed?.error).includes("boom: m"), JSON.stringify(failed));
});

check("stream.checkpoints", async (t) => {
  const frames = await stream(t, await t.thread(), "router", { input: { target: "left" }, streamMode: "checkpoints" });
  const data = dataOf(frames, "checkpoints");
  same(data.map((d) => d.metadata.step), [-1, 0, 1, 2]);
  same(data.map((d) => d.next), [["__start__"], ["route"], ["left"], []]);
  same(data.at(-1).values, { target: "left", path: ["route", "left"] });
});

check("stream.events", async (t) => {
  const frames = await stream(t, await t.thread(), "agent", { input: weather, streamMode: "events" });
  const data = dataOf(frames, "events");
  const names = data.map((d) => d.event);
  for (const want of ["on_chain_start", "on_chat_model_start", "on_chat_model_stream", "on_chat_model_end", "on_tool_start", "on_tool_end", "on_chain_end"]) {
    ok(names.includes(want), `no ${want}`);
  }
  ok(data.every((d) => d.run_id && Array.isArray(d.tags) && d.metadata && Array.isArray(d.parent_ids)), "keys");
  const words = data.filter((d) => d.event === "on_chat_model_stream").map((d) => d.data.chunk.content).filter(Boolean);
  same(words, ["It ", "is ", "sunny ", "in ", "Paris ", "today."]);
});

check(
  "stream.tools",
  async (t) => {
    const frames = await stream(t, await t.thread(), "agent", { input: weather, streamMode: "tools" });
    const data = dataOf(frames, "tools");
    same(data.map((d) => [d.event, d.toolCallId, d.name]), [
      ["on_tool_start", "call_weather_1", "get_weather"],
      ["on_tool_end", "call_weather_1", "get_weather"],
    ]);
    same(JSON.parse(data[0].input), { city: "Paris" });
    ok(JSON.stringify(data[1].output).includes("sunny in Paris"), "output");
  },
  { deviates: "has no such mode" },
);

check("stream.several_modes", async (t) => {
  const frames = await stream(t, await t.thread(), "router", { input: { target: "left" }, streamMode: ["values", "updates"] });
  same(eventsOf(frames), ["metadata", "values", "updates", "values", "updates", "values"]);
});

check("stream.all_modes", async (t) => {
  const streamMode = ["values", "updates", "messages-tuple", "custom", "debug", "tasks", "checkpoints"];
  const frames = await stream(t, await t.thread(), "agent", { input: weather, streamMode });
  const events = new Set(eventsOf(frames));
  for (const want of ["values", "updates", "messages", "debug", "tasks", "checkpoints"]) ok(events.has(want), `no ${want}`);
});

check("stream.unknown_mode", async ({ http, thread }) => {
  const res = await http("POST", `/threads/${await thread()}/runs/stream`, { assistant_id: "router", input: {}, stream_mode: ["nope"] });
  same(res.status, 422);
});

check("stream.subgraphs_values_and_updates", async (t) => {
  const frames = await stream(t, await t.thread(), "nested", { input: { value: "s" }, streamMode: ["values", "updates"], streamSubgraphs: true });
  same(frames.slice(1).map((f) => [modeOf(f.event), nsOf(f.event)].join(" ").trim()), [
    "values", "updates", "values",
    "values child", "updates child", "values child", "updates child", "values child",
    "updates", "values", "updates", "values",
  ]);
  const inner = frames.filter((f) => nsOf(f.event) === "child");
  same(inner.map((f) => JSON.stringify(f.data)), [
    { value: "s>before", steps: [] },
    { child_one: { value: "s>before>c1", steps: ["child_one"] } },
    { value: "s>before>c1", steps: ["child_one"] },
    { child_two: { value: "s>before>c1>c2", steps: ["child_two"] } },
    { value: "s>before>c1>c2", steps: ["child_one", "child_two"] },
  ].map((v) => JSON.stringify(v)));
  same(new Set(inner.map((f) => f.event.split("|")[1])).size, 1, "one namespace");
});

for (const [mode, count] of [["tasks", 4], ["checkpoints", 4], ["debug", 8]]) {
  check(`stream.subgraphs_${mode}`, async (t) => {
    const frames = await stream(t, await t.thread(), "nested", { input: { value: "s" }, streamMode: mode, streamSubgraphs: true });
    const inner = frames.filter((f) => modeOf(f.event) === mode && nsOf(f.event) === "child");
    same(inner.length, count, eventsOf(frames).join(" "));
    ok(frames.some((f) => f.event === mode), "frames of the root");
  });
}

check("stream.subgraphs_checkpoint_payload", async (t) => {
  const frames = await stream(t, await t.thread(), "nested", { input: { value: "s" }, streamMode: "debug", streamSubgraphs: true });
  const inner = frames.filter((f) => nsOf(f.event) === "child" && f.data.type === "checkpoint");
  same(inner.map((f) => f.data.payload.next), [["__start__"], ["child_one"], ["child_two"], []]);
  ok(inner[0].data.payload.config.configurable.checkpoint_ns.startsWith("child:"), "namespace");
});

check("stream.without_subgraphs", async (t) => {
  const frames = await stream(t, await t.thread(), "nested", { input: { value: "s" }, streamMode: ["values", "updates", "tasks"], streamSubgraphs: false });
  ok(frames.every((f) => !f.event.includes("|")), eventsOf(frames).join(" "));
});

check("stream.subgraphs_messages", async (t) => {
  const frames = await stream(t, await t.thread(), "agent", { input: { messages: "hi" }, streamMode: "messages-tuple", streamSubgraphs: true });
  same(frames.filter((f) => modeOf(f.event) === "messages").map((f) => f.data[0].content).filter(Boolean), ["Echo: ", "hi"]);
});

check("stream.subgraphs_custom_and_events", async (t) => {
  const frames = await stream(t, await t.thread(), "custom", { input: { n: 1 }, streamMode: ["custom", "events"], streamSubgraphs: true });
  same(frames.filter((f) => modeOf(f.event) === "custom").length, 1);
  ok(frames.some((f) => modeOf(f.event) === "events"), "events");
});

check("stream.error", async (t) => {
  const { sse, thread } = t;
  const s = await sse("POST", `/threads/${await thread()}/runs/stream`, { assistant_id: "failing", input: { message: "m" } });
  const frames = await s.done;
  same(s.status, 200);
  same(frames.at(-1).event, "error");
  has(frames.at(-1).data, { message: "boom: m" });
  ok(typeof frames.at(-1).data.error === "string", "class");
  same(dataOf(frames, "values").at(-1), { message: "m", prepared: true });
});

check("stream.interrupt", async (t) => {
  const frames = await stream(t, await t.thread(), "hitl", { input: { topic: "cats" }, streamMode: ["values", "updates"] });
  const pause = { value: { question: "approve?", topic: "cats" } };
  const [update] = dataOf(frames, "updates").filter((d) => d.__interrupt__);
  has(update.__interrupt__, [pause]);
  const last = dataOf(frames, "values").at(-1);
  has(last.__interrupt__, [pause]);
});

check("stream.breakpoint", async (t) => {
  const frames = await stream(t, await t.thread(), "router", { input: {}, streamMode: ["values", "updates"], interruptBefore: ["left"] });
  same(dataOf(frames, "updates").at(-1), { __interrupt__: [] });
});

check("stream.interrupt_in_a_subgraph", async (t) => {
  const frames = await stream(t, await t.thread(), "nested", { input: { value: "pause" }, streamMode: "updates", streamSubgraphs: true });
  const pauses = frames.filter((f) => f.data.__interrupt__);
  same(pauses.map((f) => nsOf(f.event)), ["child", ""]);
  same(pauses[0].data.__interrupt__[0].id, pauses[1].data.__interrupt__[0].id);
});

check("stream.resume", async (t) => {
  const id = await t.thread("hitl", { topic: "cats" });
  const frames = await stream(t, id, "hitl", { command: { resume: "yes" }, streamMode: ["values", "updates"] });
  same(dataOf(frames, "updates"), [{ review: { approval: "yes", log: ['reviewed:"yes"'] } }, { finish: { log: ["finished"] } }]);
  same(dataOf(frames, "values")[0], { topic: "cats", log: ["proposed:cats"] });
});

check("stream.stateless", async (t) => {
  let seen;
  const frames = await stream(t, null, "router", { input: { target: "right" }, streamMode: "updates", onRunCreated: (r) => (seen = r) });
  same(dataOf(frames, "updates").length, 2);
  ok(seen.run_id, "run id");
});

check("stream.stateless_interrupt", async (t) => {
  const frames = await stream(t, null, "hitl", { input: { topic: "t" }, streamMode: "updates" });
  ok(dataOf(frames, "updates").at(-1).__interrupt__, "interrupt");
});

check("stream.has_no_end_frame_with_data", async (t) => {
  const frames = await stream(t, await t.thread(), "router", { input: {} });
  ok(frames.every((f) => f.event !== "end" || f.data === null), "end");
});

check("stream.status_is_set_before_the_end", async (t) => {
  const id = await t.thread();
  for (let i = 0; i < 3; i++) {
    await stream(t, id, "router", { input: {} });
    same((await t.client.threads.get(id)).status, "idle");
    same((await t.client.runs.list(id))[0].status, "success");
  }
});

check("stream.resumable_ids", async (t) => {
  const frames = await stream(t, await t.thread(), "router", { input: {}, streamResumable: true });
  ok(frames.every((f) => f.id), "ids");
  same(new Set(frames.map((f) => f.id)).size, frames.length, "ids differ");
});

check("stream.join_from_the_beginning", async (t) => {
  const id = await t.thread();
  let seen;
  const frames = await stream(t, id, "router", { input: {}, streamMode: ["values", "updates"], streamResumable: true, onRunCreated: (r) => (seen = r) });
  const again = await collect(t.client.runs.joinStream(id, seen.run_id, { lastEventId: "-1" }));
  same(again, frames);
});

check("stream.join_from_an_id", async (t) => {
  const id = await t.thread();
  let seen;
  const frames = await stream(t, id, "router", { input: {}, streamResumable: true, onRunCreated: (r) => (seen = r) });
  const rest = await collect(t.client.runs.joinStream(id, seen.run_id, { lastEventId: frames[1].id }));
  same(rest, frames.slice(2));
});

check("stream.join_live", async (t) => {
  const id = await t.thread();
  const run = await t.client.runs.create(id, "slow", { input: { count: 4, delay_ms: 100 }, streamMode: "updates", streamResumable: true });
  const [a, b] = await Promise.all([
    collect(t.client.runs.joinStream(id, run.run_id, { lastEventId: "-1" })),
    collect(t.client.runs.joinStream(id, run.run_id, { lastEventId: "-1" })),
  ]);
  for (const frames of [a, b]) same(dataOf(frames, "updates").filter((d) => d.tick).map((d) => d.tick.i), [1, 2, 3, 4]);
});

check("stream.join_one_mode", async (t) => {
  const id = await t.thread();
  let seen;
  await stream(t, id, "router", { input: {}, streamMode: ["values", "updates"], streamResumable: true, onRunCreated: (r) => (seen = r) });
  const frames = await collect(t.client.runs.joinStream(id, seen.run_id, { lastEventId: "-1", streamMode: "updates" }));
  same([...new Set(eventsOf(frames).filter((e) => e !== "metadata"))], ["updates"]);
});

check("stream.join_several_modes", async (t) => {
  const id = await t.thread();
  let seen;
  await stream(t, id, "router", { input: {}, streamMode: ["values", "updates", "tasks"], streamResumable: true, onRunCreated: (r) => (seen = r) });
  const frames = await collect(t.client.runs.joinStream(id, seen.run_id, { lastEventId: "-1", streamMode: ["updates", "tasks"] }));
  same([...new Set(eventsOf(frames).filter((e) => e !== "metadata"))].sort(), ["tasks", "updates"]);
}, { sdk: 1, deviates: "uses only the last of repeated parameters" });

check("stream.join_modes_as_json", async (t) => {
  const id = await t.thread();
  let seen;
  await stream(t, id, "router", { input: {}, streamMode: ["values", "updates"], streamResumable: true, onRunCreated: (r) => (seen = r) });
  const s = await t.sse("GET", `/threads/${id}/runs/${seen.run_id}/stream?stream_mode=${encodeURIComponent('["updates"]')}`, undefined, { "last-event-id": "-1" });
  same([...new Set(eventsOf(await s.done).filter((e) => e !== "metadata"))], ["updates"]);
});

check("stream.join_of_a_stateless_run", async (t) => {
  const run = await t.client.runs.create(null, "slow", { input: { count: 3, delay_ms: 150 }, streamMode: "updates", streamResumable: true, onCompletion: "keep" });
  const frames = await collect(t.client.runs.joinStream(null, run.run_id, { lastEventId: "-1" }));
  ok(dataOf(frames, "updates").some((d) => d.tick), eventsOf(frames).join(" "));
}, { deviates: "has no such address although it names it" });

check("stream.join_of_an_unknown_run", async ({ sse, thread }) => {
  const s = await sse("GET", `/threads/${await thread()}/runs/${unknown}/stream`);
  if (s.status === 200) same((await s.done)[0].event, "error");
  else same(s.status, 404);
});

check("stream.reconnects_by_itself", async ({ newClient, thread, url, later }) => {
  // A fetch that cuts the first answer in the middle: the SDK goes on by the Location header.
  let cut = 0;
  const fetch = async (input, init) => {
    const res = await globalThis.fetch(input, init);
    if (!String(input).includes("/runs/stream") || cut++ > 0) return res;
    const reader = res.body.getReader();
    let seen = "";
    const body = new ReadableStream({
      async pull(controller) {
        const { value, done } = await reader.read();
        if (done) return controller.close();
        controller.enqueue(value);
        seen += Buffer.from(value).toString();
        if (seen.includes('"t1"')) {
          await reader.cancel();
          controller.error(new TypeError("terminated"));
        }
      },
    });
    return new Response(body, { status: res.status, headers: res.headers });
  };
  const client = newClient({ callerOptions: { fetch, maxRetries: 0 } });
  const id = await thread();
  const frames = await collect(client.runs.stream(id, "slow", { input: { count: 5, delay_ms: 150 }, streamMode: "updates", streamResumable: true }));
  same(dataOf(frames, "updates").filter((d) => d.tick).map((d) => d.tick.i), [1, 2, 3, 4, 5]);
});

check("stream.heartbeats_do_not_disturb", async (t) => {
  const id = await t.thread();
  const frames = await stream(t, id, "slow", { input: { count: 1, delay_ms: 6500 }, streamMode: "updates", streamResumable: true });
  same(dataOf(frames, "updates").length, 2);
  ok(frames.every((f) => f.event), "a heartbeat became a part without an event");
}, { deviates: "ends heartbeats with a blank line" });

check("stream.tokens_arrive_while_the_run_goes_on", async ({ client, thread }) => {
  const id = await thread();
  let status;
  for await (const part of client.runs.stream(id, "slow", { input: { count: 5, delay_ms: 300 }, streamMode: "updates" })) {
    if (part.event === "updates") status ??= (await client.runs.list(id))[0].status;
  }
  same(status, "running");
});

check("stream.large_values", async ({ client, thread }) => {
  const x = uuid().repeat(20000);
  const frames = await collect(client.runs.stream(await thread(), "router", { input: { x } }));
  ok(dataOf(frames, "values").every((v) => v.x === x), "values");
});
