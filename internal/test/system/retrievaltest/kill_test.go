package retrievaltest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/retrieval"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// syncerEnv contains the path of the database that a child process syncs.
const syncerEnv = "TREADLE_TEST_RETRIEVAL_SYNC"

// corpus has small sources, which are written together, and long ones, which need several
// batches.
func corpus(round int) fstest.MapFS {
	files := fstest.MapFS{}
	for i := range 12 {
		text := fmt.Sprintf("round %d of file %d", round*(i%3), i)
		if i%4 == 0 {
			text = strings.Repeat(text+"\n\n", 700)
		}
		if round == 0 || i != 5 {
			files[fmt.Sprintf("%02d.txt", i)] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return files
}

// telling is an embedder that writes a line per call, so that a kill hits any batch.
type telling struct{ store.Embedder }

func (e telling) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	fmt.Fprintln(os.Stdout, "embed", len(texts))
	return e.Embedder.Embed(ctx, texts)
}

func open(path string, e store.Embedder) (*sqlite.DB, *store.Store, *retrieval.Index, error) {
	db, err := sqlite.Open(path, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	s, err := db.Store(&store.Options{Embedder: e, History: 1})
	if err != nil {
		return nil, nil, nil, err
	}
	x, err := retrieval.New(s, &retrieval.Options{Splitter: retrieval.Characters(&retrieval.SplitOptions{Size: 30})})
	return db, s, x, err
}

// syncUntilKilled changes the folder and syncs it, again and again.
func syncUntilKilled(path string) {
	go killtest.EndWithParent()
	_, _, x, err := open(path, telling{store.NewHashEmbedder(4)})
	for round := 0; err == nil; round++ {
		_, err = x.Sync(context.Background(), retrieval.FS(corpus(round%5), nil), nil)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func contents(t *testing.T, s *store.Store) map[string]string {
	t.Helper()
	items, err := s.Search(t.Context(), store.Namespace{"documents"}, &store.SearchOptions{Limit: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, item := range items {
		out[item.Namespace.String()+item.Key] = string(item.Value)
	}
	return out
}

// TestKilledSyncIsContinued kills processes that sync one database at the same time, and then
// compares the index with one that was never interrupted.
func TestKilledSyncIsContinued(t *testing.T) {
	fresh, s, x, err := open(filepath.Join(t.TempDir(), "fresh.db"), store.NewHashEmbedder(4))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fresh.Close() }()
	if _, err := x.Sync(t.Context(), retrieval.FS(corpus(2), nil), nil); err != nil {
		t.Fatal(err)
	}
	want := contents(t, s)
	path := filepath.Join(t.TempDir(), "killed.db")
	for _, lines := range []int{1, 3, 7, 16} {
		var wait sync.WaitGroup
		for i := range 2 {
			wait.Go(func() { killtest.Lines(t, syncerEnv+"="+path, lines+i) })
		}
		wait.Wait()
		db, s, x, err := open(path, store.NewHashEmbedder(4))
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Sync(t.Context(), retrieval.FS(corpus(2), nil), nil)
		if err != nil || len(r.Failed) > 0 {
			t.Fatal(r, err)
		}
		if got := contents(t, s); !maps.Equal(got, want) {
			t.Errorf("after %d lines, the index has %d items, want %d", lines, len(got), len(want))
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
