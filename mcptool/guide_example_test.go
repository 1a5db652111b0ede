package mcptool_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/mcptool"
)

// The examples in this file are code of docs/mcp.md.

// The servers must exist, so the example is compiled but not run.
func ExampleServers() {
	ask := func(ctx context.Context, model llm.Model) error {
		servers, err := mcptool.Connect(ctx,
			mcptool.Server{Name: "files", Command: []string{"mcp-files", "--root", "."}},
			mcptool.Server{Name: "web", URL: "https://example.com/mcp", Header: http.Header{"Authorization": {"Bearer ${TOKEN}"}}})
		if err != nil {
			return err
		}
		defer servers.Close()
		tools, err := servers.Tools(ctx)
		if err != nil {
			return err
		}
		a, err := agent.New(model, &agent.Options{Tools: tools})
		if err != nil {
			return err
		}
		out, err := a.Run(ctx, agent.Ask("Which files are there?"))
		fmt.Println(agent.Answer(out))
		return err
	}
	fmt.Println(ask(context.Background(), llmtest.NewScript()))
}

// The program serves until it is killed, so the example is compiled but not run.
func ExampleHandler() {
	serve := func(addr string, graph *treadle.Graph[agent.State, agent.State], weather *llm.Tool) error {
		owls := mcp.NewServer(&mcp.Implementation{Name: "owls", Version: "v1"}, nil)
		research, err := mcptool.Graph(graph, "Researches a topic.")
		if err != nil {
			return err
		}
		if err := mcptool.Add(owls, research, weather); err != nil {
			return err
		}
		return http.ListenAndServe(addr, mcptool.Handler(owls, nil))
	}
	fmt.Println(serve("localhost:8080", nil, nil))
}

func ExampleByAnnotations() {
	url := "https://shop.example.com/mcp"
	shop := mcptool.Server{Name: "shop", URL: url, Policy: mcptool.ByAnnotations}
	fmt.Println(shop.Policy(&mcp.Tool{Name: "search", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}}) == mcptool.Allow)
	fmt.Println(shop.Policy(&mcp.Tool{Name: "order"}) == mcptool.Ask)
	// Output:
	// true
	// true
}

func ExamplePermission() {
	url := "https://shop.example.com/mcp"
	permissions := map[string]mcptool.Permission{"search": mcptool.Allow, "delete_all": mcptool.Deny}
	shop := mcptool.Server{Name: "shop", URL: url, Policy: func(t *mcp.Tool) mcptool.Permission { return permissions[t.Name] }}
	fmt.Println(shop.Policy(&mcp.Tool{Name: "serach"}) == mcptool.Ask)
	// Output: true
}

func ExampleSampling() {
	url, model := "https://shop.example.com/mcp", llmtest.NewScript()
	shop := mcptool.Server{Name: "shop", URL: url, Sampling: &mcptool.Sampling{Model: model, MaxCalls: 5, MaxTokens: 20_000}}
	fmt.Println(shop.Sampling.MaxCalls)
	// Output: 5
}

func ExampleAddWith() {
	server := mcp.NewServer(&mcp.Implementation{Name: "weather", Version: "v1"}, nil)
	weather := llm.NewTool("weather", "Returns the weather.", func(context.Context, struct{}) (string, error) { return "rain", nil })
	news := llm.NewTool("news", "Returns the news.", func(context.Context, struct{}) (string, error) { return "none", nil })
	err := mcptool.AddWith(server, func(t *mcp.Tool) { t.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: true} }, weather, news)
	fmt.Println(err)
	// Output: <nil>
}

// The program reads a resource of the server and passes it to the model.
func ExampleServers_Read() {
	shop := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "v1"}, nil)
	shop.AddResource(&mcp.Resource{Name: "catalog", URI: "shop://catalog"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "shop://catalog", Text: "barn owl: 40, snowy owl: 90"}}}, nil
	})
	web := httptest.NewServer(mcptool.Handler(shop, nil))
	defer web.Close()

	advise := func(ctx context.Context, url string) (agent.State, error) {
		servers, err := mcptool.Connect(ctx, mcptool.Server{Name: "shop", URL: url})
		if err != nil {
			return agent.State{}, err
		}
		defer servers.Close()
		a, err := agent.New(llmtest.NewScript(llmtest.Say("The barn owl.")), nil)
		if err != nil {
			return agent.State{}, err
		}
		blocks, err := servers.Read(ctx, "shop", "shop://catalog") // texts, images, and files
		if err != nil {
			return agent.State{}, err
		}
		return a.Run(ctx, agent.State{Chat: llm.Chat{Messages: llm.Messages{llm.User("Which owl is the cheapest?", blocks...)}}})
	}
	out, err := advise(context.Background(), web.URL)
	fmt.Println(agent.Answer(out), err)
	// Output: The barn owl. <nil>
}
