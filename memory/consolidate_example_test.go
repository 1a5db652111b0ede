package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// Notes with the same text are merged without a model. A reflector calls Consolidate while the user
// is idle, and Undo takes a change set back.
func ExampleStoreManager_Consolidate() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := memory.NewStoreManager(llmtest.NewScript(), &memory.StoreManagerOptions{Store: s, Namespace: []string{"memories", "ann"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for key, text := range map[string]string{"monday": "Ann drinks green tea.", "friday": "Ann drinks green tea.", "cat": "Ann has a cat."} {
		if err := m.Put(ctx, key, memory.Memory{Content: text}, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	count := func() int {
		items, err := m.Search(ctx, nil)
		if err != nil {
			fmt.Println(err)
			return 0
		}
		return len(items)
	}
	done, err := m.Consolidate(ctx, &memory.ConsolidateOptions{Tokens: 500})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d change set, %d tokens, %d notes\n", len(done.Sets), done.Tokens, count())

	if _, err := m.Undo(ctx, done.Sets[0]...); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("taken back:", count(), "notes")
	// Output:
	// 1 change set, 0 tokens, 2 notes
	// taken back: 3 notes
}

// Memories are consolidated in the background, after their user has been idle for an hour:
// each reflection that has changed memories submits the user to a second reflector.
func ExampleStoreManager_Consolidate_background() {
	ctx := context.Background()
	s := treadle.Must(store.NewMemory(nil))
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("Memory", `{"content": "Ann drinks green tea."}`)))
	m := treadle.Must(memory.NewStoreManager(model, &memory.StoreManagerOptions{Store: s, Namespace: []string{"memories", "{user}"}}))
	ctx = memory.WithVars(ctx, map[string]string{"user": "ann"})
	if err := m.Put(ctx, "tea", memory.Memory{Content: "Ann drinks green tea"}, nil); err != nil {
		fmt.Println(err)
		return
	}

	// A key has one run at a time. Each submit merges with the pending one of the same
	// user and starts the wait again.
	idle := treadle.Must(memory.NewReflector(func(ctx context.Context, user string, _ struct{}) (*memory.Consolidation, error) {
		done, err := m.Consolidate(memory.WithVars(ctx, map[string]string{"user": user}), &memory.ConsolidateOptions{Tokens: 500})
		for _, set := range done.Sets {
			for _, c := range set {
				fmt.Println(user+":", c.Op, c.Reason != "")
			}
		}
		return done, err
	}, nil))
	learn := treadle.Must(memory.NewReflector(m.ReflectOn, &memory.ReflectorOptions[memory.Session, []memory.ItemChange]{
		Done: func(_ string, changes []memory.ItemChange, err error) {
			if err != nil || len(changes) == 0 {
				return
			}
			user := changes[0].Namespace[1]
			if _, err := idle.Submit(context.Background(), user, struct{}{}, time.Hour); err != nil {
				fmt.Println(err)
			}
		},
	}))

	session, err := m.Session(ctx, llm.User("A green tea, as always."))
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := learn.Submit(ctx, "thread 1", session, time.Minute); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("learned:", learn.Flush(ctx))     // instead of a minute of waiting
	fmt.Println("consolidated:", idle.Flush(ctx)) // instead of an hour
	items, err := m.Search(ctx, nil)
	fmt.Println(len(items), "note", err)
	fmt.Println(learn.Close(ctx), idle.Close(ctx))
	// Output:
	// learned: <nil>
	// ann: update true
	// ann: delete true
	// consolidated: <nil>
	// 1 note <nil>
	// <nil> <nil>
}
