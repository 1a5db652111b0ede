package items

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// A file passes the suite, also with indexes from the first item on, and does as
// memory does, also through two handles in turn. (A database in memory is the
// same code; the saver's tests open one.)
func TestStore(t *testing.T) {
	t.Parallel()
	checked := func(t *testing.T, db *testDB) *Backend {
		t.Cleanup(func() { checkBackend(t, db) })
		return db.items
	}
	file := func(t *testing.T) *Backend { return checked(t, open(t, filepath.Join(t.TempDir(), "test.db"), nil)) }
	for name, test := range map[string]struct {
		open         func(*testing.T) store.Backend
		suite, alike bool
	}{
		"file":    {func(t *testing.T) store.Backend { return file(t) }, true, false},
		"indexes": {func(t *testing.T) store.Backend { return eager(file(t)) }, true, true},
		"two handles": {func(t *testing.T) store.Backend {
			one := eager(file(t))
			return &inTurn{handles: [2]*Backend{one, eager(open(t, one.db.Path, nil).items)}}
		}, false, true},
		"encrypted": {func(t *testing.T) store.Backend {
			sealed, err := store.Encrypted(eager(file(t)), checkpoint.EncryptionKey{ID: 1, Secret: make([]byte, 32)})
			if err != nil {
				t.Fatal(err)
			}
			return sealed
		}, true, true},
	} {
		if !race.Runs(name == "indexes") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.suite {
				t.Run("suite", func(t *testing.T) { storetest.Run(t, test.open) })
			}
			if test.alike {
				t.Run("branches", func(t *testing.T) { storetest.Branches(t, test.open, 1) })
				t.Run("differential", func(t *testing.T) { storetest.Differential(t, test.open) })
			}
		})
	}
}

// With keys nothing of an item but its name is in the file, whatever was done.
func TestEncryptedStoreWritesNoPlaintext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	s, err := db.Store(&store.Options{Keys: []checkpoint.EncryptionKey{{ID: 1, Secret: make([]byte, 32)}}})
	if err != nil {
		t.Fatal(err)
	}
	n := store.Namespace{"n"}
	for i := range 200 {
		value := map[string]string{"confidential": fmt.Sprint("zanzibar ", i)}
		if err := s.Put(t.Context(), n, fmt.Sprint(i%50), value, &store.PutOptions{Meta: map[string]string{"quetzal": "x"}, Index: []string{"confidential"}}); err != nil {
			t.Fatal(err)
		}
	}
	found, err := s.Search(t.Context(), n, &store.SearchOptions{Query: "zanzibar 199", Filter: store.Meta(store.Eq("quetzal", "x"))})
	if err != nil || len(found) == 0 || found[0].Key != "49" {
		t.Errorf("found %v, %v", found, err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"zanzibar", "confidential", "quetzal"} {
			if bytes.Contains(raw, []byte(word)) {
				t.Errorf("%s has the word %q", filepath.Base(file), word)
			}
		}
	}
}

// inTurn is a backend with two handles on one file, which take turns.
type inTurn struct {
	handles [2]*Backend
	calls   atomic.Int64
}

func (x *inTurn) next() *Backend { return x.handles[x.calls.Add(1)%2] }

func (x *inTurn) Do(ctx context.Context, b *store.Batch) (*store.Results, error) {
	return x.next().Do(ctx, b)
}

func (x *inTurn) History(ctx context.Context, n store.Namespace, key string) ([]*store.Record, error) {
	return x.next().History(ctx, n, key)
}

func (x *inTurn) Changes(ctx context.Context, prefix store.Namespace, after int64, limit int) ([]*store.Record, int64, error) {
	return x.next().Changes(ctx, prefix, after, limit)
}

func (x *inTurn) Wait(ctx context.Context, seq int64) error { return x.next().Wait(ctx, seq) }

func (x *inTurn) Sweep(ctx context.Context, s store.Sweep) (expired, dropped int, err error) {
	return x.next().Sweep(ctx, s)
}

func (x *inTurn) Stale(ctx context.Context, stamp string, after int64, limit int) ([]*store.Record, error) {
	return x.next().Stale(ctx, stamp, after, limit)
}

func (x *inTurn) Stamps(ctx context.Context) ([]string, error) { return x.next().Stamps(ctx) }

func (x *inTurn) Reindex(ctx context.Context, by map[int64]store.Indexed) error {
	return x.next().Reindex(ctx, by)
}

// eager makes a backend use indexes for any number of items.
func eager(s *Backend) *Backend {
	s.limits.few, s.limits.behind = -1, 0
	return s
}

func BenchmarkStore(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B) store.Backend { return open(b, filepath.Join(b.TempDir(), "test.db"), nil).items })
}
