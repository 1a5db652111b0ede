package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
)

// Calls that are short share goroutines, and those that block must not hold up others.
func TestTasksOfNodeRunConcurrently(t *testing.T) {
	const n = 50
	var all sync.WaitGroup
	all.Add(n)
	meet := treadle.NewTask("meet", func(ctx context.Context, i int) (int, error) {
		all.Done()
		all.Wait() // for all others
		return i, nil
	})
	g := single(t, func(ctx context.Context, _ diary) (page, error) {
		var futures []*treadle.Future[int]
		for i := range n {
			futures = append(futures, meet.Go(ctx, i))
		}
		for i, f := range futures {
			if got, err := f.Wait(); got != i || err != nil {
				return page{}, fmt.Errorf("call %d returned %d: %w", i, got, err)
			}
		}
		return did("met"), nil
	})
	if _, err := g.Run(t.Context(), diary{}); err != nil {
		t.Error(err)
	}
}

func TestTaskGoexitDoesNotStopOthers(t *testing.T) {
	const n = 20
	leave := treadle.NewTask("leave", func(ctx context.Context, i int) (int, error) {
		if i%2 == 0 {
			runtime.Goexit()
		}
		return i, nil
	})
	g := single(t, func(ctx context.Context, _ diary) (page, error) {
		var futures []*treadle.Future[int]
		for i := range n {
			futures = append(futures, leave.Go(ctx, i))
		}
		for i, f := range futures {
			got, err := f.Wait()
			switch {
			case i%2 == 0 && (err == nil || !strings.Contains(err.Error(), "runtime.Goexit")):
				return page{}, fmt.Errorf("call %d ended its goroutine, and its error is %w", i, err)
			case i%2 == 1 && (got != i || err != nil):
				return page{}, fmt.Errorf("call %d returned %d: %w", i, got, err)
			}
		}
		return did("left"), nil
	})
	if _, err := g.Run(t.Context(), diary{}); err != nil && !strings.Contains(err.Error(), "runtime.Goexit") {
		t.Error(err)
	}
}

func TestRetryReplaysTasksWithoutSaver(t *testing.T) {
	var calls tally
	look := treadle.NewTask("look", func(context.Context, string) ([]string, error) {
		return []string{fmt.Sprint(calls.note("look"))}, nil
	})
	g := single(t, func(ctx context.Context, _ diary) (page, error) {
		got, err := look.Run(ctx, "x")
		if err != nil {
			return page{}, err
		}
		text := got[0]
		got[0] = "changed" // its own copy
		if calls.note("node") < 3 {
			return page{}, errors.New("again")
		}
		return did(text), nil
	}, treadle.Retry(treadle.RetryPolicy{Attempts: 5, Initial: time.Nanosecond, NoJitter: true, On: func(error) bool { return true }}))
	out, err := g.Run(t.Context(), diary{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(out); calls.counts["look"] != 1 || calls.counts["node"] != 3 || !strings.Contains(got, "1") {
		t.Errorf("after %d attempts the task ran %d times, and the state is %s", calls.counts["node"], calls.counts["look"], got)
	}
}
