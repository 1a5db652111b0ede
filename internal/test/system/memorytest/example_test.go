package memorytest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// An erasure removes a person's data from the bytes of the database file, not only from
// its tables.
func Example_erasure() {
	ctx := context.Background()
	dir := treadle.Must(os.MkdirTemp("", "erase"))
	defer func() { _ = os.RemoveAll(dir) }()
	db := treadle.Must(sqlite.Open(filepath.Join(dir, "agent.db"), nil))
	items := treadle.Must(db.Store(nil))
	for _, person := range []string{"ann", "bob"} {
		if err := items.Put(ctx, store.Namespace{"memories", person}, "1", map[string]string{"content": person + " is allergic to nuts"}, nil); err != nil {
			fmt.Println(err)
		}
	}
	e := &memory.Erasure{
		Person:     "ann",
		Namespaces: []store.Namespace{{"memories", "ann"}},
		Threads:    []string{"ann's chat"},
		Saver:      db,
		Store:      items,
	}
	report, err := e.Run(ctx)
	fmt.Printf("%v%v\n", report, err)

	raw := string(treadle.Must(os.ReadFile(filepath.Join(dir, "agent.db"))))
	fmt.Println(strings.Contains(raw, "ann is allergic"), strings.Contains(raw, "bob is allergic"), db.Close())
	// Output:
	// erased: 1 item, 1 version
	// cleared: the cached results of all nodes
	// scrubbed: the files of the databases
	// <nil>
	// false true <nil>
}

// A store with keys encrypts memories in the file and in its backups. Managers, recallers,
// tools, and searches work as usual. Keep the key separate from the file.
func Example_encryptedMemories() {
	ctx := context.Background()
	dir := treadle.Must(os.MkdirTemp("", "encrypted"))
	defer func() { _ = os.RemoveAll(dir) }()
	db := treadle.Must(sqlite.Open(filepath.Join(dir, "agent.db"), nil))
	key := checkpoint.EncryptionKey{ID: 1, Secret: []byte("thirty-two bytes of a secret key")}
	items := treadle.Must(db.Store(&store.Options{Keys: []checkpoint.EncryptionKey{key}}))
	if err := items.Put(ctx, store.Namespace{"memories", "ann"}, "1", map[string]string{"content": "Ann is allergic to nuts"}, nil); err != nil {
		fmt.Println(err)
	}
	found, err := items.Search(ctx, store.Namespace{"memories"}, &store.SearchOptions{Query: "allergic"})
	fmt.Println(string(found[0].Value), err, db.Close())
	raw := string(treadle.Must(os.ReadFile(filepath.Join(dir, "agent.db"))))
	fmt.Println(strings.Contains(raw, "allergic"), strings.Contains(raw, "nuts"))
	// Output:
	// {"content":"Ann is allergic to nuts"} <nil> <nil>
	// false false
}
