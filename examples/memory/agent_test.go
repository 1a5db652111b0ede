package memory_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/memory/prompts"
	"github.com/treadle-go/treadle/store"
)

// Customer is who an agent talks to.
type Customer struct {
	ID string `json:"customer"`
}

// An agent that remembers: what a customer says on one thread is available on the next.
// Memories are extracted in the background, after a while without messages. The pending
// work is in the store, so that it survives a restart.
func Example_agentThatRemembers() {
	ctx := context.Background()
	now := func() time.Time { return time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC) }
	s, err := store.NewMemory(&store.Options{Now: now}) // or a store from package sqlite or postgres
	if err != nil {
		fmt.Println(err)
		return
	}
	place := []string{"customers", "{customer}", "memories"}
	manager, err := memory.NewStoreManager(llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("Memory", memory.Memory{Content: "Ada is allergic to nuts"}))),
		&memory.StoreManagerOptions{Namespace: place, Store: s})
	if err != nil {
		fmt.Println(err)
		return
	}
	reflector, err := memory.OpenReflector(ctx, s, store.Namespace{"pending"}, manager.ReflectOn, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	recaller, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: place, Store: s, Now: now})
	if err != nil {
		fmt.Println(err)
		return
	}
	model := llmtest.NewScript(llmtest.Say("I will keep that in mind."), llmtest.Say("Not the one with nuts."))
	waiter := treadle.Must(agent.New(model, &agent.Options{
		Middleware: []*agent.Middleware{memory.Middleware(&memory.MiddlewareOptions{
			Recall: recaller, Manager: manager, Reflector: reflector, After: time.Minute,
		})},
		Graph: treadle.Options{Saver: checkpoint.NewMemory()},
	})).With(treadle.Context(Customer{"ada"}))

	if _, err := waiter.Thread("monday").Run(ctx, agent.Ask("I am Ada, and allergic to nuts")); err != nil {
		fmt.Println(err)
	}
	if err := reflector.Flush(ctx); err != nil { // not to wait for the minute
		fmt.Println(err)
	}
	out, err := waiter.Thread("friday").Run(ctx, agent.Ask("Which cake has no nuts?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	printMemories(model.Requests()[1])
	fmt.Println(agent.Answer(out))
	if err := reflector.Close(ctx); err != nil {
		fmt.Println(err)
	}

	// Output:
	// - 2026-05-04: Ada is allergic to nuts
	// Not the one with nuts.
}

// A recollection explains why each memory was recalled, and has a limit of tokens.
func Example_recall() {
	ctx := context.Background()
	now := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	s, err := store.NewMemory(&store.Options{Now: func() time.Time { return now }})
	if err != nil {
		fmt.Println(err)
		return
	}
	ada := store.Namespace{"ada"}
	for i, text := range []string{
		"In the morning Ada has coffee",
		"In the morning Ada has tea",
		"In the morning Ada went to sea. " + strings.Repeat("There was wind. ", 50),
	} {
		note := map[string]any{"kind": "Memory", "content": memory.Memory{Content: text}}
		if err := s.Put(ctx, ada, fmt.Sprint(i), note, nil); err != nil {
			fmt.Println(err)
		}
		now = now.AddDate(0, 0, 30)
	}
	r, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: ada, Store: s, MaxTokens: 100, Now: func() time.Time { return now }})
	if err != nil {
		fmt.Println(err)
		return
	}
	got, err := r.Recall(ctx, llm.User("What has Ada in the morning?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range got.Memories {
		fmt.Printf("%s\n  %s\n", m.Document.Content, m.Why)
	}
	fmt.Println(got.Tokens, "tokens,", got.Hidden, "hidden")

	// Output:
	// {"content":"In the morning Ada has tea"}
	//   relevance 1.00 (no. 1 by keywords: ada morning), recency 0.25, importance 0.50, used 0 times
	// {"content":"In the morning Ada has coffee"}
	//   relevance 1.00 (no. 2 by keywords: ada morning), recency 0.12, importance 0.50, used 0 times
	// 88 tokens, 1 hidden
}

// Instructions in the store are improved by feedback, and agents use the new ones.
func Example_instructions() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	how, err := memory.NewInstructions(prompts.Prompt{Name: "tweets", Text: "Write a tweet for {brand}."},
		&memory.InstructionsOptions{Store: s})
	if err != nil {
		fmt.Println(err)
		return
	}
	optimizer, err := prompts.NewOptimizer(llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("optimized_prompt_output", map[string]any{
		"logic": "emojis were asked for", "update_prompt": true, "new_prompt": "Write a tweet for {brand}, with an emoji."}))), prompts.Memory, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	model := llmtest.NewScript(llmtest.Say("Treadle is out."), llmtest.Say("Treadle is out! 🎉"))
	writer := treadle.Must(agent.New(model, &agent.Options{Middleware: []*agent.Middleware{how.Middleware()}})).
		With(treadle.Context(map[string]string{"brand": "Treadle"}))

	first, err := writer.Run(ctx, agent.Ask("announce the release"))
	if err != nil {
		fmt.Println(err)
		return
	}
	better, err := how.Improve(ctx, optimizer, []prompts.Trajectory{{Messages: first.Messages, Feedback: "I want emojis!"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(better.Diff)
	if _, err := writer.Run(ctx, agent.Ask("announce the release")); err != nil {
		fmt.Println(err)
	}
	for _, req := range model.Requests() {
		fmt.Println(req.Messages[0].Text())
	}

	// Output:
	// - Write a tweet for {brand}.
	// + Write a tweet for {brand}, with an emoji.
	// Write a tweet for Treadle.
	// Write a tweet for Treadle, with an emoji.
}
