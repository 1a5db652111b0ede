package sqlite

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/sqlite/internal/databasetest"
	"github.com/treadle-go/treadle/store"
)

// SQLite leaves rows that it has moved in the free part of their old page. After a scrub
// nothing of what was deleted is in the files, and everything else is there.
func TestScrubOverwritesUnusedBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	l := newLine(t, db, "kept")
	for i := range 50 {
		l.add(grow("messages", 0, strings.Repeat("harmless ", i%5*40)))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	do := func(query string, args ...any) {
		t.Helper()
		err := db.conn.Write(t.Context(), func(c *database.Conn) error {
			_, err := c.Change(query, args...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE TABLE a (id INTEGER PRIMARY KEY, bad INTEGER, text BLOB)")
	do("CREATE TABLE b (key BLOB PRIMARY KEY, bad INTEGER, text BLOB) WITHOUT ROWID")
	do("CREATE INDEX by_text ON a (text)")
	for i := range 400 {
		word, bad := "harmless ", 0
		if rng.IntN(2) == 0 {
			word, bad = secret+" ", 1
		}
		text := []byte(fmt.Sprint(strings.Repeat(word, 1+rng.IntN(120)), i))
		do("INSERT OR REPLACE INTO a VALUES (?,?,?)", rng.IntN(1000), bad, text)
		do("INSERT OR REPLACE INTO b VALUES (?,?,?)", []byte(fmt.Sprint(rng.IntN(300))), bad, text)
	}
	do("DELETE FROM a WHERE bad=1")
	do("DELETE FROM b WHERE bad=1")
	if err := db.conn.CutLog(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if len(databasetest.InFiles(t, path)) == 0 {
		t.Error("SQLite has left nothing: is Scrub still needed?")
	}
	sums := func() (sums [2]int64) {
		err := db.conn.Read(t.Context(), func(c *database.Conn) error {
			_, err := c.Row("SELECT (SELECT sum(length(text)*id) FROM a), (SELECT sum(length(text)) FROM b)", nil, &sums[0], &sums[1])
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return sums
	}
	before := sums()
	if err := db.Scrub(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := databasetest.InFiles(t, path); found != nil {
		t.Errorf("after the scrub it is still there %v", found)
	}
	if after := sums(); after != before {
		t.Errorf("the rows that stay have changed from %v to %v", before, after)
	}
	var verdict string
	err := db.conn.Read(t.Context(), func(c *database.Conn) error {
		_, err := c.Row("PRAGMA integrity_check", nil, &verdict)
		return err
	})
	if err != nil || verdict != "ok" {
		t.Errorf("SQLite says %q of the file, %v", verdict, err)
	}
	for _, q := range []string{"DROP TABLE a", "DROP TABLE b"} {
		do(q)
	}
	checkFile(t, db)
}

// The process may have been killed between its deletion and the end of the log.
func TestScrubTruncatesLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	newLine(t, db, "thread").add(set("v", secret))
	err := db.conn.Write(t.Context(), func(c *database.Conn) error { // DeleteThread without erase
		_, lines, err := linesOf(c, "thread")
		if err != nil {
			return err
		}
		if err := deleteLine(c, lines[0].id); err != nil {
			return err
		}
		return deleteThreadRow(c, "thread")
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(databasetest.InFiles(t, path)) == 0 {
		t.Fatal("the log does not have it to begin with")
	}
	if err := db.Scrub(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := databasetest.InFiles(t, path); found != nil {
		t.Errorf("it is still there %v", found)
	}
}

func TestScrubReportsOpenReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	newLine(t, db, "thread").add(set("v", secret))
	other := open(t, path, nil)
	err := other.conn.Read(t.Context(), func(c *database.Conn) error {
		var n int
		if _, err := c.Row("SELECT count(*) FROM chunk", nil, &n); err != nil {
			return err
		}
		if err := db.DeleteThread(t.Context(), "thread"); err != nil {
			return err
		}
		if err := db.conn.Scrub(t.Context(), 150*time.Millisecond); err == nil || !strings.Contains(err.Error(), "pinned by an open reader") {
			t.Errorf("with a reader the error is %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Scrub(t.Context()); err != nil {
		t.Error(err)
	}
	if found := databasetest.InFiles(t, path); found != nil {
		t.Errorf("it is still there %v", found)
	}
}

func TestScrubInMemoryAndClosed(t *testing.T) {
	db := open(t, database.InMemory, nil)
	if err := db.Scrub(t.Context()); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Scrub(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("the error is %v", err)
	}
}

func TestCountMatchesSearchDespiteDamage(t *testing.T) {
	db := open(t, database.InMemory, nil)
	s, err := db.Store(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if err := s.Put(t.Context(), store.Namespace{"n"}, key, map[string]int{"v": 1}, nil); err != nil {
			t.Fatal(err)
		}
	}
	err = db.conn.Write(t.Context(), func(c *database.Conn) error {
		_, err := c.Change("UPDATE store_record SET value=x'00' WHERE key=?", []byte("a"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	items, changes, err := s.Count(t.Context(), store.Namespace{"n"})
	if items != 2 || changes != 2 || err != nil {
		t.Errorf("counted are %d items and %d changes, %v", items, changes, err)
	}
}
