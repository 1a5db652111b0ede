package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	guuid "github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

// attendants is how many connections attend.
func attendants(t *testing.T, db *testDB) (n int) {
	t.Helper()
	if err := db.conn.Pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) { //nolint:forbidigo // the server takes its time
		if time.Now().After(end) {
			t.Fatalf("it is not so after a minute: %s", what)
		}
	}
}

// A worker whose connection ends is followed at once, and not when it was never there.
func TestWitnessDetectsClosedConnection(t *testing.T) {
	url := pgtest.URL(t)
	db := fresh(t, url, database.Options{})
	a, b := ledgerOf(t, url, db), ledgerOf(t, url, db)
	first, second, silent := databasetest.Beat(t, a), databasetest.Beat(t, b), databasetest.Beat(t, b)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	if err := a.Attend(ctx, first); err != nil {
		t.Fatal(err)
	}
	if err := b.Attend(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	for _, worker := range []guuid.UUID{first, silent} {
		c, err := a.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: guuid.New()}, Create: &ledger.Thread{}, Worker: worker})
		if err != nil || !c.Claimed {
			t.Fatal(c, err)
		}
	}
	if n, err := b.EndLeases(t.Context(), second); n != 0 || err != nil {
		t.Errorf("%d leases have ended, %v", n, err)
	}
	end()
	eventually(t, "the connection has ended", func() bool { return attendants(t, db) == 1 })
	if n, err := b.EndLeases(t.Context(), second); n != 1 || err != nil {
		t.Errorf("%d leases have ended, %v", n, err)
	}
	taken, failed, err := b.TakeOver(t.Context(), second, nil, 10)
	if len(taken) != 1 || len(failed) != 0 || err != nil {
		t.Errorf("%v are taken, %v have failed, %v", taken, failed, err)
	}
}

// A connection that breaks is made again, and as long as others may not have made theirs
// nobody is taken for dead.
func TestWorkerAttendsAgainAfterBreak(t *testing.T) {
	url := pgtest.URL(t)
	db := fresh(t, url, database.Options{})
	w := db.Ledger().(ledger.Witness)
	worker, other := guuid.New(), guuid.New()
	if err := w.Attend(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	gone := func() []guuid.UUID {
		t.Helper()
		ids, err := w.Gone(t.Context(), []guuid.UUID{worker, other})
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	if ids := gone(); len(ids) != 1 || ids[0] != other {
		t.Errorf("%v are gone, want %s", ids, other)
	}
	for range 3 {
		execIn(t, db, "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2")
		eventually(t, "the worker attends again", func() bool { return attendants(t, db) == 1 })
		eventually(t, "the break is known", db.backend.breaks.recent)
		if ids := gone(); len(ids) != 0 {
			t.Errorf("after a break %v are gone", ids)
		}
	}
	db.backend.breaks.mu.Lock()
	db.backend.breaks.last = time.Now().Add(-attendPause)
	db.backend.breaks.mu.Unlock()
	if ids := gone(); len(ids) != 1 || ids[0] != other {
		t.Errorf("%v are gone, want %s", ids, other)
	}
	db.conn.Close()
	if err := w.Attend(t.Context(), worker); !errors.Is(err, database.ErrClosed) {
		t.Errorf("a worker of a closed database: %v", err)
	}
}

func TestPoolerSafeLedgerIsNotWitness(t *testing.T) {
	if _, ok := fresh(t, databasetest.Quick(t), database.Options{PoolerSafe: true}).Ledger().(ledger.Witness); ok {
		t.Error("sessions behind a pooler are not those of a process")
	}
}
