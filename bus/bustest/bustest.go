// Package bustest defines [bus.Bus] by tests: a bus that passes [Run], and [Outage] if it has connections, can be used by a server.
package bustest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/ledger"
)

// Run tests a bus. open returns buses that are connected with each other, as those of n processes are, and closes them with
// t.Cleanup. It is called once per test. The tests of the log are run if the buses have one.
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

// fixture has the buses of two processes.
type fixture struct {
	*testing.T
	a, b bus.Bus
}

func newFixture(t *testing.T, open func(t *testing.T, n int) []bus.Bus) *fixture {
	both := open(t, 2)
	return &fixture{t, both[0], both[1]}
}

// patience is how long anything may take on a machine with other things to do.
const patience = 30 * time.Second

// receive is the next value of a channel.
func receive[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come within %v", what, patience)
		panic("unreachable")
	}
}

// listen returns a channel with the payloads of a topic.
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

// settle waits until each bus sends what the other one listens to. In a cluster, a server learns from another one what is listened
// to there, a little after Listen has returned there. It learns it in order, so one topic that is heard stands for those before.
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

// events are the n-th ones of a thread: five, with numbers that go on.
func events(thread uuid.UUID, n int) *ledger.Events {
	first := uint64(5*n + 1)
	return &ledger.Events{Thread: thread, Run: run, First: first, Last: first + 4, Data: fmt.Appendf(nil, "events %d\x00\xff", n)}
}

var run, otherRun = uuid.New(), uuid.New()

func (f *fixture) append(b bus.Bus, e *ledger.Events) {
	f.Helper()
	if err := b.Log().Append(f.Context(), e); err != nil {
		f.Fatal(err)
	}
}

// appendMany appends the events from and up to a number.
func (f *fixture) appendMany(b bus.Bus, thread uuid.UUID, from, to int) {
	f.Helper()
	for n := from; n < to; n++ {
		f.append(b, events(thread, n))
	}
}

// kept are the events that a log has now.
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

// wait waits for goroutines.
func wait(t *testing.T, what string, wg *sync.WaitGroup) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	receive(t, what, done)
}
