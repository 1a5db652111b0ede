package memory_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// Episode is a successful interaction: the request, and the action taken.
type Episode struct {
	Situation string `json:"situation" jsonschema:"what was asked"`
	Action    string `json:"action" jsonschema:"what was done about it, and why it helped"`
}

// Past episodes are shown to the model as examples: the episodes most similar to the
// current request.
//
// Sample: E11.
func Example_fewShotRecall() {
	ctx := context.Background()
	now := func() time.Time { return time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC) }
	s, err := store.NewMemory(&store.Options{Embedder: store.NewHashEmbedder(256), Now: now})
	if err != nil {
		fmt.Println(err)
		return
	}
	// Episodes are learned from conversations as other memories are.
	var learned []llmtest.Turn
	for _, e := range []Episode{
		{"A customer was charged twice for an order", "refund: one of the two charges was taken back"},
		{"A customer cannot log in after changing the password", "reset: a link to set a new password was sent"},
		{"A customer asks when the parcel arrives", "track: the carrier's page was sent"},
	} {
		learned = append(learned, llmtest.Ask(llmtest.ToolCall("Episode", e)))
	}
	options := &memory.StoreManagerOptions{Namespace: []string{"episodes"}, Store: s}
	options.Kinds = []memory.Kind{memory.NewKind[Episode]("A case that was solved, to learn from.")}
	manager, err := memory.NewStoreManager(llmtest.NewScript(learned...), options)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, solved := range []string{"You charged me twice!", "I cannot log in.", "Where is my parcel?"} {
		if _, err := manager.Reflect(ctx, llm.User(solved)); err != nil {
			fmt.Println(err)
		}
	}

	examples, err := memory.NewRecaller(&memory.RecallerOptions{
		Namespace: []string{"episodes"}, Store: s,
		Filter: store.Eq("kind", "Episode"),
		Limit:  2,
		Now:    now,
		Render: func(d memory.Document) string {
			var e Episode
			if err := d.Decode(&e); err != nil {
				return string(d.Content)
			}
			return e.Situation + "\n→ " + e.Action
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	model := llmtest.NewScript(llmtest.Say("refund"))
	support := treadle.Must(agent.New(model, &agent.Options{
		Prompt:     "Say what to do. Go by similar cases.",
		Middleware: []*agent.Middleware{memory.Middleware(&memory.MiddlewareOptions{Recall: examples})},
	}))
	out, err := support.Run(ctx, agent.Ask("I was charged two times for the same order"))
	if err != nil {
		fmt.Println(err)
		return
	}
	printMemories(model.Requests()[0])
	fmt.Println("the agent says:", agent.Answer(out))

	// Output:
	// - 2026-05-04: A customer was charged twice for an order
	//   → refund: one of the two charges was taken back
	// - 2026-05-04: A customer asks when the parcel arrives
	//   → track: the carrier's page was sent
	// the agent says: refund
}

// printMemories prints the memories in a model request.
func printMemories(req *llm.Request) {
	_, list, _ := strings.Cut(req.Messages[0].Text(), "\n- ")
	list, _, _ = strings.Cut(list, "\n</memories_")
	fmt.Println("- " + list)
}
