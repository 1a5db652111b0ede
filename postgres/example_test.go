package postgres_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/postgres"
	"github.com/treadle-go/treadle/store"
)

// Open returns a saver for graphs; its Store keeps memories in the same schema. Migrate
// creates or upgrades the tables.
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

// New uses a pool that the program already has. The pool stays open when the DB is
// closed.
func ExampleNew() {
	ctx := context.Background()
	url, err := pgtest.Server() // such as postgres://user:password@host/database
	if err != nil {
		fmt.Println(err)
		return
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	db, err := postgres.New(ctx, pool, &postgres.Options{Schema: "example_new", Migrate: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	put := &checkpoint.Put{Key: checkpoint.Key{Thread: "ada", ID: checkpoint.NewID(0, checkpoint.ID{})}, Source: checkpoint.Input}
	if err := db.Put(ctx, put); err != nil { // graphs do this: treadle.Options{Saver: db}
		fmt.Println(err)
		return
	}
	if err := db.Close(); err != nil { // before the pool
		fmt.Println(err)
		return
	}

	var threads int
	err = pool.QueryRow(ctx, "SELECT count(*) FROM example_new.thread").Scan(&threads)
	fmt.Println(threads, err)
	// Output: 1 <nil>
}
