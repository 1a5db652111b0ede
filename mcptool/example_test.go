package mcptool_test

import (
	"context"
	"fmt"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/mcptool"
)

// This example serves a Go function as an MCP tool, which an agent in another
// process can call.
func Example() {
	ctx := context.Background()
	multiply := llm.NewTool("multiply", "Multiplies two numbers.",
		func(_ context.Context, in struct {
			A int `json:"a"`
			B int `json:"b"`
		}) (int, error) {
			return in.A * in.B, nil
		})
	math := mcp.NewServer(&mcp.Implementation{Name: "math", Version: "v1"}, nil)
	if err := mcptool.Add(math, multiply); err != nil {
		fmt.Println(err)
		return
	}
	web := httptest.NewServer(mcptool.Handler(math))
	defer web.Close()

	servers, err := mcptool.Connect(ctx, mcptool.Server{Name: "math", URL: web.URL, Prefix: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer servers.Close()
	tools, err := servers.Tools(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("math_multiply", `{"a":6,"b":7}`)),
		llmtest.Say("It is 42."))
	a, err := agent.New(model, &agent.Options{Tools: tools})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := a.Run(ctx, agent.Ask("What is 6 times 7?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range out.Messages[2:] {
		fmt.Println(m.Role, m.Text())
	}
	// Output:
	// tool 42
	// ai It is 42.
}
