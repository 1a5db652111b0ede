"""Plain edges, joins and conditional edges."""

import operator
from typing import Annotated, Literal

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

from graphs.kit import Log, Run, case, events, invoke, pace, stream, writes

EMPTY = {"log": []}
IN = {"log": ["in"]}


def nodes(g, *names, paced=False):
    """Add nodes that append their own name to log; paced ones finish in the order given."""
    for turn, name in enumerate(names):
        g.add_node(name, writes(name, turn if paced else 0))
    return g


@case("chain", [
    invoke(IN),
    stream("values", IN),
    stream("updates", IN),
    stream("debug", IN, saver=True),
    stream("tasks", IN),
    stream("checkpoints", IN, saver=True),
    stream("checkpoints", IN, name="stream checkpoints without saver"),
    stream("values", IN, version="v2"),
    stream("tasks", IN, version="v2"),
    stream("checkpoints", IN, version="v2", saver=True),
    stream("updates", IN, name="stream updates subgraphs flag without subgraphs", subgraphs=True),
    Run("stream default mode", IN),
    stream("tasks", IN, name="stream tasks with tags and metadata", config={"tags": ["t"], "metadata": {"who": "me"}}),
    invoke({}, name="empty input"),
    invoke({"unknown": 1}, name="input without known keys"),
    invoke(None, name="nil input"),
    events(IN),
])
def chain():
    """State {log: appending list}. START, a, b, c, END in a chain; each node appends its name."""
    g = nodes(StateGraph(Log), "a", "b", "c")
    for s, t in ((START, "a"), ("a", "b"), ("b", "c"), ("c", END)):
        g.add_edge(s, t)
    return g


@case("diamond", [
    invoke(IN),
    stream("values", IN),
    stream("updates", IN),
    stream("tasks", IN),
    stream("debug", IN, saver=True),
    stream("checkpoints", IN, saver=True, unordered=False),
    stream(["values", "updates"], IN),
    stream("updates", IN, version="v2"),
], parallel=True)
def diamond():
    """State {log: appending list}. START to top; top to left and right; left to bottom and right to
    bottom (two plain edges, so bottom runs once because both fire in the same step); bottom to END.
    Each node appends its name; left finishes before right."""
    g = nodes(StateGraph(Log), "top", "bottom")
    nodes(g, "left", "right", paced=True)
    g.add_edge(START, "top")
    g.add_edge("top", "left")
    g.add_edge("top", "right")
    g.add_edge("left", "bottom")
    g.add_edge("right", "bottom")
    g.add_edge("bottom", END)
    return g


@case("fan_out_order", [
    invoke(IN),
    stream("values", IN),
    stream("updates", IN),
], parallel=True)
def fan_out_order():
    """State {log: appending list}. START to zeta, mid and alpha, added in that order; none has an
    outgoing edge. zeta finishes first, then mid, then alpha: the updates come in completion order,
    the writes are applied in name order."""
    g = nodes(StateGraph(Log), "zeta", "mid", "alpha", paced=True)
    for name in ("zeta", "mid", "alpha"):
        g.add_edge(START, name)
    return g


@case("uneven_branches", [
    invoke(IN),
    stream("values", IN),
])
def uneven_branches():
    """State {log: appending list}. START to a; a to b and c; b to b2; b2 to d and c to d by plain
    edges; d to END. The two paths to d have different lengths, so d runs twice. Each node appends
    its name."""
    g = nodes(StateGraph(Log), "a", "b", "b2", "c", "d")
    for s, t in ((START, "a"), ("a", "b"), ("a", "c"), ("b", "b2"), ("b2", "d"), ("c", "d"), ("d", END)):
        g.add_edge(s, t)
    return g


@case("parallel_last_value", [
    invoke({"v": "in"}),
    stream("updates", {"v": "in"}),
    stream("values", {"v": "in"}),
], parallel=True)
def parallel_last_value():
    """State {v: str}, a plain value without reducer. START to a and b, each of which writes v = its
    own name: two writes in one step, an invalid concurrent update."""

    class State(TypedDict):
        v: str

    def a(state):
        return {"v": "a"}

    def b(state):
        pace(1)
        return {"v": "b"}

    g = StateGraph(State).add_node(a).add_node(b)
    g.add_edge(START, "a")
    g.add_edge(START, "b")
    return g


@case("join_all", [
    invoke(IN),
    stream("values", IN),
    stream("updates", IN),
    stream("tasks", IN),
    stream("checkpoints", IN, saver=True, unordered=False),
], parallel=True)
def join_all():
    """State {log: appending list}. START to a and b; b to b2; join edge from [a, b2] to j; j to END.
    Each node appends its name; a finishes before b. j waits for the slower path and runs once."""
    g = nodes(StateGraph(Log), "a", "b", paced=True)
    nodes(g, "b2", "j")
    g.add_edge(START, "a")
    g.add_edge(START, "b")
    g.add_edge("b", "b2")
    g.add_edge(["a", "b2"], "j")
    g.add_edge("j", END)
    return g


@case("join_plus_edge", [
    invoke(IN),
    stream("values", IN),
    stream("updates", IN),
    stream("tasks", IN),
], parallel=True)
def join_plus_edge():
    """State {log: appending list}. START to a; a to b and c; b to b2; join edge from [b2, c] to j and
    also a plain edge from c to j; j to END. Each node appends its name; b finishes before c, and
    b2 before j. j runs twice: by the plain edge (in the step of b2), then by the join."""
    g = nodes(StateGraph(Log), "a", "b2")
    nodes(g, "b", "c", paced=True)
    g.add_node("j", writes("j", 1))
    for s, t in ((START, "a"), ("a", "b"), ("a", "c"), ("b", "b2"), ("c", "j"), ("j", END)):
        g.add_edge(s, t)
    g.add_edge(["b2", "c"], "j")
    return g


@case("join_loop", [
    invoke({"log": [], "rounds": 0}),
    stream("values", {"log": [], "rounds": 0}),
    stream("updates", {"log": [], "rounds": 0}),
], parallel=True)
def join_loop():
    """State {log: appending list, rounds: int}. START to top; top to a and b; join edge from [a, b]
    to j; conditional edge again from j: top while rounds < 2, else END (declared targets top, END).
    Each node appends its name; j also writes rounds + 1. The barrier resets between rounds."""

    class State(TypedDict):
        log: Annotated[list, operator.add]
        rounds: int

    def j(state: State):
        return {"log": ["j"], "rounds": state["rounds"] + 1}

    def again(state: State) -> Literal["top", "__end__"]:
        return "top" if state["rounds"] < 2 else END

    g = nodes(StateGraph(State), "top")
    nodes(g, "a", "b", paced=True)
    g.add_node(j)
    g.add_edge(START, "top")
    g.add_edge("top", "a")
    g.add_edge("top", "b")
    g.add_edge(["a", "b"], "j")
    g.add_conditional_edges("j", again)
    return g


@case("join_never_complete", [
    invoke(IN),
    stream("values", IN),
])
def join_never_complete():
    """State {log: appending list}. START to a; join edge from [a, b] to j, but nothing leads to b:
    the run ends after a. Each node appends its name."""
    g = nodes(StateGraph(Log), "a", "b", "j")
    g.add_edge(START, "a")
    g.add_edge(["a", "b"], "j")
    return g


@case("cond_map", [
    invoke({"kind": "x", "log": []}, name="x"),
    invoke({"kind": "stop", "log": []}, name="stop"),
    invoke({"kind": "other", "log": []}, name="not in the map"),
    stream("updates", {"kind": "x", "log": []}),
])
def cond_map():
    """State {kind: str, log: appending list}. START to a; conditional edge route from a returns kind,
    with map {x: node_x, y: node_y, stop: END}; node_x and node_y to END. Each node appends its
    name."""

    class State(TypedDict):
        kind: str
        log: Annotated[list, operator.add]

    def route(state: State):
        return state["kind"]

    g = nodes(StateGraph(State), "a", "node_x", "node_y")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", route, {"x": "node_x", "y": "node_y", "stop": END})
    g.add_edge("node_x", END)
    g.add_edge("node_y", END)
    return g


class Pick(TypedDict):
    pick: list
    log: Annotated[list, operator.add]


def picked(state: Pick):
    return state["pick"]


@case("cond_no_map", [
    invoke({"pick": ["b"], "log": []}, name="one name in a list"),
    invoke({"pick": ["b", "c"], "log": []}, name="several"),
    invoke({"pick": ["c", "b"], "log": []}, name="several in the other order"),
    invoke({"pick": [END], "log": []}, name="END"),
    invoke({"pick": ["b", END], "log": []}, name="a node and END"),
    invoke({"pick": [], "log": []}, name="empty list"),
    invoke({"pick": ["b", "b"], "log": []}, name="same node twice"),
    invoke({"pick": ["nowhere"], "log": []}, name="unknown node"),
    invoke({"pick": None, "log": []}, name="nil"),
    invoke({"pick": [START], "log": []}, name="START"),
    stream("values", {"pick": ["c", "b"], "log": []}),
])
def cond_no_map():
    """State {pick: list, log: appending list}. START to a; conditional edge picked from a without a
    map returns pick; nodes b and c have no outgoing edge. Each node appends its name."""
    g = nodes(StateGraph(Pick), "a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", picked)
    return g


@case("cond_list_map", [
    invoke({"pick": ["b", "c"], "log": []}),
])
def cond_list_map():
    """As cond_no_map, but the map is the list [b, c, END]."""
    g = nodes(StateGraph(Pick), "a", "b", "c")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", picked, ["b", "c", END])
    return g


@case("cond_sends", [
    invoke({"pick": [3, 1, 2], "log": []}),
    stream("values", {"pick": [3, 1, 2], "log": []}),
    stream("updates", {"pick": [3, 1, 2], "log": []}),
    stream("tasks", {"pick": [3, 1, 2], "log": []}),
    stream("debug", {"pick": [3, 1, 2], "log": []}, saver=True),
], parallel=True)
def cond_sends():
    """State {pick: list, log: appending list}. START to a; conditional edge fan from a (declared
    target: w) returns Send(w, {n}) for each n in pick; w waits n turns and appends "w<n>"; w to END.
    The applied order is the order of the sends."""

    def fan(state: Pick):
        return [Send("w", {"n": n}) for n in state["pick"]]

    def w(state):
        pace(state["n"])
        return {"log": [f"w{state['n']}"]}

    g = nodes(StateGraph(Pick), "a")
    g.add_node("w", w)
    g.add_edge(START, "a")
    g.add_conditional_edges("a", fan, ["w"])
    g.add_edge("w", END)
    return g


@case("cond_mixed", [
    invoke(EMPTY),
    stream("values", EMPTY),
    stream("updates", EMPTY),
], parallel=True)
def cond_mixed():
    """State {log: appending list}. START to a; conditional edge mix from a without a map returns
    [Send(w, {n: 1}), "z", Send(w, {n: 2}), "b"]; w appends "w<n>"; b, z append their names. Finish
    order b, w1, w2, z."""

    def mix(state):
        return [Send("w", {"n": 1}), "z", Send("w", {"n": 2}), "b"]

    def w(state):
        pace(state["n"])
        return {"log": [f"w{state['n']}"]}

    g = nodes(StateGraph(Log), "a", "b")
    g.add_node("z", writes("z", 3))
    g.add_node("w", w)
    g.add_edge(START, "a")
    g.add_conditional_edges("a", mix)
    return g


@case("worked_trace", [
    invoke({"v": ["in"]}),
    stream("values", {"v": ["in"]}),
    stream("updates", {"v": ["in"]}),
    stream("debug", {"v": ["in"]}, saver=True),
    stream("checkpoints", {"v": ["in"]}, saver=True, unordered=False),
], parallel=True)
def worked_trace():
    """State {v: appending list}. START to a and b; join edge from [a, b] to j; conditional edge from
    j without a map returns [Send(m, 1), Send(m, 2), "z"]. a, b, j, z append their names; m appends
    "m<n>" where n is the argument of the Send (a bare number). Finish order a, b; m1, m2, z."""

    class State(TypedDict):
        v: Annotated[list, operator.add]

    def node(name, turn=0):
        def run(state):
            pace(turn)
            return {"v": [name]}
        return run

    def m(n):
        pace(n - 1)
        return {"v": [f"m{n}"]}

    g = StateGraph(State)
    g.add_node("a", node("a"))
    g.add_node("b", node("b", 1))
    g.add_node("j", node("j"))
    g.add_node("m", m)
    g.add_node("z", node("z", 2))
    g.add_edge(START, "a")
    g.add_edge(START, "b")
    g.add_edge(["a", "b"], "j")
    g.add_conditional_edges("j", lambda s: [Send("m", 1), Send("m", 2), "z"])
    return g


@case("cond_entry", [
    invoke({"pick": ["b"], "log": []}, name="one"),
    invoke({"pick": ["b", "c"], "log": []}, name="two"),
    invoke({"pick": [END], "log": []}, name="END"),
    stream("updates", {"pick": [END], "log": []}, name="stream updates END"),
    stream("values", {"pick": [END], "log": []}, name="stream values END"),
])
def cond_entry():
    """State {pick: list, log: appending list}. Conditional entry picked returns pick, with the map
    {b: b, c: c, END: END}; b and c to END. Each node appends its name."""
    g = nodes(StateGraph(Pick), "b", "c")
    g.add_conditional_edges(START, picked, {"b": "b", "c": "c", END: END})
    g.add_edge("b", END)
    g.add_edge("c", END)
    return g


@case("cond_two", [
    invoke(EMPTY),
    stream("values", EMPTY),
])
def cond_two():
    """State {log: appending list}. START to a; two conditional edges from a: first (to b or END,
    declared) returns b, second (to c or d, declared) returns d; b, c, d to END. Each node appends its
    name."""

    def first(state) -> Literal["b", "__end__"]:
        return "b"

    def second(state) -> Literal["c", "d"]:
        return "d"

    g = nodes(StateGraph(Log), "a", "b", "c", "d")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", first)
    g.add_conditional_edges("a", second)
    for name in "bcd":
        g.add_edge(name, END)
    return g


@case("cond_and_edge", [
    invoke(EMPTY),
    stream("values", EMPTY),
])
def cond_and_edge():
    """State {log: appending list}. START to a; a has a plain edge to b and a conditional edge (map
    {yes: c}) returning yes; both b and c run in the next step. Each node appends its name."""
    g = nodes(StateGraph(Log), "a", "b", "c")
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    g.add_conditional_edges("a", lambda s: "yes", {"yes": "c"})
    return g


@case("cond_sees_own_writes", [
    invoke({"n": 1, "log": []}),
    stream("updates", {"n": 1, "log": []}),
], parallel=True)
def cond_sees_own_writes():
    """State {n: int, log: appending list}. START to a and b. a appends "a" to log and writes
    n = n + 10; b appends "b". The conditional edge of a (map to seen) sees the state with only a's
    own writes applied and sends Send(seen, {n, log}); seen appends "n=<n> log=<log joined by ,>". b has
    no outgoing edge."""

    class State(TypedDict):
        n: int
        log: Annotated[list, operator.add]

    def a(state: State):
        pace(1)
        return {"n": state["n"] + 10, "log": ["a"]}

    def look(state: State):
        return Send("seen", {"n": state["n"], "log": state["log"]})

    def seen(state):
        return {"log": [f"n={state['n']} log={','.join(state['log'])}"]}

    g = StateGraph(State)
    g.add_node(a)
    nodes(g, "b")
    g.add_node(seen)
    g.add_edge(START, "a")
    g.add_edge(START, "b")
    g.add_conditional_edges("a", look, ["seen"])
    return g


@case("self_loop", [
    invoke({"n": 0}),
    stream("updates", {"n": 0}),
    stream("values", {"n": 0}),
])
def self_loop():
    """State {n: int}. START to count, which writes n + 1; conditional edge more from count, with map
    {again: count, done: last}: again while n < 3; last writes n * 10; last to END."""

    class State(TypedDict):
        n: int

    def more(state: State):
        return "again" if state["n"] < 3 else "done"

    g = StateGraph(State)
    g.add_node("count", lambda s: {"n": s["n"] + 1})
    g.add_node("last", lambda s: {"n": s["n"] * 10})
    g.add_edge(START, "count")
    g.add_conditional_edges("count", more, {"again": "count", "done": "last"})
    g.add_edge("last", END)
    return g


@case("unreachable_node", [invoke(EMPTY)])
def unreachable_node():
    """State {log: appending list}. START, a, END; a node island exists without edges and never runs.
    Each node appends its name."""
    g = nodes(StateGraph(Log), "a", "island")
    g.add_edge(START, "a")
    g.add_edge("a", END)
    return g


@case("compile_no_entry", [])
def compile_no_entry():
    """One node a without any edge: compiling fails because nothing leaves START."""
    return nodes(StateGraph(Log), "a")


@case("compile_unknown_target", [])
def compile_unknown_target():
    """START to a; a to ghost, which does not exist: compiling fails."""
    g = nodes(StateGraph(Log), "a")
    g.add_edge(START, "a")
    g.add_edge("a", "ghost")
    return g


@case("compile_unknown_source", [])
def compile_unknown_source():
    """START to a; ghost, which does not exist, to a: compiling fails."""
    g = nodes(StateGraph(Log), "a")
    g.add_edge(START, "a")
    g.add_edge("ghost", "a")
    return g


@case("compile_unknown_branch_target", [])
def compile_unknown_branch_target():
    """START to a; conditional edge from a with map {x: ghost}: compiling fails."""
    g = nodes(StateGraph(Log), "a")
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda s: "x", {"x": "ghost"})
    return g


@case("compile_duplicate_node", [])
def compile_duplicate_node():
    """Adding a second node called a fails."""
    return nodes(StateGraph(Log), "a", "a")


@case("compile_edge_from_end", [])
def compile_edge_from_end():
    """Adding an edge from END fails."""
    return nodes(StateGraph(Log), "a").add_edge(END, "a")


@case("compile_edge_to_start", [])
def compile_edge_to_start():
    """Adding an edge to START fails."""
    return nodes(StateGraph(Log), "a").add_edge("a", START)


@case("compile_reserved_character", [])
def compile_reserved_character():
    """Adding a node called "a:b" fails because of the reserved character."""
    return nodes(StateGraph(Log), "a:b")
