package database

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/delay"
)

// sizeOf is how many bytes a file has.
func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func TestLogIsWrittenBackDuringCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path)
	db.back.pause = 0
	before := sizeOf(t, path)
	put := func() {
		t.Helper()
		fill(t, db, 1000)
	}
	for range backAfter {
		put()
	}
	for sizeOf(t, path) == before { // the commits themselves have written to the log only
		if err := delay.For(t.Context(), time.Millisecond); err != nil {
			t.Fatal("the file does not grow")
		}
	}
	db.back.busy <- struct{}{} // it has ended
	<-db.back.busy
	// What is written back is written over: the log does not grow for ever.
	longest := sizeOf(t, path+"-wal")
	for range 20 {
		for range backAfter {
			put()
		}
		db.back.busy <- struct{}{}
		<-db.back.busy
	}
	if grown := sizeOf(t, path+"-wal"); grown > 4*longest {
		t.Errorf("the log has %d bytes after 21 times, and had %d after the first", grown, longest)
	}
}

// While writers never pause, a commit always comes between a write-back and the next
// transaction, so the log would never start over.
func TestLogRestartsUnderConstantWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path)
	db.back.busy <- struct{}{} // nothing is written back
	for sizeOf(t, path+"-wal") < (logLong+1)*(4096+24) {
		fill(t, db, 16<<10)
	}
	<-db.back.busy
	c := <-db.Readers
	defer func() { db.Readers <- c }()
	for range 2 {
		err := db.WriteKeeping(t.Context(), func(w *Conn) error {
			db.copyMost(t.Context(), c)
			_, err := w.Change("INSERT INTO filler VALUES(zeroblob(1))")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if pages, _ := db.copyLog(t.Context(), c); pages >= logLong {
		t.Errorf("the log has %d pages after write-backs, want fewer than %d", pages, logLong)
	}
}

// The log is not written back while all connections read: who reads comes first.
func TestWriteBackDoesNotBlockReaders(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"))
	db.back.pause = 0
	held := make([]*Conn, readerCount)
	for i := range held {
		held[i] = <-db.Readers
	}
	for range 2 * backAfter {
		fill(t, db, 1)
	}
	if db.back.commits < 2*backAfter || len(db.back.busy) > 0 {
		t.Errorf("it was written back within %d commits", 2*backAfter-db.back.commits)
	}
	for _, c := range held {
		db.Readers <- c
	}
}

// What is deleted while the log is being written back is cut off the log as ever.
func TestEraseWaitsForWriteBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path)
	fill(t, db, 1)
	db.back.busy <- struct{}{}
	done := make(chan error, 1)
	go func() {
		done <- db.Erase(t.Context(), func(c *Conn) error {
			_, err := c.Change("DELETE FROM filler")
			return err
		}, func() bool { return true })
	}()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	<-db.back.busy
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := sizeOf(t, path+"-wal"); n != 0 {
		t.Errorf("the log has %d bytes", n)
	}
}
