"""client.assistants"""

from kit import GRAPHS, UNKNOWN, check, eq, fails, has, id_of, is_time, uuid


async def make(t, graph="router", **options):
    return await t.client.assistants.create(graph, **options)


@check("assistants.default_ids")
async def _(t):
    for graph in GRAPHS:
        a = await t.client.assistants.get(id_of(graph))
        has(a, {"assistant_id": id_of(graph), "graph_id": graph, "name": graph, "version": 1, "metadata": {"created_by": "system"}})
        eq([a["config"], a["context"]], [{}, {}])
        assert is_time(a["created_at"]) and is_time(a["updated_at"])


@check("assistants.get_unknown")
async def _(t):
    await fails(t.client.assistants.get(UNKNOWN), 404)


@check("assistants.graph_id_alias", deviates="takes a graph id only where runs are made")
async def _(t):
    eq((await t.client.assistants.get("agent"))["assistant_id"], id_of("agent"))


@check("assistants.create_minimal")
async def _(t):
    a = await make(t)
    has(a, {"graph_id": "router", "version": 1, "name": "Untitled", "metadata": {}})
    eq(await t.client.assistants.get(a["assistant_id"]), a)


@check("assistants.create_all_fields")
async def _(t):
    id = uuid()
    a = await make(t, config={"tags": ["t"], "recursion_limit": 7, "configurable": {"model": "m"}}, metadata={"k": [1]}, assistant_id=id, name="Full", description="d")
    has(a, {"assistant_id": id, "name": "Full", "description": "d", "metadata": {"k": [1]}, "config": {"recursion_limit": 7, "tags": ["t"]}})


@check("assistants.create_context")
async def _(t):
    has(await make(t, "configurable", context={"tier": "gold"}), {"context": {"tier": "gold"}})


@check("assistants.create_config_and_context", deviates="refuses configurable and context together")
async def _(t):
    a = await make(t, "configurable", config={"configurable": {"model": "m"}}, context={"tier": "gold"})
    has(a, {"config": {"configurable": {"model": "m"}}, "context": {"tier": "gold"}})


@check("assistants.create_duplicate")
async def _(t):
    id = (await make(t, name="first"))["assistant_id"]
    await fails(make(t, assistant_id=id), 409)
    await fails(make(t, assistant_id=id, if_exists="raise"), 409)
    has(await make(t, assistant_id=id, if_exists="do_nothing", name="second"), {"name": "first"})


@check("assistants.create_unknown_graph")
async def _(t):
    await fails(make(t, "nope"), 404, 422)


@check("assistants.update")
async def _(t):
    a = await make(t, name="one", metadata={"a": 1})
    b = await t.client.assistants.update(a["assistant_id"], name="two", description="d", metadata={"b": 2}, config={"configurable": {"model": "x"}})
    has(b, {"version": 2, "name": "two", "description": "d", "metadata": {"a": 1, "b": 2}, "config": {"configurable": {"model": "x"}}})
    has(await t.client.assistants.update(a["assistant_id"], graph_id="configurable"), {"graph_id": "configurable", "version": 3})
    await fails(t.client.assistants.update(UNKNOWN, name="x"), 404)


@check("assistants.update_context")
async def _(t):
    a = await make(t, "configurable")
    has(await t.client.assistants.update(a["assistant_id"], context={"region": "eu"}), {"context": {"region": "eu"}})


@check("assistants.versions")
async def _(t):
    id = (await make(t, name="one"))["assistant_id"]
    for name in ("two", "three"):
        await t.client.assistants.update(id, name=name, metadata={name: True})
    eq([v["name"] for v in await t.client.assistants.get_versions(id)], ["three", "two", "one"])
    eq([v["version"] for v in await t.client.assistants.get_versions(id, limit=1, offset=1)], [2])
    eq([v["version"] for v in await t.client.assistants.get_versions(id, metadata={"three": True})], [3])


@check("assistants.set_latest")
async def _(t):
    id = (await make(t, name="one", config={"configurable": {"model": "a"}}))["assistant_id"]
    await t.client.assistants.update(id, name="two", config={"configurable": {"model": "b"}})
    has(await t.client.assistants.set_latest(id, 1), {"version": 1, "name": "one", "config": {"configurable": {"model": "a"}}})
    await fails(t.client.assistants.set_latest(id, 9), 404)


@check("assistants.set_latest_restores_context", deviates="keeps the newer version's context")
async def _(t):
    id = (await make(t, "configurable", context={"tier": "gold"}))["assistant_id"]
    await t.client.assistants.update(id, context={"tier": "tin"})
    has(await t.client.assistants.set_latest(id, 1), {"context": {"tier": "gold"}})


@check("assistants.search")
async def _(t):
    tag = uuid()
    for name in ("b", "a", "c"):
        await make(t, name=f"{name}{tag}", metadata={"tag": tag, "deep": {"name": name}})

    async def names(**query):
        return [a["name"][0] for a in await t.client.assistants.search(metadata={"tag": tag}, **query)]

    eq(await names(sort_by="name", sort_order="asc"), ["a", "b", "c"])
    eq(await names(sort_by="name", sort_order="desc", limit=1, offset=1), ["b"])
    eq(await names(), ["c", "a", "b"])
    eq(await names(graph_id="agent"), [])
    eq(len(await t.client.assistants.search(name=f"A{tag}".upper())), 1)
    eq(len(await t.client.assistants.search(metadata={"deep": {"name": "b"}, "tag": tag})), 1)


@check("assistants.search_select")
async def _(t):
    tag = uuid()
    await make(t, metadata={"tag": tag})
    [a] = await t.client.assistants.search(metadata={"tag": tag}, select=["assistant_id", "version"])
    eq(sorted(a), ["assistant_id", "version"])


@check("assistants.search_pagination")
async def _(t):
    tag = uuid()
    for _ in range(3):
        await make(t, metadata={"tag": tag})
    page = await t.client.assistants.search(metadata={"tag": tag}, limit=2, response_format="object")
    eq([len(page["assistants"]), page["next"]], [2, "2"])
    page = await t.client.assistants.search(metadata={"tag": tag}, limit=2, offset=2, response_format="object")
    eq([len(page["assistants"]), page["next"]], [1, None])


@check("assistants.count")
async def _(t):
    tag = uuid()
    await make(t, name=f"N{tag}", metadata={"tag": tag})
    await make(t, "agent", metadata={"tag": tag})
    eq(await t.client.assistants.count(metadata={"tag": tag}), 2)
    eq(await t.client.assistants.count(metadata={"tag": tag}, graph_id="agent"), 1)
    eq(await t.client.assistants.count(name=f"n{tag}"), 1)


@check("assistants.delete")
async def _(t):
    id = (await make(t))["assistant_id"]
    await t.client.assistants.delete(id)
    await fails(t.client.assistants.get(id), 404)
    await fails(t.client.assistants.delete(id), 404)


@check("assistants.delete_with_threads")
async def _(t):
    id = (await make(t))["assistant_id"]
    gone = await t.thread(id, {"target": "left"})
    await t.client.assistants.delete(id, delete_threads=True)
    await fails(t.client.threads.get(gone), 404)


@check("assistants.graph")
async def _(t):
    drawn = await t.client.assistants.get_graph(id_of("agent"))
    lines = sorted(f"{e['source']}{'?' if e.get('conditional') else ''}>{e['target']}" for e in drawn["edges"])
    eq(lines, ["__start__>agent", "agent?>__end__", "agent?>tools", "tools>agent"])


@check("assistants.graph_xray")
async def _(t):
    for xray in (True, 1):
        ids = [n["id"] for n in (await t.client.assistants.get_graph(id_of("nested"), xray=xray))["nodes"]]
        assert "child:child_one" in ids and "child:child_two" in ids and "child" not in ids, ids
    ids = [n["id"] for n in (await t.client.assistants.get_graph(id_of("nested"), xray=False))["nodes"]]
    assert "child" in ids, ids


@check("assistants.schemas")
async def _(t):
    s = await t.client.assistants.get_schemas(id_of("router"))
    eq(s["graph_id"], "router")
    for key in ("input_schema", "output_schema", "state_schema"):
        eq(sorted(s[key]["properties"]), ["path", "target", "x"], key)
    context = (await t.client.assistants.get_schemas(id_of("configurable")))["context_schema"]
    eq(sorted(context["properties"]), ["region", "tier"])


@check("assistants.subgraphs")
async def _(t):
    found = await t.client.assistants.get_subgraphs(id_of("nested"))
    eq(list(found), ["child"])
    eq(sorted(found["child"]["state_schema"]["properties"]), ["steps", "value"])
    eq(list(await t.client.assistants.get_subgraphs(id_of("nested"), namespace="child", recurse=True)), ["child"])


@check("assistants.config_reaches_the_graph")
async def _(t):
    a = await make(t, "configurable", config={"configurable": {"model": "m1"}, "tags": ["a"]})
    shown = (await t.client.runs.wait(None, a["assistant_id"], input={"note": "n"}))["seen"]
    has(shown, {"model": "m1", "assistant_id": a["assistant_id"], "graph_id": "configurable"})
    assert "a" in shown["tags"]


@check("assistants.context_reaches_the_graph")
async def _(t):
    a = await make(t, "configurable", context={"tier": "gold", "region": "eu"})
    out = await t.client.runs.wait(None, a["assistant_id"], input={"note": "n"}, context={"tier": "tin"})
    has(out["seen"], {"tier": "tin", "region": "eu"})


@check("assistants.headers_and_params")
async def _(t):
    a = await t.client.assistants.get(id_of("agent"), headers={"x-extra": "1"}, params={"unknown": "1"})
    eq(a["name"], "agent")
