package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

func ExampleDB_Store() {
	dir, err := os.MkdirTemp("", "treadle")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	db, err := sqlite.Open(filepath.Join(dir, "app.db"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	// Threads and long-term memory live in one file.
	memory, err := db.Store(&store.Options{Embedder: store.NewHashEmbedder(256), Fields: []string{"text"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	ada := store.Namespace{"users", "ada"}
	for key, text := range map[string]string{"tea": "likes green tea", "bike": "rides a bicycle to work"} {
		if err := memory.Put(ctx, ada, key, map[string]string{"text": text}, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	items, err := memory.Search(ctx, ada, &store.SearchOptions{Query: "what about the bicycles?", Limit: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(items[0].Key, string(items[0].Value))
	// Output: bike {"text":"rides a bicycle to work"}
}
