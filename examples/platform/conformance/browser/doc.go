// Package browser checks that web pages on LangGraph's hooks for React work with Treadle's server.
//
// The pages are what agent-chat-ui is in small: one on useStream of the JavaScript SDK, in either
// of its lines, and one on useStream of @langchain/react, over server-sent events and over a
// WebSocket. main.mjs drives them in a Chromium through what users do: chat, stop, approve, edit,
// regenerate, reload, switch threads.
package browser
