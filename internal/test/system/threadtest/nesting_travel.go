package threadtest

import (
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

// NestedTravel is the suite for time travel to a checkpoint inside a subgraph: the thread
// forks at the step that ran the graph, the graph continues with the state it had there,
// and the earlier checkpoints are kept.
var NestedTravel = Suite{
	{"Replay", concurrent, deepReplay},
	{"ToQuestion", sequential, deepQuestion},
	{"WhileItAsks", sequential, deepWhileAsking},
	{"CheckpointsOfBranch", sequential, deepPattern},
	{"ForkWithEdit", sequential, deepEdit},
	{"MiddleOfThree", sequential, deepMiddle},
	{"FromEveryCheckpoint", sequential, deepTails},
	{"CalledInFunction", sequential, deepCalled},
	{"Parallel", concurrent, deepParallel},
	{"OlderTurnOfLastingGraph", sequential, deepLasting},
	{"Durabilities", sequential, deepDurable},
	{"Refused", sequential, deepRefused},
	{"FailedStoreMovesNothing", sequential, deepFaulty},
}

// deepBothKeeps runs a test on towers of two and three graphs whose subgraphs last as
// long as their task or as long as the thread.
func deepBothKeeps(t *testing.T, open func(*testing.T) checkpoint.Saver, leaf []string, test func(t *testing.T, w *kitWorld, thread kitHandle, log func(...string) []string)) {
	t.Helper()
	for _, keep := range []struct {
		name string
		opts []treadle.NodeOption
	}{{"PerTask", nil}, {"PerThread", []treadle.NodeOption{treadle.PerThread()}}} {
		for _, depth := range []int{2, 3} {
			t.Run(fmt.Sprint(keep.name, depth), func(t *testing.T) {
				kitBothWays(t, open, nestTower(depth, leaf, keep.opts...), func(t *testing.T, w *kitWorld, thread kitHandle) {
					test(t, w, thread, func(words ...string) []string {
						if depth == 3 {
							return slices.Concat([]string{"a", "b"}, words, []string{"y", "z"})
						}
						return slices.Concat([]string{"a"}, words, []string{"z"})
					})
				})
			})
		}
	}
}

// deepest returns the state of the innermost graph that the thread is in.
func deepest(t *testing.T, thread *kitThread) *treadle.Snapshot {
	t.Helper()
	snap := kitStateOf(t, thread)
	for len(snap.Tasks) == 1 && snap.Tasks[0].Graph != nil {
		snap = snap.Tasks[0].Graph
	}
	if len(snap.Namespace) == 0 {
		t.Fatalf("no graph runs in %s", kitLine(snap))
	}
	return snap
}

// deepBefore returns the subgraph checkpoint from which a node ran.
func deepBefore(t *testing.T, thread *kitThread, namespace []string, node string) *treadle.Snapshot {
	t.Helper()
	return kitAt(t, kitHistory(t, kitNested(t, thread, namespace...)), node)
}

func deepReplay(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	deepBothKeeps(t, open, []string{"i", "ask?", "j"}, func(t *testing.T, w *kitWorld, thread kitHandle, log func(...string) []string) {
		_, err := thread().Run(t.Context(), kitState{})
		first := kitAsked(t, err, "ask?")
		ns := deepest(t, thread()).Namespace
		done := kitResume(t, thread(), "one", log("i#0", "ask#1=one", "j#2")...)
		root, inner := kitHistory(t, thread()), kitHistory(t, kitNested(t, thread(), ns...))
		w.ran()

		// Before the last node: there is no interrupt, and only the following nodes run.
		out := kitContinue(t, kitNested(t, thread(), ns...).At(kitAt(t, inner, "j").ID), done.Log...)
		if diff := cmp.Diff(done, out); diff != "" {
			t.Errorf("output (-original +branch):\n%s", diff)
		}
		if ran := w.ran(); slices.Contains(ran, "a") || slices.Contains(ran, "b") || slices.Contains(ran, "i") || slices.Contains(ran, "ask") {
			t.Errorf("nodes from before the checkpoint ran: %v", ran)
		}

		// Before the first: the interrupt is a new one.
		_, err = kitNested(t, thread(), ns...).At(kitAt(t, inner, "i").ID).Continue(t.Context())
		again := kitAsked(t, err, "ask?")
		if again[0].ID == first[0].ID {
			t.Error("question on the branch has the id of the old one")
		}
		kitRan(t, w, "ask", "i")
		kitResume(t, thread(), "two", log("i#0", "ask#1=two", "j#2")...)

		// Also from the subgraph's input, and from its end.
		_, err = kitNested(t, thread(), ns...).At(inner[len(inner)-1].ID).Continue(t.Context())
		kitAsked(t, err, "ask?")
		kitRan(t, w, slices.Sorted(slices.Values(append([]string{"ask", "i", "ask", "j"}, slices.DeleteFunc(log(), func(s string) bool { return s == "a" || s == "b" })...)))...)
		kitContinue(t, kitNested(t, thread(), ns...).At(inner[0].ID), done.Log...)
		if ran := w.ran(); slices.Contains(ran, "j") {
			t.Errorf("from its end the graph ran %v", ran)
		}
		// The history is unchanged, and the thread continues from the fork.
		kitAppended(t, thread(), root)
		kitAppended(t, kitNested(t, thread(), ns...), inner)
		if _, err := thread().Run(t.Context(), kitState{}); err == nil {
			t.Error("next turn asks nothing")
		}
	})
}

func deepQuestion(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	deepBothKeeps(t, open, []string{"one?", "two?"}, func(t *testing.T, w *kitWorld, thread kitHandle, log func(...string) []string) {
		_, err := thread().Run(t.Context(), kitState{})
		kitAsked(t, err, "one?")
		ns := deepest(t, thread()).Namespace
		_, err = thread().Resume(t.Context(), "1")
		kitAsked(t, err, "two?")
		kitResume(t, thread(), "2", log("one#0=1", "two#1=2")...)
		one, two := deepBefore(t, thread(), ns, "one"), deepBefore(t, thread(), ns, "two")
		w.ran()

		// To the second: the first answer still applies.
		_, err = kitNested(t, thread(), ns...).At(two.ID).Continue(t.Context())
		kitAsked(t, err, "two?")
		kitRan(t, w, "two")
		kitResume(t, thread(), "zwei", log("one#0=1", "two#1=zwei")...)

		// To the first: both are asked again. The answer may be given through a handle on
		// the subgraph, which resumes the thread.
		for range 2 {
			_, err = kitNested(t, thread(), ns...).At(one.ID).Continue(t.Context())
			kitAsked(t, err, "one?")
		}
		here := deepest(t, thread())
		_, err = kitNested(t, thread(), here.Namespace...).At(here.ID).Resume(t.Context(), "eins")
		kitAsked(t, err, "two?")
		kitResume(t, kitNested(t, thread(), here.Namespace...), "zwei", log("one#0=eins", "two#1=zwei")...)

		// Time travel also works on the fork.
		_, err = kitNested(t, thread(), here.Namespace...).At(deepBefore(t, thread(), here.Namespace, "two").ID).Continue(t.Context())
		kitAsked(t, err, "two?")
		kitResume(t, thread(), "deux", log("one#0=eins", "two#1=deux")...)
	})
}

func deepWhileAsking(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	deepBothKeeps(t, open, []string{"one?", "two?"}, func(t *testing.T, w *kitWorld, thread kitHandle, log func(...string) []string) {
		_, err := thread().Run(t.Context(), kitState{})
		kitAsked(t, err, "one?")
		first := deepest(t, thread())
		_, err = thread().Resume(t.Context(), "1")
		asked := kitAsked(t, err, "two?")
		second := deepest(t, thread())
		before := kitHistory(t, thread())

		// Selecting the thread's current checkpoint is not time travel.
		_, err = kitNested(t, thread(), second.Namespace...).At(second.ID).Continue(t.Context())
		if again := kitAsked(t, err, "two?"); again[0].ID != asked[0].ID {
			t.Error("going on from where the thread is asked another question")
		}
		if added := kitAppended(t, thread(), before); len(added) != 0 {
			t.Errorf("it added %v", kitLines(added))
		}
		// Selecting an earlier one is, and answers are rejected there.
		if _, err := kitNested(t, thread(), first.Namespace...).At(first.ID).Resume(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), first.ID.String()) {
			t.Errorf("answer at an earlier checkpoint: %v, want it refused by name", err)
		}
		if added := kitAppended(t, thread(), before); len(added) != 0 {
			t.Errorf("refused answer added %v", kitLines(added))
		}
		_, err = kitNested(t, thread(), first.Namespace...).At(first.ID).Continue(t.Context())
		kitAsked(t, err, "one?")
		if snap := kitStateOf(t, thread()); len(snap.Pauses) != 1 || snap.Pauses[0].ID == asked[0].ID {
			t.Errorf("open questions: %v, want the new one alone", snap.Pauses)
		}
		_, err = thread().Resume(t.Context(), "eins")
		kitAsked(t, err, "two?")
		kitResume(t, thread(), "zwei", log("one#0=eins", "two#1=zwei")...)
	})
}

// deepPattern checks which checkpoints a fork creates at each level.
func deepPattern(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, keep := range []struct {
		name string
		opts []treadle.NodeOption
		leaf []string // additions to the subgraph's history
	}{
		{"PerTask", nil, []string{
			`3 loop {"log":["a","i#0","j#1"],"count":2} []`,
			`2 fork {"log":["a","i#0"],"count":1} [j]`}},
		{"PerThread", []treadle.NodeOption{treadle.PerThread()}, []string{
			`3 loop {"log":["a","i#0","j#1"],"count":2} []`,
			`2 fork {"log":["a","i#0"],"count":1} [j]`}},
	} {
		t.Run(keep.name, func(t *testing.T) {
			kitBothWays(t, open, nestTower(2, []string{"i", "j"}, keep.opts...), func(t *testing.T, w *kitWorld, thread kitHandle) {
				seen, _ := deepWatch(t, thread().Stream(t.Context(), kitState{}, deepModes...))
				at := seen[slices.IndexFunc(seen, func(s *treadle.Snapshot) bool { return slices.Equal(s.Next, []string{"j"}) })]
				root, inner := kitHistory(t, thread()), kitHistory(t, kitNested(t, thread(), at.Namespace...))
				branch, _ := deepWatch(t, kitNested(t, thread(), at.Namespace...).At(at.ID).ContinueStream(t.Context(), deepModes...))
				ns := branch[1].Namespace
				added := kitAppended(t, thread(), root)
				kitWantLines(t, added,
					`4 loop {"log":["a","i#0","j#1","z"]} []`,
					`3 loop {"log":["a","i#0","j#1"]} [z]`,
					`2 fork {"log":["a"]} [sub]`)
				if from := kitAt(t, root, "sub"); added[2].Parent != from.ID {
					t.Errorf("branch follows %s, want %s", added[2].Parent, kitLine(from))
				}
				old := inner
				if keep.opts == nil {
					old = nil // a separate namespace
					if len(kitAppended(t, kitNested(t, thread(), at.Namespace...), inner)) != 0 {
						t.Error("old task's graph has got checkpoints")
					}
				}
				kitWantLines(t, kitAppended(t, kitNested(t, thread(), ns...), old), keep.leaf...)
			})
		})
	}
}

var deepModes = []treadle.StreamOption{treadle.Modes(treadle.ModeCheckpoints), treadle.Subgraphs()}

// deepWatch collects a stream's checkpoints at all depths.
func deepWatch(t *testing.T, events func(func(treadle.Event, error) bool)) (seen []*treadle.Snapshot, final kitState) {
	t.Helper()
	for ev, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case treadle.Checkpointed:
			seen = append(seen, &ev.Snapshot)
		case treadle.Finished[kitState]:
			final = ev.Output
		}
	}
	return seen, final
}

func deepEdit(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	deepBothKeeps(t, open, []string{"i", "ask?", "j"}, func(t *testing.T, w *kitWorld, thread kitHandle, log func(...string) []string) {
		_, err := thread().Run(t.Context(), kitState{})
		kitAsked(t, err, "ask?")
		ns := deepest(t, thread()).Namespace
		kitResume(t, thread(), "one", log("i#0", "ask#1=one", "j#2")...)
		root, inner := kitHistory(t, thread()), kitHistory(t, kitNested(t, thread(), ns...))
		asking := kitAt(t, inner, "ask")
		w.ran()

		// As the node before: the question is asked on the fork.
		kitUpdate(t, kitNested(t, thread(), ns...).At(asking.ID), kitSay("edited"))
		kitRan(t, w)
		here := deepest(t, thread())
		if here.Source != checkpoint.Update || !slices.Equal(here.Next, []string{"ask"}) {
			t.Errorf("after the edit the graph is at %s", kitLine(here))
		}
		_, err = thread().Continue(t.Context())
		kitAsked(t, err, "ask?")
		kitResume(t, thread(), "two", log("i#0", "edited", "ask#1=two", "j#2")...)
		w.ran()

		// As the node itself: it does not run. Two edits make two steps.
		if _, err := kitNested(t, thread(), ns...).At(asking.ID).BulkUpdate(t.Context(),
			[]treadle.Edit{{Values: kitSay("for ask"), As: "ask"}}, []treadle.Edit{{Values: kitSay("for j"), As: "j"}}); err != nil {
			t.Fatal(err)
		}
		kitContinue(t, thread(), log("i#0", "for ask", "for j")...)
		if ran := w.ran(); slices.Contains(ran, "ask") || slices.Contains(ran, "j") {
			t.Errorf("nodes that the edits stand for ran: %v", ran)
		}

		// At the thread's current checkpoint, an edit does not fork.
		_, err = kitNested(t, thread(), ns...).At(kitAt(t, inner, "i").ID).Continue(t.Context())
		kitAsked(t, err, "ask?")
		before, here := kitHistory(t, thread()), deepest(t, thread())
		kitUpdate(t, kitNested(t, thread(), here.Namespace...).At(here.ID), kitSay("here"))
		if added := kitAppended(t, thread(), before); len(added) != 0 {
			t.Errorf("edit added %v to the root", kitLines(added))
		}
		_, err = thread().Continue(t.Context())
		kitAsked(t, err, "ask?")
		kitResume(t, thread(), "three", log("i#0", "here", "ask#1=three", "j#2")...)
		kitAppended(t, thread(), root)
		kitAppended(t, kitNested(t, thread(), ns...), inner)
	})
}

// deepMiddle checks that a fork from the middle of three graphs reruns the innermost
// graph from the start.
func deepMiddle(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, opts := range [][]treadle.NodeOption{nil, {treadle.PerThread()}} {
		kitBothWays(t, open, nestTower(3, []string{"i", "ask?"}, opts...), func(t *testing.T, w *kitWorld, thread kitHandle) {
			_, err := thread().Run(t.Context(), kitState{})
			kitAsked(t, err, "ask?")
			ns := kitStateOf(t, thread()).Tasks[0].Graph.Namespace
			kitResume(t, thread(), "one", "a", "b", "i#0", "ask#1=one", "y", "z")
			original := kitHistory(t, kitNested(t, thread(), ns...))
			w.ran()
			_, err = kitNested(t, thread(), ns...).At(kitAt(t, original, "sub").ID).Continue(t.Context())
			kitAsked(t, err, "ask?")
			kitRan(t, w, "ask", "i")
			kitResume(t, thread(), "two", "a", "b", "i#0", "ask#1=two", "y", "z")
			w.ran()
			kitContinue(t, kitNested(t, thread(), ns...).At(kitAt(t, original, "y").ID), "a", "b", "i#0", "ask#1=one", "y", "z")
			kitRan(t, w, "y", "z")
			// An edit can replace the innermost graph.
			kitUpdate(t, kitNested(t, thread(), ns...).At(kitAt(t, original, "sub").ID), kitSay("instead"), treadle.AsNode("sub"))
			kitContinue(t, thread(), "a", "b", "instead", "y", "z")
			kitRan(t, w, "y", "z")
		})
	}
}

// deepTails checks that a fork without an edit, from every checkpoint of a subgraph at
// every depth, produces the original result.
func deepTails(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, keep := range []struct {
		name string
		opts []treadle.NodeOption
	}{{"PerTask", nil}, {"PerThread", []treadle.NodeOption{treadle.PerThread()}}} {
		for name, build := range map[string]kitBuild{
			"tower": nestTower(3, []string{"i", "j"}, keep.opts...), "loop": nestLoop([]string{"i", "j"}, keep.opts...),
		} {
			t.Run(keep.name+name, func(t *testing.T) {
				kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
					for turn := range 2 {
						seen, final := deepWatch(t, thread().Stream(t.Context(), kitState{N: 2}, deepModes...))
						for at := range seen {
							if turn == 0 && at%3 > 0 && w.database {
								continue
							}
							deepTail(t, thread, fmt.Sprint("turn ", turn), seen, at, final)
						}
					}
				})
			})
		}
	}
}

func deepTail(t *testing.T, thread kitHandle, what string, seen []*treadle.Snapshot, at int, final kitState) {
	t.Helper()
	from := seen[at]
	line := func(s *treadle.Snapshot) string {
		return fmt.Sprintf("[%s] %s %v", nestPath(s.Namespace), s.State, s.Next)
	}
	// The fork starts with the parent checkpoints of the selected one.
	var want, got []string
	for depth := range len(from.Namespace) {
		for _, s := range slices.Backward(seen[:at]) {
			if len(s.Namespace) == depth {
				want = append(want, line(s))
				break
			}
		}
	}
	for _, s := range seen[at:] {
		want = append(want, line(s))
	}
	before := kitHistory(t, thread())
	branch, out := deepWatch(t, kitNested(t, thread(), from.Namespace...).At(from.ID).ContinueStream(t.Context(), deepModes...))
	for _, s := range branch {
		got = append(got, line(s))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s from %s (-original +branch):\n%s", what, line(from), diff)
	}
	if diff := cmp.Diff(final, out); diff != "" {
		t.Errorf("%s from %s: the output (-original +branch):\n%s", what, line(from), diff)
	}
	kitAppended(t, thread(), before)
}

// deepCalled checks that a graph that a function runs is found when the function runs it
// again.
func deepCalled(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, opts := range [][]treadle.RunOption{nil, {treadle.PerThread()}} {
		build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
			g := nestLeaf(t, w, "i", "ask?").With(opts...)
			b := treadle.New[kitState]("root")
			treadle.AddNode(b, "call", nestCall(w, "call", g), treadle.Uses(g))
			b.Edge(treadle.Start, "call")
			return kitCompile(t, b, saver)
		}
		kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
			_, err := thread().Run(t.Context(), kitState{})
			kitAsked(t, err, "ask?")
			at := deepest(t, thread())
			kitResume(t, thread(), "one", "i#0", "ask#1=one")
			w.ran()
			_, err = kitNested(t, thread(), at.Namespace...).At(at.ID).Continue(t.Context())
			kitAsked(t, err, "ask?")
			kitRan(t, w, "ask", "call")
			kitResume(t, thread(), "two", "i#0", "ask#1=two")
		})
	}
}

// deepParallel checks that nodes that ran next to the subgraph in the same step run
// again.
func deepParallel(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		b := treadle.New[kitState]("root")
		for _, name := range []string{"l", "r"} {
			treadle.AddGraph(b, name, nestLeaf(t, w, name+"1", name+"2"))
			b.Edge(treadle.Start, name)
		}
		return kitCompile(t, b, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		seen, final := deepWatch(t, thread().Stream(t.Context(), kitState{}, deepModes...))
		at := seen[slices.IndexFunc(seen, func(s *treadle.Snapshot) bool { return slices.Equal(s.Next, []string{"r2"}) })]
		w.ran()
		kitContinue(t, kitNested(t, thread(), at.Namespace...).At(at.ID), final.Log...)
		kitRan(t, w, "l1", "l2", "r2")
	})
}

// deepLasting checks time travel of a persistent subgraph to an older turn.
func deepLasting(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestLoop([]string{"i", "ask?"}, treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		var log []string
		var asking []*treadle.Snapshot
		for turn := range 3 {
			_, err := thread().Run(t.Context(), kitState{N: 1})
			kitAsked(t, err, "ask?")
			asking = append(asking, deepest(t, thread()))
			log = append(log, fmt.Sprint("i#", 2*turn), fmt.Sprintf("ask#%d=%d", 2*turn+1, turn))
			kitResume(t, thread(), fmt.Sprint(turn), log...)
		}
		inner := kitHistory(t, kitNested(t, thread(), "sub"))
		_, err := kitNested(t, thread(), "sub").At(asking[1].ID).Continue(t.Context())
		kitAsked(t, err, "ask?")
		kitResume(t, thread(), "x", "i#0", "ask#1=0", "i#2", "ask#3=x")
		_, err = thread().Run(t.Context(), kitState{N: 1})
		kitAsked(t, err, "ask?")
		kitResume(t, thread(), "y", "i#0", "ask#1=0", "i#2", "ask#3=x", "i#4", "ask#5=y")
		kitAppended(t, kitNested(t, thread(), "sub"), inner)
		// While the thread is idle, an edit of the graph's current state takes effect in
		// the next turn.
		now := kitStateOf(t, kitNested(t, thread(), "sub"))
		before := kitHistory(t, thread())
		kitUpdate(t, kitNested(t, thread(), "sub").At(now.ID), treadle.Update{"count": reduce.SumOf(10)}, treadle.AsNode("ask"))
		if added := kitAppended(t, thread(), before); len(added) != 0 {
			t.Errorf("edit added %v to the root", kitLines(added))
		}
		_, err = thread().Run(t.Context(), kitState{N: 1})
		kitAsked(t, err, "ask?")
		kitResume(t, thread(), "z", "i#0", "ask#1=0", "i#2", "ask#3=x", "i#4", "ask#5=y", "i#16", "ask#17=z")
	})
}

func deepDurable(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, d := range []treadle.Durability{treadle.Sync, treadle.Async, treadle.Exit} {
		kitBothWays(t, open, nestTower(3, []string{"i", "ask?", "j"}), func(t *testing.T, w *kitWorld, thread kitHandle) {
			_, err := thread().Run(t.Context(), kitState{})
			kitAsked(t, err, "ask?")
			at := deepest(t, thread())
			kitResume(t, thread(), "one", "a", "b", "i#0", "ask#1=one", "j#2", "y", "z")
			w.ran()
			_, err = kitNested(t, thread(d), at.Namespace...).At(at.ID).Continue(t.Context())
			kitAsked(t, err, "ask?")
			kitRan(t, w, "ask")
			kitResume(t, thread(d), "two", "a", "b", "i#0", "ask#1=two", "j#2", "y", "z")
		})
	}
}

func deepRefused(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver, w := open(t), &kitWorld{}
	g := nestTower(2, []string{"i", "ask?"})(t, w, saver)
	thread, other := g.Thread("t"), g.Thread("other")
	for _, th := range []*kitThread{thread, other} {
		_, err := th.Run(t.Context(), kitState{})
		kitAsked(t, err, "ask?")
	}
	at, foreign := deepest(t, thread), deepest(t, other)
	kitResume(t, thread, "yes", "a", "i#0", "ask#1=yes", "z")
	w.ran()
	before, inner := kitHistory(t, thread), kitHistory(t, kitNested(t, thread, at.Namespace...))
	unknown := checkpoint.NewID(1, checkpoint.ID{})

	for _, c := range []struct {
		name      string
		namespace []string
		id        checkpoint.ID
		wants     []string
	}{
		{"a checkpoint that is not there", at.Namespace, unknown, []string{unknown.String(), at.Namespace[0]}},
		{"a checkpoint of another thread", foreign.Namespace, foreign.ID, []string{foreign.ID.String(), `"t"`}},
		{"another thread's in a graph of this", at.Namespace, foreign.ID, []string{foreign.ID.String(), `"t"`}},
		{"the root's checkpoint", at.Namespace, before[0].ID, []string{before[0].ID.String(), at.Namespace[0]}},
		{"a task that is not there", []string{"sub:nobody"}, at.ID, []string{"sub:nobody"}},
	} {
		in := kitNested(t, thread, c.namespace...).At(c.id)
		_, goesOn := in.Continue(t.Context())
		_, edits := in.Update(t.Context(), kitSay("x"), treadle.AsNode("i"))
		_, answers := in.Resume(t.Context(), "x")
		for what, err := range map[string]error{"continue": goesOn, "update": edits, "resume": answers} {
			if !errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("%s: %s: %v, want ErrNotFound", c.name, what, err)
				continue
			}
			for _, want := range c.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %s: %q does not name %s", c.name, what, err, want)
				}
			}
		}
	}
	for _, ns := range [][]string{{"nowhere:1"}, {"a:1"}, {"sub:1", "sub:2"}} {
		_, err := thread.Nested(ns...)
		if name, _, _ := strings.Cut(ns[len(ns)-1], ":"); !errors.Is(err, checkpoint.ErrNotFound) || !strings.Contains(err.Error(), `"`+name+`"`) {
			t.Errorf("nested %v: %v, want ErrNotFound naming the node", ns, err)
		}
	}
	// Invalid edits do not fork.
	in := kitNested(t, thread, at.Namespace...).At(at.ID)
	for _, e := range []treadle.Edit{{Values: kitSay("x"), As: "z"}, {Values: treadle.Update{"m": 1}, As: "i"}} {
		if _, err := in.BulkUpdate(t.Context(), []treadle.Edit{e}); err == nil {
			t.Errorf("edit %v was taken", e)
		}
	}
	kitRan(t, w)
	if added := kitAppended(t, thread, before); len(added) != 0 {
		t.Errorf("what was refused added %v", kitLines(added))
	}
	if added := kitAppended(t, kitNested(t, thread, at.Namespace...), inner); len(added) != 0 {
		t.Errorf("what was refused added %v to the nested graph", kitLines(added))
	}
}

// deepFaulty checks that a fork that could not be saved completely does not exist.
func deepFaulty(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, opts := range [][]treadle.NodeOption{nil, {treadle.PerThread()}} {
		faulty, w := &kitFaulty{Saver: open(t)}, &kitWorld{}
		thread := nestTower(3, []string{"i", "ask?"}, opts...)(t, w, faulty).Thread("t")
		_, err := thread.Run(t.Context(), kitState{})
		kitAsked(t, err, "ask?")
		at := deepest(t, thread)
		kitResume(t, thread, "one", "a", "b", "i#0", "ask#1=one", "y", "z")
		before := kitHistory(t, thread)
		for put := range 3 {
			faulty.arm("put", put, false)
			if _, err := kitNested(t, thread, at.Namespace...).At(at.ID).Continue(t.Context()); !errors.Is(err, errKit) {
				t.Fatalf("put %d: %v, want the failure", put, err)
			}
			faulty.disarm()
			if added := kitAppended(t, thread, before); len(added) != 0 {
				t.Errorf("branch that failed at put %d added %v", put, kitLines(added))
			}
		}
		_, err = kitNested(t, thread, at.Namespace...).At(at.ID).Continue(t.Context())
		kitAsked(t, err, "ask?")
		kitResume(t, thread, "two", "a", "b", "i#0", "ask#1=two", "y", "z")
	}
}
