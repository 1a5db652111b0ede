package threadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
)

func functionalCaught(t *testing.T, open opener) {
	errBoom := errors.New("boom")
	build := workflow(func(c *askTally, ctx context.Context, _ int) (string, error) {
		_, err := treadle.NewTask("fails", func(context.Context, int) (string, error) { c.add("fails"); return "", errBoom }).Run(ctx, 0)
		if !errors.Is(err, errBoom) {
			return "", fmt.Errorf("want boom: %w", err)
		}
		_, err = treadle.NewTask("panics", func(context.Context, int) (string, error) { panic("aargh") }).Run(ctx, 0)
		failed, ok := errors.AsType[*treadle.NodeError](err)
		if !ok || failed.Node != "panics" || len(failed.Stack) == 0 {
			return "", fmt.Errorf("want the panic: %w", err)
		}
		return "continued", nil
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		var lines []string
		for ev, err := range rig.thread().Stream(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, askLine(ev))
		}
		if diff := cmp.Diff([]string{`update flow "continued"`, "treadle.Finished[string]"}, lines); diff != "" {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
	})
}

func functionalFailed(t *testing.T, open opener) {
	errDown := errors.New("down")
	down := true
	build := workflow(func(c *askTally, ctx context.Context, n int) (string, error) {
		good, err := doubled(c).Run(ctx, n)
		if err != nil {
			return "", err
		}
		bad, err := treadle.NewTask("bad", func(context.Context, int) (string, error) {
			c.add("bad")
			if down {
				return "", errDown
			}
			return "up", nil
		}).Run(ctx, 0)
		return good + bad, err
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		down = true
		_, err := rig.thread().Run(t.Context(), 3)
		if !errors.Is(err, errDown) {
			t.Fatal(err)
		}
		rig.tally.want(t, "double 3", "bad")
		if snap := askNext(t, rig, "flow"); !strings.Contains(snap.Tasks[0].Error, "down") {
			t.Errorf("failure: %q", snap.Tasks[0].Error)
		}
		down = false
		out, err := rig.thread().Continue(t.Context())
		gave(t, out, err, "3 3up")
		rig.tally.want(t, "bad")
	})
}

func functionalCancel(t *testing.T, open opener) {
	errBoom := errors.New("boom")
	var cause error
	build := workflow(func(c *askTally, ctx context.Context, _ int) (string, error) {
		started := make(chan struct{})
		treadle.NewTask("runs", func(ctx context.Context, _ int) (string, error) {
			close(started)
			<-ctx.Done()
			cause = context.Cause(ctx)
			c.add("canceled")
			return "", ctx.Err()
		}).Go(ctx, 0)
		<-started
		return "", errBoom
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		_, err := rig.thread().Run(t.Context(), 0)
		if !errors.Is(err, errBoom) {
			t.Errorf("%v, want the workflow's error", err)
		}
		rig.tally.want(t, "canceled") // the run has waited for it
		if cause == nil || !strings.Contains(cause.Error(), `"flow" failed`) || !errors.Is(cause, context.Canceled) {
			t.Errorf("task was canceled with %v", cause)
		}
	})
}

func functionalCancelTask(t *testing.T, open opener) {
	build := workflow(func(c *askTally, ctx context.Context, _ int) (string, error) {
		one, cancel := context.WithCancel(ctx)
		started := make(chan struct{})
		f := treadle.NewTask("hangs", func(ctx context.Context, _ int) (string, error) {
			close(started)
			<-ctx.Done()
			c.add("hangs ended")
			return "", ctx.Err()
		}).Go(one, 0)
		other := doubled(c).Go(ctx, 1)
		<-started
		cancel()
		if _, err := f.Wait(); !errors.Is(err, context.Canceled) {
			return "", fmt.Errorf("want a canceled task: %w", err)
		}
		return other.Wait()
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		out, err := rig.thread().Run(t.Context(), 0)
		gave(t, out, err, "1 1")
		rig.tally.want(t, "hangs ended", "double 1")
		// Canceling the run cancels its tasks; finished tasks stay recorded.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := rig.thread().Run(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want a canceled run", err)
		}
	})
}

func functionalUnawaited(t *testing.T, open opener) {
	build := workflow(func(c *askTally, ctx context.Context, _ int) (string, error) {
		release := make(chan struct{})
		treadle.NewTask("late", func(context.Context, int) (string, error) {
			<-release
			c.add("late")
			return "x", nil
		}).Go(ctx, 0)
		defer close(release) // ends after the workflow has returned
		return "done", nil
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		out, err := rig.thread().Run(t.Context(), 0)
		gave(t, out, err, "done")
		rig.tally.want(t, "late") // the run has waited for it
	})
}

func functionalOrder(t *testing.T, open opener) {
	names := []string{"a", "b"}
	build := workflow(func(_ *askTally, ctx context.Context, _ int) (string, error) {
		var out strings.Builder
		for _, name := range names {
			s, err := treadle.Do(ctx, name, func(context.Context) (string, error) { return name, nil })
			if err != nil {
				return "", err
			}
			out.WriteString(s)
		}
		a, err := treadle.Interrupt[string](ctx, "q")
		return out.String() + a, err
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		names = []string{"a", "b"}
		_, err := rig.thread().Run(t.Context(), 0)
		askedStrings(t, err, "q")
		names = []string{"a", "c"}
		_, err = rig.thread().Resume(t.Context(), "!")
		order, ok := errors.AsType[*treadle.OrderError](err)
		if !ok || *order != (treadle.OrderError{Call: 2, Recorded: "b", Made: "c"}) {
			t.Fatalf("%v, want an OrderError that names the call", err)
		}
		// With the old order, it continues, and the answer is still available.
		names = []string{"a", "b"}
		out, err := rig.thread().Continue(t.Context())
		gave(t, out, err, "ab!")
	})
}

func functionalOutside(t *testing.T, _ opener) {
	task := doubled(&askTally{})
	if _, err := task.Run(t.Context(), 1); !errors.Is(err, treadle.ErrOutsideRun) || !strings.Contains(err.Error(), "double") {
		t.Errorf("task outside a run: %v, want ErrOutsideRun and its name", err)
	}
	if _, err := task.Go(t.Context(), 1).Wait(); !errors.Is(err, treadle.ErrOutsideRun) {
		t.Errorf("future outside a run: %v, want ErrOutsideRun", err)
	}
	if _, err := treadle.Do(t.Context(), "x", func(context.Context) (int, error) { return 1, nil }); !errors.Is(err, treadle.ErrOutsideRun) {
		t.Errorf("Do outside a run: %v, want ErrOutsideRun", err)
	}
	if _, ok := treadle.PreviousFrom[int](t.Context()); ok {
		t.Error("previous value outside a run")
	}
	if info := treadle.InfoFrom(t.Context()); info.TaskID != "" || info.IdempotencyKey != "" {
		t.Errorf("info outside a run: %+v", info)
	}
}

func functionalBad(t *testing.T, open opener) {
	if _, err := treadle.NewWorkflow[int, int]("flow", nil, nil); err == nil {
		t.Error("workflow without a function compiles")
	} else if _, ok := errors.AsType[*treadle.BuildError](err); !ok {
		t.Errorf("%v, want a BuildError", err)
	}
	if _, err := treadle.NewWorkflow("", func(context.Context, int) (int, error) { return 0, nil }, nil); err == nil {
		t.Error("workflow without a name compiles")
	}
	// A result that cannot be saved, such as a channel, is rejected: when a workflow is
	// compiled, and when a task returns.
	if _, err := treadle.NewWorkflow("flow", func(context.Context, int) (chan int, error) { return nil, nil }, &treadle.Options{Saver: open(t)}); err == nil {
		t.Error("workflow that returns a channel compiles")
	}
	build := workflow(func(_ *askTally, ctx context.Context, which string) (string, error) {
		var err error
		switch which {
		case "unnamed":
			_, err = treadle.Do(ctx, "", func(context.Context) (int, error) { return 1, nil })
		case "nil":
			_, err = treadle.NewTask[int, int]("nil", nil).Run(ctx, 1)
		case "channel":
			_, err = treadle.Do(ctx, "channel", func(context.Context) (chan int, error) { return make(chan int), nil })
		}
		return "", err
	})
	rig := &askRig[string, string]{t: t, saver: open(t), tally: &askTally{}, build: build}
	for which, want := range map[string]string{"unnamed": "missing name", "nil": `task "nil"`, "channel": "as JSON"} {
		if _, err := rig.thread().Run(t.Context(), which); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", which, err, want)
		}
	}
}

func functionalWithoutSaver(t *testing.T, _ opener) {
	errFlaky := errors.New("flaky")
	c := &askTally{}
	build := workflow(func(c *askTally, ctx context.Context, n int) (string, error) {
		s, err := doubled(c).Run(ctx, n)
		if err != nil {
			return "", err
		}
		if treadle.InfoFrom(ctx).Attempt == 1 {
			return "", errFlaky
		}
		return s, nil
	}, treadle.Retry(treadle.RetryPolicy{Initial: 1, NoJitter: true, On: func(err error) bool { return errors.Is(err, errFlaky) }}))
	g, err := build(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // nothing is kept between runs
		out, err := g.Run(t.Context(), 4)
		gave(t, out, err, "4 4")
		c.want(t, "double 4") // within a run, the retry finds the result
	}
}
