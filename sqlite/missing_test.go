package sqlite

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// What is missing from a file is an error that names the thread, whether it is
// read, listed or written to; never a thread that is empty or shorter.
func TestMissingThreadRowIsDetected(t *testing.T) {
	for name, query := range map[string]string{
		"the newest checkpoint":     "DELETE FROM checkpoint WHERE key=(SELECT max(key) FROM checkpoint)",
		"a checkpoint in between":   "DELETE FROM checkpoint WHERE key&0xffffffff=3",
		"the oldest checkpoint":     "DELETE FROM checkpoint WHERE key=(SELECT min(key) FROM checkpoint)",
		"all checkpoints":           "DELETE FROM checkpoint",
		"the line":                  "DELETE FROM line",
		"the thread":                "DELETE FROM thread",
		"the chunks":                "DELETE FROM chunk",
		"the shape":                 "DELETE FROM shape",
		"the run":                   "DELETE FROM run",
		"the id of a checkpoint":    "UPDATE checkpoint SET id=zeroblob(16) WHERE key&0xffffffff=3",
		"the name of the thread":    "UPDATE thread SET name=x'61'",
		"the namespace of the line": "UPDATE line SET path=x'61'",
		"the count of the line":     "UPDATE line SET count=2",
	} {
		if !race.Runs(name == "a checkpoint in between") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			db := open(t, path, nil)
			l := newLine(t, db, "thread")
			var keys []checkpoint.Key
			for _, item := range numbers(5) {
				p := l.next(grow("l", 0, item))
				p.RunID = "run"
				keys = append(keys, l.put(p))
			}
			force(t, db, query)
			if again, err := Open(path, &Options{Check: true}); !errors.Is(err, ErrDamaged) {
				t.Errorf("a check of the file finds %v", errors.Join(err, again.Close()))
			}
			var all []*checkpoint.Checkpoint
			var listErr error
			for cp, err := range db.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
				all, listErr = append(all, cp), err
			}
			_, before := db.Get(t.Context(), keys[2])
			_, oldest := db.Get(t.Context(), keys[0])
			_, pruneErr := db.Prune(t.Context(), "thread", checkpoint.Retention{KeepLast: 1})
			for what, err := range map[string]error{"list": listErr, "prune": pruneErr, "get": errors.Join(before, oldest, headError(t, db))} {
				if what == "prune" && (name == "the shape" || name == "the run" || name == "the chunks" || name == "the id of a checkpoint") {
					continue // which prune does not need, or removes
				}
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `thread "thread"`) {
					t.Errorf("%s: %d checkpoints, %v; want %v with the thread", what, len(all), err, ErrDamaged)
				}
			}
			if err := db.DeleteThread(t.Context(), "thread"); err != nil {
				t.Errorf("it cannot be deleted: %v", err)
			}
			l = newLine(t, db, "thread")
			l.add(grow("l", 0, "new"))
			if n := len(listed(t, db, checkpoint.Query{Thread: "thread"})); n != 1 {
				t.Errorf("the new thread has %d checkpoints, want 1", n)
			}
		})
	}
}

func headError(t *testing.T, db *DB) error {
	_, err := db.Get(t.Context(), checkpoint.Key{Thread: "thread"})
	return err
}

// What was removed on purpose is not missing, also between what is left.
func TestPrunedCheckpointsAreNotMissing(t *testing.T) {
	db := open(t, database.InMemory, nil)
	l := newLine(t, db, "thread")
	var keys []checkpoint.Key
	for i := range 40 {
		p := l.next(grow("l", 0, "item"))
		if i%7 == 3 {
			p.RunID = "gone"
		}
		keys = append(keys, l.put(p))
	}
	if _, err := db.DeleteRuns(t.Context(), "thread", []string{"gone"}); err != nil {
		t.Fatal(err)
	}
	if n := len(listed(t, db, checkpoint.Query{Thread: "thread"})); n != 34 {
		t.Errorf("%d checkpoints, want 34", n)
	}
	if n := len(listed(t, db, checkpoint.Query{Thread: "thread", Before: keys[3].ID})); n != 3 {
		t.Errorf("%d checkpoints before one that was removed, want 3", n)
	}
	if _, err := db.Get(t.Context(), keys[10]); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("one that was removed is %v, want %v", err, checkpoint.ErrNotFound)
	}
	if _, err := db.Prune(t.Context(), "thread", checkpoint.Retention{KeepLast: 5}); err != nil {
		t.Fatal(err)
	}
	if n := len(listed(t, db, checkpoint.Query{Thread: "thread"})); n != 5 {
		t.Errorf("%d checkpoints, want 5", n)
	}
	force(t, db, "DELETE FROM checkpoint WHERE key=(SELECT min(key) FROM checkpoint)")
	var err error
	for _, err = range db.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
	}
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("one that is missing after that is %v, want %v", err, ErrDamaged)
	}
}

// Two rows that are as they were stored, and have changed places, are noticed.
func TestSwappedRowsAreDetected(t *testing.T) {
	swap := func(table, key, columns, one, other string) string {
		return "UPDATE " + table + " SET (" + columns + ")=(SELECT " + columns + " FROM " + table + " o WHERE o." + key + "<>" + table + "." + key + " AND o." + key + " IN (" + one + "," + other + ")) WHERE " + key + " IN (" + one + "," + other + ")"
	}
	first, second := "(1<<32|2)", "(2<<32|2)"
	for name, query := range map[string]string{
		"checkpoints of two threads": swap("checkpoint", "key", "record,sum", first, second),
		"chunks of two threads":      swap("chunk", "rowid", "data,sum", "(SELECT rowid FROM chunk WHERE line=1 LIMIT 1)", "(SELECT rowid FROM chunk WHERE line=2 LIMIT 1)"),
		"chunks of one thread":       swap("chunk", "rowid", "data,sum", "(SELECT rowid FROM chunk WHERE line=1 AND seq=0)", "(SELECT rowid FROM chunk WHERE line=1 AND seq=1)"),
		"runs of two threads":        swap("run", "line", "name,metadata,sum", "1", "2"),
		"epochs of two threads":      "UPDATE thread SET fence=3-fence",
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, database.InMemory, nil)
			for i, thread := range []string{"a", "b"} {
				l := newLine(t, db, thread)
				for _, item := range numbers(3) {
					p := l.next(grow("l", 0, thread+item))
					p.RunID, p.Fence = "run of "+thread, uint64(i+1)
					l.put(p)
				}
			}
			force(t, db, query)
			var err error
			for _, thread := range []string{"a", "b"} {
				for _, e := range db.List(t.Context(), checkpoint.Query{Thread: thread}) {
					err = errors.Join(err, e)
				}
			}
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("the threads are read with %v, want %v", err, ErrDamaged)
			}
		})
	}
}

// The same of the store: the error names the key.
func TestMissingStoreRowIsDetected(t *testing.T) {
	for name, test := range map[string]struct{ query, want string }{
		"the record":          {"DELETE FROM store_record WHERE seq=2", `key "k"`},
		"its life":            {"DELETE FROM store_life WHERE seq=2", `key "k"`},
		"its namespace":       {"DELETE FROM store_space WHERE id=1", "namespace"},
		"its value":           {"UPDATE store_record SET value=x'7b7d' WHERE seq=2", `key "k"`},
		"its end":             {"UPDATE store_life SET expires=1 WHERE seq=2", `key "k"`},
		"its kind":            {"UPDATE store_record SET kind=2 WHERE seq=2", `key "k"`},
		"the name of its key": {"UPDATE store_record SET key=x'61' WHERE seq=2", `key "k"`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			db := open(t, path, nil)
			s, err := db.Store(&store.Options{Fields: []string{"t"}})
			if err != nil {
				t.Fatal(err)
			}
			n := store.Namespace{"a"}
			for _, text := range []string{"tea", "green tea"} {
				if err := s.Put(t.Context(), n, "k", map[string]any{"t": text}, &store.PutOptions{TTL: 1 << 40}); err != nil {
					t.Fatal(err)
				}
			}
			force(t, db, test.query)
			_, get := s.Get(t.Context(), n, "k", nil)
			_, list := s.Search(t.Context(), n, nil)
			_, words := s.Search(t.Context(), nil, &store.SearchOptions{Query: "tea"})
			_, filtered := s.Search(t.Context(), nil, &store.SearchOptions{Filter: store.Eq("t", "green tea")})
			put := s.Put(t.Context(), n, "k", map[string]any{"t": "no"}, nil)
			for what, err := range map[string]error{"get": get, "list": list, "words": words, "filtered": filtered, "put": put} {
				if what == "put" && (name == "its value" || name == "its life") {
					continue // which it replaces
				}
				if !errors.Is(err, ErrDamaged) || what == "get" && !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s: %v; want %v with %s", what, err, ErrDamaged, test.want)
				}
			}
		})
	}
}
