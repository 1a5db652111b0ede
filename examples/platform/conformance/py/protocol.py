"""Protocol v2: client.threads.stream of both clients, over SSE and WebSocket"""

import asyncio
import time

from kit import WEATHER, check, eq, has, until, uuid

HELLO = {"messages": [{"role": "user", "content": "hi there"}]}


def each(name, **options):
    """Adds a check for each transport."""

    def add(run):
        for transport in ("sse", "websocket"):

            async def one(t, transport=transport):
                await run(t, transport)

            check(f"protocol.{name}_{transport}", **options)(one)
        return run

    return add


def in_a_thread(run):
    """Makes a check of a function that uses the sync client."""

    async def call(t, *args):
        await asyncio.to_thread(run, t, *args)

    return call


def unique(items):
    return [x for i, x in enumerate(items) if x not in items[:i]]


def waited(fn, what):
    end = time.monotonic() + 20
    while not fn():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.04)


@each("async_output", client="async")
async def _(t, transport):
    async with t.client.threads.stream(assistant_id="router", transport=transport) as thread:
        started = await thread.run.start(input={"target": "right"}, metadata={"via": "protocol"})
        eq(await thread.output, {"target": "right", "path": ["route", "right"]})
        run = await t.client.runs.get(thread.thread_id, started["run_id"])
        has(run, {"status": "success", "metadata": {"via": "protocol"}})


@each("sync_output", client="sync")
@in_a_thread
def _(t, transport):
    with t.sync_client.threads.stream(assistant_id="router", transport=transport) as thread:
        thread.run.start(input={"target": "right"})
        eq(thread.output, {"target": "right", "path": ["route", "right"]})


@each("async_messages", client="async")
async def _(t, transport):
    async with t.client.threads.stream(assistant_id="agent", transport=transport) as thread:
        await thread.run.start(input=HELLO)
        messages = [message async for message in thread.messages]
        eq([await message.text for message in messages], ["Echo: hi there"])


@each("sync_messages", client="sync")
@in_a_thread
def _(t, transport):
    with t.sync_client.threads.stream(assistant_id="agent", transport=transport) as thread:
        thread.run.start(input=HELLO)
        eq([str(message.text) for message in thread.messages], ["Echo: hi there"])


@check("protocol.async_messages_with_tool_calls", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="agent") as thread:
        await thread.run.start(input=WEATHER)
        messages = [message async for message in thread.messages]
        ai = [await message for message in messages]
        has(ai[0].tool_calls, [{"id": "call_weather_1", "name": "get_weather", "args": {"city": "Paris"}}])
        eq(ai[-1].text, "It is sunny in Paris today.")


@check("protocol.async_tool_calls", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="agent") as thread:
        await thread.run.start(input=WEATHER)
        [call] = [call async for call in thread.tool_calls]
        eq([call.name, call.input, call.tool_call_id], ["get_weather", {"city": "Paris"}, "call_weather_1"])
        assert "sunny in Paris" in str(await call.output)


@check("protocol.sync_tool_calls", client="sync")
@in_a_thread
def _(t):
    with t.sync_client.threads.stream(assistant_id="agent") as thread:
        thread.run.start(input=WEATHER)
        calls = list(thread.tool_calls)
        eq([c.name for c in calls], ["get_weather"])
        assert "sunny in Paris" in str(calls[0].output)


@check("protocol.async_values", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="router") as thread:
        await thread.run.start(input={"target": "left"})
        # The client reads the state first, and the run may be over by then.
        _, *paths = [v.get("path", []) async for v in thread.values]
        eq(unique(paths), [[], ["route"], ["route", "left"]])


@check("protocol.sync_values", client="sync")
@in_a_thread
def _(t):
    with t.sync_client.threads.stream(assistant_id="router") as thread:
        thread.run.start(input={"target": "left"})
        _, *paths = [v.get("path", []) for v in thread.values]
        eq(unique(paths), [[], ["route"], ["route", "left"]])


@check("protocol.async_subgraphs", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="nested") as thread:
        await thread.run.start(input={"value": "s"})
        handles = [handle async for handle in thread.subgraphs]
        eq([h.path[0].split(":")[0] for h in handles], ["child"])
        eq(await thread.output, {"value": "s>before>c1>c2>after"})


@check("protocol.sync_subgraphs", client="sync")
@in_a_thread
def _(t):
    with t.sync_client.threads.stream(assistant_id="nested") as thread:
        thread.run.start(input={"value": "s"})
        eq([h.path[0].split(":")[0] for h in thread.subgraphs], ["child"])


@each("async_respond", client="async")
async def _(t, transport):
    async with t.client.threads.stream(assistant_id="hitl", transport=transport) as thread:
        await thread.run.start(input={"topic": "cats"})
        await until(lambda: thread.interrupted and thread.interrupts, "the interrupt")
        assert thread.interrupts[0]["interrupt_id"], thread.interrupts
        await thread.run.respond({"ok": True})

        async def over():
            return not (await t.state(thread.thread_id))["next"]

        await until(over, "the end")
        eq((await t.state(thread.thread_id))["values"]["approval"], {"ok": True})


@check("protocol.sync_respond", client="sync")
@in_a_thread
def _(t):
    with t.sync_client.threads.stream(assistant_id="hitl") as thread:
        thread.run.start(input={"topic": "cats"})
        waited(lambda: thread.interrupted and thread.interrupts, "the interrupt")
        thread.run.respond("yes", interrupt_id=thread.interrupts[0]["interrupt_id"])
        waited(lambda: t.sync_client.threads.get_state(thread.thread_id)["values"].get("approval") == "yes", "the answer")


@check("protocol.interrupt_value", client="async", deviates="sends the question as payload, which its SDK does not read")
async def _(t):
    async with t.client.threads.stream(assistant_id="hitl") as thread:
        await thread.run.start(input={"topic": "cats"})
        await until(lambda: thread.interrupts, "the interrupt")
        eq(thread.interrupts[0]["value"], {"question": "approve?", "topic": "cats"})


@check("protocol.respond_in_a_subgraph", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="nested") as thread:
        await thread.run.start(input={"value": "pause"})
        await until(lambda: thread.interrupts, "the interrupt")
        await thread.run.respond("go")

        async def over():
            return (await t.state(thread.thread_id))["values"]["value"] == "pause>before>c1>c2(go)>after"

        await until(over, "the end")


@check("protocol.failure", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="failing") as thread:
        await thread.run.start(input={"message": "m"})
        try:
            await thread.output
        except Exception as err:
            assert "boom: m" in str(err), err
        else:
            raise AssertionError("no failure")


@check("protocol.subscribe", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="nested") as thread:
        await thread.run.start(input={"value": "s"})
        got = [e async for e in thread.subscribe(["updates"], namespaces=[["child"]], depth=1)]
        assert got and all(e["params"]["namespace"][0].startswith("child:") for e in got), got


@check("protocol.events", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="router") as thread:
        await thread.run.start(input={"target": "left"})
        methods = set()
        async for event in thread.events:
            methods.add(event["method"])
            if event["method"] == "lifecycle" and event["params"]["data"]["event"] == "completed":
                break
        assert {"lifecycle", "values", "updates"} <= methods, methods


@check("protocol.interleave", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="agent") as thread:
        await thread.run.start(input=WEATHER)
        kinds = [kind async for kind, _ in thread.interleave_projections(["values", "messages", "tool_calls"])]
        eq(set(kinds), {"values", "messages", "tool_calls"})
        eq(kinds[0], "values")


@check("protocol.sync_interleave", client="sync")
@in_a_thread
def _(t):
    with t.sync_client.threads.stream(assistant_id="agent") as thread:
        thread.run.start(input=HELLO)
        eq({kind for kind, _ in thread.interleave_projections(["values", "messages"])}, {"values", "messages"})


@check("protocol.get_tree", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="nested") as thread:
        drawn = await thread.agent.get_tree(xray=True)
        assert "child:child_one" in [n["id"] for n in drawn["nodes"]], drawn


@check("protocol.config", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="configurable", headers={"x-harness": "yes"}) as thread:
        await thread.run.start(input={"note": "n"}, config={"configurable": {"model": "m"}})
        has((await thread.output)["seen"], {"model": "m", "header": "yes"})


@check("protocol.several_runs", client="async")
async def _(t):
    id = uuid()
    for n, target in enumerate(("left", "right")):
        async with t.client.threads.stream(id, assistant_id="router") as thread:
            await thread.run.start(input={"target": target})

            async def over():
                return len((await t.state(id))["values"].get("path", [])) == 2 * n + 2

            await until(over, "the run")
    eq((await t.state(id))["values"]["path"], ["route", "left", "route", "right"])


@check("protocol.reattach", client="async")
async def _(t):
    async with t.client.threads.stream(assistant_id="slow") as thread:
        await thread.run.start(input={"count": 4, "delay_ms": 200})
        id = thread.thread_id
        await t.ticked(id)
    async with t.client.threads.stream(id, assistant_id="slow") as thread:
        eq((await thread.output)["ticks"], ["t0", "t1", "t2", "t3"])
