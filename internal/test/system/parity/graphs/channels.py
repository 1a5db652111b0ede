"""State: schemas, private keys, reducers, special channels, managed values, return values."""

import operator
from dataclasses import dataclass, field
from typing import Annotated, Any

from langgraph.channels import EphemeralValue, Topic, UntrackedValue
from langgraph.graph import END, START, StateGraph
from langgraph.managed import IsLastStep, RemainingSteps
from langgraph.types import Overwrite
from pydantic import BaseModel
from typing_extensions import TypedDict

from graphs.kit import Log, case, invoke, pace, stream, writes

EMPTY = {"log": []}


def chain(state, **named):
    g = StateGraph(state)
    last = START
    for name, fn in named.items():
        g.add_node(name, fn)
        g.add_edge(last, name)
        last = name
    return g


@case("private_channel", [
    invoke({"shown": "in"}),
    stream("updates", {"shown": "in"}),
    stream("values", {"shown": "in"}),
    stream("tasks", {"shown": "in"}),
    stream("checkpoints", {"shown": "in"}, saver=True),
    invoke({"shown": "in", "hidden": "given"}, name="private key in the input"),
])
def private_channel():
    """State {shown: str}. START, a, b, c in a chain. b's input type is {hidden: str}, a private key. a writes
    shown = "a" and hidden = "secret"; b reads only {hidden} and writes shown = "b saw <hidden>"; c has the
    input type of the state and writes shown = shown + "; c sees <sorted keys of its input joined by ,>"."""

    class State(TypedDict):
        shown: str

    class Private(TypedDict):
        hidden: str

    def a(state: State):
        return {"shown": "a", "hidden": "secret"}

    def b(state: Private):
        return {"shown": f"b saw {state['hidden']}"}

    def c(state: State):
        return {"shown": state["shown"] + "; c sees " + ",".join(sorted(state))}

    return chain(State, a=a, b=b, c=c)


@case("input_output_schema", [
    invoke({"question": "why"}),
    invoke({"question": "why", "answer": "dropped", "steps": ["dropped"]}, name="extra input keys"),
    stream("values", {"question": "why"}),
    stream("updates", {"question": "why"}),
    stream("values", {"question": "why"}, version="v2"),
    invoke({"question": "why"}, name="invoke v2", version="v2"),
    invoke({"answer": "no question"}, name="no key of the input schema"),
])
def input_output_schema():
    """State {question: str, answer: str, steps: appending list}; input schema {question}; output schema
    {answer}. START, think (appends "thought" to steps), answer (writes answer = question + " because",
    appends "answered"), END. The node function answer uses "" if question is absent."""

    class In(TypedDict):
        question: str

    class Out(TypedDict):
        answer: str

    class State(TypedDict):
        question: str
        answer: str
        steps: Annotated[list, operator.add]

    g = StateGraph(State, input_schema=In, output_schema=Out)
    g.add_node("think", lambda s: {"steps": ["thought"]})
    g.add_node("answer", lambda s: {"answer": s.get("question", "") + " because", "steps": ["answered"]})
    g.add_edge(START, "think")
    g.add_edge("think", "answer")
    g.add_edge("answer", END)
    return g


@case("overwrite", [
    invoke({"log": ["in"]}),
    stream("updates", {"log": ["in"]}),
    stream("values", {"log": ["in"]}),
    stream("tasks", {"log": ["in"]}),
])
def overwrite():
    """State {log: appending list}. START, a (appends "a"), b (writes Overwrite(["b"])), c (appends
    "c")."""
    return chain(
        Log, a=writes("a"), b=lambda s: {"log": Overwrite(["b"])}, c=writes("c")
    )


@case("overwrite_map_form", [
    invoke({"log": ["in"]}),
    stream("updates", {"log": ["in"]}),
])
def overwrite_map_form():
    """State {log: appending list}. START to a, which writes log = {"__overwrite__": ["a"]}, the map form
    of an overwrite."""
    return chain(Log, a=lambda s: {"log": {"__overwrite__": ["a"]}})


@case("overwrite_parallel", [
    invoke({"log": ["in"]}),
    stream("values", {"log": ["in"]}),
])
def overwrite_parallel():
    """State {log: appending list}. START to a; a to b and c; b and c to d. a appends "a"; b writes
    Overwrite(["b"]); c appends "c"; d appends "d". In the step of b and c the overwrite wins over the
    appended value."""
    g = StateGraph(Log)
    g.add_node("a", writes("a"))
    g.add_node("b", lambda s: {"log": Overwrite(["b"])})
    g.add_node("c", writes("c"))
    g.add_node("d", writes("d"))
    for s, t in ((START, "a"), ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")):
        g.add_edge(s, t)
    return g


@case("overwrite_twice", [invoke({"log": ["in"]})])
def overwrite_twice():
    """State {log: appending list}. START to a and b, each of which writes an Overwrite in the same step:
    an invalid update."""
    g = StateGraph(Log)
    g.add_node("a", lambda s: {"log": Overwrite(["a"])})
    g.add_node("b", lambda s: {"log": Overwrite(["b"])})
    g.add_edge(START, "a")
    g.add_edge(START, "b")
    return g


@case("overwrite_last_value", [
    invoke({"v": 1}),
    stream("updates", {"v": 1}),
])
def overwrite_last_value():
    """State {v: int} without reducer. START to a, which writes v = Overwrite(5)."""

    class State(TypedDict):
        v: int

    return chain(State, a=lambda s: {"v": Overwrite(5)})


@case("root_list", [
    invoke(["in"]),
    stream("values", ["in"]),
    stream("updates", ["in"]),
    stream("tasks", ["in"]),
    stream("debug", ["in"], saver=True),
    stream("checkpoints", ["in"], saver=True),
    stream(["values", "updates"], ["in"], version="v2"),
    invoke(["in"], name="invoke v2", version="v2"),
    invoke(None, name="nil input"),
])
def root_list():
    """Root state: an appending list without keys. START, a (returns ["a"]), b (returns None), c (returns
    ["c1", "c2"]), END."""
    g = chain(
        Annotated[list, operator.add], a=lambda s: ["a"], b=lambda s: None, c=lambda s: ["c1", "c2"]
    )
    return g.add_edge("c", END)


@case("root_number", [
    invoke(1),
    stream("values", 1),
    stream("updates", 1),
    stream("tasks", 1),
    invoke(0, name="zero"),
])
def root_number():
    """Root state: an int without reducer. START, inc (returns state + 1), double (returns state * 2)."""
    return chain(int, inc=lambda s: s + 1, double=lambda s: s * 2)


@case("returns_none", [
    invoke(EMPTY),
    stream("updates", EMPTY),
    stream("values", EMPTY),
    stream("tasks", EMPTY),
    stream("debug", EMPTY, saver=True),
])
def returns_none():
    """State {log: appending list}. START, a (appends "a"), silent (returns None), b (appends "b")."""
    return chain(Log, a=writes("a"), silent=lambda s: None, b=writes("b"))


@case("returns_empty", [
    invoke(EMPTY),
    stream("updates", EMPTY),
    stream("values", EMPTY),
    stream("tasks", EMPTY),
])
def returns_empty():
    """State {log: appending list}. START, a (returns an empty map), b (returns {unknown: 1}, a key the
    state does not know), c (returns {log: []}, a write that changes nothing)."""
    return chain(
        Log, a=lambda s: {}, b=lambda s: {"unknown": 1}, c=lambda s: {"log": []}
    )


@case("returns_hidden_key", [
    invoke({"out": "in"}),
    stream("updates", {"out": "in"}, extra={"output_keys": ["out"]}),
    stream("values", {"out": "in"}, extra={"output_keys": ["out"]}),
    stream("updates", {"out": "in"}, name="stream updates all keys"),
    stream("values", {"out": "in"}, name="stream values all keys"),
])
def returns_hidden_key():
    """State {out: str, inner: str}; output schema {out}. START, a (writes only inner = "x"), b (writes out
    = out + inner)."""

    class State(TypedDict):
        out: str
        inner: str

    class Out(TypedDict):
        out: str

    g = StateGraph(State, output_schema=Out)
    g.add_node("a", lambda s: {"inner": "x"})
    g.add_node("b", lambda s: {"out": s["out"] + s["inner"]})
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    return g


@case("returns_invalid", [
    invoke(EMPTY),
    stream("updates", EMPTY),
    stream("tasks", EMPTY),
    stream("debug", EMPTY),
])
def returns_invalid():
    """State {log: appending list}. START to a, which returns the string "oops": an invalid update for a
    state with keys."""
    return chain(Log, a=lambda s: "oops")


@case("nothing_written", [
    invoke({}),
    stream("values", {}),
    stream("updates", {}),
])
def nothing_written():
    """State {v: str}, a plain value. START to a, which returns None. With empty input nothing is ever
    written."""

    class State(TypedDict):
        v: str

    return chain(State, a=lambda s: None)


@case("ephemeral", [
    invoke({"keep": "in"}),
    stream("values", {"keep": "in"}),
    stream("updates", {"keep": "in"}),
    stream("tasks", {"keep": "in"}),
    stream("checkpoints", {"keep": "in"}, saver=True),
])
def ephemeral():
    """State {keep: str, brief: ephemeral value}. START, a (writes brief = "x"), b, c. b and c write keep =
    keep + "|<node>:<brief or none>". brief lives for one step only."""

    class State(TypedDict):
        keep: str
        brief: Annotated[str, EphemeralValue]

    def look(name):
        return lambda s: {"keep": f"{s['keep']}|{name}:{s.get('brief', 'none')}"}

    return chain(State, a=lambda s: {"brief": "x"}, b=look("b"), c=look("c"))


@case("untracked", [
    invoke({"keep": "in"}),
    stream("values", {"keep": "in"}),
    stream("updates", {"keep": "in"}),
    stream("checkpoints", {"keep": "in"}, saver=True),
])
def untracked():
    """As ephemeral, but brief is an untracked value: it stays for the whole run and is never saved."""

    class State(TypedDict):
        keep: str
        brief: Annotated[str, UntrackedValue]

    def look(name):
        return lambda s: {"keep": f"{s['keep']}|{name}:{s.get('brief', 'none')}"}

    return chain(State, a=lambda s: {"brief": "x"}, b=look("b"), c=look("c"))


@case("topic", [
    invoke({"all": ["in"], "now": ["in"]}),
    stream("values", {"all": ["in"], "now": ["in"]}),
    stream("updates", {"all": ["in"], "now": ["in"]}),
], parallel=True)
def topic():
    """State {all: topic of str that accumulates, now: topic of str that does not}. START to a and b; both to
    c. a writes all = "a" and now = ["a1", "a2"]; b writes all = ["b"] and now = "b"; c writes nothing
    (returns None). a finishes before b."""

    class State(TypedDict):
        all: Annotated[list, Topic(str, accumulate=True)]
        now: Annotated[list, Topic(str)]

    def b(state):
        pace(1)
        return {"all": ["b"], "now": "b"}

    g = StateGraph(State)
    g.add_node("a", lambda s: {"all": "a", "now": ["a1", "a2"]})
    g.add_node("b", b)
    g.add_node("c", lambda s: None)
    for s, t in ((START, "a"), (START, "b"), ("a", "c"), ("b", "c")):
        g.add_edge(s, t)
    return g


@case("managed_values", [
    invoke({"log": []}, name="limit 4", config={"recursion_limit": 4}),
    invoke({"log": []}, name="limit 5", config={"recursion_limit": 5}),
    invoke({"log": []}, name="limit 3", config={"recursion_limit": 3}),
    invoke({"log": []}, name="default limit"),
    stream("values", {"log": []}, config={"recursion_limit": 4}),
])
def managed_values():
    """State {log: appending list, left: remaining steps, last: is last step}. START, a, b, c in a chain;
    each node appends "<name> left=<left> last=<true or false>"."""

    class State(TypedDict):
        log: Annotated[list, operator.add]
        left: RemainingSteps
        last: IsLastStep

    def look(name):
        return lambda s: {"log": [f"{name} left={s['left']} last={str(s['last']).lower()}"]}

    return chain(State, a=look("a"), b=look("b"), c=look("c"))


@case("managed_loop", [
    invoke({"log": []}, name=f"limit {n}", config={"recursion_limit": n}) for n in (2, 3, 5)
])
def managed_loop():
    """State {log: appending list, last: is last step}. START to a, which appends "work", or "stopping" when
    last is true; conditional edge from a: END when the last entry of log is "stopping", else a."""

    class State(TypedDict):
        log: Annotated[list, operator.add]
        last: IsLastStep

    g = StateGraph(State)
    g.add_node("a", lambda s: {"log": ["stopping" if s["last"] else "work"]})
    g.add_edge(START, "a")
    g.add_conditional_edges("a", lambda s: END if s["log"][-1] == "stopping" else "a", ["a", END])
    return g


@case("reducer_sees_input_first", [
    invoke({"total": 5}),
    stream("values", {"total": 5}),
    invoke({}, name="no input for the key"),
])
def reducer_sees_input_first():
    """State {total: int, added up, starting at 0}. START to a, which writes total = 2, then b, which writes
    total = total * 10. Both go through the reducer."""

    class State(TypedDict):
        total: Annotated[int, operator.add]

    return chain(State, a=lambda s: {"total": 2}, b=lambda s: {"total": s["total"] * 10})


@case("struct_state", [
    invoke({"name": "n"}),
    stream("values", {"name": "n"}),
    stream("updates", {"name": "n"}),
    stream("tasks", {"name": "n"}),
    stream("values", {"name": "n"}, version="v2"),
    invoke({"name": "n"}, name="invoke v2", version="v2"),
    stream("checkpoints", {"name": "n"}, version="v2", saver=True),
    invoke({}, name="missing required field"),
])
def struct_state():
    """The state is a struct State{name: str, count: int = 0, log: appending list, empty by default}. START, a
    (writes count = count + 1, appends name), b (returns a State value with name = name + "!", leaving the
    other fields at their defaults). Nodes receive a State value."""

    @dataclass
    class State:
        name: str
        count: int = 0
        log: Annotated[list, operator.add] = field(default_factory=list)

    def a(state: State):
        return {"count": state.count + 1, "log": [state.name]}

    def b(state: State):
        return State(name=state.name + "!")

    return chain(State, a=a, b=b)


@case("validated_state", [
    invoke({"name": "n"}),
    stream("values", {"name": "n"}),
    stream("updates", {"name": "n"}),
    stream("values", {"name": "n"}, version="v2"),
    stream("updates", {"name": "n"}, version="v2"),
    invoke({"name": "n", "count": "not a number"}, name="bad input"),
    invoke({}, name="missing required field"),
])
def validated_state():
    """The state is a validated model State{name: str, count: int = 0}. START, a (writes count = count + 1), b
    (writes name = name + "!"). Validation happens when a node's input is built, not on output."""

    class State(BaseModel):
        name: str
        count: int = 0

    def a(state: State):
        return {"count": state.count + 1}

    def b(state: State):
        return {"name": state.name + "!"}

    return chain(State, a=a, b=b)


@case("node_input_schema", [
    invoke({"x": 1, "y": 2, "log": []}),
    stream("tasks", {"x": 1, "y": 2, "log": []}),
])
def node_input_schema():
    """State {x: int, y: int, log: appending list}. START, a (declared input schema {x}), b (the whole
    state). Each appends its name, a colon and the sorted keys of its input joined by ","."""

    class State(TypedDict):
        x: int
        y: int
        log: Annotated[list, operator.add]

    class OnlyX(TypedDict):
        x: int

    def look(name):
        def node(state: dict[str, Any]):
            return {"log": [name + ":" + ",".join(sorted(state))]}
        return node

    g = StateGraph(State)
    g.add_node("a", look("a"), input_schema=OnlyX)
    g.add_node("b", look("b"), input_schema=State)
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    return g
