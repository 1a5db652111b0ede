"""Record how LangGraph's serializer writes values, for TestPythonValuesConvert.

Usage: python internal/imports/langgraphimport/testdata/record.py

Writes values.json: for each value its type and bytes, and the JSON that it must become. Needs
langgraph-checkpoint, langchain-core, pydantic and numpy.
"""

import base64
import dataclasses
import enum
import json
import pathlib
import re
import uuid
from collections import deque, namedtuple
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from ipaddress import IPv4Address
from zoneinfo import ZoneInfo

import numpy as np
from langchain_core.documents import Document
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send
from pydantic import BaseModel, SecretStr
from pydantic.v1 import BaseModel as BaseModelV1


class Color(enum.Enum):
    RED = "red"


class Model(BaseModel):
    a: int
    when: date
    inner: dict


class Old(BaseModelV1):
    a: int


@dataclasses.dataclass
class Data:
    x: int
    y: list


Pair = namedtuple("Pair", "a b")

human = HumanMessage("hi", id="1", name="Ann")
ai = AIMessage(
    "", id="2", tool_calls=[{"name": "f", "args": {"x": 1}, "id": "c"}],
    usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
)

VALUES = {
    "null": (None, None),
    "true": (True, True),
    "small": ([0, 127, 128, -1, -32, -33, 255, 256, 65535, 65536], ...),
    "large": ([2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1], ...),
    "floats": ([0.5, -1e300, 1e-7], ...),
    "text": ("ü €\u0000 <&>" + "x" * 300, ...),
    "bytes": (b"\x00\xff", "AP8="),
    "bytes inside": ([b"\x00\xff"], ["AP8="]),
    "list": ([1, [2, [3]], []], ...),
    "long list": (list(range(300)), ...),
    "tuple": ((1, 2), [1, 2]),
    "dict": ({"b": 1, "a": {"c": None}}, ...),
    "keys": ({1: "a", True: "b", None: "c", 1.5: "d"}, {"1": "b", "null": "c", "1.5": "d"}),
    "set": ({7}, [7]),
    "frozenset": (frozenset([7]), [7]),
    "deque": (deque([1, 2]), [1, 2]),
    "datetime": (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=timezone.utc), "2026-01-02T03:04:05.000006+00:00"),
    "naive datetime": (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
    "date": (date(2026, 1, 2), "2026-01-02"),
    "time": (time(1, 2, 3), "01:02:03"),
    "time with microseconds": (time(1, 2, 3, 4), "01:02:03.000004"),
    "timedelta": (timedelta(days=1, seconds=2, microseconds=500000), 86402.5),
    "timezone": (timezone(timedelta(hours=-5)), "-05:00"),
    "zone": (ZoneInfo("Europe/Berlin"), "Europe/Berlin"),
    "uuid": (uuid.UUID("12345678-1234-5678-1234-567812345678"), "12345678-1234-5678-1234-567812345678"),
    "decimal": (Decimal("1.10"), "1.10"),
    "path": (pathlib.PurePosixPath("/a/b") and pathlib.Path("/a/b"), "/a/b"),
    "relative path": (pathlib.Path("a/b"), "a/b"),
    "address": (IPv4Address("10.0.0.1"), "10.0.0.1"),
    "pattern": (re.compile("a+"), "a+"),
    "enum": (Color.RED, "red"),
    "secret": (SecretStr("s"), "s"),
    "model": (Model(a=1, when=date(2026, 1, 2), inner={"k": [1]}), {"a": 1, "when": "2026-01-02", "inner": {"k": [1]}}),
    "old model": (Old(a=1), {"a": 1}),
    "dataclass": (Data(1, [2]), {"x": 1, "y": [2]}),
    "named tuple": ([Pair(1, 2)], [{"a": 1, "b": 2}]),
    "human message": (human, human.model_dump()),
    "messages": (
        [human, ai, SystemMessage("s", id="3"), ToolMessage("t", id="4", tool_call_id="c"), RemoveMessage(id="5")],
        [m.model_dump() for m in (human, ai, SystemMessage("s", id="3"), ToolMessage("t", id="4", tool_call_id="c"), RemoveMessage(id="5"))],
    ),
    "document": (Document("text", metadata={"k": 1}), Document("text", metadata={"k": 1}).model_dump()),
    "send": (Send("n", {"x": 1}), {"node": "n", "arg": {"x": 1}}),
    "interrupt": (Interrupt({"q": 1}, id="i"), {"value": {"q": 1}, "id": "i", "response_schema": None}),
    "command": (Command(goto="n", update={"a": 1}), {"graph": None, "update": {"a": 1}, "resume": None, "goto": "n"}),
    "overwrite": (Overwrite([1]), {"value": [1], "type": "__overwrite__"}),
    "delta": (_DeltaSnapshot([1]), [1]),
    "array": (np.array([[1, 2], [3, 4]], dtype=np.int64), [[1, 2], [3, 4]]),
    "fortran array": (np.asfortranarray(np.array([[1.5, 2], [3, 4]], dtype=np.float32)), [[1.5, 2], [3, 4]]),
    "bool array": (np.array([True, False]), [True, False]),
    # what JSON does not have
    "nan": ([1, float("nan")], [1, None], "[1]: NaN has no JSON form"),
    "infinite": ({"a": {"b": float("-inf")}}, {"a": {"b": None}}, "a.b: -Inf has no JSON form"),
    "tuple as key": ({(1, 2): 3, "a": 4}, {"a": 4}, "value omitted: key of type tuple has no JSON form"),
    "complex array": (np.array([1j]), None, 'unsupported NumPy array of type "<c16"'),
}


def main() -> None:
    serde = JsonPlusSerializer()
    out = []
    for name, (value, want, *problem) in VALUES.items():
        kind, data = serde.dumps_typed(value)
        if want is ...:
            want = value
        out.append({"name": name, "type": kind, "data": base64.b64encode(data).decode(), "want": want, "problem": problem[0] if problem else ""})
    # JSON, as older versions of the serializer wrote it
    def old(name, text, want):
        out.append({"name": "json " + name, "type": "json", "data": base64.b64encode(text.encode()).decode(), "want": want, "problem": ""})

    old("message", json.dumps(dumpd(human)), {**{k: v for k, v in dumpd(human)["kwargs"].items()}})
    constructor = {"lc": 2, "type": "constructor", "method": None}
    old("uuid", json.dumps({**constructor, "id": ["uuid", "UUID"], "args": ["12345678123456781234567812345678"], "kwargs": {}}), "12345678-1234-5678-1234-567812345678")
    old("set", json.dumps({**constructor, "id": ["builtins", "set"], "args": [[1, 2]], "kwargs": {}}), [1, 2])
    old("dataclass", json.dumps({**constructor, "id": ["m", "Data"], "args": None, "kwargs": {"x": 1}}), {"x": 1})
    old("plain", '{"b": [1, 2.50, "x"], "a": null}', {"b": [1, 2.5, "x"], "a": None})
    text = "[\n" + ",\n".join(json.dumps(o, ensure_ascii=False) for o in out) + "\n]\n"
    pathlib.Path(__file__).with_name("values.json").write_text(text)


main()
