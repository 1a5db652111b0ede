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

// A message that names a time recalls memories noted or valid at that time.
func ExampleRecaller_time() {
	ctx := context.Background()
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	items, err := store.NewMemory(&store.Options{Now: func() time.Time { return now }})
	if err != nil {
		fmt.Println(err)
		return
	}
	for key, text := range map[string]string{"oslo": "Ada was in Oslo in May 2025 for a conference", "rome": "Ada was in Rome in July 2025 for a conference"} {
		if err := items.Put(ctx, store.Namespace{"ada"}, key, map[string]any{"kind": "Memory", "content": memory.Memory{Content: text}}, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	recall, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: []string{"ada"}, Store: items, Now: func() time.Time { return now }})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, question := range []string{"Where was Ada's conference in May?", "Where was Ada's conference in July?"} {
		got, err := recall.Recall(ctx, llm.User(question))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(got.Memories[0].Item.Key, got.Memories[0].Why.Time)
	}
	// Output:
	// oslo 1
	// rome 1
}

// A memory that says something else in much the same words as an older one is linked
// to it when it is written, without a model.
func ExampleItemChange_supersedes() {
	ctx := context.Background()
	items, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("Memory", `{"content": "Ada lives in Rome"}`)))
	manager, err := memory.NewStoreManager(model, &memory.StoreManagerOptions{Namespace: []string{"ada"}, Store: items})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := manager.Put(ctx, "home", "Ada lives in Bonn", nil); err != nil {
		fmt.Println(err)
		return
	}
	changes, err := manager.Reflect(ctx, llm.User("I moved to Rome."))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(changes[0].Op, changes[0].Supersedes)
	newer, err := manager.Search(ctx, &store.SearchOptions{Filter: store.Meta(store.Eq("supersedes", "home"))})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(newer), string(newer[0].Value))
	// Output:
	// insert home
	// 1 {"kind":"Memory","content":{"content":"Ada lives in Rome"}}
}

// Where Ada lived in June, and what was known about it then.
func ExampleRecaller_RecallAt() {
	ctx := context.Background()
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	s := treadle.Must(store.NewMemory(&store.Options{Now: clock}))
	home := func(key, city string, v memory.Validity) {
		value := map[string]any{"kind": "Memory", "content": memory.Memory{Content: "Ada lives in " + city}}
		if err := s.Put(ctx, store.Namespace{"ada"}, key, value, &store.PutOptions{Meta: map[string]any{"validity": v}}); err != nil {
			panic(err)
		}
	}
	moved := time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	home("bergen", "Bergen", memory.Validity{})
	now = moved.AddDate(0, 0, 9)
	home("bergen", "Bergen", memory.Validity{Until: moved})
	home("oslo", "Oslo", memory.Validity{From: moved})

	r := treadle.Must(memory.NewRecaller(&memory.RecallerOptions{Store: s, Namespace: []string{"ada"}, Now: clock}))
	for _, at := range []memory.At{{}, {Valid: moved.AddDate(0, -3, 0)}, {Known: moved.AddDate(0, 0, 1)}} {
		got, err := r.RecallAt(ctx, at, llm.User("Where does Ada live?"))
		if err != nil {
			panic(err)
		}
		for _, m := range got.Memories {
			fmt.Println(m.Item.Key, "until", m.Document.Validity.Until.Format(time.DateOnly))
		}
	}
	// Output:
	// oslo until 0001-01-01
	// bergen until 2026-09-01
	// bergen until 0001-01-01
}
