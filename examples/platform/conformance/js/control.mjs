// Interrupts and commands, multitask strategies, cancelling, disconnecting

import { check, collect, dataOf, fails, has, isDetail, ok, same, sleep, unknown } from "./kit.mjs";

// A run that has not ended when it is cancelled, also on a machine that is busy.
const long = { count: 60, delay_ms: 250 };

check("commands.resume", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "cats" });
  const out = await client.runs.wait(id, "hitl", { command: { resume: { ok: true } } });
  same(out, { topic: "cats", approval: { ok: true }, log: ["proposed:cats", 'reviewed:{"ok":true}', "finished"] });
  has(await client.threads.get(id), { status: "idle", interrupts: {} });
});

check("commands.resume_values", async ({ client, thread }) => {
  for (const resume of ["text", 5, false, ["a", 1], 0, ""]) {
    const id = await thread("hitl", { topic: "t" });
    same((await client.runs.wait(id, "hitl", { command: { resume } })).approval, resume);
  }
});

check("commands.resume_by_id", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "t" });
  const { tasks } = await client.threads.getState(id);
  same((await client.runs.wait(id, "hitl", { command: { resume: { [tasks[0].interrupts[0].id]: "by id" } } })).approval, "by id");
});

check("commands.resume_in_a_subgraph", async ({ client, thread }) => {
  const id = await thread("nested", { value: "pause" });
  same(await client.runs.wait(id, "nested", { command: { resume: "go" } }), { value: "pause>before>c1>c2(go)>after" });
});

check("commands.resume_with_update", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "cats" });
  const out = await client.runs.wait(id, "hitl", { command: { resume: "yes", update: { topic: "dogs" } } });
  has(out, { topic: "dogs", approval: "yes" });
});

check("commands.update_as_pairs", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "cats" });
  const out = await client.runs.wait(id, "hitl", { command: { resume: "yes", update: [["topic", "dogs"], ["log", ["note"]]] } });
  same([out.topic, out.log.includes("note")], ["dogs", true]);
});

check("commands.goto_a_node", async ({ client, thread }) => {
  const id = await thread("router", { target: "left" });
  same((await client.runs.wait(id, "router", { command: { goto: "right" } })).path, ["route", "left", "right"]);
});

check("commands.goto_nodes", async ({ client, thread }) => {
  const id = await thread("router", { target: "left" });
  same((await client.runs.wait(id, "router", { command: { goto: ["right", "left"], update: { x: 1 } } })).path.slice(2).sort(), ["left", "right"]);
});

check("commands.goto_sends", async ({ client, thread }) => {
  const id = await thread("fanout", { items: ["a"] });
  const sends = ["q", "p"].map((item) => ({ node: "worker", input: { item } }));
  const out = await client.runs.wait(id, "fanout", { command: { goto: sends } });
  same([out.results, out.summary], [["A", "Q", "P"], "A,P,Q"]);
});

check("commands.resume_with_nothing_pending", async ({ client, thread }) => {
  const id = await thread("router", {});
  same((await client.runs.wait(id, "router", { command: { resume: 1 } })).path, ["route", "left"]);
});

check("commands.unknown_ids_are_ignored", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "t" });
  await client.runs.wait(id, "hitl", { command: { resume: { [unknown.replaceAll("-", "")]: 1 } }, raiseError: false });
  same((await client.threads.getState(id)).next, ["review"]);
});

check("commands.interrupt_again_after_a_time_travel", async ({ client, thread }) => {
  const id = await thread("hitl", { topic: "t" });
  await client.runs.wait(id, "hitl", { command: { resume: 1 } });
  const past = (await client.threads.getHistory(id, { limit: 20 })).find((s) => s.next[0] === "review");
  const out = await client.runs.wait(id, "hitl", { input: null, checkpoint: past.checkpoint });
  ok(out.__interrupt__, "it asks again");
  same((await client.runs.wait(id, "hitl", { command: { resume: 2 } })).approval, 2);
});

check("multitask.reject", async ({ client, thread }) => {
  const id = await thread();
  const run = await client.runs.create(id, "slow", { input: long });
  await fails(client.runs.create(id, "slow", { input: long, multitaskStrategy: "reject" }), 409);
  await fails(client.runs.wait(id, "slow", { input: long, multitaskStrategy: "reject" }), 409);
  await fails(collect(client.runs.stream(id, "slow", { input: long, multitaskStrategy: "reject" })), 409);
  same((await client.runs.list(id)).length, 1);
  await client.runs.cancel(id, run.run_id, true);
});

check("multitask.reject_on_an_idle_thread", async ({ client, thread }) => {
  same((await client.runs.wait(await thread(), "router", { input: {}, multitaskStrategy: "reject" })).path, ["route", "left"]);
});

check("multitask.enqueue", async ({ client, thread, ended }) => {
  const id = await thread();
  const runs = [];
  for (const label of ["a", "b", "c"]) {
    runs.push(await client.runs.create(id, "slow", { input: { count: 1, delay_ms: 100, label }, multitaskStrategy: "enqueue" }));
  }
  await ended(id, runs[2].run_id);
  same((await client.threads.getState(id)).values.ticks, ["a0", "b0", "c0"]);
  for (const r of runs) same((await client.runs.get(id, r.run_id)).status, "success");
});

check("multitask.enqueue_is_the_default", async ({ client, thread, ended }) => {
  const id = await thread();
  await client.runs.create(id, "slow", { input: { count: 2, delay_ms: 100, label: "a" } });
  const second = await client.runs.create(id, "slow", { input: { count: 1, delay_ms: 0, label: "b" } });
  same(second.multitask_strategy, "enqueue");
  await ended(id, second.run_id);
  same((await client.threads.getState(id)).values.ticks, ["a0", "a1", "b0"]);
});

check("multitask.interrupt", async ({ client, thread, running, ended, until }) => {
  const id = await thread();
  const first = await client.runs.create(id, "slow", { input: { ...long, label: "a" } });
  await running(id, first.run_id);
  await until(async () => (await client.threads.getState(id)).values.ticks?.length > 0, "a tick");
  const second = await client.runs.create(id, "slow", { input: { count: 1, delay_ms: 0, label: "b" }, multitaskStrategy: "interrupt" });
  same((await ended(id, second.run_id)).status, "success");
  same((await client.runs.get(id, first.run_id)).status, "interrupted");
  const { ticks } = (await client.threads.getState(id)).values;
  same([ticks[0], ticks.at(-1)], ["a0", "b0"], "what the first had done stays");
});

check("multitask.rollback", async ({ client, thread, running, ended, until }) => {
  const id = await thread("slow", { count: 1, delay_ms: 0, label: "z" });
  const first = await client.runs.create(id, "slow", { input: { ...long, label: "a" } });
  await running(id, first.run_id);
  await until(async () => (await client.threads.getState(id)).values.ticks.length > 1, "a tick");
  const second = await client.runs.create(id, "slow", { input: { count: 1, delay_ms: 0, label: "b" }, multitaskStrategy: "rollback" });
  same((await ended(id, second.run_id)).status, "success");
  same((await client.threads.getState(id)).values.ticks, ["z0", "b0"]);
  await fails(client.runs.get(id, first.run_id), 404);
}, { deviates: "begins the new run now and then before the old one is undone" });

check("cancel.running", async ({ client, thread, running, until }) => {
  const id = await thread();
  const run = await client.runs.create(id, "slow", { input: long });
  await running(id, run.run_id);
  await until(async () => (await client.threads.getState(id)).values?.ticks?.length > 0, "a tick");
  await client.runs.cancel(id, run.run_id, true);
  same((await client.runs.get(id, run.run_id)).status, "interrupted");
  const t = await client.threads.get(id);
  same(t.status, "interrupted");
  ok(t.values.ticks.length > 0, "values stay");
  same((await client.threads.getState(id)).next, ["tick"]);
});

check("cancel.without_waiting", async ({ client, thread, running, ended, http }) => {
  const id = await thread();
  const run = await client.runs.create(id, "slow", { input: long });
  await running(id, run.run_id);
  const res = await http("POST", `/threads/${id}/runs/${run.run_id}/cancel?wait=0&action=interrupt`);
  ok(res.status === 202 || res.status === 204, `status ${res.status}`);
  same((await ended(id, run.run_id)).status, "interrupted");
});

check("cancel.rollback", async ({ client, thread, running, until }) => {
  const id = await thread("router", { target: "right" });
  const run = await client.runs.create(id, "router", { input: { target: "left" }, interruptBefore: ["left"] });
  await until(async () => (await client.runs.get(id, run.run_id)).status === "success", "the end");
  const slow = await client.runs.create(id, "slow", { input: long });
  await running(id, slow.run_id);
  await client.runs.cancel(id, slow.run_id, true, "rollback");
  await fails(client.runs.get(id, slow.run_id), 404);
  same((await client.threads.getState(id)).next.includes("tick"), false);
});

check("cancel.rollback_restores_the_state", async ({ client, thread, running, until }) => {
  const id = await thread("slow", { count: 1, delay_ms: 0, label: "z" });
  const run = await client.runs.create(id, "slow", { input: { ...long, label: "a" } });
  await running(id, run.run_id);
  await until(async () => (await client.threads.getState(id)).values.ticks.length > 1, "a tick");
  await client.runs.cancel(id, run.run_id, true, "rollback");
  same((await client.threads.getState(id)).values.ticks, ["z0"]);
  same((await client.threads.get(id)).status, "idle");
});

check("cancel.pending", async ({ client, thread, ended }) => {
  const id = await thread();
  const first = await client.runs.create(id, "slow", { input: long });
  const second = await client.runs.create(id, "slow", { input: long });
  await client.runs.cancel(id, second.run_id, true);
  same((await client.runs.get(id, second.run_id)).status, "interrupted");
  await client.runs.cancel(id, first.run_id);
  same((await ended(id, first.run_id)).status, "interrupted");
});

check("cancel.unknown", async ({ client, thread }) => fails(client.runs.cancel(await thread(), unknown), 404));

check("cancel.continue_after_it", async ({ client, thread, running, until }) => {
  const id = await thread();
  const run = await client.runs.create(id, "slow", { input: { count: 30, delay_ms: 50 } });
  await running(id, run.run_id);
  await until(async () => (await client.threads.getState(id)).values?.ticks?.length > 1, "two ticks");
  await client.runs.cancel(id, run.run_id, true);
  const out = await client.runs.wait(id, "slow", { input: null, config: { recursion_limit: 100 } });
  same(out.ticks, Array.from({ length: 30 }, (_, i) => `t${i}`));
});

check("cancel.ends_the_stream_without_an_error", async ({ client, thread, running }) => {
  const id = await thread();
  let seen;
  const frames = collect(client.runs.stream(id, "slow", { input: long, streamMode: "updates", onRunCreated: (r) => (seen = r) }));
  while (!seen) await sleep(20);
  await running(id, seen.run_id);
  await client.runs.cancel(id, seen.run_id, true);
  same(dataOf(await frames, "error"), []);
});

check("cancel.many_by_id", async ({ client, thread, ended }) => {
  const id = await thread();
  const runs = [await client.runs.create(id, "slow", { input: long }), await client.runs.create(id, "slow", { input: long })];
  await client.runs.cancelMany({ threadId: id, runIds: runs.map((r) => r.run_id), action: "interrupt" });
  for (const r of runs) same((await ended(id, r.run_id)).status, "interrupted");
}, { sdk: 1 });

check("cancel.many_by_status", async ({ client, thread, ended }) => {
  const id = await thread();
  const runs = [await client.runs.create(id, "slow", { input: long }), await client.runs.create(id, "slow", { input: long })];
  await client.runs.cancelMany({ status: "all", action: "interrupt" });
  for (const r of runs) same((await ended(id, r.run_id)).status, "interrupted");
}, { sdk: 1, alone: true });

check("cancel.many_needs_a_selection", async ({ http }) => isDetail(await http("POST", "/runs/cancel", {}), 400, 422));

check("cancel.deleting_a_running_run", async ({ client, thread, running, until }) => {
  const id = await thread();
  const run = await client.runs.create(id, "slow", { input: long });
  await running(id, run.run_id);
  await client.runs.delete(id, run.run_id);
  await until(() => client.runs.get(id, run.run_id).then(() => false, () => true), "the run to go");
});

// leave reads a stream of updates until its first one, and then drops the connection.
async function leave({ client }, id, options) {
  const stop = new AbortController();
  let run;
  try {
    for await (const part of client.runs.stream(id, "slow", { streamMode: "updates", signal: stop.signal, onRunCreated: (r) => (run = r), ...options })) {
      if (part.event === "updates") stop.abort();
    }
  } catch (err) {
    if (!stop.signal.aborted) throw err;
  }
  return run.run_id;
}

check("disconnect.cancel", async (t) => {
  const id = await t.thread();
  const run = await leave(t, id, { input: long, onDisconnect: "cancel" });
  same((await t.ended(id, run)).status, "interrupted");
});

check("disconnect.continue", async (t) => {
  const id = await t.thread();
  const run = await leave(t, id, { input: { count: 4, delay_ms: 50 }, onDisconnect: "continue" });
  same((await t.ended(id, run)).status, "success");
  same((await t.client.threads.getState(id)).values.ticks.length, 4);
});

check("disconnect.continue_is_the_default", async (t) => {
  const id = await t.thread();
  const run = await leave(t, id, { input: { count: 4, delay_ms: 50 } });
  same((await t.ended(id, run)).status, "success");
});

check("disconnect.wait_cancel", async ({ client, thread, ended, until }) => {
  const id = await thread();
  const stop = new AbortController();
  const waiting = client.runs.wait(id, "slow", { input: long, onDisconnect: "cancel", signal: stop.signal }).catch(() => {});
  const [run] = await until(async () => {
    const runs = await client.runs.list(id);
    return runs.length > 0 && runs[0].status === "running" && runs;
  }, "the run");
  stop.abort();
  await waiting;
  same((await ended(id, run.run_id)).status, "interrupted");
});

check("disconnect.join_stream_cancel", async ({ client, thread, ended }) => {
  const id = await thread();
  const run = await client.runs.create(id, "slow", { input: long, streamMode: "updates" });
  const stop = new AbortController();
  try {
    for await (const part of client.runs.joinStream(id, run.run_id, { cancelOnDisconnect: true, signal: stop.signal })) {
      if (part.event === "updates") stop.abort();
    }
  } catch (err) {
    if (!stop.signal.aborted) throw err;
  }
  same((await ended(id, run.run_id)).status, "interrupted");
});
