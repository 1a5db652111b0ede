"""Deferred nodes, the step limit, failures, retries, error handlers, the cache."""

import operator
from typing import Annotated, Literal

from langgraph.cache.memory import InMemoryCache
from langgraph.errors import NodeError
from langgraph.graph import END, START, StateGraph
from langgraph.types import CachePolicy, Command, RetryPolicy
from typing_extensions import TypedDict

from graphs.kit import Log, case, invoke, pace, stream, writes

EMPTY = {"log": []}
QUICK = RetryPolicy(initial_interval=0.01, jitter=False, max_attempts=3)


def add(g, *names):
    for name in names:
        g.add_node(name, writes(name))
    return g


def edges(g, *pairs):
    for s, t in pairs:
        g.add_edge(s, t)
    return g


@case("defer_without_join", [
    invoke(EMPTY),
    stream("values", EMPTY),
    stream("updates", EMPTY),
    stream("tasks", EMPTY),
    stream("debug", EMPTY, saver=True),
], parallel=True)
def defer_without_join():
    """State {log: appending list}. START to a; a to b and c; b to b2; b2 to d and c to d by plain edges; d
    is deferred; d to END. Each node appends its name; b finishes before c. d runs once, after
    everything else."""
    g = add(StateGraph(Log), "a", "b", "b2")
    g.add_node("c", writes("c", 1))
    g.add_node("d", writes("d"), defer=True)
    return edges(g, (START, "a"), ("a", "b"), ("a", "c"), ("b", "b2"), ("b2", "d"), ("c", "d"), ("d", END))


@case("defer_with_join", [
    invoke(EMPTY),
    stream("values", EMPTY),
    stream("tasks", EMPTY),
], parallel=True)
def defer_with_join():
    """State {log: appending list}. START to a; a to b, c and x; x to x2 to x3; join edge from [b, c] to d;
    d is deferred; d to END. Each node appends its name; b, c, x finish in that order. d waits for the
    join and for x3."""
    g = add(StateGraph(Log), "a", "b")
    g.add_node("c", writes("c", 1))
    g.add_node("x", writes("x", 2))
    add(g, "x2", "x3")
    g.add_node("d", writes("d"), defer=True)
    g.add_edge(["b", "c"], "d")
    return edges(g, (START, "a"), ("a", "b"), ("a", "c"), ("a", "x"), ("x", "x2"), ("x2", "x3"), ("d", END))


@case("defer_loop", [
    invoke({"log": [], "n": 0}),
    stream("values", {"log": [], "n": 0}),
])
def defer_loop():
    """State {log: appending list, n: int}. START to a; a to b and d; d is deferred, appends "d" and writes
    n + 1; conditional edge from d with map {again: a, done: END}: again while n < 2. a and b append their
    names. d runs once per round."""

    class State(TypedDict):
        log: Annotated[list, operator.add]
        n: int

    g = add(StateGraph(State), "a", "b")
    g.add_node("d", lambda s: {"log": ["d"], "n": s["n"] + 1}, defer=True)
    edges(g, (START, "a"), ("a", "b"), ("a", "d"))
    g.add_conditional_edges("d", lambda s: "again" if s["n"] < 2 else "done", {"again": "a", "done": END})
    return g


@case("defer_two", [
    invoke(EMPTY),
    stream("values", EMPTY),
])
def defer_two():
    """State {log: appending list}. START to a, d1 and d2; d1 and d2 are deferred; d1 to d2. Each node
    appends its name."""
    g = add(StateGraph(Log), "a")
    g.add_node("d1", writes("d1"), defer=True)
    g.add_node("d2", writes("d2"), defer=True)
    return edges(g, (START, "a"), (START, "d1"), (START, "d2"), ("d1", "d2"))


LIMITS = [invoke(EMPTY, name=f"limit {n}", config={"recursion_limit": n}) for n in range(1, 6)]
LIMITS += [
    stream("values", EMPTY, name=f"stream values limit {n}", config={"recursion_limit": n}) for n in (1, 2, 3)
]
LIMITS += [
    stream("checkpoints", EMPTY, name="stream checkpoints limit 2", config={"recursion_limit": 2}, saver=True),
    invoke(EMPTY, name="limit 0", config={"recursion_limit": 0}),
]


def limited(*names):
    g = add(StateGraph(Log), *names)
    return edges(g, *zip((START, *names), (*names, END)))


@case("limit_one_node", LIMITS)
def limit_one_node():
    """State {log: appending list}. START, a, END; a appends its name. Recursion limits 1 to 5."""
    return limited("a")


@case("limit_two_nodes", LIMITS)
def limit_two_nodes():
    """State {log: appending list}. START, a, b, END; each node appends its name. Recursion limits 1 to 5."""
    return limited("a", "b")


@case("limit_three_nodes", LIMITS)
def limit_three_nodes():
    """State {log: appending list}. START, a, b, c, END; each node appends its name. Recursion limits 1 to
    5."""
    return limited("a", "b", "c")


@case("limit_loop", LIMITS)
def limit_loop():
    """State {log: appending list}. START to a; a to b; b back to a, without end. Each node appends its
    name. Recursion limits 1 to 5: all fail."""
    return edges(add(StateGraph(Log), "a", "b"), (START, "a"), ("a", "b"), ("b", "a"))


@case("node_fails", [
    invoke(EMPTY),
    stream("updates", EMPTY),
    stream("values", EMPTY),
    stream("tasks", EMPTY),
    stream("debug", EMPTY, saver=True),
])
def node_fails():
    """State {log: appending list}. START, a (appends "a"), bad (raises ValueError("no luck")), c."""

    def bad(state):
        raise ValueError("no luck")

    g = add(StateGraph(Log), "a").add_node(bad)
    return edges(add(g, "c"), (START, "a"), ("a", "bad"), ("bad", "c"))


@case("branch_fails", [
    invoke(EMPTY),
    stream("updates", EMPTY),
    stream("tasks", EMPTY),
])
def branch_fails():
    """State {log: appending list}. START to a, which appends "a"; the conditional edge from a (declared
    target b) raises ValueError("no way"). The node had already written when its routing failed."""

    def route(state) -> Literal["b"]:
        raise ValueError("no way")

    g = edges(add(StateGraph(Log), "a", "b"), (START, "a"))
    g.add_conditional_edges("a", route)
    return g


@case("sibling_fails", [
    invoke(EMPTY),
    stream("updates", EMPTY),
    stream("tasks", EMPTY),
], parallel=True)
def sibling_fails():
    """State {log: appending list}. START to early and bad. early appends its name at once; bad raises
    ValueError("no luck") two turns later. Nothing of the step is applied."""

    def bad(state):
        pace(2)
        raise ValueError("no luck")

    g = add(StateGraph(Log), "early").add_node(bad)
    return edges(g, (START, "early"), (START, "bad"))


@case("retry_success", [
    invoke(EMPTY),
    stream("updates", EMPTY),
    stream("tasks", EMPTY),
    stream("debug", EMPTY, saver=True),
    stream("custom", EMPTY),
])
def retry_success():
    """State {log: appending list}. START to flaky, with a retry policy of 3 attempts; it sends "attempt
    <n>" to the custom stream, fails with ConnectionError twice and then appends "attempt 3". There is one updates
    chunk."""
    from langgraph.config import get_stream_writer

    tries = []

    def flaky(state):
        tries.append(1)
        get_stream_writer()(f"attempt {len(tries)}")
        if len(tries) < 3:
            raise ConnectionError("try again")
        return {"log": [f"attempt {len(tries)}"]}

    return StateGraph(Log).add_node("flaky", flaky, retry_policy=QUICK).add_edge(START, "flaky")


@case("retry_exhausted", [
    invoke(EMPTY),
    stream("tasks", EMPTY),
    stream("custom", EMPTY),
])
def retry_exhausted():
    """State {log: appending list}. START to flaky, with a retry policy of 3 attempts; it sends "attempt
    <n>" to the custom stream and always fails with ConnectionError("attempt <n>")."""
    from langgraph.config import get_stream_writer

    tries = []

    def flaky(state):
        tries.append(1)
        get_stream_writer()(f"attempt {len(tries)}")
        raise ConnectionError(f"attempt {len(tries)}")

    return StateGraph(Log).add_node("flaky", flaky, retry_policy=QUICK).add_edge(START, "flaky")


@case("retry_not_retryable", [invoke(EMPTY)])
def retry_not_retryable():
    """State {log: appending list}. START to bad, with a retry policy of 3 attempts and the default rule; it
    fails with ValueError("attempt <n>"), which the default rule does not retry, so the message says
    attempt 1."""
    tries = []

    def bad(state):
        tries.append(1)
        raise ValueError(f"attempt {len(tries)}")

    return StateGraph(Log).add_node("bad", bad, retry_policy=QUICK).add_edge(START, "bad")


@case("retry_choice", [invoke(EMPTY), invoke({"log": ["key"]}, name="key error")])
def retry_choice():
    """State {log: appending list}. START to bad with two retry policies: 2 attempts on KeyError, 4 attempts
    on ValueError. It fails with KeyError when log starts with "key", else with ValueError; the message is
    "attempt <n>"."""
    tries = []

    def bad(state):
        tries.append(1)
        kind = KeyError if state["log"] == ["key"] else ValueError
        raise kind(f"attempt {len(tries)}")

    policies = [
        RetryPolicy(initial_interval=0.01, jitter=False, max_attempts=2, retry_on=KeyError),
        RetryPolicy(initial_interval=0.01, jitter=False, max_attempts=4, retry_on=ValueError),
    ]
    return StateGraph(Log).add_node("bad", bad, retry_policy=policies).add_edge(START, "bad")


def luckless(state):
    raise ValueError("no luck")


def recover(state, error: NodeError):
    return {"log": [f"recovered {error.node}: {error.error}"]}


@case("error_handler", [
    invoke(EMPTY),
    stream("updates", EMPTY),
    stream("values", EMPTY),
    stream("tasks", EMPTY),
    stream("debug", EMPTY, saver=True),
    stream(["updates", "custom"], EMPTY),
    stream("updates", EMPTY, subgraphs=True),
])
def error_handler():
    """State {log: appending list}. START, a (appends "a"), bad (raises ValueError("no luck"); its error
    handler appends "recovered <node>: <error>"), c (appends "c"; plain edge from bad). The handler gives no
    goto, so nothing follows: c does not run."""
    g = add(StateGraph(Log), "a")
    g.add_node("bad", luckless, error_handler=recover)
    return edges(add(g, "c"), (START, "a"), ("a", "bad"), ("bad", "c"))


@case("error_handler_goto", [
    invoke(EMPTY),
    stream("updates", EMPTY),
    stream("tasks", EMPTY),
])
def error_handler_goto():
    """As error_handler, but the handler returns Command(update log ["recovered"], goto c), so c runs."""

    def handler(state, error: NodeError):
        return Command(update={"log": ["recovered"]}, goto="c")

    g = add(StateGraph(Log), "a")
    g.add_node("bad", luckless, error_handler=handler)
    return edges(add(g, "c"), (START, "a"), ("a", "bad"))


@case("error_handler_sibling", [
    invoke(EMPTY),
    stream("values", EMPTY),
    stream("updates", EMPTY),
    stream("tasks", EMPTY),
], parallel=True)
def error_handler_sibling():
    """State {log: appending list}. START to bad and slow; bad raises ValueError("no luck") at once, its
    handler appends "recovered <node>: <error>"; slow appends "slow" three turns later. slow to end, which
    appends "end". The step recovers although a sibling ran."""
    g = StateGraph(Log)
    g.add_node("bad", luckless, error_handler=recover)
    g.add_node("slow", writes("slow", 3))
    add(g, "end")
    return edges(g, (START, "bad"), (START, "slow"), ("slow", "end"))


@case("error_handler_fails", [
    invoke(EMPTY),
    stream("updates", EMPTY),
    stream("tasks", EMPTY),
])
def error_handler_fails():
    """State {log: appending list}. START to bad, which raises ValueError("no luck"); its handler raises
    RuntimeError("worse")."""

    def handler(state, error: NodeError):
        raise RuntimeError("worse")

    g = StateGraph(Log)
    g.add_node("bad", luckless, error_handler=handler)
    return edges(g, (START, "bad"))


@case("error_handler_after_retry", [
    invoke(EMPTY),
    stream("updates", EMPTY),
])
def error_handler_after_retry():
    """State {log: appending list}. START to flaky, which fails with ConnectionError("attempt <n>") every time;
    retry policy of 3 attempts; the handler appends "recovered <node>: <error>", so the message says
    attempt 3."""
    tries = []

    def flaky(state):
        tries.append(1)
        raise ConnectionError(f"attempt {len(tries)}")

    g = StateGraph(Log)
    g.add_node("flaky", flaky, retry_policy=QUICK, error_handler=recover)
    return edges(g, (START, "flaky"))


@case("error_handler_default", [
    invoke(EMPTY),
    stream("updates", EMPTY),
])
def error_handler_default():
    """State {log: appending list}. Node defaults set the error handler that appends "recovered <node>:
    <error>". START to bad, which raises ValueError("no luck"); no outgoing edge."""
    g = StateGraph(Log).set_node_defaults(error_handler=recover)
    g.add_node("bad", luckless)
    return edges(g, (START, "bad"))


@case("error_handler_subgraph", [
    invoke(EMPTY),
    stream("updates", EMPTY, subgraphs=True),
])
def error_handler_subgraph():
    """State {log: appending list} in both graphs. Child: START to bad, which raises ValueError("no luck").
    Parent: START to sub (compiled child) with an error handler that appends "recovered <node>: <error>"."""
    child = edges(StateGraph(Log).add_node("bad", luckless), (START, "bad")).compile()
    g = StateGraph(Log)
    g.add_node("sub", child, error_handler=recover)
    return edges(g, (START, "sub"))


N = {"n": 3, "log": []}


@case("node_cache", [
    stream("updates", N, name="first"),
    stream("updates", N, name="second, same input", same_graph=True),
    stream("updates", {"n": 4, "log": []}, name="third, other input", same_graph=True),
    stream("tasks", N, name="tasks, cached", same_graph=True),
    stream(["updates", "values"], N, name="updates and values, cached", same_graph=True),
    stream("updates", N, name="cached v2", same_graph=True, version="v2"),
    invoke(N, name="invoke, cached", same_graph=True),
])
def node_cache():
    """State {n: int, log: appending list}. Compiled with an in-memory cache; the runs share the graph.
    START, slow (input schema {n}, cache policy without expiry; appends "slow <n> call <count of calls so far,
    in this graph object>"), after (appends "after")."""

    class State(TypedDict):
        n: int
        log: Annotated[list, operator.add]

    class OnlyN(TypedDict):
        n: int

    calls = []

    def slow(state: OnlyN):
        calls.append(1)
        return {"log": [f"slow {state['n']} call {len(calls)}"]}

    g = StateGraph(State)
    g.add_node("slow", slow, cache_policy=CachePolicy())
    add(g, "after")
    edges(g, (START, "slow"), ("slow", "after"))
    return g, {"cache": InMemoryCache()}


@case("node_metadata", [
    stream("tasks", EMPTY),
    stream("tasks", EMPTY, name="tasks with run metadata", config={"metadata": {"run": "r"}, "tags": ["t"]}),
])
def node_metadata():
    """State {log: appending list}. START, a (node metadata {kind: "first", level: 1}), b, END; each appends
    its name. The metadata shows in the drawing."""
    g = StateGraph(Log)
    g.add_node("a", writes("a"), metadata={"kind": "first", "level": 1})
    add(g, "b")
    return edges(g, (START, "a"), ("a", "b"), ("b", END))


@case("two_turns", [
    stream("checkpoints", {"log": ["one"]}, name="first turn", saver=True),
    stream("checkpoints", {"log": ["two"]}, name="second turn", saver=True, same_graph=True),
    stream("values", {"log": ["three"]}, name="third turn values", saver=True, same_graph=True),
    stream("debug", {"log": ["four"]}, name="fourth turn debug", saver=True, same_graph=True),
])
def two_turns():
    """State {log: appending list}. START, a, END; a appends its name. The runs use one saver and one
    thread, one after another."""
    return limited("a")
