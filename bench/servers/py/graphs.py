"""The graphs of the server jobs for LangGraph's Python server."""

import asyncio
import os
import time
from operator import add
from typing import Annotated, Any

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict


class Trip(TypedDict):
    target: str
    x: Any
    path: Annotated[list, add]


async def route(state: Trip):
    return Command(update={"path": ["route"]}, goto="right" if state.get("target") == "right" else "left")


async def left(_: Trip):
    return {"path": ["left"]}


async def right(_: Trip):
    return {"path": ["right"]}


builder = StateGraph(Trip)
builder.add_node("route", route, destinations=("left", "right"))
builder.add_node("left", left)
builder.add_node("right", right)
builder.add_edge(START, "route")
builder.add_edge("left", END)
builder.add_edge("right", END)
router = builder.compile()


class First(TypedDict):
    done: bool


async def tell_time(_: First):
    """The time is in nanoseconds since 1970, a string as in the other languages."""
    get_stream_writer()({"at": str(time.time_ns())})
    return {"done": True}


builder = StateGraph(First)
builder.add_node("emit", tell_time)
builder.add_edge(START, "emit")
builder.add_edge("emit", END)
first = builder.compile()


class Burst(TypedDict):
    gate: str
    frames: int
    done: bool


async def send(state: Burst):
    """Waits until the file named gate exists, then sends its frames."""
    while not await asyncio.to_thread(os.path.exists, state["gate"]):
        await asyncio.sleep(0.005)
    write = get_stream_writer()
    for i in range(state["frames"]):
        write({"frame": i})
    return {"done": True}


builder = StateGraph(Burst)
builder.add_node("emit", send)
builder.add_edge(START, "emit")
builder.add_edge("emit", END)
burst = builder.compile()
