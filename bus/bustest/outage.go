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

// maxOffline is the maximum duration of a call without a connection.
const maxOffline = 6 * time.Second

// settleTime is the time that a reader needs to become idle. If it takes longer, the test is weaker
// but does not fail.
const settleTime = 100 * time.Millisecond

// Outage tests that a bus survives the loss of its connection: calls return, and listeners and
// live readers resume by themselves after the connection is restored. far is the bus of another
// process, which cut and heal may also affect. Outage may be called repeatedly with the same
// buses.
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
		// A reader that has read all stored events waits for more. Interrupting a waiting
		// reader differs from interrupting a reading one.
		<-time.After(settleTime)
		f.insist(thread, 20, 21)
		f.until(progress, 21)
		<-time.After(settleTime)
	}
	cut()
	for range 3 {
		began := time.Now()
		_ = near.Signal(t.Context(), "outage", nil) // lost or failed
		if near.Log() != nil {
			_ = near.Log().Append(t.Context(), events(uuid.New(), 0))
		}
		if took := time.Since(began); took > maxOffline {
			t.Errorf("calls without a connection took %v", took)
		}
	}
	var appends sync.WaitGroup
	if near.Log() != nil {
		readers.Go(func() { follow(t, near, thread, 50, packs-10) }) // starts during the outage
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
	receive(t, "append", during)
	if near.Log() != nil {
		// Events appended during the outage must arrive even if no more are appended.
		f.until(progress, 40)
		f.insist(thread, 40, packs)
	}
	f.reach(far, "outage", ch)
	f.reach(near, "outage", ch)
	wait(t, "last event after an outage", &readers)
}

// until waits until a reader has received n packs.
func (f *fixture) until(progress <-chan int, n int) {
	f.Helper()
	for receive(f.T, fmt.Sprintf("pack %d", n), progress) < n {
	}
}

// reach sends signals until a listener of the topic receives one.
func (f *fixture) reach(from bus.Bus, topic string, ch <-chan string) {
	f.Helper()
	mark := uuid.NewString()
	until := time.Now().Add(opTimeout)
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
			f.Fatalf("no signal arrived; last call: %v", err)
		}
	}
}

// insist appends events on the far side, retrying after errors.
func (f *fixture) insist(thread uuid.UUID, from, to int) {
	until := time.Now().Add(opTimeout)
	for n := from; n < to; n++ {
		for {
			ctx, cancel := context.WithTimeout(f.Context(), opTimeout)
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
