package threadtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

func functionalCache(t *testing.T, open opener) {
	saver, cache, c := open(t), checkpoint.NewMemoryCache(), &askTally{}
	double := func(_ context.Context, n int) (string, error) {
		c.add(fmt.Sprint("double ", n))
		if n < 0 {
			return "", errors.New("negative")
		}
		return fmt.Sprint(n, n), nil
	}
	build := func() *treadle.Graph[int, string] {
		task := treadle.NewTask("double", double, treadle.Cache(0))
		last := treadle.NewTask("digit", func(_ context.Context, n int) (int, error) { c.add("digit"); return n % 10, nil },
			treadle.CacheBy(0, func(n int) string { return fmt.Sprint(n % 10) }))
		return treadle.Must(treadle.NewWorkflow("flow", func(ctx context.Context, n int) (string, error) {
			s, err := task.Run(ctx, n)
			if err != nil {
				return "", err
			}
			d, err := last.Run(ctx, n)
			if err != nil {
				return "", err
			}
			a, err := treadle.Interrupt[string](ctx, "q")
			return fmt.Sprint(s, " ", d, a), err
		}, &treadle.Options{Saver: saver, Cache: cache}))
	}
	turn := func(thread string, n int, want string) {
		t.Helper()
		_, err := build().Thread(thread).Run(t.Context(), n)
		askedStrings(t, err, "q")
		out, err := build().Thread(thread).Resume(t.Context(), "!")
		gave(t, out, err, want)
	}
	turn("t", 5, "5 5 5!")
	c.want(t, "double 5", "digit")
	turn("u", 5, "5 5 5!") // on another thread
	c.want(t)
	turn("u", 15, "15 15 5!") // the other task uses its own key
	c.want(t, "double 15")
	for range 2 { // a failure is not cached
		if _, err := build().Thread("v").Run(t.Context(), -1); err == nil || !strings.Contains(err.Error(), "negative") {
			t.Errorf("%v, want the task's failure", err)
		}
		c.want(t, "double -1")
	}
	var cached []bool
	for ev, err := range build().Thread("w").Stream(t.Context(), 5) {
		if err != nil {
			askedStrings(t, err, "q")
		} else if u, ok := ev.(treadle.Updated); ok {
			cached = append(cached, u.Cached)
		}
	}
	if !slices.Equal(cached, []bool{true, true}) {
		t.Errorf("answered by the cache: %v, want both", cached)
	}
	if err := cache.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	turn("x", 5, "5 5 5!")
	c.want(t, "double 5", "digit")
}

// functionalRetry runs on memory, like the next test: a fake clock does not work with a
// database, whose connections have deadlines by the real clock.
func functionalRetry(t *testing.T, _ opener) {
	errFlaky := errors.New("flaky")
	retry := treadle.Retry(treadle.RetryPolicy{Initial: time.Second, NoJitter: true, Attempts: 3, On: func(err error) bool { return errors.Is(err, errFlaky) }})
	build := workflow(func(c *askTally, ctx context.Context, fail int) (string, error) {
		task := treadle.NewTask("task", func(ctx context.Context, _ int) (string, error) {
			attempt := treadle.InfoFrom(ctx).Attempt
			c.add(fmt.Sprint("attempt ", attempt))
			inner, err := treadle.Do(ctx, "inner", func(context.Context) (string, error) { c.add("inner"); return "i", nil })
			if err != nil {
				return "", err
			}
			if attempt <= fail {
				return "", errFlaky
			}
			return inner + fmt.Sprint(attempt), nil
		}, retry)
		return task.Run(ctx, 0)
	})
	for _, c := range []struct {
		fail int
		want string
		ran  []string
	}{
		{0, "i1", []string{"attempt 1", "inner"}},
		{2, "i3", []string{"attempt 1", "attempt 2", "attempt 3", "inner"}},
		{3, "", []string{"attempt 1", "attempt 2", "attempt 3", "inner"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			rig := &askRig[int, string]{t: t, saver: checkpoint.NewMemory(), tally: &askTally{}, build: build}
			start := time.Now()
			out, err := rig.thread().Run(t.Context(), c.fail)
			if c.want == "" {
				failed, ok := errors.AsType[*treadle.NodeError](err)
				if !ok || !errors.Is(err, errFlaky) || failed.Node != "flow" {
					t.Errorf("%v, want the failure", err)
				}
			} else {
				gave(t, out, err, c.want)
			}
			rig.tally.want(t, c.ran...)
			if waited := time.Since(start).Truncate(time.Second); waited != []time.Duration{0, time.Second, 3 * time.Second, 3 * time.Second}[c.fail] {
				t.Errorf("waited %v", waited)
			}
		})
	}
}

func functionalTimeout(t *testing.T, _ opener) {
	build := workflow(func(c *askTally, ctx context.Context, _ int) (string, error) {
		slow := treadle.NewTask("slow", func(ctx context.Context, _ int) (string, error) {
			c.add("slow")
			<-ctx.Done()
			return "", ctx.Err()
		}, treadle.Timeout(time.Minute), treadle.Retry(treadle.RetryPolicy{Attempts: 2, NoJitter: true}))
		_, err := slow.Run(ctx, 0)
		late, ok := errors.AsType[*treadle.TimeoutError](err)
		if !ok {
			return "", fmt.Errorf("no timeout: %w", err)
		}
		return fmt.Sprint(late.Node, late.Limit), nil
	})
	synctest.Test(t, func(t *testing.T) {
		rig := &askRig[int, string]{t: t, saver: checkpoint.NewMemory(), tally: &askTally{}, build: build}
		out, err := rig.thread().Run(t.Context(), 0)
		gave(t, out, err, "slow1m0s")
		rig.tally.want(t, "slow", "slow")
	})
}

// functionalCacheAtOnce checks that two concurrent tasks with the same input make one
// call, and that two closures with one name are two tasks.
func functionalCacheAtOnce(t *testing.T, open opener) {
	saver := open(t)
	for i := range 20 {
		c := &askTally{}
		times := func(factor int) *treadle.Task[int, int] {
			return treadle.NewTask("times", func(_ context.Context, n int) (int, error) {
				c.add(fmt.Sprint(n, " times ", factor))
				return n * factor, nil
			}, treadle.Cache(0))
		}
		twice, thrice := times(2), times(3)
		g := treadle.Must(treadle.NewWorkflow("flow", func(ctx context.Context, n int) (int, error) {
			a, b := twice.Go(ctx, n), twice.Go(ctx, n)
			x, err := a.Wait()
			if err != nil {
				return 0, err
			}
			y, err := b.Wait()
			if err != nil {
				return 0, err
			}
			z, err := thrice.Run(ctx, n)
			return 100*x + 10*y + z, err
		}, &treadle.Options{Saver: saver, Logger: slog.New(slog.DiscardHandler)}))
		out, err := g.Thread(fmt.Sprint(i)).Run(t.Context(), i)
		gave(t, out, err, 223*i)
		c.want(t, fmt.Sprint(i, " times 2"), fmt.Sprint(i, " times 3"))
	}
}

// functionalCustomNamespace checks that events emitted by a task have the namespace of
// its caller, as in LangGraph.
func functionalCustomNamespace(t *testing.T, open opener) {
	inner := treadle.NewTask("inner", func(ctx context.Context, _ int) (int, error) {
		treadle.Emit(ctx, "inner")
		return 1, nil
	})
	outer := treadle.NewTask("outer", func(ctx context.Context, n int) (int, error) {
		treadle.Emit(ctx, "outer")
		return inner.Run(ctx, n)
	})
	g := treadle.Must(treadle.NewWorkflow("flow", func(ctx context.Context, n int) (int, error) {
		treadle.Emit(ctx, "flow")
		if _, err := treadle.Do(ctx, "do", func(ctx context.Context) (int, error) { treadle.Emit(ctx, "do"); return 0, nil }); err != nil {
			return 0, err
		}
		return outer.Run(ctx, n)
	}, &treadle.Options{Saver: open(t)}))
	var got []string
	for ev, err := range g.Thread("t").Stream(t.Context(), 1, treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := ev.(treadle.Custom); ok {
			words := []string{fmt.Sprint(c.Value, ":")}
			for _, part := range c.Namespace {
				name, _, _ := strings.Cut(part, ":")
				words = append(words, name)
			}
			got = append(got, strings.Join(words, " "))
		}
	}
	want := []string{"flow:", "do: flow", "outer: flow", "inner: flow outer"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
