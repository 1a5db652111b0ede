// Package bustest tests implementations of [bus.Bus]. A bus that passes [Run], and [Outage] if
// it uses connections, works with a server.
package bustest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/ledger"
)

// Run tests a bus. It calls open once per test. open returns the connected buses of n processes
// and closes them with t.Cleanup. Run tests the log only if the buses have one.
func Run(t *testing.T, open func(t *testing.T, n int) []bus.Bus) {
	t.Helper()
	for _, test := range signals {
		t.Run(test.name, func(t *testing.T) { test.run(newFixture(t, open)) })
	}
	if open(t, 1)[0].Log() == nil {
		return
	}
	for _, test := range logs {
		t.Run(test.name, func(t *testing.T) { test.run(newFixture(t, open)) })
	}
}

type test struct {
	name string
	run  func(*fixture)
}

// fixture is a test with the buses of two processes.
type fixture struct {
	*testing.T
	a, b bus.Bus
}

func newFixture(t *testing.T, open func(t *testing.T, n int) []bus.Bus) *fixture {
	both := open(t, 2)
	return &fixture{t, both[0], both[1]}
}

// opTimeout is the timeout for any operation, generous enough for a busy machine.
const opTimeout = 30 * time.Second

// receive returns the next value from a channel.
func receive[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(opTimeout):
		t.Fatalf("%s did not arrive within %v", what, opTimeout)
		panic("unreachable")
	}
}

// listen returns a channel that receives the payloads of a topic.
func (f *fixture) listen(b bus.Bus, topic string) <-chan string {
	f.Helper()
	ch := make(chan string, 10000)
	stop, err := b.Listen(topic, func(payload []byte) { ch <- string(payload) })
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(stop)
	f.settle()
	return ch
}

// settle waits until each bus delivers signals to the other. In a cluster, a server learns of
// another server's subscriptions slightly after Listen has returned. It learns of them in
// order, so a signal to a new topic proves that all earlier subscriptions are known.
func (f *fixture) settle() {
	f.Helper()
	for _, pair := range [][2]bus.Bus{{f.a, f.b}, {f.b, f.a}} {
		topic, heard := uuid.NewString(), make(chan string, 10000)
		stop, err := pair[1].Listen(topic, func(payload []byte) { heard <- string(payload) })
		if err != nil {
			f.Fatal(err)
		}
		f.reach(pair[0], topic, heard)
		stop()
	}
}

func (f *fixture) signal(b bus.Bus, topic, payload string) {
	f.Helper()
	if err := b.Signal(f.Context(), topic, []byte(payload)); err != nil {
		f.Fatal(err)
	}
}

// events returns the n-th pack of events of a thread: five events with consecutive numbers.
func events(thread uuid.UUID, n int) *ledger.Events {
	first := uint64(5*n + 1)
	return &ledger.Events{Thread: thread, Run: run, First: first, Last: first + 4, Data: fmt.Appendf(nil, "events %d\x00\xff", n)}
}

var run, otherRun = uuid.New(), uuid.New()

// append appends e. A bus that waits for its servers for a limited time may time out on a busy
// machine; appending the same events again is then safe.
func (f *fixture) append(b bus.Bus, e *ledger.Events) {
	f.Helper()
	for began := time.Now(); ; {
		err := b.Log().Append(f.Context(), e)
		if err == nil {
			return
		}
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > opTimeout {
			f.Fatal(err)
		}
	}
}

// appendMany appends the packs with numbers from (inclusive) to to (exclusive).
func (f *fixture) appendMany(b bus.Bus, thread uuid.UUID, from, to int) {
	f.Helper()
	for n := from; n < to; n++ {
		f.append(b, events(thread, n))
	}
}

// kept returns the events that the log currently stores.
func (f *fixture) kept(b bus.Bus, thread uuid.UUID, after uint64) (all []*ledger.Events) {
	f.Helper()
	for e, err := range b.Log().Read(f.Context(), thread, after, false) {
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// wait waits for goroutines, and fails the test after a timeout.
func wait(t *testing.T, what string, wg *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	receive(t, what, done)
}
