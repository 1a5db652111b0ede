package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// Nesting is the suite of graphs inside graphs on a thread: their state, how
// long it lasts, and what becomes of it when the thread fails or forks.
func Nesting(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	t.Run("StateAtEveryDepth", func(t *testing.T) { nestingState(t, open) })
	t.Run("History", func(t *testing.T) { nestingHistory(t, open) })
	t.Run("Edit", func(t *testing.T) { nestingEdit(t, open) })
	t.Run("HandleIsNotForRunning", func(t *testing.T) { nestingHandle(t, open) })
	t.Run("FailureAtEveryDepth", func(t *testing.T) { nestingFailure(t, open) })
	t.Run("SiblingOfFailedGraph", func(t *testing.T) { nestingSibling(t, open) })
	t.Run("BeginsAfresh", func(t *testing.T) { nestingFresh(t, open) })
	t.Run("PerThreadAccumulates", func(t *testing.T) { nestingAccumulates(t, open) })
	t.Run("PerThreadInLoop", func(t *testing.T) { nestingLoop(t, open) })
	t.Run("PerThreadIsForked", func(t *testing.T) { nestingForked(t, open) })
	t.Run("PerThreadAsksAndIsReentered", func(t *testing.T) { nestingReentered(t, open) })
	t.Run("PerThreadFails", func(t *testing.T) { nestingPerThreadFails(t, open) })
	t.Run("PerThreadAfterGivenUpQuestion", func(t *testing.T) { nestingGivenUp(t, open) })
	t.Run("PerThreadInsidePerTask", func(t *testing.T) { nestingMixed(t, open) })
	t.Run("PerThreadIsEditedBetweenTurns", func(t *testing.T) { nestingEditedBetween(t, open) })
	t.Run("PerThreadInRecordedTask", func(t *testing.T) { nestingInTask(t, open) })
	t.Run("SeveralInOneNode", func(t *testing.T) { nestingSeveral(t, open) })
	t.Run("CalledInFunction", func(t *testing.T) { nestingCalled(t, open) })
	t.Run("NoCheckpoints", func(t *testing.T) { nestingNothing(t, open) })
	t.Run("OwnThread", func(t *testing.T) { nestingOwnThread(t, open) })
	t.Run("Parallel", func(t *testing.T) { nestingParallel(t, open) })
	t.Run("ReplayRunsWholeGraph", func(t *testing.T) { nestingReplay(t, open) })
	t.Run("ReplayAsksAgain", func(t *testing.T) { nestingReplayAsks(t, open) })
	t.Run("ForkReproducesTail", func(t *testing.T) { nestingTails(t, open) })
}

// nestCount is the state of the innermost graphs. The count is their own: the
// graphs around them do not know it.
type nestCount struct {
	Log   treadle.List[string] `json:"log"`
	Count treadle.Sum[int]     `json:"count"`
}

type nestCounted struct {
	Log   treadle.List[string]
	Count treadle.Sum[int]
}

type nestGraph = treadle.Graph[nestCount, nestCount]

// nestLeaf is a graph of nodes that count: each writes its name and the count
// that it found. A name with a question mark asks.
func nestLeaf(t *testing.T, w *kitWorld, names ...string) *nestGraph {
	t.Helper()
	b := treadle.New[nestCount]("leaf")
	seq := []string{treadle.Start}
	for _, name := range names {
		name, asks := strings.CutSuffix(name, "?")
		treadle.AddNode(b, name, func(ctx context.Context, s nestCount) (nestCounted, error) {
			if err := w.enter(ctx, name); err != nil {
				return nestCounted{}, err
			}
			word := fmt.Sprintf("%s#%d", name, s.Count.N)
			if asks {
				answer, err := treadle.Interrupt[string](ctx, name+"?")
				if err != nil {
					return nestCounted{}, err
				}
				word += "=" + answer
			}
			return nestCounted{treadle.List[string]{word}, treadle.SumOf(1)}, nil
		})
		seq = append(seq, name)
	}
	b.Sequence(seq...)
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// nestTower is a root (a, sub, z), in which sub is a graph (b, sub, y), in
// which sub is a graph of the given nodes. With depth 2 the middle is missing.
func nestTower(depth int, leaf []string, opts ...treadle.NodeOption) kitBuild {
	return func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		t.Helper()
		inner := nestLeaf(t, w, leaf...)
		level := func(name, first, last string) *treadle.Builder[kitState] {
			b := treadle.New[kitState](name)
			treadle.AddNode(b, first, w.node(first))
			treadle.AddNode(b, last, w.node(last))
			b.Sequence(treadle.Start, first, "sub", last)
			return b
		}
		root := level("root", "a", "z")
		if depth == 2 {
			treadle.AddGraph(root, "sub", inner, opts...)
			return kitCompile(t, root, saver)
		}
		middle := level("middle", "b", "y")
		treadle.AddGraph(middle, "sub", inner, opts...)
		treadle.AddGraph(root, "sub", kitCompile(t, middle, nil), opts...)
		return kitCompile(t, root, saver)
	}
}

var nestTask = regexp.MustCompile(`:[^|]*`)

func nestPath(namespace []string) string {
	return nestTask.ReplaceAllString(strings.Join(namespace, "|"), "")
}

func nestingState(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestTower(3, []string{"i", "ask?", "j"}), func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{N: 7})
		asked := kitAsked(t, err, "ask?")
		if got := nestPath(asked[0].Namespace); got != "sub|sub" || asked[0].Node != "ask" {
			t.Errorf("node %s in %s asks, want ask in sub|sub", asked[0].Node, got)
		}
		snap := kitStateOf(t, thread())
		var got, names []string
		for s := snap; s != nil; s = s.Tasks[0].Graph {
			got, names = append(got, kitLine(s)), append(names, nestPath(s.Namespace))
			if len(s.Pauses) != 1 || s.Pauses[0].ID != asked[0].ID {
				t.Errorf("questions of %s: %v, want the one", kitLine(s), s.Pauses)
			}
			if len(s.Tasks) != 1 {
				t.Fatalf("tasks of %s: %v", kitLine(s), s.Tasks)
			}
			if len(s.Namespace) > 0 {
				in := kitStateOf(t, kitNested(t, thread(), s.Namespace...))
				if kitLine(in) != kitLine(s) || in.ID != s.ID {
					t.Errorf("a handle on %s shows %s, the thread %s", nestPath(s.Namespace), kitLine(in), kitLine(s))
				}
			}
		}
		want := []string{`1 loop {"n":7,"log":["a"]} [sub]`, `1 loop {"n":7,"log":["a","b"]} [sub]`, `1 loop {"log":["a","b","i#0"],"count":1} [ask]`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("states from the root down (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"", "sub", "sub|sub"}, names); diff != "" {
			t.Errorf("namespaces (-want +got):\n%s", diff)
		}
		kitResume(t, thread(), "yes", "a", "b", "i#0", "ask#1=yes", "j#2", "y", "z")
		kitRan(t, w, "a", "ask", "ask", "b", "i", "j", "y", "z")
	})
}

func nestingHistory(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestTower(3, []string{"i", "ask?"}), func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{})
		kitAsked(t, err, "ask?")
		middle := kitStateOf(t, thread()).Tasks[0].Graph
		leaf := middle.Tasks[0].Graph
		kitResume(t, thread(), "yes", "a", "b", "i#0", "ask#1=yes", "y", "z")
		kitWantLines(t, kitHistory(t, kitNested(t, thread(), middle.Namespace...)),
			`3 loop {"log":["a","b","i#0","ask#1=yes","y"]} []`,
			`2 loop {"log":["a","b","i#0","ask#1=yes"]} [y]`,
			`1 loop {"log":["a","b"]} [sub]`,
			`0 loop {"log":["a"]} [b]`,
			`-1 input {"log":[]} [__start__]`,
		)
		in := kitNested(t, thread(), leaf.Namespace...)
		kitWantLines(t, kitHistory(t, in),
			`2 loop {"log":["a","b","i#0","ask#1=yes"],"count":2} []`,
			`1 loop {"log":["a","b","i#0"],"count":1} [ask]`,
			`0 loop {"log":["a","b"],"count":0} [i]`,
			`-1 input {"log":[],"count":0} [__start__]`,
		)
		kitWantLines(t, kitHistory(t, in, treadle.Limit(1), treadle.Earlier(leaf.ID)), `0 loop {"log":["a","b"],"count":0} [i]`)
		// The root's history is the root's alone.
		if got := len(kitHistory(t, thread())); got != 5 {
			t.Errorf("the root has %d checkpoints, want 5", got)
		}
	})
}

func nestingEdit(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, keep := range []struct {
		name string
		opts []treadle.NodeOption
	}{{"PerTask", nil}, {"PerThread", []treadle.NodeOption{treadle.PerThread()}}} {
		t.Run(keep.name, func(t *testing.T) {
			kitBothWays(t, open, nestTower(2, []string{"i", "ask?", "j"}, keep.opts...), func(t *testing.T, w *kitWorld, thread kitHandle) {
				_, err := thread().Run(t.Context(), kitState{})
				kitAsked(t, err, "ask?")
				start := kitStateOf(t, thread())
				leaf := start.Tasks[0].Graph
				w.ran()

				// As the node before the question: it is asked again.
				if _, err := kitNested(t, thread(), leaf.Namespace...).UpdateJSON(t.Context(), json.RawMessage(`{"log":["edited"]}`)); err != nil {
					t.Fatal(err)
				}
				if got, want := kitLine(kitStateOf(t, kitNested(t, thread(), leaf.Namespace...))), `2 update {"log":["a","i#0","edited"],"count":1} [ask]`; got != want {
					t.Errorf("state %s, want %s", got, want)
				}
				_, err = thread().Continue(t.Context())
				kitAsked(t, err, "ask?")
				kitRan(t, w, "ask")

				// As the node that asks: it does not run.
				if _, err := kitNested(t, thread(), leaf.Namespace...).UpdateJSON(t.Context(), json.RawMessage(`{"log":["for ask"]}`), treadle.AsNode("ask")); err != nil {
					t.Fatal(err)
				}
				kitContinue(t, thread(), "a", "i#0", "edited", "for ask", "j#1", "z")
				kitRan(t, w, "j", "z")

				// A fork from before knows nothing of the edits.
				_, err = thread().At(start.ID).Continue(t.Context())
				kitAsked(t, err, "ask?")
				kitResume(t, thread(), "yes", "a", "i#0", "ask#1=yes", "j#2", "z")
			})
		})
	}
}

func nestingHandle(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	w := &kitWorld{}
	thread := nestTower(2, []string{"ask?"})(t, w, open(t)).Thread("t")
	_, err := thread.Run(t.Context(), kitState{})
	kitAsked(t, err, "ask?")
	in := kitNested(t, thread, kitStateOf(t, thread).Tasks[0].Graph.Namespace...)
	if in.ID() != "t" {
		t.Errorf("it is of thread %q", in.ID())
	}
	fails := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "continue the thread") {
			t.Errorf("%s: %v, want it to say what to do", what, err)
		}
	}
	_, err = in.RunJSON(t.Context(), nil)
	fails("run", err)
	for _, err := range in.StreamJSON(t.Context(), nil) {
		fails("stream", err)
	}
	for _, err := range in.CommandJSON(t.Context(), json.RawMessage(`{"resume":1}`)) {
		fails("command", err)
	}
	for _, ns := range [][]string{{"nowhere:1"}, {"a:1"}, {"sub:1", "sub:2"}} {
		if _, err := thread.Nested(ns...); err == nil {
			t.Errorf("nested %v: no error", ns)
		}
	}
	kitRan(t, w, "a", "ask")
}

func nestingFailure(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, failing := range []string{"a", "b", "i", "j", "y", "z"} {
		for _, keep := range []struct {
			name string
			opts []treadle.NodeOption
		}{{"PerTask", nil}, {"PerThread", []treadle.NodeOption{treadle.PerThread()}}} {
			t.Run(failing+keep.name, func(t *testing.T) {
				kitBothWays(t, open, nestTower(3, []string{"i", "j"}, keep.opts...), func(t *testing.T, w *kitWorld, thread kitHandle) {
					w.fail(failing, errKit)
					for i := range 2 {
						var err error
						if i == 0 {
							_, err = thread().Run(t.Context(), kitState{})
						} else {
							_, err = thread().Continue(t.Context())
						}
						if failed, ok := errors.AsType[*treadle.NodeError](err); !ok || !errors.Is(err, errKit) || failed.Node == "" {
							t.Fatalf("attempt %d: %v, want the failure", i, err)
						}
					}
					w.fail(failing, nil)
					kitContinue(t, thread(), "a", "b", "i#0", "j#1", "y", "z")
					want := []string{"a", "b", "i", "j", "y", "z", failing, failing}
					slices.Sort(want)
					kitRan(t, w, want...)
				})
			})
		}
	}
}

// A finished task beside a failed one is kept inside a nested graph, too.
func nestingSibling(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		root := treadle.New[kitState]("root")
		treadle.AddGraph(root, "left", kitPair("l1", "l2")(t, w, nil))
		treadle.AddGraph(root, "right", kitPair("r1", "r2")(t, w, nil))
		treadle.AddNode(root, "end", w.node("end"))
		root.Edge(treadle.Start, "left")
		root.Edge(treadle.Start, "right")
		root.Join([]string{"left", "right"}, "end")
		return kitCompile(t, root, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		w.fail("r2", errKit)
		if _, err := thread(treadle.MaxConcurrency(1)).Run(t.Context(), kitState{}); !errors.Is(err, errKit) {
			t.Fatal(err)
		}
		kitRan(t, w, "l1", "l2", "r1", "r2")
		if got, want := kitLine(kitStateOf(t, thread())), `0 loop {"log":["l1","l2"]} [right]`; got != want {
			t.Errorf("state %s, want %s", got, want)
		}
		w.fail("r2", nil)
		kitContinue(t, thread(), "l1", "l2", "r1", "r2", "end")
		kitRan(t, w, "end", "r2")
	})
}

func nestingFresh(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestTower(2, []string{"i", "ask?"}), func(t *testing.T, w *kitWorld, thread kitHandle) {
		log := []string{}
		for turn := range 2 {
			_, err := thread().Run(t.Context(), kitState{})
			kitAsked(t, err, "ask?")
			answer := fmt.Sprint(turn)
			log = append(log, "a", "i#0", "ask#1="+answer, "z")
			kitResume(t, thread(), answer, log...)
		}
		if h := kitHistory(t, kitNested(t, thread(), "sub")); len(h) != 0 {
			t.Errorf("there is a lasting state: %v", kitLines(h))
		}
	})
}

func nestingAccumulates(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, depth := range []int{2, 3} {
		t.Run(fmt.Sprint("depth", depth), func(t *testing.T) {
			kitBothWays(t, open, nestTower(depth, []string{"i", "j"}, treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
				kitRunAny(t, thread(), kitState{})
				out := kitRunAny(t, thread(), kitState{})
				var counts []string
				for _, word := range out.Log {
					if strings.Contains(word, "#") {
						counts = append(counts, word)
					}
				}
				if diff := cmp.Diff([]string{"i#0", "j#1", "i#2", "j#3"}, counts); diff != "" {
					t.Errorf("counts (-want +got):\n%s", diff)
				}
				path := []string{"sub", "sub"}[:depth-1]
				in := kitNested(t, thread(), path...)
				snaps := kitHistory(t, in)
				var steps []string
				for _, s := range snaps {
					n, _ := s.Values.Get("count")
					steps = append(steps, fmt.Sprint(s.Step, " ", s.Source, " ", n, " ", s.Next))
				}
				want := []string{"6 loop 4 []", "5 loop 3 [j]", "4 loop 2 [i]", "3 input 2 [__start__]",
					"2 loop 2 []", "1 loop 1 [j]", "0 loop 0 [i]", "-1 input 0 [__start__]"}
				if diff := cmp.Diff(want, steps); diff != "" {
					t.Errorf("the graph's own history (-want +got):\n%s", diff)
				}
				// Other threads have their own.
			})
			saver, w := open(t), &kitWorld{}
			g := nestTower(depth, []string{"i"}, treadle.PerThread())(t, w, saver)
			for _, id := range []string{"x", "y"} {
				out := kitRunAny(t, g.Thread(id), kitState{})
				if !slices.Contains(out.Log, "i#0") {
					t.Errorf("thread %s: %v, want a count of its own", id, out.Log)
				}
			}
		})
	}
}

// nestLoop runs its graph n times.
func nestLoop(leaf []string, opts ...treadle.NodeOption) kitBuild {
	return func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		t.Helper()
		b := treadle.New[kitState]("loop")
		treadle.AddNode(b, "again", func(ctx context.Context, s kitState) (kitN, error) {
			return kitN{s.N - 1}, w.enter(ctx, "again")
		})
		treadle.AddGraph(b, "sub", nestLeaf(t, w, leaf...), opts...)
		b.Edge(treadle.Start, "sub")
		b.Edge("sub", "again")
		b.Branch("again", func(_ context.Context, s kitState) (treadle.Goto, error) {
			if s.N > 0 {
				return treadle.To("sub"), nil
			}
			return treadle.To(treadle.End), nil
		}, "sub", treadle.End)
		return kitCompile(t, b, saver)
	}
}

func nestingLoop(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestLoop([]string{"i"}, treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 3}, "i#0", "i#1", "i#2")
		kitRun(t, thread(), kitState{N: 1}, "i#0", "i#1", "i#2", "i#3")
		namespaces := map[string]bool{}
		for ev, err := range thread().Stream(t.Context(), kitState{N: 1}, treadle.Subgraphs()) {
			if err != nil {
				t.Fatal(err)
			}
			if up, ok := ev.(treadle.Updated); ok {
				namespaces[strings.Join(up.Namespace, "|")] = true
			}
		}
		if diff := cmp.Diff(map[string]bool{"": true, "sub": true}, namespaces); diff != "" {
			t.Errorf("namespaces of the stream (-want +got):\n%s", diff)
		}
	})
	kitBothWays(t, open, nestLoop([]string{"i"}), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 3}, "i#0", "i#0", "i#0")
	})
}

// A lasting graph is as the parent's checkpoint knew it.
func nestingForked(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestLoop([]string{"i"}, treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 2}, "i#0", "i#1")
		first := kitHistory(t, thread())
		inner := kitHistory(t, kitNested(t, thread(), "sub"))
		kitRun(t, thread(), kitState{N: 1}, "i#0", "i#1", "i#2")

		second := kitAt(t, first, "sub") // before the second round of the first turn
		kitContinue(t, thread().At(second.ID), "i#0", "i#1")
		kitContinue(t, thread().At(first[len(first)-2].ID), "i#0", "i#1") // from the very beginning
		kitRun(t, thread().At(first[0].ID), kitState{N: 1}, "i#0", "i#1", "i#2")
		kitUpdate(t, thread().At(second.ID), kitN{2}, treadle.AsNode("again"))
		kitContinue(t, thread(), "i#0", "i#1", "i#2")
		// The thread goes on from its head, and so does the graph.
		kitRun(t, thread(), kitState{N: 1}, "i#0", "i#1", "i#2", "i#3")
		kitAppended(t, kitNested(t, thread(), "sub"), inner)
	})
	for _, depth := range []int{2, 3} {
		kitBothWays(t, open, nestTower(depth, []string{"i", "ask?"}, treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
			turn := func(th *kitThread, answer string, wantCount int) {
				t.Helper()
				_, err := th.Run(t.Context(), kitState{})
				kitAsked(t, err, "ask?")
				out, err := thread().Resume(t.Context(), answer)
				if want := fmt.Sprintf("ask#%d=%s", wantCount, answer); err != nil || !slices.Contains(out.Log, want) {
					t.Errorf("turn %s: %v, %v; want %s in it", answer, out.Log, err, want)
				}
			}
			turn(thread(), "one", 1)
			afterOne := kitStateOf(t, thread())
			turn(thread(), "two", 3)
			inTwo := kitAt(t, kitHistory(t, thread()), "sub")
			turn(thread(), "three", 5)
			// From inside the second turn: the state after the first.
			_, err := thread().At(inTwo.Parent).Continue(t.Context())
			kitAsked(t, err, "ask?")
			out, err := thread().Resume(t.Context(), "again")
			if err != nil || !slices.Contains(out.Log, "ask#3=again") {
				t.Errorf("replay of the second turn: %v, %v", out.Log, err)
			}
			turn(thread().At(afterOne.ID), "other", 3)
			turn(thread(), "next", 5)
		})
	}
}

func nestingReentered(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestLoop([]string{"i", "ask?"}, treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{N: 2})
		kitAsked(t, err, "ask?")
		kitRan(t, w, "ask", "i")
		_, err = thread().Resume(t.Context(), "one")
		kitAsked(t, err, "ask?")
		kitRan(t, w, "again", "ask", "ask", "i")
		kitResume(t, thread(), "two", "i#0", "ask#1=one", "i#2", "ask#3=two")
		kitRan(t, w, "again", "ask")
		_, err = thread().Run(t.Context(), kitState{N: 1})
		kitAsked(t, err, "ask?")
		kitResume(t, thread(), "three", "i#0", "ask#1=one", "i#2", "ask#3=two", "i#4", "ask#5=three")
	})
}

func nestingPerThreadFails(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestLoop([]string{"i", "j"}, treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "i#0", "j#1")
		w.fail("j", errKit)
		if _, err := thread().Run(t.Context(), kitState{N: 1}); !errors.Is(err, errKit) {
			t.Fatal(err)
		}
		// New input gives up what the failed turn did, also in the graph.
		w.fail("j", nil)
		kitRun(t, thread(), kitState{N: 1}, "i#0", "j#1", "i#2", "j#3")
	})
}

func nestingGivenUp(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestLoop([]string{"i", "ask?"}, treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		for range 2 {
			_, err := thread().Run(t.Context(), kitState{N: 1})
			kitAsked(t, err, "ask?")
		}
		kitResume(t, thread(), "yes", "i#0", "ask#1=yes")
	})
}

// nestCall is a node function that runs graphs and writes what they wrote.
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
	build := func(keeps ...treadle.Option) kitBuild {
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
			// The log is theirs, too, and accumulates: it is not inherited here.
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
		opts   []treadle.Option
		second []string // what the second turn's call writes
	}{
		{"PerTask", nil, []string{"i#0", "ask#1=two"}},
		{"PerThread", []treadle.Option{treadle.PerThread()}, []string{"i#0", "ask#1=one", "i#2", "ask#3=two"}},
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
				t.Errorf("a checkpoint of the nested graph: %s", kitLine(&cp.Snapshot))
			}
			if err != nil && !errors.Is(err, errKit) {
				t.Fatal(err)
			}
		}
		if in := kitStateOf(t, thread()).Tasks[0].Graph; in != nil {
			t.Errorf("the graph has the state %s", kitLine(in))
		}
		w.fail("j", nil)
		w.ran()
		kitContinue(t, thread(), "a", "i#0", "j#1", "z")
		kitRan(t, w, "i", "j", "z") // nothing of the graph was kept
	})
	kitBothWays(t, open, nestTower(2, []string{"ask?"}, treadle.NoCheckpoints()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		if _, err := thread().Run(t.Context(), kitState{}); !errors.Is(err, treadle.ErrNoSaver) {
			t.Errorf("a question: %v, want ErrNoSaver", err)
		}
	})
}

// A graph that a node runs on a thread of its own is a run of its own.
func nestingOwnThread(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		other := kitChain("x", "ask?")(t, w, saver)
		b := treadle.New[kitState]("root")
		treadle.AddNode(b, "call", func(ctx context.Context, _ kitState) (kitLog, error) {
			out, err := other.Thread("other").Run(ctx, kitState{})
			if _, asked := errors.AsType[*treadle.InterruptError](err); asked {
				return kitSay(fmt.Sprint("the other has ", len(out.Log))), nil // its question is its own affair
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
		t.Errorf("the other thread: %s, want %s", got, want)
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
				// Replay asks both again, as of then.
				_, err = thread().At(at.ID).Continue(t.Context())
				kitResume(t, thread(), answers(err, "5", "6"), "l#0=5", "r#0=6")
			})
		})
	}
}

func nestingReplay(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestTower(3, []string{"i", "j"}), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{}, "a", "b", "i#0", "j#1", "y", "z")
		before := kitHistory(t, thread())
		w.ran()
		kitContinue(t, thread().At(kitAt(t, before, "sub").ID), "a", "b", "i#0", "j#1", "y", "z")
		kitRan(t, w, "b", "i", "j", "y", "z")
		kitContinue(t, thread().At(kitAt(t, before, "z").ID), "a", "b", "i#0", "j#1", "y", "z")
		kitRan(t, w, "z")
		kitUpdate(t, thread().At(kitAt(t, before, "sub").ID), kitSay("x"))
		kitContinue(t, thread(), "a", "x", "b", "i#0", "j#1", "y", "z")
		kitRan(t, w, "b", "i", "j", "y", "z")
		// Or the edit stands for the whole graph.
		kitUpdate(t, thread().At(kitAt(t, before, "sub").ID), kitSay("instead"), treadle.AsNode("sub"))
		kitContinue(t, thread(), "a", "instead", "z")
		kitRan(t, w, "z")
		kitAppended(t, thread(), before)
	})
}

func nestingReplayAsks(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, keep := range []struct {
		name string
		opts []treadle.NodeOption
	}{{"PerTask", nil}, {"PerThread", []treadle.NodeOption{treadle.PerThread()}}} {
		for _, depth := range []int{2, 3} {
			t.Run(fmt.Sprint(keep.name, depth), func(t *testing.T) {
				kitBothWays(t, open, nestTower(depth, []string{"one?", "two?"}, keep.opts...), func(t *testing.T, w *kitWorld, thread kitHandle) {
					log := func(one, two string) []string {
						out := []string{"a", "one#0=" + one, "two#1=" + two, "z"}
						if depth == 3 {
							out = []string{"a", "b", "one#0=" + one, "two#1=" + two, "y", "z"}
						}
						return out
					}
					_, err := thread().Run(t.Context(), kitState{})
					kitAsked(t, err, "one?")
					// The head by its id is no time travel.
					_, err = thread().At(kitStateOf(t, thread()).ID).Resume(t.Context(), "1")
					kitAsked(t, err, "two?")
					w.ran()
					kitResume(t, thread(), "2", log("1", "2")...)
					done := kitHistory(t, thread())
					at := kitAt(t, done, "sub")
					for range 2 {
						_, err = thread().At(at.ID).Continue(t.Context())
						kitAsked(t, err, "one?")
					}
					_, err = thread().Resume(t.Context(), "eins")
					kitAsked(t, err, "two?")
					kitResume(t, thread(), "zwei", log("eins", "zwei")...)
					kitAppended(t, thread(), done)
				})
			})
		}
	}
}

// nestingTails is the fork test: from every checkpoint of a nested run, a
// branch without an edit comes out as the original did, at every depth.
func nestingTails(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, keep := range []struct {
		name string
		opts []treadle.NodeOption
	}{
		{"PerTask", nil},
		{"PerThread", []treadle.NodeOption{treadle.PerThread()}},
		{"NoCheckpoints", []treadle.NodeOption{treadle.NoCheckpoints()}},
	} {
		t.Run(keep.name, func(t *testing.T) {
			kitBothWays(t, open, nestTower(3, []string{"i", "j"}, keep.opts...), func(t *testing.T, w *kitWorld, thread kitHandle) {
				nestTails(t, thread, kitState{N: 1})
			})
			kitBothWays(t, open, nestLoop([]string{"i", "j"}, keep.opts...), func(t *testing.T, w *kitWorld, thread kitHandle) {
				nestTails(t, thread, kitState{N: 3})
			})
		})
	}
}

// nestSeen is a checkpoint of any depth as a stream shows it.
type nestSeen struct {
	ID   checkpoint.ID
	Line string
}

func nestWatch(t *testing.T, events func(func(treadle.Event, error) bool)) (out []nestSeen, final kitState) {
	t.Helper()
	for ev, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case treadle.Checkpointed:
			out = append(out, nestSeen{ev.Snapshot.ID, fmt.Sprintf("[%s] %s %v", nestPath(ev.Snapshot.Namespace), ev.Snapshot.Values, ev.Snapshot.Next)})
		case treadle.Finished[kitState]:
			final = ev.Output
		}
	}
	return out, final
}

func nestTails(t *testing.T, thread kitHandle, in kitState) {
	t.Helper()
	watch := []treadle.StreamOption{treadle.Modes(treadle.ModeCheckpoints), treadle.Subgraphs()}
	type turn struct {
		seen  []nestSeen
		final kitState
	}
	var turns []turn
	for range 2 {
		seen, final := nestWatch(t, thread().Stream(t.Context(), in, watch...))
		turns = append(turns, turn{seen, final})
	}
	lines := func(seen []nestSeen) (out []string) {
		for _, s := range seen {
			out = append(out, s.Line)
		}
		return out
	}
	for i, turn := range turns {
		for at, s := range turn.seen {
			if !strings.HasPrefix(s.Line, "[] ") {
				continue // a nested one, which is reached through its root's
			}
			before := kitHistory(t, thread())
			got, final := nestWatch(t, thread().At(s.ID).ContinueStream(t.Context(), watch...))
			if diff := cmp.Diff(lines(turn.seen[at:]), lines(got)); diff != "" {
				t.Errorf("turn %d from %s (-original +branch):\n%s", i, s.Line, diff)
			}
			if diff := cmp.Diff(turn.final, final); diff != "" {
				t.Errorf("turn %d from %s: the output (-original +branch):\n%s", i, s.Line, diff)
			}
			kitAppended(t, thread(), before)
		}
	}
}

// A graph that lasts does so inside one that does not.
func nestingMixed(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		middle := treadle.New[kitState]("middle")
		treadle.AddGraph(middle, "sub", nestLeaf(t, w, "i"), treadle.PerThread())
		treadle.AddNode(middle, "ask", w.asker("ask"))
		middle.Sequence(treadle.Start, "sub", "ask")
		root := treadle.New[kitState]("root")
		treadle.AddGraph(root, "sub", kitCompile(t, middle, nil))
		root.Edge(treadle.Start, "sub")
		return kitCompile(t, root, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		var log []string
		var afterFirst *treadle.Snapshot
		for turn := range 3 {
			_, err := thread().Run(t.Context(), kitState{})
			kitAsked(t, err, "ask?")
			log = append(log, fmt.Sprint("i#", turn), "ask=yes")
			kitResume(t, thread(), "yes", log...)
			if turn == 0 {
				afterFirst = kitStateOf(t, thread())
			}
		}
		_, err := thread().At(afterFirst.ID).Run(t.Context(), kitState{})
		kitAsked(t, err, "ask?")
		kitResume(t, thread(), "yes", "i#0", "ask=yes", "i#1", "ask=yes")
		nestTails2(t, thread)
	})
}

// nestTails2 replays the last turn from its first node and wants its log.
func nestTails2(t *testing.T, thread kitHandle) {
	t.Helper()
	before := kitStateOf(t, thread())
	_, err := thread().At(before.Parent).Continue(t.Context())
	kitAsked(t, err, "ask?")
	if _, err := thread().Resume(t.Context(), "yes"); err != nil {
		t.Fatal(err)
	}
	if got := kitStateOf(t, thread()); got.Values.String() != before.Values.String() {
		t.Errorf("the branch ends with %s, the original with %s", got.Values, before.Values)
	}
}

// What is edited in a lasting graph while the thread rests counts next time.
func nestingEditedBetween(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestLoop([]string{"i"}, treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "i#0")
		first := kitStateOf(t, thread())
		for range 2 {
			if _, err := kitNested(t, thread(), "sub").UpdateJSON(t.Context(), json.RawMessage(`{"count":10}`)); err != nil {
				t.Fatal(err)
			}
		}
		kitRun(t, thread(), kitState{N: 1}, "i#0", "i#21")
		kitRun(t, thread(), kitState{N: 1}, "i#0", "i#21", "i#22")
		// On a branch from before, other turns have come since: as of then.
		kitRun(t, thread().At(first.ID), kitState{N: 1}, "i#0", "i#1")
	})
}

// A task that is answered from its record has not forgotten which graph it ran.
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
