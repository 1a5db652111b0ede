package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/store"
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

func TestTheLogIsWrittenBackBesideTheCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	db.back.pause = 0
	s := storeOf(t, db, nil)
	before := sizeOf(t, path)
	put := func(i int) {
		t.Helper()
		if err := s.Put(t.Context(), store.Namespace{"n"}, fmt.Sprint(i), value{"text": fmt.Sprintf("%01000d", i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range backAfter {
		put(i)
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
	for round := range 20 {
		for i := range backAfter {
			put(round*backAfter + i)
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
func TestLogStartsOverUnderConstantWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	l := newLine(t, db, "t")
	db.back.busy <- struct{}{} // nothing is written back
	for text := strings.Repeat("text", 4<<10); sizeOf(t, path+"-wal") < (logLong+1)*(4096+24); {
		l.add(set("text", text+fmt.Sprint(l.n)))
	}
	<-db.back.busy
	c := <-db.readers
	defer func() { db.readers <- c }()
	for range 2 {
		p := l.next(set("text", "short"))
		err := db.writeKeeping(t.Context(), func(w *conn) error {
			db.copyMost(t.Context(), c)
			return db.putAll(w, []*checkpoint.Put{p})
		})
		if err != nil {
			t.Fatal(err)
		}
		l.key = p.Key
		l.n++
	}
	if pages, _ := db.copyLog(t.Context(), c); pages >= logLong {
		t.Errorf("the log has %d pages after write-backs, want fewer than %d", pages, logLong)
	}
}

// The log is not written back while all connections read: who reads comes first.
func TestReadersAreNotHeldUpByTheLog(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	db.back.pause = 0
	s := storeOf(t, db, nil)
	held := make([]*conn, readerCount)
	for i := range held {
		held[i] = <-db.readers
	}
	for i := range 2 * backAfter {
		if err := s.Put(t.Context(), store.Namespace{"n"}, fmt.Sprint(i), value{"n": i}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if db.back.commits < 2*backAfter || len(db.back.busy) > 0 {
		t.Errorf("it was written back within %d commits", 2*backAfter-db.back.commits)
	}
	for _, c := range held {
		db.readers <- c
	}
}

// What is deleted while the log is being written back is cut off the log as ever.
func TestErasingWaitsForTheLogToBeWrittenBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	s := storeOf(t, db, nil)
	if err := s.Put(t.Context(), store.Namespace{"n"}, "k", value{"n": 1}, nil); err != nil {
		t.Fatal(err)
	}
	db.back.busy <- struct{}{}
	done := make(chan error, 1)
	go func() { done <- s.Forget(t.Context(), store.Namespace{"n"}, "k") }()
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
