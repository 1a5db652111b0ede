package threadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

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

// functionalInputs checks that a task gets its data from its argument and its context;
// values of the run, such as its thread, never replace fields of the argument.
func functionalInputs(t *testing.T, open opener) {
	type request struct {
		User   string
		Thread string
		N      []int
	}
	build := workflow(func(_ *askTally, ctx context.Context, user string) (string, error) {
		return treadle.NewTask("task", func(ctx context.Context, in request) (string, error) {
			c, _ := treadle.ContextFrom[string](ctx)
			info := treadle.InfoFrom(ctx)
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
		out, err := doubled(c).Run(ctx, 1) // the same call in another step is a different call
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

// functionalNestedResume checks that finished work in a subgraph does not run again
// either: nodes next to the interrupted node, tasks, and deeper graphs.
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
			info := treadle.InfoFrom(ctx)
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
		// The next turn has different keys.
		if _, err := rig.thread().Run(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(keys[:6], keys[6]) {
			t.Errorf("second turn has the keys of the first: %q", keys)
		}
	})
}
