package items

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/store"
)

// storeWriterEnv makes the test binary a process that puts items until it is
// killed. It is the path of the file and the name of the round.
const storeWriterEnv = "TREADLE_SQLITE_STORE_WRITER"

var killedOptions = &store.Options{Embedder: store.NewHashEmbedder(32), Fields: []string{"text"}, History: 3}

// What was acknowledged is there after kill -9 at any moment, a process that had
// the file open all the time sees it and finds it by its vectors and words, and
// items and indexes agree.
func TestKilledStoreLosesNothing(t *testing.T) {
	kills := 12
	if race.Enabled {
		kills = 3 // the writer takes several times as long
	}
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	eager(db.items)
	s, err := db.Store(killedOptions)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 2))
	for round := range kills {
		name := fmt.Sprint("round ", round)
		lines := killtest.Lines(t, storeWriterEnv+"="+db.conn.Path+"\n"+name, 1+rnd.IntN(150))
		count := 0
		for i, line := range lines {
			what, key, _ := strings.Cut(line, "\t")
			_, err := s.Get(t.Context(), store.Namespace{name, what}, key, nil)
			switch what {
			case "put":
				if err != nil {
					t.Errorf("after kill %d: %v, which was acknowledged", round, err)
				}
				if i%10 == 0 {
					checkFound(t, s, name, key)
				}
			case "deleted":
				if !errors.Is(err, store.ErrNotFound) {
					t.Errorf("after kill %d: %s is there, %v, although its end was acknowledged", round, key, err)
				}
			case "count":
				count++
			}
		}
		checkCount(t, s, name, count)
		checkBackend(t, db)
		if t.Failed() {
			return
		}
	}
}

// checkFound looks for an item by what it says.
func checkFound(t *testing.T, s *store.Store, name, key string) {
	t.Helper()
	for _, ranking := range []store.Ranking{store.Semantic, store.Keyword} {
		items, err := s.Search(t.Context(), store.Namespace{name, "put"}, &store.SearchOptions{Query: textOf(key), Ranking: ranking, Limit: 1})
		if err != nil || len(items) != 1 || items[0].Key != key {
			t.Errorf("ranking %d finds %d items for %q, %v, not the one that says it", ranking, len(items), textOf(key), err)
		}
	}
}

// checkCount looks at an item that counts how often it was put.
func checkCount(t *testing.T, s *store.Store, name string, acked int) {
	t.Helper()
	if acked == 0 {
		return
	}
	item, err := s.Get(t.Context(), store.Namespace{name, "count"}, "n", nil)
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ N int }
	if err := item.Decode(&v); err != nil || v.N < acked {
		t.Errorf("the count is %d, %v, and %d were acknowledged", v.N, err, acked)
	}
}

// textOf returns a text that only one item has.
func textOf(key string) string { return strings.Repeat("x"+key+"x ", 3) + "and other words" }

// putUntilKilled is the other process.
func putUntilKilled(where string) {
	go killtest.EndWithParent()
	path, name, _ := strings.Cut(where, "\n")
	db, err := openTest(path, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s, err := db.Store(killedOptions)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	ack := func(what, key string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stdout, "%s\t%s\n", what, key)
	}
	errs := make(chan error)
	for _, what := range []string{"put", "deleted", "count"} {
		go func() { errs <- putKind(s, store.Namespace{name, what}, what, ack) }()
	}
	fmt.Fprintln(os.Stderr, <-errs)
	os.Exit(1)
}

func putKind(s *store.Store, n store.Namespace, what string, ack func(what, key string)) error {
	ctx := context.Background()
	for i := 1; ; i++ {
		key := fmt.Sprint(i)
		if what == "count" {
			key = "n"
		}
		if err := s.Put(ctx, n, key, map[string]any{"n": i, "text": textOf(key)}, nil); err != nil {
			return err
		}
		if what == "deleted" {
			if err := s.Delete(ctx, n, key, nil); err != nil {
				return err
			}
		}
		ack(what, key)
	}
}
