// Package mcptool connects agents with the Model Context Protocol, both ways.
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
// A server is a process that talks over its standard input and output, or an
// address that speaks streamable HTTP. Its session stays open from call to call;
// if the server dies, the next call opens another one:
//
//	         Connect                    call
//	closed ───────────▶ open ◀───────────────────── lost
//	                     │ ▲                          ▲
//	                call └─┘                          │
//	                     └──── the server ends ───────┘
//
// A call that was under way when the server died is an error at once
// ([ErrNoAnswer]); it is not repeated, since it may have been carried out. One
// that could not be sent is sent to the new session.
//
// What a server answers becomes what a tool of package llm answers:
//
//	text                     text
//	image, audio             a block with the data
//	link to a resource       an image or file by its URL if that is http(s),
//	                         otherwise text, for nobody but the server can open it
//	embedded resource        text, or a block with the data
//	structuredContent        the artifact; also the content, if there is no other
//	isError                  a result with llm.StatusError, for the model
//	progress                 a custom event, [Progress]
//
// The server's refusal of a call (a JSON-RPC error) and a failure to reach it are
// errors of the call, which an agent treats by its OnToolError.
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
