"""Scripts about breakpoints, failures and step limits: runs that stop and go on."""

from __future__ import annotations


from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

from .interrupts import line, named, nest, pair, texts
from .kit import Log, pace
from .scripts import (
    command,
    delete,
    enter,
    fails_until,
    go_on,
    history,
    logs,
    run,
    script,
    state,
    update,
)


@script(
    "break_before",
    [
        run({"log": ["in"]}),
        state(),
        go_on(),
        state(),
        history(),
        run({"log": ["in2"]}, stream="updates"),
        go_on(stream="updates"),
        run({"log": ["in3"]}, stream="values"),
        go_on(stream="values"),
    ],
)
def break_before(saver):
    """Chain a, b, c over log, compiled with a breakpoint before b."""
    return line(logs("a"), logs("b"), logs("c")).compile(
        checkpointer=saver, interrupt_before=["b"]
    )


@script(
    "break_after",
    [
        run({"log": ["in"]}),
        state(),
        go_on(),
        state(),
        run({"log": ["in2"]}, stream="values"),
        go_on(stream="updates"),
        history(),
    ],
)
def break_after(saver):
    """Chain a, b, c over log, compiled with a breakpoint after b."""
    return line(logs("a"), logs("b"), logs("c")).compile(
        checkpointer=saver, interrupt_after=["b"]
    )


@script(
    "break_both",
    [
        run({"log": ["in"]}),
        state(),
        go_on(),
        state(),
        go_on(),
        state(),
        go_on(),
    ],
)
def break_both(saver):
    """Chain a, b, c over log, compiled with breakpoints before a, after b and after c."""
    return line(logs("a"), logs("b"), logs("c")).compile(
        checkpointer=saver, interrupt_before=["a"], interrupt_after=["b", "c"]
    )


@script(
    "break_per_run",
    [
        run({"log": ["in"]}, before=["b"]),
        go_on(after=["b"]),
        state(),
        go_on(before=["c"]),
        state(),
        run({"log": ["in2"]}, before="*"),
        go_on(before="*"),
        go_on(before="*"),
        go_on(before="*"),
        state(),
        run({"log": ["in3"]}, after="*"),
        go_on(after="*"),
        go_on(after="*"),
        state(),
    ],
)
def break_per_run(saver):
    """Chain a, b, c over log. Breakpoints are given with each run; "*" is every node."""
    return line(logs("a"), logs("b"), logs("c")).compile(checkpointer=saver)


@script(
    "break_update",
    [
        run({"log": ["in"]}),
        update({"log": ["edit"]}),
        state(),
        go_on(),
        state(),
        run({"log": ["in2"]}),
        update({"log": ["instead of b"]}, as_node="b"),
        state(),
        go_on(),
        history(),
    ],
)
def break_update(saver):
    """Chain a, b, c over log, compiled with a breakpoint before b. An update at the breakpoint is
    made as a (inferred), so the breakpoint is met again; then one made as b, which skips it."""
    return line(logs("a"), logs("b"), logs("c")).compile(
        checkpointer=saver, interrupt_before=["b"]
    )


@script(
    "break_loop",
    [
        run({"n": 0}),
        go_on(),
        go_on(),
        state(),
        go_on(),
        state(),
    ],
)
def break_loop(saver):
    """Node inc adds 1 to n and runs until n is 3 (branch back to itself); a breakpoint before inc."""

    class N(TypedDict):
        n: int

    def inc(s):
        enter("inc")
        return {"n": s["n"] + 1}

    b = StateGraph(N)
    b.add_node("inc", inc)
    b.add_edge(START, "inc")
    b.add_conditional_edges("inc", lambda s: "inc" if s["n"] < 3 else END, ["inc", END])
    return b.compile(checkpointer=saver, interrupt_before=["inc"])


@script(
    "break_parallel",
    [
        run({"log": ["in"]}),
        state(),
        go_on(),
        state(),
        history(),
    ],
    parallel=True,
)
def break_parallel(saver):
    """START to p and q, end joins both; a breakpoint before q stops both, one after p lets both
    finish."""
    return pair(logs("p"), logs("q", turn=1)).compile(
        checkpointer=saver, interrupt_before=["q"], interrupt_after=["p"]
    )


@script(
    "break_new_input",
    [
        run({"log": ["in"]}),
        run({"log": ["in2"]}),
        state(),
        go_on(),
        state(),
    ],
)
def break_new_input(saver):
    """Chain a, b over log, compiled with a breakpoint before b. A new input at the breakpoint starts
    over."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver, interrupt_before=["b"])


@script(
    "break_nested",
    [
        run({"text": "in"}),
        state(subgraphs=True),
        go_on(),
        state(subgraphs=True),
        run({"text": "in2"}, stream="updates", subgraphs=True),
        go_on(stream="updates", subgraphs=True),
    ],
)
def break_nested(saver):
    """a, then the graph sub (c, d), then b; sub is compiled with a breakpoint before d."""
    sub = nest(*named(texts("c"), texts("d"))).compile(interrupt_before=["d"])
    return nest(*named(texts("a")), ("sub", sub), *named(texts("b"))).compile(checkpointer=saver)


@script(
    "break_goto",
    [
        run({"log": ["in"]}),
        command(goto="c"),
        state(),
        history(),
    ],
    parallel=True,
)
def break_goto(saver):
    """Chain a, b, c over log, compiled with a breakpoint before b. A command with a goto to c
    goes on: b and c run at once, then c again."""
    return line(logs("a"), logs("b"), logs("c")).compile(
        checkpointer=saver, interrupt_before=["b"]
    )


@script(
    "fail_continue",
    [
        run({"log": ["in"]}),
        state(),
        history(),
        go_on(),
        state(),
        go_on(),
        history(),
    ],
)
def fail_continue(saver):
    """Chain a, bad, b over log; bad fails with "bad failed" twice and then logs "bad"."""
    return line(logs("a"), fails_until("bad", 3), logs("b")).compile(checkpointer=saver)


@script(
    "fail_sibling",
    [
        run({"log": ["in"]}),
        state(),
        history(),
        go_on(),
        state(),
        history(),
    ],
    parallel=True,
)
def fail_sibling(saver):
    """START to p and q, end joins both; p logs "p", q fails with "q failed" a turn later the first
    time. Going on does not run p again."""
    return pair(logs("p"), fails_until("q", 2, turn=2)).compile(checkpointer=saver)


@script(
    "fail_sibling_update",
    [
        run({"log": ["in"]}),
        update({"log": ["by hand"]}, as_node="q"),
        state(),
        go_on(),
        state(),
        history(),
    ],
    parallel=True,
)
def fail_sibling_update(saver):
    """START to p and q, end joins both; p logs "p", q fails a turn later. An update as q ends the
    step."""
    return pair(logs("p"), fails_until("q", 9, turn=2)).compile(checkpointer=saver)


@script(
    "fail_new_input",
    [
        run({"log": ["in"]}),
        run({"log": ["in2"]}),
        state(),
        history(),
    ],
)
def fail_new_input(saver):
    """Chain a, bad over log; bad fails with "bad failed" the first time. A new input starts over."""
    return line(logs("a"), fails_until("bad", 2)).compile(checkpointer=saver)


@script(
    "fail_nested",
    [
        run({"text": "in"}),
        state(subgraphs=True),
        go_on(),
        state(),
    ],
)
def fail_nested(saver):
    """a, then the graph sub (c, bad, d), then b; bad fails with "bad failed" the first time. Going
    on runs bad, d and b only."""
    tries = []

    def bad(s):
        enter("bad")
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("bad failed")
        return {"text": s["text"] + " bad"}

    sub = nest(*named(texts("c"), bad, texts("d"))).compile()
    return nest(*named(texts("a")), ("sub", sub), *named(texts("b"))).compile(checkpointer=saver)


@script(
    "fail_sends",
    [
        run({"log": ["in"]}),
        state(),
        go_on(),
        state(),
    ],
    parallel=True,
)
def fail_sends(saver):
    """A branch at START sends 1 to 3 to node w (input {n}), which logs "w<n>"; w2 fails with "no
    luck" the first time, after the others are done. Going on runs w2 only."""
    tries = []

    def w(item):
        enter(f"w{item['n']}")
        if item["n"] == 2:
            pace(2)
            tries.append(1)
            if len(tries) < 2:
                raise ValueError("no luck")
        return {"log": [f"w{item['n']}"]}

    b = StateGraph(Log)
    b.add_node("w", w)
    b.add_conditional_edges(START, lambda s: [Send("w", {"n": n}) for n in range(1, 4)], ["w"])
    return b.compile(checkpointer=saver)


@script(
    "fail_branch",
    [
        run({"log": ["in"]}),
        state(),
        go_on(),
        state(),
    ],
)
def fail_branch(saver):
    """Node a logs "a"; the branch after it fails with "no way" the first time and leads to b then.
    a runs again."""
    tries = []

    def way(s):
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("no way")
        return "b"

    b = StateGraph(Log)
    b.add_node("a", logs("a"))
    b.add_node("b", logs("b"))
    b.add_edge(START, "a")
    b.add_conditional_edges("a", way, ["b"])
    return b.compile(checkpointer=saver)


@script(
    "fail_conflict",
    [
        run({"n": 0}),
        state(),
        go_on(),
        state(),
    ],
    parallel=True,
)
def fail_conflict(saver):
    """START to p and q, which both write n, a plain value: the step fails each time."""

    class N(TypedDict):
        n: int

    def p(s):
        enter("p")
        return {"n": 1}

    def q(s):
        enter("q")
        return {"n": 2}

    b = StateGraph(N)
    for f in (p, q):
        b.add_node(f.__name__, f)
        b.add_edge(START, f.__name__)
    return b.compile(checkpointer=saver)


@script(
    "limit_continue",
    [
        run({"log": ["in"]}, limit=2),
        state(),
        go_on(limit=2),
        state(),
        go_on(),
        state(),
        history(),
    ],
)
def limit_continue(saver):
    """Chain a, b, c, d over log, with a step limit of 2."""
    return line(*(logs(n) for n in "abcd")).compile(checkpointer=saver)


@script(
    "join_turns",
    [
        run({"log": ["in"]}),
        state(),
        go_on(),
        state(),
        run({"log": ["in2"]}),
        state(),
    ],
    parallel=True,
)
def join_turns(saver):
    """START to p and q; q leads to q2; end joins p and q2. A breakpoint before q2: half a join is
    stored, and a new input does not lose it: p and q run again."""
    b = StateGraph(Log)
    for n in ("p", "q", "q2", "end"):
        b.add_node(n, logs(n))
    b.add_edge(START, "p")
    b.add_edge(START, "q")
    b.add_edge("q", "q2")
    b.add_edge(["p", "q2"], "end")
    return b.compile(checkpointer=saver, interrupt_before=["q2"])


@script(
    "no_thread",
    [
        state(),
        history(),
        go_on(),
        update({"log": ["edit"]}),
        state(),
        go_on(),
        history(),
        delete(),
        state(),
        history(),
        run({"log": ["in"]}),
        state(),
        delete(),
        run({"log": ["in2"]}),
        history(),
    ],
)
def no_thread(saver):
    """Chain a, b over log. The thread does not exist; an update makes it; it is deleted and made
    again."""
    return line(logs("a"), logs("b")).compile(checkpointer=saver)
