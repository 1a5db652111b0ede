"""Record threads saved by one LangGraph version, and what that version reports about them.

Usage: python internal/test/system/parity/record_versions.py [--postgres URL] [-o DIR]

Run it once per version, each in an environment of its own (see fixtures/import/versions/README.md). It writes
<version>.sqlite.gz, <version>.postgres.json.gz (with --postgres), and <version>.json: for each thread the
state, tasks, interrupts, and history that this version reads back, and the result of continuing a copy of the thread.

The script runs with every version from 0.1.19. Scenarios that a version does not support are left out.
"""

import argparse
import base64
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import gzip
import importlib.metadata
import inspect
import ipaddress
import json
import logging
import math
import operator
import pathlib
import re
import sqlite3
import sys
import time
import typing
import uuid
import warnings
from typing import Annotated, Any, NamedTuple

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from langchain_core.documents import Document  # noqa: E402
from langchain_core.messages import (  # noqa: E402
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langgraph.graph import END, START, StateGraph  # noqa: E402
from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: E402
from typing_extensions import TypedDict  # noqa: E402

from pydantic import BaseModel  # noqa: E402
from pydantic.v1 import BaseModel as BaseModelV1  # noqa: E402

try:
    from langgraph.types import Send
except ImportError:
    from langgraph.constants import Send
try:
    from langgraph.types import Command, interrupt
except ImportError:
    Command = interrupt = None
try:
    from langgraph.errors import NodeInterrupt
except ImportError:
    NodeInterrupt = None
try:
    from langgraph.func import entrypoint, task
except ImportError:
    entrypoint = task = None

HERE = pathlib.Path(__file__).resolve().parent
VERSION = importlib.metadata.version("langgraph")
TABLES = ["checkpoints", "checkpoint_blobs", "checkpoint_writes"]


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Model(BaseModel):
    a: int
    when: dt.date
    inner: dict


class Old(BaseModelV1):
    a: int


@dataclasses.dataclass
class Data:
    x: int
    y: list


class Pair(NamedTuple):
    a: int
    b: str


class S(TypedDict, total=False):
    log: Annotated[list, operator.add]
    x: int
    v: Any


# Values with a form in JSON.
VALUES = {
    "datetime": dt.datetime(2024, 1, 2, 3, 4, 5),
    "datetime_zone": dt.datetime(2024, 1, 2, 3, 4, 5, 678, tzinfo=dt.timezone(dt.timedelta(hours=-5))),
    "date": dt.date(2024, 1, 2),
    "time": dt.time(1, 2, 3, 4),
    "time_zone": dt.time(1, 2, 3, tzinfo=dt.timezone.utc),
    "timedelta": dt.timedelta(days=1, seconds=2, microseconds=3),
    "timedelta_negative": dt.timedelta(microseconds=-1),
    "timezone": dt.timezone(dt.timedelta(hours=2)),
    "uuid": uuid.UUID(int=1),
    "enum": Color.RED,
    "int_enum": Level.HIGH,
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"ab"),
    "set": {7},
    "frozenset": frozenset(["f"]),
    "tuple": (1, (2, 3)),
    "deque": collections.deque([1, 2]),
    "decimal": decimal.Decimal("1.10"),
    "pattern": re.compile("a+"),
    "pattern_flags": re.compile("a.+", re.I | re.S | re.M),
    "path": pathlib.Path("/a/b"),
    "address": ipaddress.IPv4Address("10.0.0.1"),
    "model": Model(a=1, when=dt.date(2024, 1, 2), inner={"k": [1]}),
    "old_model": Old(a=1),
    "dataclass": Data(1, [dt.date(2024, 1, 2)]),
    "named_tuple": Pair(1, "b"),
    "document": Document(page_content="text", metadata={"k": 1}),
    "keys": {1: "a", "b": True, None: "n", 2.5: "f", False: "no"},
    "numbers": [0, -1, 2**53 + 1, 2**63 - 1, 0.5, 1e300, -1e-7, True],
    "nul": "\u0000",
    "text": "ü € 😀 <&> \"q\" \\",
    "nested": {"list": [{"when": dt.datetime(2024, 1, 2)}, [b"x"]], "empty": {}, "none": None},
    "lc": {"lc": 1, "type": "other", "id": ["x"]},
}

# Values that JSON cannot express completely.
LOSSY = {
    "nan": float("nan"),
    "infinite": [1, float("-inf")],
    "int_keys": {1: "a", "1": "b"},
    "bool_keys": {True: "d", "true": "e"},
    "null_keys": {None: "f", "null": "g"},
    "tuple_key": {(1, 2): "h", "i": "j"},
    "verbose_pattern": re.compile("a b", re.X),
}


def messages():
    return [
        SystemMessage("be brief", id="s"),
        HumanMessage("hi", id="h", name="Ann", additional_kwargs={"k": 1}),
        HumanMessage([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:,"}}], id="h2"),
        AIMessage(
            "", id="a", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c"}],
            invalid_tool_calls=[{"name": "g", "args": "{", "id": "d", "error": "no JSON"}],
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}, response_metadata={"model": "m"},
        ),
        ToolMessage("done", id="t", tool_call_id="c", name="f", artifact={"rows": [1]}),
        FunctionMessage("r", id="f", name="g"),
        ChatMessage("x", id="c", role="critic"),
        AIMessageChunk("part", id="p"),
    ]


def plain(v: Any) -> Any:
    """The JSON that docs/from-langgraph.md promises for a value."""
    if isinstance(v, enum.Enum):
        return plain(v.value)
    if v is None or isinstance(v, (bool, int, str)):
        return v
    if isinstance(v, float):
        return None if math.isnan(v) or math.isinf(v) else v
    if isinstance(v, (bytes, bytearray)):
        return base64.b64encode(v).decode()
    if isinstance(v, (dt.datetime, dt.date, dt.time)):
        return v.isoformat()
    if isinstance(v, dt.timedelta):
        return v.total_seconds()
    if isinstance(v, dt.timezone):
        return dt.datetime(2000, 1, 1, tzinfo=v).isoformat()[19:]
    if isinstance(v, re.Pattern):
        flags = "".join(c for c, f in (("i", re.I), ("m", re.M), ("s", re.S)) if v.flags & f)
        return (f"(?{flags})" if flags else "") + v.pattern
    if isinstance(v, (uuid.UUID, decimal.Decimal, pathlib.Path, ipaddress.IPv4Address)):
        return str(v)
    if isinstance(v, BaseMessage):
        d = v.model_dump() if hasattr(v, "model_dump") else v.dict()
        d["type"] = "ai" if d["type"] == "AIMessageChunk" else d["type"]
        return plain(d)
    if hasattr(v, "model_dump"):
        return plain(v.model_dump())
    if isinstance(v, BaseModelV1) or hasattr(v, "dict") and callable(v.dict):
        return plain(v.dict())
    if dataclasses.is_dataclass(v):
        return {f.name: plain(getattr(v, f.name)) for f in dataclasses.fields(v)}
    if isinstance(v, tuple) and hasattr(v, "_asdict"):
        return plain(v._asdict())
    if isinstance(v, dict):
        return {key(k): plain(x) for k, x in v.items()}
    if isinstance(v, (list, tuple, set, frozenset, collections.deque)):
        return [plain(x) for x in v]
    raise TypeError(f"no JSON for {type(v)}")


def key(k: Any) -> str:
    return k if isinstance(k, str) else json.dumps(k) if isinstance(k, (int, float, bool, type(None))) else str(plain(k))


EXCLUDED = set()  # values that jsonb does not have, while threads are recorded in Postgres


def supported(serde, values):
    """The values that this version can save and read back."""
    out = {}
    for name, v in values.items():
        if name in EXCLUDED:
            continue
        try:
            if any(VERSION.startswith(old) for old in ("0.3.", "0.4.")):
                serde.dumps([v])  # the metadata repeats what nodes write, as JSON
            if hasattr(serde, "dumps_typed"):
                back = serde.loads_typed(serde.dumps_typed([v]))[0]
            else:
                back = serde.loads(serde.dumps([v]))[0]
            if back is None or plain(back) is None and not name == "nan":
                continue  # this version loses the value itself
        except Exception:
            continue
        out[name] = v
    return out


SCENARIOS = {}


def scenario(name, then=None, needs=True):
    """A scenario builds a graph. Its play makes the thread; then is the operation that continues it."""

    def add(fn):
        if needs:
            SCENARIOS[name] = (fn, then)
        return fn

    return add


def says(name):
    return lambda s: {"log": [name]}


def chain(*nodes, state=S, **compile_args):
    b = StateGraph(state)
    last = START
    for name, fn in nodes:
        b.add_node(name, fn)
        b.add_edge(last, name)
        last = name
    b.add_edge(last, END)
    return lambda saver: b.compile(checkpointer=saver, **compile_args)


def run(value=None):
    return lambda g, c: g.invoke({"x": 1} if value is None else value, c)


CONTINUE, NOTHING = {"op": "continue"}, None


def resume(value):
    return {"op": "resume", "value": value}


@scenario("values", CONTINUE)
def values(serde):
    held = supported(serde, VALUES)
    return chain(("a", lambda s: {"v": held, "log": ["a"]}), ("z", says("z")), interrupt_before=["z"]), run()


@scenario("lossy", CONTINUE)
def lossy(serde):
    held = supported(serde, LOSSY)
    return chain(("a", lambda s: {"v": held, "log": ["a"]}), ("z", says("z")), interrupt_before=["z"]), run()


@scenario("messages", CONTINUE)
def chat(serde):
    from langgraph.graph.message import add_messages

    class Chat(TypedDict, total=False):
        messages: Annotated[list, add_messages]
        removed: Any

    nodes = ("a", lambda s: {"messages": messages()[1:], "removed": [RemoveMessage(id="s")]}), ("z", lambda s: {"messages": [AIMessage("bye", id="z")]})
    return chain(*nodes, state=Chat, interrupt_before=["z"]), run({"messages": [messages()[0]]})


@scenario("done", NOTHING)
def done(serde):
    return chain(("a", says("a")), ("z", says("z"))), run()


@scenario("before", CONTINUE)
def before(serde):
    return chain(("a", says("a")), ("z", says("z")), interrupt_before=["z"]), run()


@scenario("before_first", CONTINUE)
def before_first(serde):
    return chain(("a", says("a")), ("z", says("z")), interrupt_before=["a"]), run()


@scenario("after", CONTINUE)
def after(serde):
    return chain(("a", says("a")), ("m", says("m")), ("z", says("z")), interrupt_after=["m"]), run()


@scenario("named", CONTINUE)
def named(serde):
    """A field whose value is its own name, and another whose value is the name of a node."""
    return chain(("a", lambda s: {"v": "v", "log": ["a"]}), ("z", says("z")), interrupt_before=["z"]), run()


@scenario("metadata", CONTINUE)
def metadata(serde):
    def play(g, c):
        g.invoke({"x": 1}, {**c, "metadata": {"user": "Ann", "n": 3}})

    return chain(("a", says("a")), ("z", says("z")), interrupt_before=["z"]), play


def choosing(**compile_args):
    b = StateGraph(S)
    for n in ("a", "y", "z"):
        b.add_node(n, says(n))
    b.add_edge(START, "a")
    b.add_conditional_edges("a", lambda s: "z", ["y", "z"])
    return lambda saver: b.compile(checkpointer=saver, **compile_args)


@scenario("branch", CONTINUE)
def branch(serde):
    return choosing(interrupt_before=["z"]), run()


@scenario("branch_done", NOTHING)
def branch_done(serde):
    return choosing(), run()


def parallel(fn_ok=None, fn_bad=None, join=True, **compile_args):
    b = StateGraph(S)
    b.add_node("ok", fn_ok or says("ok"))
    b.add_node("bad", fn_bad or says("bad"))
    b.add_node("j", says("j"))
    b.add_edge(START, "ok")
    b.add_edge(START, "bad")
    if join:
        b.add_edge(["ok", "bad"], "j")
    else:
        b.add_edge("ok", "j")
        b.add_edge("bad", "j")
    return lambda saver: b.compile(checkpointer=saver, **compile_args)


@scenario("fan", CONTINUE)
def fan(serde):
    return parallel(join=False, interrupt_before=["j"]), run()


@scenario("join", CONTINUE)
def join(serde):
    return parallel(interrupt_before=["j"]), run()


@scenario("join_half", CONTINUE)
def join_half(serde):
    """x has run and y2 has not; j waits for both."""
    b = StateGraph(S)
    for n in ("x1", "y1", "y2", "j"):
        b.add_node(n, says(n))
    b.add_edge(START, "x1")
    b.add_edge(START, "y1")
    b.add_edge("y1", "y2")
    b.add_edge(["x1", "y2"], "j")
    return lambda saver: b.compile(checkpointer=saver, interrupt_before=["y2"]), run()


RECOVERS = {"fails": True}


def fails(s):
    time.sleep(0.1)  # its sibling finishes first
    if RECOVERS["fails"]:
        raise ValueError("no luck")
    return {"log": ["bad"]}


def failing(g, c, value=None):
    try:
        g.invoke({"x": 1} if value is None else value, c)
    except ValueError:
        pass


@scenario("fail", CONTINUE)
def fail(serde):
    return parallel(fn_bad=fails), failing


@scenario("fail_later", CONTINUE)
def fail_later(serde):
    """The node that fails follows a plain edge and has never finished."""
    return chain(("a", says("a")), ("bad", fails), ("z", says("z"))), failing


def sending(**compile_args):
    b = StateGraph(S)
    b.add_node("a", says("a"))
    b.add_node("w", lambda s: {"log": ["w%d" % s["x"]]})
    b.add_node("z", says("z"))
    b.add_edge(START, "a")
    b.add_conditional_edges("a", lambda s: [Send("w", {"x": 1}), Send("w", {"x": 2})], ["w"])
    b.add_edge("w", "z")
    return lambda saver: b.compile(checkpointer=saver, **compile_args)


@scenario("sends", CONTINUE)
def sends(serde):
    return sending(interrupt_before=["w"]), run()


@scenario("sends_done", NOTHING)
def sends_done(serde):
    return sending(), run()


@scenario("sends_after", CONTINUE)
def sends_after(serde):
    return sending(interrupt_before=["z"]), run()


@scenario("loop", CONTINUE)
def loop(serde):
    """a and t alternate; the thread stops before t for the second time."""
    b = StateGraph(S)
    b.add_node("a", says("a"))
    b.add_node("t", says("t"))
    b.add_edge(START, "a")
    b.add_conditional_edges("a", lambda s: "t" if len(s["log"]) < 5 else END, ["t", END])
    b.add_edge("t", "a")

    def play(g, c):
        g.invoke({"x": 1}, c)
        g.invoke(None, c)

    return lambda saver: b.compile(checkpointer=saver, interrupt_before=["t"]), play


@scenario("loop_done", NOTHING)
def loop_done(serde):
    build, _ = loop(serde)

    def play(g, c):
        g.invoke({"x": 1}, c)
        g.invoke(None, c)
        g.invoke(None, c)

    return build, play


def nested(inner_args=None, outer_args=None, s2=None):
    sb = StateGraph(S)
    sb.add_node("s1", says("s1"))
    sb.add_node("s2", s2 or says("s2"))
    sb.add_edge(START, "s1")
    sb.add_edge("s1", "s2")
    b = StateGraph(S)
    b.add_node("a", says("a"))
    b.add_node("sub", sb.compile(**(inner_args or {})))
    b.add_node("z", says("z"))
    b.add_edge(START, "a")
    b.add_edge("a", "sub")
    b.add_edge("sub", "z")
    return lambda saver: b.compile(checkpointer=saver, **(outer_args or {}))


@scenario("sub", CONTINUE)
def sub(serde):
    return nested(inner_args={"interrupt_before": ["s2"]}), run()


@scenario("sub_done", NOTHING)
def sub_done(serde):
    return nested(), run()


@scenario("sub_before", CONTINUE)
def sub_before(serde):
    return nested(outer_args={"interrupt_before": ["sub"]}), run()


@scenario("deep", CONTINUE)
def deep(serde):
    inner = StateGraph(S)
    inner.add_node("d1", says("d1"))
    inner.add_node("d2", says("d2"))
    inner.add_edge(START, "d1")
    inner.add_edge("d1", "d2")
    mid = StateGraph(S)
    mid.add_node("inner", inner.compile(interrupt_before=["d2"]))
    mid.add_node("m", says("m"))
    mid.add_edge(START, "inner")
    mid.add_edge("inner", "m")
    b = StateGraph(S)
    b.add_node("mid", mid.compile())
    b.add_node("z", says("z"))
    b.add_edge(START, "mid")
    b.add_edge("mid", "z")
    return lambda saver: b.compile(checkpointer=saver), run()


@scenario("then", CONTINUE, "then" in inspect.signature(StateGraph.add_conditional_edges).parameters)
def then_(serde):
    b = StateGraph(S)
    for n in ("a", "y", "z", "t"):
        b.add_node(n, says(n))
    b.add_edge(START, "a")
    b.add_conditional_edges("a", lambda s: ["y", "z"], ["y", "z"], then="t")
    return lambda saver: b.compile(checkpointer=saver, interrupt_before=["t"]), run()


def asks(question, prefix):
    def ask(s):
        time.sleep(0.1)  # its sibling finishes first
        return {"log": [prefix + str(interrupt(question))]}

    return ask


def raises(s):
    raise NodeInterrupt({"why": "dynamic"})


@scenario("raise", NOTHING, NodeInterrupt is not None)
def raise_(serde):
    return chain(("q", raises)), run()


@scenario("raise_later", NOTHING, NodeInterrupt is not None)
def raise_later(serde):
    return chain(("a", says("a")), ("q", raises), ("z", says("z"))), run()


@scenario("ask", resume("A"), interrupt)
def ask(serde):
    return chain(("q", asks({"q": dt.date(2024, 1, 2)}, "q:"))), run()


@scenario("ask_later", resume("A"), interrupt)
def ask_later(serde):
    return chain(("a", says("a")), ("q", asks("q?", "q:")), ("z", says("z"))), run()


@scenario("ask_twice", resume("B"), interrupt)
def ask_twice(serde):
    def twice(s):
        first = interrupt("first?")
        return {"log": ["q:" + first + interrupt("second?")]}

    def play(g, c):
        g.invoke({"x": 1}, c)
        g.invoke(Command(resume="A"), c)

    return chain(("a", says("a")), ("q", twice), ("z", says("z"))), play


@scenario("ask_beside", resume("A"), interrupt)
def ask_beside(serde):
    """One node has finished, and the other asks."""
    return parallel(fn_bad=asks("q?", "bad:")), run()


@scenario("ask_sub", resume("A"), interrupt)
def ask_sub(serde):
    return nested(s2=asks("inner?", "s2:")), run()


@scenario("ask_send", resume("A"), interrupt)
def ask_send(serde):
    b = StateGraph(S)
    b.add_node("a", says("a"))
    b.add_node("w", lambda s: {"log": ["w1"]} if s["x"] == 1 else {"log": ["w:" + interrupt("w?")]})
    b.add_edge(START, "a")
    b.add_conditional_edges("a", lambda s: [Send("w", {"x": 1}), Send("w", {"x": 2})], ["w"])
    return lambda saver: b.compile(checkpointer=saver), run()


@scenario("goto", CONTINUE, Command)
def goto(serde):
    b = StateGraph(S)

    def a(s) -> Command[typing.Literal["z"]]:
        return Command(update={"log": ["a"]}, goto="z")

    b.add_node("a", a)
    b.add_node("z", says("z"))
    b.add_edge(START, "a")
    return lambda saver: b.compile(checkpointer=saver, interrupt_before=["z"]), run()


@scenario("fork", CONTINUE)
def fork(serde):
    """The thread has finished. A copy of an earlier state is changed and is the newest checkpoint."""

    def play(g, c):
        g.invoke({"x": 1}, c)
        earlier = [h for h in g.get_state_history(c) if h.next == ("m",)][0]
        g.update_state(earlier.config, {"log": ["forked"]}, as_node="a")

    return chain(("a", says("a")), ("m", says("m")), ("z", says("z"))), play


@scenario("updated", CONTINUE)
def updated(serde):
    def play(g, c):
        g.invoke({"x": 1}, c)
        g.update_state(c, {"log": ["edited"]}, as_node="m")

    return chain(("a", says("a")), ("m", says("m")), ("z", says("z")), interrupt_before=["m"]), play


@scenario("turns", CONTINUE)
def turns(serde):
    def play(g, c):
        g.invoke({"x": 1}, c)
        g.invoke(None, c)
        g.invoke({"x": 2}, c)

    return chain(("a", says("a")), ("z", says("z")), interrupt_before=["z"]), play


@scenario("pruned", CONTINUE)
def pruned(serde):
    """Only the newest checkpoint is left."""
    return chain(("a", says("a")), ("m", says("m")), ("z", says("z")), interrupt_before=["z"]), run()


@scenario("pruned_sends", CONTINUE)
def pruned_sends(serde):
    return sending(interrupt_before=["w"]), run()


@scenario("root", CONTINUE)
def root(serde):
    b = StateGraph(Annotated[list, operator.add])
    b.add_node("a", lambda s: ["a"])
    b.add_node("z", lambda s: ["z"])
    b.add_edge(START, "a")
    b.add_edge("a", "z")
    return lambda saver: b.compile(checkpointer=saver, interrupt_before=["z"]), run(["in"])


@scenario("flow", resume("A"), entrypoint)
def flow(serde):
    @task()
    def double(n):
        return {"n": 2 * n, "when": dt.date(2024, 1, 2)}

    def build(saver):
        @entrypoint(checkpointer=saver)
        def work(n):
            doubled = double(n).result()
            return str(doubled["n"]) + interrupt("go on?")

        return work

    return build, run(4)


def ident(config):
    c = (config or {}).get("configurable", {})
    return c.get("checkpoint_id") or c.get("thread_ts")


def text(v):
    return v if isinstance(v, str) else repr(v)


def described(snap, deep=True):
    """What get_state reports."""
    out = {"id": ident(snap.config), "parent": ident(snap.parent_config), "next": list(snap.next), "values": plain(snap.values),
           "source": (snap.metadata or {}).get("source"), "step": (snap.metadata or {}).get("step")}
    extra = {k: v for k, v in (snap.metadata or {}).items() if k in ("user", "n")}
    if extra:
        out["metadata"] = extra
    if deep and hasattr(snap, "tasks"):
        out["tasks"] = [
            {
                "name": t.name,
                "error": None if t.error is None else text(t.error),
                "interrupts": [plain(i.value) for i in getattr(t, "interrupts", ())],
                "state": described(t.state) if hasattr(t.state, "values") and not isinstance(t.state, dict) else None,
            }
            for t in snap.tasks
        ]
    return out


def record(name, saver, config, serde):
    build, play = SCENARIOS[name][0](serde)
    g = build(saver)
    play(g, config)
    return build


def read(g, config):
    args = {"subgraphs": True} if "subgraphs" in inspect.signature(g.get_state).parameters else {}
    return {"state": described(g.get_state(config, **args)), "history": [described(h, False) for h in g.get_state_history(config)]}


def go_on(g, config, then):
    value = None if then["op"] == "continue" else Command(resume=then["value"])
    # A graph that stops before a node does so at every call, so run until it ends or asks.
    for attr in ("interrupt_before_nodes", "interrupt_after_nodes"):
        setattr(g, attr, [])
    try:
        out = g.invoke(value, config)
    except Exception as err:
        return {"error": text(err)}
    if isinstance(out, dict):
        out = {k: v for k, v in out.items() if k != "__interrupt__"}
    snap = g.get_state(config)
    return {"output": plain(out), "next": list(snap.next)}


def rows(conn, table):
    cur = conn.execute(f"select * from {table}")
    names = [c.name for c in cur.description]
    out = []
    for r in cur.fetchall():
        r = r.values() if isinstance(r, dict) else r
        out.append([{"b": base64.b64encode(v).decode()} if isinstance(v, (bytes, memoryview)) else v for v in r])
    return {"columns": names, "rows": out}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--out", type=pathlib.Path, default=HERE / "fixtures" / "import" / "versions")
    parser.add_argument("--postgres")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{VERSION}.sqlite"
    for old in args.out.glob(f"{VERSION}.sqlite*"):
        old.unlink()
    conn = sqlite3.connect(path, check_same_thread=False)
    saver = SqliteSaver(conn)
    pg = None
    if args.postgres:
        import psycopg
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import dict_row

        pgconn = psycopg.connect(args.postgres, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        for t in TABLES + ["checkpoint_migrations"]:
            pgconn.execute(f"drop table if exists {t} cascade")
        pg = PostgresSaver(pgconn)
        pg.setup()
    column = None
    threads = {}
    for name in SCENARIOS:
        config = {"configurable": {"thread_id": name}}
        RECOVERS["fails"] = True
        build = record(name, saver, config, saver.serde)
        conn.commit()
        if column is None:
            column = "thread_ts" if "thread_ts" in [r[1] for r in conn.execute("pragma table_info(checkpoints)")] else "checkpoint_id"
        deletes = f"DELETE FROM checkpoints WHERE thread_id = '{name}' AND {column} < (SELECT max({column}) FROM checkpoints WHERE thread_id = '{name}')"
        if name.startswith("pruned"):
            conn.execute(deletes)
            conn.commit()
        got = read(build(saver), config)
        if name in ("values", "lossy"):
            got["held"] = sorted(supported(saver.serde, VALUES if name == "values" else LOSSY))
        if pg is not None:
            EXCLUDED.update(("nul", "nan", "infinite"))
            record(name, pg, config, pg.serde)
            EXCLUDED.clear()
            if name.startswith("pruned"):
                pgconn.execute(deletes)
        then = SCENARIOS[name][1]
        if then is not None:
            copy = sqlite3.connect(":memory:", check_same_thread=False)
            conn.backup(copy)
            RECOVERS["fails"] = False
            got["then"] = {**then, **go_on(build(SqliteSaver(copy)), config, then)}
            copy.close()
        threads[name] = got
    for statement in ("pragma journal_mode=delete", "vacuum"):
        conn.execute(statement)
    conn.commit()
    conn.close()
    (args.out / f"{VERSION}.sqlite.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))
    path.unlink()
    if pg is not None:
        tables = {t: rows(pgconn, t) for t in TABLES}
        lines = ",\n".join(
            f'"{t}": {{"columns": {json.dumps(d["columns"])}, "rows": [\n' + ",\n".join(json.dumps(r, ensure_ascii=False) for r in d["rows"]) + "\n]}"
            for t, d in tables.items()
        )
        (args.out / f"{VERSION}.postgres.json.gz").write_bytes(gzip.compress(("{" + lines + "}\n").encode(), mtime=0))
    packages = {p: importlib.metadata.version(p) for p in ("langgraph-checkpoint", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "langchain-core", "pydantic") if has(p)}
    out = {"version": VERSION, "python": "%d.%d" % sys.version_info[:2], "packages": packages, "threads": threads}
    (args.out / f"{VERSION}.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")
    print(VERSION, len(threads), "threads")


def has(package):
    try:
        return bool(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return False


if __name__ == "__main__":
    main()
