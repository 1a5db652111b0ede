"""Scripts about the functional API: entrypoints and tasks."""

from __future__ import annotations

from langgraph.cache.memory import InMemoryCache
from langgraph.func import entrypoint, task
from langgraph.types import CachePolicy, RetryPolicy, StreamWriter, interrupt

from .interrupts import line, named, nest, text_asks, texts
from .kit import pace
from .scripts import (
    answers,
    enter,
    go_on,
    history,
    resume,
    run,
    script,
    state,
    update,
)


@script(
    "func_essay",
    [
        run("cat", stream="updates"),
        state(),
        history(),
        resume(True, stream="updates"),
        state(),
        history(),
    ],
)
def func_essay(saver):
    """Task write_essay(topic) gives "An essay about topic: <topic>". Entrypoint workflow calls it and
    asks {essay, action: "Please approve/reject the essay"}; it returns {essay, is_approved}. The task
    is not run again."""

    @task
    def write_essay(topic):
        enter("write_essay")
        return f"An essay about topic: {topic}"

    @entrypoint(checkpointer=saver)
    def workflow(topic):
        enter("workflow")
        essay = write_essay(topic).result()
        approved = interrupt({"essay": essay, "action": "Please approve/reject the essay"})
        return {"essay": essay, "is_approved": approved}

    return workflow


@script("func_plain", [run({"value": 1, "another_value": 2}), state(), history(), go_on()])
def func_plain(saver):
    """Entrypoint workflow of {value, another_value} returns their sum."""

    @entrypoint(checkpointer=saver)
    def workflow(inputs):
        enter("workflow")
        return inputs["value"] + inputs["another_value"]

    return workflow


@script("func_previous", [run(1), run(2), state(), run(5), history()])
def func_previous(saver):
    """Entrypoint workflow of a number returns it plus the previous result (or 0)."""

    @entrypoint(checkpointer=saver)
    def workflow(number, *, previous=None):
        enter("workflow")
        return number + (previous or 0)

    return workflow


@script("func_final", [run(3), state(), run(1), state(), history()])
def func_final(saver):
    """Entrypoint workflow of a number returns the saved value (or 0) and saves twice the number."""

    @entrypoint(checkpointer=saver)
    def workflow(number, *, previous=None):
        enter("workflow")
        return entrypoint.final(value=previous or 0, save=2 * number)

    return workflow


@script("func_update", [run(1), update(10), state(), run(5), state()])
def func_update(saver):
    """Entrypoint workflow of a number returns it plus the previous result (or 0). An update of the
    thread sets the result and what is saved."""

    @entrypoint(checkpointer=saver)
    def workflow(number, *, previous=None):
        enter("workflow")
        return number + (previous or 0)

    return workflow


@script(
    "func_parallel",
    [run([1, 2, 3]), run([4, 5, 6], stream="updates"), state()],
    parallel=True,
)
def func_parallel(saver):
    """Task add_one(n), the n-th finishing n turns later; entrypoint workflow calls it for all numbers
    at once and returns the list of results."""

    @task
    def add_one(n):
        enter(f"add_one {n}")
        pace(n % 4)
        return n + 1

    @entrypoint(checkpointer=saver)
    def workflow(numbers):
        enter("workflow")
        return [f.result() for f in [add_one(n) for n in numbers]]

    return workflow


@script(
    "func_fails",
    [run({"any": "x"}), state(), go_on(), state(), history()],
)
def func_fails(saver):
    """Task slow gives "Ran slow task."; task info fails with "Failure" the first time and gives "OK"
    then. Entrypoint main calls slow, then info, and returns what slow gave. Going on runs main and info
    again, not slow."""
    tries = []

    @task
    def slow():
        enter("slow")
        return "Ran slow task."

    @task
    def info():
        enter("info")
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("Failure")
        return "OK"

    @entrypoint(checkpointer=saver)
    def main(inputs):
        enter("main")
        first = slow().result()
        info().result()
        return first

    return main


@script("func_caught", [run("x", stream="updates"), state()])
def func_caught(saver):
    """Task bad fails with "no"; entrypoint main catches that and returns "caught: no"."""

    @task
    def bad():
        enter("bad")
        raise ValueError("no")

    @entrypoint(checkpointer=saver)
    def main(inputs):
        enter("main")
        try:
            bad().result()
        except ValueError as err:
            return f"caught: {err}"

    return main


@script("func_retry", [run("x"), state()])
def func_retry(saver):
    """Task info fails with "Failure" the first time and gives "OK" then; it has a retry policy for
    ValueError (initial interval 10 ms). Entrypoint main returns what it gives."""
    tries = []

    @task(retry_policy=RetryPolicy(retry_on=ValueError, initial_interval=0.01, jitter=False))
    def info():
        enter("info")
        tries.append(1)
        if len(tries) < 2:
            raise ValueError("Failure")
        return "OK"

    @entrypoint(checkpointer=saver)
    def main(inputs):
        enter("main")
        return info().result()

    return main


@script("func_cache", [run(2), run(2, stream="updates"), run(3), run(2)])
def func_cache(saver):
    """Task double(n) has a cache; entrypoint main returns double(n) plus 1. Later turns with the same
    number do not run it."""

    @task(cache_policy=CachePolicy())
    def double(n):
        enter(f"double {n}")
        return 2 * n

    @entrypoint(checkpointer=saver, cache=InMemoryCache())
    def main(n):
        enter("main")
        return double(n).result() + 1

    return main


@script(
    "func_nested_tasks",
    [run(1, stream="updates"), state(), resume("yes", stream="updates"), state()],
)
def func_nested_tasks(saver):
    """Task inner(n) gives n+1; task outer(n) gives inner(n) times 10; entrypoint main calls outer,
    asks "ok?" and returns "<result> <answer>". Tasks are not run again."""

    @task
    def inner(n):
        enter("inner")
        return n + 1

    @task
    def outer(n):
        enter("outer")
        return inner(n).result() * 10

    @entrypoint(checkpointer=saver)
    def main(n):
        enter("main")
        got = outer(n).result()
        return f"{got} {interrupt('ok?')}"

    return main


@script(
    "func_task_asks",
    [run("x"), state(), resume("yes"), state(), history()],
)
def func_task_asks(saver):
    """Task before gives "before"; task ask asks "ask?" and gives "ask:<answer>". Entrypoint main calls
    before, then ask, and returns both as a list. before is not run again, ask is."""

    @task
    def before():
        enter("before")
        return "before"

    @task
    def ask():
        enter("ask")
        return f"ask:{interrupt('ask?')}"

    @entrypoint(checkpointer=saver)
    def main(inputs):
        enter("main")
        return [before().result(), ask().result()]

    return main


@script(
    "func_two_questions",
    [run("x"), resume("one"), state(), resume("two"), state()],
)
def func_two_questions(saver):
    """Task step(name) gives its name. Entrypoint main calls step("a"), asks "first?", calls step("b"),
    asks "second?" and returns a list of all four."""

    @task
    def step(name):
        enter(f"step {name}")
        return name

    @entrypoint(checkpointer=saver)
    def main(inputs):
        enter("main")
        return [
            step("a").result(),
            interrupt("first?"),
            step("b").result(),
            interrupt("second?"),
        ]

    return main


@script(
    "func_parallel_asks",
    [
        run("x"),
        state(),
        resume("one"),
        answers({1: "one"}),
        state(),
        answers({2: "two"}),
        state(),
    ],
    parallel=True,
)
def func_parallel_asks(saver):
    """Task ask(name) asks "<name>?" and gives "<name>:<answer>". Entrypoint main starts ask("p") and
    ask("q"), q a turn later, and returns both results. Upstream shows the questions one at a time."""

    @task
    def ask(name, turn):
        enter(f"ask {name}")
        pace(turn)
        return f"{name}:{interrupt(name + '?')}"

    @entrypoint(checkpointer=saver)
    def main(inputs):
        enter("main")
        futures = [ask("p", 0), ask("q", 1)]
        return [f.result() for f in futures]

    return main


@script(
    "func_calls_graph",
    [run("in"), state(), resume("yes"), state()],
)
def func_calls_graph(saver):
    """Entrypoint main runs the graph sub (c, ask) on {text: input} and returns its text with " done"
    appended. ask asks "ask?"; c is not run again."""
    sub = nest(*named(texts("c"), text_asks("ask"))).compile()

    @entrypoint(checkpointer=saver)
    def main(text):
        enter("main")
        return sub.invoke({"text": text})["text"] + " done"

    return main


@script("func_calls_two_graphs", [run("in"), state()])
def func_calls_two_graphs(saver):
    """Entrypoint main runs the graph one (node c) and the graph two (node d) on {text: input} and
    returns {result_1, result_2}, their texts."""
    one = nest(*named(texts("c"))).compile()
    two = nest(*named(texts("d"))).compile()

    @entrypoint(checkpointer=saver)
    def main(text):
        enter("main")
        first = one.invoke({"text": text})["text"]
        return {"result_1": first, "result_2": two.invoke({"text": text})["text"]}

    return main


@script("func_calls_workflow", [run({"value": 1}), resume("yes"), state()])
def func_calls_workflow(saver):
    """Entrypoint inner asks "ok?" and returns "<value> <answer>"; entrypoint main runs inner on its
    input and returns what it gives in brackets. inner has no saver of its own."""

    @entrypoint()
    def inner(inputs):
        enter("inner")
        return f"{inputs['value']} {interrupt('ok?')}"

    @entrypoint(checkpointer=saver)
    def main(inputs):
        enter("main")
        return f"[{inner.invoke(inputs)}]"

    return main


@script(
    "func_stream",
    [run({"number": 1}, stream=["custom", "updates"]), run({"number": 2}, stream="values")],
)
def func_stream(saver):
    """Tasks add_one and add_two; entrypoint main writes "hello" to the custom stream, calls add_one,
    writes "world", calls add_two, and returns 5."""

    @task
    def add_one(x):
        return x + 1

    @task
    def add_two(x):
        return x + 2

    @entrypoint(checkpointer=saver)
    def main(inputs, writer: StreamWriter):
        writer("hello")
        add_one(inputs["number"]).result()
        writer("world")
        add_two(inputs["number"]).result()
        return 5

    return main


@script(
    "func_tasks_stream",
    [run(1, stream="tasks"), resume("yes", stream="tasks")],
)
def func_tasks_stream(saver):
    """Task add_one(n); entrypoint main calls it, asks "ok?" and returns "<result> <answer>". Streamed
    as tasks."""

    @task
    def add_one(n):
        return n + 1

    @entrypoint(checkpointer=saver)
    def main(n):
        return f"{add_one(n).result()} {interrupt('ok?')}"

    return main


@script("func_body_effect", [run("x"), resume("yes"), state()])
def func_body_effect(saver):
    """Entrypoint main has an effect in its body (it runs twice) and one in task effect (it runs once);
    then it asks "question" and returns the answer."""

    @task
    def effect():
        enter("effect in a task")

    @entrypoint(checkpointer=saver)
    def main(inputs):
        enter("effect in the body")
        effect().result()
        return interrupt("question")

    return main


@script("func_random", [run("x"), resume("yes"), state()])
def func_random(saver):
    """Task draw gives 5, then 7, and so on; entrypoint main draws in a task and, from another such
    source, in its body; it asks the body's number and returns "<task's> <body's> <answer>"."""
    ours, theirs = iter([5, 7, 9]), iter([5, 7, 9])

    @task
    def draw():
        enter("draw")
        return next(ours)

    @entrypoint(checkpointer=saver)
    def main(inputs):
        enter("main")
        safe, unsafe = draw().result(), next(theirs)
        return f"{safe} {unsafe} {interrupt('question')}"

    return main


@script("func_replay", [run(1), run(2), go_on(at=1), state(), history()])
def func_replay(saver):
    """Entrypoint workflow of a number returns it plus the previous result (or 0). Replay from the input
    of the second turn: it runs again."""

    @entrypoint(checkpointer=saver)
    def workflow(number, *, previous=None):
        enter("workflow")
        return number + (previous or 0)

    return workflow


@script(
    "func_replay_tasks",
    [run(1), resume("yes"), go_on(at=1), state(), resume("no"), state()],
)
def func_replay_tasks(saver):
    """Task add_one(n); entrypoint main calls it, asks "ok?" and returns "<result> <answer>". After the
    answer, replay from where it was asked."""

    @task
    def add_one(n):
        enter("add_one")
        return n + 1

    @entrypoint(checkpointer=saver)
    def main(n):
        enter("main")
        return f"{add_one(n).result()} {interrupt('ok?')}"

    return main


@script(
    "task_in_node",
    [run({"log": ["in"]}, stream="updates"), state(), resume("yes", stream="updates"), state()],
)
def task_in_node(saver):
    """Graph over log: node work calls task slow, which gives "slow", asks "ok?" and logs "slow:<answer>".
    The task is not run again."""

    @task
    def slow():
        enter("slow")
        return "slow"

    def work(s):
        enter("work")
        got = slow().result()
        return {"log": [f"{got}:{interrupt('ok?')}"]}

    return line(work).compile(checkpointer=saver)


@script("func_loop", [run("go"), resume("a"), resume("b"), resume("stop"), state()])
def func_loop(saver):
    """Task shout(word) gives it in upper case. Entrypoint main asks "word?" and shouts the answer until
    it is "stop"; it returns the list of shouts."""

    @task
    def shout(word):
        enter(f"shout {word}")
        return word.upper()

    @entrypoint(checkpointer=saver)
    def main(inputs):
        enter("main")
        out = []
        while (word := interrupt("word?")) != "stop":
            out.append(shout(word).result())
        return out

    return main


@script("func_new_input", [run("x"), run("y"), resume("yes"), state()])
def func_new_input(saver):
    """Task note(word) gives the word; entrypoint main notes its input, asks "ok?" and returns
    "<word> <answer>". A new input gives up the question."""

    @task
    def note(word):
        enter(f"note {word}")
        return word

    @entrypoint(checkpointer=saver)
    def main(word):
        enter("main")
        return f"{note(word).result()} {interrupt('ok?')}"

    return main
