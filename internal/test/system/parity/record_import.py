"""Save threads with LangGraph's own savers, for the tests of the import.

Usage: python internal/test/system/parity/record_import.py --postgres URL [-o DIR] [script ...]

Plays the scripts of internal/test/system/parity/graphs up to some operation on a thread in an SQLite file, and
some of them in Postgres too, and leaves the threads there. Then it plays the rest of the
script on a copy, and compares with what internal/test/system/parity/record.py has recorded: what the thread has
to give when it is continued elsewhere.

Writes langgraph.sqlite.gz (also the items of a store), postgres.json.gz (the rows of the tables),
threads.json (which thread is which script, up to which operation) and messages.json (the recording of a script that is only here).
"""

from __future__ import annotations

import argparse
import base64
import gzip
import json
import logging
import os
import sqlite3
import sys
import warnings
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import record  # noqa: E402 (starts itself again with a fixed hash seed)
from graphs.scripts import SCRIPTS, Op, Player  # noqa: E402
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage  # noqa: E402
from langgraph.checkpoint.postgres import PostgresSaver  # noqa: E402
from langgraph.checkpoint.sqlite import SqliteSaver  # noqa: E402
from langgraph.graph import START, MessagesState, StateGraph  # noqa: E402
from langgraph.store.postgres import PostgresStore  # noqa: E402
from langgraph.store.sqlite import SqliteStore  # noqa: E402
from langgraph.types import interrupt  # noqa: E402

from graphs.scripts import enter, history, resume, run, script, state  # noqa: E402

TABLES = ["checkpoints", "checkpoint_blobs", "checkpoint_writes", "store"]

# Not saved: scripts whose nodes count their calls, which begins anew in another process; those of which
# Treadle keeps more or less than LangGraph (docs/parity/recorded.md), so that what is recorded for its
# own threads is not what an imported one gives; and those without a thread.
SKIP = {
    "fail_branch", "fail_continue", "fail_nested", "fail_new_input", "fail_sends", "fail_sibling",
    "fail_sibling_update", "interrupt_sibling_fails", "interrupt_then_fails", "b18_called_counters",
    "durable_exit_fails", "b17_side_effects", "func_fails", "func_retry", "func_random", "func_cache",
    "limit_continue", "fail_conflict",
    "command_turns", "interrupt_null_answer", "untracked_turns", "nested_lasting_interrupt@8",
    "no_thread",
}

# Saved for the tests of what cannot be converted.
INCOMPLETE = {"func_parallel_asks", "func_task_asks", "interrupt_command@2"}


@script(
    "messages",
    [
        run({"messages": [HumanMessage("Refund order 42, please.", id="h1")]}),
        state(),
        resume("yes"),
        history(),
        run({"messages": [HumanMessage("Thank you.", id="h2")]}),
        resume("no"),
    ],
)
def messages(saver):
    """A chat over messages. model answers with a call of the tool refund, tool asks
    {"refund": <order>} and answers with a tool message "refunded" if the answer is yes, else
    "refused"; done answers with the number of messages."""

    def model(s):
        enter("model")
        call = {"name": "refund", "args": {"order": 42}, "id": f"call{len(s['messages'])}", "type": "tool_call"}
        usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        return {"messages": [AIMessage("", id=f"a{len(s['messages'])}", tool_calls=[call], usage_metadata=usage, response_metadata={"model_name": "m"})]}

    def tool(s):
        enter("tool")
        call = s["messages"][-1].tool_calls[0]
        answer = interrupt({"refund": call["args"]["order"]})
        text = "refunded" if answer == "yes" else "refused"
        return {"messages": ToolMessage(text, id="t" + call["id"], tool_call_id=call["id"], name="refund")}

    def done(s):
        enter("done")
        n = len(s["messages"])
        return {"messages": [AIMessage([{"type": "text", "text": f"{n} messages"}], id=f"d{n}")]}

    b = StateGraph(MessagesState)
    for node in (model, tool, done):
        b.add_node(node.__name__, node)
    for a, z in ((START, "model"), ("model", "tool"), ("tool", "done")):
        b.add_edge(a, z)
    return b.compile(checkpointer=saver)


class Playing(Player):
    """A player with another saver and thread."""

    def __init__(self, script, saver, thread):
        self.script, self.to_json, self.error = script, record.plain, record.error
        self.saver, self.graph = saver, script.build(saver)
        self.base = {"configurable": {"thread_id": thread}}
        self.numbers = {}

    def one(self, op: Op) -> dict:
        from graphs import scripts

        rec = {"op": op.op, "args": self.to_json(op.args)}
        scripts._entered.clear()
        try:
            self.do(op, rec)
        except Exception as err:
            rec["error"] = {k: v for k, v in self.error(err).items() if k != "$type"}
            rec.pop("output", None)
        rec["entered"] = sorted(scripts._entered) if self.script.parallel else list(scripts._entered)
        return json.loads(json.dumps(rec))


CHANGES = {"run", "continue", "resume", "command", "update", "bulk"}


def cuts(ops):
    """Where to stop: after an operation that changes the thread and before another."""
    return [
        i + 1
        for i, op in enumerate(ops)
        if op.op in CHANGES and "stream" not in op.args and any(o.op in CHANGES for o in ops[i + 1 :])
    ]


def sqlite_saver(path):
    conn = sqlite3.connect(path, check_same_thread=False)
    return conn, SqliteSaver(conn)


def fill(store):
    store.put(("users", "7"), "name", {"text": "Ann", "n": 1})
    store.put(("users", "7"), "name", {"text": "Ann", "n": 2})
    store.put(("users", "8", "notes"), "a/b", {"list": [1, 2.5, None, True], "text": "ü"})
    store.put(("short",), "gone", {"x": 1}, ttl=0.0001)
    store.put(("short",), "long", {"x": 1}, ttl=60 * 24 * 365 * 100)


def plain_rows(conn, table):
    cur = conn.execute(f"select * from {table}")
    names = [c.name for c in cur.description]
    rows = []
    for r in cur.fetchall():
        r = r.values() if isinstance(r, dict) else r
        rows.append([
            {"b": base64.b64encode(v).decode()} if isinstance(v, (bytes, memoryview))
            else v if isinstance(v, (int, float, str, type(None), dict, list)) else v.isoformat() if hasattr(v, "isoformat") else str(v)
            for v in r
        ])
    return {"columns": names, "rows": rows}


def pack(path, data):
    path.write_bytes(gzip.compress(data, mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--out", type=Path, default=HERE / "fixtures" / "import")
    parser.add_argument("--postgres", required=True)
    parser.add_argument("scripts", nargs="*")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for module in record.SCRIPT_MODULES:
        import_module(f"graphs.{module}")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / "langgraph.sqlite"
    for old in args.out.glob("langgraph.sqlite*"):
        old.unlink()
    conn, saver = sqlite_saver(path)
    threads, differs = [], []
    pg = PostgresSaver.from_conn_string(args.postgres)
    pgsaver = pg.__enter__()
    for t in TABLES + ["checkpoint_migrations", "store_migrations"]:
        pgsaver.conn.execute(f"drop table if exists {t} cascade")
    pgsaver.setup()
    for name in sorted(SCRIPTS) if not args.scripts else args.scripts:
        if name in SKIP:
            continue
        s = SCRIPTS[name]
        if name == "messages":
            mem = Playing(s, __import__("langgraph.checkpoint.memory", fromlist=["InMemorySaver"]).InMemorySaver(), "t1")
            recorded = [mem.one(op) for op in s.ops]
            (args.out / "messages.json").write_text(json.dumps({**record.header(s), "ops": recorded}, indent=1, ensure_ascii=False) + "\n")
        else:
            recorded = json.loads((HERE / "fixtures" / "threads" / f"{name}.json").read_text())["ops"]
        for cut in cuts(s.ops):
            thread = f"{name}@{cut}"
            if thread in SKIP:
                continue
            play = Playing(s, saver, thread)
            for op in s.ops[:cut]:
                play.one(op)
            conn.commit()
            # continue on a copy
            copy = sqlite3.connect(":memory:", check_same_thread=False)
            conn.backup(copy)
            play.saver = SqliteSaver(copy)
            play.graph.checkpointer = play.saver
            got = [play.one(op) for op in s.ops[cut:]]
            if got != recorded[cut:] and not s.parallel:
                differs.append(thread)
            copy.close()
            both = Playing(s, pgsaver, thread)
            for op in s.ops[:cut]:
                both.one(op)
            threads.append({"thread": thread, "script": name, "cut": cut})
            if name in INCOMPLETE or thread in INCOMPLETE:
                threads[-1]["incomplete"] = True
    conn.commit()
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        fill(store)
    conn.execute("pragma journal_mode=delete")
    conn.execute("vacuum")
    conn.close()
    with PostgresStore.from_conn_string(args.postgres) as store:
        store.setup()
        fill(store)
    tables = {t: plain_rows(pgsaver.conn, t) for t in TABLES}
    lines = ",\n".join(
        f'"{t}": {{"columns": {json.dumps(d["columns"])}, "rows": [\n' + ",\n".join(json.dumps(r, ensure_ascii=False) for r in d["rows"]) + "\n]}"
        for t, d in tables.items()
    )
    pack(args.out / "postgres.json.gz", ("{" + lines + "}\n").encode())
    pack(args.out / "langgraph.sqlite.gz", path.read_bytes())
    path.unlink()
    (args.out / "threads.json").write_text("[\n" + ",\n".join(json.dumps(t) for t in threads) + "\n]\n")
    print(len(threads), "threads;", "continued otherwise by Python with this saver:", differs)


if __name__ == "__main__":
    main()
