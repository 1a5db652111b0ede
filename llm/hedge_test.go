package llm_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle/llm"
)

// slow is a model that responds after a wait, and counts its requests and how many
// were canceled.
type slow struct {
	wait               time.Duration
	text               string
	err                error
	requests, canceled atomic.Int64
}

func (s *slow) model() llm.Model {
	return modelFunc(func(ctx context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		s.requests.Add(1)
		select {
		case <-time.After(s.wait):
		case <-ctx.Done():
			s.canceled.Add(1)
			yield(llm.Chunk{}, context.Cause(ctx))
			return
		}
		if s.err != nil {
			yield(llm.Chunk{}, s.err)
			return
		}
		_ = yield(llm.Chunk{Content: s.text + " "}, nil) && yield(llm.Chunk{Content: "end", Stop: llm.StopEnd, Usage: &llm.Usage{Total: 10}}, nil)
	})
}

func TestHedgeUsesFirstResponse(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second      *slow
		want               string
		took               time.Duration
		requests, canceled int64
	}{
		"fast":          {&slow{wait: time.Second, text: "a"}, &slow{text: "b"}, "a end", time.Second, 0, 0},
		"second wins":   {&slow{wait: time.Minute, text: "a"}, &slow{wait: time.Second, text: "b"}, "b end", 3 * time.Second, 1, 1},
		"first wins":    {&slow{wait: 3 * time.Second, text: "a"}, &slow{wait: time.Minute, text: "b"}, "a end", 3 * time.Second, 1, 1},
		"first fails":   {&slow{wait: 3 * time.Second, err: busy}, &slow{wait: 4 * time.Second, text: "b"}, "b end", 6 * time.Second, 1, 0},
		"fails at once": {&slow{err: busy}, &slow{text: "b"}, "", 0, 0, 0},
		"both fail":     {&slow{wait: 3 * time.Second, err: busy}, &slow{wait: time.Minute, err: denied}, "", 62 * time.Second, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := llm.Hedge(tt.first.model(), &llm.HedgeOptions{After: 2 * time.Second, Model: tt.second.model()})
				start := time.Now()
				m, err := llm.Generate(t.Context(), model, llm.User("hi"))
				if m.Text() != tt.want || (err != nil) != (tt.want == "") || time.Since(start) != tt.took {
					t.Errorf("%q, %v after %v; want %q after %v", m.Text(), err, time.Since(start), tt.want, tt.took)
				}
				if err != nil && !errors.Is(err, busy) {
					t.Errorf("err = %v, want the first error too", err)
				}
				if err == nil && m.Usage.Total != 10 {
					t.Errorf("usage of %d tokens, want that of one request", m.Usage.Total)
				}
				if got := tt.first.canceled.Load() + tt.second.canceled.Load(); tt.second.requests.Load() != tt.requests || got != tt.canceled {
					t.Errorf("%d second requests, %d canceled; want %d, %d", tt.second.requests.Load(), got, tt.requests, tt.canceled)
				}
			})
		})
	}
}

func TestHedgeLearnsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{text: "a"}
		model := llm.Hedge(s.model(), nil)
		for i := range 40 {
			s.wait = time.Duration(i+1) * time.Millisecond
			if _, err := llm.Generate(t.Context(), model, llm.User("hi")); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.requests.Load(); n < 40 || n > 60 {
			t.Errorf("%d requests for 40 calls", n)
		}
		before := s.requests.Load()
		s.wait = time.Hour
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := llm.Generate(ctx, model, llm.User("hi")); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("err = %v after %v", err, time.Since(start))
		}
		if n := s.requests.Load(); n != before+2 || s.canceled.Load() < 2 {
			t.Errorf("a slow call made %d requests, %d were canceled", n-before, s.canceled.Load())
		}
	})
}

func TestHedgeReportsLateCancellation(t *testing.T) {
	// The outcome must not depend on which case of a select is chosen.
	for range 50 {
		ctx, cancel := context.WithCancelCause(t.Context())
		t.Cleanup(func() { cancel(nil) })
		model := modelFunc(func(ctx context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
			if yield(llm.Chunk{Content: "half"}, nil) {
				<-ctx.Done()
				yield(llm.Chunk{}, context.Cause(ctx))
			}
		})
		stop := errors.New("stop")
		var got error
		for _, err := range llm.Hedge(model, nil).Stream(ctx, &llm.Request{}) {
			cancel(stop)
			got = err
		}
		if !errors.Is(got, stop) {
			t.Fatalf("err = %v, want the cause of the cancellation", got)
		}
	}
}

func TestHedgeReportsPanic(t *testing.T) {
	model := modelFunc(func(context.Context, *llm.Request, func(llm.Chunk, error) bool) { panic("broken") })
	if _, err := llm.Generate(t.Context(), llm.Hedge(model, nil), llm.User("hi")); err == nil || !strings.Contains(err.Error(), "llm: model: panic: broken") {
		t.Errorf("err = %v, want the panic", err)
	}
}

func ExampleHedge() {
	fast := modelFunc(func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Content: "Hello.", Stop: llm.StopEnd}, nil)
	})
	stuck := modelFunc(func(ctx context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		<-ctx.Done()
		yield(llm.Chunk{}, ctx.Err())
	})
	m, err := llm.Generate(context.Background(), llm.Hedge(stuck, &llm.HedgeOptions{After: time.Millisecond, Model: fast}), llm.User("Hi"))
	fmt.Println(m.Text(), err)
	// Output: Hello. <nil>
}
