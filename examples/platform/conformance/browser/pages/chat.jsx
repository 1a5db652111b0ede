// The part that the pages share: it shows a conversation, and a button for each thing that a user may do.

import { useEffect, useState } from "react";
import { createRoot } from "react-dom/client";

export const query = new URLSearchParams(location.search);

// settings are those that the address of the page names.
export const settings = { apiUrl: query.get("api"), assistantId: query.get("assistant"), transport: query.get("transport") ?? undefined };

// useThread keeps the thread that is shown in the address, so that a page that is loaded again shows it again.
export function useThread() {
  const [thread, setThread] = useState(query.get("thread"));
  useEffect(() => {
    const url = new URL(location.href);
    if (thread) url.searchParams.set("thread", thread);
    else url.searchParams.delete("thread");
    history.replaceState(null, "", url);
  }, [thread]);
  return [thread, setThread];
}

// Chat shows a conversation: chat has its messages, elements made by Message, and its state, and the functions of the buttons.
export function Chat({ chat, thread, setThread }) {
  const [text, setText] = useState("");
  const [input, setInput] = useState("");
  return (
    <main>
      <p>
        <span id="status">{chat.loading ? "streaming" : chat.fetching ? "loading" : "idle"}</span> <span id="thread">{thread}</span>
      </p>
      <ol>{chat.messages}</ol>
      {chat.error != null && <p id="error">{String(chat.error.message ?? chat.error)}</p>}
      {chat.interrupt != null && (
        <p>
          <span id="interrupt">{JSON.stringify(chat.interrupt.value)}</span>
          <button onClick={() => chat.approve({ ok: true })}>Approve</button>
        </p>
      )}
      <pre id="values">{JSON.stringify(chat.values)}</pre>
      <input id="text" value={text} onChange={(e) => setText(e.target.value)} />
      <button onClick={() => chat.send(text)}>Send</button>
      <button onClick={() => chat.stop()}>Stop</button>
      <input id="input" value={input} onChange={(e) => setInput(e.target.value)} />
      <button onClick={() => chat.start(JSON.parse(input))}>Start</button>
      <input id="switch" onChange={(e) => setThread(e.target.value === "new" ? null : e.target.value)} />
    </main>
  );
}

// Message shows a message. branch has the place of the message among its versions, and shows another one.
export function Message({ type, text, edit, regenerate, branch }) {
  const [draft, setDraft] = useState("");
  useEffect(() => {
    // Every text that was shown, for the script to look at.
    (window.shown ??= []).push({ type, text });
  }, [type, text]);
  return (
    <li data-type={type}>
      <span className="text">{text}</span>
      {type === "human" && edit && (
        <>
          <input className="draft" value={draft} onChange={(e) => setDraft(e.target.value)} />
          <button onClick={() => edit(draft)}>Edit</button>
        </>
      )}
      {type === "ai" && regenerate && <button onClick={regenerate}>Regenerate</button>}
      {branch && (
        <>
          <button onClick={() => branch.show(branch.at - 1)}>Previous</button>
          <span className="branch">
            {branch.at + 1} of {branch.of}
          </span>
          <button onClick={() => branch.show(branch.at + 1)}>Next</button>
        </>
      )}
    </li>
  );
}

export function show(Page) {
  createRoot(document.getElementById("root")).render(<Page />);
}
