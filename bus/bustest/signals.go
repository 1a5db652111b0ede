package bustest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadle-go/treadle/bus"
)

var signals = []test{
	{"every listener in every process gets the signals in the order of their sender", func(f *fixture) {
		var all []<-chan string
		for range 3 {
			all = append(all, f.listen(f.a, "topic"), f.listen(f.b, "topic"))
		}
		for i := range 100 {
			f.signal(f.a, "topic", fmt.Sprint(i))
		}
		for i, ch := range all {
			for n := range 100 {
				if got := receive(f.T, "a signal", ch); got != fmt.Sprint(n) {
					f.Fatalf("signal %d of listener %d is %q", n, i, got)
				}
			}
		}
	}},
	{"payloads keep their bytes", func(f *fixture) {
		ch := f.listen(f.b, "topic")
		random := rand.New(rand.NewPCG(1, 2))
		for _, size := range []int{0, 1, 2, 3, 100, 1000, 4095, 4096} {
			payload := make([]byte, size)
			for i := range payload {
				payload[i] = byte(random.Uint32())
			}
			f.signal(f.a, "topic", string(payload))
			if got := receive(f.T, "a signal", ch); got != string(payload) {
				f.Errorf("a payload of %d bytes came as %d others", size, len(got))
			}
		}
	}},
	{"topics are any strings and match only themselves", func(f *fixture) {
		topics := []string{
			"", "a", "A", "a.b", "a.*", "*", ">", "a.>", "a b", " ", "\n", "a\x00b", "\xff\xfe", "ü", "u\u0308", "日本", "'; DROP TABLE run; --",
			"cancel/1", "cancel/10", "%", "_", "\"", strings.Repeat("x", 1000), strings.Repeat("x", 1001),
		}
		channels := make([]<-chan string, len(topics))
		for i, topic := range topics {
			channels[i] = f.listen(f.b, topic)
		}
		for _, topic := range topics {
			f.signal(f.a, topic, "for "+topic)
		}
		for i, topic := range topics {
			if got := receive(f.T, fmt.Sprintf("the signal of topic %q", topic), channels[i]); got != "for "+topic {
				f.Errorf("topic %q got %q", topic, got)
			}
		}
		for i, topic := range topics {
			if len(channels[i]) > 0 {
				f.Errorf("topic %q got more: %q", topic, <-channels[i])
			}
		}
	}},
	{"a listener is called one at a time", func(f *fixture) {
		var busy, calls atomic.Int32
		done := make(chan struct{})
		stop, err := f.b.Listen("topic", func([]byte) {
			if busy.Add(1) != 1 {
				f.Error("two calls at a time")
			}
			busy.Add(-1)
			if calls.Add(1) == 80 {
				close(done)
			}
		})
		if err != nil {
			f.Fatal(err)
		}
		defer stop()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := range 10 {
					if err := f.a.Signal(f.Context(), "topic", fmt.Appendf(nil, "%d %d", i, n)); err != nil {
						f.Error(err)
					}
				}
			})
		}
		wg.Wait()
		// Signals may be lost, so send more until enough have arrived.
		for late := time.After(patience); ; {
			select {
			case <-done:
				return
			case <-late:
				f.Fatalf("%d of 80 calls came", calls.Load())
			case <-time.After(50 * time.Millisecond):
				f.signal(f.a, "topic", "again")
			}
		}
	}},
	{"no call begins after stop", func(f *fixture) {
		var calls atomic.Int32
		got := make(chan struct{}, 100)
		stop, err := f.b.Listen("topic", func([]byte) { calls.Add(1); got <- struct{}{} })
		if err != nil {
			f.Fatal(err)
		}
		other := f.listen(f.b, "topic")
		f.signal(f.a, "topic", "1")
		receive(f.T, "a call", got)
		receive(f.T, "a signal", other)
		stop()
		stop() // no effect
		for _, payload := range []string{"2", "3", "4"} {
			f.signal(f.a, "topic", payload)
			if got := receive(f.T, "a signal to a listener that goes on", other); got != payload {
				f.Fatalf("it is %q", got)
			}
		}
		if n := calls.Load(); n != 1 {
			f.Errorf("there were %d calls, want the one before stop", n)
		}
	}},
	{"of the signals that wait at a stop at most one call has begun", func(f *fixture) {
		var calls atomic.Int32
		begun, goOn := make(chan struct{}), make(chan struct{})
		stop, err := f.b.Listen("topic", func([]byte) {
			if calls.Add(1) == 1 {
				close(begun)
				<-goOn
			}
		})
		if err != nil {
			f.Fatal(err)
		}
		other := f.listen(f.b, "topic")
		for i := range 10 {
			f.signal(f.a, "topic", fmt.Sprint(i))
			receive(f.T, "a signal", other)
		}
		receive(f.T, "a call", begun)
		stop()
		close(goOn)
		f.signal(f.a, "topic", "last")
		receive(f.T, "a signal", other)
		if n := calls.Load(); n != 1 {
			f.Errorf("there were %d calls, want the one that had begun", n)
		}
	}},
	{"a listener may stop itself", func(f *fixture) {
		var calls atomic.Int32
		var stop func()
		called, stopped := make(chan struct{}), make(chan struct{})
		stop, err := f.b.Listen("topic", func([]byte) {
			calls.Add(1)
			<-called // stop is set
			stop()
			close(stopped)
		})
		if err != nil {
			f.Fatal(err)
		}
		close(called)
		other := f.listen(f.b, "topic")
		f.signal(f.a, "topic", "1")
		receive(f.T, "the call", stopped)
		receive(f.T, "a signal", other)
		f.signal(f.a, "topic", "2")
		receive(f.T, "a signal", other)
		if n := calls.Load(); n != 1 {
			f.Errorf("there were %d calls", n)
		}
	}},
	{"a slow listener holds nobody up", func(f *fixture) {
		goOn := make(chan struct{})
		stop, err := f.b.Listen("topic", func([]byte) { <-goOn })
		if err != nil {
			f.Fatal(err)
		}
		defer stop()
		defer close(goOn)
		same, other := f.listen(f.b, "topic"), f.listen(f.b, "other")
		for i := range 1000 { // more than any queue holds
			f.signal(f.a, "topic", fmt.Sprint(i))
			receive(f.T, "a signal of the same topic", same)
		}
		f.signal(f.a, "other", "")
		receive(f.T, "a signal of another topic", other)
	}},
	{"listeners come and go while signals are sent", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		var senders, listeners sync.WaitGroup
		for i := range 2 {
			senders.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					if err := f.a.Signal(ctx, "topic", fmt.Appendf(nil, "%d %d", i, n)); err != nil && ctx.Err() == nil {
						f.Error(err)
						return
					}
				}
			})
		}
		for range 4 {
			listeners.Go(func() {
				for range 5 {
					called := make(chan struct{}, 1)
					stop, err := f.b.Listen("topic", func([]byte) {
						select {
						case called <- struct{}{}:
						default:
						}
					})
					if err != nil {
						f.Error(err)
						return
					}
					<-called
					stop()
				}
			})
		}
		wait(f.T, "the end of the listeners", &listeners)
		cancel()
		wait(f.T, "the end of the senders", &senders)
	}},
	{"a signal with a context that has ended is an error", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		if err := f.a.Signal(ctx, "topic", nil); !errors.Is(err, context.Canceled) {
			f.Errorf("the error is %v", err)
		}
	}},
	{"a bus that was closed says so", func(f *fixture) {
		stop, err := f.a.Listen("topic", func([]byte) {})
		if err != nil {
			f.Fatal(err)
		}
		for range 2 {
			if err := f.a.Close(); err != nil {
				f.Fatal(err)
			}
		}
		stop()
		if err := f.a.Signal(f.Context(), "topic", nil); !errors.Is(err, bus.ErrClosed) {
			f.Errorf("Signal: %v", err)
		}
		if _, err := f.a.Listen("topic", func([]byte) {}); !errors.Is(err, bus.ErrClosed) {
			f.Errorf("Listen: %v", err)
		}
	}},
}
