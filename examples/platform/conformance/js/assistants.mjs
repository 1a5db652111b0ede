// client.assistants

import { check, fails, graphs, has, idOf, isTime, ok, same, unknown, uuid } from "./kit.mjs";

const make = async ({ client }, payload = {}) => client.assistants.create({ graphId: "router", ...payload });

check("assistants.default_ids", async ({ client }) => {
  same(idOf("agent"), "fe096781-5601-53d2-b2f6-0d3403f7e9ca");
  for (const graph of graphs) {
    const a = await client.assistants.get(idOf(graph));
    has(a, { assistant_id: idOf(graph), graph_id: graph, name: graph, version: 1, config: {}, context: {}, metadata: { created_by: "system" } });
    ok(isTime(a.created_at) && isTime(a.updated_at), "times");
  }
});

check("assistants.graph_id_alias", async ({ client }) => same((await client.assistants.get("agent")).assistant_id, idOf("agent")), {
  deviates: "takes a graph id only where runs are made",
});

check("assistants.get_unknown", async ({ client }) => fails(client.assistants.get(unknown), 404));

check("assistants.create_minimal", async (t) => {
  const a = await make(t);
  has(a, { graph_id: "router", version: 1, name: "Untitled", config: {}, context: {}, metadata: {} });
  same(await t.client.assistants.get(a.assistant_id), a);
});

check("assistants.create_all_fields", async (t) => {
  const id = uuid();
  const a = await make(t, {
    assistantId: id,
    name: "Full",
    description: "all fields",
    metadata: { k: { deep: [1] } },
    config: { tags: ["t"], recursion_limit: 7, configurable: { model: "m" } },
  });
  has(a, { assistant_id: id, name: "Full", description: "all fields", metadata: { k: { deep: [1] } } });
  has(a.config, { tags: ["t"], recursion_limit: 7, configurable: { model: "m" } });
});

check("assistants.create_context", async (t) => has(await make(t, { graphId: "configurable", context: { tier: "gold" } }), { context: { tier: "gold" } }));

check(
  "assistants.create_config_and_context",
  async (t) => {
    const a = await make(t, { graphId: "configurable", config: { configurable: { model: "m" } }, context: { tier: "gold" } });
    has(a, { config: { configurable: { model: "m" } }, context: { tier: "gold" } });
  },
  { deviates: "refuses configurable and context together" },
);

check("assistants.create_duplicate", async (t) => {
  const { assistant_id: assistantId } = await make(t);
  await fails(make(t, { assistantId }), 409);
  await fails(make(t, { assistantId, ifExists: "raise" }), 409);
});

check("assistants.create_if_exists_do_nothing", async (t) => {
  const { assistant_id: assistantId } = await make(t, { name: "first" });
  has(await make(t, { assistantId, ifExists: "do_nothing", name: "second" }), { assistant_id: assistantId, name: "first" });
});

check("assistants.create_unknown_graph", async (t) => fails(make(t, { graphId: "nope" }), 404, 422));

check("assistants.update_makes_a_version", async (t) => {
  const a = await make(t, { name: "one", metadata: { a: 1 } });
  const b = await t.client.assistants.update(a.assistant_id, { name: "two", description: "d", metadata: { b: 2 } });
  has(b, { assistant_id: a.assistant_id, version: 2, name: "two", description: "d", metadata: { a: 1, b: 2 } });
  ok(Date.parse(b.updated_at) >= Date.parse(a.updated_at), "updated_at");
  same(b.created_at, a.created_at);
});

check("assistants.update_config_context_graph", async (t) => {
  const { assistant_id: id } = await make(t);
  has(await t.client.assistants.update(id, { config: { configurable: { model: "z" } } }), { config: { configurable: { model: "z" } } });
  has(await t.client.assistants.update(id, { graphId: "configurable" }), { graph_id: "configurable", version: 3 });
});

check("assistants.update_context", async (t) => {
  const { assistant_id: id } = await make(t, { graphId: "configurable" });
  has(await t.client.assistants.update(id, { context: { region: "eu" } }), { context: { region: "eu" }, version: 2 });
});

check("assistants.update_unknown", async ({ client }) => fails(client.assistants.update(unknown, { name: "x" }), 404));

check("assistants.versions", async (t) => {
  const { assistant_id: id } = await make(t, { name: "one" });
  for (const name of ["two", "three"]) await t.client.assistants.update(id, { name, metadata: { [name]: true } });
  const all = await t.client.assistants.getVersions(id);
  same(all.map((v) => [v.version, v.name]), [[3, "three"], [2, "two"], [1, "one"]]);
  same((await t.client.assistants.getVersions(id, { limit: 1, offset: 1 })).map((v) => v.version), [2]);
  same((await t.client.assistants.getVersions(id, { metadata: { three: true } })).map((v) => v.version), [3]);
});

check("assistants.set_latest", async (t) => {
  const { assistant_id: id } = await make(t, { name: "one", config: { configurable: { model: "a" } } });
  await t.client.assistants.update(id, { name: "two", config: { configurable: { model: "b" } } });
  has(await t.client.assistants.setLatest(id, 1), { version: 1, name: "one", config: { configurable: { model: "a" } } });
  same((await t.client.assistants.get(id)).name, "one");
  same((await t.client.assistants.update(id, { name: "three" })).version, 3);
});

check(
  "assistants.set_latest_restores_context",
  async (t) => {
    const { assistant_id: id } = await make(t, { graphId: "configurable", context: { tier: "gold" } });
    await t.client.assistants.update(id, { context: { tier: "tin" } });
    has(await t.client.assistants.setLatest(id, 1), { context: { tier: "gold" } });
  },
  { deviates: "keeps the newer version's context" },
);

check("assistants.set_latest_unknown_version", async (t) => {
  const { assistant_id: id } = await make(t);
  await fails(t.client.assistants.setLatest(id, 9), 404);
});

check("assistants.search_by_graph", async ({ client }) => {
  const found = await client.assistants.search({ graphId: "fanout", metadata: { created_by: "system" } });
  same(found.map((a) => a.assistant_id), [idOf("fanout")]);
});

check("assistants.search_by_metadata", async (t) => {
  const tag = uuid();
  const a = await make(t, { metadata: { tag, nested: { a: 1, b: 2 } } });
  await make(t, { metadata: { tag, nested: { a: 2 } } });
  same((await t.client.assistants.search({ metadata: { tag, nested: { a: 1 } } })).map((x) => x.assistant_id), [a.assistant_id]);
  same(await t.client.assistants.search({ metadata: { tag: uuid() } }), []);
});

check("assistants.search_by_name", async (t) => {
  const tag = uuid();
  await make(t, { name: `Weather ${tag} Bot` });
  same((await t.client.assistants.search({ name: `weather ${tag}` })).length, 1);
});

check("assistants.search_pages", async (t) => {
  const tag = uuid();
  for (const name of ["b", "a", "c"]) await make(t, { name, metadata: { tag } });
  const by = (query) => t.client.assistants.search({ metadata: { tag }, ...query });
  same((await by({ sortBy: "name", sortOrder: "asc" })).map((a) => a.name), ["a", "b", "c"]);
  same((await by({ sortBy: "name", sortOrder: "desc", limit: 1, offset: 1 })).map((a) => a.name), ["b"]);
  same((await by({})).map((a) => a.name), ["c", "a", "b"]);
  same((await by({ sortBy: "created_at", sortOrder: "asc" })).map((a) => a.name), ["b", "a", "c"]);
});

check("assistants.search_select", async (t) => {
  const tag = uuid();
  await make(t, { metadata: { tag } });
  const [a] = await t.client.assistants.search({ metadata: { tag }, select: ["assistant_id", "name"] });
  same(Object.keys(a).sort(), ["assistant_id", "name"]);
});

check("assistants.search_pagination_headers", async (t) => {
  const tag = uuid();
  for (let i = 0; i < 3; i++) await make(t, { metadata: { tag } });
  const first = await t.client.assistants.search({ metadata: { tag }, limit: 2, includePagination: true });
  same([first.assistants.length, first.next], [2, "2"]);
  const last = await t.client.assistants.search({ metadata: { tag }, limit: 2, offset: 2, includePagination: true });
  same([last.assistants.length, last.next], [1, null]);
  const res = await t.http("POST", "/assistants/search", { metadata: { tag }, limit: 10 });
  same(res.headers.get("x-pagination-total"), "3");
});

check("assistants.count", async (t) => {
  const tag = uuid();
  await make(t, { name: `N${tag}`, metadata: { tag } });
  await make(t, { graphId: "agent", metadata: { tag } });
  same(await t.client.assistants.count({ metadata: { tag } }), 2);
  same(await t.client.assistants.count({ metadata: { tag }, graphId: "agent" }), 1);
  same(await t.client.assistants.count({ name: `n${tag}` }), 1);
});

check("assistants.delete", async (t) => {
  const { assistant_id: id } = await make(t);
  await t.client.assistants.delete(id);
  await fails(t.client.assistants.get(id), 404);
  await fails(t.client.assistants.delete(id), 404);
});

check("assistants.delete_with_threads", async (t) => {
  const { assistant_id: id } = await make(t);
  const kept = await t.thread("router", {});
  const gone = await t.thread(id, {});
  await t.client.assistants.delete(id, { deleteThreads: true });
  await fails(t.client.threads.get(gone), 404);
  same((await t.client.threads.get(kept)).thread_id, kept);
});

check("assistants.graph", async ({ client }) => {
  const { nodes, edges } = await client.assistants.getGraph(idOf("agent"));
  same(nodes.map((n) => n.id).sort(), ["__end__", "__start__", "agent", "tools"]);
  const lines = edges.map((e) => `${e.source}${e.conditional ? "?" : ""}>${e.target}`).sort();
  same(lines, ["__start__>agent", "agent?>__end__", "agent?>tools", "tools>agent"]);
});

check("assistants.graph_by_graph_id", async ({ client }) => {
  const { edges } = await client.assistants.getGraph("router");
  const lines = edges.map((e) => `${e.source}${e.conditional ? "?" : ""}>${e.target}`).sort();
  same(lines, ["__start__>route", "left>__end__", "right>__end__", "route?>left", "route?>right"]);
});

check("assistants.graph_xray", async ({ client }) => {
  const closed = await client.assistants.getGraph(idOf("nested"));
  ok(closed.nodes.some((n) => n.id === "child"), "closed");
  for (const xray of [true, 1]) {
    const { nodes, edges } = await client.assistants.getGraph(idOf("nested"), { xray });
    const ids = nodes.map((n) => n.id);
    ok(ids.includes("child:child_one") && ids.includes("child:child_two") && !ids.includes("child"), `nodes ${ids}`);
    ok(edges.some((e) => e.source === "before" && e.target === "child:child_one"), "edge into the child");
    ok(edges.some((e) => e.source === "child:child_two" && e.target === "after"), "edge out of the child");
  }
});

check("assistants.schemas", async ({ client }) => {
  const s = await client.assistants.getSchemas(idOf("router"));
  same(s.graph_id, "router");
  for (const key of ["input_schema", "output_schema", "state_schema"]) {
    same(Object.keys(s[key].properties).sort(), ["path", "target", "x"], key);
  }
});

check("assistants.schemas_context", async ({ client }) => {
  const s = await client.assistants.getSchemas(idOf("configurable"));
  same(Object.keys(s.context_schema.properties).sort(), ["region", "tier"]);
});

check("assistants.subgraphs", async ({ client }) => {
  const all = await client.assistants.getSubgraphs(idOf("nested"));
  same(Object.keys(all), ["child"]);
  const props = (all.child.state_schema ?? all.child.state).properties;
  same(Object.keys(props).sort(), ["steps", "value"]);
  same(Object.keys(await client.assistants.getSubgraphs(idOf("nested"), { recurse: true })), ["child"]);
  same(await client.assistants.getSubgraphs(idOf("router")), {});
});

check("assistants.subgraphs_of_a_namespace", async ({ client }) => {
  same(Object.keys(await client.assistants.getSubgraphs(idOf("nested"), { namespace: "child" })), ["child"]);
});

check("assistants.config_reaches_the_graph", async (t) => {
  const a = await make(t, { graphId: "configurable", config: { configurable: { model: "m1" }, tags: ["a"] } });
  const { seen } = await t.client.runs.wait(null, a.assistant_id, { input: {} });
  has(seen, { model: "m1", graph_id: "configurable", assistant_id: a.assistant_id });
  ok(seen.tags.includes("a"), "tags");
  same((await t.client.runs.wait(null, a.assistant_id, { input: {}, config: { configurable: { model: "m2" } } })).seen.model, "m2");
});

check("assistants.context_reaches_the_graph", async (t) => {
  const a = await make(t, { graphId: "configurable", context: { tier: "gold", region: "eu" } });
  has((await t.client.runs.wait(null, a.assistant_id, { input: {} })).seen, { tier: "gold", region: "eu" });
  has((await t.client.runs.wait(null, a.assistant_id, { input: {}, context: { tier: "tin" } })).seen, { tier: "tin", region: "eu" });
});

check("assistants.recursion_limit_reaches_the_graph", async (t) => {
  const a = await make(t, { graphId: "slow", config: { recursion_limit: 3 } });
  const err = await fails(t.client.runs.wait(null, a.assistant_id, { input: { count: 9, delay_ms: 0 } }));
  ok(/recursion/i.test(err.message), err.message);
});
