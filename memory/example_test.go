package memory_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// What a user says in one conversation is known in the next one: after an answer the
// manager extracts memories, and before an answer the recaller adds them to the prompt.
func ExampleMiddleware() {
	ctx := context.Background()
	items, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	namespace := []string{"users", "ada"}
	extractor := llmtest.NewScript( // one answer for each conversation
		llmtest.Ask(llmtest.ToolCall("Memory", `{"content": "Ada likes green tea"}`)),
		llmtest.Ask(llmtest.ToolCall("Done", `{}`)))
	manager, err := memory.NewStoreManager(extractor, &memory.StoreManagerOptions{Namespace: namespace, Store: items})
	if err != nil {
		fmt.Println(err)
		return
	}
	recall, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: namespace, Store: items})
	if err != nil {
		fmt.Println(err)
		return
	}
	model := llmtest.NewScript(
		llmtest.Say("Good to know."),
		llmtest.Say("Green tea, as always?", llmtest.Asked("tea"))) // the prompt has the memory
	g, err := agent.New(model, &agent.Options{
		Middleware: []*agent.Middleware{memory.Middleware(&memory.MiddlewareOptions{Recall: recall, Manager: manager})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, line := range []string{"I like green tea.", "What tea shall I drink?"} { // two conversations
		out, err := g.Run(ctx, agent.Ask(line))
		fmt.Println(agent.Answer(out), err)
	}
	// Output:
	// Good to know. <nil>
	// Green tea, as always? <nil>
}
