package treadle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// effects records the order of the effects of tasks.
type effects struct {
	mu  sync.Mutex
	all []string
}

func (e *effects) add(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, name)
}

func (e *effects) want(t *testing.T, want ...string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.all, want) {
		t.Errorf("effects %v, want %v", e.all, want)
	}
}

func (e *effects) task(name string) *treadle.Task[int, string] {
	return treadle.NewTask(name, func(context.Context, int) (string, error) { e.add(name); return name, nil })
}

func (e *effects) graph(t *testing.T, name string) *treadle.Graph[int, string] {
	t.Helper()
	return flow(t, name, nil, func(context.Context, int) (string, error) { e.add(name); return name, nil })
}

func flow(t *testing.T, name string, saver checkpoint.Saver, fn func(context.Context, int) (string, error)) *treadle.Graph[int, string] {
	t.Helper()
	g, err := treadle.NewWorkflow(name, fn, &treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// pausesOf returns the pauses of an interrupted run.
func pausesOf(t *testing.T, err error) []treadle.Pause {
	t.Helper()
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok {
		t.Fatalf("got %v, want an InterruptError", err)
	}
	return stop.Pauses
}

func TestPauseStopsCompensation(t *testing.T) {
	picked := func(ctx context.Context, _ int) (string, error) {
		_, err := treadle.WaitFor[bool](ctx, "picked", nil)
		return "", err
	}
	asks := func(ctx context.Context, _ int) (string, error) { return treadle.Interrupt[string](ctx, "picked?") }
	sleeps := func(ctx context.Context, _ int) (string, error) { return "", treadle.Sleep(ctx, time.Hour) }
	hides := func(ctx context.Context, n int) (string, error) {
		_, err := picked(ctx, n)
		if err != nil {
			err = fmt.Errorf("not picked: %v", err) //nolint:errorlint // the tested mistake
		}
		return "", err
	}
	pauses := map[string]func(*testing.T, context.Context) error{
		"signal":    func(_ *testing.T, ctx context.Context) error { _, err := picked(ctx, 0); return err },
		"interrupt": func(_ *testing.T, ctx context.Context) error { _, err := asks(ctx, 0); return err },
		"sleep":     func(_ *testing.T, ctx context.Context) error { _, err := sleeps(ctx, 0); return err },
		"task": func(_ *testing.T, ctx context.Context) error {
			_, err := treadle.NewTask("wait", picked).Run(ctx, 0)
			return err
		},
		"effect": func(_ *testing.T, ctx context.Context) error {
			_, err := treadle.Do(ctx, "wait", func(ctx context.Context) (string, error) { return asks(ctx, 0) })
			return err
		},
		"subgraph": func(t *testing.T, ctx context.Context) error {
			_, err := flow(t, "wait", nil, sleeps).Run(ctx, 0)
			return err
		},
		"hidden by task": func(_ *testing.T, ctx context.Context) error {
			_, err := treadle.NewTask("wait", hides).Run(ctx, 0)
			return err
		},
	}
	compensations := map[string]func(*testing.T, context.Context, *effects) error{
		"task": func(_ *testing.T, ctx context.Context, e *effects) error {
			_, err := e.task("refund").Run(ctx, 0)
			return err
		},
		"effect": func(_ *testing.T, ctx context.Context, e *effects) error {
			_, err := treadle.Do(ctx, "refund", func(context.Context) (int, error) { e.add("refund"); return 0, nil })
			return err
		},
		"subgraph": func(t *testing.T, ctx context.Context, e *effects) error {
			_, err := e.graph(t, "refund").Run(ctx, 0)
			return err
		},
		"interrupt": func(_ *testing.T, ctx context.Context, _ *effects) error {
			_, err := treadle.Interrupt[bool](ctx, "refund?")
			return err
		},
		"sleep": func(_ *testing.T, ctx context.Context, _ *effects) error { return treadle.Sleep(ctx, time.Minute) },
		"signal": func(_ *testing.T, ctx context.Context, _ *effects) error {
			_, err := treadle.WaitFor[bool](ctx, "refund", nil)
			return err
		},
	}
	for pause, stop := range pauses {
		for name, compensate := range compensations {
			t.Run(pause+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := &effects{}
					th := flow(t, "order", checkpoint.NewMemory(), func(ctx context.Context, _ int) (string, error) {
						if _, err := e.task("charge").Run(ctx, 0); err != nil {
							return "", err
						}
						if err := stop(t, ctx); err != nil {
							undone := compensate(t, ctx, e)
							if !treadle.IsPause(undone) {
								t.Errorf("compensation returned %v, want the pause", undone)
							}
							return "refunded", undone
						}
						return e.task("ship").Run(ctx, 0)
					}).Thread("1")
					_, err := th.Run(t.Context(), 0)
					if ps := pausesOf(t, err); len(ps) != 1 || strings.Contains(string(ps[0].Value), "refund") {
						t.Errorf("pauses %v, want the first one alone", ps)
					}
					e.want(t, "charge")
					if err := th.Signal(t.Context(), "picked", true); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Hour) //nolint:forbidigo // virtual time
					out, err := th.Continue(t.Context())
					if len(pausesOfAny(err)) > 0 {
						out, err = th.Resume(t.Context(), "yes")
					}
					if err != nil || out != "ship" {
						t.Errorf("resumed: %q, %v", out, err)
					}
					e.want(t, "charge", "ship")
				})
			})
		}
	}
}

func pausesOfAny(err error) []treadle.Pause {
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		return stop.Pauses
	}
	return nil
}

// A caller receives the pause of a task when it waits for the task, so tasks that
// start before that run, and all interrupts surface together.
func TestParallelTasksAllInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &effects{}
		ask := treadle.NewTask("ask", func(ctx context.Context, n int) (string, error) {
			e.add(fmt.Sprint("ask ", n))
			return treadle.Interrupt[string](ctx, n)
		})
		th := flow(t, "ask", checkpoint.NewMemory(), func(ctx context.Context, _ int) (string, error) {
			one := ask.Go(ctx, 1)
			synctest.Wait() // one has paused
			two, work := ask.Go(ctx, 2), e.task("work").Go(ctx, 0)
			a, err1 := one.Wait()
			b, err2 := two.Wait()
			c, err3 := work.Wait()
			if _, err := e.task("late").Run(ctx, 0); err1 != nil && !errors.Is(err, err1) {
				t.Errorf("task after the pause returned %v, want %v", err, err1)
			}
			return a + b + c, errors.Join(err1, err2, err3)
		}).Thread("1")
		_, err := th.Run(t.Context(), 0)
		ps := pausesOf(t, err)
		if len(ps) != 2 {
			t.Fatalf("pauses %v, want the pauses of both tasks", ps)
		}
		slices.Sort(e.all)
		e.want(t, "ask 1", "ask 2", "work")
		e.all = nil
		out, err := th.Resume(t.Context(), treadle.Answers{ps[0].ID: "a", ps[1].ID: "b"})
		if err != nil || out != "abwork" {
			t.Errorf("resumed: %q, %v", out, err)
		}
		slices.Sort(e.all)
		e.want(t, "ask 1", "ask 2", "late") // the result of work is recorded
	})
}

func TestKeyedInterruptsSurfaceTogether(t *testing.T) {
	th := flow(t, "form", checkpoint.NewMemory(), func(ctx context.Context, _ int) (string, error) {
		var answers []string
		var errs []error
		for _, key := range []string{"name", "mail"} {
			answer, err := treadle.Interrupt[string](ctx, treadle.Question{Value: key, Key: key})
			answers, errs = append(answers, answer), append(errs, err)
		}
		return strings.Join(answers, " "), errors.Join(errs...)
	}).Thread("1")
	_, err := th.Run(t.Context(), 0)
	ps := pausesOf(t, err)
	if len(ps) != 2 {
		t.Fatalf("pauses %v, want both questions", ps)
	}
	if out, err := th.Resume(t.Context(), treadle.Answers{ps[0].ID: "Ann", ps[1].ID: "a@b"}); err != nil || out != "Ann a@b" {
		t.Errorf("resumed: %q, %v", out, err)
	}
}

func TestRunningTaskFinishesDespitePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &effects{}
		slow := treadle.NewTask("slow", func(ctx context.Context, _ int) (string, error) {
			time.Sleep(time.Second) //nolint:forbidigo // the time of synctest
			e.add("slow")
			return e.task("inner").Run(ctx, 0) // the pause of the caller does not stop its tasks
		})
		th := flow(t, "order", checkpoint.NewMemory(), func(ctx context.Context, _ int) (string, error) {
			f := slow.Go(ctx, 0)
			if _, err := treadle.Interrupt[bool](ctx, "go?"); err != nil {
				return "", err
			}
			return f.Wait()
		}).Thread("1")
		_, err := th.Run(t.Context(), 0)
		pausesOf(t, err)
		e.want(t, "slow", "inner")
		if out, err := th.Resume(t.Context(), true); err != nil || out != "inner" {
			t.Errorf("resumed: %q, %v", out, err)
		}
		e.want(t, "slow", "inner")
	})
}

// A retry and an error handler are new executions: the pause of a failed attempt does
// not stop them.
func TestPauseEndsWithItsAttempt(t *testing.T) {
	fails := func(ctx context.Context) error {
		if _, err := treadle.Interrupt[bool](ctx, "well?"); err == nil {
			t.Error("nobody answered")
		}
		return errors.New("flaky")
	}
	e, attempts := &effects{}, 0
	retried := func(ctx context.Context, _ int) (string, error) {
		if attempts++; attempts == 1 {
			return "", fails(ctx)
		}
		return e.task("retry").Run(ctx, 0)
	}
	handled := func(ctx context.Context, _ diary) (page, error) { return page{}, fails(ctx) }
	handler := func(ctx context.Context, _ diary, _ *treadle.NodeError) (page, error) {
		_, err := e.task("handler").Run(ctx, 0)
		return page{}, err
	}
	o := &treadle.Options{Saver: checkpoint.NewMemory()}
	again := treadle.Retry(treadle.RetryPolicy{Initial: 1, Attempts: 2, On: func(error) bool { return true }})
	if _, err := treadle.Must(treadle.NewWorkflow("retried", retried, o, again)).Thread("1").Run(t.Context(), 0); err != nil {
		t.Error(err)
	}
	b := treadle.New[diary]("handled")
	treadle.AddNode(b, "node", handled, treadle.OnError(handler))
	b.Edge(treadle.Start, "node")
	if _, err := treadle.Must(b.Compile(o)).Thread("2").Run(t.Context(), diary{}); err != nil {
		t.Error(err)
	}
	e.want(t, "retry", "handler")
}

func TestTasksDoNotStartOnEndedContext(t *testing.T) {
	ends := map[string]func(context.Context) (context.Context, context.CancelFunc){
		"canceled": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			return ctx, func() { cancel() }
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
		"drained": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(treadle.ErrDrained) }
		},
	}
	for end, withEnd := range ends {
		for _, detached := range []bool{false, true} {
			for _, kind := range []string{"task", "effect", "subgraph"} {
				t.Run(fmt.Sprint(end, "/", kind, "/detached=", detached), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						e, first := &effects{}, true
						saver := checkpoint.NewMemory()
						order := flow(t, "order", saver, func(ctx context.Context, _ int) (string, error) {
							if _, err := e.task("charge").Run(ctx, 0); err != nil {
								return "", err
							}
							if first {
								first = false
								<-ctx.Done()
								if detached {
									ctx = context.WithoutCancel(ctx)
								}
								var err error
								switch kind {
								case "task":
									_, err = e.task("refund").Run(ctx, 0)
								case "effect":
									_, err = treadle.Do(ctx, "refund", func(context.Context) (int, error) { e.add("refund"); return 0, nil })
								case "subgraph":
									_, err = e.graph(t, "refund").Run(ctx, 0)
								}
								if err == nil {
									t.Error("compensation ran")
								}
								return "refunded", err
							}
							return e.task("ship").Run(ctx, 0)
						})
						ctx, cancel := withEnd(t.Context())
						defer cancel()
						if end != "deadline" {
							time.AfterFunc(time.Second, cancel)
						}
						_, err := order.Thread("1").Run(ctx, 0)
						if !errors.Is(err, ctx.Err()) && !errors.Is(err, context.Cause(ctx)) {
							t.Errorf("got %v, want %v", err, context.Cause(ctx))
						}
						e.want(t, "charge")
						out, err := order.Thread("1").Continue(t.Context())
						if err != nil || out != "ship" {
							t.Errorf("continued: %q, %v", out, err)
						}
						e.want(t, "charge", "ship")
					})
				})
			}
		}
	}
}

func TestIsPause(t *testing.T) {
	for want, errs := range map[bool][]error{
		true:  {&treadle.InterruptError{}, fmt.Errorf("wrapped: %w", &treadle.InterruptError{}), treadle.ErrDrained},
		false: {nil, errors.New("failed"), context.Canceled, &treadle.NodeError{Err: errors.New("failed")}, &treadle.DeadlineError{}},
	} {
		for _, err := range errs {
			if treadle.IsPause(err) != want {
				t.Errorf("IsPause(%v) is not %v", err, want)
			}
		}
	}
}
