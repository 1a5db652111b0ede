"""RemoteGraph of langgraph, with its sync and its async methods"""

import asyncio

from kit import check, eq, has, uuid
from langchain_core.messages import HumanMessage
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, StateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph.types import Command
from typing_extensions import TypedDict


class Remote:
    """A RemoteGraph whose methods are the async ones or the sync ones in a thread."""

    def __init__(self, t, graph):
        self.kind = t.kind
        self.graph = RemoteGraph(graph, client=t.async_client, sync_client=t.sync_client)

    async def call(self, method, *args, **kwargs):
        if self.kind == "async":
            return await getattr(self.graph, "a" + method)(*args, **kwargs)
        return await asyncio.to_thread(getattr(self.graph, method), *args, **kwargs)

    async def all(self, method, *args, **kwargs):
        if self.kind == "async":
            return [x async for x in getattr(self.graph, "a" + method)(*args, **kwargs)]
        return await asyncio.to_thread(lambda: list(getattr(self.graph, method)(*args, **kwargs)))


async def config(t):
    return {"configurable": {"thread_id": await t.thread()}}


@check("remote.invoke")
async def _(t):
    eq(await Remote(t, "router").call("invoke", {"target": "right"}), {"target": "right", "path": ["route", "right"]})


@check("remote.invoke_on_a_thread")
async def _(t):
    at, g = await config(t), Remote(t, "router")
    await g.call("invoke", {"target": "left"}, at)
    eq((await g.call("invoke", {"target": "right"}, at))["path"], ["route", "left", "route", "right"])


@check("remote.invoke_messages")
async def _(t):
    out = await Remote(t, "agent").call("invoke", {"messages": [HumanMessage("what is the weather")]}, await config(t))
    eq(out["messages"][-1]["content"], "It is sunny in Paris today.")


@check("remote.stream_modes")
async def _(t):
    g = Remote(t, "router")
    eq(await g.all("stream", {"target": "left"}), [{"route": {"path": ["route"]}}, {"left": {"path": ["left"]}}])
    eq([v["path"] for v in await g.all("stream", {"target": "left"}, stream_mode="values")], [[], ["route"], ["route", "left"]])
    eq([part[0] for part in await g.all("stream", {"target": "left"}, stream_mode=["values", "updates"])], ["values", "updates", "values", "updates", "values"])


@check("remote.stream_subgraphs")
async def _(t):
    parts = await Remote(t, "nested").all("stream", {"value": "s"}, await config(t), stream_mode="updates", subgraphs=True)
    eq([(tuple(x.split(":")[0] for x in ns), list(data)[0]) for ns, data in parts], [((), "before"), (("child",), "child_one"), (("child",), "child_two"), ((), "child"), ((), "after")])


@check("remote.stream_messages_and_custom")
async def _(t):
    parts = await Remote(t, "agent").all("stream", {"messages": [("human", "hi there")]}, await config(t), stream_mode="messages")
    eq([m["content"] for m, _ in parts if m["content"]], ["Echo: ", "hi ", "there"])
    eq(await Remote(t, "custom").all("stream", {"n": 1}, stream_mode="custom"), [{"type": "progress", "step": 0, "total": 1}])


@check("remote.stream_version_2")
async def _(t):
    parts = await Remote(t, "router").all("stream", {"target": "left"}, stream_mode=["updates"], version="v2")
    eq([list(p["data"])[0] for p in parts if p["type"] == "updates"], ["route", "left"])


@check("remote.stream_raises")
async def _(t):
    try:
        await Remote(t, "failing").all("stream", {"message": "m"})
    except Exception as err:
        assert "boom: m" in str(err), err
    else:
        raise AssertionError("no failure")


@check("remote.interrupt_and_resume")
async def _(t):
    at, g = await config(t), Remote(t, "hitl")
    parts = await g.all("stream", {"topic": "cats"}, at, stream_mode="updates")
    eq(parts[-1]["__interrupt__"][0]["value"], {"question": "approve?", "topic": "cats"})
    out = await g.call("invoke", Command(resume={"ok": True}), at)
    eq(out["approval"], {"ok": True})


@check("remote.breakpoints")
async def _(t):
    at, g = await config(t), Remote(t, "router")
    await g.call("invoke", {"target": "left"}, at, interrupt_before=["left"])
    eq((await g.call("get_state", at)).next, ("left",))
    eq((await g.call("invoke", None, at))["path"], ["route", "left"])


@check("remote.goto")
async def _(t):
    at, g = await config(t), Remote(t, "router")
    await g.call("invoke", {"target": "left"}, at)
    out = await g.call("invoke", Command(goto="right", update={"x": 1}), at)
    eq([out["path"], out["x"]], [["route", "left", "right"], 1])


@check("remote.get_state")
async def _(t):
    at, g = await config(t), Remote(t, "hitl")
    await g.all("stream", {"topic": "cats"}, at)
    s = await g.call("get_state", at)
    eq([s.values, s.next], [{"topic": "cats", "log": ["proposed:cats"]}, ("review",)])
    eq(s.tasks[0].interrupts[0].value, {"question": "approve?", "topic": "cats"})
    eq(s.interrupts[0].id, s.tasks[0].interrupts[0].id)
    eq(s.metadata["step"], 1)


@check("remote.get_state_of_subgraphs")
async def _(t):
    at, g = await config(t), Remote(t, "nested")
    await g.all("stream", {"value": "pause"}, at)
    s = await g.call("get_state", at, subgraphs=True)
    eq(s.tasks[0].state.values, {"value": "pause>before>c1", "steps": ["child_one"]})
    inner = await g.call("get_state", s.tasks[0].state.config)
    eq(inner.next, ("child_two",))


@check("remote.get_state_history")
async def _(t):
    at, g = await config(t), Remote(t, "router")
    await g.call("invoke", {"target": "left"}, at)
    eq([s.metadata["step"] for s in await g.all("get_state_history", at)], [2, 1, 0, -1])
    eq([s.metadata["step"] for s in await g.all("get_state_history", at, limit=1)], [2])
    eq([s.metadata["step"] for s in await g.all("get_state_history", at, filter={"source": "input"})], [-1])


@check("remote.get_state_history_before", deviates="crashes on a checkpoint as before")
async def _(t):
    at, g = await config(t), Remote(t, "router")
    await g.call("invoke", {"target": "left"}, at)
    second = (await g.all("get_state_history", at))[1]
    eq([s.metadata["step"] for s in await g.all("get_state_history", at, before=second.config)], [0, -1])


@check("remote.update_state_and_fork")
async def _(t):
    at, g = await config(t), Remote(t, "router")
    await g.call("invoke", {"target": "left"}, at)
    past = (await g.all("get_state_history", at))[2]
    fork = await g.call("update_state", past.config, {"target": "right"})
    eq((await g.call("get_state", fork)).values, {"target": "right", "path": []})
    eq((await g.call("invoke", None, fork))["path"], ["route", "right"])
    await g.call("update_state", at, {"path": ["edited"]}, as_node="right")
    eq((await g.call("get_state", at)).values["path"][-1], "edited")


@check("remote.get_graph")
async def _(t):
    g = await Remote(t, "nested").call("get_graph", xray=True)
    assert "child:child_one" in g.nodes, list(g.nodes)
    assert "child" in (await Remote(t, "nested").call("get_graph")).nodes


@check("remote.config_context_headers")
async def _(t):
    g = Remote(t, "configurable")
    out = await g.call("invoke", {"note": "n"}, {"configurable": {"model": "m"}, "tags": ["a"]}, headers={"x-harness": "yes"})
    has(out["seen"], {"model": "m", "header": "yes"})
    assert "a" in out["seen"]["tags"]
    has((await g.call("invoke", {"note": "n"}, context={"tier": "gold"}))["seen"], {"tier": "gold"})


@check("remote.with_config")
async def _(t):
    g = Remote(t, "configurable")
    g.graph = g.graph.with_config({"configurable": {"model": "bound"}})
    has((await g.call("invoke", {"note": "n"}))["seen"], {"model": "bound"})


@check("remote.recursion_limit")
async def _(t):
    try:
        await Remote(t, "slow").call("invoke", {"count": 9, "delay_ms": 0}, {"recursion_limit": 4})
    except Exception as err:
        assert "recursion" in str(err).lower(), err
    else:
        raise AssertionError("no failure")


class Outer(TypedDict, total=False):
    value: str


def outer(t, graph):
    b = StateGraph(Outer)
    b.add_node("remote", RemoteGraph(graph, client=t.async_client, sync_client=t.sync_client))
    b.add_edge(START, "remote")
    return b.compile()


@check("remote.as_a_node")
async def _(t):
    g = outer(t, "nested")
    if t.kind == "async":
        eq(await g.ainvoke({"value": "s"}), {"value": "s>before>c1>c2>after"})
    else:
        eq(await asyncio.to_thread(g.invoke, {"value": "s"}), {"value": "s>before>c1>c2>after"})


@check("remote.as_a_node_interrupts")
async def _(t):
    g = outer(t, "nested")
    try:
        out = await g.ainvoke({"value": "pause"}) if t.kind == "async" else await asyncio.to_thread(g.invoke, {"value": "pause"})
    except GraphInterrupt as err:
        eq(err.args[0][0].value, "child paused")
    else:
        eq(out["__interrupt__"][0].value, "child paused")


@check("remote.as_a_node_streams")
async def _(t):
    g = outer(t, "nested")

    async def read():
        return [x async for x in g.astream({"value": "s"}, stream_mode="updates", subgraphs=True)]

    parts = await read() if t.kind == "async" else await asyncio.to_thread(lambda: list(g.stream({"value": "s"}, stream_mode="updates", subgraphs=True)))
    names = [list(data)[0] for _, data in parts]
    assert {"before", "child_one", "child_two", "after", "remote"} <= set(names), names


@check("remote.makes_the_thread")
async def _(t):
    at = {"configurable": {"thread_id": uuid()}}
    await Remote(t, "router").call("invoke", {"target": "left"}, at)
    eq((await Remote(t, "router").call("get_state", at)).values["path"], ["route", "left"])


@check("remote.stream_events_version_3", client="async")
async def _(t):
    g = RemoteGraph("router", client=t.async_client, sync_client=t.sync_client)
    out = g.astream_events({"target": "left"}, version="v3")
    if asyncio.iscoroutine(out):
        out = await out
    async with out as run:
        value = run.output
        eq((await value if asyncio.iscoroutine(value) or hasattr(value, "__await__") else await value())["path"], ["route", "left"])
