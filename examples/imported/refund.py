"""The Python program whose threads examples/imported continues. It writes langgraph.sqlite:

    pip install langgraph==1.2.20 langgraph-checkpoint-sqlite==3.1.2
    python refund.py
"""

from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.sqlite import SqliteStore
from langgraph.types import interrupt


class State(MessagesState):
    order: int


def find(state: State):
    return {"order": 42, "messages": [AIMessage("I found order 42.", id="m2")]}


def refund(state: State):
    approved = interrupt({"refund order": state["order"]})
    text = "It is refunded." if approved else "It cannot be refunded."
    return {"messages": [AIMessage(text, id="m3")]}


builder = StateGraph(State)
builder.add_node(find)
builder.add_node(refund)
builder.add_edge(START, "find")
builder.add_edge("find", "refund")

file = Path(__file__).with_name("langgraph.sqlite")
file.unlink(missing_ok=True)
with SqliteSaver.from_conn_string(str(file)) as saver:
    graph = builder.compile(checkpointer=saver)
    question = HumanMessage("Please refund my order.", id="m1")
    graph.invoke({"messages": [question]}, {"configurable": {"thread_id": "customer 7"}})
with SqliteStore.from_conn_string(str(file)) as store:
    store.setup()
    store.put(("customers", "7"), "profile", {"name": "Ann"})
