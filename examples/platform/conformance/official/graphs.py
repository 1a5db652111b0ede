"""The ten graphs of examples/platform/graphs for LangGraph's own server."""

import asyncio
import json
import re
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.config import get_store, get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.prebuilt._tool_call_transformer import ToolCallTransformer
from langgraph.runtime import Runtime
from langgraph.stream.transformers import (
    CheckpointsTransformer,
    CustomTransformer,
    TasksTransformer,
    UpdatesTransformer,
)
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

# Without these, the server keeps the channels of protocol v2 silent.
CHANNELS = [UpdatesTransformer, CustomTransformer, TasksTransformer, CheckpointsTransformer, ToolCallTransformer]


def append(old: list, new: Any) -> list:
    return old + (new if isinstance(new, list) else [new])


def compiled(builder: StateGraph):
    return builder.compile(transformers=CHANNELS)


def chain(state: type, nodes: dict, **options):
    """A graph of nodes that run one after the other."""
    builder = StateGraph(state, **options)
    last = START
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(last, name)
        last = name
    builder.add_edge(last, END)
    return compiled(builder)


# agent


class Script(BaseChatModel):
    """A model that answers by the last message."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def _chunks(self, messages):
        last = messages[-1]
        if isinstance(last, HumanMessage) and "weather" in last.content:
            pieces = [
                {"id": "call_weather_1", "name": "get_weather", "args": ""},
                {"id": None, "name": None, "args": '{"city":'},
                {"id": None, "name": None, "args": '"Paris"}'},
            ]
            for piece in pieces:
                yield AIMessageChunk(content="", tool_call_chunks=[{**piece, "index": 0}])
            return
        text = f"It is {last.content} today." if isinstance(last, ToolMessage) else f"Echo: {last.content}"
        for word in re.findall(r"\S+\s*", text):
            yield AIMessageChunk(content=word)

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        for chunk in self._chunks(messages):
            piece = ChatGenerationChunk(message=chunk)
            if run_manager:
                run_manager.on_llm_new_token(chunk.content, chunk=piece)
            yield piece

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        whole = None
        for piece in self._stream(messages, run_manager=run_manager):
            whole = piece.message if whole is None else whole + piece.message
        answer = AIMessage(content=whole.content, tool_calls=whole.tool_calls)
        return ChatResult(generations=[ChatGeneration(message=answer)])


@tool
def get_weather(city: str) -> str:
    """Tells the weather of a city."""
    return "sunny in " + city


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


async def call_model(state: Chat):
    return {"messages": [await Script().ainvoke(state["messages"])]}


def after_model(state: Chat):
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END


builder = StateGraph(Chat)
builder.add_node("agent", call_model)
builder.add_node("tools", ToolNode([get_weather]))
builder.add_edge(START, "agent")
builder.add_conditional_edges("agent", after_model, ["tools", END])
builder.add_edge("tools", "agent")
agent = compiled(builder)


# hitl


class Review(TypedDict):
    topic: str
    approval: Any
    log: Annotated[list, append]


def review(state: Review):
    answer = interrupt({"question": "approve?", "topic": state.get("topic")})
    return {"approval": answer, "log": ["reviewed:" + json.dumps(answer, separators=(",", ":"))]}


hitl = chain(
    Review,
    {
        "propose": lambda s: {"log": [f"proposed:{s.get('topic')}"]},
        "review": review,
        "finish": lambda s: {"log": ["finished"]},
    },
)


# nested


class Travel(TypedDict):
    value: str


class Stay(TypedDict):
    value: str
    steps: Annotated[list, append]


def child_two(state: Stay):
    mark = ">c2"
    if state["value"].startswith("pause"):
        mark = f">c2({interrupt('child paused')})"
    return {"value": state["value"] + mark, "steps": ["child_two"]}


nested = chain(
    Travel,
    {
        "before": lambda s: {"value": s["value"] + ">before"},
        "child": chain(
            Stay,
            {
                "child_one": lambda s: {"value": s["value"] + ">c1", "steps": ["child_one"]},
                "child_two": child_two,
            },
        ),
        "after": lambda s: {"value": s["value"] + ">after"},
    },
)


# fanout


class Batch(TypedDict):
    items: list[str]
    results: Annotated[list[str], append]
    summary: str


builder = StateGraph(Batch)
builder.add_node("plan", lambda s: {"items": s.get("items") or ["a", "b", "c"]})
builder.add_node("worker", lambda job: {"results": [job["item"].upper()]})
builder.add_node("reduce", lambda s: {"summary": ",".join(sorted(s["results"]))})
builder.add_edge(START, "plan")
builder.add_conditional_edges("plan", lambda s: [Send("worker", {"item": x}) for x in s["items"]], ["worker"])
builder.add_edge("worker", "reduce")
builder.add_edge("reduce", END)
fanout = compiled(builder)


# custom


class Emission(TypedDict):
    n: int
    done: bool


def emit(state: Emission):
    write = get_stream_writer()
    for step in range(state.get("n") or 0):
        write({"type": "progress", "step": step, "total": state["n"]})
    return {"done": True}


custom = chain(Emission, {"emit": emit})


# slow


class Clock(TypedDict):
    count: int
    delay_ms: int
    label: str
    ticks: Annotated[list[str], append]
    i: Annotated[int, lambda old, new: new]


async def tick(state: Clock):
    delay = state.get("delay_ms")
    await asyncio.sleep((200 if delay is None else delay) / 1000)
    label = state.get("label")
    return {"ticks": [("t" if label is None else label) + str(state["i"])], "i": state["i"] + 1}


def again(state: Clock):
    count = state.get("count")
    return "tick" if state["i"] < (3 if count is None else count) else END


builder = StateGraph(Clock)
builder.add_node("reset", lambda s: {"i": 0})
builder.add_node("tick", tick)
builder.add_edge(START, "reset")
builder.add_edge("reset", "tick")
builder.add_conditional_edges("tick", again, ["tick", END])
slow = compiled(builder)


# failing


class Attempt(TypedDict):
    message: str
    prepared: bool


def boom(state: Attempt):
    raise RuntimeError(f"boom: {state.get('message')}")


failing = chain(Attempt, {"prepare": lambda s: {"prepared": True}, "boom": boom})


# configurable


class Sight(TypedDict):
    note: str
    seen: dict


class Context(TypedDict, total=False):
    tier: str
    region: str


def show(state: Sight, config: RunnableConfig, runtime: Runtime[Context]):
    given, context = config.get("configurable", {}), runtime.context or {}
    return {
        "seen": {
            "model": given.get("model"),
            "header": given.get("x-harness"),
            "api_key": given.get("x-api-key"),
            "thread_id": given.get("thread_id"),
            "run_id": str(given["run_id"]) if given.get("run_id") else None,
            "graph_id": given.get("graph_id"),
            "assistant_id": given.get("assistant_id"),
            "tier": context.get("tier"),
            "region": context.get("region"),
            "tags": config.get("tags"),
        }
    }


configurable = chain(Sight, {"show": show}, context_schema=Context)


# memory


class Remembering(TypedDict):
    user: str
    fact: str
    recalled: list


async def remember(state: Remembering):
    store, about = get_store(), ("harness_memories", state["user"])
    if state.get("fact"):
        await store.aput(about, "fact", {"text": state["fact"]})
    found = await store.asearch(about, limit=10)
    return {"recalled": sorted(item.value["text"] for item in found)}


memory = chain(Remembering, {"remember": remember})


# router


class Trip(TypedDict):
    target: str
    x: Any
    path: Annotated[list[str], append]


def route(state: Trip):
    return Command(update={"path": ["route"]}, goto="right" if state.get("target") == "right" else "left")


builder = StateGraph(Trip)
builder.add_node("route", route, destinations=("left", "right"))
builder.add_node("left", lambda s: {"path": ["left"]})
builder.add_node("right", lambda s: {"path": ["right"]})
builder.add_edge(START, "route")
builder.add_edge("left", END)
builder.add_edge("right", END)
router = compiled(builder)
