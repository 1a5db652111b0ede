"""client.threads, except state"""

import asyncio
import inspect

from kit import UNKNOWN, answered, check, collect, data_of, eq, events_of, fails, has, id_of, is_time, is_uuid, until, uuid


@check("threads.create")
async def _(t):
    made = await t.client.threads.create()
    assert is_uuid(made["thread_id"]) and is_time(made["created_at"]) and is_time(made["updated_at"])
    has(made, {"status": "idle", "metadata": {}})
    assert made.get("values") is None
    has(await t.client.threads.get(made["thread_id"]), {"thread_id": made["thread_id"], "status": "idle"})


@check("threads.create_all_fields")
async def _(t):
    id = uuid()
    has(await t.client.threads.create(thread_id=id, metadata={"a": {"b": [1]}}, graph_id="router"), {"thread_id": id, "metadata": {"a": {"b": [1]}, "graph_id": "router"}})


@check("threads.create_duplicate")
async def _(t):
    id = (await t.client.threads.create(metadata={"n": 1}))["thread_id"]
    await fails(t.client.threads.create(thread_id=id), 409)
    await fails(t.client.threads.create(thread_id=id, if_exists="raise"), 409)
    has(await t.client.threads.create(thread_id=id, if_exists="do_nothing", metadata={"n": 2}), {"metadata": {"n": 1}})


@check("threads.create_invalid_id")
async def _(t):
    await fails(t.client.threads.create(thread_id="x"), 422)


@check("threads.ttl", deviates="has no expiry of threads in memory")
async def _(t):
    a = (await t.client.threads.create(ttl=5))["thread_id"]
    b = (await t.client.threads.create(ttl={"ttl": 7, "strategy": "delete"}))["thread_id"]
    has((await t.client.threads.get(a, include=["ttl"]))["ttl"], {"ttl_minutes": 5, "strategy": "delete"})
    has((await t.client.threads.get(b, include=["ttl"]))["ttl"], {"ttl_minutes": 7})
    await t.client.threads.update(a, metadata={}, ttl=9)
    has((await t.client.threads.get(a, include=["ttl"]))["ttl"], {"ttl_minutes": 9})


@check("threads.create_supersteps")
async def _(t):
    supersteps = [
        {"updates": [{"values": {"topic": "cats"}, "as_node": "__input__"}]},
        {"updates": [{"values": {"topic": "cats"}, "as_node": "__start__"}]},
        {"updates": [{"values": {"log": ["proposed:cats"]}, "as_node": "propose"}]},
    ]
    id = (await t.client.threads.create(graph_id="hitl", supersteps=supersteps))["thread_id"]
    state = await t.state(id)
    eq([state["values"], state["next"]], [{"topic": "cats", "log": ["proposed:cats"]}, ["review"]])
    out = await t.client.runs.wait(id, "hitl", input=None)
    has(out["__interrupt__"], [{"value": {"question": "approve?", "topic": "cats"}}])


@check("threads.get_unknown")
async def _(t):
    await fails(t.client.threads.get(UNKNOWN), 404)


@check("threads.after_a_run")
async def _(t):
    got = await t.client.threads.get(await t.thread("router", {"target": "right"}))
    has(got, {"status": "idle", "metadata": {"graph_id": "router", "assistant_id": id_of("router")}})
    eq([got["values"], got["interrupts"]], [{"target": "right", "path": ["route", "right"]}, {}])


@check("threads.statuses")
async def _(t):
    paused = await t.client.threads.get(await t.thread("hitl", {"topic": "cats"}))
    eq(paused["status"], "interrupted")
    [pauses] = paused["interrupts"].values()
    has(pauses, [{"value": {"question": "approve?", "topic": "cats"}}])
    eq(sorted(pauses[0]), ["id", "value"])
    eq((await t.client.threads.get(await t.thread("failing", {"message": "m"})))["status"], "error")
    id = await t.thread()
    run = await t.client.runs.create(id, "slow", input=LONG_ENOUGH)
    eq((await t.client.threads.get(id))["status"], "busy")
    await t.ended(id, run["run_id"])
    eq((await t.client.threads.get(id))["status"], "idle")


LONG_ENOUGH = {"count": 2, "delay_ms": 1500}


@check("threads.update")
async def _(t):
    id = (await t.client.threads.create(metadata={"a": 1, "b": 1}))["thread_id"]
    has(await t.client.threads.update(id, metadata={"b": 2, "c": 3}), {"metadata": {"a": 1, "b": 2, "c": 3}})
    eq(await t.client.threads.update(id, metadata={"d": 4}, return_minimal=True), None)
    eq((await t.client.threads.get(id))["metadata"], {"a": 1, "b": 2, "c": 3, "d": 4})
    await fails(t.client.threads.update(UNKNOWN, metadata={}), 404)


@check("threads.delete")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    await t.client.threads.delete(id)
    await fails(t.client.threads.get(id), 404)
    await fails(t.client.threads.delete(id), 404)


@check("threads.copy")
async def _(t):
    id = await t.thread("hitl", {"topic": "x"})
    await t.client.threads.copy(id)
    found = await t.client.threads.search(metadata={"graph_id": "hitl"}, limit=1000, sort_by="created_at", sort_order="desc")
    copies = [f for f in found if f["thread_id"] != id and (f.get("values") or {}).get("topic") == "x"]
    assert copies
    await fails(t.client.threads.copy(UNKNOWN), 404, 409)


@check("threads.copy_goes_on_by_itself")
async def _(t):
    id = await t.thread("hitl", {"topic": "y"})
    copy = (await t.web.post(f"/threads/{id}/copy")).json()["thread_id"]
    await t.client.runs.wait(copy, "hitl", command={"resume": 1})
    eq((await t.state(copy))["next"], [])
    eq((await t.state(id))["next"], ["review"])
    eq(len(await t.client.threads.get_history(id)), 3)


@check("threads.search_by_metadata")
async def _(t):
    tag = uuid()
    a = (await t.client.threads.create(metadata={"tag": tag, "deep": {"x": 1, "y": 2}}))["thread_id"]
    await t.client.threads.create(metadata={"tag": tag, "deep": {"x": 2}})
    eq([f["thread_id"] for f in await t.client.threads.search(metadata={"tag": tag, "deep": {"x": 1}})], [a])
    eq(await t.client.threads.search(metadata={"tag": uuid()}), [])


@check("threads.search_by_ids")
async def _(t):
    ids = [(await t.client.threads.create())["thread_id"] for _ in range(3)]
    found = await t.client.threads.search(ids=[ids[0], ids[2], UNKNOWN])
    eq(sorted(f["thread_id"] for f in found), sorted([ids[0], ids[2]]))


@check("threads.search_by_status_and_values")
async def _(t):
    tag = uuid()
    ids = {}
    for graph, input in (("router", {"target": "right"}), ("hitl", {"topic": "t"}), ("failing", {"message": "m"})):
        ids[graph] = (await t.client.threads.create(metadata={"tag": tag}))["thread_id"]
        await t.client.runs.wait(ids[graph], graph, input=input, raise_error=False)

    async def by(**query):
        return [f["thread_id"] for f in await t.client.threads.search(metadata={"tag": tag}, **query)]

    eq(await by(status="idle"), [ids["router"]])
    eq(await by(status="interrupted"), [ids["hitl"]])
    eq(await by(status="error"), [ids["failing"]])
    eq(await by(status="busy"), [])
    eq(await by(values={"target": "right"}), [ids["router"]])
    eq(await t.client.threads.count(metadata={"tag": tag}, status="error"), 1)
    eq(await t.client.threads.count(metadata={"tag": tag}, values={"topic": "t"}), 1)
    eq(await t.client.threads.count(metadata={"tag": tag}), 3)


@check("threads.search_by_values_alone", deviates="fails as soon as it meets a thread without values")
async def _(t):
    target = uuid()
    await t.client.threads.create()
    id = await t.thread("router", {"target": target})
    eq([f["thread_id"] for f in await t.client.threads.search(values={"target": target})], [id])


@check("threads.search_sorts")
async def _(t):
    tag, ids = uuid(), []
    for n in range(3):
        ids.append((await t.client.threads.create(metadata={"tag": tag, "n": n}))["thread_id"])
        await asyncio.sleep(0.005)

    async def by(**query):
        return [f["thread_id"] for f in await t.client.threads.search(metadata={"tag": tag}, **query)]

    eq(await by(sort_by="created_at", sort_order="asc"), ids)
    eq(await by(sort_by="created_at", sort_order="desc"), ids[::-1])
    eq(await by(sort_by="thread_id", sort_order="desc"), sorted(ids)[::-1])
    eq(await by(sort_by="created_at", sort_order="asc", limit=1, offset=1), [ids[1]])
    await t.client.threads.update(ids[0], metadata={"touched": True})
    eq((await by(sort_by="updated_at", sort_order="desc"))[0], ids[0])
    for key in ("status", "state_updated_at"):
        eq(len(await by(sort_by=key, sort_order="asc")), 3)


@check("threads.search_select_and_extract")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    [found] = await t.client.threads.search(ids=[id], select=["thread_id"], extract={"last": "values.path[-1]", "graph": "metadata.graph_id"})
    eq(found, {"thread_id": id, "extracted": {"last": "left", "graph": "router"}})


@check("threads.prune")
async def _(t):
    ids = [await t.thread("router", {"target": "left"}), await t.thread()]
    has(await t.client.threads.prune([*ids, UNKNOWN]), {"pruned_count": 2})
    await fails(t.client.threads.get(ids[0]), 404)


@check("threads.prune_keep_latest", deviates="cannot do so in memory")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    has(await t.client.threads.prune([id], strategy="keep_latest"), {"pruned_count": 1})
    eq(len(await t.client.threads.get_history(id)), 1)
    eq((await t.state(id))["values"]["path"], ["route", "left"])


async def joined(t, id, **options):
    """What join_stream yields. The async client's is a coroutine around an iterator."""
    stream = t.client.threads.join_stream(id, **options)
    async for part in await stream if inspect.iscoroutine(stream) else stream:
        yield part


@check("threads.join_stream")
async def _(t):
    id = await t.thread()

    async def read():
        parts = []
        async for part in joined(t, id):
            parts.append(part)
            if isinstance(part.data, dict) and part.data.get("status") == "run_done":
                return parts

    reading = asyncio.create_task(read())
    await until(lambda: f"/threads/{id}/stream" in answered, "the stream")
    await collect(t.client.runs.stream(id, "router", input={"target": "left"}))
    parts = await asyncio.wait_for(reading, 20)
    eq([v["path"] for v in data_of(parts, "values")], [[], ["route"], ["route", "left"]])


@check("threads.join_stream_replays")
async def _(t):
    id = await t.thread()
    await collect(t.client.runs.stream(id, "router", input={"target": "left"}, stream_resumable=True))
    parts = []
    async for part in joined(t, id, last_event_id="-"):
        parts.append(part)
        if isinstance(part.data, dict) and part.data.get("status") == "run_done":
            break
    eq(events_of(parts), ["metadata", "values", "values", "values", "metadata"])


@check("threads.join_stream_lifecycle", deviates="ignores the parameter that its SDK sends")
async def _(t):
    id = await t.thread()
    await collect(t.client.runs.stream(id, "router", input={"target": "left"}, stream_resumable=True))
    parts = []
    async for part in joined(t, id, last_event_id="-", stream_mode="lifecycle"):
        parts.append(part)
        if part.data.get("status") == "run_done":
            break
    eq(events_of(parts), ["metadata", "metadata"])
