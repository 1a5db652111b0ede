package memory_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// What a manager has learned is exported and imported into another store, where the same
// is recalled. The history comes along.
func ExampleExport() {
	ctx := context.Background()
	ada := store.Namespace{"memories", "ada"}
	from := treadle.Must(store.NewMemory(nil))
	model := llmtest.NewScript(llmtest.Ask(
		llmtest.ToolCall("PatchDoc", `{"json_doc_id": "m1", "planned_edits": "she moved", "patches": [{"op": "replace", "path": "/content", "value": "Ada lives in Rome"}]}`),
		llmtest.ToolCall("Memory", `{"content": "Ada keeps bees"}`)))
	manager := treadle.Must(memory.NewStoreManager(model, &memory.StoreManagerOptions{Namespace: ada, Store: from}))
	if err := manager.Put(ctx, "home", memory.Memory{Content: "Ada lives in Bonn"}, nil); err != nil {
		fmt.Println(err)
		return
	}
	if _, err := manager.Reflect(ctx, llm.User("I moved to Rome, and I keep bees now.")); err != nil {
		fmt.Println(err)
		return
	}

	var file bytes.Buffer
	versions, err := memory.Export(ctx, from, &file, ada)
	fmt.Println(versions, "versions exported,", err)
	to := treadle.Must(store.NewMemory(nil))
	report, err := to.Import(ctx, &file)
	fmt.Println(report.Versions, "versions imported,", err)

	for _, s := range []*store.Store{from, to} {
		recall := treadle.Must(memory.NewRecaller(&memory.RecallerOptions{Namespace: ada, Store: s}))
		got, err := recall.Recall(ctx, llm.User("Who lives in Rome?"))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(string(got.Memories[0].Document.Content))
	}
	history, err := to.History(ctx, ada, "home")
	fmt.Println(len(history), "versions of the home,", err)
	// Output:
	// 3 versions exported, <nil>
	// 3 versions imported, <nil>
	// {"content":"Ada lives in Rome"}
	// {"content":"Ada lives in Rome"}
	// 2 versions of the home, <nil>
}
