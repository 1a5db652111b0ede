package sqlite

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/sqlite/internal/databasetest"
	"github.com/treadle-go/treadle/store"
)

const secret = databasetest.Secret

// Once something was deleted, its text is in none of the files, not even in what
// is free of them, while the database is still open.
func TestDeletedDataIsInNoFile(t *testing.T) {
	type files struct {
		db    *DB
		store *store.Store
		mine  *line
	}
	n := store.Namespace{"people", "ann"}
	// mix writes what is secret among what is not, so that pages are split, rows
	// move and chunks are packed.
	mix := func(t *testing.T, f *files) {
		other := newLine(t, f.db, "other")
		for i := range 80 {
			text := fmt.Sprintf("%s %d %s", secret, i, strings.Repeat("x", i%9*300))
			p := f.mine.next(grow("messages", i%7/6, text), set("last", text), set("short", fmt.Sprint(secret, i)))
			p.RunID, p.Metadata, p.Control = "secret run", []byte(`{"about":"`+secret+`"}`), []byte(`{"input":"`+text+strings.Repeat("control ", 40)+`"}`)
			p.Pending = []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte(text)}}
			f.mine.put(p)
			other.add(grow("messages", 0, strings.Repeat("harmless ", i%5*40)), set("last", "x"))
			for _, who := range []struct {
				n    store.Namespace
				text string
			}{{n, text}, {store.Namespace{"people", "bob"}, strings.Repeat("nothing to hide ", i%4*50)}} {
				if err := f.store.Put(t.Context(), who.n, fmt.Sprint("key ", i%40), map[string]any{"text": who.text}, &store.PutOptions{Meta: map[string]any{"m": who.text}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	forget := func(t *testing.T, f *files) error {
		for i := range 40 {
			if err := f.store.Forget(t.Context(), n, fmt.Sprint("key ", i)); err != nil {
				return err
			}
		}
		return nil
	}
	drop := func(t *testing.T, f *files) error { return f.db.DeleteThread(t.Context(), "mine") }
	for name, test := range map[string]struct {
		threads, items func(*testing.T, *files) error
	}{
		"a thread, one item after the other": {drop, forget},
		"the items of a namespace":           {drop, func(t *testing.T, f *files) error { return f.store.ForgetAll(t.Context(), n) }},
		"a run": {func(t *testing.T, f *files) error {
			_, err := f.db.DeleteRuns(t.Context(), "mine", []string{"secret run"})
			return err
		}, forget},
		"older checkpoints": {func(t *testing.T, f *files) error {
			f.mine.add(grow("messages", 1000, "harmless"), set("last", "harmless"), set("short", "harmless"))
			_, err := f.db.Prune(t.Context(), "mine", checkpoint.Retention{KeepLast: 1})
			return err
		}, forget},
	} {
		if !race.Runs(name == "a run") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			db := open(t, path, nil)
			s, err := db.Store(&store.Options{Fields: []string{"text"}, Embedder: store.NewHashEmbedder(8)})
			if err != nil {
				t.Fatal(err)
			}
			f := &files{db: db, store: s, mine: newLine(t, db, "mine")}
			mix(t, f)
			if len(databasetest.InFiles(t, path)) == 0 {
				t.Fatal("the files do not have it to begin with")
			}
			for _, do := range []func(*testing.T, *files) error{test.threads, test.items} {
				if err := do(t, f); err != nil {
					t.Fatal(err)
				}
			}
			if found := databasetest.InFiles(t, path); found != nil {
				t.Errorf("it is still there %v", found)
			}
			if n := len(listed(t, db, checkpoint.Query{Thread: "other"})); n != 80 {
				t.Errorf("the other thread has %d checkpoints, want 80", n)
			}
			checkFile(t, db)
			checkFile(t, db)
		})
	}
}

// A reader keeps the log. What was deleted is gone when the reader is.
func TestDeletedDataIsGoneAfterReaderEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	newLine(t, db, "thread").add(set("v", secret))
	l := newLine(t, db, "other")
	other := open(t, path, nil)
	err := other.conn.Read(t.Context(), func(c *database.Conn) error {
		var n int
		if _, err := c.Row("SELECT count(*) FROM chunk", nil, &n); err != nil {
			return err
		}
		return db.DeleteThread(t.Context(), "thread")
	})
	if err != nil {
		t.Fatal(err)
	}
	l.add()
	if found := databasetest.InFiles(t, path); found != nil {
		t.Errorf("it is still there %v", found)
	}
}
