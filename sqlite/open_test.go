package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/checkpoint/checkpointtest"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

func TestReopenedFileReadsTheSame(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := checkpointtest.NewConversation(db, "thread")
	for range 40 {
		c.Turn(t)
	}
	l := newLine(t, db, "forked")
	first := l.add(grow("l", 0, numbers(5)...), set("big", strings.Repeat("x", 5000)))
	l.add(grow("l", 1, "left"))
	l.fork(first.ID, grow("l", 2, "right"))
	if err := db.PutWrites(t.Context(), l.key, 0, []checkpoint.Write{{Task: "t", Kind: checkpoint.Paused, Data: []byte("?")}}); err != nil {
		t.Fatal(err)
	}
	everything := func(db *DB) (all []*checkpoint.Checkpoint) {
		for _, thread := range []string{"thread", "forked"} {
			all = append(all, listed(t, db, checkpoint.Query{Thread: thread})...)
		}
		return all
	}
	before := everything(db)
	if len(before) != 123 {
		t.Fatalf("%d checkpoints, want 123", len(before))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, leftover := range []string{path + "-wal", path + "-shm"} {
		if _, err := os.Stat(leftover); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there after Close (%v)", leftover, err)
		}
	}
	again := open(t, path, nil)
	if d := cmp.Diff(before, everything(again), likeness); d != "" {
		t.Errorf("after Open (-before +after):\n%s", d)
	}
	c.Saver = again
	c.Turn(t) // and it goes on
	checkFile(t, again)
}

func TestOpenReportsCause(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	made := func(name string, statements ...string) string {
		path := filepath.Join(dir, name)
		db, err := Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := <-db.conn.Writer
		for _, q := range statements {
			if err := c.Script(q); err != nil {
				t.Fatal(err)
			}
		}
		db.conn.Writer <- c
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	readOnly := made("readonly.db")
	if err := os.Chmod(readOnly, 0o444); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ path, want string }{
		"not a database":      {write("text.db", strings.Repeat("not a database at all. ", 100), 0o644), "not an SQLite database"},
		"a later version":     {made("later.db", "PRAGMA user_version=99"), fmt.Sprintf("unsupported file version 99, want at most %d: written by a later release", fileVersion)},
		"an unknown version":  {made("unknown.db", "PRAGMA user_version=-1"), "unknown file version -1"},
		"version 0":           {made("zero.db", "PRAGMA user_version=0"), "unknown file version 0"},
		"another application": {made("other.db", "PRAGMA application_id=7"), "database of another application"},
		"a foreign database":  {made("foreign.db", "PRAGMA application_id=0", "PRAGMA user_version=0", "PRAGMA journal_mode=DELETE"), "database of another application"},
		"a directory":         {dir, "path is a directory"},
		"a read-only file":    {readOnly, "read-only file"},
		"a missing directory": {filepath.Join(dir, "missing", "x.db"), "directory: "},
		"no path":             {"", "empty path"},
	} {
		t.Run(name, func(t *testing.T) {
			before, _ := os.ReadFile(test.path) // nothing, where there is no file
			db, err := Open(test.path, nil)
			if err == nil {
				t.Fatalf("it opened: %v", db.Close())
			}
			if !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "sqlite: open "+test.path+": ") {
				t.Errorf("the error is %q, want %q in it and the path before it", err, test.want)
			}
			if after, _ := os.ReadFile(test.path); !bytes.Equal(before, after) {
				t.Error("a file that was refused was changed")
			}
		})
	}
}

func TestNilLoggerMeansDefault(t *testing.T) {
	if db := open(t, database.InMemory, nil); db.conn.Log != slog.Default() {
		t.Error("a nil Logger is not slog.Default()")
	}
}

func TestFileMayHaveAnyName(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"with space.db", "?mode=ro", "a%20b#c?d=e&f", "ü鹦.db", ":memory:x"} {
		path := filepath.Join(dir, name)
		newLine(t, open(t, path, nil), "thread").add()
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestMemoryDatabasesAreSeparate(t *testing.T) {
	a, b := open(t, database.InMemory, nil), open(t, database.InMemory, nil)
	newLine(t, a, "thread").add()
	if _, err := b.Get(t.Context(), checkpoint.Key{Thread: "thread"}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("the other database says %v, want %v", err, checkpoint.ErrNotFound)
	}
}

func TestPowerSafeWaitsForDisk(t *testing.T) {
	for name, test := range map[string]struct {
		o    *Options
		want int
	}{"default": {nil, 1}, "power safe": {&Options{PowerSafe: true}, 2}} {
		db := open(t, filepath.Join(t.TempDir(), "test.db"), test.o)
		err := db.conn.Write(t.Context(), func(c *database.Conn) error {
			var mode int
			if _, err := c.Row("PRAGMA synchronous", nil, &mode); err != nil {
				return err
			}
			if mode != test.want {
				t.Errorf("%s: synchronous is %d, want %d", name, mode, test.want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestClosedDatabaseReturnsErrClosed(t *testing.T) {
	for _, path := range []string{database.InMemory, filepath.Join(t.TempDir(), "test.db")} {
		db := open(t, path, nil)
		l := newLine(t, db, "thread")
		for range 2 * listPage {
			l.add()
		}
		seen := 0
		for _, err := range db.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
			seen++
			if err != nil {
				if !errors.Is(err, ErrClosed) || seen <= listPage {
					t.Errorf("the list ends at %d with %v, want %v after a page", seen, err, ErrClosed)
				}
				break
			}
			if err := db.Close(); err != nil { // while it is being listed, and more than once
				t.Fatal(err)
			}
		}
		_, getErr := db.Get(t.Context(), l.key)
		_, _, cacheErr := db.Cache().Get(t.Context(), "s", "k")
		for what, err := range map[string]error{
			"get": getErr, "put": db.Put(t.Context(), l.next()), "delete": db.DeleteThread(t.Context(), "thread"), "cache": cacheErr,
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s: %v, want %v", what, err, ErrClosed)
			}
		}
	}
}

func TestEndedContextIsHonored(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	l := newLine(t, db, "thread")
	key := l.add()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, getErr := db.Get(ended, key)
	var listErr error
	for _, err := range db.List(ended, checkpoint.Query{Thread: "thread"}) {
		listErr = err
	}
	for what, err := range map[string]error{"get": getErr, "list": listErr, "put": db.Put(ended, l.next()), "writes": db.PutWrites(ended, key, 0, nil)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", what, err, context.Canceled)
		}
	}
	if n := len(listed(t, db, checkpoint.Query{Thread: "thread"})); n != 1 {
		t.Errorf("%d checkpoints, want 1", n)
	}
}

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "treadle")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	db, err := Open(filepath.Join(dir, "threads.db"), &Options{PowerSafe: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()

	// A graph that is compiled with this saver puts its checkpoints here.
	var saver checkpoint.Saver = db
	ctx := context.Background()
	put := &checkpoint.Put{Key: checkpoint.Key{Thread: "essay-7", ID: checkpoint.NewID(-1, checkpoint.ID{})}, Step: -1, Source: checkpoint.Input,
		Changes: []checkpoint.Change{{Channel: "topic", Version: 1, Data: []byte(`"owls"`)}}}
	if err := saver.Put(ctx, put); err != nil {
		fmt.Println(err)
		return
	}
	head, err := saver.Get(ctx, checkpoint.Key{Thread: "essay-7"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %s\n", head.Source, head.Values["topic"].Data)
	// Output: input "owls"
}
