package threadtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

func functionalTaskQuestions(t *testing.T, open opener) {
	build := workflow(func(c *askTally, ctx context.Context, in string) (string, error) {
		before, err := treadle.NewTask("before", func(_ context.Context, s string) (string, error) { c.add("before"); return s + "!", nil }).Run(ctx, in)
		if err != nil {
			return "", err
		}
		asks, err := treadle.NewTask("asks", func(ctx context.Context, s string) (string, error) {
			c.add("asks")
			one, err := treadle.Interrupt[string](ctx, "one?")
			if err != nil {
				return "", err
			}
			mid, err := treadle.Do(ctx, "mid", func(context.Context) (string, error) { c.add("mid"); return "-", nil })
			if err != nil {
				return "", err
			}
			two, err := treadle.Interrupt[string](ctx, "two?")
			return s + one + mid + two, err
		}).Run(ctx, before)
		if err != nil {
			return "", err
		}
		last, err := treadle.Interrupt[string](ctx, "last?")
		return asks + last, err
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[string, string]) {
		_, err := rig.thread().Run(t.Context(), "x")
		askedStrings(t, err, "one?")
		_, err = rig.thread().Resume(t.Context(), "1")
		askedStrings(t, err, "two?")
		rig.tally.want(t, "before", "asks", "asks", "mid")
		_, err = rig.thread().Resume(t.Context(), "2")
		askedStrings(t, err, "last?")
		rig.tally.want(t, "asks")
		out, err := rig.thread().Resume(t.Context(), "3")
		gave(t, out, err, "x!1-23")
		rig.tally.want(t)
	})
}

func functionalParallelQuestions(t *testing.T, open opener) {
	build := workflow(func(c *askTally, ctx context.Context, in []string) ([]string, error) {
		task := treadle.NewTask("ask", func(ctx context.Context, q string) (string, error) {
			c.add(q)
			if q == "none" {
				return q, nil
			}
			a, err := treadle.Interrupt[string](ctx, q)
			return q + "=" + a, err
		})
		var fs []*treadle.Future[string]
		for _, q := range in {
			fs = append(fs, task.Go(ctx, q))
		}
		return waitAll(fs...)
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[[]string, []string]) {
		// All interrupts surface together, each once, in call order.
		var events []string
		var last error
		for ev, err := range rig.thread().Stream(t.Context(), []string{"c", "none", "a", "b"}) {
			if err != nil {
				last = err
				continue
			}
			if stop, ok := ev.(treadle.Interrupted); ok {
				askQuestions(t, stop.Pauses, "c", "a", "b")
			}
			events = append(events, askLine(ev))
		}
		if diff := cmp.Diff([]string{`update ask "none"`, `interrupted flow "c" "a" "b" before [] after []`}, events); diff != "" {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
		ps := askedStrings(t, last, "c", "a", "b")
		rig.tally.want(t, "c", "none", "a", "b")
		askQuestions(t, askNext(t, rig, "flow").Pauses, "c", "a", "b")
		_, err := rig.thread().Resume(t.Context(), treadle.Answers{ps[1].ID: "A"})
		askedStrings(t, err, "c", "b")
		rig.tally.want(t, "c", "a", "b")
		out, err := rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: "C", ps[2].ID: "B"})
		gave(t, out, err, []string{"c=C", "none", "a=A", "b=B"})
		rig.tally.want(t, "c", "b")
	})
}

func functionalFalsy(t *testing.T, open opener) {
	build := workflow(func(c *askTally, ctx context.Context, _ int) (string, error) {
		no, err := treadle.Do(ctx, "no", func(context.Context) (bool, error) { c.add("no"); return false, nil })
		if err != nil {
			return "", err
		}
		none, err := treadle.Do(ctx, "none", func(context.Context) (*int, error) { c.add("none"); return nil, nil })
		if err != nil {
			return "", err
		}
		a, err := treadle.Interrupt[string](ctx, "q")
		return fmt.Sprint(no, none == nil, a), err
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		_, err := rig.thread().Run(t.Context(), 0)
		askedStrings(t, err, "q")
		rig.tally.want(t, "no", "none")
		out, err := rig.thread().Resume(t.Context(), "A")
		gave(t, out, err, "false trueA")
		rig.tally.want(t)
	})
}

func functionalManyResumes(t *testing.T, open opener) {
	const rounds = 6
	build := workflow(func(c *askTally, ctx context.Context, _ int) ([]string, error) {
		var log []string
		task := doubled(c)
		for i := range rounds {
			d, err := task.Run(ctx, i)
			if err != nil {
				return nil, err
			}
			a, err := treadle.Interrupt[string](ctx, fmt.Sprint("round ", i))
			if err != nil {
				return nil, err
			}
			log = append(log, d+a)
		}
		return log, nil
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, []string]) {
		out, err := rig.thread().Run(t.Context(), 0)
		var want []string
		for i := range rounds {
			askedStrings(t, err, fmt.Sprint("round ", i))
			rig.tally.want(t, fmt.Sprint("double ", i))
			want = append(want, fmt.Sprint(i, i, "!"))
			out, err = rig.thread().Resume(t.Context(), "!")
		}
		gave(t, out, err, want)
		rig.tally.want(t)
	})
}

// countingSaver counts the saved results.
type countingSaver struct {
	checkpoint.Saver
	results atomic.Int32
}

func (s *countingSaver) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, writes []checkpoint.Write) error {
	for _, w := range writes {
		if w.Kind == checkpoint.Done {
			s.results.Add(1)
		}
	}
	return s.Saver.PutWrites(ctx, at, fence, writes)
}

func functionalNoRedundantWrites(t *testing.T, open opener) {
	counted := &countingSaver{Saver: open(t)}
	build := workflow(func(c *askTally, ctx context.Context, _ int) (string, error) {
		task := doubled(c)
		if _, err := waitAll(task.Go(ctx, 1), task.Go(ctx, 2)); err != nil {
			return "", err
		}
		a, err := treadle.Interrupt[string](ctx, "one?")
		if err != nil {
			return "", err
		}
		b, err := treadle.Interrupt[string](ctx, "two?")
		return a + b, err
	})
	rig := &askRig[int, string]{t: t, saver: counted, tally: &askTally{}, build: build}
	_, err := rig.thread().Run(t.Context(), 0)
	askedStrings(t, err, "one?")
	if n := counted.results.Load(); n != 2 {
		t.Errorf("%d results stored, want one for each task", n)
	}
	_, err = rig.thread().Resume(t.Context(), "A")
	askedStrings(t, err, "two?")
	out, err := rig.thread().Resume(t.Context(), "B")
	gave(t, out, err, "AB")
	if n := counted.results.Load(); n != 2 {
		t.Errorf("%d results stored, want those of the first run only", n)
	}
	rig.tally.want(t, "double 1", "double 2")
}
