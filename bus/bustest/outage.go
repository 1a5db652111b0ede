package bustest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
)

// atOnce is how long a call may take while there is no connection.
const atOnce = 6 * time.Second

// settle is how long a reader takes to come to rest. A test is weaker, and does not fail, if it takes longer.
const settle = 100 * time.Millisecond

// Outage tests that a bus survives the loss of its connection: calls return, and listeners and live readers go on by themselves
// when it is back. far is the bus of another process, with which cut and heal may interfere too. It may be called again with
// the same buses.
func Outage(t *testing.T, near, far bus.Bus, cut, heal func()) {
	t.Helper()
	f := &fixture{t, near, far}
	ch := f.listen(near, "outage")
	f.reach(far, "outage", ch)
	thread := uuid.New()
	const packs = 60
	var readers sync.WaitGroup
	progress := make(chan int, packs)
	if near.Log() != nil {
		f.insist(thread, 0, 20)
		readers.Go(func() {
			if err := followed(t.Context(), near, thread, 0, packs, progress); err != nil {
				t.Error(err)
			}
		})
		f.until(progress, 20)
		// A reader that has come to the end of what is kept waits for more, which is another thing to interrupt than reading.
		<-time.After(settle)
		f.insist(thread, 20, 21)
		f.until(progress, 21)
		<-time.After(settle)
	}
	cut()
	for range 3 {
		began := time.Now()
		_ = near.Signal(t.Context(), "outage", nil) // lost or an error
		if near.Log() != nil {
			_ = near.Log().Append(t.Context(), events(uuid.New(), 0))
		}
		if took := time.Since(began); took > atOnce {
			t.Errorf("without a connection calls took %v", took)
		}
	}
	var appends sync.WaitGroup
	if near.Log() != nil {
		readers.Go(func() { follow(t, near, thread, 50, packs-10) }) // begins in the outage
		appends.Go(func() { f.insist(thread, 21, 40) })
	}
	during := make(chan struct{})
	go func() {
		appends.Wait()
		close(during)
	}()
	select {
	case <-during: // the far side is not affected
	case <-time.After(time.Second):
	}
	heal()
	receive(t, "an append", during)
	if near.Log() != nil {
		// What was appended meanwhile comes even if nothing is appended any more.
		f.until(progress, 40)
		f.insist(thread, 40, packs)
	}
	f.reach(far, "outage", ch)
	f.reach(near, "outage", ch)
	wait(t, "the last event after an outage", &readers)
}

// until waits until a reader has got n packs.
func (f *fixture) until(progress <-chan int, n int) {
	f.Helper()
	for receive(f.T, fmt.Sprintf("pack %d", n), progress) < n {
	}
}

// reach signals until a listener of a topic hears it.
func (f *fixture) reach(from bus.Bus, topic string, ch <-chan string) {
	f.Helper()
	mark := uuid.NewString()
	until := time.Now().Add(patience)
	for {
		err := from.Signal(f.Context(), topic, []byte(mark))
		pause := time.After(20 * time.Millisecond)
		for waiting := true; waiting; {
			select {
			case got := <-ch:
				if got == mark {
					return
				}
			case <-pause:
				waiting = false
			}
		}
		if time.Now().After(until) {
			f.Fatalf("no signal comes through; the last call: %v", err)
		}
	}
}

// insist appends events from the far side, again and again if there are errors.
func (f *fixture) insist(thread uuid.UUID, from, to int) {
	until := time.Now().Add(patience)
	for n := from; n < to; n++ {
		for {
			ctx, cancel := context.WithTimeout(f.Context(), patience)
			err := f.b.Log().Append(ctx, events(thread, n))
			cancel()
			if err == nil {
				break
			}
			if time.Now().After(until) {
				f.Errorf("append %d: %v", n, err)
				return
			}
			<-time.After(20 * time.Millisecond)
		}
	}
}
