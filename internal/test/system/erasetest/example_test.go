package erasetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// The program counts everything that it stores about Ann, and then erases it.
func Example() {
	if err := eraseAnn(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// would erase: 1 item, 1 version
	// erased: 1 item, 1 version
}

func eraseAnn(ctx context.Context) (err error) {
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	items, err := db.Store(nil)
	if err != nil {
		return err
	}
	if err := items.Put(ctx, store.Namespace{"memories", "ann"}, "1", map[string]string{"content": "Ann likes owls."}, nil); err != nil {
		return err
	}
	e := &memory.Erasure{
		Person:     "ann",                                  // pending conversations and crons
		Namespaces: []store.Namespace{{"memories", "ann"}}, // items of the store
		Threads:    []string{"chat 7"},                     // threads, by ID
		Metadata:   map[string]any{"user_id": "ann"},       // threads of a server, by metadata
		Saver:      db,
		Store:      items,
		Ledger:     ledger.New(db.Ledger(), nil),
	}
	would, err := e.DryRun(ctx) // counts, erases nothing
	if err != nil {
		return err
	}
	fmt.Println(firstLine(would))
	report, err := e.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Println(firstLine(report))
	return nil
}

func firstLine(v any) string {
	line, _, _ := strings.Cut(fmt.Sprint(v), "\n")
	return line
}

// The program encrypts threads and items with one key.
func Example_encryption() {
	if err := encrypt([]byte(strings.Repeat("s", 32))); err != nil {
		fmt.Println(err)
	}
	// Output:
}

func encrypt(secret []byte) (err error) {
	db, err := sqlite.Open(":memory:", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	key := checkpoint.EncryptionKey{ID: 1, Secret: secret} // 32 bytes, from a secret store
	saver, err := checkpoint.Encrypted(db, key)
	if err != nil {
		return err
	}
	items, err := db.Store(&store.Options{Keys: []checkpoint.EncryptionKey{key}})
	if err != nil {
		return err
	}
	_, _ = saver, items
	return nil
}
