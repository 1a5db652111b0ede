package threadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// nestCall returns a node function that runs graphs and returns their log.
func nestCall(w *kitWorld, name string, graphs ...*nestGraph) func(context.Context, kitState) (kitLog, error) {
	return func(ctx context.Context, _ kitState) (kitLog, error) {
		if err := w.enter(ctx, name); err != nil {
			return kitLog{}, err
		}
		var out kitLog
		for _, g := range graphs {
			got, err := g.Run(ctx, nestCount{})
			if err != nil {
				return kitLog{}, err
			}
			out.Log = append(out.Log, got.Log...)
		}
		return out, nil
	}
}

func nestingSeveral(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(keeps ...treadle.RunOption) kitBuild {
		return func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
			var graphs []*nestGraph
			for i, keep := range keeps {
				g := nestLeaf(t, w, fmt.Sprint("g", i))
				if keep != nil {
					g = g.With(keep)
				}
				graphs = append(graphs, g)
			}
			b := treadle.New[kitState]("root")
			treadle.AddNode(b, "call", nestCall(w, "call", graphs...), treadle.Uses(graphs[0]))
			b.Edge(treadle.Start, "call")
			return kitCompile(t, b, saver)
		}
	}
	spaces := func(t *testing.T, th *kitThread) []string {
		t.Helper()
		var out []string
		for ev, err := range th.Stream(t.Context(), kitState{}, treadle.Subgraphs()) {
			if err != nil {
				t.Fatal(err)
			}
			if up, ok := ev.(treadle.Updated); ok && len(up.Namespace) > 0 {
				name, id, _ := strings.Cut(up.Namespace[0], ":")
				if id != "" {
					name += ":id"
				}
				out = append(out, strings.Join(append([]string{name}, up.Namespace[1:]...), "|"))
			}
		}
		return out
	}
	t.Run("TwoPerThread", func(t *testing.T) {
		kitBothWays(t, open, build(treadle.PerThread(), treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
			kitRun(t, thread(), kitState{}, "g0#0", "g1#0")
			// The log is their own too, and accumulates: it is not inherited here.
			kitRun(t, thread(), kitState{}, "g0#0", "g1#0", "g0#0", "g0#1", "g1#0", "g1#1")
			if diff := cmp.Diff([]string{"call", "call|1"}, spaces(t, thread())); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("PerThreadAndPerTask", func(t *testing.T) {
		kitBothWays(t, open, build(treadle.PerThread(), nil), func(t *testing.T, w *kitWorld, thread kitHandle) {
			kitRun(t, thread(), kitState{}, "g0#0", "g1#0")
			kitRun(t, thread(), kitState{}, "g0#0", "g1#0", "g0#0", "g0#1", "g1#0")
			if diff := cmp.Diff([]string{"call", "call:id|1"}, spaces(t, thread())); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
		})
	})
}

func nestingCalled(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, keep := range []struct {
		name   string
		opts   []treadle.RunOption
		second []string // log of the second turn's call
	}{
		{"PerTask", nil, []string{"i#0", "ask#1=two"}},
		{"PerThread", []treadle.RunOption{treadle.PerThread()}, []string{"i#0", "ask#1=one", "i#2", "ask#3=two"}},
	} {
		t.Run(keep.name, func(t *testing.T) {
			build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
				g := nestLeaf(t, w, "i", "ask?").With(keep.opts...)
				b := treadle.New[kitState]("root")
				treadle.AddNode(b, "call", nestCall(w, "call", g), treadle.Uses(g))
				b.Edge(treadle.Start, "call")
				return kitCompile(t, b, saver)
			}
			kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
				_, err := thread().Run(t.Context(), kitState{})
				kitAsked(t, err, "ask?")
				in := kitStateOf(t, thread()).Tasks[0].Graph
				if in == nil || kitLine(in) != `1 loop {"log":["i#0"],"count":1} [ask]` {
					t.Fatalf("state of the called graph: %v", in)
				}
				w.ran()
				kitResume(t, thread(), "one", "i#0", "ask#1=one")
				kitRan(t, w, "ask", "call")
				_, err = thread().Run(t.Context(), kitState{})
				kitAsked(t, err, "ask?")
				kitResume(t, thread(), "two", append([]string{"i#0", "ask#1=one"}, keep.second...)...)
			})
		})
	}
}

func nestingNothing(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestTower(2, []string{"i", "j"}, treadle.NoCheckpoints()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		w.fail("j", errKit)
		for ev, err := range thread().Stream(t.Context(), kitState{}, treadle.Modes(treadle.ModeCheckpoints), treadle.Subgraphs()) {
			if cp, ok := ev.(treadle.Checkpointed); ok && len(cp.Snapshot.Namespace) > 0 {
				t.Errorf("checkpoint of the nested graph: %s", kitLine(&cp.Snapshot))
			}
			if err != nil && !errors.Is(err, errKit) {
				t.Fatal(err)
			}
		}
		if in := kitStateOf(t, thread()).Tasks[0].Graph; in != nil {
			t.Errorf("graph has the state %s", kitLine(in))
		}
		w.fail("j", nil)
		w.ran()
		kitContinue(t, thread(), "a", "i#0", "j#1", "z")
		kitRan(t, w, "i", "j", "z") // the graph's progress was not kept
	})
	kitBothWays(t, open, nestTower(2, []string{"ask?"}, treadle.NoCheckpoints()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		if _, err := thread().Run(t.Context(), kitState{}); !errors.Is(err, treadle.ErrNoSaver) {
			t.Errorf("question: %v, want ErrNoSaver", err)
		}
	})
}

// nestingOwnThread checks that a graph that a node runs on a separate thread is a
// separate run.
func nestingOwnThread(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		other := kitChain("x", "ask?")(t, w, saver)
		b := treadle.New[kitState]("root")
		treadle.AddNode(b, "call", func(ctx context.Context, _ kitState) (kitLog, error) {
			out, err := other.Thread("other").Run(ctx, kitState{})
			if _, asked := errors.AsType[*treadle.InterruptError](err); asked {
				return kitSay(fmt.Sprint("the other has ", len(out.Log))), nil // its interrupt does not affect this run
			}
			return kitSay(out.Log...), err
		})
		b.Edge(treadle.Start, "call")
		return kitCompile(t, b, saver)
	}
	w, saver := &kitWorld{}, open(t)
	kitRun(t, build(t, w, saver).Thread("t"), kitState{}, "the other has 1")
	kitRun(t, build(t, w, saver).Thread("t"), kitState{}, "the other has 1", "the other has 2")
	other := kitChain("x", "ask?")(t, w, saver).Thread("other")
	if got, want := kitLine(kitStateOf(t, other)), `4 loop {"log":["x","x"]} [ask]`; got != want {
		t.Errorf("other thread: %s, want %s", got, want)
	}
	kitResume(t, other, "yes", "x", "x", "ask=yes")
}

func nestingParallel(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, keep := range []struct {
		name   string
		opts   []treadle.NodeOption
		second []string
	}{
		{"PerTask", nil, []string{"l#0=3", "r#0=4"}},
		{"PerThread", []treadle.NodeOption{treadle.PerThread()}, []string{"l#1=3", "r#1=4"}},
	} {
		t.Run(keep.name, func(t *testing.T) {
			build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
				b := treadle.New[kitState]("root")
				for _, name := range []string{"l", "r"} {
					treadle.AddGraph(b, name, nestLeaf(t, w, name+"?"), keep.opts...)
					b.Edge(treadle.Start, name)
				}
				return kitCompile(t, b, saver)
			}
			kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
				answers := func(err error, l, r string) treadle.Answers {
					t.Helper()
					out := treadle.Answers{}
					for _, p := range kitAsked(t, err, "l?", "r?") {
						out[p.ID] = map[string]string{"l": l, "r": r}[p.Node]
					}
					return out
				}
				_, err := thread().Run(t.Context(), kitState{})
				at := kitStateOf(t, thread())
				if len(at.Tasks) != 2 || at.Tasks[0].Graph == nil || at.Tasks[1].Graph == nil || len(at.Pauses) != 2 {
					t.Fatalf("state %s with tasks %v, want two graphs with a question each", kitLine(at), at.Tasks)
				}
				// One after the other: the first stays answered.
				both := answers(err, "1", "2")
				var ids []string
				for id := range both {
					ids = append(ids, id)
				}
				_, err = thread().Resume(t.Context(), treadle.Answers{ids[0]: both[ids[0]]})
				if stop, ok := errors.AsType[*treadle.InterruptError](err); !ok || len(stop.Pauses) != 1 || stop.Pauses[0].ID != ids[1] {
					t.Fatalf("after one answer: %v, want the other question", err)
				}
				kitResume(t, thread(), both[ids[1]], "l#0=1", "r#0=2")
				_, err = thread().Run(t.Context(), kitState{})
				kitResume(t, thread(), answers(err, "3", "4"), append([]string{"l#0=1", "r#0=2"}, keep.second...)...)
				// A replay asks both again, with the state as of then.
				_, err = thread().At(at.ID).Continue(t.Context())
				kitResume(t, thread(), answers(err, "5", "6"), "l#0=5", "r#0=6")
			})
		})
	}
}

// nestingInTask checks that a task whose recorded result is replayed still accounts for
// the graph that it ran.
func nestingInTask(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		leaf := nestLeaf(t, w, "i").With(treadle.PerThread())
		b := treadle.New[kitState]("root")
		treadle.AddNode(b, "call", func(ctx context.Context, _ kitState) (kitLog, error) {
			n, err := treadle.Do(ctx, "count", func(ctx context.Context) (int, error) {
				out, err := leaf.Run(ctx, nestCount{})
				return out.Count.N, err
			})
			if err != nil {
				return kitLog{}, err
			}
			answer, err := treadle.Interrupt[string](ctx, "call?")
			if err != nil {
				return kitLog{}, err
			}
			return kitSay(fmt.Sprint(n, answer)), nil
		})
		b.Edge(treadle.Start, "call")
		return kitCompile(t, b, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		var log []string
		for turn := range 3 {
			_, err := thread().Run(t.Context(), kitState{})
			kitAsked(t, err, "call?")
			log = append(log, fmt.Sprint(turn+1, "!"))
			kitResume(t, thread(), "!", log...)
			kitRan(t, w, "i")
		}
	})
}
