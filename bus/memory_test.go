package bus_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/bus/bustest"
	"github.com/treadle-go/treadle/ledger"
)

func TestMemory(t *testing.T) {
	bustest.Run(t, func(t *testing.T, n int) []bus.Bus {
		// There is a single process, so all buses are the same.
		b := bus.NewMemory()
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		all := make([]bus.Bus, n)
		for i := range all {
			all[i] = b
		}
		return all
	})
}

func TestMemoryKeepsEventsForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.NewMemory()
		thread, other := uuid.New(), uuid.New()
		add := func(thread uuid.UUID, n uint64) {
			t.Helper()
			if err := b.Log().Append(t.Context(), &ledger.Events{Thread: thread, First: n, Last: n}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(numbers ...uint64) {
			t.Helper()
			for e, err := range b.Log().Read(t.Context(), thread, 0, false) {
				if err != nil || len(numbers) == 0 || e.Last != numbers[0] {
					t.Fatalf("got %v, %v, want %v", e, err, numbers)
				}
				numbers = numbers[1:]
			}
			if len(numbers) > 0 {
				t.Fatalf("missing events %v", numbers)
			}
		}
		add(thread, 1)
		time.Sleep(5 * time.Minute) //nolint:forbidigo // the time of synctest
		add(thread, 2)
		want(1, 2)
		time.Sleep(5 * time.Minute) //nolint:forbidigo // the time of synctest
		want(2)
		time.Sleep(5 * time.Minute) //nolint:forbidigo // the time of synctest
		add(other, 1)
		want()
		add(thread, 2) // not a duplicate: the first one has been removed
		want(2)
	})
}
