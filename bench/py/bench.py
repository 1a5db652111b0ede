"""The catalogue on LangGraph for Python. Prints one JSON object per line:
{"name","n","ns_per_op","note"}, and more for some.

    python bench.py [-only chain10,send100] [-once]

-once runs every job once, conversations with few turns: it shows that the work
is done, and its times mean nothing.
"""

import argparse
import asyncio
import gc
import json
import math
import operator
import os
import platform
import random
import sqlite3
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any, Callable

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from typing_extensions import TypedDict

REPETITIONS = 5
REPETITION_NS = 250e6
WARM_UP_NS = 1e9
JOB_NS = 8e9  # the repetitions of one job together
VERSIONS = f"langgraph {version('langgraph')}, python {platform.python_version()}"
# Above every job here: the default would stop the chains.
CONFIG = {"recursion_limit": 100_000}


def thread(name):
    return CONFIG | {"configurable": {"thread_id": name}}


# The list appends. Where nodes run one after another the int is a plain value
# that each node replaces; where they run side by side it is a sum, because two
# writers of a plain value are an error.
class Sequential(TypedDict):
    count: int
    log: Annotated[list, operator.add]


class Parallel(TypedDict):
    count: Annotated[int, operator.add]
    log: Annotated[list, operator.add]


def fresh():
    return {"count": 0, "log": []}


def bump(state):
    n = state["count"] + 1
    return {"count": n, "log": [n]}


def chain(steps, checkpointer=None, node=bump):
    g = StateGraph(Sequential)
    last = START
    for i in range(steps):
        g.add_node(f"n{i}", node)
        g.add_edge(last, f"n{i}")
        last = f"n{i}"
    g.add_edge(last, END)
    return g.compile(checkpointer=checkpointer)


# Where one task runs at a time invoke is faster than ainvoke: it runs the task
# in the caller's thread.
def run_chain(steps):
    g = chain(steps)
    return lambda: g.invoke(fresh(), CONFIG)


# Where many run at once ainvoke is faster: invoke gives each task to a thread.
def run_send(width):
    async def plan(state):
        return {"count": 1, "log": [0]}

    async def worker(task):
        return {"count": 1, "log": [task["index"]]}

    async def fan_out(state):
        return [Send("worker", {"index": i}) for i in range(width)]

    g = StateGraph(Parallel)
    g.add_node("plan", plan)
    g.add_node("worker", worker)
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", fan_out, ["worker"])
    g.add_edge("worker", END)
    compiled = g.compile()
    loop = asyncio.new_event_loop()
    return lambda: loop.run_until_complete(compiled.ainvoke(fresh(), CONFIG))


class Caller(BaseChatModel):
    """Asks for a tool in each of so many rounds and then says that it is done,
    as the model of agents.go. It counts the rounds in the conversation."""

    rounds: int

    @property
    def _llm_type(self):
        return "caller"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        n = (len(messages) - 1) // 2
        if n == self.rounds:
            message = AIMessage(id=f"answer-{n}", content="done")
        else:
            call = {"id": f"call-{n}", "name": "double", "args": {"n": n}, "type": "tool_call"}
            message = AIMessage(id=f"answer-{n}", content="", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


@tool
def double(n: int) -> str:
    """Doubles a number."""
    return str(2 * n)


# create_agent is the successor of create_react_agent, and faster.
def run_react(rounds):
    g = create_agent(Caller(rounds=rounds), [double])
    return lambda: g.invoke({"messages": [HumanMessage("Double the numbers.")]}, CONFIG)


# The jobs that save are measured by trials: each does the whole job once, with
# a new file, and returns its costs. Durability is the default, "async", which
# is faster than "sync".


class File:
    """A saver with a file of its own. The saver turns on WAL; synchronous=NORMAL
    is our setting too."""

    def __enter__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="langgraph-bench")
        self.path = os.path.join(self.dir.name, "threads.db")
        self.conn = sqlite3.connect(self.path, check_same_thread=False)
        self.saver = SqliteSaver(self.conn)
        self.saver.setup()
        self.conn.execute("PRAGMA synchronous=NORMAL")
        return self

    def __exit__(self, *_):
        self.conn.close()
        self.dir.cleanup()

    def size(self):
        self.conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return os.path.getsize(self.path)


def median(took):
    return sorted(took)[(len(took) - 1) // 2]


# The time of a step is from the start of a node to that of the next.
def try_chain(job):
    took, last = [], None

    def node(state):
        nonlocal last
        now = time.perf_counter_ns()
        if last is not None:
            took.append(now - last)
        last = now
        return bump(state)

    with File() as file:
        g = chain(job.want, file.saver, node)
        for i in range(6):
            last = None
            job.check(g.invoke(fresh(), thread(f"t{i}")))
            if i == 0:  # the warm-up
                took.clear()
                saved = sum(1 for _ in file.saver.list(thread("t0")))
                if saved < job.want:
                    raise AssertionError(f"{job.name}: {saved} checkpoints were saved in {job.want} steps")
    return {"ns_per_op": median(took)}


WORDS = (
    "a treadle turns the wheel and every thread goes through the loom that stands"
    " in this long room where nobody has spoken since the evening bell"
).split()


class Talk:
    """The conversation of history.go: messages of 400 characters, one of a person
    and one of a model per turn. They are dicts in a list that appends, which
    costs less than message classes and their reducer."""

    def __init__(self, saver, messages):
        self.random = random.Random(1)
        self.raw = 0  # bytes of the messages' JSON so far
        State = TypedDict("State", {"messages": messages})
        g = StateGraph(State)
        g.add_node("model", lambda state: {"messages": [self.say("ai")]})
        g.add_edge(START, "model")
        g.add_edge("model", END)
        self.graph = g.compile(checkpointer=saver)

    def say(self, kind):
        content = ""
        while len(content) < 400:
            content += self.random.choice(WORDS) + " "
        message = {"type": kind, "id": f"{self.random.getrandbits(128):032x}", "content": content[:400]}
        self.raw += len(json.dumps(message, separators=(",", ":")))
        return message

    def turn(self):
        self.graph.invoke({"messages": [self.say("human")]}, thread("talk"))


def converse(job, messages):
    with File() as file:
        talk = Talk(file.saver, messages)
        took = []
        for _ in range(job.n):
            start = time.perf_counter_ns()
            talk.turn()
            took.append(time.perf_counter_ns() - start)
        job.check(talk.graph.get_state(thread("talk")).values)

        def at(n):
            return median(took[n - 10 : n])

        return {
            "ns_per_op": at(job.n),
            "turn10_ns": at(10),
            "turn100_ns": at(min(100, job.n)),
            "bytes_per_op": file.size(),
            "raw_bytes": talk.raw,
        }


def append_all(messages, writes):
    return [*messages, *(m for w in writes for m in w)]


# DeltaChannel stores only what a step adds, and a turn replays it. It is in
# beta and takes longer per turn, so the plain list is the one compared, and
# the note says what the other takes.
def try_history(job):
    got = converse(job, Annotated[list, operator.add])
    delta = converse(job, Annotated[list, DeltaChannel(append_all)])
    got["note"] = (
        f"with DeltaChannel (beta) turn {job.n} takes {delta['ns_per_op'] / 1e6:.3g} ms"
        f" and the thread {delta['bytes_per_op'] / 1e6:.3g} MB"
    )
    return got


@dataclass
class Job:
    """want is how many nodes run: the final int and the length of the list; of
    a conversation, the messages. build returns a function that runs the job
    once; trial runs it and measures by itself."""

    name: str
    n: int
    want: int
    build: Callable[[], Callable[[], Any]] | None = None
    trial: Callable[["Job"], dict] | None = None
    trials: int = 1
    note: str = ""

    def check(self, state):
        if "messages" in state:
            if len(state["messages"]) != self.want:
                raise AssertionError(f"{self.name}: there are {len(state['messages'])} messages, want {self.want}")
        elif state["count"] != self.want or len(state["log"]) != self.want:
            raise AssertionError(
                f"{self.name}: the final state has int {state['count']} and {len(state['log'])} list items,"
                f" want {self.want} of both"
            )


JOBS = [
    Job("chain10", 10, 10, lambda: run_chain(10)),
    Job("chain100", 100, 100, lambda: run_chain(100)),
    Job("chain1000", 1000, 1000, lambda: run_chain(1000)),
    Job("send100", 100, 101, lambda: run_send(100), note="ainvoke, faster here than invoke"),
    Job("send1000", 1000, 1001, lambda: run_send(1000), note="ainvoke, faster here than invoke"),
    Job("chain100_sqlite", 100, 100, trial=try_chain, trials=3),
    Job("history500_sqlite", 500, 1000, trial=try_history),
    Job("react10", 10, 22, lambda: run_react(10)),
    Job("react100", 100, 202, lambda: run_react(100)),
]


def time_runs(job, run, runs):
    gc.collect()
    start = time.perf_counter_ns()
    for _ in range(runs):
        job.check(run())
    return (time.perf_counter_ns() - start) / runs


def measure(job):
    """The first run shows that the job is done right and how long a run takes.
    A job of which one run takes seconds gets fewer repetitions, and its note
    says so."""
    if job.trial:
        all = sorted((job.trial(job) for _ in range(job.trials)), key=lambda got: got["ns_per_op"])
        return line(job, all[(len(all) - 1) // 2], f"median of {job.trials}")
    run = job.build()
    per_run = time_runs(job, run, 1)
    if per_run < REPETITION_NS:
        per_run = time_runs(job, run, math.ceil(WARM_UP_NS / per_run))
    runs = max(1, round(REPETITION_NS / per_run))
    repetitions = min(REPETITIONS, max(1, int(JOB_NS / (runs * per_run))))
    took = median([time_runs(job, run, runs) for _ in range(repetitions)])
    return line(job, {"ns_per_op": took / job.n}, f"median of {repetitions}")


def once(job):
    if job.trial is try_history:
        few = Job(job.name, 20, 40)
        return line(job, try_history(few), "once, 20 turns")
    if job.trial:
        return line(job, job.trial(job), "once")
    run = job.build()
    # Twice: a compiled graph must start afresh each time.
    return line(job, {"ns_per_op": (time_runs(job, run, 2)) / job.n}, "once")


def line(job, got, how):
    note = ", ".join(filter(None, [VERSIONS, how, job.note, got.get("note")]))
    return {"name": job.name, "n": job.n} | got | {"note": note}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-only", metavar="names", help="parted by commas")
    parser.add_argument("-once", action="store_true")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else [j.name for j in JOBS]
    known = {j.name: j for j in JOBS}
    if unknown := [n for n in names if n not in known]:
        parser.error(f"unknown names {', '.join(unknown)}; known: {', '.join(known)}")
    if not args.once:
        # The interpreter specializes code that has run; without this the first
        # job would pay for that, whichever it is.
        time_runs(JOBS[0], JOBS[0].build(), 200)
    for job in JOBS:
        if job.name in names:
            print(json.dumps(once(job) if args.once else measure(job)), flush=True)


if __name__ == "__main__":
    main()
