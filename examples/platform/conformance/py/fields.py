"""Every field of the payload with each way to make a run: create, wait and stream"""

import time

from kit import check, collect, eq, has, until, uuid

LEFT = {"target": "left"}


async def create(t, id, graph, **options):
    run = await t.client.runs.create(id, graph, **options)
    return await t.ended(id, run["run_id"])


async def wait(t, id, graph, **options):
    made = []
    await t.client.runs.wait(id, graph, raise_error=False, on_run_created=made.append, **options)
    return await t.client.runs.get(id, made[0]["run_id"])


async def stream(t, id, graph, **options):
    made = []
    await collect(t.client.runs.stream(id, graph, on_run_created=made.append, **options))
    return await t.client.runs.get(id, made[0]["run_id"])


def each(field):
    """Adds a check for each way to make a run."""

    def add(test):
        for way in (create, wait, stream):

            async def one(t, way=way):
                async def run(id, graph, **options):
                    return await way(t, id, graph, **options)

                await test(t, run)

            check(f"fields.{field}_of_{way.__name__}")(one)
        return test

    return add


async def values(t, id):
    return (await t.state(id))["values"]


@each("input")
async def _(t, run):
    id = await t.thread()
    eq((await run(id, "router", input={"target": "right", "x": [1]}))["kwargs"]["input"], {"target": "right", "x": [1]})
    eq((await values(t, id))["path"], ["route", "right"])


@each("command")
async def _(t, run):
    id = await t.thread("hitl", {"topic": "t"})
    await run(id, "hitl", command={"resume": "yes", "update": {"topic": "u"}})
    has(await values(t, id), {"topic": "u", "approval": "yes"})


@each("command_goto")
async def _(t, run):
    id = await t.thread("router", LEFT)
    await run(id, "router", command={"goto": {"node": "right", "input": {}}})
    eq((await values(t, id))["path"], ["route", "left", "right"])


@each("config")
async def _(t, run):
    id = await t.thread()
    await run(id, "configurable", input={"note": "n"}, config={"configurable": {"model": "m"}, "tags": ["a"]}, headers={"x-harness": "h"})
    shown = (await values(t, id))["seen"]
    has(shown, {"model": "m", "header": "h"})
    assert "a" in shown["tags"]


@each("context")
async def _(t, run):
    id = await t.thread()
    await run(id, "configurable", input={"note": "n"}, context={"region": "eu"})
    has((await values(t, id))["seen"], {"region": "eu"})


@each("metadata")
async def _(t, run):
    id = await t.thread()
    has((await run(id, "router", input=LEFT, metadata={"m": {"deep": 1}}))["metadata"], {"m": {"deep": 1}})
    has((await t.state(id))["metadata"], {"m": {"deep": 1}})


@each("interrupt_before")
async def _(t, run):
    id = await t.thread()
    await run(id, "router", input=LEFT, interrupt_before=["left"])
    eq((await t.state(id))["next"], ["left"])


@each("interrupt_after")
async def _(t, run):
    id = await t.thread()
    await run(id, "router", input=LEFT, interrupt_after="*")
    eq((await t.state(id))["next"], ["left"])


@each("checkpoint")
async def _(t, run):
    id = await t.thread("router", LEFT)
    past = (await t.client.threads.get_history(id))[2]["checkpoint"]
    await run(id, "router", input={"target": "right"}, checkpoint=past)
    path = (await values(t, id))["path"]
    assert path[-1] == "right" and "left" not in path, path


@each("checkpoint_id")
async def _(t, run):
    id = await t.thread("router", LEFT)
    past = (await t.client.threads.get_history(id))[1]["checkpoint"]
    await run(id, "router", checkpoint_id=past["checkpoint_id"])
    eq((await values(t, id))["path"], ["route", "left"])


@each("webhook")
async def _(t, run):
    url, got = t.receiver()
    made = await run(await t.thread(), "router", input=LEFT, webhook=url)
    has((await until(lambda: got, "a webhook"))[0], {"run_id": made["run_id"], "status": "success"})


@each("multitask_strategy")
async def _(t, run):
    for strategy in ("reject", "enqueue", "interrupt", "rollback"):
        eq((await run(await t.thread(), "router", input=LEFT, multitask_strategy=strategy))["multitask_strategy"], strategy)


@each("if_not_exists")
async def _(t, run):
    id = uuid()
    eq((await run(id, "router", input=LEFT, if_not_exists="create"))["thread_id"], id)


@each("after_seconds")
async def _(t, run):
    id, began = await t.thread(), time.monotonic()
    eq((await run(id, "router", input=LEFT, after_seconds=2))["status"], "success")
    assert time.monotonic() - began >= 1.9


@each("durability")
async def _(t, run):
    id = await t.thread()
    await run(id, "router", input=LEFT, durability="exit")
    eq(len(await t.client.threads.get_history(id)), 1)


@each("checkpoint_during")
async def _(t, run):
    id = await t.thread()
    await run(id, "router", input=LEFT, checkpoint_during=False)
    eq(len(await t.client.threads.get_history(id)), 1)


@each("langsmith_tracing_and_strict_resume")
async def _(t, run):
    made = await run(await t.thread(), "router", input=LEFT, langsmith_tracing={"project_name": "p"}, strict_resume=False)
    eq(made["status"], "success")


@check("fields.select_of_state_and_history")
async def _(t):
    id = await t.thread("router", LEFT)
    eq((await t.state(id, select=["values", "next"]))["values"]["path"], ["route", "left"])
    eq([s["values"]["path"] for s in await t.client.threads.get_history(id, limit=2, select=["values"])], [["route", "left"], ["route"]])


@check("fields.cron_update")
async def _(t):
    cron = await t.client.crons.create("router", schedule="0 0 1 1 *")
    t.later(lambda: t.client.crons.delete(cron["cron_id"]))
    changed = await t.client.crons.update(
        cron["cron_id"], schedule="0 0 2 2 *", input=LEFT, metadata={"m": 1}, config={"configurable": {"model": "m"}}, webhook="http://127.0.0.1:1/hook",
        interrupt_before=["left"], interrupt_after=["right"], on_run_completed="keep", enabled=False, timezone="Europe/Paris", stream_mode=["updates"],
        stream_subgraphs=True, stream_resumable=True, durability="sync",
    )  # fmt: skip
    has(changed, {"schedule": "0 0 2 2 *", "enabled": False, "metadata": {"m": 1}, "timezone": "Europe/Paris", "on_run_completed": "keep"})
    has(changed["payload"], {"input": LEFT, "interrupt_before": ["left"], "interrupt_after": ["right"]})


@check("fields.cron_of_a_thread")
async def _(t):
    id = await t.thread()
    cron = await t.client.crons.create_for_thread(
        id, "router", schedule="0 0 1 1 *", input=LEFT, metadata={"m": 1}, config={"configurable": {"model": "m"}}, interrupt_before=["left"],
        interrupt_after=["right"], webhook="http://127.0.0.1:1/hook", multitask_strategy="reject", enabled=False, timezone="Europe/Paris",
        stream_mode=["updates"], stream_subgraphs=True, stream_resumable=True, durability="sync",
    )  # fmt: skip
    t.later(lambda: t.client.crons.delete(cron["cron_id"]))
    has(cron, {"thread_id": id, "enabled": False, "timezone": "Europe/Paris"})
    has(cron["payload"], {"input": LEFT, "interrupt_before": ["left"], "multitask_strategy": "reject"})
