"""Scripts about what lasts: conversations, nested graphs over turns, storage policies, durability."""

from __future__ import annotations

import operator
from typing import Annotated

from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt
from typing_extensions import TypedDict

from .interrupts import Text, line, named, nest, pair, text_asks, texts
from .scripts import (
    asks,
    chain,
    enter,
    fails_until,
    go_on,
    history,
    logs,
    resume,
    run,
    script,
    state,
)


class Count(TypedDict, total=False):
    """What a counting child keeps: n is how often it ran, seen is what it was given."""

    text: str
    n: Annotated[int, operator.add]
    seen: Annotated[list, operator.add]


def counter(question: bool = False):
    """A child graph: node note adds 1 to n and text to seen; node tell writes text
    "<n> <seen joined by ,>", after asking "go on?" if question."""

    def note(s):
        enter("note")
        return {"n": 1, "seen": [s["text"]]}

    def tell(s):
        enter("tell")
        more = f" {interrupt('go on?')}" if question else ""
        return {"text": f"{s['n']} {','.join(s['seen'])}{more}"}

    b = StateGraph(Count, input_schema=Text, output_schema=Text)
    b.add_node("note", note)
    b.add_node("tell", tell)
    return chain(b, "note", "tell")


@script(
    "conversation",
    [
        run({"log": ["1"], "topic": "owls"}),
        run({"log": ["2"]}),
        state(),
        run({"log": ["3"], "topic": "cats"}),
        history(),
        run({}),
    ],
)
def conversation(saver):
    """Node reply logs "<topic> <number of entries>" over log and topic. Later turns give the
    log only and keep the topic; an empty input runs too."""

    class Chat(TypedDict, total=False):
        log: Annotated[list, operator.add]
        topic: str

    def reply(s):
        enter("reply")
        return {"log": [f"{s['topic']} {len(s['log'])}"]}

    b = StateGraph(Chat)
    b.add_node("reply", reply)
    return chain(b, "reply").compile(checkpointer=saver)


@script(
    "nested_turns",
    [
        run({"text": "a"}),
        run({"text": "b"}),
        state(subgraphs=True),
        run({"text": "c"}, stream="updates", subgraphs=True),
        history(),
    ],
)
def nested_turns(saver):
    """The counting child (see the description of nested_turns_lasting) as node sub, the default way:
    it begins afresh each turn."""
    return nest(("sub", counter().compile())).compile(checkpointer=saver)


@script(
    "nested_turns_lasting",
    [
        run({"text": "a"}),
        run({"text": "b"}),
        state(subgraphs=True),
        run({"text": "c"}, stream="updates", subgraphs=True),
        history(),
    ],
)
def nested_turns_lasting(saver):
    """The counting child as node sub, with checkpointer=True: it keeps its state over turns. The
    child's node note adds 1 to n and appends text to seen; its node tell writes text "<n> <seen,
    joined by ,>"; it reads and hands up text only."""
    return nest(("sub", counter().compile(checkpointer=True))).compile(checkpointer=saver)


@script(
    "nested_turns_called",
    [
        run({"text": "a"}),
        run({"text": "b"}),
        state(),
    ],
)
def nested_turns_called(saver):
    """Node caller runs the counting child, with checkpointer=True, on its text and writes the text
    it returns: the child keeps its state over turns."""
    sub = counter().compile(checkpointer=True)

    def caller(s):
        enter("caller")
        return {"text": sub.invoke({"text": s["text"]})["text"]}

    return nest(*named(caller)).compile(checkpointer=saver)


@script(
    "nested_turns_unsaved",
    [
        run({"text": "a"}),
        run({"text": "b"}),
        state(subgraphs=True),
    ],
)
def nested_turns_unsaved(saver):
    """The counting child as node sub, with checkpointer=False."""
    return nest(("sub", counter().compile(checkpointer=False))).compile(checkpointer=saver)


@script(
    "nested_lasting_interrupt",
    [
        run({"text": "a"}),
        state(subgraphs=True),
        resume("yes"),
        run({"text": "b"}),
        resume("no"),
        state(),
        run({"text": "c"}),
        run({"text": "d"}),
        resume("maybe"),
    ],
)
def nested_lasting_interrupt(saver):
    """The counting child as node sub, with checkpointer=True; tell asks "go on?" and appends the
    answer to text. A question is given up for a new input in the end."""
    return nest(("sub", counter(True).compile(checkpointer=True))).compile(checkpointer=saver)


@script(
    "nested_interrupt_turns",
    [
        run({"text": "a"}),
        resume("yes"),
        run({"text": "b"}),
        resume("no"),
        state(),
    ],
)
def nested_interrupt_turns(saver):
    """The counting child as node sub, the default way; tell asks "go on?": afresh each turn, but not
    while it waits."""
    return nest(("sub", counter(True).compile())).compile(checkpointer=saver)


@script(
    "nested_lasting_replay",
    [
        run({"text": "a"}),
        run({"text": "b"}),
        run({"text": "c"}),
        go_on(at=4),
        state(),
        run({"text": "d"}),
    ],
)
def nested_lasting_replay(saver):
    """The counting child as node sub, with checkpointer=True, three turns. Replay from the second
    turn, before sub: the child goes back too. The next turn goes on from there."""
    return nest(("sub", counter().compile(checkpointer=True))).compile(checkpointer=saver)


@script(
    "nested_two_lasting",
    [
        run({"text": "a"}),
        run({"text": "b"}),
        state(),
    ],
)
def nested_two_lasting(saver):
    """The counting child with checkpointer=True as nodes one and two, in a chain: each keeps a state
    of its own."""
    return nest(
        ("one", counter().compile(checkpointer=True)),
        ("two", counter().compile(checkpointer=True)),
    ).compile(checkpointer=saver)


@script(
    "nested_loop",
    [
        run({"text": "a"}),
        state(),
        run({"text": "b"}),
    ],
)
def nested_loop(saver):
    """The counting child with checkpointer=True as node sub; a branch leads back to it while its text
    is shorter than 8: it goes on with its state."""
    b = StateGraph(Text)
    b.add_node("sub", counter().compile(checkpointer=True))
    b.add_edge(START, "sub")
    b.add_conditional_edges("sub", lambda s: "sub" if len(s["text"]) < 8 else END, ["sub", END])
    return b.compile(checkpointer=saver)


@script(
    "untracked_turns",
    [
        run({"log": ["1"], "scratch": "s1"}),
        state(),
        run({"log": ["2"]}),
        run({"log": ["3"], "scratch": "s3"}, before=["b"]),
        state(),
        go_on(),
        history(),
    ],
)
def untracked_turns(saver):
    """Chain a, b over log and scratch, which is untracked. Both log "<name> <scratch or ->". Scratch
    lasts for a run and is not stored."""

    class S(TypedDict, total=False):
        log: Annotated[list, operator.add]
        scratch: Annotated[str, UntrackedValue(str)]

    def says(name):
        def node(s):
            enter(name)
            return {"log": [f"{name} {s.get('scratch', '-')}"]}

        return node

    b = StateGraph(S)
    for n in "ab":
        b.add_node(n, says(n))
    return chain(b, "a", "b").compile(checkpointer=saver)


@script(
    "ephemeral_turns",
    [
        run({"log": ["1"], "hint": "h1"}),
        state(),
        run({"log": ["2"]}),
        run({"log": ["3"], "hint": "h3"}, before=["a"]),
        state(),
        go_on(),
        history(),
    ],
)
def ephemeral_turns(saver):
    """Chain a, b over log and hint, which is ephemeral. Both log "<name> <hint or ->". The hint
    lasts for one step, and is stored for it."""

    class S(TypedDict, total=False):
        log: Annotated[list, operator.add]
        hint: Annotated[str, EphemeralValue(str)]

    def says(name):
        def node(s):
            enter(name)
            return {"log": [f"{name} {s.get('hint', '-')}"]}

        return node

    b = StateGraph(S)
    for n in "ab":
        b.add_node(n, says(n))
    return chain(b, "a", "b").compile(checkpointer=saver)


@script(
    "durable_sync",
    [
        run({"log": ["1"]}, durability="sync"),
        history(),
        run({"log": ["2"]}, durability="sync"),
        state(),
    ],
)
def durable_sync(saver):
    """Chain a, b over log, durability sync."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "durable_async",
    [
        run({"log": ["1"]}, durability="async"),
        history(),
        run({"log": ["2"]}, durability="async"),
        state(),
    ],
)
def durable_async(saver):
    """Chain a, b over log, durability async."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "durable_exit",
    [
        run({"log": ["1"]}, durability="exit"),
        history(),
        run({"log": ["2"]}, durability="exit"),
        history(),
        run({"log": ["3"]}, durability="exit", before=["b"]),
        history(),
        go_on(durability="exit"),
        history(),
    ],
)
def durable_exit(saver):
    """Chain a, b over log, durability exit: one checkpoint per run."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "durable_exit_interrupt",
    [
        run({"log": ["1"]}, durability="exit"),
        state(),
        history(),
        resume("yes", durability="exit"),
        history(),
    ],
)
def durable_exit_interrupt(saver):
    """Chain a, ask, b over log, durability exit; ask asks "ask?"."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "durable_exit_fails",
    [
        run({"log": ["1"]}, durability="exit"),
        state(),
        history(),
        go_on(durability="exit"),
        history(),
    ],
    parallel=True,
)
def durable_exit_fails(saver):
    """START to p and q, end joins both, durability exit; p logs "p", q fails with "q failed" two
    turns later the first time. Going on does not run p again."""
    return pair(logs("p"), fails_until("q", 2, turn=2)).compile(checkpointer=saver)


@script(
    "durable_exit_nested",
    [
        run({"text": "in"}, durability="exit"),
        state(subgraphs=True),
        resume("yes", durability="exit"),
        history(),
    ],
)
def durable_exit_nested(saver):
    """a, then the graph sub (c, ask), then b, over text, durability exit; ask asks "ask?". c is not
    run again."""
    sub = nest(*named(texts("c"), text_asks("ask"))).compile()
    return nest(*named(texts("a")), ("sub", sub), *named(texts("b"))).compile(checkpointer=saver)
