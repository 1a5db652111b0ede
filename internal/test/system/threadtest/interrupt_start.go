package threadtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// askWhere returns a branch that asks where to go.
func askWhere(c *askTally) func(context.Context, askState) (treadle.Goto, error) {
	return func(ctx context.Context, s askState) (treadle.Goto, error) {
		c.add("where")
		to, err := treadle.Interrupt[string](ctx, "where?")
		if err != nil {
			return nil, err
		}
		return treadle.To(to), nil
	}
}

// askRoutes lists the ways to interrupt in a branch after a node or Start.
var askRoutes = map[string]func(b *treadle.Builder[askState], c *askTally, from string){
	"Branch": func(b *treadle.Builder[askState], c *askTally, from string) {
		treadle.AddBranch(b, from, askWhere(c), "a", "b")
	},
	"AddBranch": func(b *treadle.Builder[askState], c *askTally, from string) {
		where := askWhere(c)
		treadle.AddBranch(b, from, func(ctx context.Context, n askNote) (treadle.Goto, error) {
			return where(ctx, askState{Note: n.Note})
		}, "a", "b")
	},
	"BesideBranchesThatDoNotAsk": func(b *treadle.Builder[askState], c *askTally, from string) {
		to := func(context.Context, askState) (treadle.Goto, error) { return treadle.To(treadle.End), nil }
		treadle.AddBranch(b, from, to, treadle.End)
		treadle.AddBranch(b, from, askWhere(c), "a", "b")
		treadle.AddBranch(b, from, to, treadle.End)
	},
	"BehindAnEffect": func(b *treadle.Builder[askState], c *askTally, from string) {
		where := askWhere(c)
		treadle.AddBranch(b, from, func(ctx context.Context, s askState) (treadle.Goto, error) {
			if _, err := treadle.Do(ctx, "look", func(context.Context) (string, error) { c.add("look"); return "x", nil }); err != nil {
				return nil, err
			}
			return where(ctx, s)
		}, "a", "b")
	},
}

// askNestings lists the ways to nest a graph in another.
var askNestings = map[string]func(g *treadle.Graph[askState, askState], o *treadle.Options) (*treadle.Graph[askState, askState], error){
	"Nested": func(g *treadle.Graph[askState, askState], o *treadle.Options) (*treadle.Graph[askState, askState], error) {
		return askOuter(o, func(b *treadle.Builder[askState]) { treadle.AddGraph(b, "sub", g) })
	},
	"PerThread": func(g *treadle.Graph[askState, askState], o *treadle.Options) (*treadle.Graph[askState, askState], error) {
		return askOuter(o, func(b *treadle.Builder[askState]) { treadle.AddGraph(b, "sub", g, treadle.PerThread()) })
	},
	"Called": func(g *treadle.Graph[askState, askState], o *treadle.Options) (*treadle.Graph[askState, askState], error) {
		return askOuter(o, func(b *treadle.Builder[askState]) {
			treadle.AddNode(b, "sub", func(ctx context.Context, s askState) (askLog, error) {
				out, err := g.Run(ctx, askState{Note: s.Note})
				return askLog{out.Log}, err
			})
		})
	},
	"TwoDown": func(g *treadle.Graph[askState, askState], o *treadle.Options) (*treadle.Graph[askState, askState], error) {
		in, err := askOuter(nil, func(b *treadle.Builder[askState]) { treadle.AddGraph(b, "sub", g) })
		if err != nil {
			return nil, err
		}
		return askOuter(o, func(b *treadle.Builder[askState]) { treadle.AddGraph(b, "sub", in) })
	},
	"CalledByAWorkflow": func(g *treadle.Graph[askState, askState], o *treadle.Options) (*treadle.Graph[askState, askState], error) {
		return treadle.NewWorkflow("flow", func(ctx context.Context, in askState) (askState, error) { return g.Run(ctx, in) }, o)
	},
}

func askOuter(opts *treadle.Options, add func(*treadle.Builder[askState])) (*treadle.Graph[askState, askState], error) {
	b := treadle.New[askState]("outer")
	add(b)
	b.Edge(treadle.Start, "sub")
	return b.Compile(opts)
}

func askRouted(route func(*treadle.Builder[askState], *askTally, string), from string, place func(*treadle.Graph[askState, askState], *treadle.Options) (*treadle.Graph[askState, askState], error)) askBuild[askState, askState] {
	return func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("routed")
		treadle.AddNode(b, "a", askPlain(c, "a"))
		treadle.AddNode(b, "b", askPlain(c, "b"))
		if from != treadle.Start {
			treadle.AddNode(b, from, func(context.Context, askState) (askNote, error) { return askNote{"seen"}, nil })
			b.Edge(treadle.Start, from)
		}
		route(b, c, from)
		o := &treadle.Options{Saver: saver}
		if place == nil {
			return b.Compile(o)
		}
		g, err := b.Compile(nil)
		if err != nil {
			return nil, err
		}
		return place(g, o)
	}
}

// interruptInBranch checks that an interrupt in a branch works like any other: it is
// shown, kept, and answered, whatever the branch follows, including the input.
func interruptInBranch(t *testing.T, open opener) {
	test := func(build askBuild[askState, askState], effects []string, opts ...treadle.RunOption) func(*testing.T) {
		return func(t *testing.T) {
			askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
				for turn, to := range []string{"b", "a"} {
					_, err := rig.thread(opts...).Run(t.Context(), askState{Note: "n"})
					ps := askedStrings(t, err, "where?")
					rig.tally.want(t, append([]string{"where"}, effects...)...)
					snap, err := rig.thread().State(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					askQuestions(t, snap.Pauses, "where?")
					// Without the answer, it is asked again with the same ID.
					_, err = rig.thread(opts...).Continue(t.Context())
					if again := askedStrings(t, err, "where?"); again[0].ID != ps[0].ID {
						t.Errorf("question has the id %s, and had %s", again[0].ID, ps[0].ID)
					}
					rig.tally.want(t, "where")
					answer := any(to)
					if turn == 1 {
						answer = treadle.Answers{ps[0].ID: to}
					}
					out, err := rig.thread(opts...).Resume(t.Context(), answer)
					if err != nil {
						t.Fatal(err)
					}
					if len(out.Log) == 0 || out.Log[len(out.Log)-1] != to {
						t.Errorf("log %q, want %q at its end", out.Log, to)
					}
					rig.tally.want(t, "where", to)
					_, err = rig.thread().Resume(t.Context(), to)
					if !errors.Is(err, treadle.ErrNothingToResume) {
						t.Errorf("second answer gives %v", err)
					}
				}
			})
		}
	}
	for _, from := range []string{treadle.Start, "node"} {
		at := "From" + strings.Trim(from, "_")
		for name, route := range askRoutes {
			var effects []string
			if name == "BehindAnEffect" {
				effects = []string{"look"}
			}
			t.Run(at+"/"+name, test(askRouted(route, from, nil), effects))
		}
		for name, place := range askNestings {
			t.Run(at+"/"+name, test(askRouted(askRoutes["Branch"], from, place), nil))
		}
		for name, d := range map[string]treadle.RunOption{"Async": treadle.Async, "Exit": treadle.Exit} {
			t.Run(at+"/"+name, test(askRouted(askRoutes["Branch"], from, nil), nil, d))
			t.Run(at+"/Nested"+name, test(askRouted(askRoutes["Branch"], from, askNestings["Nested"]), nil, d))
		}
	}
}

// interruptInBranchShown checks that the state of a thread that waits for an answer in a
// branch from Start shows the input as not applied yet, and that streams show the
// interrupt once.
func interruptInBranchShown(t *testing.T, open opener) {
	askBothWays(t, open, askRouted(askRoutes["Branch"], treadle.Start, nil), func(t *testing.T, rig *askRig[askState, askState]) {
		var lines []string
		for ev, err := range rig.thread().Stream(t.Context(), askState{Note: "n"}, treadle.Modes(treadle.ModeUpdates, treadle.ModeTasks)) {
			if err != nil {
				askedStrings(t, err, "where?")
				continue
			}
			lines = append(lines, askLine(ev))
		}
		if want := []string{`interrupted __start__ "where?" before [] after []`}; !slices.Equal(lines, want) {
			t.Errorf("events %q, want %q", lines, want)
		}
		snap := askNext(t, rig, treadle.Start)
		if len(snap.Tasks) != 1 || snap.Tasks[0].Name != treadle.Start || len(snap.Tasks[0].Pauses) != 1 {
			t.Errorf("tasks %+v", snap.Tasks)
		}
		lines = nil
		for ev, err := range rig.thread().ResumeStream(t.Context(), "b", treadle.Modes(treadle.ModeUpdates)) {
			if err != nil {
				t.Fatal(err)
			}
			if _, last := ev.(treadle.Finished[askState]); !last {
				lines = append(lines, askLine(ev))
			}
		}
		if want := []string{`update b {"log":["b"]}`}; !slices.Equal(lines, want) {
			t.Errorf("events %q, want %q", lines, want)
		}
		rig.tally.want(t, "where", "where", "b")
		// New input abandons the interrupt.
		_, err := rig.thread().Run(t.Context(), askState{})
		ps := askedStrings(t, err, "where?")
		_, err = rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "where?")
		if _, err = rig.thread().Resume(t.Context(), treadle.Answers{ps[0].ID: "a"}); !errors.Is(err, treadle.ErrUnknownInterrupt) {
			t.Errorf("answer to a question that was given up: %v", err)
		}
	})
}

// interruptInBranchBreakpoint checks that the run still stops at a breakpoint before the
// node that the answer leads to.
func interruptInBranchBreakpoint(t *testing.T, open opener) {
	askBothWays(t, open, askRouted(askRoutes["Branch"], treadle.Start, nil), func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread(treadle.Before("*")).Run(t.Context(), askState{})
		askedStrings(t, err, "where?")
		_, err = rig.thread(treadle.Before("*")).Resume(t.Context(), "b")
		askStopped(t, err, []string{"b"}, nil)
		out, err := rig.thread(treadle.Before("*")).Continue(t.Context())
		askEnded(t, out, err, "b")
	})
}

// interruptInBranchSwallowed checks that a branch that interrupts but continues without
// the answer is detected.
func interruptInBranchSwallowed(t *testing.T, open opener) {
	for _, from := range []string{treadle.Start, "node"} {
		route := func(b *treadle.Builder[askState], c *askTally, from string) {
			treadle.AddBranch(b, from, func(ctx context.Context, _ askState) (treadle.Goto, error) {
				if _, err := treadle.Interrupt[string](ctx, "where?"); err != nil {
					return treadle.To("a"), nil //nolint:nilerr // that is the mistake
				}
				return treadle.To("b"), nil
			}, "a", "b")
		}
		askBothWays(t, open, askRouted(route, from, nil), func(t *testing.T, rig *askRig[askState, askState]) {
			_, err := rig.thread().Run(t.Context(), askState{})
			if _, ok := errors.AsType[*treadle.SwallowedInterruptError](err); !ok {
				t.Errorf("from %s: the run ended with %v", from, err)
			}
			rig.tally.want(t)
		})
	}
}

// interruptInBranchOfTimed checks that a node with a timeout and the branch after it have
// different interrupts.
func interruptInBranchOfTimed(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("timed")
		treadle.AddNode(b, "first", askNode(c, "first"), treadle.Timeout(time.Hour))
		treadle.AddNode(b, "a", askPlain(c, "a"))
		treadle.AddNode(b, "b", askPlain(c, "b"))
		b.Edge(treadle.Start, "first")
		treadle.AddBranch(b, "first", askWhere(c), "a", "b")
		treadle.AddBranch(b, "first", func(ctx context.Context, _ askState) (treadle.Goto, error) {
			if _, err := treadle.Interrupt[string](ctx, "sure?"); err != nil {
				return nil, err
			}
			return treadle.To(treadle.End), nil
		}, treadle.End)
		return b.Compile(&treadle.Options{Saver: saver, Strict: true})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "first?")
		_, err = rig.thread().Resume(t.Context(), "1")
		askedStrings(t, err, "where?")
		_, err = rig.thread().Resume(t.Context(), "b")
		askedStrings(t, err, "sure?")
		out, err := rig.thread().Resume(t.Context(), "yes")
		askEnded(t, out, err, "first=1", "b")
	})
}

// interruptInBranchOfEdit checks that an edit, which cannot wait like a run, is rejected
// and leaves no interrupt.
func interruptInBranchOfEdit(t *testing.T, open opener) {
	for _, from := range []string{treadle.Start, "node"} {
		askBothWays(t, open, askRouted(askRoutes["Branch"], from, nil), func(t *testing.T, rig *askRig[askState, askState]) {
			_, err := rig.thread().Run(t.Context(), askState{})
			askedStrings(t, err, "where?")
			if _, err = rig.thread().Resume(t.Context(), "b"); err != nil {
				t.Fatal(err)
			}
			askUnchanged(t, rig.saver, "a refused edit", func() {
				_, err = rig.thread().Update(t.Context(), askNote{"x"}, treadle.AsNode(from))
			})
			if e, ok := errors.AsType[*treadle.UpdateError](err); !ok || !strings.Contains(e.Error(), "where?") {
				t.Errorf("from %s: %v", from, err)
			}
		})
	}
}
