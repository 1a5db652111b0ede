"""Interrupts and commands, multitask strategies, cancelling, disconnecting"""

import asyncio

from kit import LONG, UNKNOWN, check, collect, eq, events_of, fails, has, until


@check("commands.resume")
async def _(t):
    id = await t.thread("hitl", {"topic": "cats"})
    out = await t.client.runs.wait(id, "hitl", command={"resume": {"ok": True}})
    eq(out, {"topic": "cats", "approval": {"ok": True}, "log": ["proposed:cats", 'reviewed:{"ok":true}', "finished"]})


@check("commands.resume_values")
async def _(t):
    for resume in ("text", 5, False, ["a", 1], 0, ""):
        id = await t.thread("hitl", {"topic": "t"})
        eq((await t.client.runs.wait(id, "hitl", command={"resume": resume}))["approval"], resume)


@check("commands.resume_by_id")
async def _(t):
    id = await t.thread("hitl", {"topic": "t"})
    [task] = (await t.state(id))["tasks"]
    eq((await t.client.runs.wait(id, "hitl", command={"resume": {task["interrupts"][0]["id"]: "by id"}}))["approval"], "by id")


@check("commands.resume_in_a_subgraph")
async def _(t):
    id = await t.thread("nested", {"value": "pause"})
    eq(await t.client.runs.wait(id, "nested", command={"resume": "go"}), {"value": "pause>before>c1>c2(go)>after"})


@check("commands.resume_with_update")
async def _(t):
    id = await t.thread("hitl", {"topic": "cats"})
    has(await t.client.runs.wait(id, "hitl", command={"resume": "yes", "update": {"topic": "dogs"}}), {"topic": "dogs", "approval": "yes"})
    id = await t.thread("hitl", {"topic": "cats"})
    has(await t.client.runs.wait(id, "hitl", command={"resume": "yes", "update": [("topic", "owls")]}), {"topic": "owls"})


@check("commands.goto")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    eq((await t.client.runs.wait(id, "router", command={"goto": "right"}))["path"], ["route", "left", "right"])
    eq(sorted((await t.client.runs.wait(id, "router", command={"goto": ["left", "right"]}))["path"][3:]), ["left", "right"])


@check("commands.goto_sends")
async def _(t):
    id = await t.thread("fanout", {"items": ["a"]})
    out = await t.client.runs.wait(id, "fanout", command={"goto": [{"node": "worker", "input": {"item": x}} for x in "qp"]})
    eq([out["results"], out["summary"]], [["A", "Q", "P"], "A,P,Q"])


@check("commands.time_travel_asks_again")
async def _(t):
    id = await t.thread("hitl", {"topic": "t"})
    await t.client.runs.wait(id, "hitl", command={"resume": 1})
    past = next(s for s in await t.client.threads.get_history(id, limit=20) if s["next"] == ["review"])
    assert "__interrupt__" in await t.client.runs.wait(id, "hitl", input=None, checkpoint=past["checkpoint"])
    eq((await t.client.runs.wait(id, "hitl", command={"resume": 2}))["approval"], 2)


@check("commands.new_input_abandons_the_question")
async def _(t):
    id = await t.thread("hitl", {"topic": "cats"})
    eq((await t.client.runs.wait(id, "hitl", input={"topic": "dogs"}))["log"], ["proposed:cats", "proposed:dogs"])


@check("multitask.reject")
async def _(t):
    id = await t.thread()
    run = await t.client.runs.create(id, "slow", input=LONG)
    await fails(t.client.runs.create(id, "slow", input=LONG, multitask_strategy="reject"), 409)
    await fails(t.client.runs.wait(id, "slow", input=LONG, multitask_strategy="reject"), 409)
    await fails(collect(t.client.runs.stream(id, "slow", input=LONG, multitask_strategy="reject")), 409)
    await t.client.runs.cancel(id, run["run_id"], wait=True)


@check("multitask.enqueue")
async def _(t):
    id = await t.thread()
    made = [await t.client.runs.create(id, "slow", input={"count": 1, "delay_ms": 50, "label": x}, multitask_strategy=s) for x, s in (("a", None), ("b", "enqueue"), ("c", None))]
    await t.ended(id, made[2]["run_id"])
    eq((await t.state(id))["values"]["ticks"], ["a0", "b0", "c0"])


@check("multitask.interrupt")
async def _(t):
    id = await t.thread()
    first = await t.client.runs.create(id, "slow", input={**LONG, "label": "a"})
    await t.ticked(id)
    second = await t.client.runs.create(id, "slow", input={"count": 1, "delay_ms": 0, "label": "b"}, multitask_strategy="interrupt")
    eq((await t.ended(id, second["run_id"]))["status"], "success")
    eq((await t.client.runs.get(id, first["run_id"]))["status"], "interrupted")
    ticks = (await t.state(id))["values"]["ticks"]
    eq([ticks[0], ticks[-1]], ["a0", "b0"])


@check("multitask.rollback", deviates="begins the new run now and then before the old one is undone")
async def _(t):
    id = await t.thread("slow", {"count": 1, "delay_ms": 0, "label": "z"})
    first = await t.client.runs.create(id, "slow", input={**LONG, "label": "a"})
    await t.ticked(id, 2)
    second = await t.client.runs.create(id, "slow", input={"count": 1, "delay_ms": 0, "label": "b"}, multitask_strategy="rollback")
    await t.ended(id, second["run_id"])
    eq((await t.state(id))["values"]["ticks"], ["z0", "b0"])
    await fails(t.client.runs.get(id, first["run_id"]), 404)


@check("cancel.interrupt")
async def _(t):
    id = await t.thread()
    run = await t.client.runs.create(id, "slow", input=LONG)
    await t.ticked(id)
    await t.client.runs.cancel(id, run["run_id"], wait=True)
    eq((await t.client.runs.get(id, run["run_id"]))["status"], "interrupted")
    got = await t.client.threads.get(id)
    eq(got["status"], "interrupted")
    assert got["values"]["ticks"]
    eq((await t.state(id))["next"], ["tick"])


@check("cancel.without_waiting")
async def _(t):
    id = await t.thread()
    run = await t.client.runs.create(id, "slow", input=LONG)
    await t.running(id, run["run_id"])
    await t.client.runs.cancel(id, run["run_id"], wait=False, action="interrupt")
    eq((await t.ended(id, run["run_id"]))["status"], "interrupted")


@check("cancel.rollback")
async def _(t):
    id = await t.thread("slow", {"count": 1, "delay_ms": 0, "label": "z"})
    run = await t.client.runs.create(id, "slow", input={**LONG, "label": "a"})
    await t.ticked(id, 2)
    await t.client.runs.cancel(id, run["run_id"], wait=True, action="rollback")
    await fails(t.client.runs.get(id, run["run_id"]), 404)
    eq((await t.state(id))["values"]["ticks"], ["z0"])


@check("cancel.pending")
async def _(t):
    id = await t.thread()
    first = await t.client.runs.create(id, "slow", input=LONG)
    second = await t.client.runs.create(id, "slow", input=LONG)
    await t.client.runs.cancel(id, second["run_id"], wait=True)
    eq((await t.client.runs.get(id, second["run_id"]))["status"], "interrupted")
    await t.client.runs.cancel(id, first["run_id"], wait=True)


@check("cancel.unknown")
async def _(t):
    await fails(t.client.runs.cancel(await t.thread(), UNKNOWN), 404)


@check("cancel.then_continue")
async def _(t):
    id = await t.thread()
    run = await t.client.runs.create(id, "slow", input={"count": 20, "delay_ms": 50})
    await t.ticked(id, 2)
    await t.client.runs.cancel(id, run["run_id"], wait=True)
    out = await t.client.runs.wait(id, "slow", input=None, config={"recursion_limit": 100})
    eq(out["ticks"], [f"t{i}" for i in range(20)])


@check("cancel.ends_the_stream")
async def _(t):
    id, made = await t.thread(), []
    reading = asyncio.create_task(collect(t.client.runs.stream(id, "slow", input=LONG, stream_mode="updates", on_run_created=made.append)))
    await until(lambda: made, "the run")
    await t.ticked(id)
    await t.client.runs.cancel(id, made[0]["run_id"], wait=True)
    assert "error" not in events_of(await asyncio.wait_for(reading, 10))


@check("cancel.many_by_id")
async def _(t):
    id = await t.thread()
    ids = [(await t.client.runs.create(id, "slow", input=LONG))["run_id"] for _ in range(2)]
    await t.client.runs.cancel_many(thread_id=id, run_ids=ids, action="interrupt")
    for run in ids:
        eq((await t.ended(id, run))["status"], "interrupted")


@check("cancel.many_by_status", alone=True)
async def _(t):
    id = await t.thread()
    ids = [(await t.client.runs.create(id, "slow", input=LONG))["run_id"] for _ in range(2)]
    await t.client.runs.cancel_many(status="all")
    for run in ids:
        eq((await t.ended(id, run))["status"], "interrupted")


async def leave(t, id, **options):
    """Reads a stream until its first update, drops the connection, and returns the run."""
    made = []
    stream = t.client.runs.stream(id, "slow", stream_mode="updates", on_run_created=made.append, **options)
    async for part in stream:
        if part.event == "updates":
            break
    await stream.aclose()
    return made[0]["run_id"]


@check("disconnect.cancel")
async def _(t):
    id = await t.thread()
    run = await leave(t, id, input=LONG, on_disconnect="cancel")
    eq((await t.ended(id, run))["status"], "interrupted")


@check("disconnect.continue")
async def _(t):
    id = await t.thread()
    run = await leave(t, id, input={"count": 4, "delay_ms": 50}, on_disconnect="continue")
    eq((await t.ended(id, run))["status"], "success")


@check("disconnect.join_stream_cancel")
async def _(t):
    id = await t.thread()
    run = (await t.client.runs.create(id, "slow", input=LONG, stream_mode="updates"))["run_id"]
    stream = t.client.runs.join_stream(id, run, cancel_on_disconnect=True)
    async for part in stream:
        if part.event == "updates":
            break
    await stream.aclose()
    eq((await t.ended(id, run))["status"], "interrupted")
