"""client.threads: states, history, edits"""

from kit import LONG, UNKNOWN, check, eq, fails, has, is_time, is_uuid


@check("state.of_an_unused_thread")
async def _(t):
    s = await t.state(await t.thread())
    eq([s["next"], s["tasks"], s["values"] or {}], [[], [], {}])


@check("state.after_a_run")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    s = await t.state(id)
    eq([s["values"], s["next"], s["tasks"]], [{"target": "left", "path": ["route", "left"]}, [], []])
    has(s["metadata"], {"source": "loop", "step": 2, "graph_id": "router", "thread_id": id})
    has(s["checkpoint"], {"thread_id": id, "checkpoint_ns": ""})
    assert is_uuid(s["checkpoint"]["checkpoint_id"]) and is_uuid(s["parent_checkpoint"]["checkpoint_id"]) and is_time(s["created_at"])


@check("state.at_an_interrupt")
async def _(t):
    s = await t.state(await t.thread("hitl", {"topic": "cats"}))
    eq(s["next"], ["review"])
    has(s["tasks"], [{"name": "review", "interrupts": [{"value": {"question": "approve?", "topic": "cats"}}]}])
    has(s["interrupts"], [{"id": s["tasks"][0]["interrupts"][0]["id"]}])


@check("state.after_an_error")
async def _(t):
    s = await t.state(await t.thread("failing", {"message": "m"}))
    eq(s["next"], ["boom"])
    assert "boom: m" in s["tasks"][0]["error"], s["tasks"]


@check("state.at_a_checkpoint")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    middle = (await t.client.threads.get_history(id))[1]
    for s in (
        await t.state(id, checkpoint=middle["checkpoint"]),
        await t.state(id, checkpoint_id=middle["checkpoint"]["checkpoint_id"]),
        await t.state(id, checkpoint={"checkpoint_id": middle["checkpoint"]["checkpoint_id"]}, subgraphs=True),
    ):
        eq([s["values"]["path"], s["next"]], [["route"], ["left"]])


@check("state.subgraphs")
async def _(t):
    id = await t.thread("nested", {"value": "pause"})
    [closed] = (await t.state(id))["tasks"]
    eq([closed["state"], closed["checkpoint"]["checkpoint_ns"]], [None, f"child:{closed['id']}"])
    [opened] = (await t.state(id, subgraphs=True))["tasks"]
    inner = opened["state"]
    eq([inner["values"], inner["next"]], [{"value": "pause>before>c1", "steps": ["child_one"]}, ["child_two"]])
    s = await t.state(id, checkpoint=inner["checkpoint"])
    eq(s["values"], inner["values"])


@check("state.unknown_thread")
async def _(t):
    await fails(t.state(UNKNOWN), 404)
    await fails(t.client.threads.get_history(UNKNOWN), 404)
    await fails(t.client.threads.update_state(UNKNOWN, {"x": 1}), 404)


@check("state.history")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    all = await t.client.threads.get_history(id)
    eq([s["metadata"]["step"] for s in all], [2, 1, 0, -1])
    eq([s["next"] for s in all], [[], ["left"], ["route"], ["__start__"]])
    eq([s["metadata"]["source"] for s in all], ["loop", "loop", "loop", "input"])
    eq(all[-1]["parent_checkpoint"], None)
    eq([s["metadata"]["step"] for s in await t.client.threads.get_history(id, limit=2)], [2, 1])


@check("state.history_before")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    second = (await t.client.threads.get_history(id))[1]["checkpoint"]
    before = {"configurable": {"checkpoint_id": second["checkpoint_id"]}}
    eq([s["metadata"]["step"] for s in await t.client.threads.get_history(id, before=before)], [0, -1])


@check("state.history_before_as_id_or_checkpoint", deviates="refuses a plain id and crashes on a checkpoint")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    second = (await t.client.threads.get_history(id))[1]["checkpoint"]
    for before in (second, second["checkpoint_id"]):
        eq([s["metadata"]["step"] for s in await t.client.threads.get_history(id, before=before)], [0, -1])


@check("state.history_by_metadata")
async def _(t):
    id = await t.thread()
    for turn in ("one", "two"):
        await t.client.runs.wait(id, "router", input={"target": "left"}, metadata={"turn": turn})
    eq(len(await t.client.threads.get_history(id, limit=50, metadata={"turn": "one"})), 4)
    eq(len(await t.client.threads.get_history(id, limit=50, metadata={"source": "input"})), 2)


@check("state.history_of_a_namespace")
async def _(t):
    id = await t.thread("nested", {"value": "pause"})
    ns = (await t.state(id))["tasks"][0]["checkpoint"]["checkpoint_ns"]
    eq([s["next"] for s in await t.client.threads.get_history(id, checkpoint={"checkpoint_ns": ns})], [["child_two"], ["child_one"], ["__start__"]])


@check("state.update_as_node")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    out = await t.client.threads.update_state(id, {"path": ["edited"]}, as_node="left")
    s = await t.state(id)
    eq([s["values"]["path"], s["checkpoint"]["checkpoint_id"]], [["route", "left", "edited"], out["checkpoint"]["checkpoint_id"]])
    has(s["metadata"], {"source": "update", "step": 3})


@check("state.update_infers_the_node")
async def _(t):
    id = await t.thread("hitl", {"topic": "cats"})
    await t.client.threads.update_state(id, {"topic": "dogs"})
    s = await t.state(id)
    eq([s["values"]["topic"], s["next"]], ["dogs", ["review"]])


@check("state.update_then_continue")
async def _(t):
    id = await t.thread("hitl", {"topic": "cats"})
    await t.client.threads.update_state(id, {"approval": "by hand", "log": "one"}, as_node="review")
    out = await t.client.runs.wait(id, "hitl", input=None)
    eq(out, {"topic": "cats", "approval": "by hand", "log": ["proposed:cats", "one", "finished"]})


@check("state.update_in_the_past")
async def _(t):
    id = await t.thread("router", {"target": "left"})
    past = (await t.client.threads.get_history(id))[2]["checkpoint"]
    await t.client.threads.update_state(id, {"target": "right"}, checkpoint=past)
    eq((await t.client.runs.wait(id, "router", input=None))["path"], ["route", "right"])
    await t.client.threads.update_state(id, {"target": "up"}, checkpoint_id=past["checkpoint_id"])
    eq((await t.state(id))["values"], {"target": "up", "path": []})


@check("state.update_special_nodes")
async def _(t):
    id = await t.thread("hitl", {"topic": "cats"})
    await t.client.threads.update_state(id, None, as_node="__copy__")
    eq((await t.state(id))["metadata"]["source"], "fork")
    await t.client.threads.update_state(id, None, as_node="__end__")
    eq((await t.state(id))["next"], [])


@check("state.update_errors")
async def _(t):
    await fails(t.client.threads.update_state(await t.thread("router", {"target": "left"}), {"path": ["x"]}, as_node="nope"), 400, 422)
    await fails(t.client.threads.update_state(await t.thread(), {"a": 1}), 400)
    id = await t.thread()
    run = await t.client.runs.create(id, "slow", input=LONG)
    await fails(t.client.threads.update_state(id, {"label": "x"}), 409)
    await t.client.runs.cancel(id, run["run_id"], wait=True)


@check("state.update_inside_a_subgraph")
async def _(t):
    id = await t.thread("nested", {"value": "pause"})
    inner = (await t.state(id, subgraphs=True))["tasks"][0]["state"]["checkpoint"]
    await t.client.threads.update_state(id, {"value": "changed"}, checkpoint=inner)
    eq((await t.state(id, subgraphs=True))["tasks"][0]["state"]["values"]["value"], "changed")
