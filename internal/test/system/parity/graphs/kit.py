"""Small helpers shared by the graph cases: the registry, the run record and pacing."""

from __future__ import annotations

import operator
import time
from dataclasses import dataclass, field
from typing import Annotated, Any, Callable

from typing_extensions import TypedDict


@dataclass
class Run:
    """One recorded call.

    method: invoke, stream or events (astream_events version "v2").
    mode: a stream mode or a list of them; None leaves the default of the library.
    saver: compile with a fresh in-memory saver and use thread "t1".
    same_graph: use the graph object of the previous run instead of building a new one.
    unordered: the order of chunks inside one step may legitimately differ; None means
    "take the default of the case".
    extra: other keyword arguments of the call, for example output_keys.
    """

    name: str
    input: Any
    method: str = "stream"
    mode: Any = None
    subgraphs: bool = False
    version: str = "v1"
    config: dict = field(default_factory=dict)
    context: Any = None
    saver: bool = False
    same_graph: bool = False
    unordered: bool | None = None
    extra: dict = field(default_factory=dict)


@dataclass
class Case:
    name: str
    build: Callable
    runs: list[Run]
    parallel: bool = False


CASES: dict[str, Case] = {}


def case(name: str, runs: list[Run], parallel: bool = False):
    """Register a builder. Its docstring is the description; it returns a StateGraph, or a
    pair (StateGraph, compile options). parallel marks graphs in which several nodes of one
    step finish in an order that the library does not promise."""

    def register(build):
        if name in CASES:
            raise ValueError(f"case {name} is defined twice")
        CASES[name] = Case(name, build, runs, parallel)
        return build

    return register


def invoke(input, name="invoke", **kw):
    return Run(name, input, method="invoke", **kw)


def stream(mode, input, name=None, **kw):
    if name is None:
        name = "stream " + ("+".join(mode) if isinstance(mode, list) else mode)
        if kw.get("subgraphs"):
            name += " subgraphs"
        if kw.get("version") == "v2":
            name += " v2"
    return Run(name, input, mode=mode, **kw)


def events(input, name="events", **kw):
    return Run(name, input, method="events", **kw)


def pace(turn: int) -> None:
    """Let parallel nodes finish in a known order: the node with turn n sleeps n * 40 ms."""
    time.sleep(0.04 * turn)


class Log(TypedDict):
    """The state most cases use: one list, appended to."""

    log: Annotated[list, operator.add]


def writes(name: str, turn: int = 0):
    """A node function that appends its own name to log."""

    def node(state):
        pace(turn)
        return {"log": [name]}

    node.__name__ = name
    return node
