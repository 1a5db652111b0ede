// client.threads: states, history, edits

import { check, fails, has, isDetail, isTime, isUUID, ok, same, unknown } from "./kit.mjs";

check("state.of_an_unused_thread", async ({ client, thread }) => {
  const s = await client.threads.getState(await thread());
  same([s.next, s.tasks], [[], []]);
  same(s.values ?? {}, {});
});

check("state.after_a_run", async ({ client, thread }) => {
  const id = await thread("router", { target: "left" });
  const s = await client.threads.getState(id);
  same([s.values, s.next, s.tasks], [{ target: "left", path: ["route", "left"] }, [], []]);
  has(s.metadata, { source: "loop", step: 2, graph_id: "router", thread_id: id });
  ok(isTime(s.created_at), "created_at");
  has(s.checkpoint, { thread_id: id, checkpoint_ns: "" });
  ok(isUUID(s.checkpoint.checkpoint_id) && isUUID(s.parent_checkpoint.checkpoint_id), "checkpoint ids");
});

check("state.at_an_interrupt", async ({ client, thread }) => {
  const s = await client.threads.getState(await thread("hitl", { topic: "cats" }));
  same([s.values, s.next], [{ topic: "cats", log: ["proposed:cats"] }, ["review"]]);
  has(s.tasks, [{ name: "review", path: ["__pregel_pull", "review"], error: null, interrupts: [{ value: { question: "approve?", topic: "cats" } }] }]);
  ok(isUUID(s.tasks[0].id), "task id");
  has(s.interrupts, [{ id: s.tasks[0].interrupts[0].id }]);
  same(Object.keys(s.tasks[0].interrupts[0]).sort(), ["id", "value"], "RemoteGraph takes no other keys");
});

check("state.after_an_error", async ({ client, thread }) => {
  const s = await client.threads.getState(await thread("failing", { message: "m" }));
  same([s.values, s.next], [{ message: "m", prepared: true }, ["boom"]]);
  ok(s.tasks[0].error.includes("boom: m"), s.tasks[0].error);
});

check("state.of_sends", async ({ client, thread }) => {
  const id = await thread("fanout", { items: ["a", "b"] }, { interruptBefore: ["worker"] });
  const s = await client.threads.getState(id);
  same(s.next, ["worker", "worker"]);
  same(s.tasks.map((t) => t.path[0]), ["__pregel_push", "__pregel_push"]);
});

check("state.at_a_checkpoint", async ({ client, thread }) => {
  const id = await thread("router", { target: "left" });
  const history = await client.threads.getHistory(id);
  const middle = history.find((s) => s.metadata.step === 1);
  const byID = await client.threads.getState(id, middle.checkpoint.checkpoint_id);
  const byObject = await client.threads.getState(id, middle.checkpoint);
  for (const s of [byID, byObject]) {
    same([s.values, s.next], [{ target: "left", path: ["route"] }, ["left"]]);
    same(s.checkpoint.checkpoint_id, middle.checkpoint.checkpoint_id);
  }
});

check("state.subgraphs", async ({ client, thread }) => {
  const id = await thread("nested", { value: "pause" });
  const [closed] = (await client.threads.getState(id)).tasks;
  same([closed.name, closed.state], ["child", null]);
  has(closed.checkpoint, { thread_id: id, checkpoint_ns: `child:${closed.id}` });
  has(closed.interrupts, [{ value: "child paused" }]);
  const [open] = (await client.threads.getState(id, undefined, { subgraphs: true })).tasks;
  same([open.state.values, open.state.next], [{ value: "pause>before>c1", steps: ["child_one"] }, ["child_two"]]);
  has(open.state.checkpoint, { thread_id: id, checkpoint_ns: `child:${open.id}` });
  has(open.state.tasks, [{ name: "child_two", interrupts: [{ value: "child paused" }] }]);
});

check("state.subgraphs_at_a_checkpoint", async ({ client, thread, http }) => {
  const id = await thread("nested", { value: "pause" });
  const head = await client.threads.getState(id);
  const s = await client.threads.getState(id, head.checkpoint, { subgraphs: true });
  same(s.tasks[0].state.values.steps, ["child_one"]);
  const res = await http("GET", `/threads/${id}/state/${head.checkpoint.checkpoint_id}?subgraphs=true`);
  same(res.json.tasks[0].state.values.steps, ["child_one"]);
});

check("state.of_a_namespace", async ({ client, thread }) => {
  const id = await thread("nested", { value: "pause" });
  const open = await client.threads.getState(id, undefined, { subgraphs: true });
  const inner = open.tasks[0].state.checkpoint;
  const s = await client.threads.getState(id, inner);
  same([s.values, s.next], [{ value: "pause>before>c1", steps: ["child_one"] }, ["child_two"]]);
});

check("state.unknown_thread", async ({ client }) => {
  await fails(client.threads.getState(unknown), 404);
  await fails(client.threads.getHistory(unknown), 404);
  await fails(client.threads.updateState(unknown, { values: {} }), 404);
});

check("state.history", async ({ client, thread }) => {
  const id = await thread("router", { target: "left" });
  const all = await client.threads.getHistory(id);
  same(all.map((s) => s.metadata.step), [2, 1, 0, -1]);
  same(all.map((s) => s.next), [[], ["left"], ["route"], ["__start__"]]);
  same(all.map((s) => s.metadata.source), ["loop", "loop", "loop", "input"]);
  same(all.map((s) => s.values), [
    { target: "left", path: ["route", "left"] },
    { target: "left", path: ["route"] },
    { target: "left", path: [] },
    { path: [] },
  ]);
  all.slice(0, -1).forEach((s, i) => same(s.parent_checkpoint.checkpoint_id, all[i + 1].checkpoint.checkpoint_id));
  same(all.at(-1).parent_checkpoint, null);
});

check("state.history_limit_and_before", async ({ client, thread, http }) => {
  const id = await thread("router", {});
  const all = await client.threads.getHistory(id);
  const steps = (list) => list.map((s) => s.metadata.step);
  same(steps(await client.threads.getHistory(id, { limit: 2 })), [2, 1]);
  const before = { configurable: { checkpoint_id: all[1].checkpoint.checkpoint_id } };
  same(steps(await client.threads.getHistory(id, { before })), [0, -1]);
  same(steps(await client.threads.getHistory(id, { before, limit: 1 })), [0]);
  const res = await http("GET", `/threads/${id}/history?limit=5&before=${all[2].checkpoint.checkpoint_id}`);
  same(steps(res.json), [-1]);
});

check(
  "state.history_before_as_id_or_checkpoint",
  async ({ client, thread, http }) => {
    const id = await thread("router", {});
    const [, second] = await client.threads.getHistory(id);
    for (const before of [second.checkpoint.checkpoint_id, second.checkpoint]) {
      const res = await http("POST", `/threads/${id}/history`, { before, limit: 10 });
      same(res.json.map((s) => s.metadata.step), [0, -1]);
    }
  },
  { deviates: "refuses a plain id and crashes on a checkpoint" },
);

check("state.history_by_metadata", async ({ client, thread }) => {
  const id = await thread();
  await client.runs.wait(id, "router", { input: {}, metadata: { turn: "one" } });
  await client.runs.wait(id, "router", { input: {}, metadata: { turn: "two" } });
  same((await client.threads.getHistory(id, { limit: 50 })).length, 8);
  same((await client.threads.getHistory(id, { limit: 50, metadata: { turn: "one" } })).length, 4);
  same((await client.threads.getHistory(id, { metadata: { source: "input" } })).map((s) => s.metadata.step), [3, -1]);
  same((await client.threads.getHistory(id, { metadata: { step: 1 } })).length, 1);
});

check("state.history_of_a_namespace", async ({ client, thread }) => {
  const id = await thread("nested", { value: "pause" });
  const { tasks } = await client.threads.getState(id);
  const inner = await client.threads.getHistory(id, { checkpoint: { checkpoint_ns: tasks[0].checkpoint.checkpoint_ns } });
  same(inner.map((s) => s.next), [["child_two"], ["child_one"], ["__start__"]]);
});

check("state.history_shows_results", async ({ client, thread }) => {
  const all = await client.threads.getHistory(await thread("router", {}));
  has(all.find((s) => s.metadata.step === 0).tasks, [{ name: "route", result: { path: ["route"] } }]);
  has(all.find((s) => s.metadata.step === 1).tasks, [{ name: "left", result: { path: ["left"] } }]);
});

check("state.update_as_node", async ({ client, thread }) => {
  const id = await thread("router", { target: "left" });
  const { checkpoint } = await client.threads.updateState(id, { values: { path: ["edited"] }, asNode: "left" });
  has(checkpoint, { thread_id: id, checkpoint_ns: "" });
  const s = await client.threads.getState(id);
  same([s.values.path, s.next], [["route", "left", "edited"], []]);
  same(s.checkpoint.checkpoint_id, checkpoint.checkpoint_id);
  has(s.metadata, { source: "update", step: 3 });
  same((await client.threads.get(id)).values.path, ["route", "left", "edited"]);
});

check("state.update_infers_the_node", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "cats" });
  await client.threads.updateState(id, { values: { topic: "dogs" } });
  const s = await client.threads.getState(id);
  same([s.values.topic, s.next], ["dogs", ["review"]]);
});

check("state.update_sets_what_runs_next", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "cats" });
  await client.threads.updateState(id, { values: { approval: "by hand", log: ["skipped"] }, asNode: "review" });
  same((await client.threads.getState(id)).next, ["finish"]);
  const out = await client.runs.wait(id, "hitl", { input: null });
  same(out, { topic: "cats", approval: "by hand", log: ["proposed:cats", "skipped", "finished"] });
});

check("state.update_appends_a_scalar", async ({ client, thread }) => {
  const id = await thread("router", {});
  await client.threads.updateState(id, { values: { path: "one" }, asNode: "left" });
  same((await client.threads.getState(id)).values.path, ["route", "left", "one"]);
});

check("state.update_in_the_past_forks", async ({ client, thread }) => {
  const id = await thread("router", { target: "left" });
  const past = (await client.threads.getHistory(id)).find((s) => s.metadata.step === 0);
  await client.threads.updateState(id, { values: { target: "right" }, checkpointId: past.checkpoint.checkpoint_id });
  const s = await client.threads.getState(id);
  same([s.values, s.next], [{ target: "right", path: [] }, ["route"]]);
  same(s.parent_checkpoint.checkpoint_id, past.checkpoint.checkpoint_id);
  same(await client.runs.wait(id, "router", { input: null }), { target: "right", path: ["route", "right"] });
});

check("state.update_at_a_checkpoint_object", async ({ client, thread }) => {
  const id = await thread("router", { target: "left" });
  const past = (await client.threads.getHistory(id)).find((s) => s.metadata.step === 1);
  await client.threads.updateState(id, { values: { path: ["fork"] }, checkpoint: past.checkpoint, asNode: "route" });
  same((await client.threads.getState(id)).values.path, ["route", "fork"]);
});

check("state.update_null_as_end", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "cats" });
  await client.threads.updateState(id, { values: null, asNode: "__end__" });
  same((await client.threads.getState(id)).next, []);
});

check("state.update_as_copy", async ({ client, thread }) => {
  const id = await thread("router", {});
  const before = await client.threads.getState(id);
  await client.threads.updateState(id, { values: null, asNode: "__copy__" });
  const after = await client.threads.getState(id);
  same([after.values, after.metadata.source], [before.values, "fork"]);
  ok(after.checkpoint.checkpoint_id !== before.checkpoint.checkpoint_id, "same checkpoint");
});

check("state.update_inside_a_subgraph", async ({ client, thread }) => {
  const id = await thread("nested", { value: "pause" });
  const { tasks } = await client.threads.getState(id, undefined, { subgraphs: true });
  await client.threads.updateState(id, { values: { value: "changed" }, checkpoint: tasks[0].state.checkpoint });
  same((await client.threads.getState(id, undefined, { subgraphs: true })).tasks[0].state.values.value, "changed");
});

check("state.update_unknown_node", async ({ client, thread }) => {
  const id = await thread("router", {});
  await fails(client.threads.updateState(id, { values: { path: ["x"] }, asNode: "nope" }), 400, 422);
});

check("state.update_without_a_graph", async ({ client, thread }) => fails(client.threads.updateState(await thread(), { values: { a: 1 } }), 400));

check("state.update_of_a_busy_thread", async ({ client, thread }) => {
  const id = await thread();
  const run = await client.runs.create(id, "slow", { input: { count: 50, delay_ms: 250 } });
  await fails(client.threads.updateState(id, { values: { label: "x" } }), 409);
  await client.runs.cancel(id, run.run_id, true);
});

check("state.update_answer_has_the_checkpoint", async ({ thread, http }) => {
  const id = await thread("router", {});
  const res = await http("POST", `/threads/${id}/state`, { values: { path: ["x"] }, as_node: "left" });
  same(res.status, 200);
  ok(isUUID(res.json.checkpoint.checkpoint_id), res.text);
});

check("state.update_needs_an_object", async ({ thread, http }) => {
  const id = await thread("router", {});
  isDetail(await http("POST", `/threads/${id}/state`, { values: 5 }), 400, 422);
});

check("state.patch_is_gone", async ({ client, thread }) => {
  const id = await thread("router", {});
  await fails(client.threads.patchState(id, { a: 1 }), 404, 405);
});
