// Command waiter shows an agent that remembers its guests.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/url"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/sqlite"
)

func main() {
	if err := run(context.Background(), ":memory:"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) (err error) {
	db, err := sqlite.Open(file, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := db.Store(nil)
	if err != nil {
		return err
	}
	manager, err := newManager(extractorModel, s)
	if err != nil {
		return err
	}
	waiter, err := newWaiter(waiterModel, manager, db, s)
	if err != nil {
		return err
	}
	ask := func(guest, thread, text string) error {
		out, err := waiter.With(treadle.Context(Guest{guest})).Thread(threadID(guest, thread)).Run(ctx, agent.Ask(text))
		fmt.Printf("%s, %s: %s\n  %s\n", guest, thread, text, agent.Answer(out))
		return err
	}
	for _, turn := range []struct{ guest, thread, text string }{
		{"ada", "monday", "I am allergic to nuts. Which cake?"},
		{"ada", "monday", "What did I say?"},         // short term: the thread
		{"ada", "friday", "Which cake has no nuts?"}, // long term: another thread of the same guest
		{"bob", "friday", "Which cake has no nuts?"},
	} {
		if err := ask(turn.guest, turn.thread, turn.text); err != nil {
			return err
		}
	}

	// Outside a run, WithVars names the guest.
	ada := memory.WithVars(ctx, map[string]string{"user": "ada"})
	items, err := manager.Search(ada, nil) // at most 10: set SearchOptions.Limit
	if err != nil {
		return err
	}
	for _, item := range items {
		fmt.Printf("stored: %s\n", item.Value)
	}
	if err := forget(ctx, "ada", manager, db); err != nil {
		return err
	}
	return ask("ada", "monday", "Which cake has no nuts?") // the old conversation is gone too
}

// threadID returns the ID of a guest's thread. Without the guest's name, guests would share
// conversations.
func threadID(guest, thread string) string {
	return url.PathEscape(guest) + "/" + thread // names may contain a slash
}

// forget removes a guest's conversations and memories. The conversations come first, because
// the manager would store their facts again.
func forget(ctx context.Context, guest string, manager *memory.StoreManager, db *sqlite.DB) error {
	for thread, err := range db.Threads(ctx) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(thread.Name, threadID(guest, "")) {
			if err := db.DeleteThread(ctx, thread.Name); err != nil {
				return err
			}
		}
	}
	return manager.ForgetAll(memory.WithVars(ctx, map[string]string{"user": guest}))
}
