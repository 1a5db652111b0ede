// A chat on assistant-ui, with the runtime for LangGraph, wired as in assistant-ui's examples.

import { ActionBarPrimitive, AssistantRuntimeProvider, ComposerPrimitive, MessagePrimitive, ThreadPrimitive } from "@assistant-ui/react";
import {
  unstable_createLangGraphStream,
  useLangGraphInterruptState,
  useLangGraphRuntime,
  useLangGraphSendCommand,
  useLangGraphSetState,
} from "@assistant-ui/react-langgraph";
import { Client } from "@langchain/langgraph-sdk";
import { useState } from "react";
import { settings, show } from "./chat.jsx";

const client = new Client({ apiUrl: settings.apiUrl });
const stream = unstable_createLangGraphStream({
  client,
  assistantId: settings.assistantId,
  streamMode: ["messages-tuple", "updates", "values"],
});

function Page() {
  const [thread, setThread] = useState();
  const runtime = useLangGraphRuntime({
    stream,
    create: async () => {
      const { thread_id } = await client.threads.create();
      setThread(thread_id);
      return { externalId: thread_id };
    },
    load: async (id) => {
      const { values, tasks } = await client.threads.getState(id);
      return { messages: values.messages ?? [], interrupts: tasks.flatMap((t) => t.interrupts) };
    },
    getCheckpointId: async (id, parents) => {
      const ids = parents.map((m) => m.id);
      const has = (messages = []) => messages.length === ids.length && messages.every((m, i) => m.id && m.id === ids[i]);
      return (await client.threads.getHistory(id, { limit: 100 })).find((s) => has(s.values.messages))?.checkpoint.checkpoint_id ?? null;
    },
  });
  return (
    <AssistantRuntimeProvider runtime={runtime}>
      <span id="thread">{thread}</span>
      <ThreadPrimitive.Root>
        <ThreadPrimitive.If running>
          <span id="status">streaming</span>
        </ThreadPrimitive.If>
        <ThreadPrimitive.If running={false}>
          <span id="status">idle</span>
        </ThreadPrimitive.If>
        <ol>
          <ThreadPrimitive.Messages components={{ UserMessage, AssistantMessage, EditComposer }} />
        </ol>
        <Question />
        <ComposerPrimitive.Root>
          <ComposerPrimitive.Input aria-label="Message" />
          <ComposerPrimitive.Send>Send</ComposerPrimitive.Send>
        </ComposerPrimitive.Root>
      </ThreadPrimitive.Root>
    </AssistantRuntimeProvider>
  );
}

function UserMessage() {
  return (
    <MessagePrimitive.Root asChild>
      <li>
        <span className="text">
          <MessagePrimitive.Parts />
        </span>
        <ActionBarPrimitive.Edit>Edit</ActionBarPrimitive.Edit>
      </li>
    </MessagePrimitive.Root>
  );
}

function AssistantMessage() {
  return (
    <MessagePrimitive.Root asChild>
      <li>
        <span className="text">
          <MessagePrimitive.Parts components={{ tools: { Fallback: Call } }} />
        </span>
        <ActionBarPrimitive.Reload>Regenerate</ActionBarPrimitive.Reload>
      </li>
    </MessagePrimitive.Root>
  );
}

function Call({ toolName, args, result }) {
  return <span>{`[${toolName} ${JSON.stringify(args)}: ${result ?? "…"}] `}</span>;
}

function EditComposer() {
  return (
    <ComposerPrimitive.Root>
      <ComposerPrimitive.Input aria-label="Edited message" />
      <ComposerPrimitive.Send>Save</ComposerPrimitive.Send>
    </ComposerPrimitive.Root>
  );
}

// Question shows an interrupt, and a button that answers it.
function Question() {
  const interrupt = useLangGraphInterruptState();
  const command = useLangGraphSendCommand();
  const setState = useLangGraphSetState();
  return (
    <p>
      <button onClick={() => setState({ topic: "rain" })}>Choose a topic</button>
      {interrupt && (
        <>
          <span id="interrupt">{JSON.stringify(interrupt.value)}</span>
          <button onClick={() => command({ resume: { ok: true } })}>Approve</button>
        </>
      )}
    </p>
  );
}

show(Page);
