// A chat on useStream of @langchain/react, which speaks protocol v2.

import { useMessageMetadata, useStream } from "@langchain/react";
import { Chat, Message, settings, show, useThread } from "./chat.jsx";

function Page() {
  const [thread, setThread] = useThread();
  const stream = useStream({ ...settings, threadId: thread, onThreadId: setThread });
  const chat = {
    messages: stream.messages.map((m) => <Editable key={m.id} stream={stream} message={m} />),
    values: stream.values,
    loading: stream.isLoading,
    fetching: stream.isThreadLoading,
    error: stream.error,
    interrupt: stream.interrupt,
    send: (text) => stream.submit({ messages: [{ type: "human", content: text }] }),
    start: (input) => stream.submit(input),
    stop: () => stream.stop(),
    approve: (answer) => stream.respond(answer),
  };
  return <Chat chat={chat} thread={thread} setThread={setThread} />;
}

function Editable({ stream, message }) {
  const parent = useMessageMetadata(stream, message.id)?.parentCheckpointId;
  // The hook gives each message the parent of the latest checkpoint, not of the first one that has the message.
  const edit = async (text) => {
    const history = await stream.client.threads.getHistory(stream.threadId, { limit: 50 });
    const first = history.findLast((s) => s.values.messages?.some((m) => m.id === message.id));
    await stream.submit({ messages: [{ type: "human", content: text }] }, { forkFrom: first.parent_checkpoint.checkpoint_id });
  };
  return (
    <Message
      type={message.getType()}
      text={message.text}
      edit={edit}
      regenerate={parent && (() => stream.submit(undefined, { forkFrom: parent }))}
    />
  );
}

show(Page);
