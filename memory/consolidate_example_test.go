package memory_test

import (
	"context"
	"fmt"

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
