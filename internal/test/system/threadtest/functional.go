package threadtest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// Functional is the suite for workflows, tasks, futures, and recorded effects.
var Functional = Suite{
	{"ParallelTasksAndQuestion", concurrent, functionalTasks},
	{"TasksInTasks", sequential, functionalNested},
	{"StreamOrder", sequential, functionalStream},
	{"UpdatesArriveAsTasksFinish", sequential, functionalEager},
	{"QuestionsInBody", sequential, functionalBody},
	{"QuestionsInTasks", sequential, functionalTaskQuestions},
	{"ParallelTasksAskAtOnce", concurrent, functionalParallelQuestions},
	{"FalsyResultsAreRecorded", sequential, functionalFalsy},
	{"ManyResumes", sequential, functionalManyResumes},
	{"RecordedResultsAreNotWrittenAgain", sequential, functionalNoRedundantWrites},
	{"TaskCache", sequential, functionalCache},
	{"EqualTasksAtOnce", concurrent, functionalCacheAtOnce},
	{"NamespacesOfWhatTasksEmit", sequential, functionalCustomNamespace},
	{"TaskRetry", sequential, functionalRetry},
	{"TaskTimeout", sequential, functionalTimeout},
	{"CaughtTaskError", sequential, functionalCaught},
	{"FailedTaskRunsAgain", sequential, functionalFailed},
	{"FailureCancelsTasks", concurrent, functionalCancel},
	{"TaskIsCancelledByItsContext", sequential, functionalCancelTask},
	{"UnawaitedFutures", concurrent, functionalUnawaited},
	{"OrderChanged", sequential, functionalOrder},
	{"FreshCopies", sequential, functionalCopies},
	{"OutsideRun", sequential, functionalOutside},
	{"BadTasks", sequential, functionalBad},
	{"Previous", sequential, functionalPrevious},
	{"PreviousAfterUpdate", sequential, functionalPreviousUpdate},
	{"Final", sequential, functionalFinal},
	{"Names", sequential, functionalNames},
	{"Inputs", sequential, functionalInputs},
	{"CallsGraphsAndWorkflows", sequential, functionalCalls},
	{"TasksInGraphNodes", sequential, functionalInNodes},
	{"NestedTasksAreNotRerun", sequential, functionalNestedResume},
	{"Identity", sequential, functionalIdentity},
	{"WithoutSaver", sequential, functionalWithoutSaver},
}

// workflow builds a workflow from a function that receives the tally.
func workflow[In, Out any](fn func(c *askTally, ctx context.Context, in In) (Out, error), opts ...treadle.NodeOption) askBuild[In, Out] {
	return func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[In, Out], error) {
		return treadle.NewWorkflow("flow", func(ctx context.Context, in In) (Out, error) { return fn(c, ctx, in) }, &treadle.Options{Saver: saver}, opts...)
	}
}

// gave checks that a workflow returned want.
func gave[Out any](t *testing.T, out Out, err error, want Out) {
	t.Helper()
	if err != nil {
		t.Fatalf("workflow failed: %v", err)
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Fatalf("result (-want +got):\n%s", diff)
	}
}

// doubled returns a task that counts its calls.
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
			N reduce.List[string]
		}
		b := treadle.New[numbers]("adder")
		treadle.AddNode(b, "add", func(_ context.Context, s numbers) (numbers2[string], error) {
			c.add("add")
			return numbers2[string]{N: reduce.List[string]{"+" + s.N[0]}}, nil
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
			added, err := g.Run(ctx, numbers{N: reduce.List[string]{outs[0]}})
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
		rig.tally.want(t) // the graph had finished too
	})
}

type numbers2[T any] struct{ N reduce.List[T] }

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
		if snap.State.String() != `"xfoobarbaz"` {
			t.Errorf("values %s, want what was returned", snap.State)
		}
	})
}

func functionalEager(t *testing.T, open opener) {
	release := make(chan struct{})
	build := workflow(func(_ *askTally, ctx context.Context, _ int) (string, error) {
		fast := treadle.NewTask("fast", func(context.Context, int) (string, error) { return "f", nil }).Go(ctx, 0)
		slow := treadle.NewTask("slow", func(ctx context.Context, _ int) (string, error) {
			select {
			case <-release: // the reader has seen the result of fast
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
			return nil, fmt.Errorf("second result: %v", second)
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
