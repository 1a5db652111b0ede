// A page that shows components which the server of the graphs sends.

import { useStream } from "@langchain/langgraph-sdk/react";
import { LoadExternalComponent, uiMessageReducer } from "@langchain/langgraph-sdk/react-ui";
import { settings, show, useThread } from "./chat.jsx";

function Page() {
  const [thread, setThread] = useThread();
  const stream = useStream({
    apiUrl: settings.apiUrl,
    assistantId: settings.assistantId,
    threadId: thread,
    onThreadId: setThread,
    onCustomEvent: (event, { mutate }) => mutate((before) => ({ ...before, ui: uiMessageReducer(before.ui ?? [], event) })),
  });
  return (
    <>
      <button onClick={() => stream.submit({ city: "Paris" })}>Start</button>
      <p id="thread">{thread}</p>
      {stream.values.ui?.map((message) => (
        <LoadExternalComponent key={message.id} stream={stream} message={message} />
      ))}
    </>
  );
}

show(Page);
