package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

var errSpoil = errors.New("spoilt on purpose")

// hold keeps the file's write lock, as another process would, until the
// returned function is called.
func hold(t *testing.T, path string) (release func()) {
	t.Helper()
	db := open(t, path, nil)
	c := <-db.conn.Writer
	if err := c.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := c.Rollback(); err != nil {
			t.Error(err)
		}
		db.conn.Writer <- c
	}
}

// queued waits until n jobs wait for their turn.
func queued(db *DB, n int) {
	for db.conn.Queued() < n {
		runtime.Gosched()
	}
}

// SQLite's own wait cannot be ended, so it is cut into short ones: who waits for
// the lock of another process comes back when its context ends.
func TestLockWaitEndsWithContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	l := newLine(t, db, "thread")
	l.add()
	defer hold(t, path)()
	for what, do := range map[string]func(context.Context) error{
		"put":    func(ctx context.Context) error { return db.Put(ctx, l.next()) },
		"writes": func(ctx context.Context) error { return db.PutWrites(ctx, l.key, 0, nil) },
		"read": func(ctx context.Context) error {
			// Readers meet a lock only while another process recovers the file, which
			// takes moments. This is a lock they meet for sure.
			return db.conn.ReadOnce(ctx, func(c *database.Conn) error {
				if err := c.Script("PRAGMA query_only=0"); err != nil {
					return err
				}
				_, err := c.Exec("BEGIN IMMEDIATE")
				return err
			})
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		start := time.Now()
		err := do(ctx)
		cancel()
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
			t.Errorf("%s: %v after %s, want %v right after its time was up", what, err, took, context.DeadlineExceeded)
		}
	}
}

func TestCanceledPutIsNotSaved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	l := newLine(t, db, "thread")
	l.add()
	for name, wait := range map[string]func() (release func()){
		"for another process": func() func() { return hold(t, path) },
		"for another put": func() func() {
			c := <-db.conn.Writer
			return func() { db.conn.Writer <- c }
		},
	} {
		t.Run(name, func(t *testing.T) {
			release := sync.OnceFunc(wait())
			defer release()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error)
			go func() { result <- db.Put(ctx, l.next()) }()
			queued(db, 1)
			cancel()
			if err := <-result; !errors.Is(err, context.Canceled) {
				t.Errorf("the put gives %v, want %v", err, context.Canceled)
			}
			release()
			l.add() // the head has not moved
		})
	}
	if n := len(listed(t, db, checkpoint.Query{Thread: "thread"})); n != 3 {
		t.Errorf("%d checkpoints, want the 3 that were acknowledged", n)
	}
}

func TestWaitingPutsShareTransaction(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	const n = 20
	c := <-db.conn.Writer
	results := make(chan error, n)
	for i := range n {
		go func() { results <- db.Put(t.Context(), newLine(t, db, fmt.Sprint("thread ", i)).next(set("a", "1"))) }()
	}
	queued(db, n)
	before := dataVersion(t, db)
	db.conn.Writer <- c
	for range n {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if moved := dataVersion(t, db) - before; moved != 1 {
		t.Errorf("the file changed %d times, want once", moved)
	}
	if got := ask(t, db, "SELECT count(*) FROM checkpoint"); got != n {
		t.Errorf("%d checkpoints, want %d", got, n)
	}
}

// dataVersion counts the commits that the last reader has seen others make. It
// is asked of one connection, always the same.
func dataVersion(t *testing.T, db *DB) (n int) {
	t.Helper()
	rest := make([]*database.Conn, 0, cap(db.conn.Readers))
	for range cap(db.conn.Readers) {
		rest = append(rest, <-db.conn.Readers)
	}
	if err := rest[0].Ready(); err != nil {
		t.Fatal(err)
	}
	if _, err := rest[0].Row("PRAGMA data_version", nil, &n); err != nil {
		t.Fatal(err)
	}
	for _, c := range rest {
		db.conn.Readers <- c
	}
	return n
}

// A refused put in a batch leaves the others alone, and one that breaks after
// it has written takes nobody along.
func TestFailedPutFailsAlone(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	good, other := newLine(t, db, "good"), newLine(t, db, "other")
	good.add(grow("l", 0, "1"))
	other.add(grow("l", 0, "1"))
	stale := other.next()
	stale.Head = checkpoint.NewID(0, checkpoint.ID{})
	jobs := []func() error{
		func() error {
			return db.Put(t.Context(), good.next(grow("l", 0, "2"), set("new", "a shape that is rolled back")))
		},
		func() error { return db.Put(t.Context(), stale) },
		func() error {
			return db.conn.Write(t.Context(), func(c *database.Conn) error {
				if _, err := db.makeThread(c, "half", 0); err != nil {
					return err
				}
				return errSpoil
			})
		},
		func() error { return db.Put(t.Context(), other.next(grow("l", 0, "2"))) },
	}
	c := <-db.conn.Writer
	results := make([]chan error, len(jobs))
	for i, do := range jobs {
		results[i] = make(chan error, 1)
		go func() { results[i] <- do() }()
		queued(db, i+1)
	}
	db.conn.Writer <- c
	for i, want := range []error{nil, checkpoint.ErrConflict, errSpoil, nil} {
		if err := <-results[i]; !errors.Is(err, want) {
			t.Errorf("job %d gives %v, want %v", i, err, want)
		}
	}
	if n := ask(t, db, "SELECT count(*) FROM thread WHERE name=?", []byte("half")); n != 0 {
		t.Error("the job that failed has left something")
	}
	for _, l := range []*line{good, other} {
		if got := texts(l.get(checkpoint.ID{}).Values["l"]); len(got) != 2 {
			t.Errorf("thread %s has %q, want two elements", l.key.Thread, got)
		}
	}
	checkFile(t, db)
}

func TestCloseWaitsForRunningPut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path, nil)
	begun, finish := make(chan struct{}), make(chan struct{})
	put, waiting, closed := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() {
		put <- db.conn.Write(t.Context(), func(c *database.Conn) error {
			close(begun)
			<-finish
			_, err := db.makeThread(c, "done", 0)
			return err
		})
	}()
	<-begun
	go func() { closed <- db.Close() }()
	<-db.conn.Closing
	go func() { waiting <- db.Put(t.Context(), newLine(t, db, "thread").next()) }()
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("a put after Close gives %v, want %v", err, ErrClosed)
	}
	select {
	case err := <-closed:
		t.Fatalf("Close returned (%v) before the put was done", err)
	default:
	}
	close(finish)
	if err := errors.Join(<-put, <-closed); err != nil {
		t.Fatal(err)
	}
	if n := ask(t, open(t, path, nil), "SELECT count(*) FROM thread"); n != 1 {
		t.Errorf("%d threads in the file, want the one that was acknowledged", n)
	}
}

// What a handle remembers of a line is used only if it still holds.
func TestOvertakenHandleGetsConflict(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	here, there := open(t, path, nil), open(t, path, nil)
	l := newLine(t, here, "thread")
	first := l.add(grow("l", 0, "1")) // here remembers this head
	late := l.next(grow("l", 0, "late"))
	l.db = there
	second := l.add(grow("l", 0, "2"))
	if err := here.Put(t.Context(), late); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("a put after a head that was overtaken: %v, want %v", err, checkpoint.ErrConflict)
	}

	done := []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte("x")}}
	if err := here.PutWrites(t.Context(), second, 0, done); err != nil { // there does not know of these
		t.Fatal(err)
	}
	l.add(grow("l", 0, "3"))
	if left := l.get(second.ID).Pending; len(left) != 0 {
		t.Errorf("results that another handle has recorded were not consumed: %+v", left)
	}

	if err := here.Fence(t.Context(), "thread", 5); err != nil {
		t.Fatal(err)
	}
	if err := there.Put(t.Context(), l.next()); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("a put after another handle's fence: %v, want %v", err, checkpoint.ErrFenced)
	}

	p := l.next() // long enough for an echo, and too long to be remembered
	p.Control, p.Fence = bytes.Repeat([]byte("control "), maxRecord), 5
	l.put(p)
	if err := here.DeleteThread(t.Context(), "thread"); err != nil {
		t.Fatal(err)
	}
	if err := there.Put(t.Context(), l.next(grow("l", 0, "x"))); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("a put after another handle's delete: %v, want %v", err, checkpoint.ErrConflict)
	}
	l.key.ID = checkpoint.ID{}
	l.add(grow("l", 0, "anew"))
	if got := texts(l.get(checkpoint.ID{}).Values["l"]); len(got) != 1 {
		t.Errorf("the new thread has %q, want one element", got)
	}
	if _, err := there.Get(t.Context(), first); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("a checkpoint of the deleted thread: %v, want %v", err, checkpoint.ErrNotFound)
	}
	checkFile(t, here)
}

// Handles of one file are to each other as processes are: nothing in memory
// tells one what the other did.
func TestHandlesRaceForHead(t *testing.T) {
	const handles, rounds = 4, 40
	path := filepath.Join(t.TempDir(), "test.db")
	dbs := make([]*DB, handles)
	for i := range dbs {
		dbs[i] = open(t, path, nil)
	}
	l := newLine(t, dbs[0], "thread")
	l.add(grow("l", 0))
	var want []string
	for round := range rounds {
		puts := make([]*checkpoint.Put, handles)
		errs := make([]error, handles)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range puts {
			puts[i] = l.next(grow("l", 0, fmt.Sprint(round, " by ", i)), set("by", fmt.Sprint(i)))
			wg.Go(func() {
				<-start
				errs[i] = dbs[i].Put(t.Context(), puts[i])
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("round %d: %d and %d both won", round, winner, i)
			case err == nil:
				winner = i
			case !errors.Is(err, checkpoint.ErrConflict):
				t.Fatalf("round %d: %d got %v, want %v", round, i, err, checkpoint.ErrConflict)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody won", round)
		}
		l.key = puts[winner].Key
		want = append(want, fmt.Sprint(round, " by ", winner))
	}
	all := listed(t, dbs[1], checkpoint.Query{Thread: "thread"})
	if len(all) != rounds+1 {
		t.Fatalf("%d checkpoints, want %d", len(all), rounds+1)
	}
	for i, cp := range all[:rounds] {
		if cp.Parent != all[i+1].ID {
			t.Errorf("the parent of %s is %s, want %s", cp.ID, cp.Parent, all[i+1].ID)
		}
		if got := texts(cp.Values["l"]); fmt.Sprint(got) != fmt.Sprint(want[:rounds-i]) {
			t.Errorf("checkpoint %d has %q, want %q", i, got, want[:rounds-i])
		}
	}
	checkFile(t, dbs[2])
}

// Writers that try again until they win make one line between them.
func TestRetryingHandlesMakeOneHistory(t *testing.T) {
	const handles, each = 3, 30
	path := filepath.Join(t.TempDir(), "test.db")
	first := open(t, path, nil)
	newLine(t, first, "thread").add(grow("l", 0))
	var wg sync.WaitGroup
	for i := range handles {
		db := open(t, path, nil)
		wg.Go(func() {
			for n := range each {
				for {
					head, err := db.Get(t.Context(), checkpoint.Key{Thread: "thread"})
					if err != nil {
						t.Error(err)
						return
					}
					p := (&line{TB: t, key: head.Key}).next(grow("l", 0, fmt.Sprint(i, "/", n)))
					if err = db.Put(t.Context(), p); err == nil {
						break
					}
					if !errors.Is(err, checkpoint.ErrConflict) {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, item := range newLine(t, first, "thread").get(checkpoint.ID{}).Values["l"].Items {
		seen[string(item)] = true
	}
	if len(seen) != handles*each {
		t.Errorf("%d elements, want %d", len(seen), handles*each)
	}
	checkFile(t, first)
}

// Many processes may make the file at once.
func TestHandlesCreateFileConcurrently(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	var wg sync.WaitGroup
	dbs, errs := make([]*DB, 8), make([]error, 8)
	for i := range dbs {
		wg.Go(func() { dbs[i], errs[i] = Open(path, nil) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("handle %d: %v", i, err)
			continue
		}
		newLine(t, dbs[i], fmt.Sprint("thread ", i)).add()
		if err := dbs[i].Close(); err != nil {
			t.Error(err)
		}
	}
}
