package ledgertest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// appendEvents appends ten events to a thread for each of the given runs.
func (f *fixture) appendEvents(thread int, runs ...int) (all []*ledger.Events) {
	f.Helper()
	for i, run := range runs {
		e := &ledger.Events{Thread: id(thread), Run: id(run), First: uint64(10*i + 1), Last: uint64(10*i + 10), Data: fmt.Appendf(nil, "events %d of %d\x00\xff", i, thread)}
		if err := f.Append(f.Context(), e); err != nil {
			f.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func (f *fixture) compareEvents(thread, run uuid.UUID, after uint64, want ...*ledger.Events) {
	f.Helper()
	var got []*ledger.Events
	for e, err := range f.Events(f.Context(), thread, run, after) {
		if err != nil {
			f.Fatal(err)
		}
		got = append(got, e)
	}
	if !slices.EqualFunc(got, want, equalEvents) {
		f.Errorf("events of thread %s and run %s after %d (-want +got):\n%s", thread, run, after, cmp.Diff(want, got, same))
	}
}

func equalEvents(a, b *ledger.Events) bool {
	return a.Thread == b.Thread && a.Run == b.Run && a.First == b.First && a.Last == b.Last && bytes.Equal(a.Data, b.Data)
}

var events = []test{
	{"events are read in order after any number", func(f *fixture) {
		a := f.appendEvents(1, 11, 11, 12, 11, 12)
		b := f.appendEvents(2, 11, 21)
		f.compareEvents(id(1), uuid.Nil, 0, a...)
		f.compareEvents(id(1), uuid.Nil, 10, a[1:]...)
		f.compareEvents(id(1), uuid.Nil, 15, a[1:]...)
		f.compareEvents(id(1), uuid.Nil, 50)
		f.compareEvents(id(1), id(11), 0, a[0], a[1], a[3])
		f.compareEvents(id(1), id(11), 20, a[3])
		f.compareEvents(id(1), id(21), 0)
		f.compareEvents(id(2), id(11), 0, b[0])
		f.compareEvents(id(3), uuid.Nil, 0)
	}},
	{"empty, large, and many events", func(f *fixture) {
		var all []*ledger.Events
		for i := range 100 {
			e := &ledger.Events{Thread: id(1), Run: id(2), First: uint64(i + 1), Last: uint64(i + 1), Data: bytes.Repeat([]byte{byte(i)}, i%3*50_000)}
			if err := f.Append(f.Context(), e); err != nil {
				f.Fatal(err)
			}
			all = append(all, e)
		}
		f.compareEvents(id(1), uuid.Nil, 0, all...)
		n := 0
		for range f.Events(f.Context(), id(1), uuid.Nil, 0) {
			n++
			if n == 50 {
				break
			}
		}
	}},
	{"sequence numbers use 53 bits", func(f *fixture) {
		e := &ledger.Events{Thread: id(1), Run: id(2), First: 1<<53 - 10, Last: 1<<53 - 1, Data: []byte("x")}
		if err := f.Append(f.Context(), e); err != nil {
			f.Fatal(err)
		}
		f.compareEvents(id(1), id(2), 1<<53-2, e)
	}},
	{"drop events of a thread or run", func(f *fixture) {
		a := f.appendEvents(1, 11, 12, 11)
		b := f.appendEvents(2, 11)
		drop := func(thread, run uuid.UUID) {
			if err := f.DropEvents(f.Context(), thread, run); err != nil {
				f.Fatal(err)
			}
		}
		drop(id(1), id(11))
		f.compareEvents(id(1), uuid.Nil, 0, a[1])
		drop(id(1), uuid.Nil)
		drop(id(3), uuid.Nil)
		f.compareEvents(id(1), uuid.Nil, 0)
		f.compareEvents(id(2), uuid.Nil, 0, b...)
	}},
	{"trim old events up to a limit", func(f *fixture) {
		f.appendEvents(1, 11, 11, 11, 11)
		f.appendEvents(2, 12)
		trim := func(before time.Time, limit, want int) {
			f.Helper()
			n, err := f.TrimEvents(f.Context(), before, limit)
			if err != nil || n != want {
				f.Errorf("removed %d, %v; want %d", n, err, want)
			}
		}
		trim(time.Now().Add(-time.Hour), 0, 0)
		trim(time.Now().Add(time.Hour), 3, 3)
		trim(time.Now().Add(time.Hour), 0, 2)
		f.compareEvents(id(1), uuid.Nil, 0)
		f.compareEvents(id(2), uuid.Nil, 0)
	}},
}
