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
	{"all listeners receive signals in sending order", func(f *fixture) {
		var all []<-chan string
		for range 3 {
			all = append(all, f.listen(f.a, "topic"), f.listen(f.b, "topic"))
		}
		for i := range 100 {
			f.signal(f.a, "topic", fmt.Sprint(i))
		}
		for i, ch := range all {
			for n := range 100 {
				if got := receive(f.T, "signal", ch); got != fmt.Sprint(n) {
					f.Fatalf("signal %d of listener %d: got %q", n, i, got)
				}
			}
		}
	}},
	{"payloads are preserved", func(f *fixture) {
		ch := f.listen(f.b, "topic")
		random := rand.New(rand.NewPCG(1, 2))
		for _, size := range []int{0, 1, 2, 3, 100, 1000, 4095, 4096} {
			payload := make([]byte, size)
			for i := range payload {
				payload[i] = byte(random.Uint32())
			}
			f.signal(f.a, "topic", string(payload))
			if got := receive(f.T, "signal", ch); got != string(payload) {
				f.Errorf("payload of %d bytes arrived as %d different bytes", size, len(got))
			}
		}
	}},
	{"topics are arbitrary strings and match exactly", func(f *fixture) {
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
			if got := receive(f.T, fmt.Sprintf("signal of topic %q", topic), channels[i]); got != "for "+topic {
				f.Errorf("topic %q got %q", topic, got)
			}
		}
		for i, topic := range topics {
			if len(channels[i]) > 0 {
				f.Errorf("topic %q got another signal: %q", topic, <-channels[i])
			}
		}
	}},
	{"calls of a listener do not overlap", func(f *fixture) {
		var busy, calls atomic.Int32
		done := make(chan struct{})
		stop, err := f.b.Listen("topic", func([]byte) {
			if busy.Add(1) != 1 {
				f.Error("overlapping calls")
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
		for late := time.After(opTimeout); ; {
			select {
			case <-done:
				return
			case <-late:
				f.Fatalf("got %d of 80 calls", calls.Load())
			case <-time.After(50 * time.Millisecond):
				f.signal(f.a, "topic", "again")
			}
		}
	}},
	{"no call starts after stop", func(f *fixture) {
		var calls atomic.Int32
		got := make(chan struct{}, 100)
		stop, err := f.b.Listen("topic", func([]byte) { calls.Add(1); got <- struct{}{} })
		if err != nil {
			f.Fatal(err)
		}
		other := f.listen(f.b, "topic")
		f.signal(f.a, "topic", "1")
		receive(f.T, "call", got)
		receive(f.T, "signal", other)
		stop()
		stop() // no effect
		for _, payload := range []string{"2", "3", "4"} {
			f.signal(f.a, "topic", payload)
			if got := receive(f.T, "signal to the remaining listener", other); got != payload {
				f.Fatalf("got %q", got)
			}
		}
		if n := calls.Load(); n != 1 {
			f.Errorf("got %d calls, want the one before stop", n)
		}
	}},
	{"stop discards queued signals", func(f *fixture) {
		var calls atomic.Int32
		started, goOn := make(chan struct{}), make(chan struct{})
		stop, err := f.b.Listen("topic", func([]byte) {
			if calls.Add(1) == 1 {
				close(started)
				<-goOn
			}
		})
		if err != nil {
			f.Fatal(err)
		}
		other := f.listen(f.b, "topic")
		for i := range 10 {
			f.signal(f.a, "topic", fmt.Sprint(i))
			receive(f.T, "signal", other)
		}
		receive(f.T, "call", started)
		stop()
		close(goOn)
		f.signal(f.a, "topic", "last")
		receive(f.T, "signal", other)
		if n := calls.Load(); n != 1 {
			f.Errorf("got %d calls, want the one that had started", n)
		}
	}},
	{"listener may stop itself", func(f *fixture) {
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
		receive(f.T, "call", stopped)
		receive(f.T, "signal", other)
		f.signal(f.a, "topic", "2")
		receive(f.T, "signal", other)
		if n := calls.Load(); n != 1 {
			f.Errorf("got %d calls", n)
		}
	}},
	{"slow listener does not block others", func(f *fixture) {
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
			receive(f.T, "signal of the same topic", same)
		}
		f.signal(f.a, "other", "")
		receive(f.T, "signal of another topic", other)
	}},
	{"listeners start and stop during signals", func(f *fixture) {
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
		wait(f.T, "end of the listeners", &listeners)
		cancel()
		wait(f.T, "end of the senders", &senders)
	}},
	{"signal with an ended context fails", func(f *fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		if err := f.a.Signal(ctx, "topic", nil); !errors.Is(err, context.Canceled) {
			f.Errorf("got error %v", err)
		}
	}},
	{"closed bus returns ErrClosed", func(f *fixture) {
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
