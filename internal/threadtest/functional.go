package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Functional is the suite of workflows, tasks, futures and recorded effects.
func Functional(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, s := range []struct {
		name string
		test func(*testing.T, func(*testing.T) checkpoint.Saver)
	}{
		{"ParallelTasksAndQuestion", functionalTasks},
		{"TasksInTasks", functionalNested},
		{"StreamOrder", functionalStream},
		{"UpdatesArriveAsTasksFinish", functionalEager},
		{"QuestionsInBody", functionalBody},
		{"QuestionsInTasks", functionalTaskQuestions},
		{"ParallelTasksAskAtOnce", functionalParallelQuestions},
		{"FalsyResultsAreRecorded", functionalFalsy},
		{"ManyResumes", functionalManyResumes},
		{"RecordedResultsAreNotWrittenAgain", functionalNoRedundantWrites},
		{"TaskCache", functionalCache},
		{"TaskRetry", functionalRetry},
		{"TaskTimeout", functionalTimeout},
		{"CaughtTaskError", functionalCaught},
		{"FailedTaskRunsAgain", functionalFailed},
		{"FailureCancelsTasks", functionalCancel},
		{"TaskIsCancelledByItsContext", functionalCancelTask},
		{"UnawaitedFutures", functionalUnawaited},
		{"OrderChanged", functionalOrder},
		{"FreshCopies", functionalCopies},
		{"OutsideRun", functionalOutside},
		{"BadTasks", functionalBad},
		{"Previous", functionalPrevious},
		{"PreviousAfterUpdate", functionalPreviousUpdate},
		{"Final", functionalFinal},
		{"Names", functionalNames},
		{"Inputs", functionalInputs},
		{"CallsGraphsAndWorkflows", functionalCalls},
		{"TasksInGraphNodes", functionalInNodes},
		{"NestedTasksAreNotRerun", functionalNestedResume},
		{"Identity", functionalIdentity},
		{"WithoutSaver", functionalWithoutSaver},
	} {
		t.Run(s.name, func(t *testing.T) { s.test(t, open) })
	}
}

// workflow builds a workflow of a function that is given the tally.
func workflow[In, Out any](fn func(c *askTally, ctx context.Context, in In) (Out, error), opts ...treadle.NodeOption) askBuild[In, Out] {
	return func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[In, Out], error) {
		return treadle.NewWorkflow("flow", func(ctx context.Context, in In) (Out, error) { return fn(c, ctx, in) }, &treadle.Options{Saver: saver}, opts...)
	}
}

// gave checks that a workflow returned want.
func gave[Out any](t *testing.T, out Out, err error, want Out) {
	t.Helper()
	if err != nil {
		t.Fatalf("the workflow failed: %v", err)
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Fatalf("result (-want +got):\n%s", diff)
	}
}

// doubled is a task that counts its calls.
func doubled(c *askTally) *treadle.Task[int, string] {
	return treadle.NewTask("double", func(_ context.Context, n int) (string, error) {
		c.add(fmt.Sprint("double ", n))
		return fmt.Sprint(n, n), nil
	})
}

func waitAll[Out any](futures ...*treadle.Future[Out]) ([]Out, error) {
	var outs []Out
	for _, f := range futures {
		out, err := f.Wait()
		if err != nil {
			return nil, err
		}
		outs = append(outs, out)
	}
	return outs, nil
}

func functionalTasks(t *testing.T, open opener) {
	build := workflow(func(c *askTally, ctx context.Context, in []int) ([]string, error) {
		c.add("flow")
		task := doubled(c)
		var fs []*treadle.Future[string]
		for _, n := range in {
			fs = append(fs, task.Go(ctx, n))
		}
		outs, err := waitAll(fs...)
		if err != nil {
			return nil, err
		}
		answer, err := treadle.Interrupt[string](ctx, "question")
		if err != nil {
			return nil, err
		}
		for i := range outs {
			outs[i] += answer
		}
		return outs, nil
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[[]int, []string]) {
		_, err := rig.thread().Run(t.Context(), []int{0, 1})
		askedStrings(t, err, "question")
		rig.tally.want(t, "flow", "double 0", "double 1")
		out, err := rig.thread().Resume(t.Context(), "answer")
		gave(t, out, err, []string{"0 0answer", "1 1answer"})
		rig.tally.want(t, "flow")
	})
}

func functionalNested(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[[]int, []string], error) {
		type numbers struct {
			N treadle.List[string]
		}
		b := treadle.New[numbers]("adder")
		treadle.AddNode(b, "add", func(_ context.Context, s numbers) (numbers2[string], error) {
			c.add("add")
			return numbers2[string]{N: treadle.List[string]{"+" + s.N[0]}}, nil
		})
		b.Edge(treadle.Start, "add")
		g, err := b.Compile(nil)
		if err != nil {
			return nil, err
		}
		inner := treadle.NewTask("inner", func(_ context.Context, n int) (string, error) { c.add("inner"); return fmt.Sprint(n), nil })
		outer := treadle.NewTask("outer", func(ctx context.Context, n int) (string, error) {
			c.add("outer")
			s, err := inner.Run(ctx, n)
			return s + s, err
		})
		return treadle.NewWorkflow("flow", func(ctx context.Context, in []int) ([]string, error) {
			var fs []*treadle.Future[string]
			for _, n := range in {
				fs = append(fs, outer.Go(ctx, n))
			}
			outs, err := waitAll(fs...)
			if err != nil {
				return nil, err
			}
			added, err := g.Run(ctx, numbers{N: treadle.List[string]{outs[0]}})
			if err != nil {
				return nil, err
			}
			answer, err := treadle.Interrupt[string](ctx, "question")
			return append(outs, added.N[1], answer), err
		}, &treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[[]int, []string]) {
		var lines []string
		for ev, err := range rig.thread().Stream(t.Context(), []int{0, 1}) {
			if err != nil {
				askedStrings(t, err, "question")
				continue
			}
			lines = append(lines, askLine(ev))
		}
		slices.Sort(lines)
		if diff := cmp.Diff([]string{`interrupted flow "question" before [] after []`, `update inner "0"`, `update inner "1"`, `update outer "00"`, `update outer "11"`}, lines); diff != "" {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
		rig.tally.want(t, "inner", "inner", "outer", "outer", "add")
		out, err := rig.thread().Resume(t.Context(), "A")
		gave(t, out, err, []string{"00", "11", "+00", "A"})
		rig.tally.want(t) // the graph had ended too
	})
}

type numbers2[T any] struct{ N treadle.List[T] }

func functionalStream(t *testing.T, open opener) {
	build := workflow(func(c *askTally, ctx context.Context, in string) (string, error) {
		say := func(name string) *treadle.Task[string, string] {
			return treadle.NewTask(name, func(_ context.Context, s string) (string, error) { return s + name, nil })
		}
		foo, err := say("foo").Run(ctx, in)
		if err != nil {
			return "", err
		}
		treadle.Emit(ctx, "half way")
		bar := say("bar").Go(ctx, foo)
		b, err := bar.Wait()
		if err != nil {
			return "", err
		}
		return say("baz").Run(ctx, b)
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[string, string]) {
		var lines []string
		for ev, err := range rig.thread().Stream(t.Context(), "x", treadle.Modes(treadle.ModeUpdates, treadle.ModeCustom, treadle.ModeValues)) {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, askLine(ev))
		}
		if diff := cmp.Diff([]string{`update foo "xfoo"`, "custom half way", `update bar "xfoobar"`, `update baz "xfoobarbaz"`, `update flow "xfoobarbaz"`,
			`values "xfoobarbaz" pauses 0`, "treadle.Finished[string]"}, lines); diff != "" {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
		snap := askNext(t, rig)
		if snap.Values.String() != `"xfoobarbaz"` {
			t.Errorf("values %s, want what was returned", snap.Values)
		}
	})
}

func functionalEager(t *testing.T, open opener) {
	release := make(chan struct{})
	build := workflow(func(_ *askTally, ctx context.Context, _ int) (string, error) {
		fast := treadle.NewTask("fast", func(context.Context, int) (string, error) { return "f", nil }).Go(ctx, 0)
		slow := treadle.NewTask("slow", func(ctx context.Context, _ int) (string, error) {
			select {
			case <-release: // the reader has seen what fast did
				return "s", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}).Go(ctx, 0)
		outs, err := waitAll(fast, slow)
		return strings.Join(outs, ""), err
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		var lines []string
		for ev, err := range rig.thread().Stream(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, askLine(ev))
			if ev.Where().Node == "fast" {
				release <- struct{}{}
			}
		}
		if diff := cmp.Diff([]string{`update fast "f"`, `update slow "s"`, `update flow "fs"`, "treadle.Finished[string]"}, lines); diff != "" {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
	})
}

func functionalBody(t *testing.T, open opener) {
	build := workflow(func(c *askTally, ctx context.Context, in string) (string, error) {
		c.add("flow")
		a, err := treadle.Interrupt[string](ctx, "foo?")
		if err != nil {
			return "", err
		}
		b, err := treadle.Interrupt[int](ctx, "bar?")
		return fmt.Sprint(in, a, b), err
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[string, string]) {
		_, err := rig.thread().Run(t.Context(), "x")
		askedStrings(t, err, "foo?")
		_, err = rig.thread().Resume(t.Context(), "A")
		askedStrings(t, err, "bar?")
		askUnchanged(t, rig.saver, "an answer of another type", func() {
			_, err := rig.thread().Resume(t.Context(), "B")
			if bad, ok := errors.AsType[*treadle.AnswerError](err); !ok || string(bad.Answer) != `"B"` {
				t.Errorf("%v, want an AnswerError", err)
			}
		})
		out, err := rig.thread().Resume(t.Context(), 7)
		gave(t, out, err, "xA7")
		rig.tally.want(t, "flow", "flow", "flow")
	})
}

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
		// All questions surface at once, each once, in the order of the calls.
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

// countingSaver counts the results that are stored.
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

func functionalCache(t *testing.T, open opener) {
	saver, cache, c := open(t), checkpoint.NewMemoryCache(), &askTally{}
	build := func() *treadle.Graph[int, string] {
		task := treadle.NewTask("double", func(_ context.Context, n int) (string, error) {
			c.add(fmt.Sprint("double ", n))
			if n < 0 {
				return "", errors.New("negative")
			}
			return fmt.Sprint(n, n), nil
		}, treadle.Cache(0))
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
	turn("u", 15, "15 15 5!") // the other task goes by its own key
	c.want(t, "double 15")
	for range 2 { // a failure is not kept
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

// A clock of one's own is no place for a database, whose connections have
// deadlines by the other clock: this and the next test are on memory.
func functionalRetry(t *testing.T, _ opener) {
	errFlaky := errors.New("flaky")
	retry := treadle.Retry(treadle.RetryPolicy{Initial: time.Second, NoJitter: true, Attempts: 3, On: func(err error) bool { return errors.Is(err, errFlaky) }})
	build := workflow(func(c *askTally, ctx context.Context, fail int) (string, error) {
		task := treadle.NewTask("task", func(ctx context.Context, _ int) (string, error) {
			attempt := treadle.RunInfo(ctx).Attempt
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
			if waited := time.Since(start).Truncate(time.Second); waited != []time.Duration{0, 1, 3, 3}[c.fail]*time.Second {
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
		return "went on", nil
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		var lines []string
		for ev, err := range rig.thread().Stream(t.Context(), 0) {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, askLine(ev))
		}
		if diff := cmp.Diff([]string{`update flow "went on"`, "treadle.Finished[string]"}, lines); diff != "" {
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
			t.Errorf("the failure is %q", snap.Tasks[0].Error)
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
			c.add("cancelled")
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
		rig.tally.want(t, "cancelled") // the run has waited for it
		if cause == nil || !strings.Contains(cause.Error(), `"flow" failed`) || !errors.Is(cause, context.Canceled) {
			t.Errorf("the task was cancelled with %v", cause)
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
			return "", fmt.Errorf("want a cancelled task: %w", err)
		}
		return other.Wait()
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		out, err := rig.thread().Run(t.Context(), 0)
		gave(t, out, err, "1 1")
		rig.tally.want(t, "hangs ended", "double 1")
		// Cancelling the run reaches its tasks; what finished stays recorded.
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := rig.thread().Run(ctx, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want a cancelled run", err)
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
		defer close(release) // it ends after the workflow has returned
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
		out := ""
		for _, name := range names {
			s, err := treadle.Do(ctx, name, func(context.Context) (string, error) { return name, nil })
			if err != nil {
				return "", err
			}
			out += s
		}
		a, err := treadle.Interrupt[string](ctx, "q")
		return out + a, err
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
		// With the old order it goes on, and the answer is there.
		names = []string{"a", "b"}
		out, err := rig.thread().Continue(t.Context())
		gave(t, out, err, "ab!")
	})
}

func functionalCopies(t *testing.T, open opener) {
	build := workflow(func(_ *askTally, ctx context.Context, _ int) (map[string]int, error) {
		kept := map[string]int{"n": 1}
		f := treadle.NewTask("make", func(context.Context, int) (map[string]int, error) { return kept, nil }).Go(ctx, 0)
		first, err := f.Wait()
		if err != nil {
			return nil, err
		}
		first["n"], kept["n"] = 50, 60
		second, err := f.Wait()
		if err != nil {
			return nil, err
		}
		if reflect.ValueOf(first).Pointer() == reflect.ValueOf(second).Pointer() || second["n"] != 1 {
			return nil, fmt.Errorf("the second result is %v", second)
		}
		if _, err := treadle.Interrupt[string](ctx, "q"); err != nil {
			return nil, err
		}
		return second, nil
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, map[string]int]) {
		_, err := rig.thread().Run(t.Context(), 0)
		askedStrings(t, err, "q")
		out, err := rig.thread().Resume(t.Context(), "A")
		gave(t, out, err, map[string]int{"n": 1})
	})
}

func functionalOutside(t *testing.T, _ opener) {
	task := doubled(&askTally{})
	if _, err := task.Run(t.Context(), 1); !errors.Is(err, treadle.ErrOutsideRun) || !strings.Contains(err.Error(), "double") {
		t.Errorf("a task outside a run: %v, want ErrOutsideRun and its name", err)
	}
	if _, err := task.Go(t.Context(), 1).Wait(); !errors.Is(err, treadle.ErrOutsideRun) {
		t.Errorf("a future outside a run: %v, want ErrOutsideRun", err)
	}
	if _, err := treadle.Do(t.Context(), "x", func(context.Context) (int, error) { return 1, nil }); !errors.Is(err, treadle.ErrOutsideRun) {
		t.Errorf("Do outside a run: %v, want ErrOutsideRun", err)
	}
	if _, ok := treadle.Previous[int](t.Context()); ok {
		t.Error("a previous value outside a run")
	}
	if info := treadle.RunInfo(t.Context()); info.TaskID != "" || info.IdempotencyKey != "" {
		t.Errorf("info outside a run: %+v", info)
	}
}

func functionalBad(t *testing.T, open opener) {
	if _, err := treadle.NewWorkflow[int, int]("flow", nil, nil); err == nil {
		t.Error("a workflow without a function compiles")
	} else if _, ok := errors.AsType[*treadle.BuildError](err); !ok {
		t.Errorf("%v, want a BuildError", err)
	}
	if _, err := treadle.NewWorkflow("", func(context.Context, int) (int, error) { return 0, nil }, nil); err == nil {
		t.Error("a workflow without a name compiles")
	}
	// A result that cannot be stored, such as a channel to read more from, is
	// refused: at compile for a workflow, and for a task where it returns.
	if _, err := treadle.NewWorkflow("flow", func(context.Context, int) (chan int, error) { return nil, nil }, &treadle.Options{Saver: open(t)}); err == nil {
		t.Error("a workflow that returns a channel compiles")
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
	for which, want := range map[string]string{"unnamed": "needs a name", "nil": `task "nil"`, "channel": "no JSON"} {
		if _, err := rig.thread().Run(t.Context(), which); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", which, err, want)
		}
	}
}

func functionalPrevious(t *testing.T, open opener) {
	build := workflow(func(_ *askTally, ctx context.Context, in string) (string, error) {
		prev, ok := treadle.Previous[string](ctx)
		if _, other := treadle.Previous[int](ctx); other {
			return "", errors.New("a string is given as an int")
		}
		if in == "ask" {
			if _, err := treadle.Interrupt[string](ctx, "q"); err != nil {
				return "", err
			}
		}
		if in == "fail" {
			return "", errors.New("failed")
		}
		return fmt.Sprintf("%s after %q %v", in, prev, ok), nil
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[string, string]) {
		out, err := rig.thread().Run(t.Context(), "one")
		gave(t, out, err, `one after "" false`)
		out, err = rig.thread().Run(t.Context(), "two")
		gave(t, out, err, `two after "one after \"\" false" true`)
		// A run that fails saves nothing; one that is abandoned neither.
		if _, err := rig.thread().Run(t.Context(), "fail"); err == nil {
			t.Fatal("no failure")
		}
		_, err = rig.thread().Run(t.Context(), "ask")
		askedStrings(t, err, "q")
		out, err = rig.thread().Resume(t.Context(), "x")
		gave(t, out, err, `ask after "two after \"one after \\\"\\\" false\" true" true`)
		out, err = rig.graph().Thread("another").Run(t.Context(), "one")
		gave(t, out, err, `one after "" false`)
		for range 2 { // without a thread there is nothing before
			out, err = rig.graph().Run(t.Context(), "one")
			gave(t, out, err, `one after "" false`)
		}
	})
}

func functionalPreviousUpdate(t *testing.T, open opener) {
	build := workflow(func(_ *askTally, ctx context.Context, in int) (int, error) {
		prev, _ := treadle.Previous[int](ctx)
		return prev + in, nil
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, int]) {
		out, err := rig.thread().Run(t.Context(), 5)
		gave(t, out, err, 5)
		if _, err := rig.graph().Open("t").UpdateJSON(t.Context(), json.RawMessage(`100`)); err != nil {
			t.Fatal(err)
		}
		if snap := askNext(t, rig); snap.Values.String() != "100" {
			t.Errorf("values %s", snap.Values)
		}
		out, err = rig.thread().Run(t.Context(), 1)
		gave(t, out, err, 101)
		if _, err := rig.thread().Update(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
		out, err = rig.thread().Run(t.Context(), 1)
		gave(t, out, err, 8)
		askUnchanged(t, rig.saver, "an edit of another type", func() {
			if _, err := rig.graph().Open("t").UpdateJSON(t.Context(), json.RawMessage(`"seven"`)); err == nil {
				t.Error("a workflow of numbers takes a string")
			} else if _, ok := errors.AsType[*treadle.UpdateError](err); !ok {
				t.Errorf("%v, want an UpdateError", err)
			}
		})
	})
}

func functionalFinal(t *testing.T, open opener) {
	type saved struct {
		Sum int `json:"sum"`
	}
	build := func(saver checkpoint.Saver, _ *askTally) (*treadle.Graph[int, string], error) {
		return treadle.NewFinalWorkflow("flow", func(ctx context.Context, in int) (treadle.Final[string, *saved], error) {
			prev, ok := treadle.Previous[*saved](ctx)
			if !ok || prev == nil {
				prev = &saved{}
			}
			out := treadle.Final[string, *saved]{Value: fmt.Sprint("was ", prev.Sum), Save: &saved{prev.Sum + in}}
			if in == 0 {
				out = treadle.Final[string, *saved]{} // neither a value nor something saved
			}
			return out, nil
		}, &treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		for _, c := range []struct {
			in   int
			want string
		}{{3, "was 0"}, {4, "was 3"}, {0, ""}, {1, "was 0"}} {
			out, err := rig.thread().Run(t.Context(), c.in)
			gave(t, out, err, c.want)
		}
		if snap := askNext(t, rig); snap.Values.String() != `"was 0"` {
			t.Errorf("values %s, want what was returned", snap.Values)
		}
	})
}

type namedMethods struct{ prefix string }

func (m namedMethods) Say(_ context.Context, s string) (string, error) { return m.prefix + s, nil }

func functionalNames(t *testing.T, open opener) {
	with := func(prefix string) func(context.Context, string) (string, error) {
		return func(_ context.Context, s string) (string, error) { return prefix + s, nil }
	}
	tasks := []*treadle.Task[string, string]{
		treadle.NewTask("a method", namedMethods{"m"}.Say),
		treadle.NewTask("a closure", with("c")),
		treadle.NewTask("a literal", func(_ context.Context, s string) (string, error) { return "l" + s, nil }),
		treadle.NewTask("a method", with("again ")), // two tasks may share a name
	}
	build := workflow(func(_ *askTally, ctx context.Context, in string) (string, error) {
		for _, task := range tasks {
			var err error
			if in, err = task.Run(ctx, in); err != nil {
				return "", err
			}
		}
		return in, nil
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[string, string]) {
		var lines []string
		for ev, err := range rig.thread().Stream(t.Context(), "x") {
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, askLine(ev))
		}
		if diff := cmp.Diff([]string{`update a method "mx"`, `update a closure "cmx"`, `update a literal "lcmx"`, `update a method "again lcmx"`,
			`update flow "again lcmx"`, "treadle.Finished[string]"}, lines); diff != "" {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
		if tasks[0].Name() != "a method" {
			t.Errorf("name %q", tasks[0].Name())
		}
	})
}

// What a task needs comes in its argument and its context; an argument is never
// replaced by what the run has.
func functionalInputs(t *testing.T, open opener) {
	type request struct {
		User   string
		Thread string
		N      []int
	}
	build := workflow(func(_ *askTally, ctx context.Context, user string) (string, error) {
		return treadle.NewTask("task", func(ctx context.Context, in request) (string, error) {
			c, _ := treadle.ContextOf[string](ctx)
			info := treadle.RunInfo(ctx)
			return fmt.Sprint(in.User, in.Thread, in.N, " in ", c, info.Thread, info.Node, info.Graph), nil
		}).Run(ctx, request{User: user, Thread: "mine", N: []int{1, 2}})
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[string, string]) {
		out, err := rig.thread(treadle.Context("ctx ")).Run(t.Context(), "eve ")
		gave(t, out, err, "eve mine[1 2] in ctx ttaskflow")
	})
}

func functionalCalls(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[string, string], error) {
		b := treadle.New[askState]("graph")
		treadle.AddNode(b, "n", askNode(c, "n"))
		b.Edge(treadle.Start, "n")
		g, err := b.Compile(nil)
		if err != nil {
			return nil, err
		}
		inner, err := treadle.NewWorkflow("inner", func(ctx context.Context, s string) (string, error) {
			c.add("inner")
			d, err := treadle.Do(ctx, "effect", func(context.Context) (string, error) { c.add("effect"); return s + "!", nil })
			if err != nil {
				return "", err
			}
			a, err := treadle.Interrupt[string](ctx, "inner?")
			return d + a, err
		}, nil)
		if err != nil {
			return nil, err
		}
		inTask := treadle.NewTask("task", func(ctx context.Context, s string) (string, error) { c.add("task"); return inner.Run(ctx, s) })
		return treadle.NewWorkflow("outer", func(ctx context.Context, s string) (string, error) {
			c.add("outer")
			one, err := inner.Run(ctx, s)
			if err != nil {
				return "", err
			}
			two, err := g.Run(ctx, askState{})
			if err != nil {
				return "", err
			}
			three, err := inTask.Run(ctx, "t")
			return one + two.Log[0] + three, err
		}, &treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[string, string]) {
		_, err := rig.thread().Run(t.Context(), "x")
		askedStrings(t, err, "inner?")
		rig.tally.want(t, "outer", "inner", "effect")
		_, err = rig.thread().Resume(t.Context(), "1 ")
		askedStrings(t, err, "n?")
		rig.tally.want(t, "outer", "inner", "n")
		_, err = rig.thread().Resume(t.Context(), "2 ")
		askedStrings(t, err, "inner?")
		rig.tally.want(t, "outer", "n", "task", "inner", "effect")
		out, err := rig.thread().Resume(t.Context(), "3")
		gave(t, out, err, "x!1 n=2 t!3")
		rig.tally.want(t, "outer", "task", "inner")
	})
}

func functionalInNodes(t *testing.T, open opener) {
	build := askChain(doing("n", func(c *askTally, ctx context.Context, s askState) (askLog, error) {
		task := doubled(c)
		outs, err := waitAll(task.Go(ctx, 1), task.Go(ctx, 2))
		if err != nil {
			return askLog{}, err
		}
		a, err := treadle.Interrupt[string](ctx, "n?")
		return askSay(append(outs, a)...), err
	}), doing("m", func(c *askTally, ctx context.Context, s askState) (askLog, error) {
		out, err := doubled(c).Run(ctx, 1) // the same call in another step is another one
		return askSay(out), err
	}))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "n?")
		rig.tally.want(t, "double 1", "double 2")
		out, err := rig.thread().Resume(t.Context(), "A")
		askEnded(t, out, err, "1 1", "2 2", "A", "1 1")
		rig.tally.want(t, "double 1")
	})
}

// In a nested graph what finished is not run again either: nodes beside the one
// that asked, tasks, and graphs further down.
func functionalNestedResume(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		leaf := treadle.New[askState]("leaf")
		treadle.AddNode(leaf, "work", func(ctx context.Context, _ askState) (askLog, error) {
			s, err := doubled(c).Run(ctx, 7)
			if err != nil {
				return askLog{}, err
			}
			a, err := treadle.Interrupt[string](ctx, "work?")
			return askSay(s + a), err
		})
		treadle.AddNode(leaf, "beside", askPlain(c, "beside"))
		leaf.Edge(treadle.Start, "work")
		leaf.Edge(treadle.Start, "beside")
		g, err := leaf.Compile(nil)
		if err != nil {
			return nil, err
		}
		b := treadle.New[askState]("root")
		treadle.AddGraph(b, "sub", g)
		b.Edge(treadle.Start, "sub")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "work?")
		rig.tally.want(t, "double 7", "beside")
		out, err := rig.thread().Resume(t.Context(), "!")
		askEnded(t, out, err, "beside", "7 7!")
		rig.tally.want(t)
	})
}

func functionalIdentity(t *testing.T, open opener) {
	var keys []string
	fail := true
	build := workflow(func(_ *askTally, ctx context.Context, _ int) (string, error) {
		effect := treadle.NewTask("effect", func(ctx context.Context, n int) (string, error) {
			info := treadle.RunInfo(ctx)
			if info.TaskID == "" || info.IdempotencyKey == "" || info.Node != "effect" {
				return "", fmt.Errorf("info %+v", info)
			}
			keys = append(keys, info.IdempotencyKey)
			if fail {
				return "", errors.New("fail")
			}
			return "", nil
		})
		_, first := effect.Run(ctx, 1)
		_, second := effect.Run(ctx, 2)
		return "", errors.Join(first, second)
	})
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[int, string]) {
		keys, fail = nil, true
		if _, err := rig.thread().Run(t.Context(), 0); err == nil {
			t.Fatal("no failure")
		}
		snap := askNext(t, rig, "flow")
		if _, err := rig.thread().Continue(t.Context()); err == nil {
			t.Fatal("no failure")
		}
		if len(keys) != 4 || keys[0] != keys[2] || keys[1] != keys[3] || keys[0] == keys[1] {
			t.Fatalf("keys %q, want two, the same on the second try", keys)
		}
		fail = false
		if _, err := rig.thread().At(snap.Parent).Continue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(keys) != 6 || slices.Contains(keys[:4], keys[4]) || slices.Contains(keys[:4], keys[5]) {
			t.Errorf("keys %q, want new ones on a fork", keys)
		}
		// The next turn has keys of its own too.
		if _, err := rig.thread().Run(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(keys[:6], keys[6]) {
			t.Errorf("the second turn has the keys of the first: %q", keys)
		}
	})
}

func functionalWithoutSaver(t *testing.T, _ opener) {
	errFlaky := errors.New("flaky")
	c := &askTally{}
	build := workflow(func(c *askTally, ctx context.Context, n int) (string, error) {
		s, err := doubled(c).Run(ctx, n)
		if err != nil {
			return "", err
		}
		if treadle.RunInfo(ctx).Attempt == 1 {
			return "", errFlaky
		}
		return s, nil
	}, treadle.Retry(treadle.RetryPolicy{Initial: 1, NoJitter: true, On: func(err error) bool { return errors.Is(err, errFlaky) }}))
	g, err := build(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // nothing is kept from run to run
		out, err := g.Run(t.Context(), 4)
		gave(t, out, err, "4 4")
		c.want(t, "double 4") // and within one the retry finds the result
	}
}
