// CopilotKit's connector, @ag-ui/langgraph, on the server: it reads the modes events, values, updates and messages-tuple
// together, and fails if a chunk or a tool's output does not have the fields that LangGraph sends.

import { check, ok, same, uuid } from "./kit.mjs";

// connect returns a connector, and functions that run one turn and return its events.
async function connect(url, graphId, threadId = uuid()) {
  const { LangGraphAgent } = await import("@ag-ui/langgraph");
  const agent = new LangGraphAgent({ deploymentUrl: url, graphId, threadId });
  const turn = async (options) => {
    const events = [];
    let failure;
    await agent.runAgent(options, {
      onEvent: ({ event }) => void events.push(event),
      onRunErrorEvent: ({ event }) => void (failure ??= new Error(event.message)),
      onRunFailed: ({ error }) => void (failure ??= error),
    });
    if (failure) throw failure;
    same([events[0].type, events.at(-1).type], ["RUN_STARTED", "RUN_FINISHED"]);
    return events;
  };
  const say = (text, id = uuid()) => {
    agent.addMessage({ id, role: "user", content: text });
    return turn();
  };
  return { agent, turn, say };
}

const of = (events, type) => events.filter((e) => e.type === type);
const text = (events) => of(events, "TEXT_MESSAGE_CONTENT").map((e) => e.delta).join("");
const last = (events) => of(events, "MESSAGES_SNAPSHOT").at(-1).messages;

// turnWithTool checks the events of a turn in which a tool is called.
function turnWithTool(events) {
  const [call, ...more] = of(events, "TOOL_CALL_START");
  same([call.toolCallId, call.toolCallName, more.length], ["call_weather_1", "get_weather", 0]);
  same(JSON.parse(of(events, "TOOL_CALL_ARGS").map((e) => e.delta).join("")), { city: "Paris" });
  same(of(events, "TOOL_CALL_END").map((e) => e.toolCallId), ["call_weather_1"]);
  same(of(events, "TOOL_CALL_RESULT").map((e) => [e.toolCallId, e.content]), [["call_weather_1", "sunny in Paris"]]);
  same(text(events), "It is sunny in Paris today.");
  same(of(events, "TEXT_MESSAGE_START").length, 1);
  same(of(events, "STEP_STARTED").map((e) => e.stepName), ["agent", "tools", "agent"]);
}

check(
  "agui.chat",
  async ({ url }) => {
    const { say } = await connect(url, "agent");
    const first = await say("hello");
    same(text(first), "Echo: hello");
    const [start] = of(first, "TEXT_MESSAGE_START");
    same(last(first).map((m) => [m.role, m.content]), [["user", "hello"], ["assistant", "Echo: hello"]]);
    same(last(first)[1].id, start.messageId);
    const second = await say("again");
    same(text(second), "Echo: again");
    same(last(second).map((m) => m.content), ["hello", "Echo: hello", "again", "Echo: again"]);
  },
  { sdk: 1 },
);

check(
  "agui.tool_turn",
  async ({ url }) => {
    const { say } = await connect(url, "agent");
    const events = await say("weather");
    turnWithTool(events);
    same(last(events).map((m) => m.role), ["user", "assistant", "tool", "assistant"]);
    ok(last(events).every((m) => m.id), "ids");
    const next = await say("thanks");
    same(text(next), "Echo: thanks");
    same(last(next).length, 6);
  },
  { sdk: 1 },
);

check(
  "agui.interrupt_and_resume",
  async ({ url, client }) => {
    const { agent, turn } = await connect(url, "hitl");
    agent.setState({ topic: "cats" });
    const asked = of(await turn(), "CUSTOM").filter((e) => e.name === "on_interrupt");
    same(asked.length, 1);
    same(JSON.parse(asked[0].value).question, "approve?");
    const resumed = await turn({ forwardedProps: { command: { resume: "yes" } } });
    same(of(resumed, "CUSTOM").filter((e) => e.name === "on_interrupt"), []);
    const { values, next } = await client.threads.getState(agent.threadId);
    same([values.log.slice(1), next], [['reviewed:"yes"', "finished"], []]);
  },
  { sdk: 1 },
);

check(
  "agui.regenerate_after_tool_turn",
  async ({ url, client }) => {
    const { agent, turn, say } = await connect(url, "agent");
    const question = { id: uuid(), role: "user", content: "weather" };
    await say("hello");
    agent.addMessage(question);
    await turn();
    const before = agent.messages;
    same(before.length, 6);
    // A connector announces each tool call once, and the model repeats the ID of its call, so this is another connector. It goes
    // back to the last question if that is among the messages of the thread, and some other message is not.
    const again = await connect(url, "agent", agent.threadId);
    again.agent.setMessages([before[0], { ...before[1], id: uuid() }, question]);
    turnWithTool(await again.turn());
    const { values } = await client.threads.getState(agent.threadId);
    same(values.messages.map((m) => m.type), ["human", "ai", "human", "ai", "tool", "ai"]);
    ok(values.messages[5].id !== before[5].id, "the answer is the old one");
  },
  { sdk: 1 },
);
