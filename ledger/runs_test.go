package ledger_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// worker makes a worker with a lease.
func worker(t testing.TB, l *ledger.Ledger) uuid.UUID {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	if _, err := l.Beat(t.Context(), id, "test"); err != nil {
		t.Fatal(err)
	}
	return id
}

func create(t testing.TB, l *ledger.Ledger, n *ledger.NewRun) *ledger.Created {
	t.Helper()
	c, err := l.CreateRun(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRunIsCreatedClaimedAndFinished(t *testing.T) {
	l := ledger.New(ledger.NewMemory(), nil)
	w := worker(t, l)
	thread := uuid.New()
	c := create(t, l, &ledger.NewRun{
		Run:    &ledger.Run{Thread: thread, Graph: "g", Kwargs: json.RawMessage(`{"input":1}`)},
		Create: &ledger.Thread{}, ThreadMetadata: ledger.Object{"graph_id": "g"}, Worker: w,
	})
	if !c.Claimed || c.Run.Status != ledger.Running {
		t.Fatalf("the run is %+v", c.Run)
	}
	second := create(t, l, &ledger.NewRun{Run: &ledger.Run{Thread: thread, Graph: "g"}, Worker: w})
	if second.Claimed {
		t.Fatal("two runs of one thread are running")
	}
	next, err := l.Finish(t.Context(), &ledger.End{Run: c.Run, Worker: w, Status: ledger.Success, Claim: true})
	if err != nil || next == nil || next.ID != second.Run.ID || string(next.Kwargs) != "{}" {
		t.Fatalf("the next run is %+v, %v", next, err)
	}
	if _, err := l.Finish(t.Context(), &ledger.End{Run: c.Run, Worker: w, Status: ledger.Success}); !errors.Is(err, ledger.ErrLost) {
		t.Errorf("the second end of a run is %v", err)
	}
	if _, err := l.Finish(t.Context(), &ledger.End{Run: next, Worker: w, Status: ledger.Success, Next: true}); err != nil {
		t.Fatal(err)
	}
	got, err := l.Thread(t.Context(), thread, nil)
	if err != nil || got.Status != ledger.Interrupted || got.Graph() != "g" {
		t.Errorf("the thread is %+v, %v", got, err)
	}
}
