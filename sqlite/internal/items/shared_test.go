package items

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/sqlite/internal/databasetest"
	"github.com/treadle-go/treadle/store"
)

type value map[string]any

func put(t testing.TB, s *store.Store, n store.Namespace, key string, v value, opts *store.PutOptions) {
	t.Helper()
	if err := s.Put(t.Context(), n, key, v, opts); err != nil {
		t.Fatal(err)
	}
}

// keysOf returns the keys that a search finds.
func keysOf(t testing.TB, s *store.Store, n store.Namespace, opts *store.SearchOptions) []string {
	t.Helper()
	items, err := s.Search(t.Context(), n, opts)
	if err != nil {
		t.Fatal(err)
	}
	keys := make([]string, len(items))
	for i, item := range items {
		keys[i] = item.Key
	}
	return keys
}

var ada = store.Namespace{"users", "ada"}

func TestStorePersistsInFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	options := &store.Options{Embedder: store.NewHashEmbedder(16)}
	db := open(t, path, nil)
	put(t, storeOf(t, db, options), ada, "tea", value{"likes": "green tea"}, nil)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := storeOf(t, open(t, path, nil), options)
	for _, ranking := range []store.Ranking{store.Semantic, store.Keyword, store.Hybrid} {
		if got := keysOf(t, s, ada, &store.SearchOptions{Query: "tea", Ranking: ranking}); !slices.Equal(got, []string{"tea"}) {
			t.Errorf("ranking %d finds %q", ranking, got)
		}
	}
	put(t, s, ada, "coffee", value{}, nil)
	history, err := s.History(t.Context(), ada, "coffee")
	if err != nil || len(history) != 1 || history[0].Version != 2 {
		t.Errorf("the history is %v, %v, want one of version 2", history, err)
	}
}

func TestClosedStoreReturnsErrClosed(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	s := storeOf(t, db, &store.Options{Embedder: store.NewHashEmbedder(16)})
	waits := make(chan error)
	go func() { waits <- db.items.Wait(t.Context(), 0) }()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, getErr := s.Get(t.Context(), ada, "tea", nil)
	_, searchErr := s.Search(t.Context(), ada, &store.SearchOptions{Query: "tea"})
	for what, err := range map[string]error{"wait": <-waits, "get": getErr, "search": searchErr, "put": s.Put(t.Context(), ada, "tea", value{}, nil)} {
		if !errors.Is(err, database.ErrClosed) {
			t.Errorf("%s: %v, want %v", what, err, database.ErrClosed)
		}
	}
}

// Reads go on while another process writes, unless they have something to write
// themselves.
func TestReadsDoNotWaitForWriteLock(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	s := storeOf(t, db, &store.Options{Embedder: store.NewHashEmbedder(16)})
	put(t, s, ada, "tea", value{"likes": "green tea"}, nil)
	put(t, s, store.Namespace{"brief"}, "tea", value{"likes": "green tea"}, &store.PutOptions{TTL: time.Hour})
	other := open(t, db.conn.Path, nil)
	c := <-other.conn.Writer
	defer func() { other.conn.Writer <- c }()
	if err := c.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer c.Rollback()
	if _, err := s.Get(t.Context(), ada, "tea", nil); err != nil {
		t.Error(err)
	}
	for _, o := range []*store.SearchOptions{nil, {Query: "tea"}, {Query: "tea", Ranking: store.Keyword}, {Filter: store.Exists("likes")}} {
		if got := keysOf(t, s, ada, o); !slices.Equal(got, []string{"tea"}) {
			t.Errorf("%+v finds %q", o, got)
		}
	}
	if _, err := s.Get(t.Context(), store.Namespace{"brief"}, "tea", &store.GetOptions{NoRefresh: true}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Get(ctx, store.Namespace{"brief"}, "tea", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a get that refreshes does not wait: %v", err)
	}
}

// An item that ends between a read and its refresh is not brought back.
func TestEndedItemIsNotRefreshed(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	s := storeOf(t, db, nil)
	put(t, s, ada, "tea", value{}, &store.PutOptions{TTL: time.Hour})
	put(t, s, ada, "tea", value{"n": 2}, &store.PutOptions{TTL: time.Hour})
	for seq, want := range map[int64]bool{1: false, 2: true, 3: false} {
		err := db.conn.Write(t.Context(), func(c *database.Conn) error {
			kept, err := extend(c, []refresh{{2, time.Now().Add(time.Minute).UnixMicro()}, {seq, 0}})
			if kept != want {
				t.Errorf("record %d is refreshed: %v", seq, kept)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWatchersSeeOtherHandles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	watcher, writer := storeOf(t, open(t, path, nil), nil), storeOf(t, open(t, path, nil), nil)
	heard := make(chan int64)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for change, err := range watcher.Watch(ctx, ada, 0) {
			if err != nil {
				return
			}
			heard <- change.Version
		}
	}()
	for i := range int64(3) {
		put(t, writer, store.Namespace{"users", "bob"}, "k", value{}, nil)
		put(t, writer, ada, "k", value{"i": i}, nil)
		if got := <-heard; got != 2*i+2 {
			t.Errorf("the watcher hears of version %d, want %d", got, 2*i+2)
		}
	}
	cancel()
	<-ended
}

// The numbers of versions go on after everything was forgotten, in all
// processes.
func TestVersionsNeverDecrease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	a, b := storeOf(t, open(t, path, nil), &store.Options{HistoryAge: time.Nanosecond}), storeOf(t, open(t, path, nil), nil)
	last := int64(0)
	for range 5 {
		for _, s := range []*store.Store{a, b} {
			put(t, s, ada, "k", value{}, nil)
			item, err := s.Get(t.Context(), ada, "k", nil)
			if err != nil || item.Version <= last {
				t.Fatalf("version %d, %v, after %d", item.Version, err, last)
			}
			last = item.Version
		}
		if err := b.ForgetAll(t.Context(), ada); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// What was forgotten leaves no trace of itself but that it was.
func TestForgetLeavesNoNames(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	s := storeOf(t, db, &store.Options{Embedder: store.NewHashEmbedder(16)})
	for i := range 100 {
		put(t, s, store.Namespace{"users", "ada", fmt.Sprint(i), "deep"}, "k", value{"text": "databasetest.Secret"}, nil)
	}
	if err := s.ForgetAll(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]int64{"store_record": 1, "store_space": 2, "store_under": 0, "store_vector": 0, "store_life": 1} {
		if got := databasetest.Ask(t, db.conn, "SELECT count(*) FROM "+table); int64(got) != want {
			t.Errorf("%s has %d rows, want %d", table, got, want)
		}
	}
	checkBackend(t, db)
}

// Building an index of many vectors is not done in silence, and not twice.
func TestLongIndexBuildIsLogged(t *testing.T) {
	var log bytes.Buffer
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, &database.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	db.items.limits = limits{page: 10}
	s := storeOf(t, db, &store.Options{Embedder: store.NewHashEmbedder(16)})
	var ops []store.Op
	for i := range 13 {
		ops = append(ops, store.PutOp{Namespace: ada, Key: fmt.Sprint(i), Value: value{"n": i}})
	}
	if _, err := s.Batch(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		keysOf(t, s, nil, &store.SearchOptions{Query: "17"})
	}
	if got := log.String(); strings.Count(got, "building vector index") != 1 || strings.Count(got, "built vector index") != 1 || !strings.Contains(got, "vectors=13") {
		t.Errorf("the log has:\n%s", got)
	}
}
