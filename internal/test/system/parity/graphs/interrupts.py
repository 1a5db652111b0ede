"""Scripts about interrupt(): questions, answers, and what runs again."""

from __future__ import annotations

import operator
from typing import Annotated

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt
from typing_extensions import TypedDict

from .kit import Log, pace
from .scripts import (
    answers,
    asks,
    chain,
    command,
    enter,
    fails_until,
    go_on,
    history,
    logs,
    resume,
    run,
    script,
    state,
    update,
)


def line(*nodes):
    """A chain of nodes over Log."""
    b = StateGraph(Log)
    for n in nodes:
        b.add_node(n.__name__, n)
    return chain(b, *(n.__name__ for n in nodes))


@script(
    "interrupt_single",
    [
        run({"log": ["in"]}),
        state(),
        history(),
        resume("yes"),
        state(),
        history(),
        go_on(),
        resume("late"),
        run({"log": ["in2"]}),
        resume("again"),
        state(),
    ],
)
def interrupt_single(saver):
    """Chain a, ask, b over log. ask asks "ask?" and logs "ask:<answer>"."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "interrupt_streams",
    [
        run({"log": ["1"]}, stream="updates"),
        resume("x", stream="updates"),
        run({"log": ["2"]}, stream="values"),
        resume("y", stream="values"),
        run({"log": ["3"]}, stream="tasks"),
        resume("z", stream="tasks"),
        run({"log": ["4"]}, stream=["values", "updates"]),
        resume("w", stream=["values", "updates"]),
        run({"log": ["5"]}, stream="checkpoints"),
        resume("v", stream="checkpoints"),
        run({"log": ["6"]}, stream=["tasks", "updates", "values"]),
        resume("u", stream=["tasks", "updates", "values"]),
    ],
)
def interrupt_streams(saver):
    """Chain a, ask over log, streamed in several modes, one turn each. ask asks "ask?"."""
    return line(logs("a"), asks("ask")).compile(checkpointer=saver)


@script(
    "interrupt_two_in_node",
    [
        run({"log": ["in"]}),
        state(),
        resume("one"),
        state(),
        resume("two"),
        state(),
        run({"log": ["in"]}),
        answers({3: "uno"}),
        answers({4: "dos"}),
        history(),
    ],
)
def interrupt_two_in_node(saver):
    """One node ask asks "first?" and then "second?", and logs both answers as one entry "a+b"."""

    def ask(state):
        enter("ask")
        a = interrupt("first?")
        b = interrupt("second?")
        return {"log": [f"{a}+{b}"]}

    return line(ask).compile(checkpointer=saver)


@script(
    "interrupt_falsy_answers",
    [
        run({"log": []}),
        resume(False),
        resume(0),
        resume(""),
        resume([]),
        state(),
    ],
)
def interrupt_falsy_answers(saver):
    """One node ask asks "1", "2", "3", "4" in order and logs the JSON of all answers, joined by
    a space."""
    import json

    def ask(state):
        enter("ask")
        return {"log": [" ".join(json.dumps(interrupt(str(n))) for n in range(1, 5))]}

    return line(ask).compile(checkpointer=saver)


@script("interrupt_null_answer", [run({"log": ["in"]}), resume(None), resume("x")])
def interrupt_null_answer(saver):
    """Node ask asks "ask?" and logs "ask:<answer>"."""
    return line(asks("ask")).compile(checkpointer=saver)


def pair(first, second):
    """START leads to two nodes at once, both lead to end."""
    b = StateGraph(Log)
    for n in (first, second, logs("end")):
        b.add_node(n.__name__, n)
    for n in (first, second):
        b.add_edge(START, n.__name__)
    b.add_edge([first.__name__, second.__name__], "end")
    return b


@script(
    "interrupt_parallel",
    [
        run({"log": ["in"]}),
        state(),
        resume("both"),
        state(),
        answers({1: "one", 2: "two"}),
        state(),
        history(),
    ],
    parallel=True,
)
def interrupt_parallel(saver):
    """START to p and q, which ask "p?" and "q?" and log "p:<answer>" and "q:<answer>"; end joins
    both and logs "end". The scalar answer is refused."""
    return pair(asks("p"), asks("q", turn=1)).compile(checkpointer=saver)


@script(
    "interrupt_parallel_one_by_one",
    [
        run({"log": ["in"]}),
        answers({2: "two"}),
        state(),
        resume("one"),
        state(),
    ],
    parallel=True,
)
def interrupt_parallel_one_by_one(saver):
    """START to p and q, which ask "p?" and "q?"; end joins both. q is answered first."""
    return pair(asks("p"), asks("q", turn=1)).compile(checkpointer=saver)


@script(
    "interrupt_unknown_id",
    [run({"log": ["in"]}), answers({9: "x"}), state(), resume("y")],
)
def interrupt_unknown_id(saver):
    """Node ask asks "ask?". An answer to an id that nobody asked with."""
    return line(asks("ask")).compile(checkpointer=saver)


@script(
    "interrupt_sibling_done",
    [
        run({"log": ["in"]}),
        state(),
        history(),
        resume("yes"),
        state(),
        history(),
    ],
    parallel=True,
)
def interrupt_sibling_done(saver):
    """START to p and q; p logs "p" and is done, q asks "q?"; end joins both. Resuming does not run
    p again."""
    return pair(logs("p"), asks("q", turn=1)).compile(checkpointer=saver)


@script(
    "interrupt_sibling_fails",
    [
        run({"log": ["in"]}),
        state(),
        go_on(),
        resume("yes"),
        state(),
    ],
    parallel=True,
)
def interrupt_sibling_fails(saver):
    """START to p and q; p asks "p?" at once, q fails with "q failed" at its first try, later than p
    asks; end joins both."""
    return pair(asks("p"), fails_until("q", 2, turn=2)).compile(checkpointer=saver)


@script(
    "interrupt_sends",
    [
        run({"log": ["in"]}),
        state(),
        answers({1: "a", 2: "b", 3: "c", 4: "d", 5: "e"}),
        state(),
    ],
    parallel=True,
)
def interrupt_sends(saver):
    """A branch at START sends 1 to 5 to node w (input {n}), which asks "w1?" to "w5?" and logs
    "w<n>:<answer>"."""

    def w(item):
        enter(f"w{item['n']}")
        pace(item["n"])
        return {"log": [f"w{item['n']}:{interrupt('w' + str(item['n']) + '?')}"]}

    b = StateGraph(Log)
    b.add_node("w", w)
    b.add_conditional_edges(START, lambda s: [Send("w", {"n": n}) for n in range(1, 6)], ["w"])
    return b.compile(checkpointer=saver)


class Item(TypedDict):
    n: int
    log: Annotated[list, operator.add]


@script(
    "interrupt_sends_subgraph",
    [
        run({"log": ["in"]}),
        state(),
        answers({1: "a", 2: "b", 3: "c", 4: "d", 5: "e"}),
        state(),
    ],
    parallel=True,
)
def interrupt_sends_subgraph(saver):
    """A branch at START sends 1 to 5 (input {n}) to the graph sub, whose output is log: prep logs
    "prep<n>", ask asks "sub<n>?" and logs "ask<n>:<answer>". prep is not run again on resume."""

    def prep(s):
        enter(f"prep{s['n']}")
        pace(s["n"])
        return {"log": [f"prep{s['n']}"]}

    def ask(s):
        enter(f"ask{s['n']}")
        return {"log": [f"ask{s['n']}:{interrupt('sub' + str(s['n']) + '?')}"]}

    c = StateGraph(Item, output_schema=Log)
    c.add_node("prep", prep)
    c.add_node("ask", ask)
    chain(c, "prep", "ask")
    b = StateGraph(Log)
    b.add_node("sub", c.compile())
    b.add_conditional_edges(START, lambda s: [Send("sub", {"n": n}) for n in range(1, 6)], ["sub"])
    return b.compile(checkpointer=saver)


class Text(TypedDict, total=False):
    """A state without reducers, so that what a child hands up does not double."""

    text: str


def texts(name: str):
    """A node that appends its name to text."""

    def node(s):
        enter(name)
        return {"text": s["text"] + " " + name}

    node.__name__ = name
    return node


def text_asks(name: str):
    """A node that asks "name?" and appends the answer to text."""

    def node(s):
        enter(name)
        return {"text": f"{s['text']} {name}:{interrupt(name + '?')}"}

    node.__name__ = name
    return node


def nest(*nodes):
    b = StateGraph(Text)
    for name, n in nodes:
        b.add_node(name, n)
    return chain(b, *(name for name, _ in nodes))


def named(*fns):
    return [(f.__name__, f) for f in fns]


@script(
    "interrupt_nested",
    [
        run({"text": "in"}),
        state(),
        state(subgraphs=True),
        history(),
        resume("yes"),
        state(subgraphs=True),
        run({"text": "in2"}, stream="updates", subgraphs=True),
        resume("no", stream="updates", subgraphs=True),
    ],
)
def interrupt_nested(saver):
    """a, then the graph sub, then b; sub is c, ask, d. All append their name to text, separated by
    a space; ask asks "ask?" and appends "ask:<answer>"."""
    sub = nest(*named(texts("c"), text_asks("ask"), texts("d"))).compile()
    return nest(*named(texts("a")), ("sub", sub), *named(texts("b"))).compile(checkpointer=saver)


@script(
    "interrupt_nested_deep",
    [
        run({"text": "in"}),
        state(subgraphs=True),
        resume("yes"),
        state(subgraphs=True),
        run({"text": "in2"}, stream="updates", subgraphs=True),
        resume("no", stream="values", subgraphs=True),
    ],
)
def interrupt_nested_deep(saver):
    """a, then the graph middle; middle is m, then the graph inner, then n; inner is c, ask. All
    append their name to text; ask asks "ask?" and appends "ask:<answer>"."""
    inner = nest(*named(texts("c"), text_asks("ask"))).compile()
    middle = nest(*named(texts("m")), ("inner", inner), *named(texts("n"))).compile()
    return nest(*named(texts("a")), ("middle", middle)).compile(checkpointer=saver)


@script(
    "interrupt_nested_twice",
    [
        run({"text": "in"}),
        resume("1"),
        state(subgraphs=True),
        resume("2"),
        state(),
    ],
)
def interrupt_nested_twice(saver):
    """The graph sub alone: ask1 and ask2, which ask "ask1?" and "ask2?" and append to text."""
    sub = nest(*named(text_asks("ask1"), text_asks("ask2"))).compile()
    return nest(("sub", sub)).compile(checkpointer=saver)


@script(
    "interrupt_called",
    [
        run({"text": "in"}),
        state(),
        resume("yes"),
        state(),
        history(),
    ],
)
def interrupt_called(saver):
    """Node caller runs the graph sub (c, ask) on {text} and appends " done" to the text that it
    returns. caller and ask run again on resume, c does not."""
    sub = nest(*named(texts("c"), text_asks("ask"))).compile()

    def caller(s):
        enter("caller")
        return {"text": sub.invoke({"text": s["text"]})["text"] + " done"}

    return nest(*named(caller)).compile(checkpointer=saver)


@script(
    "interrupt_called_twice",
    [
        run({"text": "in"}),
        resume("1"),
        state(),
        resume("2"),
        state(),
    ],
)
def interrupt_called_twice(saver):
    """Node caller runs the graph sub (ask) on "x" and then on "y" and joins the two texts with "+".
    ask asks "ask?" and appends "ask:<answer>"."""
    sub = nest(*named(text_asks("ask"))).compile()

    def caller(s):
        enter("caller")
        first = sub.invoke({"text": "x"})["text"]
        return {"text": first + "+" + sub.invoke({"text": "y"})["text"]}

    return nest(*named(caller)).compile(checkpointer=saver)


@script(
    "interrupt_nested_sibling",
    [
        run({"text": "in"}),
        state(subgraphs=True),
        resume("yes"),
        state(),
    ],
    parallel=True,
)
def interrupt_nested_sibling(saver):
    """The graph sub is parallel: its nodes done (logs "done") and ask (asks "ask?", a turn later).
    Its state is Log, the parent's too, but sub's input schema has nothing in common with it and its
    output is log. done must not run again on resume."""

    class Unused(TypedDict, total=False):
        unused: str

    c = StateGraph(Log, input_schema=Unused, output_schema=Log)
    c.add_node("done", logs("done"))
    c.add_node("ask", asks("ask", turn=1))
    c.add_edge(START, "done")
    c.add_edge(START, "ask")
    sub = c.compile()

    class Parent(Log):
        text: str

    b = StateGraph(Parent)
    b.add_node("sub", sub)
    chain(b, "sub")
    return b.compile(checkpointer=saver)


class Two(TypedDict, total=False):
    log: Annotated[list, operator.add]
    name: str
    age: str


@script(
    "interrupt_resume_update",
    [
        run({"log": ["in"]}),
        resume("yes", update={"name": "Ann", "log": ["edit"]}),
        state(),
        history(),
    ],
)
def interrupt_resume_update(saver):
    """Chain a, ask, b over log and name. ask asks "ask?" and logs "ask:<answer>:<name or ->". The
    answer comes with an update of name and log."""

    def ask(s):
        enter("ask")
        return {"log": [f"ask:{interrupt('ask?')}:{s.get('name', '-')}"]}

    b = StateGraph(Two)
    for n in (logs("a"), ask, logs("b")):
        b.add_node(n.__name__, n)
    return chain(b, "a", "ask", "b").compile(checkpointer=saver)


@script(
    "interrupt_resume_goto",
    [
        run({"log": ["in"]}),
        resume("yes", goto="c"),
        state(),
        history(),
    ],
    parallel=True,
)
def interrupt_resume_goto(saver):
    """Chain a, ask, b, c over log; ask asks "ask?". The answer comes with a goto to c: it runs beside
    ask, and again at the end of the chain."""
    return line(logs("a"), asks("ask"), logs("b"), logs("c")).compile(checkpointer=saver)


@script(
    "interrupt_command",
    [
        run({"log": ["in"]}),
        command(update={"log": ["edit"]}),
        state(),
        command(goto="b"),
        state(),
        history(),
    ],
    parallel=True,
)
def interrupt_command(saver):
    """Chain a, ask, b over log; ask asks "ask?". Commands without an answer on the interrupted
    thread: first an update, then a goto to b."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "interrupt_order_changed",
    [
        run({"log": ["in"]}),
        resume("John", update={"name": "foo"}),
        state(),
    ],
)
def interrupt_order_changed(saver):
    """Node human asks "what is your name?" unless name is set, then "what is your age?" unless age
    is, "N/A" standing for what was not asked; it writes name and age. The answer comes with an
    update of name, so that it answers the wrong question."""

    def human(s):
        enter("human")
        name = "N/A" if s.get("name") else interrupt("what is your name?")
        age = "N/A" if s.get("age") else interrupt("what is your age?")
        return {"name": name, "age": age}

    b = StateGraph(Two)
    b.add_node("human", human)
    return chain(b, "human").compile(checkpointer=saver)


@script(
    "interrupt_new_input",
    [
        run({"log": ["in"]}),
        run({"log": ["in2"]}),
        state(),
        history(),
        resume("yes"),
        state(),
    ],
)
def interrupt_new_input(saver):
    """Chain a, ask, b over log; ask asks "ask?". A new input on the interrupted thread gives up
    the question."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "interrupt_continue",
    [
        run({"log": ["in"]}),
        go_on(),
        state(),
        history(),
        resume("yes"),
        history(),
    ],
)
def interrupt_continue(saver):
    """Chain a, ask over log; ask asks "ask?". Going on without an answer asks again."""
    return line(logs("a"), asks("ask")).compile(checkpointer=saver)


@script(
    "interrupt_update_state",
    [
        run({"log": ["in"]}),
        update({"log": ["edit"]}),
        state(),
        go_on(),
        resume("yes"),
        state(),
        history(),
    ],
)
def interrupt_update_state(saver):
    """Chain a, ask, b over log; ask asks "ask?". An update on the interrupted thread is made as a;
    going on asks again."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "interrupt_skip",
    [
        run({"log": ["in"]}),
        update({"log": ["by hand"]}, as_node="ask"),
        state(),
        history(),
        go_on(),
        state(),
    ],
)
def interrupt_skip(saver):
    """Chain a, ask, b over log; ask asks "ask?". An update as ask takes the place of the question."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "interrupt_then_fails",
    [
        run({"log": ["in"]}),
        resume("yes"),
        state(),
        go_on(),
        state(),
    ],
)
def interrupt_then_fails(saver):
    """Node ask asks "ask?"; with the answer it fails with "not yet" the first time and logs
    "ask:<answer>" then. Going on after the failure has the answer still."""
    tries = []

    def ask(s):
        enter("ask")
        answer = interrupt("ask?")
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("not yet")
        return {"log": [f"ask:{answer}"]}

    return line(ask).compile(checkpointer=saver)


@script(
    "interrupt_loop",
    [
        run({"log": ["in"]}),
        resume("more"),
        resume("more"),
        resume("stop"),
        state(),
        history(),
    ],
)
def interrupt_loop(saver):
    """Node ask asks "ask?" and logs "ask:<answer>"; a branch leads back to ask while the answer is
    "more", else to the end."""

    b = StateGraph(Log)
    b.add_node("ask", asks("ask"))
    b.add_edge(START, "ask")
    b.add_conditional_edges(
        "ask", lambda s: "ask" if s["log"][-1] == "ask:more" else END, ["ask", END]
    )
    return b.compile(checkpointer=saver)


@script(
    "interrupt_goto",
    [
        run({"log": ["in"]}),
        resume("b"),
        state(),
        run({"log": ["in"]}),
        resume("a"),
        state(),
    ],
)
def interrupt_goto(saver):
    """Node ask asks "where?" and returns a Command that logs "ask" and goes to the node it was
    answered with, a or b."""

    def ask(s) -> Command:
        enter("ask")
        return Command(update={"log": ["ask"]}, goto=interrupt("where?"))

    b = StateGraph(Log)
    b.add_node("ask", ask, destinations=("a", "b"))
    b.add_node("a", logs("a"))
    b.add_node("b", logs("b"))
    b.add_edge(START, "ask")
    return b.compile(checkpointer=saver)


@script(
    "interrupt_object",
    [
        run({"log": ["in"]}),
        state(),
        resume({"edited_text": "new", "n": [1, 2]}),
        state(),
    ],
)
def interrupt_object(saver):
    """Node ask asks the object {"task": "review", "entries": <log>} and logs the field edited_text
    of the answer."""

    def ask(s):
        enter("ask")
        return {"log": [interrupt({"task": "review", "entries": s["log"]})["edited_text"]]}

    return line(ask).compile(checkpointer=saver)


@script(
    "interrupt_deferred",
    [
        run({"log": ["in"]}),
        state(),
        resume("yes"),
        state(),
    ],
    parallel=True,
)
def interrupt_deferred(saver):
    """START to p and ask; last is deferred and follows p; ask asks "ask?". last runs after ask was
    answered."""
    b = StateGraph(Log)
    b.add_node("p", logs("p"))
    b.add_node("ask", asks("ask", turn=1))
    b.add_node("last", logs("last"), defer=True)
    b.add_edge(START, "p")
    b.add_edge(START, "ask")
    b.add_edge("p", "last")
    return b.compile(checkpointer=saver)
