// client.crons

import { check, fails, has, idOf, isTime, isUUID, ok, same, unknown, uuid } from "./kit.mjs";

const yearly = "0 0 1 1 *";

async function make({ client, later }, payload = {}) {
  const cron = await client.crons.create("router", { schedule: yearly, ...payload });
  later(() => client.crons.delete(cron.cron_id));
  return cron;
}

check("crons.create", async (t) => {
  const tag = uuid();
  const cron = await make(t, { input: { target: "left" }, metadata: { tag } });
  ok(isUUID(cron.cron_id) && isTime(cron.created_at) && isTime(cron.updated_at) && isTime(cron.next_run_date), "ids and times");
  has(cron, { assistant_id: idOf("router"), thread_id: null, schedule: yearly, enabled: true, end_time: null, metadata: { tag } });
  has(cron.payload, { assistant_id: idOf("router"), input: { target: "left" } });
  ok(/-01-01T00:00:00/.test(cron.next_run_date), cron.next_run_date);
});

check("crons.create_all_fields", async (t) => {
  const cron = await make(t, {
    config: { configurable: { model: "m" } },
    interruptBefore: ["left"],
    interruptAfter: ["right"],
    webhook: "http://127.0.0.1:1/hook",
    onRunCompleted: "keep",
    multitaskStrategy: "enqueue",
    durability: "sync",
    enabled: false,
    streamMode: ["updates"],
    streamSubgraphs: true,
    streamResumable: true,
  });
  has(cron, { enabled: false, on_run_completed: "keep" });
  has(cron.payload, { interrupt_before: ["left"], interrupt_after: ["right"] });
});

check("crons.create_context", async (t) => {
  const cron = await t.client.crons.create("configurable", { schedule: yearly, context: { tier: "gold" } });
  t.later(() => t.client.crons.delete(cron.cron_id));
  has(cron.payload, { context: { tier: "gold" } });
});

check("crons.timezone", async (t) => {
  const cron = await make(t, { timezone: "Europe/Paris" });
  has(cron, { timezone: "Europe/Paris" });
  same(new Date(cron.next_run_date).toISOString().slice(5, 16), "12-31T23:00");
}, { sdk: 1 });

check("crons.create_for_thread", async (t) => {
  const id = await t.thread();
  const cron = await t.client.crons.createForThread(id, "router", { schedule: yearly, input: {} });
  t.later(() => t.client.crons.delete(cron.cron_id));
  has(cron, { thread_id: id, assistant_id: idOf("router") });
  same((await t.client.crons.search({ threadId: id })).map((c) => c.cron_id), [cron.cron_id]);
});

check("crons.create_for_an_unknown_thread", async ({ client }) => fails(client.crons.createForThread(unknown, "router", { schedule: yearly }), 404));

check("crons.bad_schedule", async (t) => {
  await fails(make(t, { schedule: "nonsense" }), 400, 422);
  await fails(make(t, { schedule: "61 * * * *" }), 400, 422);
});

check("crons.unknown_assistant", async ({ client }) => fails(client.crons.create("nope", { schedule: yearly }), 404, 422));

check("crons.get", async (t) => {
  const cron = await make(t);
  has((await t.http("GET", `/runs/crons/${cron.cron_id}`)).json, { cron_id: cron.cron_id, schedule: yearly });
  same((await t.http("GET", `/runs/crons/${unknown}`)).status, 404);
});

check("crons.search", async (t) => {
  const tag = uuid();
  const one = await make(t, { metadata: { tag, n: 1 } });
  const two = await make(t, { metadata: { tag, n: 2 }, enabled: false });
  const by = async (query) => (await t.http("POST", "/runs/crons/search", { metadata: { tag }, ...query })).json.map((c) => c.cron_id);
  same(await by({}), [two.cron_id, one.cron_id]);
  same(await by({ sort_by: "created_at", sort_order: "asc" }), [one.cron_id, two.cron_id]);
  same(await by({ limit: 1, offset: 1 }), [one.cron_id]);
  same(await by({ enabled: false }), [two.cron_id]);
  same(await by({ assistant_id: idOf("agent") }), []);
});

check("crons.search_by_assistant", async (t) => {
  const cron = await make(t);
  const found = await t.client.crons.search({ assistantId: idOf("router"), limit: 1000, offset: 0, sortBy: "created_at", sortOrder: "desc" });
  ok(found.some((c) => c.cron_id === cron.cron_id), "not found");
  has(await t.client.crons.search({ assistantId: idOf("router"), enabled: false, limit: 1000 }).then((l) => l.filter((c) => c.enabled)), []);
});

check("crons.search_select", async (t) => {
  const tag = uuid();
  await make(t, { metadata: { tag } });
  const res = await t.http("POST", "/runs/crons/search", { metadata: { tag }, select: ["cron_id", "schedule"] });
  same(Object.keys(res.json[0]).sort(), ["cron_id", "schedule"]);
  same(res.headers.get("x-pagination-total"), "1");
});

check("crons.count", async (t) => {
  const id = await t.thread();
  const cron = await t.client.crons.createForThread(id, "router", { schedule: yearly });
  t.later(() => t.client.crons.delete(cron.cron_id));
  same(await t.client.crons.count({ threadId: id }), 1);
  same(await t.client.crons.count({ threadId: id, assistantId: idOf("agent") }), 0);
});

check("crons.update", async (t) => {
  const cron = await make(t, { metadata: { a: 1 } });
  const changed = await t.client.crons.update(cron.cron_id, { schedule: "30 6 * * 1", enabled: false, input: { target: "right" } });
  has(changed, { cron_id: cron.cron_id, schedule: "30 6 * * 1", enabled: false });
  has(changed.payload, { input: { target: "right" } });
  ok(/T06:30:00/.test(new Date(changed.next_run_date ?? "2000-01-01T06:30:00Z").toISOString()), changed.next_run_date);
  await fails(t.client.crons.update(cron.cron_id, { schedule: "x" }), 400, 422);
  await fails(t.client.crons.update(unknown, { enabled: false }), 404);
});

check("crons.delete", async (t) => {
  const { cron_id: id } = await t.client.crons.create("router", { schedule: yearly });
  await t.client.crons.delete(id);
  await fails(t.client.crons.delete(id), 404);
});

check("crons.fires", async (t) => {
  const tag = uuid();
  await make(t, { schedule: "* * * * *", input: { target: "right" }, metadata: { tag }, onRunCompleted: "keep" });
  const fired = async () => (await t.client.threads.search({ metadata: { tag } })).find((x) => x.status === "idle" && x.values);
  const thread = await t.until(fired, "the cron to fire", 80000);
  same(thread.values.path, ["route", "right"]);
}, { timeout: 100000 });
