"""The graph samples of the early guides, rows A1 to A25, rebuilt small and without models."""

import operator
from typing import Annotated, Any, Literal

from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.runtime import Runtime
from langgraph.types import Command, Send, StreamWriter
from typing_extensions import TypedDict

from graphs.kit import case, events, invoke, stream


@case("a01_multiple_schemas", [
    invoke({"user_input": "My"}),
    stream("updates", {"user_input": "My"}),
    stream("values", {"user_input": "My"}),
    invoke({"user_input": "My", "foo": "dropped"}, name="invoke with a key outside the input schema"),
])
def a01():
    """State {foo, user_input, graph_output}, all plain values; input schema {user_input}; output
    schema {graph_output}. Edges START, node_1, node_2, node_3, END in a chain. node_1 reads
    {user_input} and writes foo = user_input + " name"; node_2 reads the state and writes the
    private key bar = foo + " is" (bar is declared only by node_3's input type); node_3 reads
    {bar} and writes graph_output = bar + " Lance"."""

    class In(TypedDict):
        user_input: str

    class Out(TypedDict):
        graph_output: str

    class State(TypedDict):
        foo: str
        user_input: str
        graph_output: str

    class Private(TypedDict):
        bar: str

    def node_1(state: In):
        return {"foo": state["user_input"] + " name"}

    def node_2(state: State):
        return {"bar": state["foo"] + " is"}

    def node_3(state: Private):
        return {"graph_output": state["bar"] + " Lance"}

    g = StateGraph(State, input_schema=In, output_schema=Out)
    g.add_sequence([node_1, node_2, node_3])
    g.add_edge(START, "node_1")
    g.add_edge("node_3", END)
    return g


@case("a02_default_reducer", [
    invoke({"foo": 1, "bar": ["hi"]}),
    stream("values", {"foo": 1, "bar": ["hi"]}),
])
def a02():
    """State {foo: int, bar: list}, both plain values. START, node_1, node_2 in a chain. node_1
    writes foo = 2; node_2 writes bar = ["bye"]."""

    class State(TypedDict):
        foo: int
        bar: list[str]

    g = StateGraph(State)
    g.add_node("node_1", lambda s: {"foo": 2})
    g.add_node("node_2", lambda s: {"bar": ["bye"]})
    g.add_edge(START, "node_1")
    g.add_edge("node_1", "node_2")
    return g


@case("a03_add_reducer", [
    invoke({"foo": 1, "bar": ["hi"]}),
    stream("values", {"foo": 1, "bar": ["hi"]}),
    stream("updates", {"foo": 1, "bar": ["hi"]}),
])
def a03():
    """As a02_default_reducer, but bar appends (list concatenation)."""

    class State(TypedDict):
        foo: int
        bar: Annotated[list[str], operator.add]

    g = StateGraph(State)
    g.add_node("node_1", lambda s: {"foo": 2})
    g.add_node("node_2", lambda s: {"bar": ["bye"]})
    g.add_edge(START, "node_1")
    g.add_edge("node_1", "node_2")
    return g


@case("a04_message_forms", [
    invoke({"messages": [HumanMessage("message", id="m1")]}, name="message value"),
    invoke({"messages": [{"type": "human", "content": "message", "id": "m1"}]}, name="map form"),
    invoke({"messages": ("human", "message")}, name="role and content pair"),
])
def a04():
    """State {messages} with the message-list reducer. START, count, END. count writes nothing
    (returns None); the result shows how the input was coerced. A missing id is generated."""

    class State(TypedDict):
        messages: Annotated[list[AnyMessage], add_messages]

    g = StateGraph(State)
    g.add_node("count", lambda s: None)
    g.add_edge(START, "count")
    g.add_edge("count", END)
    return g


@case("a06_untyped_state", [
    invoke({"input": "Will"}, config={"configurable": {"user_id": "u1"}}),
    stream("updates", {"input": "Will"}, config={"configurable": {"user_id": "u1"}}),
    stream("values", {"input": "Will"}, config={"configurable": {"user_id": "u1"}}),
])
def a06():
    """The state is an untyped map, so the graph has a single root channel holding the whole map
    (last value). START, my_node, other_node, END. my_node reads configurable user_id and returns
    {results: "Hello, <input>!", user: <user_id>}, which replaces the root value; other_node
    returns its state unchanged."""

    def my_node(state: dict, config: RunnableConfig):
        user = config["configurable"]["user_id"]
        return {"results": f"Hello, {state['input']}!", "user": user}

    g = StateGraph(dict)
    g.add_node("my_node", my_node)
    g.add_node("other_node", lambda state: state)
    g.add_edge(START, "my_node")
    g.add_edge("my_node", "other_node")
    g.add_edge("other_node", END)
    return g


def increment(name):
    class State(TypedDict):
        x: int

    def my_node(state: State, config: RunnableConfig):
        return {"x": state["x"] + 1}

    g = StateGraph(State)
    g.add_node(name, my_node) if name else g.add_node(my_node)
    g.add_edge(START, name or "my_node")
    return g


@case("a07_named_after_function", [invoke({"x": 1}), stream("updates", {"x": 1})])
def a07_default():
    """State {x: int}. One node added without a name, so it is called my_node after its function;
    it writes x + 1. Edge START to my_node only; there is no edge to END."""
    return increment(None)


@case("a07_named_explicitly", [invoke({"x": 1}), stream("updates", {"x": 1})])
def a07_named():
    """As a07_named_after_function, with the node named my_fair_node."""
    return increment("my_fair_node")


class Trail(TypedDict):
    ok: bool
    trail: Annotated[list, operator.add]


def visit(name):
    return lambda state: {"trail": [name]}


@case("a08_plain_edges", [invoke({"trail": []}), stream("updates", {"trail": []})])
def a08_plain():
    """State {ok: bool, trail: appending list}. START, node_a, node_b, END. Each node appends its
    name to trail."""
    g = StateGraph(Trail)
    g.add_node("node_a", visit("node_a"))
    g.add_node("node_b", visit("node_b"))
    g.add_edge(START, "node_a")
    g.add_edge("node_a", "node_b")
    g.add_edge("node_b", END)
    return g


@case("a08_conditional", [
    invoke({"ok": True, "trail": []}, name="to node_b"),
    invoke({"ok": False, "trail": []}, name="to node_c"),
])
def a08_conditional():
    """State {ok, trail appending}. START to node_a; conditional edge from node_a without a map:
    node_b if ok, else node_c. Each node appends its name to trail. No edges to END."""
    g = StateGraph(Trail)
    for name in ("node_a", "node_b", "node_c"):
        g.add_node(name, visit(name))
    g.add_edge(START, "node_a")
    g.add_conditional_edges("node_a", lambda s: "node_b" if s["ok"] else "node_c")
    return g


@case("a08_conditional_map", [
    invoke({"ok": True, "trail": []}, name="True"),
    invoke({"ok": False, "trail": []}, name="False"),
    stream("updates", {"ok": False, "trail": []}),
])
def a08_map():
    """As a08_conditional, but the routing function route returns ok itself and the map is
    {True: node_b, False: node_c}."""

    def route(state: Trail):
        return state["ok"]

    g = StateGraph(Trail)
    for name in ("node_a", "node_b", "node_c"):
        g.add_node(name, visit(name))
    g.add_edge(START, "node_a")
    g.add_conditional_edges("node_a", route, {True: "node_b", False: "node_c"})
    return g


@case("a08_conditional_entry", [
    invoke({"ok": True, "trail": []}, name="to node_b"),
    invoke({"ok": False, "trail": []}, name="to node_c"),
])
def a08_entry():
    """State {ok, trail appending}. Conditional entry without a map: node_b if ok, else node_c;
    both append their name and have no outgoing edge."""
    g = StateGraph(Trail)
    g.add_node("node_b", visit("node_b"))
    g.add_node("node_c", visit("node_c"))
    g.add_conditional_edges(START, lambda s: "node_b" if s["ok"] else "node_c")
    return g


@case("a08_conditional_entry_map", [
    invoke({"ok": True, "trail": []}, name="True"),
    invoke({"ok": False, "trail": []}, name="False"),
])
def a08_entry_map():
    """As a08_conditional_entry, with routing function route returning ok and the map
    {True: node_b, False: node_c}."""

    def route(state: Trail):
        return state["ok"]

    g = StateGraph(Trail)
    g.add_node("node_b", visit("node_b"))
    g.add_node("node_c", visit("node_c"))
    g.add_conditional_edges(START, route, {True: "node_b", False: "node_c"})
    return g


@case("a09_send_jokes", [
    invoke({"subjects": ["cats", "dogs", "owls"]}),
    stream("values", {"subjects": ["cats", "dogs", "owls"]}),
    stream("updates", {"subjects": ["cats"]}, name="stream updates one subject", unordered=False),
    invoke({"subjects": []}, name="no subjects"),
], parallel=True)
def a09():
    """State {subjects: list, jokes: appending list}. START to node_a, which writes nothing;
    conditional edge from node_a returns one Send("generate_joke", {subject: s}) per subject, with
    no map. generate_joke takes {subject} (not part of the state) and appends
    "Joke about <subject>" to jokes."""

    class State(TypedDict):
        subjects: list[str]
        jokes: Annotated[list[str], operator.add]

    def continue_to_jokes(state: State):
        return [Send("generate_joke", {"subject": s}) for s in state["subjects"]]

    g = StateGraph(State)
    g.add_node("node_a", lambda s: None)
    g.add_node("generate_joke", lambda s: {"jokes": [f"Joke about {s['subject']}"]})
    g.add_edge(START, "node_a")
    g.add_conditional_edges("node_a", continue_to_jokes)
    return g


class Foo(TypedDict):
    foo: str


@case("a10_command", [invoke({"foo": ""}), stream("updates", {"foo": ""})])
def a10():
    """State {foo: str}. START to my_node, which returns Command(update {foo: "bar"}, goto
    my_other_node) and declares that destination; my_other_node writes foo = foo + "!"."""

    def my_node(state: Foo) -> Command[Literal["my_other_node"]]:
        return Command(update={"foo": "bar"}, goto="my_other_node")

    g = StateGraph(Foo)
    g.add_node("my_node", my_node)
    g.add_node("my_other_node", lambda s: {"foo": s["foo"] + "!"})
    g.add_edge(START, "my_node")
    return g


@case("a10_command_conditional", [
    invoke({"foo": "bar"}, name="foo is bar"),
    invoke({"foo": "other"}, name="foo is something else"),
    stream("updates", {"foo": "other"}),
])
def a10_conditional():
    """As a10_command, but my_node only returns Command(update {foo: "baz"}, goto my_other_node)
    when foo is "bar"; otherwise it returns None and nothing follows."""

    def my_node(state: Foo) -> Command[Literal["my_other_node"]]:
        if state["foo"] == "bar":
            return Command(update={"foo": "baz"}, goto="my_other_node")

    g = StateGraph(Foo)
    g.add_node("my_node", my_node)
    g.add_node("my_other_node", lambda s: {"foo": s["foo"] + "!"})
    g.add_edge(START, "my_node")
    return g


@case("a11_context", [
    invoke({"answer": ""}, name="context given", context={"llm": "anthropic"}),
    invoke({"answer": ""}, name="no context"),
    invoke({"answer": ""}, name="with a step limit", context={"llm": "anthropic"}, config={"recursion_limit": 5}),
])
def a11():
    """State {answer: str}, context {llm: str}. START to node_a, which writes answer = context.llm,
    or "openai" when the context or the key is absent."""

    class State(TypedDict):
        answer: str

    class Context(TypedDict):
        llm: str

    def node_a(state: State, runtime: Runtime[Context]):
        return {"answer": (runtime.context or {}).get("llm", "openai")}

    g = StateGraph(State, context_schema=Context)
    g.add_node(node_a)
    g.add_edge(START, "node_a")
    return g


@case("a13_subgraph_node", [
    invoke({"foo": "foo"}),
    stream("updates", {"foo": "foo"}),
    stream("updates", {"foo": "foo"}, subgraphs=True),
    stream("values", {"foo": "foo"}, subgraphs=True),
])
def a13():
    """Parent state {foo}; child state {foo, bar}. Child: START to subgraph_node, which writes
    foo = foo + "bar" and bar = "kept in the child". Parent: START to subgraph, a node that is the
    compiled child; bar is unknown to the parent and dropped."""

    class Child(TypedDict):
        foo: str
        bar: str

    child = StateGraph(Child)
    child.add_node("subgraph_node", lambda s: {"foo": s["foo"] + "bar", "bar": "kept in the child"})
    child.add_edge(START, "subgraph_node")
    g = StateGraph(Foo)
    g.add_node("subgraph", child.compile())
    g.add_edge(START, "subgraph")
    return g


@case("a14_subgraph_call", [
    invoke({"foo": "foo"}),
    stream("updates", {"foo": "foo"}, subgraphs=True),
])
def a14():
    """Parent state {foo}; child state {bar, baz}. Child: START to subgraph_node, which writes
    bar = bar + "baz". Parent: START to node, a function that calls the compiled child with
    {bar: foo} and writes foo = the child's bar."""

    class Child(TypedDict):
        bar: str
        baz: str

    builder = StateGraph(Child)
    builder.add_node("subgraph_node", lambda s: {"bar": s["bar"] + "baz"})
    builder.add_edge(START, "subgraph_node")
    child = builder.compile()

    def node(state: Foo):
        return {"foo": child.invoke({"bar": state["foo"]})["bar"]}

    g = StateGraph(Foo)
    g.add_node(node)
    g.add_edge(START, "node")
    return g


@case("a15_keep_range", [
    invoke({"my_list": [1, 2, 3, 4, 5, 6, 7, 8]}),
    stream("values", {"my_list": [1, 2, 3, 4, 5, 6, 7, 8]}),
    stream("updates", {"my_list": [1, 2]}),
])
def a15():
    """State {my_list} with a reducer: a list is appended; a map {type: keep, from, to} keeps that
    slice (negative counts from the end, to = None means the end). START to my_node, which writes
    {type: "keep", from: -5, to: None}; then more, which appends ["x"]."""

    def manage(existing: list, update: Any):
        if isinstance(update, list):
            return existing + update
        return existing[update["from"]:update["to"]]

    class State(TypedDict):
        my_list: Annotated[list, manage]

    g = StateGraph(State)
    g.add_node("my_node", lambda s: {"my_list": {"type": "keep", "from": -5, "to": None}})
    g.add_node("more", lambda s: {"my_list": ["x"]})
    g.add_edge(START, "my_node")
    g.add_edge("my_node", "more")
    return g


@case("a16_logistic_map", [
    invoke({"x": 0.5}, context={"r": 3.0}),
    invoke({"x": 0.5}, name="r absent", context={"other": 1}),
    invoke({"x": 0.5}, name="empty context", context={}),
    invoke({"x": 0.5}, name="no context"),
    stream("values", {"x": 0.5}, context={"r": 3.0}),
])
def a16():
    """State {x} with a reducer over (list, number or None): append the number, None changes
    nothing; the list starts empty. Context {r: float}. START, A, END. A writes
    x = r * last * (1 - last) where r is context.r, or 1.0 when absent. The input {x: 0.5} goes
    through the reducer too. Without a context the runtime context is None, and an empty map given
    as context arrives as None as well; A then fails with the language's own attribute error
    (only the fact of the error matters)."""

    def reducer(a: list, b):
        return a if b is None else a + [b]

    class State(TypedDict):
        x: Annotated[list, reducer]

    class Context(TypedDict):
        r: float

    def node(state: State, runtime: Runtime[Context]):
        r = runtime.context.get("r", 1.0)
        last = state["x"][-1]
        return {"x": last * r * (1 - last)}

    g = StateGraph(State, context_schema=Context)
    g.add_node("A", node)
    g.set_entry_point("A")
    g.set_finish_point("A")
    return g


@case("a17_join", [
    invoke({"trail": []}),
    stream("values", {"trail": []}),
])
def a17_join():
    """State {ok, trail appending}. START to a and to b; join edge from [a, b] to c; c to END. Each
    node appends its name to trail."""
    g = StateGraph(Trail)
    for name in ("a", "b", "c"):
        g.add_node(name, visit(name))
    g.add_edge(START, "a")
    g.add_edge(START, "b")
    g.add_edge(["a", "b"], "c")
    g.add_edge("c", END)
    return g


@case("a17_sequence", [
    invoke({"trail": []}),
    stream("updates", {"trail": []}),
])
def a17_sequence():
    """State {ok, trail appending}. add_sequence of ("one", ...), a function called second, and
    ("three", ...); START to one. Each node appends its name to trail."""

    def second(state):
        return {"trail": ["second"]}

    g = StateGraph(Trail)
    g.add_sequence([("one", visit("one")), second, ("three", visit("three"))])
    g.add_edge(START, "one")
    return g


@case("a17_sequence_empty", [])
def a17_empty():
    """Building add_sequence([]) fails."""
    return StateGraph(Trail).add_sequence([])


@case("a17_sequence_duplicate", [])
def a17_duplicate():
    """Building add_sequence with two nodes called one fails."""
    return StateGraph(Trail).add_sequence([("one", visit("one")), ("one", visit("one"))])


@case("a18_handoff_self", [
    invoke({"n": 0, "trail": []}),
    stream("updates", {"n": 0, "trail": []}),
])
def a18_self():
    """State {n: int, trail: appending list}. START to agent. agent declares the destinations agent
    and another_agent and returns Command(update {n: n+1, trail: ["agent"]}, goto agent while
    n < 2, else another_agent), so it runs for n = 0, 1, 2. another_agent appends its name."""

    class State(TypedDict):
        n: int
        trail: Annotated[list, operator.add]

    def agent(state: State) -> Command[Literal["agent", "another_agent"]]:
        goto = "agent" if state["n"] < 2 else "another_agent"
        return Command(goto=goto, update={"n": state["n"] + 1, "trail": ["agent"]})

    g = StateGraph(State)
    g.add_node(agent)
    g.add_node("another_agent", visit("another_agent"))
    g.add_edge(START, "agent")
    return g


class Key(TypedDict):
    my_state_key: str


def alice_graph():
    def some_node(state: Key):
        return Command(goto="bob", update={"my_state_key": "from alice"}, graph=Command.PARENT)

    return StateGraph(Key).add_node(some_node).add_edge(START, "some_node").compile()


@case("a18_parent_handoff", [
    invoke({"my_state_key": ""}),
    stream("updates", {"my_state_key": ""}),
    stream("updates", {"my_state_key": ""}, subgraphs=True),
])
def a18_parent():
    """State {my_state_key: str} in parent and child. Child alice: START to some_node, which returns
    Command(graph PARENT, goto bob, update {my_state_key: "from alice"}). Parent: START to alice (the
    compiled child as node); bob writes my_state_key = value + ", bob". No edge from alice to bob."""
    g = StateGraph(Key)
    g.add_node("alice", alice_graph())
    g.add_node("bob", lambda s: {"my_state_key": s["my_state_key"] + ", bob"})
    g.add_edge(START, "alice")
    return g


@case("a18_parent_handoff_drawn", [
    invoke({"my_state_key": ""}),
    stream("updates", {"my_state_key": ""}, subgraphs=True),
])
def a18_drawn():
    """As a18_parent_handoff, but alice is a function node that calls the compiled child with the
    state, and declares bob as its destination, so the drawing shows the hand-off."""
    child = alice_graph()

    def call_alice(state) -> Command[Literal["bob"]]:
        return child.invoke(state)

    g = StateGraph(Key)
    g.add_node("alice", call_alice)
    g.add_node("bob", lambda s: {"my_state_key": s["my_state_key"] + ", bob"})
    g.add_edge(START, "alice")
    return g


TOPIC = {"topic": "ice cream"}


@case("a19_jokes", [
    stream("updates", TOPIC),
    stream("values", TOPIC),
    stream(["updates", "custom"], TOPIC),
    stream("debug", TOPIC),
    stream("debug", TOPIC, name="stream debug with saver", saver=True),
    stream("checkpoints", TOPIC, saver=True),
    stream("tasks", TOPIC),
    stream(["values", "updates", "tasks", "debug", "checkpoints"], TOPIC, saver=True),
    stream("updates", TOPIC, version="v2"),
    stream("values", TOPIC, version="v2"),
    stream("debug", TOPIC, version="v2", saver=True),
    stream(["updates", "values"], TOPIC, version="v2"),
    invoke(TOPIC, name="invoke v2", version="v2"),
    invoke(TOPIC, name="invoke with mode updates", mode="updates"),
    invoke(TOPIC, name="invoke with modes updates and values", mode=["updates", "values"]),
    stream("updates", TOPIC, name="stream updates output_keys joke", extra={"output_keys": ["joke"]}),
    stream("values", TOPIC, name="stream values output_keys joke", extra={"output_keys": ["joke"]}),
    events(TOPIC),
])
def a19():
    """State {topic: str, joke: str}. START, refine_topic, generate_joke, END. refine_topic writes
    topic = topic + " and cats"; generate_joke writes joke = "This is a joke about <topic>".
    Nothing writes custom data."""

    class State(TypedDict):
        topic: str
        joke: str

    def refine_topic(state: State):
        return {"topic": state["topic"] + " and cats"}

    def generate_joke(state: State):
        return {"joke": f"This is a joke about {state['topic']}"}

    g = StateGraph(State)
    g.add_sequence([refine_topic, generate_joke])
    g.add_edge(START, "refine_topic")
    g.add_edge("generate_joke", END)
    return g


@case("a22_subgraph_stream", [
    stream("updates", {"foo": "foo"}, subgraphs=True),
    stream("updates", {"foo": "foo"}),
    stream("values", {"foo": "foo"}, subgraphs=True),
    stream(["updates", "values"], {"foo": "foo"}, subgraphs=True),
    stream("debug", {"foo": "foo"}, subgraphs=True, saver=True),
    stream("tasks", {"foo": "foo"}, subgraphs=True),
    stream("checkpoints", {"foo": "foo"}, subgraphs=True, saver=True),
    stream("checkpoints", {"foo": "foo"}, saver=True),
    stream("updates", {"foo": "foo"}, subgraphs=True, version="v2"),
    stream("values", {"foo": "foo"}, subgraphs=True, version="v2"),
    stream("updates", {"foo": "foo"}, version="v2"),
    invoke({"foo": "foo"}),
    events({"foo": "foo"}),
])
def a22():
    """Parent state {foo}; child state {foo, bar}. Child: START, subgraph_node_1 (writes bar = "bar"),
    subgraph_node_2 (writes foo = foo + bar). Parent: START, node_1 (writes foo = "hi! " + foo),
    node_2 (the compiled child). No edges to END."""

    class Child(TypedDict):
        foo: str
        bar: str

    def subgraph_node_1(state: Child):
        return {"bar": "bar"}

    def subgraph_node_2(state: Child):
        return {"foo": state["foo"] + state["bar"]}

    child = StateGraph(Child)
    child.add_sequence([subgraph_node_1, subgraph_node_2])
    child.add_edge(START, "subgraph_node_1")
    g = StateGraph(Foo)
    g.add_node("node_1", lambda s: {"foo": "hi! " + s["foo"]})
    g.add_node("node_2", child.compile())
    g.add_edge(START, "node_1")
    g.add_edge("node_1", "node_2")
    return g


class Query(TypedDict):
    query: str
    answer: str


@case("a24_custom", [
    stream("custom", {"query": "example"}),
    stream(["custom", "updates"], {"query": "example"}),
    stream("custom", {"query": "example"}, version="v2"),
    stream("updates", {"query": "example"}),
])
def a24():
    """State {query, answer}. START to node, which sends {custom_key: "Generating custom data inside
    node"} to the custom stream through the ambient writer and writes answer = "some data"."""

    def node(state: Query):
        get_stream_writer()({"custom_key": "Generating custom data inside node"})
        return {"answer": "some data"}

    return StateGraph(Query).add_node(node).add_edge(START, "node")


@case("a24_custom_writer_parameter", [
    stream("custom", {"query": "example"}),
    stream(["custom", "values"], {"query": "example"}),
])
def a24_parameter():
    """State {query, answer}. START to generate, which gets the writer as a parameter, sends
    {custom_key: "one"} and then "two" to the custom stream and writes answer = "some data"."""

    def generate(state: Query, writer: StreamWriter):
        writer({"custom_key": "one"})
        writer("two")
        return {"answer": "some data"}

    return StateGraph(Query).add_node(generate).add_edge(START, "generate")


@case("a25_any_client", [
    stream("custom", {"topic": "cats"}),
    stream(["custom", "updates", "values"], {"topic": "cats"}),
    invoke({"topic": "cats"}),
])
def a25():
    """State {topic, result}. START to call_arbitrary_model, which sends {custom_llm_chunk: piece} to
    the custom stream for each piece "About ", <topic>, "." and writes result = "completed"."""

    class State(TypedDict):
        topic: str
        result: str

    def call_arbitrary_model(state: State):
        writer = get_stream_writer()
        for piece in ("About ", state["topic"], "."):
            writer({"custom_llm_chunk": piece})
        return {"result": "completed"}

    return StateGraph(State).add_node(call_arbitrary_model).add_edge(START, "call_arbitrary_model")
