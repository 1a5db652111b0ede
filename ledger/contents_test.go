package ledger_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// Contents counts the data of a thread that is deleted with it.
func TestContentsCountsThreadData(t *testing.T) {
	f := newFixture(t, nil)
	thread, other := f.newThread(), f.newThread()
	for _, id := range []uuid.UUID{thread, other} {
		run := f.started(id)
		if err := f.Append(t.Context(), &ledger.Events{Thread: id, Run: run.ID, First: 1, Last: 3, Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		f.finish(&ledger.End{Run: run, Seq: 3, Wake: time.Now().Add(time.Hour), Hook: func(*ledger.Run) *ledger.Hook { return &ledger.Hook{URL: "http://localhost"} }})
		f.waiting(id)
		if err := f.CreateCron(t.Context(), &ledger.Cron{Thread: &id, Schedule: "* * * * *"}); err != nil {
			t.Fatal(err)
		}
	}
	want := ledger.Contents{Runs: 2, Crons: 1, Webhooks: 1, Events: 3}
	if got, err := f.Contents(t.Context(), thread); got != want || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := f.DeleteThread(t.Context(), thread, nil); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Contents(t.Context(), thread); got != (ledger.Contents{}) || err != nil {
		t.Errorf("after the delete: got %+v, %v", got, err)
	}
	if got, err := f.Contents(t.Context(), other); got != want || err != nil {
		t.Errorf("other thread: got %+v, %v", got, err)
	}
}
