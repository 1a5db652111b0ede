"""The messages mode with a scripted model, tags, and several modes at once."""

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from graphs.kit import case, events, invoke, stream


def model(*texts, **kw):
    """A scripted model: one answer per call, streamed in words and blanks."""
    return GenericFakeChatModel(messages=iter([AIMessage(t) for t in texts]), **kw)


class Topic(TypedDict):
    topic: str
    joke: str


HUMAN = {"messages": [HumanMessage("hello", id="h1")]}


@case("messages_model", [
    stream("messages", {"topic": "cats"}),
    stream("messages", {"topic": "cats"}, version="v2"),
    stream(["messages", "updates"], {"topic": "cats"}),
    stream(["messages", "values", "custom"], {"topic": "cats"}),
    stream("messages", {"topic": "cats"}, name="messages with thread and metadata", saver=True,
           config={"metadata": {"who": "me"}, "tags": ["run"]}),
    stream("messages", {"topic": "cats"}, subgraphs=True),
    stream("updates", {"topic": "cats"}),
    events({"topic": "cats"}),
])
def messages_model():
    """State {topic: str, joke: str}. START to call_model, which calls a scripted chat model (answer "two
    cats meet", streamed as "two", " ", "cats", " ", "meet") with the topic and writes joke = the content of the
    answer."""
    chat = model("two cats meet")

    def call_model(state: Topic):
        return {"joke": chat.invoke(state["topic"]).content}

    return StateGraph(Topic).add_node(call_model).add_edge(START, "call_model")


@case("messages_state", [
    stream("messages", HUMAN),
    stream(["messages", "updates", "values"], HUMAN),
    invoke(HUMAN),
])
def messages_state():
    """State {messages} with the message-list reducer. START to chat, which calls a scripted model (answer
    "good day") with the messages and returns the answer as a message. The answer was streamed, so it is not
    emitted again when the node returns it."""
    chat_model = model("good day")

    def chat(state: MessagesState):
        return {"messages": [chat_model.invoke(state["messages"])]}

    return StateGraph(MessagesState).add_node(chat).add_edge(START, "chat")


@case("messages_no_streaming", [
    stream("messages", HUMAN),
])
def messages_no_streaming():
    """As messages_state, but streaming is disabled on the model: the answer is emitted once, whole."""
    chat_model = model("good day", disable_streaming=True)

    def chat(state: MessagesState):
        return {"messages": [chat_model.invoke(state["messages"])]}

    return StateGraph(MessagesState).add_node(chat).add_edge(START, "chat")


@case("messages_returned", [
    stream("messages", HUMAN),
    stream(["messages", "updates"], HUMAN),
    stream("messages", HUMAN, version="v2"),
])
def messages_returned():
    """State {messages} with the message-list reducer. START, first, second. first returns the AI message
    (id a1, "written by hand") without a model; second returns the list [the same human message h1 that was
    the input, AI message (id a2, "second")]. Messages already seen in a node's input are not emitted
    again."""

    def first(state):
        return {"messages": AIMessage("written by hand", id="a1")}

    def second(state):
        return {"messages": [HumanMessage("hello", id="h1"), AIMessage("second", id="a2")]}

    g = StateGraph(MessagesState).add_node(first).add_node(second)
    g.add_edge(START, "first")
    g.add_edge("first", "second")
    return g


@case("messages_command", [
    stream("messages", HUMAN),
])
def messages_command():
    """State {messages} with the message-list reducer. START, a, b. a returns Command(update messages [AI
    message (id a1, "in a command")], goto b); b returns the list [Command(update messages [AI message (id a2,
    "in a list")])]."""

    def a(state):
        return Command(update={"messages": [AIMessage("in a command", id="a1")]}, goto="b")

    def b(state):
        return [Command(update={"messages": [AIMessage("in a list", id="a2")]})]

    g = StateGraph(MessagesState)
    g.add_node("a", a, destinations=("b",))
    g.add_node("b", b)
    g.add_edge(START, "a")
    return g


@case("messages_tags", [
    stream("messages", {"topic": "cats"}),
])
def messages_tags():
    """State {topic: str, joke: str}. START to call, which calls three scripted models in order: one tagged joke
    (answer "a joke"), one tagged poem (answer "a poem") and one tagged nostream (answer "not streamed"),
    and writes joke = the three contents joined by "; "."""
    chats = [
        model("a joke", tags=["joke"]),
        model("a poem", tags=["poem"]),
        model("not streamed", tags=["nostream"]),
    ]

    def call(state: Topic):
        return {"joke": "; ".join(c.invoke(state["topic"]).content for c in chats)}

    return StateGraph(Topic).add_node(call).add_edge(START, "call")


@case("messages_subgraph", [
    stream("messages", HUMAN),
    stream("messages", HUMAN, subgraphs=True),
    stream(["messages", "updates"], HUMAN, subgraphs=True),
    stream("messages", HUMAN, subgraphs=True, version="v2"),
])
def messages_subgraph():
    """State {messages} with the message-list reducer in both graphs. Child: START to chat, which returns the
    answer of a scripted model ("good day"), then note, which returns AI message (id n1, "a note"). Parent: START to
    sub (compiled child)."""
    chat_model = model("good day")

    def chat(state: MessagesState):
        return {"messages": [chat_model.invoke(state["messages"])]}

    def note(state: MessagesState):
        return {"messages": [AIMessage("a note", id="n1")]}

    child = StateGraph(MessagesState).add_node(chat).add_node(note)
    child.add_edge(START, "chat")
    child.add_edge("chat", "note")
    g = StateGraph(MessagesState)
    g.add_node("sub", child.compile())
    g.add_edge(START, "sub")
    return g


@case("all_modes", [
    stream(["values", "updates", "custom", "messages", "tasks", "checkpoints", "debug"], {"topic": "cats"}, name="all modes", saver=True),
    stream(["values", "updates", "custom", "messages", "tasks", "checkpoints", "debug"], {"topic": "cats"}, name="all modes v2", saver=True, version="v2"),
    stream(["updates", "custom"], {"topic": "cats"}),
    stream(["custom", "values", "messages"], {"topic": "cats"}),
    events({"topic": "cats"}),
])
def all_modes():
    """State {topic: str, joke: str}. START, refine, tell, END. refine sends "refining" to the custom stream and
    writes topic = topic + " and dogs"; tell calls a scripted model (answer "a joke") with the topic, sends
    {told: true} to the custom stream and writes joke = the content."""
    chat = model("a joke")

    def refine(state: Topic):
        get_stream_writer()("refining")
        return {"topic": state["topic"] + " and dogs"}

    def tell(state: Topic):
        joke = chat.invoke(state["topic"]).content
        get_stream_writer()({"told": True})
        return {"joke": joke}

    g = StateGraph(Topic).add_node(refine).add_node(tell)
    g.add_edge(START, "refine")
    g.add_edge("refine", "tell")
    g.add_edge("tell", END)
    return g


@case("custom_interleaved", [
    stream(["custom", "updates", "tasks"], {"topic": "cats"}),
    stream("custom", {"topic": "cats"}),
])
def custom_interleaved():
    """State {topic: str, joke: str}. START, a, b. a sends 1 and 2 to the custom stream and returns None; b
    sends {n: 3}, then None, then [4, 5], and writes joke = "done"."""

    def a(state):
        writer = get_stream_writer()
        writer(1)
        writer(2)

    def b(state):
        writer = get_stream_writer()
        writer({"n": 3})
        writer(None)
        writer([4, 5])
        return {"joke": "done"}

    g = StateGraph(Topic).add_node(a).add_node(b)
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    return g
