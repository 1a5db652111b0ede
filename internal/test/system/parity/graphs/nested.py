"""Graphs inside graphs: as a node, called in a node, with shared and separate state."""

import operator
from typing import Annotated

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

from graphs.kit import Log, case, events, invoke, pace, stream, writes

IN = {"log": ["in"]}


def small(*names, state=Log):
    """A compiled chain of nodes that append their names to log."""
    g = StateGraph(state)
    for name in names:
        g.add_node(name, writes(name))
    for s, t in zip((START, *names), names):
        g.add_edge(s, t)
    return g.compile()


@case("sub_shared_keys", [
    invoke({"a": 1, "b": 2}),
    stream("updates", {"a": 1, "b": 2}),
    stream("updates", {"a": 1, "b": 2}, subgraphs=True),
    stream("values", {"a": 1, "b": 2}, subgraphs=True),
    stream("tasks", {"a": 1, "b": 2}, subgraphs=True),
])
def sub_shared_keys():
    """State {a: int, b: int} in both graphs, plain values. Child: START to inc, which writes a + 1.
    Parent: START to sub (compiled child) to last, which writes b = a * 10. The update of sub is the
    child's whole output, including b, which the child only inherited."""

    class State(TypedDict):
        a: int
        b: int

    child = StateGraph(State)
    child.add_node("inc", lambda s: {"a": s["a"] + 1})
    child.add_edge(START, "inc")
    g = StateGraph(State)
    g.add_node("sub", child.compile())
    g.add_node("last", lambda s: {"b": s["a"] * 10})
    g.add_edge(START, "sub")
    g.add_edge("sub", "last")
    return g


@case("sub_extra_keys", [
    invoke({"shared": "s", "parent_only": "p"}),
    stream("updates", {"shared": "s", "parent_only": "p"}, subgraphs=True),
    stream("tasks", {"shared": "s", "parent_only": "p"}, subgraphs=True),
])
def sub_extra_keys():
    """Parent state {shared, parent_only}; child state {shared, child_only}. Child: START, c1 (writes
    child_only = "c"), c2 (writes shared = shared + child_only). Parent: START to sub (compiled child), END.
    The child never sees parent_only; the parent never sees child_only."""

    class Parent(TypedDict):
        shared: str
        parent_only: str

    class Child(TypedDict):
        shared: str
        child_only: str

    child = StateGraph(Child)
    child.add_node("c1", lambda s: {"child_only": "c"})
    child.add_node("c2", lambda s: {"shared": s["shared"] + s["child_only"]})
    child.add_edge(START, "c1")
    child.add_edge("c1", "c2")
    g = StateGraph(Parent)
    g.add_node("sub", child.compile())
    g.add_edge(START, "sub")
    g.add_edge("sub", END)
    return g


@case("sub_reducer_duplicates", [
    invoke(IN),
    stream("updates", IN),
    stream("values", IN, subgraphs=True),
])
def sub_reducer_duplicates():
    """State {log: appending list} in both graphs. Child: START to c, which appends "c". Parent: START, p
    (appends "p"), sub (compiled child), END. The child returns its whole list [in, p, c], which the
    parent's reducer appends to [in, p]: the inherited entries appear twice."""
    g = StateGraph(Log)
    g.add_node("p", writes("p"))
    g.add_node("sub", small("c"))
    g.add_edge(START, "p")
    g.add_edge("p", "sub")
    g.add_edge("sub", END)
    return g


@case("sub_output_schema", [
    invoke({"log": ["in"]}),
    stream("updates", {"log": ["in"]}, subgraphs=True),
    stream("values", {"log": ["in"]}, subgraphs=True),
])
def sub_output_schema():
    """Parent state {log: appending list}. The child has state {log: appending list, query: str}, input
    schema {query} and output schema {log}; START to c, which appends "c". Parent: START, p (appends "p"),
    sub (compiled child), END. The child starts with an empty log, so nothing is duplicated."""

    class Child(TypedDict):
        log: Annotated[list, operator.add]
        query: str

    class In(TypedDict):
        query: str

    child = StateGraph(Child, input_schema=In, output_schema=Log)
    child.add_node("c", writes("c"))
    child.add_edge(START, "c")
    g = StateGraph(Log)
    g.add_node("p", writes("p"))
    g.add_node("sub", child.compile())
    g.add_edge(START, "p")
    g.add_edge("p", "sub")
    g.add_edge("sub", END)
    return g


@case("sub_called_once", [
    invoke(IN),
    stream("updates", IN),
    stream("updates", IN, subgraphs=True),
    stream("values", IN, subgraphs=True),
    stream("checkpoints", IN, subgraphs=True, saver=True),
    stream("values", IN, subgraphs=True, version="v2"),
])
def sub_called_once():
    """State {log: appending list} in both graphs. Child: START to c, which appends "c". Parent: START to
    caller, a function that calls the compiled child with {log: ["x"]} and appends what it returns joined
    by "+"."""
    child = small("c")

    def caller(state):
        return {"log": ["+".join(child.invoke({"log": ["x"]})["log"])]}

    return StateGraph(Log).add_node(caller).add_edge(START, "caller")


@case("sub_called_twice", [
    invoke(IN),
    stream("updates", IN, subgraphs=True),
    stream("values", IN, subgraphs=True),
    stream("debug", IN, subgraphs=True),
    stream("updates", IN, subgraphs=True, version="v2"),
])
def sub_called_twice():
    """As sub_called_once, but caller calls the child three times, with log ["x"], ["y"] and ["z"],
    and appends the three joined results. The second and third call have a further numeric element in their
    namespace."""
    child = small("c")

    def caller(state):
        return {"log": ["+".join(child.invoke({"log": [v]})["log"]) for v in "xyz"]}

    return StateGraph(Log).add_node(caller).add_edge(START, "caller")


@case("sub_two_levels", [
    invoke(IN),
    stream("updates", IN),
    stream("updates", IN, subgraphs=True),
    stream("values", IN, subgraphs=True),
    stream("tasks", IN, subgraphs=True),
    stream("debug", IN, subgraphs=True, saver=True),
    stream("checkpoints", IN, subgraphs=True, saver=True),
    stream(["updates", "values"], IN, subgraphs=True, version="v2"),
    events(IN),
])
def sub_two_levels():
    """State {log: appending list} in all graphs. Inner: START to leaf, which appends "leaf". Middle:
    START, m (appends "m"), inner (compiled), END. Top: START, t (appends "t"), middle (compiled), END.
    Inherited entries are duplicated at each level by the appending reducer."""
    middle = StateGraph(Log)
    middle.add_node("m", writes("m"))
    middle.add_node("inner", small("leaf"))
    middle.add_edge(START, "m")
    middle.add_edge("m", "inner")
    middle.add_edge("inner", END)
    g = StateGraph(Log)
    g.add_node("t", writes("t"))
    g.add_node("middle", middle.compile())
    g.add_edge(START, "t")
    g.add_edge("t", "middle")
    g.add_edge("middle", END)
    return g


@case("sub_parallel", [
    invoke(IN),
    stream("values", IN),
    stream("updates", IN, subgraphs=True),
], parallel=True)
def sub_parallel():
    """Parent state {log: appending list}; the children have the state and output schema {log: appending list} and
    the input schema {unused: str}, so no key comes in. START to left and right, both compiled children; left: START to
    l, which appends "l"; right: START to r, which appends "r" and finishes after l. Both to end, which appends
    "end"."""

    class Nothing(TypedDict):
        unused: str

    def child(name, turn):
        c = StateGraph(Log, input_schema=Nothing, output_schema=Log)
        c.add_node(name, writes(name, turn))
        c.add_edge(START, name)
        return c.compile()

    g = StateGraph(Log)
    g.add_node("left", child("l", 0))
    g.add_node("right", child("r", 3))
    g.add_node("end", writes("end"))
    g.add_edge(START, "left")
    g.add_edge(START, "right")
    g.add_edge("left", "end")
    g.add_edge("right", "end")
    return g


@case("sub_sent", [
    invoke(IN),
    stream("updates", IN, subgraphs=True),
], parallel=True)
def sub_sent():
    """State {log: appending list} in both graphs. Conditional entry sends Send(sub, {log: ["1"], n: 1})
    and Send(sub, {log: ["2"], n: 2}); sub is the compiled child with state {log: appending list, n: int}:
    START to c, which waits 2n turns and appends "c<n>". The results are applied in the order of the
    sends."""

    class Child(TypedDict):
        log: Annotated[list, operator.add]
        n: int

    def c(state: Child):
        pace(2 * state["n"])
        return {"log": [f"c{state['n']}"]}

    child = StateGraph(Child).add_node(c).add_edge(START, "c").compile()
    g = StateGraph(Log)
    g.add_node("sub", child)
    g.add_conditional_edges(START, lambda s: [Send("sub", {"log": [str(n)], "n": n}) for n in (1, 2)], ["sub"])
    return g


@case("sub_in_loop", [
    invoke({"n": 0}),
    stream("updates", {"n": 0}, subgraphs=True),
])
def sub_in_loop():
    """State {n: int} in both graphs. Child: START to inc, which writes n + 1. Parent: START to sub
    (compiled child); conditional edge from sub with map {again: sub, done: END}: again while n < 3."""

    class State(TypedDict):
        n: int

    child = StateGraph(State)
    child.add_node("inc", lambda s: {"n": s["n"] + 1})
    child.add_edge(START, "inc")
    g = StateGraph(State)
    g.add_node("sub", child.compile())
    g.add_edge(START, "sub")
    g.add_conditional_edges("sub", lambda s: "again" if s["n"] < 3 else "done", {"again": "sub", "done": END})
    return g


@case("sub_fails", [
    invoke(IN),
    stream("updates", IN, subgraphs=True),
    stream("tasks", IN, subgraphs=True),
    stream("debug", IN, subgraphs=True),
])
def sub_fails():
    """State {log: appending list} in both graphs. Child: START, ok (appends "ok"), bad (raises
    ValueError("no luck")). Parent: START to sub (compiled child)."""

    def bad(state):
        raise ValueError("no luck")

    child = StateGraph(Log)
    child.add_node("ok", writes("ok"))
    child.add_node(bad)
    child.add_edge(START, "ok")
    child.add_edge("ok", "bad")
    g = StateGraph(Log)
    g.add_node("sub", child.compile())
    g.add_edge(START, "sub")
    return g


@case("sub_custom", [
    stream("custom", IN),
    stream("custom", IN, subgraphs=True),
    stream(["custom", "updates"], IN),
    stream(["custom", "updates"], IN, subgraphs=True),
    stream("custom", IN, subgraphs=True, version="v2"),
    stream("custom", IN, version="v2"),
])
def sub_custom():
    """State {log: appending list} in both graphs. Child: START to c, which sends "from the child" to the
    custom stream and appends "c". Parent: START, p (sends "from the parent", appends "p"), sub (compiled
    child), caller (a function that sends "before", calls the compiled child with {log: []}, sends "after" and
    returns None), END."""

    def c(state):
        get_stream_writer()("from the child")
        return {"log": ["c"]}

    child = StateGraph(Log).add_node(c).add_edge(START, "c").compile()

    def p(state):
        get_stream_writer()("from the parent")
        return {"log": ["p"]}

    def caller(state):
        writer = get_stream_writer()
        writer("before")
        child.invoke({"log": []})
        writer("after")

    g = StateGraph(Log)
    g.add_node(p)
    g.add_node("sub", child)
    g.add_node(caller)
    for s, t in ((START, "p"), ("p", "sub"), ("sub", "caller"), ("caller", END)):
        g.add_edge(s, t)
    return g


@case("sub_recursion_limit", [
    invoke(IN, name=f"limit {n}", config={"recursion_limit": n}) for n in range(1, 7)
])
def sub_recursion_limit():
    """State {log: appending list} in both graphs. Child: START, c1, c2, c3 in a chain. Parent: START to
    sub (compiled child). Each node appends its name. The limit of the run applies to the child's own step
    count as well."""
    g = StateGraph(Log)
    g.add_node("sub", small("c1", "c2", "c3"))
    g.add_edge(START, "sub")
    return g
