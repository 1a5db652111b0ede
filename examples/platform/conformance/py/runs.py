"""client.runs: create, wait, list, get, join, delete, and the fields of the payload"""

import asyncio
import time

from kit import UNKNOWN, WEATHER, check, collect, eq, fails, has, id_of, is_time, is_uuid, until, uuid


@check("runs.create")
async def _(t):
    id, made = await t.thread(), []
    run = await t.client.runs.create(id, "router", input={"target": "right"}, metadata={"m": 1}, on_run_created=made.append)
    assert is_uuid(run["run_id"]) and is_time(run["created_at"]) and is_time(run["updated_at"])
    has(run, {"thread_id": id, "assistant_id": id_of("router"), "multitask_strategy": "enqueue", "metadata": {"m": 1}})
    has(run["kwargs"], {"input": {"target": "right"}})
    assert run["status"] in ("pending", "running")
    eq(made, [{"run_id": run["run_id"], "thread_id": id}])
    eq((await t.ended(id, run["run_id"]))["status"], "success")


@check("runs.create_stateless")
async def _(t):
    run = await t.client.runs.create(None, "router", input={"target": "left"})
    assert is_uuid(run["run_id"]) and is_uuid(run["thread_id"])


@check("runs.create_batch")
async def _(t):
    made = await t.client.runs.create_batch([{"assistant_id": "router", "input": {"target": "left"}}, {"assistant_id": "fanout", "input": {"items": ["a"]}, "metadata": {"b": 1}}])
    eq([r["assistant_id"] for r in made], [id_of("router"), id_of("fanout")])
    has(made[1]["metadata"], {"b": 1})


@check("runs.wait")
async def _(t):
    id, made = await t.thread(), []
    eq(await t.client.runs.wait(id, "router", input={"target": "right"}, on_run_created=made.append), {"target": "right", "path": ["route", "right"]})
    eq((await t.client.runs.get(id, made[0]["run_id"]))["status"], "success")
    eq(await t.client.runs.wait(None, "router", input={"target": "left"}), {"target": "left", "path": ["route", "left"]})


@check("runs.wait_error")
async def _(t):
    id = await t.thread()
    err = await fails(t.client.runs.wait(id, "failing", input={"message": "m"}))
    assert "boom: m" in str(err), err
    out = await t.client.runs.wait(id, "failing", input={"message": "n"}, raise_error=False)
    has(out["__error__"], {"message": "boom: n"})
    eq([r["status"] for r in await t.client.runs.list(id)], ["error", "error"])


@check("runs.wait_interrupt")
async def _(t):
    out = await t.client.runs.wait(await t.thread(), "hitl", input={"topic": "cats"})
    has(out, {"topic": "cats", "log": ["proposed:cats"], "__interrupt__": [{"value": {"question": "approve?", "topic": "cats"}}]})


@check("runs.agent")
async def _(t):
    out = await t.client.runs.wait(await t.thread(), "agent", input=WEATHER)
    eq([(m["type"], m["content"]) for m in out["messages"]], [("human", "what is the weather"), ("ai", ""), ("tool", "sunny in Paris"), ("ai", "It is sunny in Paris today.")])
    has(out["messages"][1]["tool_calls"], [{"id": "call_weather_1", "name": "get_weather", "args": {"city": "Paris"}}])


@check("runs.list")
async def _(t):
    id = await t.thread()
    for n in range(3):
        await t.client.runs.wait(id, "router", input={"target": "left"}, metadata={"n": n})
    await t.client.runs.wait(id, "failing", input={"message": "m"}, raise_error=False)

    async def ns(**query):
        return [r["metadata"].get("n", "failed") for r in await t.client.runs.list(id, **query)]

    eq(await ns(), ["failed", 2, 1, 0])
    eq(await ns(limit=2, offset=1), [2, 1])
    eq(await ns(status="error"), ["failed"])
    [run] = await t.client.runs.list(id, limit=1, select=["run_id", "status"])
    eq(sorted(run), ["run_id", "status"])
    await fails(t.client.runs.list(UNKNOWN), 404)


@check("runs.get_unknown")
async def _(t):
    await fails(t.client.runs.get(await t.thread(), UNKNOWN), 404)


@check("runs.join")
async def _(t):
    id = await t.thread()
    run = await t.client.runs.create(id, "slow", input={"count": 2, "delay_ms": 50, "label": "j"})
    for _ in range(2):
        eq((await t.client.runs.join(id, run["run_id"]))["ticks"], ["j0", "j1"])


@check("runs.delete")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    [run] = await t.client.runs.list(id)
    await t.client.runs.delete(id, run["run_id"])
    await fails(t.client.runs.get(id, run["run_id"]), 404)
    await fails(t.client.runs.delete(id, run["run_id"]), 404)


@check("runs.unknown_thread")
async def _(t):
    await fails(t.client.runs.create(UNKNOWN, "router", input={}), 404)
    await fails(t.client.runs.wait(UNKNOWN, "router", input={}, if_not_exists="reject"), 404)
    await fails(collect(t.client.runs.stream(UNKNOWN, "router", input={})), 404)


@check("runs.if_not_exists_create")
async def _(t):
    ids = [uuid(), uuid(), uuid()]
    await t.client.runs.wait(ids[0], "router", input={"target": "left"}, if_not_exists="create")
    await t.client.runs.create(ids[1], "router", input={"target": "left"}, if_not_exists="create")
    await collect(t.client.runs.stream(ids[2], "router", input={"target": "left"}, if_not_exists="create"))
    for id in ids:
        eq((await t.client.threads.get(id))["thread_id"], id)


@check("runs.unknown_assistant")
async def _(t):
    await fails(t.client.runs.wait(None, "nope", input={}), 404, 422)
    await fails(t.client.runs.wait(None, UNKNOWN, input={}), 404)


@check("runs.config")
async def _(t):
    id = await t.thread()
    shown = (await t.client.runs.wait(id, "configurable", input={"note": "n"}, config={"configurable": {"model": "m"}, "tags": ["a", "b"]}))["seen"]
    has(shown, {"model": "m", "thread_id": id, "graph_id": "configurable", "assistant_id": id_of("configurable"), "tier": None})
    assert {"a", "b"} <= set(shown["tags"])
    eq(shown["run_id"], (await t.client.runs.list(id))[0]["run_id"])


@check("runs.context")
async def _(t):
    has((await t.client.runs.wait(None, "configurable", input={"note": "n"}, context={"tier": "gold"}))["seen"], {"tier": "gold", "region": None})


@check("runs.config_and_context", deviates="refuses configurable and context together")
async def _(t):
    out = await t.client.runs.wait(None, "configurable", input={"note": "n"}, config={"configurable": {"model": "m"}}, context={"tier": "gold"})
    has(out["seen"], {"model": "m", "tier": "gold"})


@check("runs.recursion_limit")
async def _(t):
    err = await fails(t.client.runs.wait(None, "slow", input={"count": 9, "delay_ms": 0}, config={"recursion_limit": 4}))
    assert "recursion" in str(err).lower(), err


@check("runs.metadata")
async def _(t):
    id = await t.thread()
    await t.client.runs.wait(id, "router", input={"target": "left"}, metadata={"origin": "check"})
    has((await t.state(id))["metadata"], {"origin": "check"})
    has((await t.client.runs.list(id))[0]["metadata"], {"origin": "check"})


@check("runs.headers")
async def _(t):
    out = await t.client.runs.wait(None, "configurable", input={"note": "n"}, headers={"x-harness": "yes", "x-api-key": "secret"})
    has(out["seen"], {"header": "yes", "api_key": None})


@check("runs.interrupt_before_and_after")
async def _(t):
    id = await t.thread()
    eq(await t.client.runs.wait(id, "router", input={"target": "left"}, interrupt_before=["left"]), {"target": "left", "path": ["route"]})
    eq((await t.state(id))["next"], ["left"])
    eq((await t.client.runs.wait(id, "router", input=None))["path"], ["route", "left"])
    id = await t.thread()
    await t.client.runs.wait(id, "router", input={"target": "left"}, interrupt_after=["route"])
    eq((await t.state(id))["next"], ["left"])


@check("runs.interrupt_at_all_nodes")
async def _(t):
    id, nexts = await t.thread(), []
    for input in ({"target": "left"}, None, None):
        await t.client.runs.wait(id, "router", input=input, interrupt_before="*")
        nexts.append((await t.state(id))["next"])
    eq(nexts, [["route"], ["left"], []])
    id = await t.thread()
    await t.client.runs.wait(id, "hitl", input={"topic": "t"}, interrupt_after="*")
    eq((await t.state(id))["next"], ["review"])


@check("runs.checkpoint")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    past = (await t.client.threads.get_history(id))[1]["checkpoint"]
    eq((await t.client.runs.wait(id, "router", input=None, checkpoint_id=past["checkpoint_id"]))["path"], ["route", "left"])
    eq((await t.client.runs.wait(id, "router", input=None, checkpoint=past))["path"], ["route", "left"])
    assert len(await t.client.threads.get_history(id, limit=30)) >= 6


@check("runs.durability")
async def _(t):
    for durability, count in (("sync", 4), ("async", 4), ("exit", 1)):
        id = await t.thread("router", {"target": "left"}, durability=durability)
        eq(len(await t.client.threads.get_history(id)), count, durability)
    id = await t.thread("router", {"target": "left"}, checkpoint_during=False)
    eq(len(await t.client.threads.get_history(id)), 1)


@check("runs.after_seconds")
async def _(t):
    id, began = await t.thread(), time.monotonic()
    run = await t.client.runs.create(id, "router", input={"target": "left"}, after_seconds=2)
    await asyncio.sleep(0.3)
    eq((await t.client.runs.get(id, run["run_id"]))["status"], "pending")
    eq((await t.ended(id, run["run_id"]))["status"], "success")
    assert time.monotonic() - began >= 1.9


@check("runs.webhook")
async def _(t):
    url, got = t.receiver()
    id = await t.thread()
    run = await t.client.runs.create(id, "router", input={"target": "right"}, webhook=url)
    body = (await until(lambda: got, "a webhook"))[0]
    has(body, {"run_id": run["run_id"], "thread_id": id, "status": "success", "values": {"path": ["route", "right"]}})


@check("runs.webhook_of_a_failure")
async def _(t):
    url, got = t.receiver()
    await t.client.runs.wait(await t.thread(), "failing", input={"message": "w"}, webhook=url, raise_error=False)
    body = (await until(lambda: got, "a webhook"))[0]
    eq(body["status"], "error")
    assert "boom: w" in str(body["error"])


@check("runs.on_completion")
async def _(t):
    kept = await t.client.runs.create(None, "router", input={"target": "left"}, on_completion="keep")
    await t.client.runs.join(kept["thread_id"], kept["run_id"])
    eq((await t.state(kept["thread_id"]))["values"]["path"], ["route", "left"])
    gone = await t.client.runs.create(None, "router", input={"target": "left"}, on_completion="delete")

    async def away():
        return (await t.web.get(f"/threads/{gone['thread_id']}")).status_code == 404

    await until(away, "the thread to go")
    eq((await t.client.runs.wait(None, "router", input={"target": "left"}, on_completion="delete"))["path"], ["route", "left"])


@check("runs.feedback_keys_are_accepted", deviates="asks LangSmith for addresses and fails without it")
async def _(t):
    parts = await collect(t.client.runs.stream(await t.thread(), "router", input={"target": "left"}, feedback_keys=["good"]))
    eq([p for p in parts if p.event == "error"], [])


@check("runs.langsmith_tracing_is_accepted")
async def _(t):
    out = await t.client.runs.wait(await t.thread(), "router", input={"target": "left"}, langsmith_tracing={"project_name": "p"})
    eq(out["path"], ["route", "left"])


@check("runs.strict_resume", deviates="it ignores strict_resume")
async def _(t):
    id = await t.thread("hitl", {"topic": "t"})
    [task] = (await t.state(id))["tasks"]
    asked = task["interrupts"][0]["id"]
    for resume in {"0" * 32: "yes"}, {asked: "yes", "0" * 32: "yes"}, {}:
        out = await t.client.runs.wait(id, "hitl", command={"resume": resume}, strict_resume=True, raise_error=False)
        eq(out["__error__"]["error"], "UnknownInterruptError")
        eq([i["id"] for i in (await t.state(id))["tasks"][0]["interrupts"]], [asked])
    out = await t.client.runs.wait(id, "hitl", command={"resume": {asked: "yes"}}, strict_resume=True)
    eq(out["approval"], "yes")


@check("runs.values_of_all_types")
async def _(t):
    x = {"text": "ü\u2028\n", "list": [1, 2.5, None, True], "big": 2**53 - 1, "a.b": "dot"}
    id = await t.thread()
    eq((await t.client.runs.wait(id, "router", input={"x": x}))["x"], x)
    eq((await t.client.threads.get(id))["values"]["x"], x)


@check("runs.no_input_on_a_new_thread")
async def _(t):
    out = await t.client.runs.wait(await t.thread(), "router", raise_error=False)
    assert "__error__" in out, out


@check("runs.store_is_shared_with_graphs")
async def _(t):
    user = uuid()
    eq((await t.client.runs.wait(None, "memory", input={"user": user, "fact": "likes tea"}))["recalled"], ["likes tea"])
    has(await t.client.store.get_item(["harness_memories", user], "fact"), {"value": {"text": "likes tea"}})


@check("runs.kwargs_are_kept")
async def _(t):
    run = await t.client.runs.create(await t.thread(), "router", input={"target": "left"}, stream_mode=["updates"], stream_subgraphs=True, stream_resumable=True)
    has(run["kwargs"], {"stream_mode": ["updates"], "subgraphs": True, "resumable": True})


@check("runs.many_at_once")
async def _(t):
    outs = await asyncio.gather(*(t.client.runs.wait(None, "router", input={"x": x}) for x in range(16)))
    eq([o["x"] for o in outs], list(range(16)))


@check("runs.messages_of_all_forms")
async def _(t):
    id = await t.thread()
    for messages in ([{"role": "user", "content": "a"}], [{"type": "human", "content": "b"}], [("human", "c")]):
        await t.client.runs.wait(id, "agent", input={"messages": messages})
    eq([m["content"] for m in (await t.state(id))["values"]["messages"]], ["a", "Echo: a", "b", "Echo: b", "c", "Echo: c"])


@check("runs.messages_are_replaced_and_removed")
async def _(t):
    id = await t.thread("agent", {"messages": [{"role": "user", "content": "a", "id": "h1"}]})
    await t.client.threads.update_state(id, {"messages": [{"role": "user", "content": "new", "id": "h1"}]}, as_node="agent")
    eq((await t.state(id))["values"]["messages"][0]["content"], "new")
    await t.client.threads.update_state(id, {"messages": [{"type": "remove", "id": "h1", "content": ""}]}, as_node="agent")
    eq([m["content"] for m in (await t.state(id))["values"]["messages"]], ["Echo: a"])
