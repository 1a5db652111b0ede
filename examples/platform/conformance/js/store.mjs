// client.store

import { check, fails, has, isDetail, isTime, ok, same, sleep, uuid } from "./kit.mjs";

check("store.put_and_get", async ({ client }) => {
  const ns = ["conf", uuid()];
  await client.store.putItem(ns, "k", { a: { b: [1, null, "ü"] } });
  const item = await client.store.getItem(ns, "k");
  has(item, { namespace: ns, key: "k", value: { a: { b: [1, null, "ü"] } } });
  ok(isTime(item.createdAt) && isTime(item.updatedAt), "times");
});

check("store.get_missing", async ({ client }) => {
  same(await client.store.getItem(["conf", uuid()], "k"), null);
});

check("store.put_replaces", async ({ client }) => {
  const ns = ["conf", uuid()];
  await client.store.putItem(ns, "k", { a: 1, gone: true });
  await sleep(10);
  await client.store.putItem(ns, "k", { a: 2 });
  const item = await client.store.getItem(ns, "k");
  same(item.value, { a: 2 });
  ok(Date.parse(item.updatedAt) >= Date.parse(item.createdAt), "times");
});

check("store.delete", async ({ client }) => {
  const ns = ["conf", uuid()];
  await client.store.putItem(ns, "k", { a: 1 });
  await client.store.deleteItem(ns, "k");
  const got = await client.store.getItem(ns, "k").catch(() => null);
  same(got, null);
  await client.store.deleteItem(ns, "k");
});

check("store.search", async ({ client }) => {
  const ns = ["conf", uuid()];
  for (let i = 0; i < 5; i++) await client.store.putItem([...ns, `sub${i % 2}`], `k${i}`, { i, kind: i % 2 ? "odd" : "even" });
  const keys = async (prefix, options) => (await client.store.searchItems(prefix, options)).items.map((x) => x.key).sort();
  same(await keys(ns), ["k0", "k1", "k2", "k3", "k4"]);
  same(await keys([...ns, "sub1"]), ["k1", "k3"]);
  same(await keys(ns, { filter: { kind: "odd" } }), ["k1", "k3"]);
  same((await keys(ns, { limit: 2 })).length, 2);
  const pages = [await keys(ns, { limit: 3 }), await keys(ns, { limit: 3, offset: 3 })].flat().sort();
  same(pages, ["k0", "k1", "k2", "k3", "k4"]);
});

check("store.search_operators", async ({ client }) => {
  const ns = ["conf", uuid()];
  for (let i = 0; i < 4; i++) await client.store.putItem(ns, `k${i}`, { i });
  const keys = async (filter) => (await client.store.searchItems(ns, { filter })).items.map((x) => x.key).sort();
  same(await keys({ i: { $gte: 2 } }), ["k2", "k3"]);
  same(await keys({ i: { $gt: 2 } }), ["k3"]);
  same(await keys({ i: { $lt: 1 } }), ["k0"]);
  same(await keys({ i: { $lte: 1 } }), ["k0", "k1"]);
  same(await keys({ i: { $ne: 0 } }), ["k1", "k2", "k3"]);
  same(await keys({ i: { $eq: 3 } }), ["k3"]);
  same(await keys({ i: { $gt: 0, $lt: 3 } }), ["k1", "k2"]);
});

check("store.search_with_a_query", async ({ client }) => {
  const ns = ["conf", uuid()];
  await client.store.putItem(ns, "k", { text: "owls hunt at night" });
  same((await client.store.searchItems(ns, { query: "owls" })).items.map((x) => x.key), ["k"]);
});

check("store.namespaces", async ({ client }) => {
  const root = uuid();
  for (const ns of [["a", "x"], ["a", "y"], ["b", "x", "deep"]]) await client.store.putItem([root, ...ns], "k", {});
  const list = async (options) => (await client.store.listNamespaces(options)).namespaces.map((n) => n.slice(1).join("/")).sort();
  same(await list({ prefix: [root] }), ["a/x", "a/y", "b/x/deep"]);
  same(await list({ prefix: [root, "a"] }), ["a/x", "a/y"]);
  same(await list({ prefix: [root], suffix: ["x"] }), ["a/x"]);
  same(await list({ prefix: [root], maxDepth: 2 }), ["a", "b"]);
  same((await list({ prefix: [root], limit: 2 })).length, 2);
  same((await list({ prefix: [root], limit: 2, offset: 2 })).length, 1);
});

check("store.bad_namespaces", async ({ client, http }) => {
  await fails(client.store.putItem(["a.b"], "k", {}));
  const dotted = await http("PUT", "/store/items", { namespace: ["a.b"], key: "k", value: {} });
  ok([400, 422].includes(dotted.status), `status ${dotted.status}`);
  const empty = await http("PUT", "/store/items", { namespace: [""], key: "k", value: {} });
  ok([400, 422].includes(empty.status), `status ${empty.status}`);
  const none = await http("PUT", "/store/items", { namespace: [], key: "k", value: {} });
  ok([400, 422].includes(none.status), `status ${none.status}`);
});

check("store.value_is_an_object", async ({ http }) => isDetail(await http("PUT", "/store/items", { namespace: ["a"], key: "k", value: 5 }), 400, 422));

check("store.put_answers_204", async ({ http }) => {
  const namespace = ["conf", uuid()];
  same((await http("PUT", "/store/items", { namespace, key: "k", value: {} })).status, 204);
  same((await http("DELETE", "/store/items", { namespace, key: "k" })).status, 204);
});

check("store.index_and_ttl_are_accepted", async ({ client }) => {
  const ns = ["conf", uuid()];
  await client.store.putItem(ns, "a", { text: "one" }, { index: false });
  await client.store.putItem(ns, "b", { text: "two" }, { index: ["text"], ttl: 60 });
  same((await client.store.getItem(ns, "b", { refreshTtl: true })).value, { text: "two" });
  same((await client.store.searchItems(ns, { refreshTtl: false })).items.length, 2);
});

check("store.odd_keys", async ({ client }) => {
  const ns = ["conf", uuid(), "spaces and ü"];
  for (const key of ["a.b", "a/b?c=d&e", "ü ñ", "100%"]) {
    await client.store.putItem(ns, key, { key });
    same((await client.store.getItem(ns, key)).value, { key });
  }
});

check("store.search_everything", async ({ client }) => {
  ok(Array.isArray((await client.store.searchItems([], { limit: 1 })).items), "items");
});
