// Package browser checks that agent-chat-ui and web pages built on LangGraph's React hooks,
// assistant-ui, CopilotKit, and AG-UI's own client work with Treadle's server.
//
// The pages on the hooks are small: one uses useStream of the JavaScript SDK, in both of its
// release lines, and one uses useStream of @langchain/react, over server-sent events and over
// a WebSocket. The page on CopilotKit talks to the server's AG-UI endpoint and, through the
// connector @ag-ui/langgraph in Node.js, to LangGraph's API. main.mjs drives the pages in
// Chromium as a user would: chat, stop, approve, edit, regenerate, reload, switch threads,
// and let the agent call a tool of the page.
package browser
