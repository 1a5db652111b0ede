package threadtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

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
		// The edit can also replace the whole graph.
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
					// Selecting the head by its ID is not time travel.
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

// nestingTails checks that a fork without an edit, from every checkpoint of a run with
// subgraphs, produces the original result, at every depth.
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

// nestSeen is a streamed checkpoint of any depth.
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
			out = append(out, nestSeen{ev.Snapshot.ID, fmt.Sprintf("[%s] %s %v", nestPath(ev.Snapshot.Namespace), ev.Snapshot.State, ev.Snapshot.Next)})
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
				continue // a subgraph's checkpoint is reached through its root's
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

// nestingMixed checks a persistent graph inside a graph that is not persistent.
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

// nestTails2 replays the last turn from its first node and compares the log.
func nestTails2(t *testing.T, thread kitHandle) {
	t.Helper()
	before := kitStateOf(t, thread())
	_, err := thread().At(before.Parent).Continue(t.Context())
	kitAsked(t, err, "ask?")
	if _, err := thread().Resume(t.Context(), "yes"); err != nil {
		t.Fatal(err)
	}
	if got := kitStateOf(t, thread()); got.State.String() != before.State.String() {
		t.Errorf("branch ends with %s, the original with %s", got.State, before.State)
	}
}
