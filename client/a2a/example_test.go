package a2a_test

import (
	"context"
	"fmt"
	"net/http"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/client/a2a"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// A program sends a message to a remote agent, and offers the agent to a model as a tool.
func ExampleConnect() { //nolint:testableexamples // requires a server
	run := func(ctx context.Context, model llm.Model, token string) error {
		remote, err := a2a.Connect(ctx, "https://example.com/a2a/support", &a2a.Options{Header: http.Header{"Authorization": {"Bearer " + token}}})
		if err != nil {
			return err
		}
		reply, err := remote.Send(ctx, "", llm.User("Where is my owl?")) // in a node, or anywhere else
		if err != nil {
			return err
		}
		fmt.Println(reply.Message.Text())
		a, err := agent.New(model, &agent.Options{Tools: []*llm.Tool{remote.Tool()}})
		if err != nil {
			return err
		}
		out, err := a.Run(ctx, agent.Ask("Ask support where my owl is."))
		fmt.Println(agent.Answer(out))
		return err
	}
	fmt.Println(run(context.Background(), llmtest.NewScript(), "a token"))
}
