package sqlite

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/store"
)

// SQLite leaves rows that it has moved in the free part of their old page. After a scrub
// nothing of what was deleted is in the files, and everything else is there.
func TestScrubOverwritesWhatSQLiteHasLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	l := newLine(t, db, "kept")
	for i := range 50 {
		l.add(grow("messages", 0, strings.Repeat("harmless ", i%5*40)))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	do := func(query string, args ...any) {
		t.Helper()
		err := db.write(t.Context(), func(c *conn) error {
			_, err := c.change(query, args...)
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
	if err := db.cutLog(t.Context(), eraseWait); err != nil {
		t.Fatal(err)
	}
	if len(inFiles(t, path)) == 0 {
		t.Error("SQLite has left nothing: is Scrub still needed?")
	}
	sums := func() (sums [2]int64) {
		err := db.read(t.Context(), func(c *conn) error {
			_, err := c.row("SELECT (SELECT sum(length(text)*id) FROM a), (SELECT sum(length(text)) FROM b)", nil, &sums[0], &sums[1])
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
	if found := inFiles(t, path); found != nil {
		t.Errorf("after the scrub it is still there %v", found)
	}
	if after := sums(); after != before {
		t.Errorf("the rows that stay have changed from %v to %v", before, after)
	}
	var verdict string
	err := db.read(t.Context(), func(c *conn) error {
		_, err := c.row("PRAGMA integrity_check", nil, &verdict)
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
func TestScrubCutsTheLogOff(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	newLine(t, db, "thread").add(set("v", secret))
	err := db.write(t.Context(), func(c *conn) error { // DeleteThread without erase
		_, lines, err := c.linesOf("thread")
		if err != nil {
			return err
		}
		if err := c.deleteLine(lines[0].id); err != nil {
			return err
		}
		return c.deleteThreadRow("thread")
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(inFiles(t, path)) == 0 {
		t.Fatal("the log does not have it to begin with")
	}
	if err := db.Scrub(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := inFiles(t, path); found != nil {
		t.Errorf("it is still there %v", found)
	}
}

func TestScrubSaysThatAReaderIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	newLine(t, db, "thread").add(set("v", secret))
	other := open(t, path, nil)
	err := other.read(t.Context(), func(c *conn) error {
		var n int
		if _, err := c.row("SELECT count(*) FROM chunk", nil, &n); err != nil {
			return err
		}
		if err := db.DeleteThread(t.Context(), "thread"); err != nil {
			return err
		}
		if err := db.scrub(t.Context(), 3*lockTry); err == nil || !strings.Contains(err.Error(), "still reads an older state") {
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
	if found := inFiles(t, path); found != nil {
		t.Errorf("it is still there %v", found)
	}
}

func TestScrubOfADatabaseInMemoryAndOfAClosedOne(t *testing.T) {
	db := open(t, inMemory, nil)
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

// A page that is not what it seems stays as it is.
func FuzzZeroUnused(f *testing.F) {
	page := make([]byte, 512)
	page[0], page[4], page[5], page[6], page[8], page[9] = 13, 1, 1, 0xf0, 1, 0xf0
	f.Add(page, false, 512)
	f.Add(page, true, 512)
	f.Add([]byte{2}, false, 1)
	f.Fuzz(func(t *testing.T, page []byte, first bool, usable int) {
		before := string(page)
		if changed := zeroUnused(page, first, usable); changed != (before != string(page)) {
			t.Errorf("it says %v of a page that has changed: %v", changed, !changed)
		}
		if zeroUnused(page, first, usable) {
			t.Error("a second time it finds more")
		}
	})
}

func TestCountOfADamagedNamespaceIsWhatIsFound(t *testing.T) {
	db := open(t, inMemory, nil)
	s, err := db.Store(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b"} {
		if err := s.Put(t.Context(), store.Namespace{"n"}, key, map[string]int{"v": 1}, nil); err != nil {
			t.Fatal(err)
		}
	}
	err = db.write(t.Context(), func(c *conn) error {
		_, err := c.change("UPDATE store_record SET value=x'00' WHERE key=?", []byte("a"))
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
