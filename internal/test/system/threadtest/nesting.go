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
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/reduce"
)

// Nesting is the suite for subgraphs on a thread: their state, its lifetime, and what
// happens to it when the thread fails or forks.
var Nesting = Suite{
	{"StateAtEveryDepth", concurrent, nestingState},
	{"History", sequential, nestingHistory},
	{"Edit", sequential, nestingEdit},
	{"EditMakesQuestionStale", sequential, nestingStale},
	{"EditLeavesOtherQuestions", sequential, nestingStaleSibling},
	{"HandleTakesNoInput", sequential, nestingHandle},
	{"FailureAtEveryDepth", sequential, nestingFailure},
	{"SiblingOfFailedGraph", concurrent, nestingSibling},
	{"BeginsAfresh", sequential, nestingFresh},
	{"PerThreadAccumulates", sequential, nestingAccumulates},
	{"PerThreadInLoop", sequential, nestingLoop},
	{"PerThreadIsForked", sequential, nestingForked},
	{"PerThreadAsksAndIsReentered", sequential, nestingReentered},
	{"PerThreadFails", sequential, nestingPerThreadFails},
	{"PerThreadAfterGivenUpQuestion", sequential, nestingGivenUp},
	{"PerThreadInsidePerTask", sequential, nestingMixed},
	{"PerThreadIsEditedBetweenTurns", sequential, nestingEditedBetween},
	{"PerThreadInRecordedTask", sequential, nestingInTask},
	{"OfAnotherGraph", sequential, nestingOfAnotherGraph},
	{"PerThreadBySeveralTasks", concurrent, nestingPerThreadSends},
	{"RetriedWithAnotherInput", sequential, nestingRetriedInput},
	{"RetriedWithTheSameInput", sequential, nestingRetriedSame},
	{"RetriedAfterAQuestion", sequential, nestingRetriedAsks},
	{"SeveralInOneNode", sequential, nestingSeveral},
	{"CalledInFunction", sequential, nestingCalled},
	{"NoCheckpoints", sequential, nestingNothing},
	{"OwnThread", sequential, nestingOwnThread},
	{"Parallel", concurrent, nestingParallel},
	{"ReplayRunsWholeGraph", sequential, nestingReplay},
	{"ReplayAsksAgain", sequential, nestingReplayAsks},
	{"ForkReproducesTail", sequential, nestingTails},
}

// nestCount is the state of the innermost graphs. Their parent graphs do not have the
// field Count.
type nestCount struct {
	Log   reduce.List[string] `json:"log"`
	Count reduce.Sum[int]     `json:"count"`
}

type nestCounted struct {
	Log   reduce.List[string]
	Count reduce.Sum[int]
}

type nestGraph = treadle.Graph[nestCount, nestCount]

// nestLeaf returns a graph of nodes that count: each logs its name and the count that it
// found. A node whose name ends with a question mark interrupts.
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
			return nestCounted{reduce.List[string]{word}, reduce.SumOf(1)}, nil
		})
		seq = append(seq, name)
	}
	b.Sequence(treadle.Nodes(seq)...)
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// nestTower returns a root graph (a, sub, z) whose node sub is a graph (b, sub, y) whose
// node sub is a graph of the given nodes. With depth 2, the middle graph is omitted.
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
					t.Errorf("handle on %s shows %s, the thread %s", nestPath(s.Namespace), kitLine(in), kitLine(s))
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
		kitWantLines(t, kitSelected(t, in, &treadle.HistoryOptions{Limit: 1, Before: leaf.ID}), `0 loop {"log":["a","b"],"count":0} [i]`)
		// The root's history contains only the root's checkpoints.
		if got := len(kitHistory(t, thread())); got != 5 {
			t.Errorf("root has %d checkpoints, want 5", got)
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

				// As the node before the interrupt: the question is asked again.
				if _, err := kitNested(t, thread(), leaf.Namespace...).Update(t.Context(), json.RawMessage(`{"log":["edited"]}`)); err != nil {
					t.Fatal(err)
				}
				if got, want := kitLine(kitStateOf(t, kitNested(t, thread(), leaf.Namespace...))), `2 update {"log":["a","i#0","edited"],"count":1} [ask]`; got != want {
					t.Errorf("state %s, want %s", got, want)
				}
				_, err = thread().Continue(t.Context())
				kitAsked(t, err, "ask?")
				kitRan(t, w, "ask")

				// As the interrupted node: it does not run.
				if _, err := kitNested(t, thread(), leaf.Namespace...).Update(t.Context(), json.RawMessage(`{"log":["for ask"]}`), treadle.AsNode("ask")); err != nil {
					t.Fatal(err)
				}
				kitContinue(t, thread(), "a", "i#0", "edited", "for ask", "j#1", "z")
				kitRan(t, w, "j", "z")

				// A fork from before does not contain the edits.
				_, err = thread().At(start.ID).Continue(t.Context())
				kitAsked(t, err, "ask?")
				kitResume(t, thread(), "yes", "a", "i#0", "ask#1=yes", "j#2", "z")
			})
		})
	}
}

// nestingStale checks that an edit of a graph makes its interrupts, and those of its
// subgraphs, stale.
func nestingStale(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, keep := range []struct {
		name string
		opts []treadle.NodeOption
	}{{"PerTask", nil}, {"PerThread", []treadle.NodeOption{treadle.PerThread()}}} {
		for _, level := range []int{1, 2} { // the graph to edit: the middle or the innermost
			t.Run(fmt.Sprint(keep.name, level), func(t *testing.T) {
				kitBothWays(t, open, nestTower(3, []string{"i", "ask?"}, keep.opts...), func(t *testing.T, w *kitWorld, thread kitHandle) {
					_, err := thread().Run(t.Context(), kitState{})
					old := kitAsked(t, err, "ask?")
					var ns []string
					for s, depth := kitStateOf(t, thread()), 0; depth <= level; s, depth = s.Tasks[0].Graph, depth+1 {
						ns = s.Namespace
					}
					kitUpdate(t, kitNested(t, thread(), ns...), kitSay("edited"))
					w.ran()

					noneOpen := func(s *treadle.Snapshot) {
						t.Helper()
						if len(s.Pauses) != 0 || len(s.Tasks) != 1 || len(s.Tasks[0].Pauses) != 0 {
							t.Errorf("%s lists the questions %v, tasks %v; want none", kitLine(s), s.Pauses, s.Tasks)
						}
					}
					for s := kitStateOf(t, thread()); s != nil; s = s.Tasks[0].Graph {
						noneOpen(s)
					}
					noneOpen(kitSelected(t, thread(), &treadle.HistoryOptions{Limit: 1})[0])
					for _, answer := range []any{"x", treadle.Answers{old[0].ID: "x"}} {
						if _, err := thread().Resume(t.Context(), answer); !errors.Is(err, treadle.ErrNothingToResume) {
							t.Errorf("answer to the stale question: %v, want ErrNothingToResume", err)
						}
					}
					kitRan(t, w)

					_, err = thread().Continue(t.Context())
					asked := kitAsked(t, err, "ask?")
					if asked[0].ID == old[0].ID {
						t.Error("question has its old id")
					}
					if s := kitStateOf(t, thread()); len(s.Pauses) != 1 || s.Pauses[0].ID != asked[0].ID {
						t.Errorf("open questions %v, want the new one", s.Pauses)
					}
					want := []string{"a", "b", "i#0", "edited", "ask#1=yes", "y", "z"}
					if level == 1 {
						want = []string{"a", "b", "edited", "i#0", "ask#1=yes", "y", "z"}
					}
					kitResume(t, thread(), "yes", want...)
				})
			})
		}
	}
}

// nestingStaleSibling checks that, of two interrupted graphs, the unedited one still
// waits.
func nestingStaleSibling(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		b := treadle.New[kitState]("root")
		for _, name := range []string{"l", "r"} {
			treadle.AddGraph(b, name, nestLeaf(t, w, name+"1", name+"2?"))
			b.Edge(treadle.Start, name)
		}
		return kitCompile(t, b, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{})
		kitAsked(t, err, "l2?", "r2?")
		left := kitStateOf(t, thread()).Tasks[0].Graph
		kitUpdate(t, kitNested(t, thread(), left.Namespace...), kitSay("edited"))
		if s := kitStateOf(t, thread()); len(s.Pauses) != 1 || s.Pauses[0].Node != "r2" {
			t.Errorf("open questions %v, want that of the other graph", s.Pauses)
		}
		_, err = thread().Resume(t.Context(), "right") // only one is pending
		kitAsked(t, err, "l2?")
		kitResume(t, thread(), "left", "l1#0", "edited", "l2#1=left", "r1#0", "r2#1=right")
	})
}

func nestingHandle(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	w := &kitWorld{}
	g := nestTower(2, []string{"ask?"})(t, w, open(t))
	thread := g.Thread("t")
	_, err := thread.Run(t.Context(), kitState{})
	kitAsked(t, err, "ask?")
	in := kitNested(t, thread, kitStateOf(t, thread).Tasks[0].Graph.Namespace...)
	if in.ID() != "t" {
		t.Errorf("it is of thread %q", in.ID())
	}
	before := kitHistory(t, thread)
	fails := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "continue thread \"") {
			t.Errorf("%s: %v, want it to say what to do", what, err)
		}
	}
	_, err = in.Run(t.Context(), kitState{})
	fails("run", err)
	inJSON, err := dynamic.Open(g, "t").Nested(kitStateOf(t, in).Namespace...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = inJSON.RunJSON(t.Context(), json.RawMessage(`{}`))
	fails("run with JSON", err)
	for _, err := range in.Stream(t.Context(), kitState{}) {
		fails("stream", err)
	}
	kitRan(t, w, "a", "ask")
	if added := kitAppended(t, thread, before); len(added) != 0 {
		t.Errorf("refused inputs have added %v", kitLines(added))
	}
	// Resuming applies to the whole thread.
	kitResume(t, in, "yes", "a", "ask#0=yes", "z")
	if snap := kitStateOf(t, in); snap.Namespace == nil || len(snap.Next) != 0 {
		t.Errorf("state %s of %v, want the nested graph's end", kitLine(snap), snap.Namespace)
	}
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

// nestingSibling checks that a finished task next to a failed one is also kept inside a
// subgraph.
func nestingSibling(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		root := treadle.New[kitState]("root")
		treadle.AddGraph(root, "left", kitPair("l1", "l2")(t, w, nil))
		treadle.AddGraph(root, "right", kitPair("r1", "r2")(t, w, nil))
		treadle.AddNode(root, "end", w.node("end"))
		root.Edge(treadle.Start, "left")
		root.Edge(treadle.Start, "right")
		root.Join([]any{"left", "right"}, "end")
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
