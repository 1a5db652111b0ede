package threadtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

func interruptSwallowed(t *testing.T, open opener) {
	task := treadle.NewTask("task", func(ctx context.Context, _ int) (string, error) { return treadle.Interrupt[string](ctx, "in a task") })
	child := func() *treadle.Graph[askState, askState] {
		b := treadle.New[askState]("child")
		treadle.AddNode(b, "n", askNode(&askTally{}, "in a graph"))
		b.Edge(treadle.Start, "n")
		return treadle.Must(b.Compile(nil))
	}()
	errOther := errors.New("other")
	for _, c := range []struct {
		name     string
		question string
		node     func(ctx context.Context) error
	}{
		{"in the node", "q", func(ctx context.Context) error {
			_, _ = treadle.Interrupt[string](ctx, "q") // under test
			return nil
		}},
		{"in a task", "in a task", func(ctx context.Context) error {
			_, _ = task.Run(ctx, 1) // under test
			return nil
		}},
		{"in a task without a waiter", "in a task", func(ctx context.Context) error {
			task.Go(ctx, 1)
			return nil
		}},
		{"in a graph", "in a graph?", func(ctx context.Context) error {
			_, _ = child.Run(ctx, askState{}) // under test
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			build := askChain(doing("n", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
				return askSay("went on"), c.node(ctx)
			}))
			rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: build}
			_, err := rig.thread().Run(t.Context(), askState{})
			swallowed, ok := errors.AsType[*treadle.SwallowedInterruptError](err)
			if !ok {
				t.Fatalf("%v, want a SwallowedInterruptError", err)
			}
			askQuestions(t, swallowed.Pauses, c.question)
			if failed, ok := errors.AsType[*treadle.NodeError](err); !ok || failed.Node != "n" {
				t.Errorf("%v does not say which node", err)
			}
			if snap := askNext(t, rig, "n"); len(snap.Pauses) > 0 || snap.Tasks[0].Error == "" {
				t.Errorf("node waits with %v, failed with %q", snap.Pauses, snap.Tasks[0].Error)
			}
		})
	}
	t.Run("for another error", func(t *testing.T) {
		// A node that returns its own error has failed; it does not wait.
		build := askChain(doing("n", func(_ *askTally, ctx context.Context, _ askState) (askLog, error) {
			_, _ = treadle.Interrupt[string](ctx, "q") // under test
			return askLog{}, errOther
		}))
		rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: build}
		if _, err := rig.thread().Run(t.Context(), askState{}); !errors.Is(err, errOther) {
			t.Errorf("%v, want the node's own error", err)
		}
		if snap := askNext(t, rig, "n"); len(snap.Pauses) > 0 {
			t.Errorf("failed node waits with %v", snap.Pauses)
		}
	})
}

func interruptChanged(t *testing.T, open opener) {
	question := ""
	build := func(strict bool, log *bytes.Buffer) askBuild[askState, askState] {
		return func(saver checkpoint.Saver, _ *askTally) (*treadle.Graph[askState, askState], error) {
			b := treadle.New[askState]("changing")
			treadle.AddNode(b, "n", func(ctx context.Context, _ askState) (askLog, error) {
				a, err := treadle.Interrupt[string](ctx, question)
				if err != nil {
					return askLog{}, err
				}
				c, err := treadle.Interrupt[string](ctx, "second")
				return askSay(a, c), err
			})
			b.Edge(treadle.Start, "n")
			return b.Compile(&treadle.Options{Saver: saver, Strict: strict, Logger: slog.New(slog.NewTextHandler(log, nil))})
		}
	}
	for _, strict := range []bool{false, true} {
		t.Run(fmt.Sprintf("strict %v", strict), func(t *testing.T) {
			var log bytes.Buffer
			askBothWays(t, open, build(strict, &log), func(t *testing.T, rig *askRig[askState, askState]) {
				log.Reset()
				question = "old"
				_, err := rig.thread().Run(t.Context(), askState{})
				askedStrings(t, err, "old")
				_, err = rig.thread().Resume(t.Context(), "A")
				askedStrings(t, err, "second")
				if log.Len() > 0 {
					t.Errorf("logged without a reason: %s", log.String())
				}
				question = "new"
				out, err := rig.thread().Resume(t.Context(), "B")
				if strict {
					changed, ok := errors.AsType[*treadle.InterruptChangedError](err)
					if !ok || changed.Node != "n" || string(changed.Answered) != `"old"` || string(changed.Asked) != `"new"` {
						t.Fatalf("%v, want an InterruptChangedError with both questions", err)
					}
					question = "old" // as before: the answers still exist
					out, err = rig.thread().Continue(t.Context())
					askEnded(t, out, err, "A", "B")
					return
				}
				askEnded(t, out, err, "A", "B")
				for _, part := range []string{"level=WARN", "question changed", "graph=changing", "node=n", "old", "new"} {
					if strings.Count(log.String(), "level=WARN") != 1 || !strings.Contains(log.String(), part) {
						t.Errorf("log %q lacks %q", log.String(), part)
					}
				}
			})
		})
	}
}

func interruptHandlers(t *testing.T, open opener) {
	errBoom := errors.New("boom")
	t.Run("interrupt is not a failure", func(t *testing.T) {
		build := askChain(doing("n", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
			c.add("n")
			a, err := treadle.Interrupt[string](ctx, "n?")
			return askSay(a), err
		}, treadle.Retry(treadle.RetryPolicy{On: func(error) bool { return true }}),
			treadle.OnError(func(context.Context, askState, *treadle.NodeError) (askLog, error) { return askSay("handled"), nil })))
		askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
			_, err := rig.thread().Run(t.Context(), askState{})
			askedStrings(t, err, "n?")
			out, err := rig.thread().Resume(t.Context(), "A")
			askEnded(t, out, err, "A")
			rig.tally.want(t, "n", "n")
		})
	})
	t.Run("the handler asks", func(t *testing.T) {
		build := askFan(doing("n", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
			c.add("n")
			a, err := treadle.Interrupt[string](ctx, "n?")
			if err != nil {
				return askLog{}, err
			}
			if _, err := treadle.Do(ctx, "try", func(context.Context) (string, error) { c.add("try"); return a, nil }); err != nil {
				return askLog{}, err
			}
			return askLog{}, errBoom
		}, treadle.OnError(func(ctx context.Context, s askState, failure *treadle.NodeError) (askLog, error) {
			if !strings.Contains(failure.Error(), "boom") || failure.Node != "n" || s.Note != "in" {
				return askLog{}, fmt.Errorf("handler is given %w and %+v", failure, s)
			}
			undo, err := treadle.Do(ctx, "undo", func(context.Context) (string, error) { return "undone", nil })
			if err != nil {
				return askLog{}, err
			}
			one, err := treadle.Interrupt[string](ctx, "handler?")
			if err != nil {
				return askLog{}, err
			}
			two, err := treadle.Interrupt[string](ctx, "sure?")
			return askSay(undo, one, two), err
		})), plain("p"))
		askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
			_, err := rig.thread().Run(t.Context(), askState{Note: "in"})
			n := askedStrings(t, err, "n?")
			_, err = rig.thread().Resume(t.Context(), "A")
			ps := askedStrings(t, err, "handler?")
			if ps[0].ID == n[0].ID {
				t.Error("handler's question has the id of the node's")
			}
			rig.tally.want(t, "n", "p", "n", "try")
			_, err = rig.thread().Resume(t.Context(), "yes")
			askedStrings(t, err, "sure?")
			out, err := rig.thread().Resume(t.Context(), "very")
			askEnded(t, out, err, "undone", "yes", "very", "p")
			rig.tally.want(t) // the node has finally failed and does not run again
		})
	})
	t.Run("the handler swallows", func(t *testing.T) {
		build := askChain(doing("n", func(*askTally, context.Context, askState) (askLog, error) { return askLog{}, errBoom },
			treadle.OnError(func(ctx context.Context, _ askState, _ *treadle.NodeError) (askLog, error) {
				_, _ = treadle.Interrupt[string](ctx, "handler?") // under test
				return askSay("went on"), nil
			})))
		rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: build}
		_, err := rig.thread().Run(t.Context(), askState{})
		swallowed, ok := errors.AsType[*treadle.SwallowedInterruptError](err)
		if !ok {
			t.Fatalf("%v, want a SwallowedInterruptError", err)
		}
		askQuestions(t, swallowed.Pauses, "handler?")
	})
	t.Run("the handler fails and is run again", func(t *testing.T) {
		broken := true
		build := askFan(doing("n", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
			c.add("n")
			return askLog{}, errBoom
		}, treadle.OnError(func(ctx context.Context, _ askState, failure *treadle.NodeError) (askLog, error) {
			if broken {
				return askLog{}, errors.New("crash")
			}
			return askSay("handled " + failure.Err.Error()), nil
		})), doing("m", func(c *askTally, _ context.Context, _ askState) (askLog, error) {
			c.add("m")
			return askLog{}, errors.New("bang")
		}, treadle.OnError(func(_ context.Context, _ askState, failure *treadle.NodeError) (askLog, error) {
			return askSay("handled " + failure.Err.Error()), nil
		})))
		askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
			broken = true
			_, err := rig.thread(treadle.MaxConcurrency(1)).Run(t.Context(), askState{})
			if !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "crash") {
				t.Fatalf("%v, want both failures", err)
			}
			rig.tally.want(t, "m", "n")
			broken = false
			out, err := rig.thread().Continue(t.Context())
			askEnded(t, out, err, "handled bang", "handled boom")
			rig.tally.want(t)
		})
	})
}

func interruptRetry(t *testing.T, open opener) {
	errFlaky := errors.New("flaky")
	retry := treadle.Retry(treadle.RetryPolicy{Initial: 1, NoJitter: true, Attempts: 3, On: func(err error) bool { return errors.Is(err, errFlaky) }})
	build := askChain(doing("n", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		attempt := treadle.InfoFrom(ctx).Attempt
		c.add(fmt.Sprint("attempt ", attempt))
		one, err := treadle.Interrupt[string](ctx, "one?")
		if err != nil {
			return askLog{}, err
		}
		paid, err := treadle.Do(ctx, "pay", func(context.Context) (string, error) { c.add("pay"); return "paid", nil })
		if err != nil {
			return askLog{}, err
		}
		if attempt < 3 {
			return askLog{}, errFlaky
		}
		two, err := treadle.Interrupt[string](ctx, "two?")
		return askSay(one, paid, two), err
	}, retry))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "one?")
		rig.tally.want(t, "attempt 1")
		_, err = rig.thread().Resume(t.Context(), "1")
		askedStrings(t, err, "two?")
		rig.tally.want(t, "attempt 1", "attempt 2", "attempt 3", "pay")
		out, err := rig.thread().Resume(t.Context(), "2")
		askEnded(t, out, err, "1", "paid", "2")
		rig.tally.want(t, "attempt 1", "attempt 2", "attempt 3")
	})
}

// interruptCancelled checks that a run that is canceled while a node waits for an answer
// keeps the interrupt.
func interruptCancelled(t *testing.T, open opener) {
	var block func(context.Context) error
	build := askFan(asking("a"), doing("b", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		c.add("b")
		return askSay("b"), block(ctx)
	}), plain("c"))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// One at a time, so that a has interrupted when b is canceled.
		block = func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		_, err := rig.thread(treadle.MaxConcurrency(1)).Run(ctx, askState{})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v, want a canceled run", err)
		}
		rig.tally.want(t, "a", "b")
		askQuestions(t, askNext(t, rig, "a", "b", "c").Pauses, "a?")
		block = func(context.Context) error { return nil }
		out, err := rig.thread().Resume(t.Context(), "A")
		askEnded(t, out, err, "a=A", "b", "c")
		rig.tally.want(t, "a", "b", "c")
	})
}

// interruptTimed uses a fake clock, so it runs on memory; see the functional suite.
func interruptTimed(t *testing.T, _ opener) {
	build := askChain(doing("n", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		attempt := treadle.InfoFrom(ctx).Attempt
		c.add(fmt.Sprint("attempt ", attempt))
		if attempt == 1 {
			<-ctx.Done()
			// Too late: the next attempt asks.
			if _, err := treadle.Interrupt[string](ctx, "late?"); !errors.As(err, new(*treadle.TimeoutError)) {
				c.add(fmt.Sprintf("asked late: %v", err))
			}
			return askLog{}, ctx.Err()
		}
		a, err := treadle.Interrupt[string](ctx, "in time?")
		return askSay(a), err
	}, treadle.Timeout(time.Minute), treadle.Retry(treadle.RetryPolicy{NoJitter: true})))
	synctest.Test(t, func(t *testing.T) {
		rig := &askRig[askState, askState]{t: t, saver: checkpoint.NewMemory(), tally: &askTally{}, build: build}
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "in time?")
		out, err := rig.thread().Resume(t.Context(), "A")
		askEnded(t, out, err, "A")
		rig.tally.want(t, "attempt 1", "attempt 2", "attempt 1", "attempt 2")
	})
}
