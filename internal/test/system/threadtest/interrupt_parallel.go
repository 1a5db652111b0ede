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

func interruptParallel(t *testing.T, open opener) {
	askBothWays(t, open, askFan(asking("a"), asking("b"), asking("c"), plain("d")), func(t *testing.T, rig *askRig[askState, askState]) {
		out, err := rig.thread().Run(t.Context(), askState{})
		ps := askedStrings(t, err, "a?", "b?", "c?")
		if !slices.Equal(out.Log, []string{"d"}) {
			t.Errorf("what finished is %q, want d", out.Log)
		}
		rig.tally.want(t, "a", "b", "c", "d")
		if snap := askNext(t, rig, "a", "b", "c"); snap.State.String() != `{"log":["d"]}` {
			t.Errorf("values %s", snap.State)
		}
		askUnchanged(t, rig.saver, "an ambiguous answer", func() {
			if _, err := rig.thread().Resume(t.Context(), "x"); !errors.Is(err, treadle.ErrAmbiguousResume) {
				t.Errorf("%v, want ErrAmbiguousResume", err)
			}
		})
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[1].ID: "B"})
		askedStrings(t, err, "a?", "c?")
		rig.tally.want(t, "a", "b", "c")
		snap := askNext(t, rig, "a", "c")
		askQuestions(t, snap.Pauses, "a?", "c?")
		if snap.State.String() != `{"log":["b=B","d"]}` {
			t.Errorf("values %s", snap.State)
		}
		// An answered interrupt is no longer pending.
		askUnchanged(t, rig.saver, "a second answer", func() {
			if _, err := rig.thread().Resume(t.Context(), treadle.Answers{ps[1].ID: "again"}); !errors.Is(err, treadle.ErrUnknownInterrupt) {
				t.Errorf("%v, want ErrUnknownInterrupt", err)
			}
		})
		// Without answers, the questions are asked again.
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{})
		askedStrings(t, err, "a?", "c?")
		rig.tally.want(t, "a", "c")
		var lines []string
		for ev, err := range rig.thread().ResumeStream(t.Context(), treadle.Answers{ps[2].ID: "C"}) {
			if err != nil {
				askedStrings(t, err, "a?")
				continue
			}
			lines = append(lines, askLine(ev))
		}
		slices.Sort(lines)
		if diff := cmp.Diff([]string{
			`interrupted a "a?" before [] after []`,
			`update b {"log":["b=B"]} cached`,
			`update c {"log":["c=C"]}`,
			`update d {"log":["d"]} cached`,
		}, lines); diff != "" {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
		rig.tally.want(t, "a", "c")
		out, err = rig.thread().Resume(t.Context(), "A") // only one is pending, so a plain answer suffices
		askEnded(t, out, err, "a=A", "b=B", "c=C", "d")
		rig.tally.want(t, "a")
	})
}

func interruptParallelDouble(t *testing.T, open opener) {
	twice := func(name string) func(*treadle.Builder[askState], *askTally) string {
		return doing(name, func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
			c.add(name)
			one, err := treadle.Interrupt[string](ctx, name+"1")
			if err != nil {
				return askLog{}, err
			}
			two, err := treadle.Interrupt[string](ctx, name+"2")
			if err != nil {
				return askLog{}, err
			}
			return askSay(name + one + two), nil
		})
	}
	askBothWays(t, open, askFan(twice("a"), twice("b")), func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		ps := askedStrings(t, err, "a1", "b1")
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: "x"})
		ps = askedStrings(t, err, "a2", "b1")
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[1].ID: "y"})
		ps = askedStrings(t, err, "a2", "b2")
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[1].ID: "z"})
		askedStrings(t, err, "a2")
		out, err := rig.thread().Resume(t.Context(), "w")
		askEnded(t, out, err, "axw", "byz")
		rig.tally.want(t, "a", "b", "a", "b", "a", "b", "a", "b", "a")
	})
}

func interruptSibling(t *testing.T, open opener) {
	asked := make(chan struct{}, 10)
	build := askFan(doing("asks", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		c.add("asks")
		a, err := treadle.Interrupt[string](ctx, "go?")
		asked <- struct{}{}
		return askSay(a), err
	}), doing("works", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		c.add("works")
		<-asked // the interrupt is pending, and this node keeps running
		return askSay("worked"), ctx.Err()
	}))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		out, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "go?")
		if !slices.Equal(out.Log, []string{"worked"}) {
			t.Errorf("log %q", out.Log)
		}
		out, err = rig.thread().Resume(t.Context(), "yes")
		askEnded(t, out, err, "yes", "worked")
		rig.tally.want(t, "asks", "works", "asks")
		<-asked
	})
}

func interruptSiblingFails(t *testing.T, open opener) {
	errBoom := errors.New("boom")
	broken := true
	build := askFan(asking("a"), doing("b", func(c *askTally, _ context.Context, _ askState) (askLog, error) {
		c.add("b")
		if broken {
			return askLog{}, errBoom
		}
		return askSay("b"), nil
	}))
	// One at a time, so that a has interrupted when b fails.
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		broken = true
		_, err := rig.thread(treadle.MaxConcurrency(1)).Run(t.Context(), askState{})
		if !errors.Is(err, errBoom) {
			t.Fatalf("%v, want the failure", err)
		}
		if _, ok := errors.AsType[*treadle.InterruptError](err); ok {
			t.Errorf("failure also is a pause: %v", err)
		}
		snap := askNext(t, rig, "a", "b")
		askQuestions(t, snap.Pauses, "a?")
		rig.tally.want(t, "a", "b")
		// The interrupt can still be answered; the answer is kept while b keeps failing.
		_, err = rig.thread(treadle.MaxConcurrency(1)).Resume(t.Context(), "A")
		if !errors.Is(err, errBoom) {
			t.Fatalf("%v, want the failure", err)
		}
		rig.tally.want(t, "a", "b")
		snap = askNext(t, rig, "b")
		askQuestions(t, snap.Pauses)
		broken = false
		out, err := rig.thread().Continue(t.Context())
		askEnded(t, out, err, "a=A", "b")
		rig.tally.want(t, "b")
	})
}

func interruptNodesBefore(t *testing.T, open opener) {
	askBothWays(t, open, askChain(plain("one"), plain("two"), asking("ask"), plain("three"), asking("again")), func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "ask?")
		rig.tally.want(t, "one", "two", "ask")
		_, err = rig.thread().Resume(t.Context(), "x")
		askedStrings(t, err, "again?")
		rig.tally.want(t, "ask", "three", "again")
		out, err := rig.thread().Resume(t.Context(), "y")
		askEnded(t, out, err, "one", "two", "ask=x", "three", "again=y")
		rig.tally.want(t, "again")
	})
}

// interruptCalls checks an interrupt deep in the functions that a node calls, as in an
// agent's tool; some of them run as tasks.
func interruptCalls(t *testing.T, open opener) {
	tool := func(c *askTally, name string) *treadle.Task[string, string] {
		return treadle.NewTask(name, func(ctx context.Context, arg string) (string, error) {
			c.add(name)
			if name == "safe" {
				return "did " + arg, nil
			}
			ok, err := treadle.Interrupt[bool](ctx, name+" "+arg)
			if err != nil {
				return "", fmt.Errorf("tool %s: %w", name, err) // wrapped on the way up
			}
			return fmt.Sprintf("%s %s: %v", name, arg, ok), nil
		})
	}
	build := askChain(doing("tools", func(c *askTally, ctx context.Context, _ askState) (askLog, error) {
		c.add("tools")
		calls := []*treadle.Future[string]{tool(c, "safe").Go(ctx, "look"), tool(c, "pay").Go(ctx, "5"), tool(c, "mail").Go(ctx, "bob")}
		var log askLog
		var errs []error
		for _, f := range calls {
			s, err := f.Wait()
			log.Log = append(log.Log, s)
			errs = append(errs, err)
		}
		return log, errors.Join(errs...)
	}))
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		ids := askedAny(t, err, "pay 5", "mail bob")
		rig.tally.want(t, "tools", "safe", "pay", "mail")
		_, err = rig.thread().Resume(t.Context(), treadle.Answers{ids["mail bob"]: false})
		askedStrings(t, err, "pay 5")
		rig.tally.want(t, "tools", "pay", "mail")
		out, err := rig.thread().Resume(t.Context(), true)
		askEnded(t, out, err, "did look", "pay 5: true", "mail bob: false")
		rig.tally.want(t, "tools", "pay")
	})
}

func interruptSends(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		inner := treadle.New[askState]("inner")
		treadle.AddNode(inner, "ask", func(ctx context.Context, s askState) (askLog, error) {
			c.add("ask " + s.Note)
			a, err := treadle.Interrupt[string](ctx, s.Note)
			if err != nil {
				return askLog{}, err
			}
			return askSay(s.Note + a), nil
		})
		inner.Edge(treadle.Start, "ask")
		g, err := inner.Compile(nil)
		if err != nil {
			return nil, err
		}
		b := treadle.New[askState]("outer")
		sub := treadle.AddGraph(b, "sub", g)
		treadle.AddNode(b, "end", askPlain(c, "end"))
		b.Edge("sub", "end")
		treadle.AddBranch(b, treadle.Start, func(context.Context, askState) (treadle.Goto, error) {
			var to treadle.Goto
			for _, n := range []string{"e", "d", "c", "b", "a"} {
				to = append(to, treadle.Send(sub, askState{Note: n})...)
			}
			return to, nil
		}, "sub")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	order := []string{"e", "d", "c", "b", "a"}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		ps := askedStrings(t, err, order...)
		rig.tally.want(t, "ask a", "ask b", "ask c", "ask d", "ask e")
		snap := askNext(t, rig, "sub", "sub", "sub", "sub", "sub")
		for i, task := range snap.Tasks {
			if task.Graph == nil || !slices.Equal(task.Graph.Next, []string{"ask"}) || task.Graph.State.String() != fmt.Sprintf(`{"log":[],"note":%q}`, order[i]) {
				t.Errorf("graph of send %d is %+v", i, task.Graph)
			}
			askQuestions(t, task.Pauses, order[i])
		}
		all := treadle.Answers{}
		for i, p := range ps {
			all[p.ID] = fmt.Sprint(i)
		}
		out, err := rig.thread().Resume(t.Context(), all)
		askEnded(t, out, err, "e0", "d1", "c2", "b3", "a4", "end")
		rig.tally.want(t, "ask a", "ask b", "ask c", "ask d", "ask e", "end")
	})
}

func interruptSendDedupe(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("sends")
		work := treadle.AddNode(b, "work", func(ctx context.Context, n int) (askLog, error) {
			c.add(fmt.Sprint("work ", n))
			if n == 2 {
				a, err := treadle.Interrupt[string](ctx, "two?")
				return askSay("2" + a), err
			}
			return askSay(fmt.Sprint(n)), nil
		})
		treadle.AddNode(b, "end", askPlain(c, "end"))
		b.Edge("work", "end")
		treadle.AddBranch(b, treadle.Start, func(context.Context, askState) (treadle.Goto, error) {
			return slices.Concat(treadle.Send(work, 1), treadle.Send(work, 2), treadle.Send(work, 3)), nil
		}, "work")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "two?")
		rig.tally.want(t, "work 1", "work 2", "work 3")
		askNext(t, rig, "work")
		out, err := rig.thread().Resume(t.Context(), "!")
		askEnded(t, out, err, "1", "2!", "3", "end")
		rig.tally.want(t, "work 2", "end")
		steps := []string{}
		for snap, err := range rig.thread().History(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			steps = append(steps, fmt.Sprintf("%d %s %v %d", snap.Step, snap.Source, snap.Next, len(snap.Tasks)))
		}
		if diff := cmp.Diff([]string{"2 loop [] 0", "1 loop [end] 1", "0 loop [work work work] 3", "-1 input [__start__] 1"}, steps); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
	})
}
