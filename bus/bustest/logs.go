package bustest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/ledger"
)

// compare compares events with the packs of a thread that have the given numbers.
func (f *fixture) compare(what string, got []*ledger.Events, thread uuid.UUID, numbers ...int) {
	f.Helper()
	var want []*ledger.Events
	for _, n := range numbers {
		want = append(want, events(thread, n))
	}
	if !slices.EqualFunc(got, want, same) {
		f.Errorf("%s: got %s, want %s", what, spans(got), spans(want))
	}
}

func same(a, b *ledger.Events) bool {
	return a.Thread == b.Thread && a.Run == b.Run && a.First == b.First && a.Last == b.Last && bytes.Equal(a.Data, b.Data)
}

// spans formats the number ranges of events.
func spans(all []*ledger.Events) string {
	var b bytes.Buffer
	for _, e := range all {
		fmt.Fprintf(&b, "%d-%d ", e.First, e.Last)
	}
	return fmt.Sprintf("%d packs: %.300s", len(all), b.String())
}

// follow reads n packs of a thread after a number, and checks that none is missing or
// duplicated.
func follow(t *testing.T, b bus.Bus, thread uuid.UUID, after uint64, n int) {
	if err := followed(t.Context(), b, thread, after, n, nil); err != nil {
		t.Error(err)
	}
}

// followed is like follow, but returns the error and sends the number of packs read to
// progress.
func followed(ctx context.Context, b bus.Bus, thread uuid.UUID, after uint64, n int, progress chan<- int) error {
	next := int(after / 5)
	for e, err := range b.Log().Read(ctx, thread, after, true) {
		if err != nil {
			return err
		}
		if want := events(thread, next); !same(e, want) {
			return fmt.Errorf("thread %s after %d: got events %d-%d of run %s, want %d-%d", thread, after, e.First, e.Last, e.Run, want.First, want.Last)
		}
		next++
		if progress != nil {
			progress <- next
		}
		n--
		if n == 0 {
			return nil
		}
	}
	return fmt.Errorf("thread %s after %d: events end before %d", thread, after, 5*next+1)
}

var logs = []test{
	{"events are read in order after any number", func(f *fixture) {
		thread := uuid.New()
		f.appendMany(f.a, thread, 0, 20)
		for _, b := range []bus.Bus{f.a, f.b} {
			for after := range uint64(101) {
				var want []int
				for n := int(after / 5); n < 20; n++ {
					want = append(want, n)
				}
				f.compare(fmt.Sprintf("after %d", after), f.kept(b, thread, after), thread, want...)
			}
		}
	}},
	{"long log is read completely", func(f *fixture) {
		thread := uuid.New()
		f.appendMany(f.a, thread, 0, 1000)
		f.follow(f.b, thread, 0, 1000)
		if got := f.kept(f.b, thread, 4000); len(got) != 200 {
			f.Errorf("after 4000: %s", spans(got))
		}
	}},
	{"reader ends despite appends unless live", func(f *fixture) {
		thread := uuid.New()
		f.appendMany(f.a, thread, 0, 300)
		n := 0
		for e, err := range f.b.Log().Read(f.Context(), thread, 0, false) {
			if err != nil || !same(e, events(thread, n)) {
				f.Fatalf("at %d: %v, %v", n, e, err)
			}
			f.append(f.a, events(thread, 300+n))
			n++
		}
		if n != 300 {
			f.Errorf("got %d of 300 packs", n)
		}
	}},
	{"thread without events", func(f *fixture) {
		f.compare("new thread", f.kept(f.a, uuid.New(), 0), uuid.Nil)
	}},
	{"duplicate appends have no effect", func(f *fixture) {
		thread := uuid.New()
		f.appendMany(f.a, thread, 0, 3)
		f.append(f.a, events(thread, 2))
		f.append(f.b, events(thread, 0))
		f.appendMany(f.b, thread, 3, 5)
		f.compare("all", f.kept(f.a, thread, 0), thread, 0, 1, 2, 3, 4)
	}},
	{"events of a process that lost its run are skipped", func(f *fixture) {
		thread := uuid.New()
		zombie := func(first, last uint64) {
			f.append(f.b, &ledger.Events{Thread: thread, Run: otherRun, First: first, Last: last, Data: []byte("zombie")})
		}
		f.appendMany(f.a, thread, 0, 3)
		zombie(11, 13)
		zombie(14, 15)
		f.appendMany(f.a, thread, 3, 4)
		zombie(16, 18)
		zombie(1, 20)
		f.appendMany(f.a, thread, 4, 5)
		f.compare("all", f.kept(f.a, thread, 0), thread, 0, 1, 2, 3, 4)
		f.compare("after 12", f.kept(f.b, thread, 12), thread, 2, 3, 4)
		f.follow(f.b, thread, 5, 4)
	}},
	{"threads are separate", func(f *fixture) {
		one, two := uuid.New(), uuid.New()
		for n := range 5 {
			f.append(f.a, events(one, n))
			f.append(f.b, events(two, n))
		}
		f.compare("one", f.kept(f.b, one, 0), one, 0, 1, 2, 3, 4)
		f.compare("other thread", f.kept(f.a, two, 0), two, 0, 1, 2, 3, 4)
	}},
	{"data is preserved and copied", func(f *fixture) {
		thread := uuid.New()
		random := rand.New(rand.NewPCG(3, 4))
		var all [][]byte
		for i, size := range []int{0, 1, 1000, 1 << 20, 3<<20 + 7} {
			data := make([]byte, size)
			for i := range data {
				data[i] = byte(random.Uint32())
			}
			e := &ledger.Events{Thread: thread, Run: run, First: uint64(i + 1), Last: uint64(i + 1), Data: data}
			f.append(f.a, e)
			all = append(all, bytes.Clone(data))
			clear(data)
		}
		for range 2 {
			for i, e := range f.kept(f.b, thread, 0) {
				if !bytes.Equal(e.Data, all[i]) {
					f.Errorf("%d bytes of data arrived as %d different bytes", len(all[i]), len(e.Data))
				}
				clear(e.Data)
			}
		}
	}},
	{"live readers see each event once", func(f *fixture) {
		const packs, readers = 400, 20
		thread := uuid.New()
		var wg sync.WaitGroup
		var appended atomic.Int64
		starts := make([]chan struct{}, packs)
		for i := range starts {
			starts[i] = make(chan struct{})
		}
		for i := range readers {
			b := []bus.Bus{f.a, f.b}[i%2]
			wg.Go(func() {
				<-starts[i*packs/readers]
				after := 5 * rand.Uint64N(min(uint64(appended.Load())+1, packs)) // at least one is yet to arrive
				follow(f.T, b, thread, after, packs-int(after/5))
			})
		}
		for n := range packs {
			close(starts[n])
			f.append(f.a, events(thread, n))
			appended.Store(int64(n + 1))
			if n%10 == 0 {
				f.append(f.b, events(thread, n/2)) // a duplicate
			}
		}
		wait(f.T, "last events of a reader", &wg)
	}},
	{"slow reader loses nothing and blocks nothing", func(f *fixture) {
		const packs = 1500 // more than any queue holds
		thread := uuid.New()
		goOn, first := make(chan struct{}), make(chan struct{})
		var slow, fast sync.WaitGroup
		f.append(f.a, events(thread, 0))
		slow.Go(func() {
			n := 0
			for e, err := range f.b.Log().Read(f.Context(), thread, 0, true) {
				if err != nil || !same(e, events(thread, n)) {
					f.Errorf("at %d: %v, %v", n, e, err)
					return
				}
				if n == 0 {
					close(first)
					<-goOn
				}
				n++
				if n == packs {
					return
				}
			}
		})
		receive(f.T, "first event", first)
		fast.Go(func() { follow(f.T, f.b, thread, 0, packs) })
		f.appendMany(f.a, thread, 1, packs)
		wait(f.T, "last event of the fast reader", &fast)
		close(goOn)
		wait(f.T, "last event of the slow reader", &slow)
	}},
	{"a thousand concurrent readers", func(f *fixture) {
		const threads, packs = 1000, 3
		ids := make([]uuid.UUID, threads)
		var wg sync.WaitGroup
		for i := range ids {
			ids[i] = uuid.New()
			wg.Go(func() { follow(f.T, f.b, ids[i], 0, packs) })
		}
		for n := range packs {
			for _, id := range ids {
				f.append(f.a, events(id, n))
			}
		}
		wait(f.T, "last events", &wg)
	}},
	{"drop removes events", func(f *fixture) {
		thread, other := uuid.New(), uuid.New()
		f.appendMany(f.a, thread, 0, 5)
		f.appendMany(f.a, other, 0, 5)
		if err := f.b.Log().Drop(f.Context(), thread); err != nil {
			f.Fatal(err)
		}
		f.compare("thread", f.kept(f.a, thread, 0), thread)
		f.compare("other thread", f.kept(f.a, other, 0), other, 0, 1, 2, 3, 4)
		if err := f.b.Log().Drop(f.Context(), uuid.New()); err != nil {
			f.Errorf("drop a thread without events: %v", err)
		}
		f.appendMany(f.a, thread, 5, 7)
		f.compare("after the drop", f.kept(f.b, thread, 0), thread, 5, 6)
	}},
	{"live reader continues after a drop", func(f *fixture) {
		thread := uuid.New()
		f.appendMany(f.a, thread, 0, 2)
		n := 0
		for e, err := range f.b.Log().Read(f.Context(), thread, 0, true) {
			if err != nil || !same(e, events(thread, n)) {
				f.Fatalf("at %d: %v, %v", n, e, err)
			}
			n++
			if n == 2 {
				if err := f.a.Log().Drop(f.Context(), thread); err != nil {
					f.Fatal(err)
				}
				f.appendMany(f.a, thread, 2, 4)
			}
			if n == 4 {
				break
			}
		}
	}},
	{"live reader ends with its context without an error", func(f *fixture) {
		thread := uuid.New()
		f.append(f.a, events(thread, 0))
		ctx, cancel := context.WithCancel(f.Context())
		defer cancel()
		ended, first := make(chan error, 1), make(chan struct{})
		go func() {
			for _, err := range f.b.Log().Read(ctx, thread, 0, true) {
				if err != nil {
					ended <- err
					return
				}
				close(first)
			}
			ended <- nil
		}()
		receive(f.T, "event", first)
		cancel()
		if err := receive(f.T, "end of the reader", ended); err != nil {
			f.Error(err)
		}
		for e, err := range f.b.Log().Read(ctx, thread, 0, true) {
			if err != nil {
				f.Errorf("with an ended context: %v, %v", e, err)
			}
		}
	}},
	{"calls with an ended context fail", func(f *fixture) {
		thread := uuid.New()
		f.append(f.a, events(thread, 0))
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		var got error
		for _, err := range f.a.Log().Read(ctx, thread, 0, false) {
			got = err
		}
		for call, err := range map[string]error{"Read": got, "Append": f.a.Log().Append(ctx, events(thread, 1)), "Drop": f.a.Log().Drop(ctx, thread)} {
			if !errors.Is(err, context.Canceled) {
				f.Errorf("%s: %v", call, err)
			}
		}
	}},
	{"closed log returns ErrClosed", func(f *fixture) {
		thread := uuid.New()
		f.append(f.a, events(thread, 0))
		first, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			var last error
			for _, err := range f.a.Log().Read(f.Context(), thread, 0, true) {
				last = err
				if err == nil {
					close(first)
				}
			}
			ended <- last
		}()
		receive(f.T, "event", first)
		if err := f.a.Close(); err != nil {
			f.Fatal(err)
		}
		if err := receive(f.T, "end of the reader", ended); !errors.Is(err, bus.ErrClosed) {
			f.Errorf("live Read: %v", err)
		}
		for _, live := range []bool{false, true} {
			var got error
			for _, err := range f.a.Log().Read(f.Context(), thread, 0, live) {
				got = err
			}
			if !errors.Is(got, bus.ErrClosed) {
				f.Errorf("Read, live %t: %v", live, got)
			}
		}
		if err := f.a.Log().Append(f.Context(), events(thread, 1)); !errors.Is(err, bus.ErrClosed) {
			f.Errorf("Append: %v", err)
		}
		if err := f.a.Log().Drop(f.Context(), thread); !errors.Is(err, bus.ErrClosed) {
			f.Errorf("Drop: %v", err)
		}
	}},
}

func (f *fixture) follow(b bus.Bus, thread uuid.UUID, after uint64, n int) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), opTimeout)
	defer cancel()
	if err := followed(ctx, b, thread, after, n, nil); err != nil {
		f.Error(err)
	}
}
