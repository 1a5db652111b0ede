// Users, on a server with --auth: "Bearer <name>-token" for alice and bob, who may write, and viewer, who may not. A user sees
// what is his own, and all assistants; deleting threads is refused with 418; namespaces of the store begin with the user.

import { check as add, collect, fails, has, idOf, isDetail, ok, same, uuid } from "./kit.mjs";

const check = (name, run, options) => add(name, run, { ...options, auth: true });
const as = ({ newClient }, name) => newClient({ defaultHeaders: { authorization: `Bearer ${name}-token` } });

check("auth.without_a_token", async ({ client, http }) => {
  await fails(client.threads.create(), 401);
  isDetail(await http("POST", "/threads", {}), 401);
  isDetail(await http("POST", "/threads", {}, { authorization: "Bearer mallory-token" }), 401);
});

check("auth.open_routes", async ({ http }) => {
  for (const path of ["/ok", "/info", "/metrics", "/docs", "/openapi.json"]) same((await http("GET", path)).status, 200, path);
});

check("auth.studio_is_not_let_in", async ({ http }) => {
  isDetail(await http("POST", "/threads/search", {}, { "x-auth-scheme": "langsmith" }), 401);
}, { deviates: "lets everybody in who says to be the studio" });

check("auth.owner_is_written", async (t) => {
  const { thread_id: id } = await as(t, "alice").threads.create({ metadata: { mine: 1 } });
  has((await as(t, "alice").threads.get(id)).metadata, { owner: "alice", mine: 1 });
});

check("auth.writing_is_refused", async (t) => fails(as(t, "viewer").threads.create(), 403));

check("auth.foreign_threads_are_invisible", async (t) => {
  const [alice, bob] = [as(t, "alice"), as(t, "bob")];
  const { thread_id: id } = await alice.threads.create();
  await alice.runs.wait(id, "router", { input: { target: "left" } });
  const [run] = await alice.runs.list(id);
  for (const attempt of [
    () => bob.threads.get(id),
    () => bob.threads.update(id, { metadata: { stolen: 1 } }),
    () => bob.threads.getState(id),
    () => bob.threads.getHistory(id),
    () => bob.threads.updateState(id, { values: { target: "x" } }),
    () => bob.runs.list(id),
    () => bob.runs.get(id, run.run_id),
    () => bob.runs.create(id, "router", { input: {} }),
    () => bob.runs.wait(id, "router", { input: {} }),
    () => bob.runs.delete(id, run.run_id),
  ]) {
    await fails(attempt(), 403, 404, 418);
  }
  await fails(bob.threads.copy(id), 403, 404, 409);
  same((await alice.threads.getState(id)).values.path, ["route", "left"]);
});

check("auth.foreign_threads_are_not_found", async (t) => {
  const tag = uuid();
  await as(t, "alice").threads.create({ metadata: { tag } });
  await as(t, "bob").threads.create({ metadata: { tag } });
  same((await as(t, "bob").threads.search({ metadata: { tag } })).map((x) => x.metadata.owner), ["bob"]);
  same(await as(t, "bob").threads.count({ metadata: { tag } }), 1);
});

check("auth.creating_over_a_foreign_thread", async (t) => {
  const { thread_id: threadId } = await as(t, "alice").threads.create();
  await fails(as(t, "bob").threads.create({ threadId }), 409);
  await fails(as(t, "bob").threads.create({ threadId, ifExists: "do_nothing" }), 404, 409);
});

check("auth.a_status_of_ones_own", async (t) => {
  const { thread_id: id } = await as(t, "alice").threads.create();
  const err = await fails(as(t, "alice").threads.delete(id), 418);
  ok(err.message.includes("deleting is not allowed here"), err.message);
  same((await as(t, "alice").threads.get(id)).thread_id, id);
});

check("auth.assistants_are_seen_by_all", async (t) => {
  for (const name of ["alice", "bob", "viewer"]) {
    same((await as(t, name).assistants.get(idOf("router"))).name, "router");
    ok((await as(t, name).assistants.search({ graphId: "router" })).length > 0, name);
  }
});

check("auth.assistants_are_changed_by_their_owner", async (t) => {
  const { assistant_id: id, metadata } = await as(t, "alice").assistants.create({ graphId: "router" });
  same(metadata.owner, "alice");
  await fails(as(t, "bob").assistants.update(id, { name: "x" }), 403, 404);
  await fails(as(t, "bob").assistants.delete(id), 403, 404);
  same((await as(t, "alice").assistants.update(id, { name: "y" })).name, "y");
});

check("auth.runs", async (t) => {
  const alice = as(t, "alice");
  const { thread_id: id } = await alice.threads.create();
  const frames = await collect(alice.runs.stream(id, "router", { input: { target: "left" }, streamMode: "updates" }));
  same(frames.filter((f) => f.event === "updates").length, 2);
  has((await alice.runs.list(id))[0].metadata, { owner: "alice" });
});

check("auth.the_store_is_divided", async (t) => {
  const key = uuid();
  await as(t, "alice").store.putItem(["notes"], key, { text: "a" });
  same((await as(t, "alice").store.getItem(["notes"], key)).namespace, ["alice", "notes"]);
  same((await as(t, "alice").store.getItem(["alice", "notes"], key)).value, { text: "a" });
  const got = await as(t, "bob").store.getItem(["notes"], key).catch(() => null);
  same(got, null);
  same(await as(t, "bob").store.getItem(["alice", "notes"], key).catch(() => null), null);
  const found = (await as(t, "bob").store.searchItems(["notes"], { limit: 100 })).items;
  ok(found.every((x) => x.namespace[0] === "bob"), JSON.stringify(found));
  const { namespaces } = await as(t, "bob").store.listNamespaces({ prefix: [] });
  ok(namespaces.every((n) => n[0] === "bob"), JSON.stringify(namespaces));
});

check("auth.crons_are_divided", async (t) => {
  const alice = as(t, "alice");
  const tag = uuid();
  const { cron_id: id } = await alice.crons.create("router", { schedule: "0 0 1 1 *", metadata: { tag } });
  t.later(() => alice.crons.delete(id));
  same((await as(t, "bob").crons.search({ limit: 1000 })).filter((c) => c.cron_id === id), []);
  await fails(as(t, "bob").crons.delete(id), 403, 404);
});

check("auth.protocol", async (t) => {
  const { thread_id: id } = await as(t, "alice").threads.create();
  const headers = { authorization: "Bearer bob-token" };
  const start = await t.http("POST", `/threads/${id}/commands`, { id: 1, method: "run.start", params: { assistant_id: "router", input: {} } }, headers);
  ok(start.status >= 400 || start.json.type === "error", start.text);
  const events = await t.http("POST", `/threads/${id}/commands`, { id: 1, method: "run.start", params: { assistant_id: "router", input: {} } });
  same(events.status, 401);
});

check("auth.user_reaches_the_graph_config", async (t) => {
  const alice = as(t, "alice");
  const { thread_id: id } = await alice.threads.create();
  const run = await alice.runs.create(id, "router", { input: {} });
  const { configurable } = run.kwargs.config;
  same(configurable.langgraph_auth_user_id, "alice");
});
