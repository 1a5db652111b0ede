"""Record what the Python library does with the graphs in internal/test/system/parity/graphs.

Usage: python internal/test/system/parity/record.py [-o DIR] [case ...]
Writes one JSON file per case. See internal/test/system/parity/README.md for the format.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import enum
import hashlib
import inspect
import json
import logging
import os
import re
import sys
import warnings
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

if os.environ.get("PYTHONHASHSEED") != "0":
    # Plain edges are kept in sets upstream, so the hash seed must not vary.
    os.execve(
        sys.executable,
        [sys.executable, *sys.argv],
        {**os.environ, "PYTHONHASHSEED": "0", "LANGSMITH_TRACING": "false"},
    )

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from langchain_core.messages import BaseMessage  # noqa: E402
from langgraph.checkpoint.memory import InMemorySaver  # noqa: E402
from langgraph.types import GraphOutput, Overwrite, Send  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from graphs.kit import CASES, Case, Run  # noqa: E402
from graphs.scripts import SCRIPTS, Player, Script  # noqa: E402

MODULES = "samples edges sends commands nested channels flow streaming".split()
SCRIPT_MODULES = "interrupts breaks travel lasting functional hitl".split()
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)")
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def mask(text: str) -> str:
    return ADDRESS.sub("<addr>", TIME.sub("<ts>", UUID.sub("<id>", text)))


def plain(value):
    """Turn a Python value into JSON. Tuples become lists; objects carry "$type"."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {
            (mask(k) if isinstance(k, str) else str(k)): plain(v) for k, v in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(v) for v in value)
    if isinstance(value, type):
        return {"$type": "type", "name": value.__name__}
    if isinstance(value, BaseException):
        return error(value)
    name = type(value).__name__
    if isinstance(value, BaseMessage):
        return {"$type": name, **plain(value.model_dump())}
    if isinstance(value, BaseModel):
        return {"$type": name, **{k: plain(getattr(value, k)) for k in type(value).model_fields}}
    if isinstance(value, Send):
        return {"$type": "Send", "node": value.node, "arg": plain(value.arg)}
    if isinstance(value, Overwrite):
        return {"$type": "Overwrite", "value": plain(value.value)}
    if isinstance(value, GraphOutput):
        return {
            "$type": "GraphOutput",
            "value": plain(value.value),
            "interrupts": plain(value.interrupts),
        }
    if dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"$type": name, **plain(fields)}
    raise TypeError(f"cannot record a {name}")


def error(err: BaseException) -> dict:
    return {"$type": "error", "type": type(err).__name__, "message": mask(str(err))}


def compiled(case: Case, saver: bool):
    built = case.build()
    builder, options = built if isinstance(built, tuple) else (built, {})
    if saver:
        options = {**options, "checkpointer": InMemorySaver()}
    return builder.compile(**options)


def options_of(run: Run) -> tuple[dict, dict]:
    """The keyword arguments of the call, and the same as recorded."""
    config = dict(run.config)
    if run.saver:
        config["configurable"] = {"thread_id": "t1", **config.get("configurable", {})}
    kwargs, noted = {}, {"method": run.method}
    if config:
        kwargs["config"] = config
        noted["config"] = plain(config)
    if run.context is not None:
        kwargs["context"] = run.context
        noted["context"] = plain(run.context)
    if run.method == "events":
        kwargs["version"] = "v2"
        noted["events_version"] = "v2"
    else:
        if run.mode is not None:
            kwargs["stream_mode"] = run.mode
            noted["stream_mode"] = run.mode
        if run.version != "v1":
            kwargs["version"] = run.version
        noted["version"] = run.version
        if run.method == "stream":
            kwargs["subgraphs"] = run.subgraphs
            noted["subgraphs"] = run.subgraphs
    kwargs.update(run.extra)
    noted.update(plain(run.extra))
    if run.saver:
        noted["checkpointer"] = "memory"
    if run.same_graph:
        noted["same_graph"] = True
    return kwargs, noted


async def collect_events(graph, input, kwargs, out: list) -> None:
    async for e in graph.astream_events(input, **kwargs):
        out.append(
            {k: plain(e[k]) for k in ("event", "name", "tags", "metadata", "data") if k in e}
        )


def play(case: Case, run: Run, graph) -> dict:
    kwargs, noted = options_of(run)
    rec = {"name": run.name, "input": plain(run.input), "options": noted}
    unordered = run.unordered
    if unordered is None:
        unordered = case.parallel and run.method != "invoke" and run.mode != "values"
    if unordered:
        rec["unordered"] = True
    chunks: list = []
    try:
        if run.method == "invoke":
            rec["output"] = plain(graph.invoke(run.input, **kwargs))
        elif run.method == "stream":
            rec["chunks"] = chunks
            for chunk in graph.stream(run.input, **kwargs):
                chunks.append(plain(chunk))
        else:
            rec["chunks"] = chunks
            asyncio.run(collect_events(graph, run.input, kwargs, chunks))
    except Exception as err:
        rec["error"] = {k: v for k, v in error(err).items() if k != "$type"}
    return rec


def drawings(graph) -> dict:
    """Mermaid and JSON of the graph; for nested graphs also opened one and two levels."""
    first = graph.get_graph()
    out = {"mermaid": first.draw_mermaid(), "graph_json": plain(first.to_json())}
    depth = max(
        (name.count("|") + 1 for name, _ in graph.get_subgraphs(recurse=True)), default=0
    )
    for level in range(1, min(depth, 2) + 1):
        try:
            opened = graph.get_graph(xray=level)
            out[f"mermaid_xray{level}"] = opened.draw_mermaid()
            out[f"graph_json_xray{level}"] = plain(opened.to_json())
        except Exception as err:
            out[f"error_xray{level}"] = error(err)
    return out


def header(case: Case | Script) -> dict:
    source = inspect.getsource(case.build)
    return {
        "langgraph_version": version("langgraph"),
        "script_sha256": hashlib.sha256(source.encode()).hexdigest(),
        "graph": case.name,
        "description": " ".join((case.build.__doc__ or "").split()),
    }


def record_script(script: Script) -> dict:
    fixture = {**header(script), "ops": Player(script, plain, error).play()}
    if script.parallel:
        fixture["unordered"] = True
    return fixture


def record(case: Case) -> dict:
    fixture = header(case)
    try:
        graph = compiled(case, False)
    except Exception as err:
        rec = {k: v for k, v in error(err).items() if k != "$type"}
        fixture["runs"] = [
            {"name": "compile", "input": None, "options": {"method": "compile"}, "error": rec}
        ]
        return fixture
    fixture.update(drawings(graph))
    fixture["runs"] = []
    for run in case.runs:
        if not run.same_graph:
            graph = compiled(case, run.saver)
        fixture["runs"].append(play(case, run, graph))
    return fixture


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--out", type=Path, default=HERE / "fixtures")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    for module in MODULES + SCRIPT_MODULES:
        import_module(f"graphs.{module}")
    if args.cases == ["threads"]:
        args.cases = sorted(SCRIPTS)
    threads = args.out / "threads"
    threads.mkdir(parents=True, exist_ok=True)
    if not args.cases:
        for old in [*args.out.glob("*.json"), *threads.glob("*.json")]:
            old.unlink()
    runs = 0
    for name in args.cases or [*sorted(CASES), *sorted(SCRIPTS)]:
        if name in SCRIPTS:
            fixture, folder = record_script(SCRIPTS[name]), threads
        else:
            fixture, folder = record(CASES[name]), args.out
        if not fixture["description"]:
            raise SystemExit(f"case {name} has no description")
        runs += len(fixture.get("runs", fixture.get("ops")))
        text = json.dumps(fixture, indent=1, ensure_ascii=False) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    print(f"{len(args.cases) or len(CASES) + len(SCRIPTS)} graphs, {runs} runs and operations")


if __name__ == "__main__":
    main()
