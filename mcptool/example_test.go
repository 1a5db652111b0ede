package mcptool_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
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
	web := httptest.NewServer(mcptool.Handler(math, nil))
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

// A graph asks before it orders. Served over MCP, its question reaches the run of the agent that
// calls it, and the answer goes back the same way.
func ExampleElicitation() {
	ctx := context.Background()
	order, err := treadle.NewWorkflow("order", func(ctx context.Context, in struct {
		Item string `json:"item"`
	}) (string, error) {
		sure, err := treadle.Interrupt[bool](ctx, "Order "+in.Item+"?")
		if err != nil || !sure {
			return "not ordered", err
		}
		return "ordered " + in.Item, nil
	}, &treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		fmt.Println(err)
		return
	}
	tool, err := mcptool.Graph(order, "Orders an item.")
	if err != nil {
		fmt.Println(err)
		return
	}
	shop := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "v1"}, nil)
	if err := mcptool.Add(shop, tool); err != nil {
		fmt.Println(err)
		return
	}
	web := httptest.NewServer(mcptool.Handler(shop, nil))
	defer web.Close()

	url := web.URL
	servers, err := mcptool.Connect(ctx, mcptool.Server{Name: "shop", URL: url, Elicit: true})
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
		llmtest.Ask(llmtest.ToolCall("order", `{"item":"an owl"}`)),
		llmtest.Say("Your owl is on its way."))
	a, err := agent.New(model, &agent.Options{Tools: tools, Graph: treadle.Options{Saver: checkpoint.NewMemory()}})
	if err != nil {
		fmt.Println(err)
		return
	}
	thread := a.Thread("1")
	_, err = thread.Run(ctx, agent.Ask("I want an owl."))
	var stop *treadle.InterruptError
	if !errors.As(err, &stop) {
		fmt.Println(err)
		return
	}
	var question mcptool.Elicitation
	if err := stop.Pauses[0].Decode(&question); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(question.Server, "asks:", question.Message)
	out, err := thread.Resume(ctx, mcptool.Answer{Action: "accept", Content: map[string]any{"answer": true}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range out.Messages[2:] {
		fmt.Println(m.Role, m.Text())
	}
	// Output:
	// shop asks: Order an owl?
	// tool "ordered an owl"
	// ai Your owl is on its way.
}

// The SDK's session lists prompts and resource templates, which a program may show to its user.
func ExampleServers_Session() {
	ctx := context.Background()
	shop := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "v1"}, nil)
	shop.AddPrompt(&mcp.Prompt{Name: "compare", Description: "Compares two owls."}, nil)
	shop.AddResourceTemplate(&mcp.ResourceTemplate{Name: "owl", URITemplate: "shop://owls/{name}"}, nil)
	web := httptest.NewServer(mcptool.Handler(shop, nil))
	defer web.Close()

	servers, err := mcptool.Connect(ctx, mcptool.Server{Name: "shop", URL: web.URL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer servers.Close()
	session, err := servers.Session(ctx, "shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	for p, err := range session.Prompts(ctx, nil) {
		fmt.Println(p.Name, p.Description, err)
	}
	for t, err := range session.ResourceTemplates(ctx, nil) {
		fmt.Println(t.Name, t.URITemplate, err)
	}
	// Output:
	// compare Compares two owls. <nil>
	// owl shop://owls/{name} <nil>
}
