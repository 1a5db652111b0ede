package memory_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// An agent may manage memories with tools: it searches, then writes new ones.
//
// Sample: E6.
func Example_managerAgent() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	create := func(text string) llmtest.Turn {
		return llmtest.Ask(llmtest.ToolCall("manage_memory", map[string]string{"action": "create", "content": text}))
	}
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("search_memory", `{"query":"Alice, Bob, ML team"}`)),
		create("Alice is the manager of the ML (Machine Learning) team"),
		create("Bob works on the ML team"),
		create("Alice mentors Bob on the ML team"),
		llmtest.Say("Noted."),
	)
	options := &memory.ToolOptions{Namespace: []string{"memories"}}
	manage, err := memory.ManageTool[string](options)
	if err != nil {
		fmt.Println(err)
		return
	}
	search, err := memory.SearchTool(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	manager := treadle.Must(agent.New(model, &agent.Options{
		Prompt: "You are a memory manager. Keep what matters with the tools you have.",
		Tools:  []*llm.Tool{manage, search},
		Graph:  treadle.Options{Store: s},
	}))
	said := llm.User("Alice manages the ML team and mentors Bob, who is also on the team.")
	out, err := manager.Run(ctx, agent.State{Chat: llm.Chat{Messages: llm.Messages{said}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Messages[len(out.Messages)-1].Text())
	show(ctx, s, "memories")

	// Output:
	// Noted.
	// ["memories"] {"content":"Alice is the manager of the ML (Machine Learning) team"}
	// ["memories"] {"content":"Bob works on the ML team"}
	// ["memories"] {"content":"Alice mentors Bob on the ML team"}
}
