package memorytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// done is a model that never changes a memory.
type done struct{}

func (done) Stream(context.Context, *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) { yield(llm.Assistant("Done.").Chunk(), nil) }
}

// consolidatorEnv is the environment variable that turns the test binary into a process that consolidates
// until it is killed. Its value is the path of the file.
const consolidatorEnv = "TREADLE_MEMORY_CONSOLIDATOR"

// consolidateUntilKilled stores pairs of equal notes and merges them.
func consolidateUntilKilled(path string) {
	go killtest.EndWithParent()
	fmt.Fprintln(os.Stderr, consolidateForever(path))
	os.Exit(1)
}

func consolidateForever(path string) error {
	ctx := context.Background()
	db, err := sqlite.Open(path, nil)
	if err != nil {
		return err
	}
	s, err := db.Store(nil)
	if err != nil {
		return err
	}
	m, err := memory.NewStoreManager(done{}, &memory.StoreManagerOptions{Store: s, Namespace: memories})
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		for _, end := range []string{"", "."} {
			note := fmt.Sprintf(`{"kind":"Memory","content":{"content":"fact%d%s"}}`, i, end)
			if err := s.Put(ctx, memories, fmt.Sprint(i, end), json.RawMessage(note), nil); err != nil {
				return err
			}
		}
		fmt.Fprintln(os.Stdout, i)
		if _, err := m.Consolidate(ctx, nil); err != nil {
			return err
		}
	}
}

// Each change set is written completely or not at all.
func TestKilledConsolidationIsAtomic(t *testing.T) {
	for _, n := range []int{1, 4} {
		path := filepath.Join(t.TempDir(), "test.db")
		lines := killtest.Lines(t, consolidatorEnv+"="+path, n)
		db := openFile(t, path)
		s := newStore(t, db, nil)
		for _, i := range lines {
			old, err := s.Get(t.Context(), memories, i, nil)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			item, err := s.Get(t.Context(), memories, i+".", nil)
			if err != nil {
				t.Fatal(err)
			}
			var meta struct {
				Merged []string `json:"merged"`
			}
			if err := item.DecodeMeta(&meta); err != nil {
				t.Fatal(err)
			}
			if (old == nil) != slices.Equal(meta.Merged, []string{i}) {
				t.Errorf("killed after %d: of pair %s the first is %v, and the second has merged %q", n, i, old, meta.Merged)
			}
		}
		m := newStoreManager(t, s, done{})
		for again := range 2 { // the next process finishes the work
			c, err := m.Consolidate(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if again == 1 && (len(c.Sets) != 0 || c.Tokens != 0 || c.Unaffordable+c.Conflicts != 0) {
				t.Errorf("killed after %d: a second consolidation changes %+v", n, c)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
