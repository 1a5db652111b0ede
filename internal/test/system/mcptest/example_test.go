package mcptest

import (
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/mcptool"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// The MCP endpoint of a server also offers a prompt and a tool of the program.
func Example() {
	if err := serveOwls(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
}

func serveOwls(ctx context.Context) (err error) {
	g, err := treadle.NewWorkflow("greet", func(_ context.Context, name string) (string, error) { return "Hello " + name, nil }, nil)
	if err != nil {
		return err
	}
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	srv, err := withTools(db, []treadle.AnyGraph{g})
	if err != nil {
		return err
	}
	return srv.Drain(ctx)
}

func withTools(db server.Database, graphs []treadle.AnyGraph) (*server.Server, error) {
	weather := llm.NewTool("weather", "Returns the weather.", func(context.Context, struct{}) (string, error) { return "rain", nil })
	compare := func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, nil
	}
	own := mcp.NewServer(&mcp.Implementation{Name: "owls", Version: "v1"}, nil)
	own.AddPrompt(&mcp.Prompt{Name: "compare"}, compare)
	if err := mcptool.Add(own, weather); err != nil {
		return nil, err
	}
	return server.New(db, graphs, &server.Options{MCP: &server.MCP{Server: own}})
}
