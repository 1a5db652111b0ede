"""client.runs.stream and join_stream: every mode, with and without subgraphs"""

from kit import WEATHER, check, collect, data_of, eq, events_of, fails, has, uuid


async def stream(t, id, graph, input, mode=None, **options):
    if mode:
        options["stream_mode"] = mode
    return await collect(t.client.runs.stream(id, graph, input=input, **options))


def inner(parts, mode):
    return [p for p in parts if p.event.startswith(f"{mode}|child:")]


@check("stream.default_mode")
async def _(t):
    id, made = await t.thread(), []
    parts = await stream(t, id, "router", {"target": "left"}, on_run_created=made.append)
    eq(events_of(parts), ["metadata", "values", "values", "values"])
    has(parts[0].data, {"run_id": made[0]["run_id"], "attempt": 1})
    eq([v["path"] for v in data_of(parts, "values")], [[], ["route"], ["route", "left"]])


@check("stream.updates")
async def _(t):
    eq(data_of(await stream(t, await t.thread(), "router", {"target": "right"}, "updates"), "updates"), [{"route": {"path": ["route"]}}, {"right": {"path": ["right"]}}])


@check("stream.custom")
async def _(t):
    eq(data_of(await stream(t, await t.thread(), "custom", {"n": 2}, "custom"), "custom"), [{"type": "progress", "step": i, "total": 2} for i in range(2)])


@check("stream.messages_tuple")
async def _(t):
    id = await t.thread()
    parts = data_of(await stream(t, id, "agent", WEATHER, "messages-tuple"), "messages")
    ai = [m for m, _ in parts if m["type"] in ("ai", "AIMessageChunk")]
    eq([c["args"] for m in ai for c in m.get("tool_call_chunks") or []], ["", '{"city":', '"Paris"}'])
    eq([m["content"] for m in ai if m["content"]], ["It ", "is ", "sunny ", "in ", "Paris ", "today."])
    eq([(m["content"], meta["langgraph_node"]) for m, meta in parts if m["type"] == "tool"], [("sunny in Paris", "tools")])
    stored = (await t.state(id))["values"]["messages"]
    eq(list(dict.fromkeys(m["id"] for m in ai)), [stored[1]["id"], stored[3]["id"]])
    has(parts[0][1], {"langgraph_node": "agent", "langgraph_step": 1, "thread_id": id, "graph_id": "agent"})


@check("stream.messages_legacy")
async def _(t):
    parts = await stream(t, await t.thread(), "agent", {"messages": [{"role": "user", "content": "hi there"}]}, "messages")
    eq(list(dict.fromkeys(m[0]["content"] for m in data_of(parts, "messages/partial"))), ["Echo: ", "Echo: hi ", "Echo: hi there"])
    [meta] = data_of(parts, "messages/metadata")
    has(list(meta.values())[0]["metadata"], {"langgraph_node": "agent"})


@check("stream.debug")
async def _(t):
    data = data_of(await stream(t, await t.thread(), "router", {"target": "left"}, "debug"), "debug")
    eq([f"{d['type']}@{d['step']}" for d in data], ["checkpoint@-1", "checkpoint@0", "task@1", "task_result@1", "checkpoint@1", "task@2", "task_result@2", "checkpoint@2"])
    has(data[-1]["payload"], {"values": {"target": "left", "path": ["route", "left"]}, "next": [], "metadata": {"step": 2}})


@check("stream.tasks")
async def _(t):
    data = data_of(await stream(t, await t.thread(), "fanout", {"items": ["a", "b"]}, "tasks"), "tasks")
    starts = [d for d in data if "input" in d]
    eq([d["name"] for d in starts], ["plan", "worker", "worker", "reduce"])
    eq(sorted(d["id"] for d in data if "result" in d), sorted(d["id"] for d in starts))


@check("stream.checkpoints")
async def _(t):
    data = data_of(await stream(t, await t.thread(), "router", {"target": "left"}, "checkpoints"), "checkpoints")
    eq([d["metadata"]["step"] for d in data], [-1, 0, 1, 2])
    eq([d["next"] for d in data], [["__start__"], ["route"], ["left"], []])


@check("stream.events")
async def _(t):
    data = data_of(await stream(t, await t.thread(), "agent", WEATHER, "events"), "events")
    names = {d["event"] for d in data}
    want = {"on_chain_start", "on_chat_model_start", "on_chat_model_stream", "on_chat_model_end", "on_tool_start", "on_tool_end", "on_chain_end"}
    assert want <= names, want - names


@check("stream.several_modes")
async def _(t):
    eq(events_of(await stream(t, await t.thread(), "router", {"target": "left"}, ["values", "updates"])), ["metadata", "values", "updates", "values", "updates", "values"])


@check("stream.unknown_mode")
async def _(t):
    await fails(stream(t, await t.thread(), "router", {}, ["nope"]), 422)


@check("stream.subgraphs")
async def _(t):
    parts = await stream(t, await t.thread(), "nested", {"value": "s"}, ["values", "updates"], stream_subgraphs=True)
    eq([p.data["value"] for p in inner(parts, "values")], ["s>before", "s>before>c1", "s>before>c1>c2"])
    eq([list(p.data)[0] for p in inner(parts, "updates")], ["child_one", "child_two"])
    eq(len({p.event.split("|")[1] for p in parts if "|" in p.event}), 1)


@check("stream.subgraphs_tasks_checkpoints_debug")
async def _(t):
    parts = await stream(t, await t.thread(), "nested", {"value": "s"}, ["tasks", "checkpoints", "debug"], stream_subgraphs=True)
    eq([len(inner(parts, m)) for m in ("tasks", "checkpoints", "debug")], [4, 4, 8])


@check("stream.without_subgraphs")
async def _(t):
    parts = await stream(t, await t.thread(), "nested", {"value": "s"}, ["values", "updates", "tasks"])
    assert not [p for p in parts if "|" in p.event], events_of(parts)


@check("stream.error")
async def _(t):
    parts = await stream(t, await t.thread(), "failing", {"message": "m"})
    eq(parts[-1].event, "error")
    has(parts[-1].data, {"message": "boom: m"})


@check("stream.interrupt_and_resume")
async def _(t):
    id = await t.thread()
    parts = await stream(t, id, "hitl", {"topic": "cats"}, ["values", "updates"])
    has(data_of(parts, "updates")[-1], {"__interrupt__": [{"value": {"question": "approve?", "topic": "cats"}}]})
    has(data_of(parts, "values")[-1], {"topic": "cats", "__interrupt__": [{"value": {"question": "approve?", "topic": "cats"}}]})
    parts = await collect(t.client.runs.stream(id, "hitl", command={"resume": "yes"}, stream_mode=["updates"]))
    eq(data_of(parts, "updates"), [{"review": {"approval": "yes", "log": ['reviewed:"yes"']}}, {"finish": {"log": ["finished"]}}])


@check("stream.interrupt_keys")
async def _(t):
    parts = await stream(t, await t.thread(), "hitl", {"topic": "cats"}, "updates")
    assert set(data_of(parts, "updates")[-1]["__interrupt__"][0]) <= {"id", "value", "response_schema"}


@check("stream.breakpoint")
async def _(t):
    parts = await stream(t, await t.thread(), "router", {"target": "left"}, ["updates"], interrupt_before=["left"])
    eq(data_of(parts, "updates")[-1], {"__interrupt__": []})


@check("stream.stateless")
async def _(t):
    eq(len(data_of(await stream(t, None, "router", {"target": "left"}, "updates"), "updates")), 2)


@check("stream.version_2")
async def _(t):
    parts = await stream(t, await t.thread(), "nested", {"value": "s"}, ["values", "updates"], stream_subgraphs=True, version="v2")
    eq([p["type"] for p in parts if p["type"] != "metadata"][:3], ["values", "updates", "values"])
    child = [p for p in parts if p["ns"] and p["type"] == "updates"]
    eq([list(p["data"])[0] for p in child], ["child_one", "child_two"])
    assert child[0]["ns"][0].startswith("child:"), child[0]


@check("stream.version_2_interrupts")
async def _(t):
    parts = await stream(t, await t.thread(), "hitl", {"topic": "cats"}, ["values"], version="v2")
    last = [p for p in parts if p["type"] == "values"][-1]
    has(last["interrupts"], [{"value": {"question": "approve?", "topic": "cats"}}])
    assert "__interrupt__" not in last["data"]


@check("stream.resumable")
async def _(t):
    id, made = await t.thread(), []
    parts = await stream(t, id, "router", {"target": "left"}, ["values", "updates"], stream_resumable=True, on_run_created=made.append)
    assert all(p.id for p in parts)
    run = made[0]["run_id"]
    eq(await collect(t.client.runs.join_stream(id, run, last_event_id="-1")), parts)
    eq(await collect(t.client.runs.join_stream(id, run, last_event_id=parts[2].id)), parts[3:])
    only = await collect(t.client.runs.join_stream(id, run, last_event_id="-1", stream_mode="updates"))
    eq({p.event for p in only} - {"metadata"}, {"updates"})


@check("stream.join_live")
async def _(t):
    id = await t.thread()
    run = await t.client.runs.create(id, "slow", input={"count": 3, "delay_ms": 100}, stream_mode="updates", stream_resumable=True)
    parts = await collect(t.client.runs.join_stream(id, run["run_id"], last_event_id="-1"))
    eq([d["tick"]["i"] for d in data_of(parts, "updates") if "tick" in d], [1, 2, 3])


@check("stream.join_modes", deviates="uses only the last of repeated parameters")
async def _(t):
    id, made = await t.thread(), []
    await stream(t, id, "router", {"target": "left"}, ["values", "updates", "tasks"], stream_resumable=True, on_run_created=made.append)
    parts = await collect(t.client.runs.join_stream(id, made[0]["run_id"], last_event_id="-1", stream_mode=["updates", "tasks"]))
    eq({p.event for p in parts} - {"metadata"}, {"updates", "tasks"})


@check("stream.status_is_set_before_the_end")
async def _(t):
    id = await t.thread()
    await stream(t, id, "router", {"target": "left"})
    eq((await t.client.threads.get(id))["status"], "idle")


@check("stream.large_values")
async def _(t):
    x = uuid() * 20000
    assert all(v["x"] == x for v in data_of(await stream(t, await t.thread(), "router", {"x": x}), "values"))


@check("stream.headers_and_params")
async def _(t):
    parts = await stream(t, None, "configurable", {"note": "n"}, headers={"x-harness": "s"}, params={"unknown": "1"})
    has(data_of(parts, "values")[-1]["seen"], {"header": "s"})
