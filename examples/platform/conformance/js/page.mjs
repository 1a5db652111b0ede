// AG-UI's own client on the server's endpoint for pages. The client checks every event against the protocol's schemas, and
// fails a run whose events come in the wrong order.

import { check, ok, same, uuid } from "./kit.mjs";

const options = { sdk: 1, deviates: "it has no endpoint for AG-UI" };

// page returns a client, and functions that run one turn and return its events.
async function page(url, assistant, threadId = uuid()) {
  const { HttpAgent } = await import("@ag-ui/client");
  const agent = new HttpAgent({ url: `${url}/agui/${assistant}`, threadId });
  const turn = async (options) => {
    const events = [];
    let failure;
    await agent.runAgent(options, {
      onEvent: ({ event }) => void events.push(event),
      onRunErrorEvent: ({ event }) => void (failure ??= new Error(event.message)),
      onRunFailed: ({ error }) => void (failure ??= error),
    });
    if (failure) throw failure;
    return events;
  };
  const say = (text) => {
    agent.addMessage({ id: uuid(), role: "user", content: text });
    return turn();
  };
  return { agent, turn, say };
}

const of = (events, type) => events.filter((e) => e.type === type);
const text = (events) => of(events, "TEXT_MESSAGE_CONTENT").map((e) => e.delta).join("");

check(
  "page.chat",
  async ({ url }) => {
    const { agent, say } = await page(url, "agent");
    same(text(await say("hello")), "Echo: hello");
    const events = await say("weather");
    const [call, ...more] = of(events, "TOOL_CALL_START");
    same([call.toolCallName, more.length], ["get_weather", 0]);
    same(JSON.parse(of(events, "TOOL_CALL_ARGS").map((e) => e.delta).join("")), { city: "Paris" });
    same(of(events, "TOOL_CALL_RESULT").map((e) => e.content), ["sunny in Paris"]);
    same(text(events), "It is sunny in Paris today.");
    same(agent.messages.map((m) => m.role), ["user", "assistant", "user", "assistant", "tool", "assistant"]);
    same(agent.messages.at(-1).content, "It is sunny in Paris today.");
  },
  options,
);

check(
  "page.interrupt",
  async ({ url, client }) => {
    const { agent, turn } = await page(url, "hitl");
    agent.setState({ topic: "cats" });
    const finished = of(await turn(), "RUN_FINISHED")[0];
    same([finished.outcome.type, finished.outcome.interrupts.length], ["interrupt", 1]);
    const [asked] = agent.pendingInterrupts;
    same([asked.reason, asked.metadata.value.question], ["input_required", "approve?"]);
    const resumed = await turn({ resume: [{ interruptId: asked.id, status: "resolved", payload: "yes" }] });
    same(of(resumed, "RUN_FINISHED")[0].outcome, { type: "success" });
    same(agent.state.log.slice(1), ['reviewed:"yes"', "finished"]);
    const { values, next } = await client.threads.getState(agent.threadId);
    same([values.log, next], [agent.state.log, []]);
  },
  options,
);

check(
  "page.state",
  async ({ url, client }) => {
    const { agent, turn } = await page(url, "fanout");
    agent.setState({ items: ["x", "y", "z"] });
    const events = await turn();
    ok(of(events, "STATE_DELTA").length > 0, "no changes of the state");
    const { values } = await client.threads.getState(agent.threadId);
    same(agent.state, values);
    same(of(events, "STEP_STARTED").map((e) => e.stepName), ["plan", "worker", "reduce"]);
  },
  options,
);

check(
  "page.again",
  async ({ url }) => {
    const { agent, turn, say } = await page(url, "agent", `page ${uuid()}`);
    await say("hello");
    await say("weather");
    const before = agent.messages;
    agent.setMessages(before.slice(0, 3));
    same(text(await turn()), "It is sunny in Paris today.");
    same(agent.messages.length, before.length);
    ok(agent.messages.at(-1).id !== before.at(-1).id, "the response is the old one");
  },
  options,
);
