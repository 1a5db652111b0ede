"""Scripts: operations on one thread of a persisted graph, played and recorded one by one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START
from langgraph.types import Command, StateSnapshot, StateUpdate, interrupt

from .kit import pace

PLACEHOLDER = re.compile(r"^<interrupt (\d+)>$")


@dataclass
class Op:
    """One operation: its name, its arguments as recorded, and how a run is called."""

    op: str
    args: dict = field(default_factory=dict)


@dataclass
class Script:
    name: str
    build: Callable
    ops: list[Op]
    parallel: bool = False


SCRIPTS: dict[str, Script] = {}


def script(name: str, ops: list[Op], parallel: bool = False):
    """Register a case. The function is given a saver and returns a compiled graph; its
    docstring is the description. parallel: several nodes of one step run at a time."""

    def register(build):
        if name in SCRIPTS:
            raise ValueError(f"script {name} is defined twice")
        SCRIPTS[name] = Script(name, build, ops, parallel)
        return build

    return register


# Operations. Options of all that run something: stream (a mode or a list of modes),
# subgraphs, before, after, limit, durability, context, at (index in the history, newest
# first, at the time of the call).


def run(input, **options):
    return Op("run", {"input": input, **options})


def go_on(**options):
    """invoke(None)"""
    return Op("continue", options)


def resume(answer, **options):
    """Command(resume=answer). With update= and goto= they are part of the same Command."""
    return Op("resume", {"answer": answer, **options})


def answers(by_number: dict, **options):
    """Command(resume={id: answer}): by the number of the interrupt within the case."""
    return resume({f"<interrupt {n}>": v for n, v in by_number.items()}, **options)


def command(**options):
    """Command(update=…, goto=…)"""
    return Op("command", options)


def update(values, **options):
    """update_state. Options: as_node, at, nested (path of node names)."""
    return Op("update", {"values": values, **options})


def bulk(*steps, **options):
    """bulk_update_state: each step is a list of pairs (values, node)."""
    return Op("bulk", {"steps": [[list(u) for u in s] for s in steps], **options})


def state(**options):
    """get_state. Options: subgraphs, at, nested."""
    return Op("state", options)


def history(**options):
    """get_state_history. Options: limit, filter, nested."""
    return Op("history", options)


def delete():
    return Op("delete")


# Parts of graphs.

_entered: list[str] = []


def enter(name: str) -> None:
    """Note that a function runs; each operation records what ran."""
    _entered.append(name)


def logs(name: str, turn: int = 0, **more):
    """A node that appends its own name to log."""

    def node(state):
        enter(name)
        pace(turn)
        return {"log": [name], **more}

    node.__name__ = name
    return node


def asks(name: str, question=None, turn: int = 0):
    """A node that asks and appends "name:answer" to log."""

    def node(state):
        enter(name)
        pace(turn)
        answer = interrupt(question or f"{name}?")
        return {"log": [f"{name}:{answer}"]}

    node.__name__ = name
    return node


def fails_until(name: str, attempt: int, turn: int = 0, text: str | None = None):
    """A node that raises until the given attempt and appends its name to log then."""
    tries = []

    def node(state):
        enter(name)
        pace(turn)
        tries.append(1)
        if len(tries) < attempt:
            raise ValueError(text or f"{name} failed")
        return {"log": [name]}

    node.__name__ = name
    return node


def chain(builder, *names):
    """Edges from START along the names."""
    for a, b in zip((START, *names), names):
        builder.add_edge(a, b)
    return builder


# Playing.


class Player:
    """Plays a script. It numbers the ids of interrupts in the order they appear."""

    def __init__(self, script: Script, plain: Callable, error: Callable):
        self.script, self.to_json, self.error = script, plain, error
        self.saver = InMemorySaver()
        self.graph = script.build(self.saver)
        self.base = {"configurable": {"thread_id": "t1"}}
        self.numbers: dict[str, int] = {}

    def plain(self, value):
        return self.number(self.to_json(value))

    def number(self, v):
        if isinstance(v, list):
            return [self.number(e) for e in v]
        if not isinstance(v, dict):
            return v
        if v.get("$type") == "Interrupt" or v.keys() == {"value", "id", "response_schema"}:
            n = self.numbers.setdefault(v["id"], len(self.numbers) + 1)
            return {"value": v["value"], "id": f"<interrupt {n}>"}
        return {k: self.number(e) for k, e in v.items()}

    def answer(self, v):
        """An answer with the ids of interrupts in the place of their numbers."""
        if not isinstance(v, dict) or not all(PLACEHOLDER.match(k) for k in v) or not v:
            return v
        ids = {n: id for id, n in self.numbers.items()}
        return {
            ids.get(n, f"{n:032x}"): e
            for n, e in ((int(PLACEHOLDER.match(k)[1]), e) for k, e in v.items())
        }

    def config(self, args: dict) -> dict:
        config = self.base
        if "at" in args:
            found = list(self.graph.get_state_history(self.base))
            config = found[args["at"]].config
        for name in args.get("nested", ()):
            snapshot = self.graph.get_state(config)
            config = next(t.state for t in snapshot.tasks if t.name == name and t.state)
        return config

    def snapshot(self, s, deep: bool = False) -> dict:
        meta = s.metadata or {}
        return {
            "values": self.plain(s.values),
            "next": list(s.next),
            "source": meta.get("source"),
            "step": meta.get("step"),
            "parent": s.parent_config is not None,
            "tasks": [self.task(t, deep) for t in s.tasks],
        }

    def task(self, t, deep: bool) -> dict:
        out = {
            "name": t.name,
            "error": None if t.error is None else self.plain(str(t.error)),
            "interrupts": self.plain(list(t.interrupts)),
            "result": self.plain(t.result),
        }
        if deep:
            opened = isinstance(t.state, StateSnapshot)
            out["state"] = self.snapshot(t.state, True) if opened else None
        return out

    def call(self, input, args: dict, rec: dict) -> None:
        config = dict(self.config(args))
        kwargs: dict[str, Any] = {}
        if "limit" in args:
            config["recursion_limit"] = args["limit"]
        for ours, theirs in (
            ("before", "interrupt_before"),
            ("after", "interrupt_after"),
            ("durability", "durability"),
            ("context", "context"),
        ):
            if ours in args:
                kwargs[theirs] = args[ours]
        if "stream" not in args:
            rec["output"] = self.plain(self.graph.invoke(input, config, **kwargs))
            return
        rec["chunks"] = chunks = []
        for c in self.graph.stream(
            input, config, stream_mode=args["stream"], subgraphs=args.get("subgraphs", False), **kwargs
        ):
            chunks.append(self.plain(c))

    def do(self, op: Op, rec: dict) -> None:
        a = op.args
        match op.op:
            case "run":
                self.call(a["input"], a, rec)
            case "continue":
                self.call(None, a, rec)
            case "resume":
                more = {k: a[k] for k in ("update", "goto") if k in a}
                self.call(Command(resume=self.answer(a["answer"]), **more), a, rec)
            case "command":
                self.call(Command(**{k: a[k] for k in ("update", "goto") if k in a}), a, rec)
            case "update":
                self.graph.update_state(self.config(a), a["values"], as_node=a.get("as_node"))
                rec["done"] = True
            case "bulk":
                self.graph.bulk_update_state(
                    self.config(a), [[StateUpdate(*u) for u in s] for s in a["steps"]]
                )
                rec["done"] = True
            case "state":
                deep = a.get("subgraphs", False)
                rec["state"] = self.snapshot(
                    self.graph.get_state(self.config(a), subgraphs=deep), deep
                )
            case "history":
                more = {k: a[k] for k in ("limit", "filter") if k in a}
                found = self.graph.get_state_history(self.config(a), **more)
                rec["history"] = [self.snapshot(s) for s in found]
            case "delete":
                self.saver.delete_thread("t1")
                rec["done"] = True

    def play(self) -> list[dict]:
        out = []
        for op in self.script.ops:
            rec = {"op": op.op, "args": self.to_json(op.args)}
            _entered.clear()
            try:
                self.do(op, rec)
            except Exception as err:
                rec["error"] = {k: v for k, v in self.error(err).items() if k != "$type"}
                rec.pop("output", None)
            rec["entered"] = sorted(_entered) if self.script.parallel else list(_entered)
            out.append(rec)
        return out
