// MCP connects two programs with the Model Context Protocol: one serves a tool, and the other
// runs an agent that uses it. Here, the agent's program starts the server.
//
//	go run ./examples/mcp           runs the agent
//	go run ./examples/mcp serve     serves the tool on standard input and output
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/examples/internal/models"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/mcptool"
)

type place struct {
	City string `json:"city" jsonschema:"the name of a city"`
}

func weather(_ context.Context, p place) (string, error) { return "It rains in " + p.City + ".", nil }

// serve serves the tool until the client closes the connection.
func serve(ctx context.Context) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "v1"}, nil)
	if err := mcptool.Add(server, llm.NewTool("weather", "Tell the weather in a city.", weather)); err != nil {
		return err
	}
	return server.Run(ctx, &mcp.StdioTransport{})
}

// ask runs an agent with the tools of the server started by command.
func ask(ctx context.Context, command ...string) (err error) {
	servers, err := mcptool.Connect(ctx, mcptool.Server{Name: "weather", Command: command, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	tools, err := servers.Tools(ctx)
	if err != nil {
		return err
	}
	model, err := models.Open(llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("weather", place{"Oslo"})),
		llmtest.Say("Take an umbrella: it rains in Oslo.")))
	if err != nil {
		return err
	}
	g, err := agent.New(model, &agent.Options{Tools: tools})
	if err != nil {
		return err
	}
	out, err := g.Run(ctx, agent.Ask("Do I need an umbrella in Oslo?"))
	if err != nil {
		return err
	}
	for _, m := range out.Messages {
		if m.Role == llm.RoleTool {
			fmt.Printf("%s: %s\n", m.Name, m.Text())
		}
	}
	fmt.Println(agent.Answer(out))
	return nil
}

func main() {
	ctx := context.Background()
	program, err := os.Executable()
	if err == nil {
		if len(os.Args) > 1 && os.Args[1] == "serve" {
			err = serve(ctx)
		} else {
			err = ask(ctx, program, "serve")
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcp:", err)
		os.Exit(1)
	}
}
