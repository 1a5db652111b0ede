package sqlite

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ledger"
)

// limitPages makes SQLite report a full disk once the file has so many pages; 0 lifts the
// limit.
func limitPages(t *testing.T, db *DB, pages string) {
	t.Helper()
	c := <-db.conn.Writer
	defer func() { db.conn.Writer <- c }()
	if err := c.Ready(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec("PRAGMA max_page_count = " + pages); err != nil {
		t.Fatal(err)
	}
}

// A full disk loses nothing: writes fail with an error that callers recognize, and succeed when
// the disk has space again.
func TestFullDiskIsUnavailable(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "full.db"), nil)
	l := ledger.New(db.Ledger(), nil)
	big := ledger.Object{"text": strings.Repeat("x", 100_000)}
	thread := &ledger.Thread{ID: uuid.New(), Metadata: ledger.Object{}}
	if err := l.CreateThread(t.Context(), thread); err != nil {
		t.Fatal(err)
	}
	put := &checkpoint.Put{Key: checkpoint.Key{Thread: "t", ID: checkpoint.NewID(0, checkpoint.ID{})}, Metadata: []byte(`{"x":"` + strings.Repeat("y", 100_000) + `"}`)}
	limitPages(t, db, "1") // the file has more, so it cannot grow
	for name, err := range map[string]error{
		"thread":     l.CreateThread(t.Context(), &ledger.Thread{ID: uuid.New(), Metadata: big}),
		"checkpoint": db.Put(t.Context(), put),
	} {
		if !errors.Is(err, checkpoint.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v, want ErrUnavailable and ENOSPC", name, err)
		}
	}
	if _, err := l.Thread(t.Context(), thread.ID, nil); err != nil {
		t.Errorf("a read on the full disk: %v", err)
	}
	limitPages(t, db, "1000000")
	if err := db.Put(t.Context(), put); err != nil {
		t.Errorf("a put after the disk has space again: %v", err)
	}
}
