// Package browser checks that web pages built on LangGraph's React hooks work with Treadle's
// server.
//
// The pages are small versions of agent-chat-ui: one uses useStream of the JavaScript SDK, in
// both of its release lines, and one uses useStream of @langchain/react, over server-sent
// events and over a WebSocket. main.mjs drives them in Chromium as a user would: chat, stop,
// approve, edit, regenerate, reload, switch threads.
package browser
