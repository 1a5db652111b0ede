package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/ledger/ledgertest"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

// emptyLedger removes all rows and events of a schema: to make one takes longer than
// most tests do.
func emptyLedger(t testing.TB, db *testDB) {
	t.Helper()
	execIn(t, db, "TRUNCATE {schema}.server_row, {schema}.server_term, {schema}.server_event")
}

// execIn executes a statement for the schema.
func execIn(t testing.TB, db *testDB, query string, args ...any) {
	t.Helper()
	if _, err := db.conn.Pool.Exec(t.Context(), db.conn.In(query), args...); err != nil {
		t.Fatal(err)
	}
}

func TestLedger(t *testing.T) {
	for name, m := range databasetest.SuiteModes() {
		t.Run(name, func(t *testing.T) {
			db := newTestDB(m.Fresh(t, databasetest.Quick(t)))
			ledgertest.Run(t, func(t *testing.T) ledger.Backend {
				emptyLedger(t, db)
				t.Cleanup(func() { databasetest.CheckLedger(databasetest.Background(t), db.conn) })
				return db.Ledger()
			})
		})
	}
}

// Whatever is done, the ledger in Postgres says what one in memory says.
func TestLedgerBehavesLikeMemory(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{})
	ledgertest.Differential(t, func(*testing.T) ledger.Backend { return db.Ledger() })
	databasetest.CheckLedger(t, db.conn)
}

// ledgerOf opens the ledger of a schema as another process would.
func ledgerOf(t testing.TB, url string, db *testDB) *ledger.Ledger {
	t.Helper()
	return ledger.New(open(t, url, &database.Options{Schema: db.conn.Schema}).Ledger(), &ledger.Options{Lease: time.Minute})
}

// Two processes that create, claim and end runs of the same threads, whatever the
// default isolation is: every run is executed once, and one of a thread at a time.
func TestProcessesShareLedger(t *testing.T) {
	for _, isolation := range []string{"read committed", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			const threads, each = 5, 40
			url := databasetest.Set(t, databasetest.Quick(t), "default_transaction_isolation", isolation)
			db := fresh(t, url, database.Options{})
			ids := make([]guuid.UUID, threads)
			var running [threads]atomic.Int32
			for i := range ids {
				ids[i] = guuid.New()
			}
			of := func(thread guuid.UUID) *atomic.Int32 {
				for i := range ids {
					if ids[i] == thread {
						return &running[i]
					}
				}
				return nil
			}
			var mu sync.Mutex
			ended := map[guuid.UUID]int{}
			execute := func(l *ledger.Ledger, worker guuid.UUID, run *ledger.Run) {
				for run != nil {
					if n := of(run.Thread).Add(1); n != 1 {
						t.Errorf("%d runs of a thread at once", n)
					}
					of(run.Thread).Add(-1)
					mu.Lock()
					ended[run.ID]++
					mu.Unlock()
					next, err := l.Finish(t.Context(), &ledger.End{Run: run, Worker: worker, Status: ledger.Success, Claim: run.ID[15]%2 == 0})
					if err != nil {
						t.Error(err)
						return
					}
					run = next
				}
			}
			var wg sync.WaitGroup
			for range 2 {
				l := ledgerOf(t, url, db)
				worker := databasetest.Beat(t, l)
				for range 2 {
					wg.Go(func() {
						for i := range each {
							c, err := l.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: ids[i%threads]}, Create: &ledger.Thread{Metadata: ledger.Object{"n": i % 3}}, Worker: worker})
							if err != nil {
								t.Error(err)
								return
							}
							if c.Claimed {
								execute(l, worker, c.Run)
							}
							claimed, err := l.Claim(t.Context(), worker, nil, 2)
							if err != nil {
								t.Error(err)
							}
							for _, r := range claimed {
								execute(l, worker, r)
							}
						}
					})
				}
			}
			wg.Wait()
			l := ledgerOf(t, url, db)
			worker := databasetest.Beat(t, l)
			for {
				claimed, err := l.Claim(t.Context(), worker, nil, 10)
				if err != nil {
					t.Fatal(err)
				}
				if len(claimed) == 0 {
					break
				}
				for _, r := range claimed {
					execute(l, worker, r)
				}
			}
			for id, n := range ended {
				if n != 1 {
					t.Errorf("run %s has ended %d times", id, n)
				}
			}
			if len(ended) != 4*each {
				t.Errorf("%d runs have ended, want %d", len(ended), 4*each)
			}
			if _, n, err := l.Threads(t.Context(), &ledger.ThreadQuery{Status: ledger.Busy}); n != 0 || err != nil {
				t.Errorf("%d threads are busy, %v", n, err)
			}
			databasetest.CheckLedger(t, db.conn)
		})
	}
}

// count adds one to the number that a row holds.
func count(tx ledger.Tx, id guuid.UUID) error {
	r, err := tx.Get(ledger.Crons, id)
	if err != nil {
		return err
	}
	n := 0
	if r == nil {
		r = &ledger.Row{Kind: ledger.Crons, ID: id, Created: tx.Now()}
	} else if _, err := fmt.Sscan(string(r.Doc), &n); err != nil {
		return err
	}
	r.Doc = fmt.Append(nil, n+1)
	return tx.Put(r)
}

// counted returns the number that a row holds.
func counted(t *testing.T, b ledger.Backend, id guuid.UUID) string {
	t.Helper()
	r, err := b.Get(t.Context(), ledger.Crons, id)
	if err != nil {
		t.Fatal(err)
	}
	if r == nil {
		return "nothing"
	}
	return string(r.Doc)
}

// Transactions with different locks that change one row do not overwrite what they have
// not read.
func TestLedgerDetectsUnlockedUpdates(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{})
	b, id := db.Ledger(), guuid.New()
	calls := 0
	err := b.Update(t.Context(), guuid.New(), func(tx ledger.Tx) error {
		calls++
		if err := count(tx, id); err != nil {
			return err
		}
		if calls > 2 {
			return nil
		}
		// First it is inserted, then it is changed.
		return b.Update(t.Context(), guuid.New(), func(tx ledger.Tx) error { return count(tx, id) })
	})
	if got := counted(t, b, id); err != nil || calls != 3 || got != "3" {
		t.Errorf("after %d calls the row has %s, %v", calls, got, err)
	}
	// Somebody who always comes first is an error in the end.
	err = b.Update(t.Context(), guuid.New(), func(tx ledger.Tx) error {
		return errors.Join(count(tx, id), b.Update(t.Context(), guuid.New(), func(tx ledger.Tx) error { return count(tx, id) }))
	})
	if database.State(err) != database.StateStale || errors.Is(err, database.ErrOutcomeUnknown) {
		t.Errorf("the error is %v", err)
	}
}

// kill ends the connection of a transaction of the ledger.
func kill(t *testing.T, db *testDB, tx ledger.Tx) {
	t.Helper()
	if _, err := db.conn.Pool.Exec(t.Context(), "SELECT pg_terminate_backend($1, 10000)", tx.(*transaction).c.PgConn().PID()); err != nil {
		t.Fatal(err)
	}
}

// A transaction whose connection breaks before the commit is done again.
func TestLedgerRetriesBrokenTransaction(t *testing.T) {
	for mode, o := range databasetest.Modes() {
		t.Run(mode, func(t *testing.T) {
			db := fresh(t, databasetest.Quick(t), o)
			b, id := db.Ledger(), guuid.New()
			for _, after := range []bool{false, true} {
				calls := 0
				err := b.Update(t.Context(), id, func(tx ledger.Tx) error {
					if calls++; calls == 1 && !after {
						kill(t, db, tx)
					}
					err := count(tx, guuid.Max) // which is not loaded
					if calls == 1 && after {
						kill(t, db, tx)
					}
					return err
				})
				if err != nil || calls != 2 {
					t.Errorf("%d calls, %v", calls, err)
				}
			}
			if got := counted(t, b, guuid.Max); got != "2" {
				t.Errorf("the count is %s", got)
			}
		})
	}
}

// A transaction whose commit was not answered is done again if it came to nothing, and
// not if it was committed. The server says which.
func TestLedgerResolvesUnansweredCommit(t *testing.T) {
	server := pgtest.URL(t)
	direct := fresh(t, server, database.Options{})
	via, p := databasetest.Through(t, server)
	db := open(t, via, &database.Options{Schema: direct.conn.Schema, MaxConns: 1})
	b, id := db.Ledger(), guuid.New()
	once := func(lose func()) (calls int, err error) {
		err = b.Update(t.Context(), id, func(tx ledger.Tx) error {
			if calls++; calls == 1 && lose != nil {
				lose()
			}
			return count(tx, id)
		})
		return calls, err
	}
	if _, err := once(nil); err != nil {
		t.Fatal(err)
	}
	// The answer is lost, and the server can be reached again.
	go func() {
		<-p.Lost
		p.Deaf.Store(false)
	}()
	calls, err := once(func() { p.Deaf.Store(true) })
	if got := counted(t, direct.Ledger(), id); err != nil || calls != 1 || got != "2" {
		t.Errorf("after %d calls the count is %s, %v", calls, got, err)
	}
	// The server stays away.
	if _, err := once(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := once(func() { p.Deaf.Store(true) }); !errors.Is(err, database.ErrOutcomeUnknown) {
		t.Errorf("a commit without an answer: %v, want %v", err, database.ErrOutcomeUnknown)
	}
	p.Deaf.Store(false)
}

// unanswered runs a transaction that puts row put and deletes row gone, on top of those of
// the same ids, and forgets the answer if commit is set.
func unanswered(t *testing.T, db *testDB, put, gone guuid.UUID, commit bool) *update {
	t.Helper()
	u := &update{b: db.backend, lock: 1}
	_, err := db.conn.With(t.Context(), func(c *pgx.Conn) error {
		tx := &transaction{ctx: t.Context(), c: c, b: u.b}
		if _, err := u.begin(tx); err != nil {
			return err
		}
		if put != guuid.Nil {
			if err := count(tx, put); err != nil {
				return err
			}
		}
		if gone != guuid.Nil {
			if _, err := tx.Get(ledger.Crons, gone); err != nil {
				return err
			}
			if err := tx.Delete(ledger.Crons, gone); err != nil {
				return err
			}
		}
		u.sent = tx
		if commit {
			return tx.commit()
		}
		database.RollBack(t.Context(), c)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Whether a transaction was committed is known by what the server says of it and by the
// rows. A server that has crashed may have given its id to another one.
func TestLedgerTransactionOutcome(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{})
	b := db.Ledger()
	change := func(ids ...guuid.UUID) {
		t.Helper()
		for _, id := range ids {
			if err := b.Update(t.Context(), id, func(tx ledger.Tx) error { return count(tx, id) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name                 string
		there, put, gone     bool // whether there were rows before, and what is done with them
		commit, lost, change bool // whether it is committed, its id is that of another one, and others change its rows
		want                 string
	}{
		{name: "an update that is committed", there: true, put: true, commit: true, want: "committed"},
		{name: "an update that is not", there: true, put: true, want: "again"},
		{name: "an update that is lost", there: true, put: true, lost: true, want: "again"},
		{name: "an insert that is committed", put: true, commit: true, want: "committed"},
		{name: "an insert that is not", put: true, want: "again"},
		{name: "an insert that is lost, or deleted since", put: true, lost: true, want: "unknown"},
		{name: "a delete that is committed", there: true, gone: true, commit: true, want: "committed"},
		{name: "a delete that is not", there: true, gone: true, want: "again"},
		{name: "a delete that is lost", there: true, gone: true, lost: true, want: "again"},
		{name: "both that are committed", there: true, put: true, gone: true, commit: true, want: "committed"},
		{name: "both that are lost", there: true, put: true, gone: true, lost: true, want: "again"},
		{name: "an update that others have changed", there: true, put: true, commit: true, change: true, want: "unknown"},
		{name: "an update that is not, and others have changed", there: true, put: true, change: true, want: "again"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var put, gone guuid.UUID
			if test.put {
				put = guuid.New()
			}
			if test.gone {
				gone = guuid.New()
			}
			for _, id := range []guuid.UUID{put, gone} {
				if test.there && id != guuid.Nil {
					change(id)
				}
			}
			u := unanswered(t, db, put, gone, test.commit)
			if test.change {
				change(put)
			}
			if test.lost {
				if err := db.conn.Pool.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text").Scan(&u.sent.id); err != nil {
					t.Fatal(err)
				}
			}
			got := "committed"
			u.fn = func(ledger.Tx) error {
				got = "again"
				return nil
			}
			if err := u.run(t.Context()); errors.Is(err, database.ErrOutcomeUnknown) {
				got = "unknown"
			} else if err != nil || u.sent != nil {
				t.Error(err)
			}
			if got != test.want {
				t.Errorf("it is %s, want %s", got, test.want)
			}
		})
	}
	u := unanswered(t, db, guuid.New(), guuid.Nil, false)
	u.sent.id = "99999999999" // which no transaction has had
	calls := 0
	u.fn = func(ledger.Tx) error {
		calls++
		return nil
	}
	if err := u.run(t.Context()); err != nil || calls != 1 {
		t.Errorf("a transaction that the server has never seen: %d calls, %v", calls, err)
	}
}

// Those who wait for a lock leave connections to others, and stop with their context.
func TestLockWaitersLeaveConnectionsFree(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{MaxConns: 2})
	b, id := db.Ledger(), guuid.New()
	begun, end := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := b.Update(t.Context(), id, func(tx ledger.Tx) error {
			close(begun)
			<-end
			return count(tx, id)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-begun
	for range 10 {
		wg.Go(func() {
			if err := b.Update(t.Context(), id, func(tx ledger.Tx) error { return count(tx, id) }); err != nil {
				t.Error(err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() {
		if err := b.Update(ctx, id, func(tx ledger.Tx) error { return count(tx, id) }); !errors.Is(err, context.Canceled) {
			t.Errorf("the error of one who does not wait is %v", err)
		}
	})
	if err := b.Update(t.Context(), guuid.New(), func(tx ledger.Tx) error { return nil }); err != nil {
		t.Error(err)
	}
	cancel()
	close(end)
	wg.Wait()
	if got := counted(t, b, id); got != "11" {
		t.Errorf("the count is %s", got)
	}
	if n := len(db.backend.locks.used); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}

// A transaction that waits for another process is given up with its context, and its
// connection can be used again.
func TestLedgerLockWaitEndsWithContext(t *testing.T) {
	url := databasetest.Quick(t)
	db := fresh(t, url, database.Options{MaxConns: 1})
	other := open(t, url, &database.Options{Schema: db.conn.Schema})
	id := guuid.New()
	err := other.Ledger().Update(t.Context(), id, func(ledger.Tx) error {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- db.Ledger().Update(ctx, id, func(tx ledger.Tx) error { return count(tx, id) }) }()
		databasetest.WaitForLock(t, other.conn, "pg_advisory_xact_lock")
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || errors.Is(err, database.ErrOutcomeUnknown) {
			t.Errorf("the error is %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Ledger().Update(t.Context(), id, func(tx ledger.Tx) error { return count(tx, id) }); err != nil {
		t.Error(err)
	}
	if got := counted(t, db.Ledger(), id); got != "1" {
		t.Errorf("the count is %s", got)
	}
}

// What no ledger would have written is an error for those who read it.
func TestDamagedLedgerReturnsErrDamaged(t *testing.T) {
	db := fresh(t, databasetest.Quick(t), database.Options{})
	l := ledger.New(db.Ledger(), &ledger.Options{Lease: time.Minute})
	for name, damage := range map[string]string{
		"a doc that is no JSON": `UPDATE {schema}.server_row SET doc = '\x00ff'`,
		"an empty doc":          `UPDATE {schema}.server_row SET doc = ''`,
		"a doc of another type": `UPDATE {schema}.server_row SET doc = '[1]'`,
		"a term that is NULL":   `UPDATE {schema}.server_row SET terms = '{1,NULL}'`,
		"another kind":          `UPDATE {schema}.server_row SET kind = 11 - kind WHERE kind IN (4, 7)`,
		"a body in its place":   `UPDATE {schema}.server_row SET doc = body WHERE kind = 4`,
	} {
		t.Run(name, func(t *testing.T) {
			emptyLedger(t, db)
			worker := databasetest.Beat(t, l)
			thread := guuid.New()
			c, err := l.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: thread, Kwargs: []byte(`"x"`)}, Create: &ledger.Thread{Metadata: ledger.Object{"a": "b"}}, Worker: worker})
			if err != nil {
				t.Fatal(err)
			}
			execIn(t, db, damage)
			_, runErr := l.Run(t.Context(), guuid.Nil, c.Run.ID, nil)
			_, endErr := l.Finish(t.Context(), &ledger.End{Run: c.Run, Worker: worker, Status: ledger.Success})
			_, listErr := l.Runs(t.Context(), thread, nil, "", ledger.Page{})
			if runErr == nil || endErr == nil {
				t.Errorf("the run is read: %v, ended: %v, listed: %v", runErr, endErr, listErr)
			}
		})
	}
}

// Connections that are cut at any moment of a transaction, its commit included, make no
// transaction fail, and each happens once.
func TestLedgerSurvivesBrokenConnections(t *testing.T) {
	for mode, o := range databasetest.Modes() {
		t.Run(mode, func(t *testing.T) {
			const workers, each, cuts = 4, 150, 60
			o.MaxConns = workers
			url := pgtest.URL(t)
			db := fresh(t, url, o)
			b := db.Ledger()
			var ids [workers]guuid.UUID
			var wg sync.WaitGroup
			var busy, calls atomic.Int64
			var done [workers]atomic.Int64
			busy.Store(workers)
			for i := range ids {
				ids[i] = guuid.New()
				wg.Go(func() {
					defer busy.Add(-1)
					for n := range each {
						lock := ids[i]
						if n%3 == 0 {
							lock = guuid.Max // otherwise it is not that of the row of all
						}
						err := b.Update(t.Context(), lock, func(tx ledger.Tx) error {
							calls.Add(1)
							return errors.Join(count(tx, ids[i]), count(tx, guuid.Max))
						})
						if err != nil {
							t.Errorf("transaction %d of %d: %v", n, i, err)
						}
						done[i].Add(1)
					}
				})
			}
			killer, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			// A transaction is tried five times. So after three cuts each worker finishes the one
			// that it is in before the next cut. A cut may come too late and hit the next
			// transaction of its connection, which then is cut four times at most.
			var last [workers]int64
			through := func() (some int64, all bool) {
				all = true
				for i := range done {
					n := done[i].Load()
					some += n - last[i]
					all = all && (n > last[i] || n == each)
				}
				return some, all
			}
			cut := 0
			for busy.Load() > 0 && cut < cuts {
				if some, all := through(); cut > 0 && (some < workers || cut%(database.Tries-2) == 0 && !all) {
					runtime.Gosched() // some come through before the next cut
					continue
				}
				var n int
				err := killer.QueryRow(t.Context(), `SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
					WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL ORDER BY random() LIMIT 1) a`, pgx.QueryExecModeSimpleProtocol).Scan(&n)
				if err != nil {
					t.Fatal(err)
				}
				cut += n
				if n > 0 {
					for i := range done {
						last[i] = done[i].Load()
					}
				}
			}
			wg.Wait()
			if err := killer.Close(t.Context()); err != nil {
				t.Error(err)
			}
			for _, id := range ids {
				if got := counted(t, b, id); got != fmt.Sprint(each) {
					t.Errorf("a row has %s, want %d", got, each)
				}
			}
			if got := counted(t, b, guuid.Max); got != fmt.Sprint(workers*each) {
				t.Errorf("the row of all has %s, want %d", got, workers*each)
			}
			t.Logf("%d cuts, %d transactions, %d calls", cut, workers*each, calls.Load())
			if cut == 0 {
				t.Error("no connection was cut")
			}
		})
	}
}

// A server that crashes while transactions are under way is waited for. Each happens
// once, unless its error is that nobody knows.
func TestLedgerSurvivesServerCrash(t *testing.T) {
	if os.Getenv(pgtest.Env) != "" {
		return // it is not ours to be killed
	}
	const workers, crashes = 4, 3
	url := pgtest.URL(t)
	db := fresh(t, url, database.Options{MaxConns: workers})
	b := db.Ledger()
	var ids [workers]guuid.UUID
	var done, unknown [workers]atomic.Int64
	var over atomic.Bool
	var wg sync.WaitGroup
	for i := range ids {
		ids[i] = guuid.New()
		wg.Go(func() {
			for !over.Load() {
				switch err := b.Update(t.Context(), ids[i], func(tx ledger.Tx) error { return count(tx, ids[i]) }); {
				case err == nil:
					done[i].Add(1)
				case errors.Is(err, database.ErrOutcomeUnknown):
					unknown[i].Add(1)
				default:
					t.Errorf("worker %d: %v", i, err)
					return
				}
			}
		})
	}
	for range crashes {
		before := done[0].Load()
		eventually(t, "the ledger works", func() bool { return done[0].Load() > before+20 })
		var victim *pgx.Conn
		eventually(t, "the server is there", func() bool {
			var err error
			victim, err = pgx.Connect(t.Context(), url)
			return err == nil
		})
		process, err := os.FindProcess(int(victim.PgConn().PID()))
		if err == nil {
			err = process.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = victim.Close(t.Context()) // its process is gone
	}
	before := done[0].Load()
	eventually(t, "the ledger works", func() bool { return done[0].Load() > before+20 })
	over.Store(true)
	wg.Wait()
	for i, id := range ids {
		var n int64
		if _, err := fmt.Sscan(counted(t, b, id), &n); err != nil {
			t.Fatal(err)
		}
		if least, most := done[i].Load(), done[i].Load()+unknown[i].Load(); n < least || n > most {
			t.Errorf("a row has %d, want %d to %d", n, least, most)
		}
		t.Logf("%d transactions, %d of unknown outcome", n, unknown[i].Load())
	}
}

// A transaction of a stopped process ends, unless the session has its own limit.
func TestLedgerTransactionsLimitIdleTime(t *testing.T) {
	const setting = "idle_in_transaction_session_timeout"
	url := pgtest.URL(t)
	schema := fresh(t, url, database.Options{}).conn.Schema
	for session, want := range map[string]string{"0": "10s", "300ms": "300ms", "1min": "1min"} {
		for mode, opts := range databasetest.Modes() {
			t.Run(session+" "+mode, func(t *testing.T) {
				opts.Schema, opts.MaxConns = schema, 1
				db := open(t, databasetest.Set(t, url, setting, session), &opts)
				var during, after string
				err := db.Ledger().Update(t.Context(), guuid.New(), func(tx ledger.Tx) error {
					return tx.(*transaction).c.QueryRow(t.Context(), "SHOW "+setting).Scan(&during)
				})
				if err != nil || during != want {
					t.Errorf("limit of a transaction: %q, %v, want %q", during, err, want)
				}
				if err := db.conn.Pool.QueryRow(t.Context(), "SHOW "+setting).Scan(&after); err != nil || after != session {
					t.Errorf("limit after a transaction: %q, %v, want %q", after, err, session)
				}
			})
		}
	}
}
