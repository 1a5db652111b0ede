"""client.crons"""

from datetime import datetime, timedelta, timezone

from kit import UNKNOWN, check, eq, fails, has, id_of, is_time, is_uuid, until, uuid

YEARLY = "0 0 1 1 *"


async def make(t, **options):
    cron = await t.client.crons.create("router", schedule=options.pop("schedule", YEARLY), **options)
    t.later(lambda: t.client.crons.delete(cron["cron_id"]))
    return cron


@check("crons.create")
async def _(t):
    cron = await make(t, input={"target": "left"}, metadata={"a": 1})
    assert is_uuid(cron["cron_id"]) and is_time(cron["created_at"]) and is_time(cron["next_run_date"])
    has(cron, {"assistant_id": id_of("router"), "thread_id": None, "schedule": YEARLY, "enabled": True, "metadata": {"a": 1}})
    has(cron["payload"], {"input": {"target": "left"}})


@check("crons.create_all_fields")
async def _(t):
    cron = await make(
        t, config={"configurable": {"model": "m"}}, interrupt_before=["left"], interrupt_after=["right"], webhook="http://127.0.0.1:1/hook",
        on_run_completed="keep", multitask_strategy="enqueue", enabled=False, timezone="Europe/Paris", stream_mode=["updates"],
        stream_subgraphs=True, stream_resumable=True, durability="sync",
    )  # fmt: skip
    has(cron, {"enabled": False, "timezone": "Europe/Paris", "on_run_completed": "keep"})
    has(cron["payload"], {"interrupt_before": ["left"], "interrupt_after": ["right"]})
    at = datetime.fromisoformat(cron["next_run_date"]).astimezone(timezone.utc)
    eq([at.month, at.day, at.hour], [12, 31, 23])


@check("crons.end_time", alone=True)
async def _(t):
    end = datetime.now(timezone.utc) + timedelta(days=3)
    cron = await t.client.crons.create("router", schedule=YEARLY, end_time=end, enabled=False)
    try:
        eq(datetime.fromisoformat(cron["end_time"]).replace(microsecond=0), end.replace(microsecond=0))
    finally:
        # LangGraph's server stops firing crons while one has an end time.
        await t.client.crons.delete(cron["cron_id"])


@check("crons.create_for_thread")
async def _(t):
    id = await t.thread()
    cron = await t.client.crons.create_for_thread(id, "router", schedule=YEARLY, input={"target": "left"}, multitask_strategy="enqueue", metadata={"m": 1})
    t.later(lambda: t.client.crons.delete(cron["cron_id"]))
    has(cron, {"thread_id": id})
    eq([c["cron_id"] for c in await t.client.crons.search(thread_id=id)], [cron["cron_id"]])
    eq(await t.client.crons.count(thread_id=id), 1)
    await fails(t.client.crons.create_for_thread(UNKNOWN, "router", schedule=YEARLY), 404)


@check("crons.context")
async def _(t):
    cron = await t.client.crons.create("configurable", schedule=YEARLY, context={"tier": "gold"})
    t.later(lambda: t.client.crons.delete(cron["cron_id"]))
    has(cron["payload"], {"context": {"tier": "gold"}})


@check("crons.bad_schedule")
async def _(t):
    await fails(make(t, schedule="nonsense"), 400, 422)
    await fails(t.client.crons.create("nope", schedule=YEARLY), 404, 422)


@check("crons.search")
async def _(t):
    tag = uuid()
    ids = [(await make(t, metadata={"tag": tag}, enabled=on))["cron_id"] for on in (True, False)]

    async def by(**query):
        return [c["cron_id"] for c in await t.client.crons.search(metadata={"tag": tag}, **query)]

    eq(await by(), ids[::-1])
    eq(await by(sort_by="created_at", sort_order="asc"), ids)
    eq(await by(enabled=False), [ids[1]])
    eq(await by(limit=1, offset=1), [ids[0]])
    eq(await by(assistant_id=id_of("agent")), [])
    eq(await t.client.crons.count(metadata={"tag": tag}), 2)
    eq(await t.client.crons.count(metadata={"tag": tag}, assistant_id=id_of("agent")), 0)
    eq(sorted((await t.client.crons.search(metadata={"tag": tag}, limit=1, select=["cron_id", "schedule"]))[0]), ["cron_id", "schedule"])


@check("crons.update")
async def _(t):
    cron = await make(t, metadata={"a": 1})
    changed = await t.client.crons.update(cron["cron_id"], schedule="30 6 * * 1", enabled=False, input={"target": "right"}, timezone="UTC", metadata={"b": 2})
    has(changed, {"schedule": "30 6 * * 1", "enabled": False})
    has(changed["payload"], {"input": {"target": "right"}})
    await fails(t.client.crons.update(cron["cron_id"], schedule="x"), 400, 422)
    await fails(t.client.crons.update(UNKNOWN, enabled=False), 404)


@check("crons.delete")
async def _(t):
    id = (await t.client.crons.create("router", schedule=YEARLY))["cron_id"]
    await t.client.crons.delete(id)
    await fails(t.client.crons.delete(id), 404)


@check("crons.fires_on_a_thread", timeout=100)
async def _(t):
    id = await t.thread()
    cron = await t.client.crons.create_for_thread(id, "router", schedule="* * * * *", input={"target": "right"})
    t.later(lambda: t.client.crons.delete(cron["cron_id"]))

    async def ran():
        return [r for r in await t.client.runs.list(id) if r["status"] == "success"]

    await until(ran, "the cron to fire", 80)
    eq((await t.state(id))["values"]["path"][:2], ["route", "right"])
