// Package mcptool connects agents to the Model Context Protocol (MCP): agents use the tools of
// MCP servers, and MCP clients use a program's tools and graphs.
//
// # Tools of MCP servers
//
//	servers, err := mcptool.Connect(ctx,
//		mcptool.Server{Name: "files", Command: []string{"mcp-files", "--root", "."}},
//		mcptool.Server{Name: "web", URL: "https://example.com/mcp", Header: http.Header{"Authorization": {"Bearer ${TOKEN}"}}})
//	if err != nil { … }
//	defer servers.Close()
//	tools, err := servers.Tools(ctx)
//	a, err := agent.New(model, &agent.Options{Tools: tools})
//
// [Servers.Read] reads a server's resources as context, and [Servers.Prompt] fills its prompts.
// [Servers.Session] gives access to other features, such as subscriptions and completions.
//
// A server is a process that uses its standard input and output, or a streamable HTTP address.
// A session stays open between calls. If the server ends, the next call opens a new session:
//
//	         Connect                    call
//	closed ───────────▶ open ◀───────────────────── lost
//	                     │ ▲                          ▲
//	                call └─┘                          │
//	                     └──── the server ends ───────┘
//
// A call that was running when the server ended fails immediately with [ErrNoResponse]. It is not
// retried, because the server may have executed it. A call that could not be sent is sent in
// the new session.
//
// A tool call, listing, or read that exceeds Server.Timeout, 5 minutes by default, fails.
//
// Server.Policy allows, asks about, or denies each call of a tool, by its annotations
// ([ByAnnotations]) or by rules of the program. If a server changes a tool that was allowed or
// approved, a person is asked again; with Server.Pins, even if the program was restarted.
//
// With Server.Elicit, a server may ask the user a question during a call. The run then stops
// with an [Elicitation] as its interrupt, and [treadle.Thread.Resume] passes the [Answer] to the
// server, even after a restart:
//
//   - With protocol 2026-07-28, the server's first response is recorded, and the call continues
//     from there.
//   - With earlier protocols, the call stays open for an hour, and calls of the server run
//     one at a time. If the call or the process has ended, the call is resent from the start,
//     and its questions get the saved answers. A tool must therefore ask before it acts.
//
// Forms that ask for a password or another secret, forms with nested fields, and links that are not
// http(s) are refused, as are more than 10 questions in a call. With Server.Sampling, a server may
// use a model during a call, within a budget. The client rejects all other requests.
//
// The parts of a server's response are converted to a tool result as follows:
//
//	text                     text
//	image, audio             a block with the data
//	link to a resource       an image or file by its URL if that is http(s) and not in
//	                         a private network, otherwise text
//	embedded resource        text, or a block with the data
//	structuredContent        the artifact; also the content, if the result has no other
//	isError                  a result with llm.StatusError, for the model
//	progress                 a custom event, [Progress]
//
// A JSON-RPC error from the server, or a failure to reach it, is an error of the call. An agent
// passes it to its OnToolError.
//
// # Tools for MCP clients
//
//	server := mcp.NewServer(&mcp.Implementation{Name: "owls", Version: "v1"}, nil)
//	research, err := mcptool.Graph(graph, "Researches a topic.")
//	err = mcptool.Add(server, research, weather)
//	err = server.Run(ctx, &mcp.StdioTransport{})                  // a separate process, or
//	err = http.ListenAndServe(addr, mcptool.Handler(server, nil)) // streamable HTTP
//
// If a graph interrupts, the client's user gets the question as an elicitation; see [Graph].
//
// Package mcp is the official SDK, github.com/modelcontextprotocol/go-sdk/mcp.
package mcptool
