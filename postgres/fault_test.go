package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
	"github.com/treadle-go/treadle/store"
)

// next returns a put that goes on from key.
func next(key checkpoint.Key, step int, changes ...checkpoint.Change) *checkpoint.Put {
	p := &checkpoint.Put{Key: key, Parent: key.ID, Head: key.ID, Step: step, Source: checkpoint.Loop, Changes: changes, Control: []byte("{}")}
	p.ID = checkpoint.NewID(step, key.ID)
	return p
}

func item(i int) checkpoint.Change {
	return checkpoint.Change{Channel: "l", Version: uint64(i + 1), List: true, Items: [][]byte{fmt.Appendf(nil, "item %d", i)}}
}

// wantLine checks that a thread has exactly the given ids, and that each list
// is whole.
func wantLine(t *testing.T, db *DB, thread string, want []checkpoint.ID) {
	t.Helper()
	i := len(want)
	for cp, err := range db.List(t.Context(), checkpoint.Query{Thread: thread}) {
		if err != nil {
			t.Fatal(err)
		}
		if i--; i < 0 {
			t.Fatalf("thread %s has more than the %d checkpoints that were acknowledged: %s", thread, len(want), cp.ID)
		}
		if cp.ID != want[i] {
			t.Fatalf("checkpoint %d of thread %s is %s, want %s", i, thread, cp.ID, want[i])
		}
		if n := len(cp.Values["l"].Items); n != i+1 {
			t.Fatalf("checkpoint %d of thread %s has %d elements", i, thread, n)
		}
	}
	if i != 0 {
		t.Fatalf("%d checkpoints of thread %s are missing", i, thread)
	}
}

// Connections that are cut while puts are under way make no put fail, and none
// is lost or stored twice.
func TestPutsSurviveTerminatedConnections(t *testing.T) {
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			const threads, puts, cuts = 4, 150, 60
			o.MaxConns = threads
			url := pgtest.URL(t)
			db := fresh(t, url, o)
			killer, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			ids := make([][]checkpoint.ID, threads)
			var wg sync.WaitGroup
			var busy atomic.Int64
			var done [threads]atomic.Int64 // puts of each thread
			busy.Store(threads)
			for i := range threads {
				wg.Go(func() {
					defer busy.Add(-1)
					key := checkpoint.Key{Thread: fmt.Sprint(i)}
					for n := range puts {
						p := next(key, n, item(n))
						if err := db.Put(t.Context(), p); err != nil {
							t.Errorf("put %d of thread %d: %v", n, i, err)
							return
						}
						key = p.Key
						ids[i] = append(ids[i], p.ID)
						done[i].Add(1)
					}
				})
			}
			cut := 0
			var last [threads]int64 // what was done at the last cut
			came := func() bool {
				for i := range last {
					if n := done[i].Load(); n < puts && n < last[i]+2 {
						return false
					}
				}
				return true
			}
			for busy.Load() > 0 && cut < cuts {
				// The one that was cut comes through before the next cut: a put that is
				// cut again and again is given up.
				if !came() {
					runtime.Gosched()
					continue
				}
				var n int
				err := killer.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
					WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'active' AND query LIKE '%.put(%' ORDER BY random() LIMIT 1) a`, pgx.QueryExecModeSimpleProtocol).Scan(&n)
				if err != nil {
					t.Fatal(err)
				}
				cut += n
				if n > 0 {
					for i := range last {
						last[i] = done[i].Load()
					}
				}
			}
			wg.Wait()
			if err := killer.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if cut == 0 {
				t.Error("no connection was cut")
			}
			for i := range threads {
				wantLine(t, db, fmt.Sprint(i), ids[i])
			}
			checkTables(t, db)
		})
	}
}

func TestPutWithLostResponseIsResolved(t *testing.T) {
	server := pgtest.URL(t)
	direct := fresh(t, server, Options{})
	via, p := databasetest.Through(t, server)
	db := open(t, via, &Options{Schema: direct.conn.Schema})
	key := checkpoint.Key{Thread: "thread"}
	first := next(key, 0, item(0))
	if err := db.Put(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	// The answer is lost and the server can be reached again.
	p.Deaf.Store(true)
	second := next(first.Key, 1, item(1))
	done := make(chan error)
	go func() { done <- db.Put(t.Context(), second) }()
	<-p.Lost
	p.Deaf.Store(false)
	if err := <-done; err != nil {
		t.Errorf("a put that was stored and whose first answer was lost: %v", err)
	}
	wantLine(t, direct, "thread", []checkpoint.ID{first.ID, second.ID})

	// It is lost and the server stays away. The put before makes sure that the
	// statement is all that is sent.
	third := next(second.Key, 2, item(2))
	if err := db.Put(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	p.Deaf.Store(true)
	fourth := next(third.Key, 3, item(3))
	err := db.Put(t.Context(), fourth)
	if !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("a put without an answer: %v, want %v", err, ErrOutcomeUnknown)
	}
	p.Deaf.Store(false)
	wantLine(t, db, "thread", []checkpoint.ID{first.ID, second.ID, third.ID, fourth.ID})
	w := []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte("x")}}
	if err := db.PutWrites(t.Context(), fourth.Key, 0, w); err != nil {
		t.Fatal(err)
	}
	for len(p.Lost) > 0 {
		<-p.Lost
	}
	// Writes replace themselves, so they are sent again.
	p.Deaf.Store(true)
	go func() { done <- db.PutWrites(t.Context(), fourth.Key, 0, w) }()
	<-p.Lost
	p.Deaf.Store(false)
	if err := <-done; err != nil {
		t.Errorf("writes whose first answer was lost: %v", err)
	}
	if err := db.PutWrites(t.Context(), fourth.Key, 0, w); err != nil {
		t.Fatal(err)
	}
	p.Deaf.Store(true)
	if err := db.PutWrites(t.Context(), fourth.Key, 0, w); !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("writes without an answer: %v, want %v", err, ErrOutcomeUnknown)
	}
	p.Deaf.Store(false)
}

// Writes whose connection broke are sent again; if another writer has taken over
// by then, the error says that they may have been in time.
func TestResentWritesRespectFence(t *testing.T) {
	db := fresh(t, pgtest.URL(t), Options{})
	first := next(checkpoint.Key{Thread: "thread"}, 0, item(0))
	if err := db.Put(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	tx, err := db.conn.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+db.conn.Quoted+".line FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		done <- db.PutWrites(t.Context(), first.Key, 0, []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte("x")}})
	}()
	databasetest.WaitForLock(t, db.conn, ".put_writes(")
	if _, err := tx.Exec(t.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock' AND strpos(query, '.put_writes(') > 0`); err != nil {
		t.Fatal(err)
	}
	databasetest.WaitForLock(t, db.conn, ".put_writes(")
	if _, err := tx.Exec(t.Context(), "UPDATE "+db.conn.Quoted+".thread SET epoch = 3"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, checkpoint.ErrFenced) || !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("the writes: %v, want %v and %v", err, checkpoint.ErrFenced, ErrOutcomeUnknown)
	}
}

// A put whose response was lost is stored, but its writer must not go on if another
// has taken over before the put is sent again.
func TestResentPutRespectsFence(t *testing.T) {
	server := pgtest.URL(t)
	direct := fresh(t, server, Options{})
	via, p := databasetest.Through(t, server)
	db := open(t, via, &Options{Schema: direct.conn.Schema})
	first := next(checkpoint.Key{Thread: "thread"}, 0, item(0))
	if err := db.Put(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	p.Deaf.Store(true)
	second := next(first.Key, 1, item(1))
	done := make(chan error)
	go func() { done <- db.Put(t.Context(), second) }()
	<-p.Lost
	if err := direct.Fence(t.Context(), "thread", 3); err != nil {
		t.Fatal(err)
	}
	p.Deaf.Store(false)
	if err := <-done; !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("a stored put whose writer was overtaken: %v, want %v", err, checkpoint.ErrFenced)
	}
	wantLine(t, direct, "thread", []checkpoint.ID{first.ID, second.ID})
}

func TestOpenReportsUnreachableServer(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), "postgres://u:geheim@"+addr+"/db", nil)
	if err == nil || !strings.HasPrefix(err.Error(), "postgres: open: no connection: failed to connect to `user=u database=db`") || strings.Contains(err.Error(), "geheim") {
		t.Errorf("open: %v", err)
	}
}

// A put that waits for a lock is given up with its context, and is not stored
// when the lock is free.
func TestCanceledPutSavesNothing(t *testing.T) {
	for mode, o := range modes {
		t.Run(mode, func(t *testing.T) {
			db := fresh(t, pgtest.URL(t), o)
			first := next(checkpoint.Key{Thread: "thread"}, 0, item(0))
			if err := db.Put(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			tx, err := db.conn.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SELECT FROM "+db.conn.Quoted+".line FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			second := next(first.Key, 1, item(1))
			go func() { done <- db.Put(ctx, second) }()
			databasetest.WaitForLock(t, db.conn, ".put(")
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, ErrOutcomeUnknown) {
				t.Errorf("the put: %v, want a known outcome and %v", err, context.Canceled)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantLine(t, db, "thread", []checkpoint.ID{first.ID})
			if err := db.Put(t.Context(), second); err != nil {
				t.Errorf("the same put again: %v", err)
			}
			if err := db.Put(ctx, next(second.Key, 2)); !errors.Is(err, context.Canceled) {
				t.Errorf("a put with a context that has ended: %v", err)
			}
			for _, err := range db.List(ctx, checkpoint.Query{Thread: "thread"}) {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("a list with a context that has ended: %v", err)
				}
			}
			wantLine(t, db, "thread", []checkpoint.ID{first.ID, second.ID})
		})
	}
}

// A put that has been overtaken by a fence while it waited is refused, whatever
// the database's default isolation is.
func TestFenceOvertakesWaitingPut(t *testing.T) {
	for _, isolation := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			url := databasetest.Set(t, quick(t), "default_transaction_isolation", isolation)
			db := fresh(t, url, Options{})
			first := next(checkpoint.Key{Thread: "thread"}, 0, item(0))
			if err := db.Put(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			tx, err := db.conn.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), db.sql.fence, []byte("thread"), 3); err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 2)
			go func() { done <- db.Put(t.Context(), next(first.Key, 1, item(1))) }()
			go func() {
				done <- db.PutWrites(t.Context(), first.Key, 0, []checkpoint.Write{{Task: "t", Kind: checkpoint.Done}})
			}()
			databasetest.WaitForLock(t, db.conn, ".put(")
			databasetest.WaitForLock(t, db.conn, ".put_writes(")
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := <-done; !errors.Is(err, checkpoint.ErrFenced) {
					t.Errorf("a writer that the fence has overtaken: %v, want %v", err, checkpoint.ErrFenced)
				}
			}
			wantLine(t, db, "thread", []checkpoint.ID{first.ID})
		})
	}
}

// Handles that know nothing of each other race for one line, while a third
// prunes it: every accepted put is there, in one line, and nothing is damaged.
func TestTwoDBsRaceForOneLine(t *testing.T) {
	for _, isolation := range []string{"read committed", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			url := databasetest.Set(t, quick(t), "default_transaction_isolation", isolation)
			const each = 60
			a := fresh(t, url, Options{})
			handles := []*DB{a, open(t, url, &Options{Schema: a.conn.Schema, PoolerSafe: true}), open(t, url, &Options{Schema: a.conn.Schema})}
			first := next(checkpoint.Key{Thread: "thread"}, 0, item(0))
			if err := a.Put(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			var wg, pruning sync.WaitGroup
			var conflicts atomic.Int64
			for _, db := range handles[:2] {
				wg.Go(func() {
					for won := 0; won < each; {
						cp, err := db.Get(t.Context(), checkpoint.Key{Thread: "thread"})
						if err != nil {
							t.Errorf("get: %v", err)
							return
						}
						n := len(cp.Values["l"].Items)
						if cp.Step != n-1 {
							t.Errorf("step %d has %d elements", cp.Step, n)
							return
						}
						p := next(cp.Key, n, item(n))
						if won%5 == 4 { // a fork from the parent, if that is still there
							p.Parent, p.Step = cp.Parent, n-1
							p.Changes = []checkpoint.Change{item(n - 1)}
						}
						err = db.Put(t.Context(), p)
						switch {
						case err == nil:
							won++
						case errors.Is(err, checkpoint.ErrConflict), p.Parent == cp.Parent && errors.Is(err, checkpoint.ErrNotFound):
							conflicts.Add(1)
							if p.Parent == cp.Parent {
								won++ // or it would be tried for ever
							}
						default:
							t.Errorf("put: %v", err)
							return
						}
					}
				})
			}
			stop := make(chan struct{})
			pruning.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := handles[2].Prune(t.Context(), "thread", checkpoint.Retention{KeepLast: 5}); err != nil {
						t.Errorf("prune: %v", err)
						return
					}
				}
			})
			wg.Wait()
			close(stop)
			pruning.Wait()
			if conflicts.Load() == 0 {
				t.Error("the handles never met")
			}
			for cp, err := range a.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
				if err != nil {
					t.Fatal(err)
				}
				for i, got := range cp.Values["l"].Items {
					if want := fmt.Sprintf("item %d", i); string(got) != want {
						t.Errorf("element %d of %s is %s", i, cp.ID, got)
					}
				}
			}
			checkTables(t, a)
		})
	}
}

func TestClosedDBReturnsErrClosed(t *testing.T) {
	db := fresh(t, pgtest.URL(t), Options{})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Put(t.Context(), next(checkpoint.Key{Thread: "t"}, 0)); !errors.Is(err, ErrClosed) {
		t.Errorf("put: %v", err)
	}
	if _, err := db.Get(t.Context(), checkpoint.Key{Thread: "t"}); !errors.Is(err, ErrClosed) {
		t.Errorf("get: %v", err)
	}
	if err := db.Cache().Set(t.Context(), "s", "k", nil, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("set: %v", err)
	}
}

// A missing chunk is an error, never a shorter list.
func TestMissingChunkReturnsErrDamaged(t *testing.T) {
	db := fresh(t, pgtest.URL(t), Options{})
	key := checkpoint.Key{Thread: "thread"}
	for i := range 3 {
		p := next(key, i, item(i))
		if err := db.Put(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		key = p.Key
	}
	if _, err := db.conn.Pool.Exec(t.Context(), "DELETE FROM "+db.conn.Quoted+".chunk WHERE seq = 1"); err != nil {
		t.Fatal(err)
	}
	if cp, err := db.Get(t.Context(), key); !errors.Is(err, ErrDamaged) {
		t.Errorf("get: %v, %v, want %v", cp, err, ErrDamaged)
	}
	for cp, err := range db.List(t.Context(), checkpoint.Query{Thread: "thread"}) {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("list: %v, %v, want %v", cp, err, ErrDamaged)
		}
	}
}

// A connection that the server closes while nobody uses it makes nothing fail:
// nothing was sent, so it is sent on another.
func TestCallsSurviveClosedIdleConnections(t *testing.T) {
	for name, m := range allModes() {
		t.Run(name, func(t *testing.T) {
			m.MaxConns = 2
			url := pgtest.URL(t)
			db := m.fresh(t, url)
			items, err := db.Store(&store.Options{Embedder: store.NewHashEmbedder(8), TTL: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			killer, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := killer.Close(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			}()
			closeIdle := func() {
				t.Helper()
				var n int
				for again := true; again; again = n > 0 {
					err := killer.QueryRow(t.Context(), "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()").Scan(&n)
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			first := next(checkpoint.Key{Thread: "thread"}, 0, item(0))
			first.RunID = "run"
			second := next(first.Key, 1, item(1))
			n, ctx := store.Namespace{"n"}, t.Context()
			for _, op := range []struct {
				name string
				do   func() error
			}{
				{"put", func() error { return db.Put(ctx, first) }},
				{"put on a head that is known", func() error { return db.Put(ctx, second) }},
				{"writes", func() error {
					return db.PutWrites(ctx, second.Key, 0, []checkpoint.Write{{Task: "t", Kind: checkpoint.Answers, Data: []byte("x")}})
				}},
				{"get", func() error { _, err := db.Get(ctx, second.Key); return err }},
				{"list", func() error {
					for _, err := range db.List(ctx, checkpoint.Query{Thread: "thread"}) {
						if err != nil {
							return err
						}
					}
					return nil
				}},
				{"copy", func() error { return db.CopyThread(ctx, "thread", "copy") }},
				{"prune", func() error { _, err := db.Prune(ctx, "copy", checkpoint.Retention{}); return err }},
				{"fence", func() error { return db.Fence(ctx, "copy", 3) }},
				{"size", func() error { _, err := db.Size(ctx, "copy"); return err }},
				{"threads", func() error {
					for _, err := range db.Threads(ctx) {
						if err != nil {
							return err
						}
					}
					return nil
				}},
				{"delete", func() error { return db.DeleteThread(ctx, "copy") }},
				{"cache", func() error { return db.Cache().Set(ctx, "s", "k", []byte("v"), 0) }},
				{"clear", func() error { return db.Cache().Clear(ctx) }},
				{"store put", func() error { return items.Put(ctx, n, "k", map[string]string{"a": "b"}, nil) }},
				{"store put with a condition", func() error {
					return items.Put(ctx, n, "l", map[string]string{"a": "b"}, &store.PutOptions{IfAbsent: true})
				}},
				{"store get", func() error { _, err := items.Get(ctx, n, "k", nil); return err }},
				{"store search", func() error { _, err := items.Search(ctx, n, &store.SearchOptions{Query: "b"}); return err }},
				{"store batch", func() error {
					_, err := items.Batch(ctx, store.GetOp{Namespace: n, Key: "k"}, store.PutOp{Namespace: n, Key: "k", Value: map[string]int{"c": 1}})
					return err
				}},
				{"store delete", func() error { return items.Delete(ctx, n, "k", nil) }},
				{"store history", func() error { _, err := items.History(ctx, n, "k"); return err }},
				{"store forget", func() error { return items.Forget(ctx, n, "k") }},
				{"store sweep", func() error { _, err := items.Sweep(ctx); return err }},
				{"delete runs", func() error { _, err := db.DeleteRuns(ctx, "thread", []string{"run"}); return err }},
			} {
				closeIdle()
				if err := op.do(); err != nil {
					t.Errorf("%s: %v", op.name, err)
				}
			}
		})
	}
}

// A server that restarts, here because one of its processes was killed, is
// waited for.
func TestCallsWaitForRestartingServer(t *testing.T) {
	if os.Getenv(pgtest.Env) != "" {
		return // it is not ours to be killed
	}
	url := pgtest.URL(t)
	db := fresh(t, url, Options{MaxConns: 4})
	key := checkpoint.Key{Thread: "thread"}
	var ids []checkpoint.ID
	put := func(n int) {
		t.Helper()
		p := next(key, n, item(n))
		if err := db.Put(t.Context(), p); err != nil {
			t.Fatalf("put %d: %v", n, err)
		}
		key, ids = p.Key, append(ids, p.ID)
	}
	connect := func() *pgx.Conn {
		c, err := pgx.Connect(t.Context(), url)
		for try := 0; err != nil && try < 100; try++ {
			time.Sleep(100 * time.Millisecond) //nolint:forbidigo // a server is waited for, which no fake clock moves
			c, err = pgx.Connect(t.Context(), url)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	put(0)
	for i := range 3 {
		victim, other := connect(), connect()
		process, err := os.FindProcess(int(victim.PgConn().PID()))
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := other.WaitForNotification(t.Context()); err == nil { // it ends when the server has noticed and closes all connections
			t.Fatal("nobody notifies anybody here")
		}
		put(3*i + 1)
		w := []checkpoint.Write{{Task: "t", Kind: checkpoint.Done, Data: []byte("x")}}
		if err := db.PutWrites(t.Context(), key, 0, w); err != nil {
			t.Errorf("writes %d: %v", i, err)
		}
		if _, err := db.Get(t.Context(), key); err != nil {
			t.Errorf("get %d: %v", i, err)
		}
		put(3*i + 2)
		put(3*i + 3)
		for _, c := range []*pgx.Conn{victim, other} {
			if err := c.Close(t.Context()); err != nil {
				t.Log(err) // its process is gone
			}
		}
	}
	wantLine(t, db, "thread", ids)
	checkTables(t, db)
}
