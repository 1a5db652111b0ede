package store_test

import (
	"context"
	"fmt"
	"time"

	"github.com/treadle-go/treadle/store"
)

// ticking returns a clock that advances by a minute with each call.
func ticking() func() time.Time {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return func() time.Time {
		now = now.Add(time.Minute)
		return now
	}
}

// Old versions can be read: the history of an item, and the whole store at a time.
func Example_past() {
	ctx := context.Background()
	s, err := store.NewMemory(&store.Options{Now: ticking()})
	if err != nil {
		fmt.Println(err)
		return
	}
	ada := store.Namespace{"users", "ada"}
	for _, city := range []string{"London", "Paris"} {
		if err := s.Put(ctx, ada, "home", map[string]string{"city": city}, nil); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := s.Delete(ctx, ada, "home", nil); err != nil {
		fmt.Println(err)
		return
	}
	history, err := s.History(ctx, ada, "home")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, change := range history {
		fmt.Print(change.At.Format("15:04 "), change.Kind)
		if change.Item != nil {
			fmt.Printf(" %s", change.Item.Value)
		}
		fmt.Println()
	}
	item, err := s.AsOf(history[2].At).Get(ctx, ada, "home")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("at %s: %s\n", history[2].At.Format("15:04"), item.Value)
	// Output:
	// 12:03 deleted
	// 12:02 put {"city":"Paris"}
	// 12:01 put {"city":"London"}
	// at 12:01: {"city":"London"}
}

// A watcher stores the version of the last change that it has handled, and continues there
// after a restart.
func Example_watch() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	users := store.Namespace{"users"}
	put := func(user, key string) error {
		return s.Put(ctx, append(users[:1:1], user), key, struct{}{}, nil)
	}
	var done int64 // would be kept in a database
	watch := func(n int) {
		for change, err := range s.Watch(ctx, users, done) {
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Println(change.Kind, change.Namespace, change.Key)
			done = change.Version
			if n--; n == 0 {
				return
			}
		}
	}
	for _, err := range []error{put("ada", "tea"), put("bob", "coffee")} {
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	watch(1)
	fmt.Println("a restart")
	if err := s.ForgetAll(ctx, store.Namespace{"users", "ada"}); err != nil {
		fmt.Println(err)
		return
	}
	watch(2)
	// Output:
	// put ["users" "ada"] tea
	// a restart
	// put ["users" "bob"] coffee
	// forgotten ["users" "ada"]
}
