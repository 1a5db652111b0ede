package postgres_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pgtest"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/store"
)

// Open returns a saver for graphs; its Store keeps memories in the same schema. Migrate
// makes the tables, or upgrades them.
func ExampleOpen() {
	ctx := context.Background()
	url, err := pgtest.Server() // such as postgres://user:password@host/database
	if err != nil {
		fmt.Println(err)
		return
	}
	db, err := postgres.Open(ctx, url, &postgres.Options{Schema: "example_open", Migrate: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	var _ checkpoint.Saver = db // as in treadle.Options{Saver: db}
	items, err := db.Store(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	users := store.Namespace{"users"}
	if err := items.Put(ctx, users, "ada", map[string]string{"likes": "tea"}, nil); err != nil {
		fmt.Println(err)
		return
	}
	item, err := items.Get(ctx, users, "ada", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", item.Value)
	// Output: {"likes":"tea"}
}
