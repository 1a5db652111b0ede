// Package conformance uses LangGraph's own clients to check that a server implements LangGraph
// Platform's HTTP API.
//
// Two scripts drive a server, given by its address, that serves the graphs of
// internal/test/platform: js/main.mjs with both release lines of the JavaScript SDK, and py/main.py
// with the Python SDK, its async and sync clients, and RemoteGraph. They call every method of
// these clients and print a line of JSON for each check. js/agui.mjs and js/assistantui.mjs
// drive the server with user interfaces on top of the JavaScript SDK: CopilotKit's connector,
// and assistant-ui's runtime in a rendered React application.
//
// LangGraph's own Python server validates the scripts in turn: official/serve starts it with
// the same graphs, and official/check runs all of the scripts against it. A check that this
// server fails states the reason in its definition ("deviates"); every other server must pass
// all checks.
//
// testdata/captures and testdata/captures-js contain requests to LangGraph's Python server and
// to its JavaScript server, with the responses. The tests send the requests to our server. Each
// allowed.txt lists the intentional differences and their reasons.
package conformance
