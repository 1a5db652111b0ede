// Package conformance checks with LangGraph's own clients that a server speaks LangGraph
// Platform's HTTP API.
//
// Two scripts drive a server, given by its address, that serves the graphs of
// internal/platform: js/main.mjs with the JavaScript SDK, in either of its lines, and
// py/main.py with the Python SDK, its async and its sync client, and RemoteGraph. They call
// every method of these clients and print a line of JSON for each check. js/agui.mjs and
// js/assistantui.mjs drive it with user interfaces on top of the JavaScript SDK: CopilotKit's
// connector, and assistant-ui's runtime in a rendered React application.
//
// LangGraph's own Python server judges the scripts in turn: official/serve starts it with the same
// graphs, and official/check runs all of the scripts on it. A check that this server fails has the
// reason in its definition ("deviates"); every other server has to pass all of them.
//
// testdata/captures and testdata/captures-js have requests to LangGraph's Python server and to its JavaScript server, with
// the answers. They are sent to ours, and each allowed.txt has the differences that are on purpose, with their reasons.
package conformance
