// A chat on useStream of the SDK, used as agent-chat-ui uses it.

import { useStream } from "@langchain/langgraph-sdk/react";
import { Chat, Message, settings, show, useThread } from "./chat.jsx";

function Page() {
  const [thread, setThread] = useThread();
  const stream = useStream({
    apiUrl: settings.apiUrl,
    assistantId: settings.assistantId,
    threadId: thread,
    onThreadId: setThread,
    fetchStateHistory: { limit: 50 },
    reconnectOnMount: true,
  });
  const send = (text, options) => {
    const message = { id: crypto.randomUUID(), type: "human", content: text };
    return stream.submit(
      { messages: [message] },
      { optimisticValues: (before) => ({ ...before, messages: [...(before.messages ?? []), message] }), ...options },
    );
  };
  const messages = stream.messages.map((m, i) => {
    const meta = stream.getMessagesMetadata(m, i);
    const checkpoint = meta?.firstSeenState?.parent_checkpoint;
    const before = meta?.firstSeenState?.parent_checkpoint && stream.history.find((s) => s.checkpoint?.checkpoint_id === checkpoint.checkpoint_id);
    const branch = meta?.branchOptions && {
      at: meta.branchOptions.indexOf(meta.branch),
      of: meta.branchOptions.length,
      show: (n) => stream.setBranch(meta.branchOptions[n]),
    };
    return (
      <Message
        key={m.id}
        type={m.type}
        text={String(m.content)}
        edit={(text) => send(text, { checkpoint, optimisticValues: before?.values })}
        regenerate={() => stream.submit(undefined, { checkpoint, optimisticValues: before?.values })}
        branch={branch}
      />
    );
  });
  const chat = {
    messages,
    values: stream.values,
    loading: stream.isLoading,
    fetching: stream.isThreadLoading,
    error: stream.error,
    interrupt: stream.interrupt,
    send,
    start: (input) => stream.submit(input),
    stop: stream.stop,
    approve: (resume) => stream.submit(undefined, { command: { resume } }),
  };
  return <Chat chat={chat} thread={thread} setThread={setThread} />;
}

show(Page);
