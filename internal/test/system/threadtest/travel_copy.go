package threadtest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

const copied = "__copy__"

// travelCopy checks that every checkpoint can be copied: the copy is a sibling of the
// original, and what follows matches the original.
func travelCopy(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b", "c"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		out := kitRun(t, thread(), kitState{N: 1}, "a", "b", "c")
		original := kitHistory(t, thread())
		w.ran()
		for _, s := range original {
			before := kitHistory(t, thread())
			id := kitUpdate(t, thread().At(s.ID), nil, treadle.AsNode(copied))
			added := kitAppended(t, thread(), before)
			if len(added) != 1 || added[0].ID != id || added[0].Parent != s.Parent {
				t.Fatalf("copy of %s added %v", kitLine(s), kitLines(added))
			}
			c := added[0]
			if c.Source != checkpoint.Fork || c.Step != s.Step+1 || c.State.String() != s.State.String() || !slices.Equal(c.Next, s.Next) {
				t.Errorf("copy of %s is %s", kitLine(s), kitLine(c))
			}
			for i, task := range c.Tasks {
				if task.ID == s.Tasks[i].ID {
					t.Errorf("copy of %s shares a task with it", kitLine(s))
				}
			}
			kitContinue(t, thread(), out.Log...)
			var rest []string
			for i, name := range []string{"a", "b", "c"} {
				if s.Step <= i {
					rest = append(rest, name)
				}
			}
			kitRan(t, w, rest...)
		}
	})
}

func travelCopyAsks(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "ask?", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{})
		first := kitAsked(t, err, "ask?")
		asking := kitStateOf(t, thread())
		for _, answer := range []string{"one", "two"} { // while it is pending, and after it is answered
			kitUpdate(t, thread().At(asking.ID), nil, treadle.AsNode(copied))
			if snap := kitStateOf(t, thread()); len(snap.Pauses) != 0 || snap.Parent != asking.Parent {
				t.Errorf("copy: %s after %s with questions %v, want none yet", kitLine(snap), snap.Parent, snap.Pauses)
			}
			w.ran()
			_, err = thread().Continue(t.Context())
			if again := kitAsked(t, err, "ask?"); again[0].ID == first[0].ID {
				t.Error("copy asks with the old question's id")
			}
			kitRan(t, w, "ask")
			kitResume(t, thread(), answer, "a", "ask="+answer, "b")
		}
	})
}

// travelCopyResults forks a copy with different results for its tasks: the forks are
// siblings.
func travelCopyResults(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		b := treadle.New[kitState]("fan")
		for _, name := range []string{"one", "two", "end"} {
			treadle.AddNode(b, name, w.node(name))
		}
		b.Edge(treadle.Start, "one")
		b.Edge(treadle.Start, "two")
		b.Join([]any{"one", "two"}, "end")
		return kitCompile(t, b, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{}, "one", "two", "end")
		before := kitHistory(t, thread())
		at := kitAt(t, before, "one", "two")
		w.ran()
		for _, word := range []string{"x", "y"} {
			if _, err := thread().At(at.ID).BulkUpdate(t.Context(), []treadle.Edit{{As: copied}},
				[]treadle.Edit{{Values: kitSay(word + "1"), As: "one"}, {Values: kitSay(word + "2"), As: "two"}}); err != nil {
				t.Fatal(err)
			}
			kitContinue(t, thread(), word+"1", word+"2", "end")
			kitRan(t, w, "end")
		}
		added := kitAppended(t, thread(), before)
		kitWantLines(t, added,
			`3 loop {"log":["y1","y2","end"]} []`, `2 update {"log":["y1","y2"]} [end]`, `1 fork {"log":[]} [one two]`,
			`3 loop {"log":["x1","x2","end"]} []`, `2 update {"log":["x1","x2"]} [end]`, `1 fork {"log":[]} [one two]`)
		if added[2].Parent != at.Parent || added[5].Parent != at.Parent {
			t.Errorf("copies follow %s and %s, want the parent of the original, %s", added[2].Parent, added[5].Parent, at.Parent)
		}
	})
}

func travelCopyNested(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	for _, opts := range [][]treadle.NodeOption{nil, {treadle.PerThread()}} {
		kitBothWays(t, open, nestTower(2, []string{"i", "ask?"}, opts...), func(t *testing.T, w *kitWorld, thread kitHandle) {
			_, err := thread().Run(t.Context(), kitState{})
			kitAsked(t, err, "ask?")
			at := deepest(t, thread())
			// At the thread's current checkpoint, and after the thread has continued.
			for _, answer := range []string{"one", "two"} {
				kitUpdate(t, kitNested(t, thread(), at.Namespace...).At(at.ID), nil, treadle.AsNode(copied))
				w.ran()
				_, err = thread().Continue(t.Context())
				kitAsked(t, err, "ask?")
				kitRan(t, w, "ask")
				kitResume(t, thread(), answer, "a", "i#0", "ask#1="+answer, "z")
			}
		})
	}
}

func travelCopyRefused(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	w := &kitWorld{}
	thread := kitChain("a")(t, w, open(t)).Thread("t")
	refused := func(what string, edits ...treadle.Edit) {
		t.Helper()
		_, err := thread.BulkUpdate(t.Context(), edits)
		if _, ok := errors.AsType[*treadle.UpdateError](err); !ok || !strings.Contains(err.Error(), copied) {
			t.Errorf("%s: %v, want an UpdateError that names it", what, err)
		}
	}
	refused("a thread without a checkpoint", treadle.Edit{As: copied})
	kitRun(t, thread, kitState{}, "a")
	before := kitHistory(t, thread)
	refused("with values", treadle.Edit{As: copied, Values: kitN{1}})
	refused("beside others", treadle.Edit{As: copied}, treadle.Edit{As: "a"})
	refused("beside others, behind", treadle.Edit{As: "a"}, treadle.Edit{As: copied})
	if added := kitAppended(t, thread, before); len(added) != 0 {
		t.Errorf("what was refused added %v", kitLines(added))
	}
}
