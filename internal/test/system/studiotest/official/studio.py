"""The graphs of this package for LangGraph's own server, which has no durable sleep for the graph nap."""

import asyncio
import itertools
import json
import re
from typing import Annotated, Any

from graphs import append, chain, compiled
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import get_runtime
from langgraph.types import RetryPolicy, interrupt
from paces import permit, permits
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from typing_extensions import NotRequired, TypedDict


async def allow(request):
    body = await request.json()
    permits[body["pace"]] += body["n"]
    return Response(status_code=204)


app = Starlette(routes=[Route("/pace", allow, methods=["POST"])])


class Paced(TypedDict):
    pace: str
    count: NotRequired[int]
    fail: NotRequired[str]
    ticks: NotRequired[Annotated[list[int], append]]


async def tick(state: Paced):
    await permit(state["pace"])
    ticks = len(state.get("ticks") or [])
    if state.get("fail") and ticks + 1 >= state.get("count", 0):
        raise RuntimeError(state["fail"])
    return {"ticks": [ticks]}


def loop(state: type, name: str, node: Any, again: Any):
    """A graph of one node that runs as long as again returns true."""
    builder = StateGraph(state)
    builder.add_node(name, node)
    builder.add_edge(START, name)
    builder.add_conditional_edges(name, lambda s: "true" if again(s) else "false", {"true": name, "false": END})
    return compiled(builder)


paced = loop(Paced, "tick", tick, lambda s: len(s["ticks"]) < s.get("count", 0))


# Models that follow a script.


class Scripted(BaseChatModel):
    """A model that streams the chunks of an answer."""

    answer: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    async def _astream(self, messages, stop=None, run_manager=None, **kwargs):
        async for chunk in self.answer(messages):
            piece = ChatGenerationChunk(message=chunk)
            if run_manager:
                await run_manager.on_llm_new_token(chunk.content, chunk=piece)
            yield piece

    async def _agenerate(self, messages, stop=None, run_manager=None, **kwargs):
        whole = None
        async for piece in self._astream(messages, run_manager=run_manager):
            whole = piece.message if whole is None else whole + piece.message
        answer = AIMessage(
            content=whole.content,
            tool_calls=whole.tool_calls,
            usage_metadata=whole.usage_metadata,
            response_metadata=whole.response_metadata,
        )
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        raise NotImplementedError("the graphs are asynchronous")


async def in_words(text: str, wait: Any = None):
    for word in re.findall(r"\S+\s*|\s+", text):
        if wait:
            await wait()
        yield AIMessageChunk(content=word)


async def calls(tool: str, of: list, args: Any):
    for i, name in enumerate(of):
        raw = json.dumps(args(name))
        for piece in (
            {"id": f"call_{name}_{i}", "name": tool, "args": ""},
            {"id": None, "name": None, "args": raw[: len(raw) // 2]},
            {"id": None, "name": None, "args": raw[len(raw) // 2 :]},
        ):
            yield AIMessageChunk(content="", tool_call_chunks=[{**piece, "index": i}])


def text_of(message) -> str:
    if isinstance(message.content, str):
        return message.content
    return "".join(block.get("text", "") for block in message.content)


def images(message) -> int:
    if isinstance(message.content, str):
        return 0
    return sum(block.get("type") in ("image", "image_url") for block in message.content)


# talker


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


MARKDOWN = """## Plan

A **bold** start with `code` and [a link](https://example.com/page).

| Step | Time |
|------|-----:|
| one  | 10 s |
| two  | 20 s |

```go
func main() {
\tfmt.Println("hello")
}
```

1. first
2. second

<script>window.hacked = true</script>
<img src="x" onerror="window.hacked = true">
<a href="javascript:window.hacked=true">do not click</a>
<img src="https://elsewhere.example/track.png">
<style>body { display: none }</style>
<iframe src="https://elsewhere.example/"></iframe>

The end."""


def numbered(n: int) -> str:
    return "".join(f"w{i}" + ("\n\n" if i % 100 == 99 else " ") for i in range(n))


async def thinking():
    for word in ("First ", "I ", "think."):
        yield AIMessageChunk(content=[{"type": "reasoning", "index": 0, "reasoning": word}])
    for word in ("Then ", "I ", "answer."):
        yield AIMessageChunk(content=[{"type": "text", "index": 1, "text": word}])
    yield AIMessageChunk(content="", usage_metadata={"input_tokens": 12, "output_tokens": 34, "total_tokens": 46})


answers = itertools.count(1)


def talk(messages):
    last = messages[-1]
    text = text_of(last)
    words = text.split()
    if isinstance(last, ToolMessage):
        return in_words("Result: " + text)
    match words[0] if words else "":
        case "tokens":
            return in_words(numbered(int(words[1])), lambda: asyncio.sleep(0.001))
        case "paced":
            return in_words(numbered(int(words[2])), lambda: permit(words[1]))
        case "mail":
            return calls("send_mail", words[1:], lambda who: {"to": f"{who}@example.com", "text": f"Hello {who}"})
        case "weather":
            return calls("get_weather", words[1:], lambda city: {"city": city})
    if text == "markdown":
        return in_words(MARKDOWN)
    if text == "think":
        return thinking()
    return in_words(f"Answer {next(answers)} to: {text} ({images(last)} images)")


def send_mail(to: str, text: str) -> str:
    return f'sent "{text}" to {to}'


def get_weather(city: str) -> str:
    if city == "Atlantis":
        raise RuntimeError("no station in Atlantis")
    return "sunny in " + city


TOOLS = {"send_mail": send_mail, "get_weather": get_weather}


def result_of(call: dict) -> ToolMessage:
    more = {"tool_call_id": call["id"], "name": call["name"]}
    try:
        return ToolMessage(content=TOOLS[call["name"]](**call["args"]), **more)
    except RuntimeError as err:
        return ToolMessage(content=str(err), status="error", **more)


def last_calls(messages) -> tuple[AIMessage, list]:
    """The newest response of the model, and its calls that have no result."""
    last = next(m for m in reversed(messages) if isinstance(m, AIMessage))
    done = {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}
    return last, [c for c in last.tool_calls if c["id"] not in done]


def gates(state: Chat):
    """Asks about mails, as the middleware of LangChain's agents does."""
    last, made = last_calls(state["messages"])
    gated = [c for c in made if c["name"] == "send_mail"]
    if not gated:
        return None
    allowed = ["approve", "edit", "reject", "respond"]
    asked = [{"name": c["name"], "args": c["args"], "description": "Send **this** mail?"} for c in gated]
    answer = interrupt(
        {
            "action_requests": asked,
            "review_configs": [{"action_name": c["name"], "allowed_decisions": allowed} for c in gated],
        }
    )
    edited, results = {}, []
    for call, decision in zip(gated, answer["decisions"], strict=True):
        more = {"tool_call_id": call["id"], "name": call["name"]}
        match decision["type"]:
            case "edit":
                action = decision["edited_action"]
                edited[call["id"]] = {**call, "name": action["name"], "args": action["args"]}
            case "reject":
                reason = f"User rejected the tool call for `{call['name']}` with reason: {decision.get('message', '')}"
                results.append(ToolMessage(content=reason, status="error", **more))
            case "respond":
                results.append(ToolMessage(content=decision["message"], **more))
    changed = last.model_copy(update={"tool_calls": [edited.get(c["id"], c) for c in last.tool_calls]})
    return {"messages": [changed, *results]}


def conversation(model: BaseChatModel, review: Any = None, prompt: str = ""):
    """An agent: a model, and its tools."""

    async def answer(state: Chat):
        system = [SystemMessage(prompt)] if prompt else []
        return {"messages": [await model.ainvoke([*system, *state["messages"]])]}

    builder = StateGraph(Chat)
    builder.add_node("model", answer)
    builder.add_node("tools", lambda s: {"messages": [result_of(c) for c in last_calls(s["messages"])[1]]})
    builder.add_edge(START, "model")

    after = "model"
    if review:
        after = "gates.after_model"
        builder.add_node(after, review)
        builder.add_edge("model", after)

    def onward(state: Chat):
        last, made = last_calls(state["messages"])
        return "tools" if made else "model" if last.tool_calls else END

    builder.add_conditional_edges(after, onward, ["tools", "model", END])
    builder.add_edge("tools", "model")
    return compiled(builder)


talker = conversation(Scripted(answer=talk), gates)


# clerk


async def serve(messages):
    last = messages[-1]
    if isinstance(last, ToolMessage):
        async for chunk in in_words(f"It is {last.content}."):
            yield chunk
        return
    async for chunk in calls("get_weather", last.content.split(), lambda city: {"city": city}):
        yield chunk


clerk = conversation(Scripted(answer=serve), prompt="You are a terse clerk.")


# survey


class Answers(TypedDict):
    answers: Annotated[list[str], append]


def ask(node: str, question: Any):
    def run(state: Answers):
        return {"answers": [f"{node}={json.dumps(interrupt(question), separators=(',', ':'))}"]}

    return run


builder = StateGraph(Answers)
for name, question in {
    "budget": {"question": "Spend **100 euros**?", "type": "boolean"},
    "name": "What is your name?",
    "colour": {"question": "Which colour?", "options": ["red", "green", "blue"]},
    "order": {
        "question": "What do you order?",
        "response_schema": {
            "type": "object",
            "required": ["dish"],
            "properties": {"dish": {"type": "string"}, "count": {"type": "integer", "default": 1}},
        },
    },
}.items():
    builder.add_node(name, ask(name, question))
    builder.add_edge(START, name)
    builder.add_edge(name, END)
survey = compiled(builder)


# inbox


def send(state: Answers):
    answer = interrupt(
        [
            {
                "action_request": {"action": "send_mail", "args": {"to": "ada@example.com", "urgent": True}},
                "config": dict.fromkeys(["allow_accept", "allow_edit", "allow_respond", "allow_ignore"], True),
                "description": "Send a mail to *Ada*.",
            }
        ]
    )
    return {"answers": [json.dumps(answer, separators=(",", ":"))]}


inbox = chain(Answers, {"send": send})


# counter, bulk, flaky


class Count(TypedDict):
    upto: int
    n: NotRequired[int]


counter = loop(Count, "add", lambda s: {"n": s.get("n", 0) + 1}, lambda s: s["n"] < s["upto"])


class Bulk(TypedDict):
    rows: int
    text: NotRequired[str]
    data: NotRequired[list]
    done: NotRequired[bool]


def fill(state: Bulk):
    rows = state["rows"]
    return {
        "text": "a long line of words " * (rows * 50),
        "data": [{"id": i, "name": "row", "text": "cell " * 200} for i in range(rows)],
    }


bulk = chain(Bulk, {"fill": fill, "finish": lambda s: {"done": True}})


class Tries(TypedDict):
    fails: NotRequired[int]
    calls: NotRequired[int]


def try_call(state: Tries):
    n = get_runtime().execution_info.node_attempt
    if n <= state.get("fails", 0):
        raise RuntimeError(f"line is busy ({n})")
    return {"calls": n}


builder = StateGraph(Tries)
policy = RetryPolicy(initial_interval=0.02, jitter=False, max_attempts=3, retry_on=RuntimeError)
builder.add_node("call", try_call, retry_policy=policy)
builder.add_edge(START, "call")
builder.add_edge("call", END)
flaky = compiled(builder)


# traced


async def meter(messages):
    usage = {"input_tokens": 12, "output_tokens": 7, "total_tokens": 19}
    last = AIMessageChunk(content="", usage_metadata=usage, response_metadata={"model_name": "gpt-4o-mini-2024-07-18"})
    if not isinstance(messages[-1], ToolMessage):
        piece = {"id": "call_1", "name": "lookup", "args": '{"key":"answer"}', "index": 0}
        yield AIMessageChunk(content="", tool_call_chunks=[piece])
        yield last
        return
    pace = re.match(r"paced (.+)", text_of(messages[0]))
    wait = (lambda: permit(pace[1])) if pace else lambda: asyncio.sleep(0.04)
    async for chunk in in_words("The answer is 42, as all know who have read the book.", wait):
        yield chunk
    yield last


async def metered(state: Chat):
    return {"messages": [await Scripted(answer=meter).ainvoke(state["messages"])]}


def look_up(state: Chat):
    call = state["messages"][-1].tool_calls[0]
    return {"messages": [ToolMessage(content="42", tool_call_id=call["id"], name=call["name"])]}


traced = chain(
    Chat,
    {
        "plan": lambda s: {"messages": []},
        "inner": chain(Chat, {"model": metered, "tool": look_up}),
        "answer": metered,
    },
)


# scribe


class Work(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    todos: NotRequired[list]
    files: NotRequired[Annotated[dict, lambda old, new: {**old, **new}]]


COUNT_LINES = "Count the lines of /notes.md."


def todos(first: str, second: str) -> dict:
    items = {"Write the notes": first, "Count their lines": second}
    return {"todos": [{"content": content, "status": status} for content, status in items.items()]}


SCRIPT = [
    ("write_todos", todos("in_progress", "pending")),
    ("write_file", {"file_path": "/notes.md", "content": "one\ntwo\nthree\n"}),
    ("edit_file", {"file_path": "/notes.md", "old_string": "two", "new_string": "second"}),
    ("task", {"subagent_type": "counter", "description": COUNT_LINES}),
    ("write_todos", todos("completed", "completed")),
]


def plan(state: Work):
    turn = sum(isinstance(m, AIMessage) for m in state["messages"])
    if turn >= len(SCRIPT):
        return {"messages": [AIMessage("The notes are written.")]}
    name, args = SCRIPT[turn]
    return {"messages": [AIMessage("", tool_calls=[{"id": f"call_{name}_{turn}", "name": name, "args": args}])]}


def work(state: Work):
    call = state["messages"][-1].tool_calls[0]
    args, files = call["args"], state.get("files") or {}
    update, result = {}, "done"
    match call["name"]:
        case "write_todos":
            update = args
        case "write_file":
            update = {"files": {args["file_path"]: {"content": args["content"].splitlines()}}}
        case "edit_file":
            lines = files[args["file_path"]]["content"]
            lines = [line.replace(args["old_string"], args["new_string"]) for line in lines]
            update = {"files": {args["file_path"]: {"content": lines}}}
        case "task":
            result = "It has three lines."
    return {**update, "messages": [ToolMessage(result, tool_call_id=call["id"], name=call["name"])]}


builder = StateGraph(Work)
builder.add_node("model", plan)
builder.add_node("tools", work)
builder.add_edge(START, "model")
builder.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].tool_calls else END, ["tools", END])
builder.add_edge("tools", "model")
scribe = compiled(builder)
