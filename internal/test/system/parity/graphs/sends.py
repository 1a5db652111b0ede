"""Send: map and reduce, cascades, order of results."""

import operator
from typing import Annotated

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
from typing_extensions import TypedDict

from graphs.kit import Log, case, invoke, pace, stream, writes

EMPTY = {"log": []}


class Jobs(TypedDict):
    jobs: list
    done: Annotated[list, operator.add]
    total: int


@case("map_reduce", [
    invoke({"jobs": [5, 3, 9]}),
    stream("values", {"jobs": [5, 3, 9]}),
    stream("updates", {"jobs": [5, 3, 9]}),
    stream("tasks", {"jobs": [5, 3, 9]}),
    stream("checkpoints", {"jobs": [5, 3, 9]}, saver=True, unordered=False),
    invoke({"jobs": []}, name="no jobs"),
], parallel=True)
def map_reduce():
    """State {jobs: list, done: appending list, total: int}. Conditional entry fan (declared target
    square) returns Send(square, {n, turn}) per job n, where turn = number of jobs - index of the job; square
    waits that many turns, so the last send finishes first, and appends n*n to done; square to sum; sum writes total = sum of done; sum to
    END. The results keep the order of the sends. With no jobs nothing runs."""

    def fan(state: Jobs):
        count = len(state["jobs"])
        return [Send("square", {"n": n, "turn": count - i}) for i, n in enumerate(state["jobs"])]

    def square(job):
        pace(job["turn"])
        return {"done": [job["n"] ** 2]}

    g = StateGraph(Jobs)
    g.add_node(square)
    g.add_node("sum", lambda s: {"total": sum(s["done"])})
    g.add_conditional_edges(START, fan, ["square"])
    g.add_edge("square", "sum")
    g.add_edge("sum", END)
    return g


@case("send_cascade", [
    invoke(EMPTY),
    stream("values", EMPTY),
    stream("updates", EMPTY),
], parallel=True)
def send_cascade():
    """State {log: appending list}. START to top, which appends "top"; conditional edge from top
    (declared target mid) returns [Send(mid, {path: "1"}), Send(mid, {path: "2"})]; mid returns a Command with
    update log ["mid <path>"] and goto [Send(leaf, {path: "<path>.1"}), Send(leaf, {path: "<path>.2"})];
    leaf appends "leaf <path>". Finish order follows the paths."""

    def turn(path):
        return 2 * int(path[0]) + int(path[-1])

    def mid(arg):
        pace(turn(arg["path"]) - 2)
        goto = [Send("leaf", {"path": f"{arg['path']}.{i}"}) for i in (1, 2)]
        return Command(update={"log": [f"mid {arg['path']}"]}, goto=goto)

    def leaf(arg):
        pace(turn(arg["path"]) - 3)
        return {"log": [f"leaf {arg['path']}"]}

    g = StateGraph(Log)
    g.add_node("top", writes("top"))
    g.add_node(mid)
    g.add_node(leaf)
    g.add_edge(START, "top")
    g.add_conditional_edges("top", lambda s: [Send("mid", {"path": p}) for p in "12"], ["mid"])
    return g


@case("cond_edge_after_send", [
    invoke(["0"]),
    stream("values", ["0"]),
    stream("updates", ["0"]),
], parallel=True)
def cond_edge_after_send():
    """Root state: an appending list without keys. START to 1; conditional edge from 1 without a map
    returns ["2", Send("2", state)]; conditional edge from 2 without a map returns "3". Node 1 returns
    ["1"], 2 returns ["2"], 3 returns ["3"]. Node 2 runs twice in one step (edge and Send), node 3 once."""

    g = StateGraph(Annotated[list, operator.add])
    for name in "123":
        g.add_node(name, (lambda n: lambda s: [n])(name))
    g.add_edge(START, "1")
    g.add_conditional_edges("1", lambda s: ["2", Send("2", s)])
    g.add_conditional_edges("2", lambda s: "3")
    return g


@case("concurrent_sends", [
    invoke(["0"]),
    stream("values", ["0"]),
])
def concurrent_sends():
    """Root state: an appending list. START to 1 and to 1.1. Conditional edge from 1 returns [Send(2, 1),
    Send(2, 2), "3.1"]; conditional edge from 1.1 returns [Send(2, 3), Send(2, 4)]; conditional edge from
    2 returns "3"; nothing leaves 3 and 3.1. Node 2 returns ["2|<argument>"]; every other node returns
    [its name]. No maps."""

    def node(name):
        return lambda state: [f"{name}|{state}" if isinstance(state, int) else name]

    g = StateGraph(Annotated[list, operator.add])
    for name in ("1", "1.1", "2", "3", "3.1"):
        g.add_node(name, node(name))
    g.add_edge(START, "1")
    g.add_edge(START, "1.1")
    g.add_conditional_edges("1", lambda s: [Send("2", 1), Send("2", 2), "3.1"])
    g.add_conditional_edges("1.1", lambda s: [Send("2", 3), Send("2", 4)])
    g.add_conditional_edges("2", lambda s: "3")
    return g


@case("send_sequences", [
    invoke(["0"]),
    stream("values", ["0"]),
])
def send_sequences():
    """Root state: an appending list. START to 1 and to 1.1. Nodes other than 2 return [name]. Node 2 is
    given a number n; for n < 3 it returns a list of two elements, Command(goto Send(2, n + 2)) and the plain
    update ["2|<n>"]; otherwise it returns the plain update ["2|<n>"]. Conditional edge from 1 returns [Send(2, 1), Send(2, 2), "3.1"]; conditional
    edge from 1.1 returns [Send(2, 3), Send(2, 4)]; conditional edge from 2 returns "3". No maps. 3 and
    3.1 have no outgoing edge."""

    def two(arg):
        if isinstance(arg, int) and arg < 3:
            return [Command(goto=Send("2", arg + 2)), [f"2|{arg}"]]
        return [f"2|{arg}"]

    g = StateGraph(Annotated[list, operator.add])
    for name in ("1", "1.1", "3", "3.1"):
        g.add_node(name, (lambda n: lambda s: [n])(name))
    g.add_node("2", two)
    g.add_edge(START, "1")
    g.add_edge(START, "1.1")
    g.add_conditional_edges("1", lambda s: [Send("2", 1), Send("2", 2), "3.1"])
    g.add_conditional_edges("1.1", lambda s: [Send("2", 3), Send("2", 4)])
    g.add_conditional_edges("2", lambda s: "3")
    return g


@case("send_and_edge", [
    invoke(EMPTY),
    stream("values", EMPTY),
    stream("updates", EMPTY),
    stream("tasks", EMPTY),
], parallel=True)
def send_and_edge():
    """State {log: appending list, tag: str}. START to a; a has a plain edge to w and a conditional edge
    (declared target w) that returns Send(w, {tag: "sent"}). a appends "a" and writes tag = "state"; w appends
    "w <tag>". So w runs twice in one step; the run by the edge is applied first. The run by the edge
    finishes first."""

    class State(TypedDict):
        log: Annotated[list, operator.add]
        tag: str

    def w(state):
        pace(1 if state["tag"] == "sent" else 0)
        return {"log": [f"w {state['tag']}"]}

    g = StateGraph(State)
    g.add_node("a", lambda s: {"log": ["a"], "tag": "state"})
    g.add_node("w", w)
    g.add_edge(START, "a")
    g.add_edge("a", "w")
    g.add_conditional_edges("a", lambda s: [Send("w", {"tag": "sent"})], ["w"])
    return g


@case("send_twenty", [
    invoke({"jobs": list(range(20))}, name="unlimited"),
    invoke({"jobs": list(range(20))}, name="max_concurrency 3", config={"max_concurrency": 3}),
    stream("values", {"jobs": list(range(20))}, name="stream values max_concurrency 3", config={"max_concurrency": 3}),
])
def send_twenty():
    """State {jobs: list, done: appending list, total: int}. START to plan, which writes nothing;
    conditional edge from plan sends one Send(work, {n}) per job; work appends n to done. The result is in the order of
    the sends whatever the limit on concurrency."""

    def work(arg):
        pace((arg["n"] % 3) / 10)
        return {"done": [arg["n"]]}

    g = StateGraph(Jobs)
    g.add_node("plan", lambda s: None)
    g.add_node(work)
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda s: [Send("work", {"n": n}) for n in s["jobs"]], ["work"])
    return g


@case("send_from_node", [
    invoke(EMPTY),
    stream("updates", EMPTY),
])
def send_from_node():
    """State {log: appending list}. START to a, which returns a bare Send(b, {who: "a"}) instead of an
    update; b appends "b <who>"."""
    g = StateGraph(Log)
    g.add_node("a", lambda s: Send("b", {"who": "a"}))
    g.add_node("b", lambda s: {"log": [f"b {s['who']}"]})
    g.add_edge(START, "a")
    return g


@case("send_to_end", [
    invoke(EMPTY),
    stream("updates", EMPTY),
])
def send_to_end():
    """State {log: appending list}. START to a, which appends "a"; conditional edge from a returns
    Send(END, {}): an invalid update."""
    g = StateGraph(Log)
    g.add_node("a", writes("a"))
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda s: Send(END, {}))
    return g


@case("send_to_unknown", [
    invoke(EMPTY),
    stream("updates", EMPTY),
])
def send_to_unknown():
    """State {log: appending list}. START to a, which appends "a"; conditional edge from a without a map
    returns Send(ghost, {}) where ghost does not exist."""
    g = StateGraph(Log)
    g.add_node("a", writes("a"))
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda s: Send("ghost", {}))
    return g


@case("send_then_join", [
    invoke(EMPTY),
    stream("values", EMPTY),
])
def send_then_join():
    """State {log: appending list}. START to a and s. a appends "a". s appends "s"; conditional edge
    from s (declared target w) returns Send(w, {n: 1}) and Send(w, {n: 2}); w appends "w<n>". Join edge from
    [a, w] to j, which appends "j". Both runs of w count once for the barrier."""
    g = StateGraph(Log)
    g.add_node("a", writes("a"))
    g.add_node("s", writes("s"))
    g.add_node("w", lambda s: {"log": [f"w{s['n']}"]})
    g.add_node("j", writes("j"))
    g.add_edge(START, "a")
    g.add_edge(START, "s")
    g.add_conditional_edges("s", lambda s: [Send("w", {"n": 1}), Send("w", {"n": 2})], ["w"])
    g.add_edge(["a", "w"], "j")
    return g
