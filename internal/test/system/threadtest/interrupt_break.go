package threadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// Breakpoints is the suite for static breakpoints: before and after nodes, set at compile
// time or per run, including in subgraphs.
var Breakpoints = Suite{
	{"BeforeAndAfter", concurrent, breakBoth},
	{"AllNodes", sequential, breakAll},
	{"NodesThatWriteNothing", sequential, breakSilent},
	{"UnknownName", sequential, breakUnknown},
	{"Join", sequential, breakJoin},
	{"WithGoto", sequential, breakGoto},
	{"WithQuestion", sequential, breakAsk},
	{"NewInput", sequential, breakNewInput},
	{"Sends", concurrent, breakSends},
	{"EditedSends", sequential, breakEditedSends},
	{"InNestedGraph", sequential, breakNested},
	{"InNestedGraphBesideSibling", concurrent, breakNestedParallel},
	{"TwoLevelsDown", sequential, breakDeep},
	{"InCalledGraph", sequential, breakCalled},
}

// askOptions returns options with breakpoints.
func askOptions(saver checkpoint.Saver, before, after []string) *treadle.Options {
	return &treadle.Options{Saver: saver, Before: treadle.Nodes(before), After: treadle.Nodes(after)}
}

func breakBoth(t *testing.T, open opener) {
	chain := askChain(plain("a"), plain("b"), plain("c"))
	for _, c := range []struct {
		name          string
		before, after []string
		stops         [][2][]string // where each run stops, before and after
	}{
		{"before", []string{"b"}, nil, [][2][]string{{{"b"}, nil}}},
		{"after", nil, []string{"b"}, [][2][]string{{nil, {"b"}}}},
		{"both", []string{"b"}, []string{"b"}, [][2][]string{{{"b"}, nil}, {nil, {"b"}}}},
		{"after, then before", []string{"c"}, []string{"b"}, [][2][]string{{nil, {"b"}}}},
		{"the first", []string{"a"}, nil, [][2][]string{{{"a"}, nil}}},
		{"the last", nil, []string{"c"}, [][2][]string{{nil, {"c"}}}},
	} {
		for _, perRun := range []bool{false, true} {
			build, opts := chain, []treadle.RunOption{treadle.Before(treadle.Nodes(c.before)...), treadle.After(treadle.Nodes(c.after)...)}
			if !perRun {
				opts = nil
				build = func(saver checkpoint.Saver, tally *askTally) (*treadle.Graph[askState, askState], error) {
					b := treadle.New[askState]("chain")
					last := treadle.Start
					for _, n := range []string{"a", "b", "c"} {
						treadle.AddNode(b, n, askPlain(tally, n))
						b.Edge(last, n)
						last = n
					}
					return b.Compile(askOptions(saver, c.before, c.after))
				}
			}
			t.Run(fmt.Sprintf("%s, per run %v", c.name, perRun), func(t *testing.T) {
				askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
					out, err := rig.thread(opts...).Run(t.Context(), askState{})
					for _, stop := range c.stops {
						askStopped(t, err, stop[0], stop[1])
						askNext(t, rig, []string{"a", "b", "c"}[len(out.Log):][:min(1, 3-len(out.Log))]...)
						out, err = rig.thread(opts...).Continue(t.Context())
					}
					askEnded(t, out, err, "a", "b", "c")
					rig.tally.want(t, "a", "b", "c")
				})
			})
		}
	}
}

func breakAll(t *testing.T, open opener) {
	askBothWays(t, open, askChain(plain("a"), plain("b")), func(t *testing.T, rig *askRig[askState, askState]) {
		every := []treadle.RunOption{treadle.Before("*"), treadle.After("*")}
		var lines []string
		for ev, err := range rig.thread(every...).Stream(t.Context(), askState{}) {
			if err != nil {
				askStopped(t, err, []string{"a"}, nil)
				continue
			}
			lines = append(lines, askLine(ev))
		}
		for _, stop := range [][2][]string{{nil, {"a"}}, {nil, {"b"}}} {
			for ev, err := range rig.thread(every...).ContinueStream(t.Context()) {
				if err != nil {
					askStopped(t, err, stop[0], stop[1])
					continue
				}
				lines = append(lines, askLine(ev))
			}
		}
		if diff := cmp.Diff([]string{
			`interrupted  before ["a"] after []`,
			`update a {"log":["a"]}`, `interrupted  before [] after ["a"]`,
			`update b {"log":["b"]}`, `interrupted  before [] after ["b"]`,
		}, lines); diff != "" {
			t.Errorf("stream (-want +got):\n%s", diff)
		}
		out, err := rig.thread(every...).Continue(t.Context())
		askEnded(t, out, err, "a", "b")
	})
	t.Run("beside a name", func(t *testing.T) {
		rig := &askRig[askState, askState]{t: t, saver: open(t), tally: &askTally{}, build: askChain(plain("a"), plain("b"))}
		_, err := rig.thread(treadle.Before("b", "*")).Run(t.Context(), askState{})
		askStopped(t, err, []string{"a"}, nil)
	})
}

func breakSilent(t *testing.T, open opener) {
	silent := func(name string) func(*treadle.Builder[askState], *askTally) string {
		return doing(name, func(*askTally, context.Context, askState) (*askLog, error) { return nil, nil })
	}
	for _, durable := range []treadle.Durability{treadle.Sync, treadle.Async, treadle.Exit} {
		t.Run(fmt.Sprint(durable), func(t *testing.T) {
			askBothWays(t, open, askChain(silent("step_1"), silent("step_2"), silent("step_3")), func(t *testing.T, rig *askRig[askState, askState]) {
				opts := []treadle.RunOption{treadle.After("*"), durable}
				_, err := rig.thread(opts...).Run(t.Context(), askState{Note: "x"})
				for i, next := range [][]string{{"step_2"}, {"step_3"}, {}} {
					askStopped(t, err, nil, []string{fmt.Sprint("step_", i+1)})
					askNext(t, rig, next...)
					n := 0
					for _, err := range rig.thread().History(t.Context(), nil) {
						if err != nil {
							t.Fatal(err)
						}
						n++
					}
					want := i + 3
					if durable == treadle.Exit {
						want = i + 1
					}
					if n != want {
						t.Errorf("%d checkpoints after step %d, want %d", n, i+1, want)
					}
					_, err = rig.thread(opts...).Continue(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func breakUnknown(t *testing.T, open opener) {
	saver := open(t)
	build := askChain(plain("a"), plain("b"))
	g, err := build(saver, &askTally{})
	if err != nil {
		t.Fatal(err)
	}
	for _, opts := range [][]treadle.RunOption{
		{treadle.Before("c")}, {treadle.After("c")}, {treadle.Before("c"), treadle.After("*")}, {treadle.Before("*"), treadle.After("c")},
		{treadle.Before("a", "c")}, {treadle.Before(treadle.Start)},
	} {
		_, err := g.Thread("t", opts...).Run(t.Context(), askState{})
		if err == nil || !strings.Contains(err.Error(), "unknown node") || !strings.Contains(err.Error(), "the graph has a, b") {
			t.Errorf("%v, want an error that says which nodes there are", err)
		}
	}
	if d := askDump(t, saver); d != "" {
		t.Errorf("something was stored: %s", d)
	}
	b := treadle.New[askState]("chain")
	treadle.AddNode(b, "a", askPlain(&askTally{}, "a"))
	b.Edge(treadle.Start, "a")
	_, err = b.Compile(askOptions(saver, []string{"x"}, []string{"*", "y"}))
	if problem, ok := errors.AsType[*treadle.BuildError](err); !ok || !strings.Contains(err.Error(), `"x"`) || !strings.Contains(err.Error(), `"y"`) {
		t.Errorf("compiled with breakpoints at unknown nodes: %v, %v", problem, err)
	}
}

func breakJoin(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("join")
		for _, n := range []string{"query", "analyze", "one", "two", "answer"} {
			treadle.AddNode(b, n, askPlain(c, n))
		}
		b.Sequence("query", "analyze", "one")
		b.Edge(treadle.Start, "query")
		b.Edge("query", "two")
		b.Join([]any{"one", "two"}, "answer")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread(treadle.After("one")).Run(t.Context(), askState{})
		askStopped(t, err, nil, []string{"one"})
		askNext(t, rig, "answer")
		// An edit in between, made as the node that ran last.
		if _, err := rig.thread().Update(t.Context(), askSay("edit")); err != nil {
			t.Fatal(err)
		}
		snap := askNext(t, rig, "answer")
		if snap.Step != 4 || snap.Source != checkpoint.Update {
			t.Errorf("step %d, source %v", snap.Step, snap.Source)
		}
		out, err := rig.thread(treadle.After("one")).Continue(t.Context())
		askEnded(t, out, err, "query", "analyze", "two", "one", "edit", "answer")
		rig.tally.want(t, "query", "analyze", "two", "one", "answer")
		_, err = rig.thread(treadle.Before("answer")).Run(t.Context(), askState{})
		askStopped(t, err, []string{"answer"}, nil)
	})
}

func breakGoto(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("gotos")
		treadle.AddNode(b, "node-1", askPlain(c, "node-1"))
		treadle.AddNode(b, "node-2", askPlain(c, "node-2"))
		b.Edge(treadle.Start, "node-1")
		b.Edge("node-1", "node-2")
		return b.Compile(askOptions(saver, []string{"node-1"}, nil))
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{Log: reduce.List[string]{"abc"}})
		askStopped(t, err, []string{"node-1"}, nil)
		out, err := rig.thread().Continue(t.Context(), treadle.WithUpdate(treadle.Command[askNote]{Goto: treadle.To("node-2")}))
		askEnded(t, out, err, "abc", "node-1", "node-2", "node-2")
	})
}

func breakAsk(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("both")
		treadle.AddNode(b, "ask", askNode(c, "ask"))
		b.Edge(treadle.Start, "ask")
		return b.Compile(askOptions(saver, []string{"ask"}, nil))
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askStopped(t, err, []string{"ask"}, nil)
		askUnchanged(t, rig.saver, "an answer at a breakpoint", func() {
			if _, err := rig.thread().Resume(t.Context(), "x"); !errors.Is(err, treadle.ErrNothingToResume) {
				t.Errorf("%v, want ErrNothingToResume", err)
			}
		})
		rig.tally.want(t)
		_, err = rig.thread().Continue(t.Context())
		askedStrings(t, err, "ask?")
		out, err := rig.thread().Resume(t.Context(), "A") // past the breakpoint
		askEnded(t, out, err, "ask=A")
		rig.tally.want(t, "ask", "ask")
	})
}

func breakNewInput(t *testing.T, open opener) {
	askBothWays(t, open, askChain(plain("a"), plain("b")), func(t *testing.T, rig *askRig[askState, askState]) {
		for range 2 {
			_, err := rig.thread(treadle.Before("b")).Run(t.Context(), askState{})
			askStopped(t, err, []string{"b"}, nil)
		}
		out, err := rig.thread().Continue(t.Context())
		askEnded(t, out, err, "a", "a", "b")
		rig.tally.want(t, "a", "a", "b")
	})
}

func breakSends(t *testing.T, open opener) {
	const many = 100
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("many")
		work := treadle.AddNode(b, "work", func(_ context.Context, n int) (askLog, error) { return askSay(fmt.Sprint(n)), nil })
		treadle.AddBranch(b, treadle.Start, func(context.Context, askState) (treadle.Goto, error) {
			to := treadle.Goto{}
			for i := range many {
				to = append(to, treadle.Send(work, i)...)
			}
			return to, nil
		}, "work")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread(treadle.Before("work")).Run(t.Context(), askState{})
		askStopped(t, err, []string{"work"}, nil)
		askNext(t, rig, slices.Repeat([]string{"work"}, many)...)
		want := make([]string, many)
		for i := range want {
			want[i] = fmt.Sprint(i)
		}
		out, err := rig.thread(treadle.MaxConcurrency(10)).Continue(t.Context())
		askEnded(t, out, err, want...)
	})
}

// breakEditedSends stops an agent whose tool calls are sends before the tools: editing
// the agent's message changes which tools run.
func breakEditedSends(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		b := treadle.New[askState]("agent")
		treadle.AddNode(b, "agent", func(_ context.Context, s askState) (askNote, error) {
			c.add("agent")
			if len(s.Log) > 0 {
				return askNote{"done"}, nil
			}
			return askNote{"search,weather"}, nil
		})
		tool := treadle.AddNode(b, "tool", func(_ context.Context, name string) (askLog, error) {
			c.add(name)
			return askSay("used " + name), nil
		})
		b.Edge(treadle.Start, "agent")
		treadle.AddBranch(b, "agent", func(_ context.Context, s askState) (treadle.Goto, error) {
			to := treadle.Goto{}
			if s.Note != "done" {
				for name := range strings.SplitSeq(s.Note, ",") {
					to = append(to, treadle.Send(tool, name)...)
				}
			}
			return to, nil
		}, "tool", treadle.End)
		b.Edge("tool", "agent")
		return b.Compile(askOptions(saver, []string{"tool"}, nil))
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askStopped(t, err, []string{"tool"}, nil)
		askNext(t, rig, "tool", "tool")
		if _, err := rig.thread().Update(t.Context(), askNote{"calendar"}, treadle.AsNode("agent")); err != nil {
			t.Fatal(err)
		}
		askNext(t, rig, "tool")
		out, err := rig.thread().Continue(t.Context())
		askEnded(t, out, err, "used calendar")
		rig.tally.want(t, "agent", "calendar", "agent")
		// An edit can also end the run.
		_, err = rig.graph().Thread("u").Run(t.Context(), askState{})
		askStopped(t, err, []string{"tool"}, nil)
		if _, err := rig.graph().Thread("u").Update(t.Context(), askNote{"done"}, treadle.AsNode("agent")); err != nil {
			t.Fatal(err)
		}
		out, err = rig.graph().Thread("u").Continue(t.Context())
		askEnded(t, out, err)
		rig.tally.want(t, "agent")
	})
}

// askBroken returns a graph of two nodes with its own breakpoints.
func askBroken(c *askTally, before, after []string) (*treadle.Graph[askState, askState], error) {
	b := treadle.New[askState]("inner")
	treadle.AddNode(b, "i1", askPlain(c, "i1"))
	treadle.AddNode(b, "i2", askPlain(c, "i2"))
	b.Edge(treadle.Start, "i1")
	b.Edge("i1", "i2")
	return b.Compile(askOptions(nil, before, after))
}

func breakNested(t *testing.T, open opener) {
	for _, c := range []struct {
		name          string
		before, after []string
		stops         [][2][]string
	}{
		{"before", []string{"i2"}, nil, [][2][]string{{{"sub/i2"}, nil}}},
		{"after", nil, []string{"i1"}, [][2][]string{{nil, {"sub/i1"}}}},
		{"after the last", nil, []string{"i2"}, [][2][]string{{nil, {"sub/i2"}}}},
		{"all", nil, []string{"*"}, [][2][]string{{nil, {"sub/i1"}}, {nil, {"sub/i2"}}}},
	} {
		build := func(saver checkpoint.Saver, tally *askTally) (*treadle.Graph[askState, askState], error) {
			inner, err := askBroken(tally, c.before, c.after)
			if err != nil {
				return nil, err
			}
			b := treadle.New[askState]("outer")
			treadle.AddGraph(b, "sub", inner)
			treadle.AddNode(b, "end", askPlain(tally, "end"))
			b.Edge(treadle.Start, "sub")
			b.Edge("sub", "end")
			return b.Compile(&treadle.Options{Saver: saver})
		}
		t.Run(c.name, func(t *testing.T) {
			askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
				out, err := rig.thread().Run(t.Context(), askState{})
				for _, stop := range c.stops {
					askStopped(t, err, stop[0], stop[1])
					askNext(t, rig, "sub")
					out, err = rig.thread().Continue(t.Context())
				}
				askEnded(t, out, err, "i1", "i2", "end")
				rig.tally.want(t, "i1", "i2", "end")
			})
		})
	}
}

func breakNestedParallel(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		inner, err := askBroken(c, []string{"i2"}, nil)
		if err != nil {
			return nil, err
		}
		b := treadle.New[askState]("outer")
		treadle.AddGraph(b, "sub", inner)
		treadle.AddNode(b, "beside", askPlain(c, "beside"))
		treadle.AddNode(b, "end", askPlain(c, "end"))
		b.Edge(treadle.Start, "sub")
		b.Edge(treadle.Start, "beside")
		b.Join([]any{"sub", "beside"}, "end")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	collect := func(t *testing.T, stream func(func(treadle.Event, error) bool)) (lines []string, last error) {
		t.Helper()
		for ev, err := range stream {
			if err != nil {
				last = err
				continue
			}
			lines = append(lines, askLine(ev))
		}
		slices.Sort(lines)
		return lines, last
	}
	for _, c := range []struct {
		name  string
		opts  []treadle.RunOption
		first [2][]string // where it stops before the graph starts
		last  [2][]string // where it stops after the graph has finished
	}{
		{"alone", nil, [2][]string{}, [2][]string{}},
		{"with one before the sibling", []treadle.RunOption{treadle.Before("beside")}, [2][]string{{"beside"}, nil}, [2][]string{}},
		{"with one after the sibling", []treadle.RunOption{treadle.After("beside")}, [2][]string{}, [2][]string{nil, {"beside"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
				modes := treadle.Modes(treadle.ModeUpdates, treadle.ModeValues)
				stream := rig.thread(c.opts...).Stream(t.Context(), askState{}, modes)
				if c.first[0] != nil {
					_, err := collect(t, stream)
					askStopped(t, err, c.first[0], c.first[1])
					stream = rig.thread(c.opts...).ContinueStream(t.Context(), modes)
				}
				lines, err := collect(t, stream)
				askStopped(t, err, []string{"sub/i2"}, nil)
				if diff := cmp.Diff([]string{`interrupted sub before ["sub/i2"] after []`, `update beside {"log":["beside"]}`,
					`values {"log":["beside"]} pauses 0`}, slices.DeleteFunc(lines, func(s string) bool { return s == `values {"log":[]} pauses 0` })); diff != "" {
					t.Errorf("stream (-want +got):\n%s", diff)
				}
				askNext(t, rig, "sub")
				rig.tally.want(t, "beside", "i1")
				lines, err = collect(t, rig.thread(c.opts...).ContinueStream(t.Context()))
				want := []string{`update beside {"log":["beside"]} cached`, `update sub [{"log":["i1"]},{"log":["i2"]}]`}
				if c.last[1] != nil {
					askStopped(t, err, c.last[0], c.last[1])
					if !slices.Contains(lines, want[0]) || !slices.Contains(lines, want[1]) {
						t.Errorf("stream %q, want %q", lines, want)
					}
				} else if err != nil || !slices.Contains(lines, want[0]) || !slices.Contains(lines, want[1]) {
					t.Errorf("stream %q, %v, want %q", lines, err, want)
				}
				out, err := rig.thread().Continue(t.Context())
				askEnded(t, out, err, "beside", "i1", "i2", "end")
				rig.tally.want(t, "i2", "end")
			})
		})
	}
}

func breakDeep(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		inner, err := askBroken(c, []string{"i2"}, []string{"i2"})
		if err != nil {
			return nil, err
		}
		mid := treadle.New[askState]("mid")
		treadle.AddGraph(mid, "grandchild", inner)
		treadle.AddNode(mid, "m", askPlain(c, "m"))
		mid.Edge(treadle.Start, "grandchild")
		mid.Edge("grandchild", "m")
		child, err := mid.Compile(nil)
		if err != nil {
			return nil, err
		}
		b := treadle.New[askState]("outer")
		treadle.AddGraph(b, "child", child)
		treadle.AddNode(b, "p", askPlain(c, "p"))
		b.Edge(treadle.Start, "child")
		b.Edge("child", "p")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askStopped(t, err, []string{"child/grandchild/i2"}, nil)
		rig.tally.want(t, "i1")
		snap := askNext(t, rig, "child")
		leaf := snap.Tasks[0].Graph.Tasks[0].Graph
		if !slices.Equal(leaf.Next, []string{"i2"}) || leaf.State.String() != `{"log":["i1"]}` {
			t.Errorf("two levels down the state is %+v", leaf)
		}
		_, err = rig.thread().Continue(t.Context())
		askStopped(t, err, nil, []string{"child/grandchild/i2"})
		rig.tally.want(t, "i2")
		out, err := rig.thread().Continue(t.Context())
		askEnded(t, out, err, "i1", "i2", "m", "p")
		rig.tally.want(t, "m", "p")
	})
}

func breakCalled(t *testing.T, open opener) {
	build := func(saver checkpoint.Saver, c *askTally) (*treadle.Graph[askState, askState], error) {
		inner, err := askBroken(c, nil, nil)
		if err != nil {
			return nil, err
		}
		b := treadle.New[askState]("outer")
		treadle.AddNode(b, "call", func(ctx context.Context, _ askState) (askLog, error) {
			out, err := inner.With(treadle.Before("i2")).Run(ctx, askState{})
			return askLog{out.Log}, err
		}, treadle.Uses(inner))
		b.Edge(treadle.Start, "call")
		return b.Compile(&treadle.Options{Saver: saver})
	}
	askBothWays(t, open, build, func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askStopped(t, err, []string{"call/i2"}, nil)
		out, err := rig.thread().Continue(t.Context())
		askEnded(t, out, err, "i1", "i2")
		rig.tally.want(t, "i1", "i2")
	})
}
