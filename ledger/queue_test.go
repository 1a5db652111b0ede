package ledger_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

func TestQueueCountsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, &ledger.Options{Lease: time.Hour})
		check := func(want ledger.Queue) {
			t.Helper()
			if got, err := f.Queue(t.Context()); err != nil || *got != want {
				t.Errorf("got queue %+v, %v; want %+v", got, err, want)
			}
		}
		check(ledger.Queue{})
		thread := f.newThread()
		f.started(thread)
		f.waiting(thread)       // after the other run, so no worker can start it
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		check(ledger.Queue{Pending: 1, Running: 1})
		f.create(&ledger.NewRun{Run: &ledger.Run{Thread: uuid.New(), Temporary: true}})
		f.create(&ledger.NewRun{Run: &ledger.Run{Thread: f.newThread(), Due: time.Now().Add(time.Hour)}})
		check(ledger.Queue{Pending: 3, Running: 1})
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		check(ledger.Queue{Pending: 3, Running: 1, Wait: time.Second})
		f.waiting(f.newThread())
		time.Sleep(time.Second) //nolint:forbidigo // virtual time
		check(ledger.Queue{Pending: 4, Running: 1, Wait: 2 * time.Second})
		f.claim(10)
		check(ledger.Queue{Pending: 2, Running: 3})
	})
}
