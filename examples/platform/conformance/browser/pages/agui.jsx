// A chat on AG-UI's own client, with a tool of the page and an approval.

import { HttpAgent } from "@ag-ui/client";
import { useState } from "react";
import { Chat, Message, query, show } from "./chat.jsx";

const agent = new HttpAgent({ url: query.get("agent"), threadId: crypto.randomUUID() });
const tools = [{ name: "paint", description: "Paint the page.", parameters: { type: "object", properties: { color: { type: "string" } } } }];

function Page() {
  const [messages, setMessages] = useState([]);
  const [running, setRunning] = useState(false);
  const [error, setError] = useState();
  const [color, setColor] = useState("white");
  const turn = async (options) => {
    setRunning(true);
    try {
      for (let more = true; more; options = undefined) {
        more = false;
        const follow = (event) => setMessages([...event.messages]);
        let waiting = [];
        await agent.runAgent(
          { tools, ...options },
          {
            onMessagesChanged: follow,
            onRunErrorEvent: ({ event }) => setError(event.message),
            onRunFinishedEvent: ({ event }) => (waiting = event.outcome?.pendingToolCallIds ?? []),
          },
        );
        for (const call of agent.messages.flatMap((m) => m.toolCalls ?? []).filter((c) => waiting.includes(c.id))) {
          const { color } = JSON.parse(call.function.arguments);
          setColor(color);
          agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: call.id, content: `painted ${color}` });
          more = true;
        }
      }
    } finally {
      setRunning(false);
    }
  };
  const [asked] = agent.pendingInterrupts ?? [];
  const chat = {
    messages: messages.map((m) => <Message key={m.id} type={m.role} text={m.content ?? ""} />),
    values: { color },
    loading: running,
    error,
    interrupt: asked && !running ? asked.metadata : undefined,
    send: (text) => {
      agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
      setMessages([...agent.messages]);
      return turn();
    },
    stop: () => agent.abortRun(),
    approve: () => turn({ resume: [{ interruptId: asked.id, status: "resolved", payload: { decisions: [{ type: "approve" }] } }] }),
  };
  return <Chat chat={chat} thread={agent.threadId} />;
}

show(Page);
