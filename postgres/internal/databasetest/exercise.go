package databasetest

import (
	"fmt"
	"testing"
	"time"

	guuid "github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/store"
)

// ExerciseStore calls all methods of a store.
func ExerciseStore(t testing.TB, s *store.Store) {
	t.Helper()
	ctx := t.Context()
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	n := store.Namespace{"users", "7"}
	for i := range 5 {
		ok("put", s.Put(ctx, n, fmt.Sprint(i%3), map[string]any{"text": "green tea", "i": i}, &store.PutOptions{TTL: 1e12}))
	}
	ok("put if absent", s.Put(ctx, n, "once", map[string]any{}, &store.PutOptions{IfAbsent: true}))
	_, err := s.Get(ctx, n, "1", nil)
	ok("get", err)
	for _, o := range []store.SearchOptions{{}, {Filter: store.Eq("i", 1)}, {Query: "tea"}, {Query: "tea", Ranking: store.Keyword}} {
		_, err := s.Search(ctx, nil, &o)
		ok("search", err)
	}
	_, err = s.Namespaces(ctx, nil)
	ok("namespaces", err)
	_, err = s.History(ctx, n, "1")
	ok("history", err)
	_, err = s.AsOf(time.Now()).Search(ctx, n, &store.SearchOptions{Query: "tea"})
	ok("the past", err)
	ok("delete", s.Delete(ctx, n, "2", nil))
	ok("forget", s.Forget(ctx, n, "1"))
	_, err = s.Reindex(ctx)
	ok("reindex", err)
	_, err = s.Sweep(ctx)
	ok("sweep", err)
	for _, err := range s.Watch(ctx, n, 0) {
		ok("watch", err)
		break
	}
	ok("forget all", s.ForgetAll(ctx, store.Namespace{"users"}))
}

// ExerciseLedger calls the methods of a ledger.
func ExerciseLedger(t *testing.T, b ledger.Backend) {
	t.Helper()
	ctx := t.Context()
	l := ledger.New(b, nil)
	worker, thread := Beat(t, l), guuid.New()
	ok := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	ok("attend", l.Attend(ctx, worker))
	_, err := l.EndLeases(ctx, guuid.New())
	ok("end leases", err)
	var runs []*ledger.Run
	for i := range 3 {
		c, err := l.CreateRun(ctx, &ledger.NewRun{Run: &ledger.Run{Thread: thread, Key: fmt.Sprint(i)}, Create: &ledger.Thread{Metadata: ledger.Object{"a": "b", "c": "d"}}, Worker: worker})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, c.Run)
	}
	next, err := l.Finish(ctx, &ledger.End{Run: runs[0], Worker: worker, Status: ledger.Success, Claim: true, Hook: func(*ledger.Run) *ledger.Hook { return &ledger.Hook{URL: "u"} }})
	if err != nil || next == nil {
		t.Fatal(next, err)
	}
	_, _, err = l.Cancel(ctx, thread, []guuid.UUID{next.ID}, ledger.CancelRun, nil)
	ok("cancel", err)
	ordered, err := l.Beat(ctx, worker, "test")
	if len(ordered) != 1 {
		t.Errorf("%d runs are to end", len(ordered))
	}
	ok("beat", err)
	ok("release", l.Release(ctx, worker, next, 0))
	claimed, err := l.Claim(ctx, worker, nil, 5)
	if len(claimed) != 1 {
		t.Errorf("%d runs are claimed", len(claimed))
	}
	ok("claim", err)
	found, _, err := l.Threads(ctx, &ledger.ThreadQuery{Filter: ledger.Filter{Contains: ledger.Object{"a": "b", "c": "d"}}})
	if len(found) != 1 {
		t.Errorf("%d threads are found", len(found))
	}
	ok("threads", err)
	ok("append", l.Append(ctx, &ledger.Events{Thread: thread, Run: next.ID, First: 1, Last: 2, Data: []byte("x")}))
	n := 0
	for _, err := range l.Events(ctx, thread, guuid.Nil, 0) {
		ok("events", err)
		n++
	}
	if n != 1 {
		t.Errorf("%d events are read", n)
	}
	_, err = l.Sweep(ctx, 0, 10)
	ok("sweep", err)
	_, err = l.DeleteThread(ctx, thread, nil)
	ok("delete", err)
}

// Beat registers a new worker.
func Beat(t testing.TB, l *ledger.Ledger) guuid.UUID {
	t.Helper()
	worker := guuid.Must(guuid.NewV7())
	if _, err := l.Beat(t.Context(), worker, "test"); err != nil {
		t.Fatal(err)
	}
	return worker
}

// CheckLedger checks that the term index matches the rows.
func CheckLedger(t testing.TB, db *database.DB) {
	t.Helper()
	var n int
	err := db.Pool.QueryRow(t.Context(), db.In(`SELECT count(*) FROM (SELECT r.kind, r.id, r.created, u.term FROM {schema}.server_row r, unnest(r.terms) AS u(term)) r
		FULL JOIN {schema}.server_term t USING (kind, id, created, term) WHERE t.kind IS NULL OR r.kind IS NULL`)).Scan(&n)
	if err != nil || n != 0 {
		t.Errorf("%d terms differ between rows and index, %v", n, err)
	}
}
