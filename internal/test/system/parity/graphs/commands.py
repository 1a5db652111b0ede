"""Command: routing and updates from a node, to the same graph and to a parent."""

import operator
from dataclasses import dataclass
from typing import Annotated, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
from typing_extensions import TypedDict

from graphs.kit import Log, case, invoke, pace, stream, writes

EMPTY = {"log": []}


def add(g, *names):
    for name in names:
        g.add_node(name, writes(name))
    return g


@case("goto", [
    invoke(EMPTY),
    stream("updates", EMPTY),
    stream("tasks", EMPTY),
])
def goto():
    """State {log: appending list}. START to a, which declares the destination b and returns
    Command(update log ["a"], goto b); b appends "b". c exists and never runs."""

    def a(state) -> Command[Literal["b"]]:
        return Command(update={"log": ["a"]}, goto="b")

    g = add(StateGraph(Log).add_node(a), "b", "c")
    g.add_edge(START, "a")
    return g


@case("goto_several", [
    invoke(EMPTY),
    stream("values", EMPTY),
    stream("updates", EMPTY),
], parallel=True)
def goto_several():
    """State {log: appending list}. START to a, which returns Command(update log ["a"], goto [c, b,
    Send(w, {n: 1})]) with those destinations declared by the destinations option; b and c append their
    names, w appends "w<n>". Finish order b, c, w."""

    def a(state):
        return Command(update={"log": ["a"]}, goto=["c", "b", Send("w", {"n": 1})])

    def w(arg):
        pace(2)
        return {"log": [f"w{arg['n']}"]}

    g = StateGraph(Log)
    g.add_node("a", a, destinations=("b", "c", "w"))
    g.add_node("b", writes("b"))
    g.add_node("c", writes("c", 1))
    g.add_node("w", w)
    g.add_edge(START, "a")
    return g


@case("goto_labels", [invoke(EMPTY)])
def goto_labels():
    """State {log: appending list}. As goto, but a's destinations are declared with labels: {b: "go on",
    END: "stop"}; a returns Command(goto b) without an update."""
    g = StateGraph(Log)
    g.add_node("a", lambda s: Command(goto="b"), destinations={"b": "go on", END: "stop"})
    add(g, "b")
    g.add_edge(START, "a")
    return g


@case("goto_and_edge", [
    invoke(EMPTY),
    stream("values", EMPTY),
])
def goto_and_edge():
    """State {log: appending list}. START to a; plain edge a to b; a returns Command(update log ["a"],
    goto c) with c declared: b and c both run in the next step. b and c append their names."""

    def a(state) -> Command[Literal["c"]]:
        return Command(update={"log": ["a"]}, goto="c")

    g = add(StateGraph(Log).add_node(a), "b", "c")
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    return g


@case("goto_same_as_edge", [
    invoke(EMPTY),
    stream("values", EMPTY),
])
def goto_same_as_edge():
    """State {log: appending list}. START to a; plain edge a to b; a returns Command(update log ["a"],
    goto b) with b declared: b runs once. b appends its name."""

    def a(state) -> Command[Literal["b"]]:
        return Command(update={"log": ["a"]}, goto="b")

    g = add(StateGraph(Log).add_node(a), "b")
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    return g


@case("goto_end", [
    invoke({"log": [], "stop": True}, name="stop"),
    invoke({"log": [], "stop": False}, name="go on"),
    stream("updates", {"log": [], "stop": True}),
])
def goto_end():
    """State {log: appending list, stop: bool}. START to a, which declares END and b and returns
    Command(update log ["a"], goto END when stop, else b); b appends its name."""

    class State(TypedDict):
        log: Annotated[list, operator.add]
        stop: bool

    def a(state: State) -> Command[Literal["b", "__end__"]]:
        return Command(update={"log": ["a"]}, goto=END if state["stop"] else "b")

    g = add(StateGraph(State).add_node(a), "b")
    g.add_edge(START, "a")
    return g


@case("goto_end_with_edge", [invoke(EMPTY)])
def goto_end_with_edge():
    """State {log: appending list}. START to a; plain edge a to b; a returns Command(update log ["a"],
    goto END). The goto to END writes nothing and the plain edge still fires, so b runs."""
    g = StateGraph(Log)
    g.add_node("a", lambda s: Command(update={"log": ["a"]}, goto=END))
    add(g, "b")
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    return g


@case("goto_unknown", [
    invoke(EMPTY),
    stream("updates", EMPTY),
])
def goto_unknown():
    """State {log: appending list}. START to a, which returns Command(update log ["a"], goto ghost)
    where ghost does not exist and is not declared."""
    g = StateGraph(Log)
    g.add_node("a", lambda s: Command(update={"log": ["a"]}, goto="ghost"))
    g.add_edge(START, "a")
    return g


@case("command_list", [
    invoke({"log": [], "n": 0}),
    stream("updates", {"log": [], "n": 0}),
    stream("values", {"log": [], "n": 0}),
    stream("tasks", {"log": [], "n": 0}),
    stream("debug", {"log": [], "n": 0}, saver=True),
    stream("updates", {"log": [], "n": 0}, version="v2"),
])
def command_list():
    """State {log: appending list, n: int}. START to a, which returns the list [Command(update
    log ["one"], goto b), {log: ["two"], n: 7}, Command(update log ["three"])]; b appends "b". In the
    updates stream a's update is a list of single-key maps because log was written more than once; in the
    tasks stream the repeated writes are folded under $writes."""

    class State(TypedDict):
        log: Annotated[list, operator.add]
        n: int

    def a(state):
        return [
            Command(update={"log": ["one"]}, goto="b"),
            {"log": ["two"], "n": 7},
            Command(update={"log": ["three"]}),
        ]

    g = StateGraph(State)
    g.add_node("a", a, destinations=("b",))
    add(g, "b")
    g.add_edge(START, "a")
    return g


@case("command_list_root", [
    invoke(["in"]),
    stream("updates", ["in"]),
    stream("values", ["in"]),
    stream("tasks", ["in"]),
])
def command_list_root():
    """Root state: an appending list. START to a, which returns [Command(update ["one"]), ["two"],
    Command(update ["three"])]; a to b, which returns ["b"]."""
    g = StateGraph(Annotated[list, operator.add])
    g.add_node("a", lambda s: [Command(update=["one"]), ["two"], Command(update=["three"])])
    g.add_node("b", lambda s: ["b"])
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    return g


@case("command_last_value_twice", [
    invoke({"v": ""}),
    stream("updates", {"v": ""}),
    stream("tasks", {"v": ""}),
])
def command_last_value_twice():
    """State {v: str} without reducer. START to a, which returns [Command(update {v: "one"}),
    Command(update {v: "two"})]: two writes of a plain value by one node in one step, an invalid
    update. (In the updates and tasks streams the chunks of the finished task are lost, because a step with one
    task hands its chunks over only after the writes were applied; that is an artefact, not a rule.)"""

    class State(TypedDict):
        v: str

    g = StateGraph(State)
    g.add_node("a", lambda s: [Command(update={"v": "one"}), Command(update={"v": "two"})])
    g.add_edge(START, "a")
    return g


@case("command_pairs", [
    invoke(EMPTY),
    stream("updates", EMPTY),
])
def command_pairs():
    """State {log: appending list}. START to a, which returns one Command whose update is a list of
    pairs: [(log, ["one"]), (log, ["two"])]."""
    g = StateGraph(Log)
    g.add_node("a", lambda s: Command(update=[("log", ["one"]), ("log", ["two"])]))
    g.add_edge(START, "a")
    return g


@case("command_struct", [
    invoke(EMPTY),
    stream("updates", EMPTY),
])
def command_struct():
    """State {log: appending list}. START to a, which returns a Command whose update is a struct with the
    field log = ["from a struct"] and a field other = 1 that the state does not know."""

    @dataclass
    class Update:
        log: list
        other: int = 1

    g = StateGraph(Log)
    g.add_node("a", lambda s: Command(update=Update(["from a struct"])))
    g.add_edge(START, "a")
    return g


@case("command_empty", [
    invoke(EMPTY),
    stream("updates", EMPTY),
])
def command_empty():
    """State {log: appending list}. START to a, which returns an empty Command; a to b, which appends
    "b"."""
    g = StateGraph(Log)
    g.add_node("a", lambda s: Command())
    add(g, "b")
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    return g


@case("planner_loop", [
    invoke({"plan": ["one", ["two", "three"], "four"], "log": []}),
    stream("values", {"plan": ["one", ["two", "three"], "four"], "log": []}),
])
def planner_loop():
    """State {plan: list, log: appending list}. START to planner. planner: if plan is empty, returns
    Command(update log ["done"], goto END); otherwise takes the first element off and returns
    Command(update {plan: rest, log: ["plan"]}, goto that element), which is a node name or a list of
    names. one, two, three and four append their names and each has a plain edge back to planner."""

    class State(TypedDict):
        plan: list
        log: Annotated[list, operator.add]

    def planner(state: State):
        if not state["plan"]:
            return Command(update={"log": ["done"]}, goto=END)
        first, *rest = state["plan"]
        return Command(update={"plan": rest, "log": ["plan"]}, goto=first)

    g = add(StateGraph(State).add_node(planner), "one", "two", "three", "four")
    g.add_edge(START, "planner")
    for name in ("one", "two", "three", "four"):
        g.add_edge(name, "planner")
    return g


def child_of(fn, state=Log, name="c"):
    return StateGraph(state).add_node(name, fn).add_edge(START, name).compile()


@case("parent_one_level", [
    invoke({"log": ["in"]}),
    stream("updates", {"log": ["in"]}),
    stream("updates", {"log": ["in"]}, subgraphs=True),
    stream("values", {"log": ["in"]}, subgraphs=True),
    stream("tasks", {"log": ["in"]}, subgraphs=True),
    stream("debug", {"log": ["in"]}, subgraphs=True, saver=True),
], parallel=True)
def parent_one_level():
    """State {log: appending list} in both graphs. Child: START, c1 (appends "c1"), c2 (returns
    Command(graph PARENT, update log ["c2"], goto target)), c3 (appends "c3"; plain edge from c2, never
    runs). Parent: START to sub (compiled child as node); sub has a plain edge to after; target and after
    append their names. c1's write stays in the child and is lost; both target and after run, after
    finishing first."""
    child = StateGraph(Log)
    add(child, "c1")
    child.add_node("c2", lambda s: Command(graph=Command.PARENT, update={"log": ["c2"]}, goto="target"))
    add(child, "c3")
    for s, t in ((START, "c1"), ("c1", "c2"), ("c2", "c3")):
        child.add_edge(s, t)
    g = StateGraph(Log)
    g.add_node("sub", child.compile())
    add(g, "after").add_node("target", writes("target", 1))
    g.add_edge(START, "sub")
    g.add_edge("sub", "after")
    return g


@case("parent_two_levels", [
    invoke({"log": ["in"]}),
    stream("updates", {"log": ["in"]}, subgraphs=True),
    stream("values", {"log": ["in"]}, subgraphs=True),
])
def parent_two_levels():
    """State {log: appending list} in all graphs. Inner: START to leaf, which returns Command(graph
    PARENT, update log ["leaf"], goto mid_target). Middle: START to inner (compiled); mid_target
    appends "mid_target". Top: START to middle (compiled); top_target appends "top_target" and never
    runs. The command goes one level up only; the middle graph's whole list is then added to the top's
    list, so what it inherited appears twice."""
    inner = child_of(
        lambda s: Command(graph=Command.PARENT, update={"log": ["leaf"]}, goto="mid_target"), name="leaf"
    )
    middle = StateGraph(Log)
    middle.add_node("inner", inner)
    add(middle, "mid_target")
    middle.add_edge(START, "inner")
    g = StateGraph(Log)
    g.add_node("middle", middle.compile())
    add(g, "top_target")
    g.add_edge(START, "middle")
    return g


@case("parent_relay", [
    invoke({"log": ["in"]}),
    stream("updates", {"log": ["in"]}, subgraphs=True),
])
def parent_relay():
    """State {log: appending list} in all graphs. Inner: START to leaf, which returns Command(graph
    PARENT, update log ["leaf"], goto relay). Middle: START to inner (compiled); relay returns
    Command(graph PARENT, update log ["relay"], goto top_target). Top: START to middle (compiled);
    top_target appends "top_target". Two hops up, one per command."""
    inner = child_of(
        lambda s: Command(graph=Command.PARENT, update={"log": ["leaf"]}, goto="relay"), name="leaf"
    )
    middle = StateGraph(Log)
    middle.add_node("inner", inner)
    middle.add_node(
        "relay", lambda s: Command(graph=Command.PARENT, update={"log": ["relay"]}, goto="top_target")
    )
    middle.add_edge(START, "inner")
    g = StateGraph(Log)
    g.add_node("middle", middle.compile())
    add(g, "top_target")
    g.add_edge(START, "middle")
    return g


@case("parent_sends", [
    invoke({"log": ["in"]}),
    stream("values", {"log": ["in"]}),
    stream("updates", {"log": ["in"]}, subgraphs=True),
], parallel=True)
def parent_sends():
    """State {log: appending list}. Child: START to c, which returns Command(graph PARENT, update
    log ["c"], goto [Send(w, {n: 1}), Send(w, {n: 2}), "z"]). Parent: START to sub (compiled child); w
    appends "w<n>"; z appends "z". Finish order w1, w2, z."""

    def w(arg):
        pace(arg["n"] - 1)
        return {"log": [f"w{arg['n']}"]}

    def c(state):
        goto = [Send("w", {"n": 1}), Send("w", {"n": 2}), "z"]
        return Command(graph=Command.PARENT, update={"log": ["c"]}, goto=goto)

    g = StateGraph(Log)
    g.add_node("sub", child_of(c))
    g.add_node("w", w)
    g.add_node("z", writes("z", 2))
    g.add_edge(START, "sub")
    return g


@case("parent_unknown_key", [
    invoke({"shared": "in"}),
    stream("updates", {"shared": "in"}, subgraphs=True),
])
def parent_unknown_key():
    """Parent state {shared: str, only_parent: str}; child state {shared: str}. Child: START to c, which
    returns Command(graph PARENT, update {only_parent: "set by the child", nowhere: 1}) without a goto.
    Parent: START to sub (compiled child) to end, which writes shared = shared + "!". The key unknown to
    the child is applied in the parent; the key unknown to both is dropped."""

    class Child(TypedDict):
        shared: str

    class Parent(TypedDict):
        shared: str
        only_parent: str

    def c(state):
        return Command(graph=Command.PARENT, update={"only_parent": "set by the child", "nowhere": 1})

    g = StateGraph(Parent)
    g.add_node("sub", child_of(c, Child))
    g.add_node("end", lambda s: {"shared": s["shared"] + "!"})
    g.add_edge(START, "sub")
    g.add_edge("sub", "end")
    return g


@case("parent_from_call", [
    invoke({"log": ["in"]}),
    stream("updates", {"log": ["in"]}, subgraphs=True),
], parallel=True)
def parent_from_call():
    """State {log: appending list}. As parent_one_level, but the child (START to c, which returns
    Command(graph PARENT, update log ["c"], goto target)) is called inside the function node caller,
    which would return log ["not reached"] afterwards. caller has a plain edge to after. target and after
    append their names, after finishing first."""
    child = child_of(lambda s: Command(graph=Command.PARENT, update={"log": ["c"]}, goto="target"))

    def caller(state):
        child.invoke(state)
        return {"log": ["not reached"]}

    g = add(StateGraph(Log).add_node(caller), "after")
    g.add_node("target", writes("target", 1))
    g.add_edge(START, "caller")
    g.add_edge("caller", "after")
    return g


@case("parent_at_root", [
    invoke(EMPTY),
    stream("updates", EMPTY),
])
def parent_at_root():
    """State {log: appending list}. START to a, which returns Command(graph PARENT, goto b) although
    the graph has no parent; b exists."""
    g = StateGraph(Log)
    g.add_node("a", lambda s: Command(graph=Command.PARENT, goto="b"))
    add(g, "b")
    g.add_edge(START, "a")
    return g


@case("parent_list", [
    invoke({"log": ["in"]}),
    stream("updates", {"log": ["in"]}),
])
def parent_list():
    """State {log: appending list}. Child: START to c, which returns the list [Command(update
    log ["kept in the child"]), Command(graph PARENT, update log ["to the parent"], goto target)]. Parent:
    START to sub (compiled child); target appends "target"."""

    def c(state):
        return [
            Command(update={"log": ["kept in the child"]}),
            Command(graph=Command.PARENT, update={"log": ["to the parent"]}, goto="target"),
        ]

    g = StateGraph(Log)
    g.add_node("sub", child_of(c))
    add(g, "target")
    g.add_edge(START, "sub")
    return g
