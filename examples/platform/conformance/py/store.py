"""client.store"""

from kit import check, eq, fails, has, is_time, uuid


@check("store.put_get_delete")
async def _(t):
    ns = ["conf", uuid()]
    await t.client.store.put_item(ns, key="k", value={"a": [1, None, "ü"]})
    item = await t.client.store.get_item(ns, key="k")
    has(item, {"namespace": ns, "key": "k", "value": {"a": [1, None, "ü"]}})
    assert is_time(item["created_at"]) and is_time(item["updated_at"])
    await t.client.store.put_item(ns, key="k", value={"b": 1})
    eq((await t.client.store.get_item(ns, key="k"))["value"], {"b": 1})
    await t.client.store.delete_item(ns, key="k")
    eq((await t.client.store.search_items(ns))["items"], [])


@check("store.get_missing")
async def _(t):
    res = await t.web.get("/store/items", params={"namespace": f"conf.{uuid()}", "key": "k"})
    assert (res.status_code, res.json()) == (200, None), res.text


@check("store.search")
async def _(t):
    ns = ["conf", uuid()]
    for i in range(5):
        await t.client.store.put_item([*ns, f"sub{i % 2}"], key=f"k{i}", value={"i": i, "kind": "odd" if i % 2 else "even"})

    async def keys(prefix=ns, **query):
        return sorted(x["key"] for x in (await t.client.store.search_items(prefix, **query))["items"])

    eq(await keys(), ["k0", "k1", "k2", "k3", "k4"])
    eq(await keys([*ns, "sub1"]), ["k1", "k3"])
    eq(await keys(filter={"kind": "even"}), ["k0", "k2", "k4"])
    eq(await keys(filter={"i": {"$gte": 3}}), ["k3", "k4"])
    eq(await keys(filter={"i": {"$ne": 0}, "kind": "even"}), ["k2", "k4"])
    eq(len(await keys(limit=2)), 2)
    eq(sorted(await keys(limit=3) + await keys(limit=3, offset=3)), ["k0", "k1", "k2", "k3", "k4"])


@check("store.search_with_a_query")
async def _(t):
    ns = ["conf", uuid()]
    await t.client.store.put_item(ns, key="k", value={"text": "owls hunt"}, index=["text"], ttl=60)
    eq([x["key"] for x in (await t.client.store.search_items(ns, query="owls", refresh_ttl=True))["items"]], ["k"])
    eq((await t.client.store.get_item(ns, key="k", refresh_ttl=False))["value"], {"text": "owls hunt"})
    await t.client.store.put_item(ns, key="l", value={"text": "no"}, index=False)


@check("store.namespaces")
async def _(t):
    root = uuid()
    for ns in (["a", "x"], ["a", "y"], ["b", "x", "deep"]):
        await t.client.store.put_item([root, *ns], key="k", value={})

    async def spaces(**query):
        return sorted("/".join(n[1:]) for n in (await t.client.store.list_namespaces(prefix=[root], **query))["namespaces"])

    eq(await spaces(), ["a/x", "a/y", "b/x/deep"])
    eq(await spaces(suffix=["x"]), ["a/x"])
    eq(await spaces(max_depth=2), ["a", "b"])
    eq(len(await spaces(limit=2)), 2)
    eq(len(await spaces(limit=2, offset=2)), 1)


@check("store.bad_namespaces")
async def _(t):
    await fails(t.client.store.put_item(["a.b"], key="k", value={}))
    for namespace in (["a.b"], [""], []):
        res = await t.web.put("/store/items", json={"namespace": namespace, "key": "k", "value": {}})
        assert res.status_code in (400, 422), (namespace, res.status_code)


@check("store.odd_keys")
async def _(t):
    ns = ["conf", uuid(), "ü and blanks"]
    for key in ("a.b", "a/b?c=d&e", "ü ñ", "100%"):
        await t.client.store.put_item(ns, key=key, value={"key": key})
        eq((await t.client.store.get_item(ns, key=key))["value"], {"key": key})
