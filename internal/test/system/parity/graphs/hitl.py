"""Scripts that are the documented samples of persistence and human-in-the-loop."""

from __future__ import annotations

import operator
from typing import Annotated

from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from .kit import Log
from .scripts import (
    chain,
    enter,
    go_on,
    history,
    logs,
    resume,
    run,
    script,
    state,
    update,
)


class FooBar(TypedDict, total=False):
    foo: str
    bar: Annotated[list, operator.add]


def foo_bar():
    def node_a(s):
        enter("node_a")
        return {"foo": "a", "bar": ["a"]}

    def node_b(s):
        enter("node_b")
        return {"foo": "b", "bar": ["b"]}

    b = StateGraph(FooBar)
    b.add_node("node_a", node_a)
    b.add_node("node_b", node_b)
    return chain(b, "node_a", "node_b")


@script(
    "b01_checkpoints",
    [
        run({"foo": ""}),
        history(),
        state(),
        state(at=1),
        go_on(at=1),
        history(),
    ],
)
def b01_checkpoints(saver):
    """Chain node_a, node_b over foo (last value) and bar (list); they write foo "a", bar ["a"] and foo
    "b", bar ["b"]. Four checkpoints; state at one of them; replay from it."""
    return foo_bar().compile(checkpointer=saver)


@script(
    "b04_update_reducers",
    [
        run({"foo": "1", "bar": ["a"]}, before=["node_a"]),
        update({"foo": "2", "bar": ["b"]}),
        state(),
    ],
)
def b04_update_reducers(saver):
    """The graph of b01_checkpoints, stopped before node_a; an update goes through the reducers."""
    return foo_bar().compile(checkpointer=saver)


@script(
    "b05_fork",
    [
        run({"foo": "", "bar": ["in"]}),
        update({"foo": "forked"}, at=1),
        go_on(stream="values"),
        history(),
    ],
)
def b05_fork(saver):
    """The graph of b01_checkpoints; an update at the checkpoint after node_a, then node_b runs on the
    new branch."""
    return foo_bar().compile(checkpointer=saver)


@script(
    "b07_conditional",
    [
        run({"input": "a long input"}, stream="values"),
        go_on(stream="values"),
        update({"input": "foo"}),
        go_on(stream="values"),
        run({"input": "a long input"}),
        update(None, as_node="my_node"),
        state(),
        go_on(stream="values"),
    ],
)
def b07_conditional(saver):
    """Chain first, my_node, last over input. my_node asks "longer than 5: <input>" if the input is longer
    than 5 characters, and writes the input again; last writes input + "!" and first nothing. The answer is
    never given: the input is edited, or my_node skipped."""

    class S(TypedDict, total=False):
        input: str

    def first(s):
        enter("first")
        return {}

    def my_node(s):
        enter("my_node")
        if len(s["input"]) > 5:
            interrupt(f"longer than 5: {s['input']}")
        return {"input": s["input"]}

    def last(s):
        enter("last")
        return {"input": s["input"] + "!"}

    b = StateGraph(S)
    for f in (first, my_node, last):
        b.add_node(f.__name__, f)
    return chain(b, "first", "my_node", "last").compile(checkpointer=saver)


@script(
    "b08_interrupt",
    [
        run({"some_text": "Original text"}, stream="updates"),
        resume("Edited text", stream="updates"),
        state(),
    ],
)
def b08_interrupt(saver):
    """Node human_node asks {text_to_revise: <some_text>} and writes the answer to some_text."""

    class S(TypedDict):
        some_text: str

    def human_node(s):
        enter("human_node")
        return {"some_text": interrupt({"text_to_revise": s["some_text"]})}

    b = StateGraph(S)
    b.add_node("human_node", human_node)
    return chain(b, "human_node").compile(checkpointer=saver)


@script(
    "b09_approval",
    [
        run({"log": ["out"]}),
        resume(True),
        run({"log": ["out"]}),
        resume(False, stream="updates"),
        state(),
    ],
)
def b09_approval(saver):
    """Node human_approval asks {question: "Is this correct?", output: <last entry of log>} and goes to
    some_node if the answer is true, else to another_node; both log their name."""

    def human_approval(s) -> Command:
        enter("human_approval")
        ok = interrupt({"question": "Is this correct?", "output": s["log"][-1]})
        return Command(goto="some_node" if ok else "another_node")

    b = StateGraph(Log)
    b.add_node("human_approval", human_approval, destinations=("some_node", "another_node"))
    b.add_node("some_node", logs("some_node"))
    b.add_node("another_node", logs("another_node"))
    b.add_edge(START, "human_approval")
    return b.compile(checkpointer=saver)


@script(
    "b11_review",
    [
        run({"log": ["ask"]}),
        resume(["continue", None]),
        run({"log": ["ask"]}),
        resume(["update", "edited"]),
        run({"log": ["ask"]}),
        resume(["feedback", "try again"]),
        resume(["continue", None]),
        state(),
    ],
)
def b11_review(saver):
    """Node call_llm logs "call"; review asks {question: "Is this correct?", tool_call: <last entry>} and
    is answered with a pair: ["continue", _] goes to run_tool, ["update", x] logs x and goes to run_tool,
    ["feedback", x] logs x and goes to call_llm. run_tool logs "tool"."""

    def review(s) -> Command:
        enter("review")
        action, data = interrupt({"question": "Is this correct?", "tool_call": s["log"][-1]})
        match action:
            case "continue":
                return Command(goto="run_tool")
            case "update":
                return Command(goto="run_tool", update={"log": [data]})
        return Command(goto="call_llm", update={"log": [data]})

    b = StateGraph(Log)

    def call_llm(s):
        enter("call_llm")
        return {"log": ["call"]}

    def run_tool(s):
        enter("run_tool")
        return {"log": ["tool"]}

    b.add_node("call_llm", call_llm)
    b.add_node("review", review, destinations=("call_llm", "run_tool"))
    b.add_node("run_tool", run_tool)
    b.add_edge(START, "call_llm")
    b.add_edge("call_llm", "review")
    return b.compile(checkpointer=saver)


@script(
    "b12_human_node",
    [
        run({"log": ["hi"]}),
        resume("hello!"),
        resume("to agent_2"),
        resume("more"),
        state(),
    ],
)
def b12_human_node(saver):
    """Nodes agent_1 and agent_2 log "<name>: <last entry>" and write active, their name, and go to human;
    human asks "Ready for user input.", logs the answer and goes to the active agent, or to agent_2 if the
    answer is "to agent_2"."""

    class S(TypedDict, total=False):
        log: Annotated[list, operator.add]
        active: str

    def agent(name):
        def node(s):
            enter(name)
            return {"log": [f"{name}: {s['log'][-1]}"], "active": name}

        return node

    def human(s) -> Command:
        enter("human")
        text = interrupt("Ready for user input.")
        goto = "agent_2" if text == "to agent_2" else s["active"]
        return Command(update={"log": [text]}, goto=goto)

    b = StateGraph(S)
    for name in ("agent_1", "agent_2"):
        b.add_node(name, agent(name))
        b.add_edge(name, "human")
    b.add_node("human", human, destinations=("agent_1", "agent_2"))
    b.add_edge(START, "agent_1")
    return b.compile(checkpointer=saver)


@script(
    "b13_validation",
    [
        run({"age": 0}),
        resume("abc"),
        resume(-1),
        state(),
        resume(30),
        state(),
    ],
)
def b13_validation(saver):
    """Node human asks "What is your age?" until the answer is a whole number that is not negative; after
    a bad one it asks "'<answer>' is not a valid age. What is your age?". It writes age."""

    class S(TypedDict, total=False):
        age: int

    def human(s):
        enter("human")
        question = "What is your age?"
        while True:
            answer = interrupt(question)
            if isinstance(answer, int) and answer >= 0:
                return {"age": answer}
            question = f"'{answer}' is not a valid age. What is your age?"

    b = StateGraph(S)
    b.add_node("human", human)
    return chain(b, "human").compile(checkpointer=saver)


@script(
    "b15_state",
    [run({"foo": "bar"}), state(), resume({"age": "25"}), state()],
)
def b15_state(saver):
    """Node node_foo asks "value_in_interrupt" and writes foo "aged <age of the answer>"."""

    def node_foo(s):
        enter("node_foo")
        return {"foo": f"aged {interrupt('value_in_interrupt')['age']}"}

    b = StateGraph(FooBar)
    b.add_node("node_foo", node_foo)
    return chain(b, "node_foo").compile(checkpointer=saver)


@script(
    "b17_side_effects",
    [run({"log": ["in"]}), resume("yes"), state()],
)
def b17_side_effects(saver):
    """Node human has the effect "before", asks "question", has the effect "after" and logs the answer; node
    api has the effect "separate". Only the first is repeated."""

    def human(s):
        enter("before")
        answer = interrupt("question")
        enter("after")
        return {"log": [answer]}

    def api(s):
        enter("separate")
        return {"log": ["api"]}

    b = StateGraph(Log)
    b.add_node("human", human)
    b.add_node("api", api)
    return chain(b, "human", "api").compile(checkpointer=saver)


@script(
    "b18_called_counters",
    [
        run({"state_counter": 1}, stream="updates"),
        run({"state_counter": 2}, stream="updates", subgraphs=True),
        resume("35", stream="updates", subgraphs=True),
        state(),
    ],
)
def b18_called_counters(saver):
    """Node parent_node runs the graph sub on its state and returns what that gives. sub is some_node, then
    human_node, which asks "what is your name?"; neither writes anything."""

    class S(TypedDict):
        state_counter: int

    def some_node(s):
        enter("some_node")

    def human_node(s):
        enter("human_node")
        interrupt("what is your name?")

    c = StateGraph(S)
    c.add_node("some_node", some_node)
    c.add_node("human_node", human_node)
    sub = chain(c, "some_node", "human_node").compile()

    def parent_node(s):
        enter("parent_node")
        return sub.invoke(s)

    b = StateGraph(S)
    b.add_node("parent_node", parent_node)
    return chain(b, "parent_node").compile(checkpointer=saver)
