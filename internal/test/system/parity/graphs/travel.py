"""Scripts about editing threads and going back: update_state, replay, fork."""

from __future__ import annotations

from langgraph.graph import START, StateGraph

from .interrupts import line, named, nest, pair, text_asks, texts
from .kit import Log
from .scripts import (
    asks,
    bulk,
    command,
    go_on,
    history,
    logs,
    resume,
    run,
    script,
    state,
    update,
)


@script(
    "update_as_node",
    [
        run({"log": ["in"]}),
        update({"log": ["edit"]}, as_node="a"),
        state(),
        go_on(),
        update({"log": ["last"]}, as_node="c"),
        state(),
        go_on(),
        update({"log": ["x"]}, as_node="nowhere"),
        update({"log": ["first"]}, as_node="__start__"),
        state(),
        history(),
    ],
)
def update_as_node(saver):
    """Chain a, b, c over log. Updates of the finished thread as a (b and c run again), as c, as an
    unknown node, and as __start__."""
    return line(logs("a"), logs("b"), logs("c")).compile(checkpointer=saver)


@script(
    "update_inferred",
    [
        run({"log": ["in"]}),
        update({"log": ["edit"]}),
        state(),
        update(None),
        state(),
        history(),
    ],
)
def update_inferred(saver):
    """Chain a, b over log. An update of the finished thread without a node is made as b; so is one
    without values."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "update_ambiguous",
    [
        run({"log": ["in"]}, before=["end"]),
        update({"log": ["edit"]}),
        update({"log": ["edit"]}, as_node="p"),
        state(),
        go_on(),
        state(),
    ],
    parallel=True,
)
def update_ambiguous(saver):
    """START to p and q, end joins both; stopped before end. An update without a node is ambiguous;
    one as p is not."""
    return pair(logs("p"), logs("q", turn=1)).compile(checkpointer=saver)


@script(
    "update_end",
    [
        run({"log": ["in"]}, before=["b"]),
        update(None, as_node="__end__"),
        state(),
        go_on(),
        run({"log": ["in2"]}),
        update({"log": ["x"]}, as_node="__end__"),
        history(),
    ],
)
def update_end(saver):
    """Chain a, b over log, stopped before b. An update as __end__ without values ends it; one with
    values is refused."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "update_input",
    [
        update({"log": ["in"]}, as_node="__input__"),
        state(),
        go_on(),
        update({"log": ["in2"]}, as_node="__input__"),
        state(),
        go_on(),
        history(),
    ],
)
def update_input(saver):
    """Chain a, b over log. Updates as __input__ give the thread an input that the next
    invoke(None) takes."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "update_branch",
    [
        run({"log": ["in"]}, before=["a"]),
        update({"log": ["left"]}, as_node="a"),
        state(),
        go_on(),
        update({"log": ["right"]}, as_node="a"),
        state(),
        go_on(),
    ],
)
def update_branch(saver):
    """Node a logs "a"; the branch after it leads to l if the last entry of log is "left", else to r.
    Updates as a follow the branch."""
    b = StateGraph(Log)
    for n in "alr":
        b.add_node(n, logs(n))
    b.add_edge(START, "a")
    b.add_conditional_edges("a", lambda s: "l" if s["log"][-1] == "left" else "r", ["l", "r"])
    return b.compile(checkpointer=saver)


@script(
    "update_bulk",
    [
        bulk(
            [({"log": ["in"]}, "__input__")],
            [({"log": ["in"]}, "__start__")],
            [({"log": ["P"]}, "p"), ({"log": ["Q"]}, "q")],
        ),
        state(),
        history(),
        go_on(),
        bulk([({"log": ["x"]}, "p"), ({"log": ["y"]}, None)]),
        bulk([]),
        bulk(),
        state(),
    ],
    parallel=True,
)
def update_bulk(saver):
    """START to p and q, end joins both. A bulk update builds the thread: the input, the start, p and
    q in one step; then end runs. Then bulk updates that are refused."""
    return pair(logs("p"), logs("q", turn=1)).compile(checkpointer=saver)


@script(
    "replay_middle",
    [
        run({"log": ["in"]}),
        go_on(at=2),
        state(),
        history(),
        go_on(),
        go_on(at=6),
        history(),
    ],
)
def replay_middle(saver):
    """Chain a, b, c over log. Replay from the checkpoint before b, then go on (nothing is left), then
    replay from the checkpoint with a next."""
    return line(logs("a"), logs("b"), logs("c")).compile(checkpointer=saver)


@script(
    "replay_first",
    [
        run({"log": ["in"]}),
        go_on(at=3),
        history(),
    ],
)
def replay_first(saver):
    """Chain a, b over log. Replay from the input checkpoint: all of it runs again."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "replay_finished",
    [
        run({"log": ["in"]}),
        run({"log": ["in2"]}),
        go_on(at=4),
        state(),
        history(),
    ],
)
def replay_finished(saver):
    """Chain a, b over log, two turns. Replay from the last checkpoint of the first turn, where
    nothing is next."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "replay_head",
    [
        run({"log": ["in"]}, before=["b"]),
        go_on(at=0),
        state(),
        history(),
    ],
)
def replay_head(saver):
    """Chain a, b over log, stopped before b. invoke(None) with the id of the head."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "replay_before_interrupt",
    [
        run({"log": ["in"]}),
        resume("one"),
        go_on(at=3),
        state(),
        history(),
        resume("two"),
        state(),
        history(),
    ],
)
def replay_before_interrupt(saver):
    """Chain a, ask, b over log; ask asks "ask?". After the answer, replay from the checkpoint before
    a: a runs and ask asks again."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "replay_at_interrupt",
    [
        run({"log": ["in"]}),
        resume("one"),
        go_on(at=2),
        state(),
        resume("two"),
        state(),
        history(),
    ],
)
def replay_at_interrupt(saver):
    """Chain a, ask, b over log; ask asks "ask?". After the answer, replay from the checkpoint where
    ask was asked: it asks again, whatever was answered then."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "replay_after_interrupt",
    [
        run({"log": ["in"]}),
        resume("one"),
        go_on(at=1),
        state(),
    ],
)
def replay_after_interrupt(saver):
    """Chain a, ask, b over log; ask asks "ask?". After the answer, replay from the checkpoint before
    b: only b runs."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "replay_parallel",
    [
        run({"log": ["in"]}),
        resume({"<interrupt 1>": "one", "<interrupt 2>": "two"}),
        go_on(at=2),
        resume({"<interrupt 3>": "uno", "<interrupt 4>": "dos"}),
        state(),
    ],
    parallel=True,
)
def replay_parallel(saver):
    """START to p and q, which ask; end joins both. After the answers, replay from where both were
    asked: both ask again."""
    return pair(asks("p"), asks("q", turn=1)).compile(checkpointer=saver)


@script(
    "resume_old",
    [
        run({"log": ["in"]}),
        resume("one"),
        resume("two", at=2),
        state(),
    ],
)
def resume_old(saver):
    """Chain a, ask, b over log; ask asks "ask?". An answer given at the old checkpoint of the
    question, when the thread is past it."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "fork_update",
    [
        run({"log": ["in"]}),
        update({"log": ["fork"]}, at=2),
        state(),
        go_on(),
        state(),
        history(),
        update({"log": ["instead"]}, at=5, as_node="b"),
        go_on(),
        history(),
    ],
)
def fork_update(saver):
    """Chain a, b, c over log. An update at the checkpoint after a, made as a by inference, begins a
    branch; b and c run on it. Then one made as b at an older checkpoint: c runs."""
    return line(logs("a"), logs("b"), logs("c")).compile(checkpointer=saver)


@script(
    "fork_input",
    [
        run({"log": ["in"]}),
        run({"log": ["other"]}, at=1),
        state(),
        history(),
        run({"log": ["next"]}),
    ],
)
def fork_input(saver):
    """Chain a, b over log. A new input at the checkpoint after a begins a branch from there; the
    next input goes on from the branch."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "fork_at_interrupt",
    [
        run({"log": ["in"]}),
        resume("one"),
        update({"log": ["fork"]}, at=2),
        state(),
        go_on(),
        resume("two"),
        state(),
        history(),
    ],
)
def fork_at_interrupt(saver):
    """Chain a, ask, b over log; ask asks "ask?". An update at the checkpoint of the question: on the
    branch it is asked again."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "fork_skip",
    [
        run({"log": ["in"]}),
        resume("one"),
        update({"log": ["by hand"]}, at=2, as_node="ask"),
        go_on(),
        state(),
    ],
)
def fork_skip(saver):
    """Chain a, ask, b over log; ask asks "ask?". An update as ask at the checkpoint of the question:
    on the branch it is not asked."""
    return line(logs("a"), asks("ask"), logs("b")).compile(checkpointer=saver)


@script(
    "fork_branches",
    [
        run({"log": ["in"]}),
        go_on(at=1),
        go_on(at=3),
        update({"log": ["x"]}, at=4, as_node="a"),
        go_on(),
        history(),
        state(at=0),
        state(at=3),
        state(at=6),
    ],
)
def fork_branches(saver):
    """Chain a, b over log. Two replays and a fork: the history only grows. Old checkpoints can be
    read."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "history_filters",
    [
        run({"log": ["in"]}),
        run({"log": ["in2"]}),
        history(limit=2),
        history(filter={"source": "input"}),
        history(filter={"step": 1}),
        state(at=5),
    ],
)
def history_filters(saver):
    """Chain a, b over log, two turns; the history with a limit and with filters of metadata."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)


@script(
    "replay_nested",
    [
        run({"text": "in"}),
        go_on(at=1),
        state(),
        go_on(at=4),
        state(),
        history(),
    ],
)
def replay_nested(saver):
    """a, then the graph sub (c, d), then b, over text. Replay from the checkpoint before b, then from
    the one before sub: c and d run again."""
    sub = nest(*named(texts("c"), texts("d"))).compile()
    return nest(*named(texts("a")), ("sub", sub), *named(texts("b"))).compile(checkpointer=saver)


@script(
    "replay_nested_interrupt",
    [
        run({"text": "in"}),
        resume("one"),
        go_on(at=2),
        state(subgraphs=True),
        resume("two"),
        state(),
        history(),
    ],
)
def replay_nested_interrupt(saver):
    """a, then the graph sub (c, ask), then b, over text; ask asks "ask?". After the answer, replay
    from the checkpoint before sub: c runs again and ask asks."""
    sub = nest(*named(texts("c"), text_asks("ask"))).compile()
    return nest(*named(texts("a")), ("sub", sub), *named(texts("b"))).compile(checkpointer=saver)


@script(
    "update_nested",
    [
        run({"text": "in"}),
        state(nested=["sub"]),
        update({"text": "edited"}, nested=["sub"]),
        state(subgraphs=True),
        resume("yes"),
        state(),
    ],
)
def update_nested(saver):
    """a, then the graph sub (c, ask), then b, over text; ask asks "ask?". While it waits, the state of
    sub is edited; then it is answered."""
    sub = nest(*named(texts("c"), text_asks("ask"))).compile()
    return nest(*named(texts("a")), ("sub", sub), *named(texts("b"))).compile(checkpointer=saver)


@script(
    "update_nested_skip",
    [
        run({"text": "in"}),
        update({"text": "by hand"}, nested=["sub"], as_node="ask"),
        state(subgraphs=True),
        go_on(),
        state(),
    ],
)
def update_nested_skip(saver):
    """a, then the graph sub (c, ask, d), then b, over text; ask asks "ask?". While it waits, sub is
    edited as ask: going on runs d and b."""
    sub = nest(*named(texts("c"), text_asks("ask"), texts("d"))).compile()
    return nest(*named(texts("a")), ("sub", sub), *named(texts("b"))).compile(checkpointer=saver)


@script(
    "command_turns",
    [
        run({"log": ["in"]}),
        command(goto="b"),
        state(),
        command(update={"log": ["edit"]}),
        state(),
        command(update={"log": ["edit2"]}, goto="b"),
        state(),
        history(),
    ],
)
def command_turns(saver):
    """Chain a, b over log. Commands on the finished thread: a goto to b, an update, both."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)
