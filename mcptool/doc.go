// Package mcptool connects agents with the Model Context Protocol (MCP): agents use
// the tools of MCP servers, and MCP clients use tools and graphs of a program.
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
// A server is a process that uses its standard input and output, or an address with
// streamable HTTP. A session stays open between calls. If the server ends, the next
// call opens a new session:
//
//	         Connect                    call
//	closed ───────────▶ open ◀───────────────────── lost
//	                     │ ▲                          ▲
//	                call └─┘                          │
//	                     └──── the server ends ───────┘
//
// A call that was running when the server ended fails at once with [ErrNoAnswer]. It
// is not repeated, because the server may have carried it out. A call that could not
// be sent is sent in the new session.
//
// A tool call that takes longer than Server.Timeout, 5 minutes by default, fails. A server
// that asks for something during a call, such as an elicitation, is told that the client
// does not support it.
//
// The parts of a server's answer become these parts of a tool's result:
//
//	text                     text
//	image, audio             a block with the data
//	link to a resource       an image or file by its URL if that is http(s),
//	                         otherwise text, because only the server can open it
//	embedded resource        text, or a block with the data
//	structuredContent        the artifact; also the content, if the answer has no other
//	isError                  a result with llm.StatusError, for the model
//	progress                 a custom event, [Progress]
//
// A JSON-RPC error of the server and a failure to reach it are errors of the call,
// which an agent passes to its OnToolError.
//
// # Tools for MCP clients
//
//	server := mcp.NewServer(&mcp.Implementation{Name: "owls", Version: "v1"}, nil)
//	research, err := mcptool.Graph(graph, "Researches a topic.")
//	err = mcptool.Add(server, research, weather)
//	err = server.Run(ctx, &mcp.StdioTransport{})            // a process of its own, or
//	err = http.ListenAndServe(addr, mcptool.Handler(server)) // streamable HTTP
//
// Package mcp is the official SDK, github.com/modelcontextprotocol/go-sdk/mcp.
package mcptool
