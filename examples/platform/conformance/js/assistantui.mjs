// assistant-ui's runtime for LangGraph, @assistant-ui/react-langgraph, on the server. To regenerate or edit, it goes back to
// the checkpoint whose messages have the same IDs as its own, so every message of a stream needs its final ID, tool messages
// included.

import { AsyncLocalStorage } from "node:async_hooks";

import { check, ok, same, uuid } from "./kit.mjs";

const pause = () => new Promise((resume) => setTimeout(resume, 5));

// open renders an application that shows a thread, a new one without an ID, as the examples of assistant-ui wire it.
async function open({ newClient }, graph, { streamMode, threadId } = {}) {
  const [{ createElement }, { default: renderer }, { default: scheduler }, { AssistantRuntimeProvider }, langgraph] = await Promise.all(
    ["react", "react-test-renderer", "scheduler", "@assistant-ui/react", "@assistant-ui/react-langgraph"].map((name) => import(name)),
  );
  // React calls the application outside of the check, which keeps a record of its requests.
  const inside = AsyncLocalStorage.snapshot();
  const client = newClient({ callerOptions: { maxRetries: 0, fetch: (...args) => inside(() => fetch(...args)) } });
  const begin = langgraph.unstable_createLangGraphStream({ client, assistantId: graph, streamMode });
  // The server is faster than React, which shows what has come when it has time: shown waits until it has shown all of it.
  const shown = () => new Promise((resume) => scheduler.unstable_scheduleCallback(scheduler.unstable_IdlePriority, () => resume()));
  const stream = async function* (...args) {
    await shown();
    for await (const part of await begin(...args)) {
      yield part;
      await shown();
    }
  };
  const app = { client, thread: threadId, checkpoints: [], updates: [], texts: new Set() };
  const create = async () => {
    app.thread = (await client.threads.create()).thread_id;
    return { remoteId: app.thread, externalId: app.thread };
  };
  const known = { status: "regular", remoteId: threadId, externalId: threadId };
  const threads = { list: async () => ({ threads: [known] }), fetch: async () => known, initialize: create, generateTitle: async () => new ReadableStream() };
  function Thread() {
    app.interrupt = langgraph.useLangGraphInterruptState();
    app.command = langgraph.useLangGraphSendCommand();
    app.setState = langgraph.useLangGraphSetState();
    return null;
  }
  function App() {
    app.runtime = langgraph.useLangGraphRuntime({
      stream,
      create,
      load: async (id) => {
        const { values, tasks } = await client.threads.getState(id);
        return { messages: values.messages ?? [], interrupts: tasks.flatMap((t) => t.interrupts) };
      },
      getCheckpointId: async (id, parents) => {
        const ids = parents.map((m) => m.id);
        const has = (messages = []) => messages.length === ids.length && messages.every((m, i) => m.id && m.id === ids[i]);
        const found = (await client.threads.getHistory(id, { limit: 100 })).find((s) => has(s.values.messages));
        app.checkpoints.push(found?.checkpoint.checkpoint_id ?? null);
        return found?.checkpoint.checkpoint_id ?? null;
      },
      eventHandlers: { onUpdates: (update) => void app.updates.push(update), onError: (error) => void (app.failure ??= error) },
      ...(threadId && { unstable_threadListAdapter: threads, initialThreadId: threadId }),
    });
    return createElement(AssistantRuntimeProvider, { runtime: app.runtime }, createElement(Thread));
  }
  const page = renderer.create(createElement(App));
  app.close = () => page.unmount();
  app.messages = () => app.runtime.thread.getState().messages;
  app.text = () => app.messages().at(-1).content.filter((p) => p.type === "text").map((p) => p.text).join("");
  // turn starts a run and waits for its end.
  app.turn = async (start) => {
    await new Promise((done) => {
      let began = false;
      const unsubscribe = app.runtime.thread.subscribe(() => {
        const { isRunning, messages } = app.runtime.thread.getState();
        if (messages.length) app.texts.add(app.text());
        began ||= isRunning;
        if (!began || isRunning) return;
        unsubscribe();
        done();
      });
      start();
    });
    if (app.failure) throw new Error(JSON.stringify(app.failure));
  };
  app.say = (text, more) => app.turn(() => app.runtime.thread.append({ role: "user", content: [{ type: "text", text }], ...more }));
  app.stored = async () => (await client.threads.getState(app.thread)).values.messages;
  const ready = () => app.runtime && !app.runtime.thread.getState().isLoading && (!threadId || app.messages().length > 0 || app.interrupt);
  while (!ready()) await pause();
  return app;
}

// modes are the ways in which applications read messages.
const modes = { messages: ["messages", "updates", "custom"], tuples: ["messages-tuple", "updates", "values"] };

for (const [name, streamMode] of Object.entries(modes)) {
  const each = (what, run) =>
    check(
      `assistantui.${what}_by_${name}`,
      async (t) => {
        const app = await open(t, "agent", { streamMode });
        try {
          await run(app, t);
        } finally {
          app.close();
        }
      },
      { sdk: 1 },
    );

  each("messages_stream_in", async (app) => {
    await app.say("hello");
    same(app.messages().map((m) => m.role), ["user", "assistant"]);
    same(app.text(), "Echo: hello");
    ok([...app.texts].some((t) => t && t.length < app.text().length && app.text().startsWith(t)), "no piece of the answer was shown");
    same((await app.stored()).map((m) => m.id), app.messages().map((m) => m.id));
  });

  each("tool_turn", async (app) => {
    await app.say("weather");
    const [call, text] = app.messages().at(-1).content;
    same([call.toolCallId, call.toolName, call.args.city, call.result], ["call_weather_1", "get_weather", "Paris", "sunny in Paris"]);
    same(text.text, "It is sunny in Paris today.");
    const sent = app.updates.flatMap((u) => Object.values(u)).flatMap((u) => u.messages);
    same(sent.map((m) => m.type), ["ai", "tool", "ai"]);
    same(sent.map((m) => m.id), (await app.stored()).slice(1).map((m) => m.id));
    ok(sent.every((m) => m.id), "a message without an ID");
  });

  each("regenerate_after_tool_turn", async (app) => {
    await app.say("weather");
    await app.say("thanks");
    const before = await app.stored();
    same(before.length, 6);
    // The answer to "thanks" again, from the messages up to it, and then the tool turn.
    const regenerate = (id) => app.turn(() => app.runtime.thread.startRun({ parentId: id }));
    await regenerate(before[4].id);
    const after = await app.stored();
    same(after.slice(0, 5).map((m) => m.id), before.slice(0, 5).map((m) => m.id));
    same([after.length, after[5].content], [6, "Echo: thanks"]);
    ok(after[5].id !== before[5].id, "the answer is the old one");
    await regenerate(before[0].id);
    const again = await app.stored();
    same(again.map((m) => m.type), ["human", "ai", "tool", "ai"]);
    ok(again[0].id === before[0].id && again[2].id !== before[2].id, "the tool turn is the old one");
    same(app.text(), "It is sunny in Paris today.");
    ok(app.checkpoints.length === 2 && app.checkpoints.every(Boolean), `the checkpoints are ${app.checkpoints}`);
  });

  each("edit_after_tool_turn", async (app) => {
    await app.say("weather");
    await app.say("thanks");
    const before = await app.stored();
    const [, answer, question] = app.messages(); // an answer with a tool call is one message here
    await app.say("never mind", { parentId: answer.id, sourceId: question.id });
    same((await app.stored()).map((m) => m.content).slice(4), ["never mind", "Echo: never mind"]);
    same((await app.stored()).slice(0, 4).map((m) => m.id), before.slice(0, 4).map((m) => m.id));
    same(app.text(), "Echo: never mind");
    ok(app.checkpoints.length === 1 && app.checkpoints[0], `the checkpoints are ${app.checkpoints}`);
  });
}

check(
  "assistantui.load_after_tool_turn",
  async (t) => {
    const first = await open(t, "agent");
    await first.say("weather");
    first.close();
    const app = await open(t, "agent", { threadId: first.thread });
    try {
      same(app.messages().map((m) => m.role), ["user", "assistant"]);
      await app.say("thanks");
      same((await app.stored()).map((m) => m.type), ["human", "ai", "tool", "ai", "human", "ai"]);
    } finally {
      app.close();
    }
  },
  { sdk: 1 },
);

check(
  "assistantui.interrupt_and_resume",
  async (t) => {
    const app = await open(t, "hitl", { streamMode: modes.tuples });
    try {
      app.setState({ topic: "cats" });
      await app.say("go");
      same(app.interrupt.value.question, "approve?");
      await app.turn(() => app.command({ resume: "yes" }));
      same(app.interrupt, undefined);
      const { values, next } = await app.client.threads.getState(app.thread);
      same([values.log.slice(1), next], [['reviewed:"yes"', "finished"], []]);
    } finally {
      app.close();
    }
  },
  { sdk: 1 },
);

check(
  "assistantui.interrupt_after_load",
  async (t) => {
    const threadId = uuid();
    await t.client.threads.create({ threadId });
    await t.client.runs.wait(threadId, "hitl", { input: { topic: "cats" } });
    const app = await open(t, "hitl", { threadId, streamMode: modes.tuples });
    try {
      same(app.interrupt.value.question, "approve?");
      await app.turn(() => app.command({ resume: "yes" }));
      same((await t.client.threads.getState(threadId)).next, []);
    } finally {
      app.close();
    }
  },
  { sdk: 1 },
);
