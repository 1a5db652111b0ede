package threadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/reduce"
)

// Edits is the suite for updates: what they write, as which node, and what runs next.
var Edits = Suite{
	{"GoThroughReducers", concurrent, editReducers},
	{"AsNode", sequential, editAsNode},
	{"AuthorIsInferred", sequential, editInferred},
	{"Refused", sequential, editRefused},
	{"AsInputAndStart", sequential, editAsInput},
	{"AsEnd", sequential, editAsEnd},
	{"WithNothing", sequential, editNil},
	{"PendingJoinIsConsumed", sequential, editJoin},
	{"OlderCheckpoint", sequential, editOlder},
	{"ForkLeavesPendingWritesBehind", sequential, editForkPending},
	{"EndsStepWithWhatIsFinished", concurrent, editPending},
	{"Bulk", sequential, editBulk},
	{"RebuildHistory", sequential, editRebuild},
	{"RebuildHistoryWithSends", sequential, editRebuildSends},
	{"ResultsInHistory", sequential, editResults},
	{"Goto", sequential, editGoto},
	{"RemoveByID", sequential, editRemove},
	{"OneChannel", sequential, editRoot},
	{"JSON", sequential, editJSON},
}

func editReducers(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "a")
		kitUpdate(t, thread(), kitSay("x", "y"))
		kitUpdate(t, thread(), &kitLog{reduce.List[string]{"z"}})
		kitUpdate(t, thread(), treadle.Update{"n": 7})
		id := kitUpdate(t, thread(), struct {
			Log treadle.Overwrite[reduce.List[string]]
		}{treadle.Overwrite[reduce.List[string]]{Value: reduce.List[string]{"new"}}})
		snaps := kitHistory(t, thread())
		if snaps[0].ID != id {
			t.Errorf("update returned %s, the head is %s", id, snaps[0].ID)
		}
		kitWantLines(t, snaps[:5],
			`5 update {"n":7,"log":["new"]} []`,
			`4 update {"n":7,"log":["a","x","y","z"]} []`,
			`3 update {"n":1,"log":["a","x","y","z"]} []`,
			`2 update {"n":1,"log":["a","x","y"]} []`,
			`1 loop {"n":1,"log":["a"]} []`,
		)
		kitRun(t, thread(), kitState{}, "new", "a")
		kitRan(t, w, "a", "a")
	})
}

func editAsNode(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b", "c"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{}, "a", "b", "c")
		w.ran()
		for as, next := range map[string][]string{"a": {"b"}, "b": {"c"}, "c": nil, treadle.Start: {"a"}} {
			kitUpdate(t, thread(), kitSay("as "+as), treadle.AsNode(as))
			snap := kitStateOf(t, thread())
			if !slices.Equal(snap.Next, next) || snap.Source != checkpoint.Update {
				t.Errorf("after an update as %s: source %s, next %v; want %v", as, snap.Source, snap.Next, next)
			}
		}
		kitUpdate(t, thread(), struct {
			Log treadle.Overwrite[reduce.List[string]]
		}{treadle.Overwrite[reduce.List[string]]{Value: reduce.List[string]{"mine"}}}, treadle.AsNode("a"))
		kitContinue(t, thread(), "mine", "b", "c")
		kitRan(t, w, "b", "c")

		// An edit as the node that waits at a breakpoint completes it.
		_, err := thread(treadle.Before("b")).Run(t.Context(), kitState{})
		if stop, ok := errors.AsType[*treadle.InterruptError](err); !ok || !slices.Equal(stop.Before, []string{"b"}) {
			t.Fatalf("run: %v, want the breakpoint before b", err)
		}
		kitUpdate(t, thread(), kitSay("for b"), treadle.AsNode("b"))
		kitContinue(t, thread(), "mine", "b", "c", "a", "for b", "c")
		kitRan(t, w, "a", "c")
	})
}

func editInferred(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		// On a thread without a checkpoint, the edit is made as Start.
		kitUpdate(t, thread(), kitN{1})
		kitWantLines(t, kitHistory(t, thread()), `0 update {"n":1,"log":[]} [a]`)
		if _, err := thread(treadle.After("a")).Continue(t.Context()); err == nil {
			t.Fatal("breakpoint after a did not hold")
		}
		// Then as the node of the last step.
		kitUpdate(t, thread(), kitN{2})
		if got, want := kitLine(kitStateOf(t, thread())), `2 update {"n":2,"log":["a"]} [b]`; got != want {
			t.Errorf("state %s, want %s", got, want)
		}
		kitUpdate(t, thread(), kitN{3}) // an edit is a step of that node
		kitContinue(t, thread(), "a", "b")
		kitUpdate(t, thread(), kitN{4})
		if got, want := kitLine(kitStateOf(t, thread())), `5 update {"n":4,"log":["a","b"]} []`; got != want {
			t.Errorf("state %s, want %s", got, want)
		}
	})
}

func editRefused(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitPair("one", "two"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{}, "one", "two")
		before := kitHistory(t, thread())
		for _, c := range []struct {
			name  string
			edits [][]treadle.Edit
			wants []string
		}{
			{"ambiguous", [][]treadle.Edit{{{Values: kitN{1}}}}, []string{"one", "two", "AsNode"}},
			{"unknown node", [][]treadle.Edit{{{Values: kitN{1}, As: "three"}}}, []string{"three", "one", "two"}},
			{"unknown field", [][]treadle.Edit{{{Values: treadle.Update{"m": 1}, As: "one"}}}, []string{"m"}},
			{"wrong type", [][]treadle.Edit{{{Values: treadle.Update{"n": "x"}, As: "one"}}}, []string{"n"}},
			{"no steps", nil, []string{"no edits"}},
			{"an empty step", [][]treadle.Edit{{}}, []string{"step 1"}},
			{"several without names", [][]treadle.Edit{{{Values: kitN{1}}, {Values: kitSay("x"), As: "two"}}}, []string{"AsNode"}},
			{"input beside others", [][]treadle.Edit{{{Values: kitState{}, As: treadle.InputNode}, {Values: kitN{1}, As: "one"}}}, []string{"__input__"}},
			{"end beside others", [][]treadle.Edit{{{As: treadle.End}, {Values: kitN{1}, As: "one"}}}, []string{treadle.End}},
			{"end with values", [][]treadle.Edit{{{Values: kitN{1}, As: treadle.End}}}, []string{treadle.End}},
			{"input beside others, behind", [][]treadle.Edit{{{Values: kitN{1}, As: "one"}, {Values: kitState{}, As: treadle.InputNode}}}, []string{"__input__"}},
			{"end beside others, behind", [][]treadle.Edit{{{Values: kitN{1}, As: "one"}, {As: treadle.End}}}, []string{treadle.End}},
			{"input without values", [][]treadle.Edit{{{As: treadle.InputNode}}}, []string{"__input__"}},
		} {
			_, err := thread().BulkUpdate(t.Context(), c.edits...)
			if _, ok := errors.AsType[*treadle.UpdateError](err); !ok {
				t.Errorf("%s: %v, want an UpdateError", c.name, err)
				continue
			}
			for _, want := range c.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %q does not name %q", c.name, err, want)
				}
			}
		}
		_, err := thread().BulkUpdate(t.Context(), []treadle.Edit{{Values: kitN{1}, As: "one"}, {Values: kitN{2}, As: "two"}})
		if conflict, ok := errors.AsType[*treadle.ConflictError](err); !ok || conflict.Field != "n" || !slices.Equal(conflict.Nodes, []string{"one", "two"}) {
			t.Errorf("two edits of one value in one step: %v, want a ConflictError", err)
		}
		if added := kitAppended(t, thread(), before); len(added) != 0 {
			t.Errorf("refused edit was stored: %v", kitLines(added))
		}
	})
}

func editAsInput(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitUpdate(t, thread(), kitState{N: 5}, treadle.AsNode(treadle.InputNode))
		kitWantLines(t, kitHistory(t, thread()), `-1 input {"log":[]} [__start__]`)
		kitContinue(t, thread(), "a")
		kitWantLines(t, kitHistory(t, thread()), `1 loop {"n":5,"log":["a"]} []`, `0 loop {"n":5,"log":[]} [a]`, `-1 input {"log":[]} [__start__]`)
		// On an existing thread, with an edit of the pending input instead of a run.
		kitUpdate(t, thread(), kitState{N: 6}, treadle.AsNode(treadle.InputNode))
		kitUpdate(t, thread(), kitN{7}, treadle.AsNode(treadle.Start))
		kitContinue(t, thread(), "a", "a")
		if snap := kitStateOf(t, thread()); snap.State.String() != `{"n":7,"log":["a","a"]}` {
			t.Errorf("state %s, want n to be the edit's 7", snap.State)
		}
		// Any other edit would lose the input.
		kitUpdate(t, thread(), kitState{N: 8}, treadle.AsNode(treadle.InputNode))
		if _, err := thread().Update(t.Context(), kitN{9}, treadle.AsNode("a")); err == nil {
			t.Error("edit as a node skipped a pending input")
		}
		kitContinue(t, thread(), "a", "a", "a")
	})
}

func editAsEnd(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitPair("one", "two"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		w.fail("two", errKit)
		if _, err := thread(treadle.MaxConcurrency(1)).Run(t.Context(), kitState{}); !errors.Is(err, errKit) {
			t.Fatal(err)
		}
		kitUpdate(t, thread(), nil, treadle.AsNode(treadle.End))
		w.ran()
		if got, want := kitLine(kitStateOf(t, thread())), `1 update {"log":["one"]} []`; got != want {
			t.Errorf("state %s, want %s: what is finished counts, the rest is off", got, want)
		}
		kitContinue(t, thread(), "one")
		kitRan(t, w)
	})
}

func editNil(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{}, "a", "b")
		w.ran()
		kitUpdate(t, thread(), nil, treadle.AsNode("a"))
		if got, want := kitLine(kitStateOf(t, thread())), `3 update {"log":["a","b"]} [b]`; got != want {
			t.Errorf("state %s, want %s", got, want)
		}
		kitContinue(t, thread(), "a", "b", "b")
		kitRan(t, w, "b")
	})
}

// editJoin checks that an edit as a node that waits for a join completes it.
func editJoin(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		b := treadle.New[kitState]("join")
		for _, name := range []string{"a", "b", "c", "d"} {
			treadle.AddNode(b, name, w.node(name))
		}
		b.Edge(treadle.Start, "a")
		b.Edge(treadle.Start, "b")
		b.Join([]any{"a", "b"}, "c")
		b.Edge("c", "d")
		return kitCompile(t, b, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		if _, err := thread(treadle.Before("c")).Run(t.Context(), kitState{}); err == nil {
			t.Fatal("no breakpoint")
		}
		kitUpdate(t, thread(), kitSay("for c"), treadle.AsNode("c"))
		w.ran()
		kitContinue(t, thread(), "a", "b", "for c", "d")
		kitRan(t, w, "d")

		// A join that has seen one source still waits for the other.
		kitUpdate(t, thread(), nil, treadle.AsNode("a"))
		kitContinue(t, thread(), "a", "b", "for c", "d")
		kitRan(t, w)
		kitUpdate(t, thread(), nil, treadle.AsNode("b"))
		kitContinue(t, thread(), "a", "b", "for c", "d", "c", "d")
		kitRan(t, w, "c", "d")
	})
}

func editOlder(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "a", "b")
		first := kitHistory(t, thread())
		afterA := kitAt(t, first, "b")
		id := kitUpdate(t, thread().At(afterA.ID), kitSay("x"))
		added := kitAppended(t, thread(), first)
		kitWantLines(t, added, `2 update {"n":1,"log":["a","x"]} [b]`)
		if added[0].Parent != afterA.ID || added[0].ID != id {
			t.Errorf("edit %s follows %s, want %s", added[0].ID, added[0].Parent, afterA.ID)
		}
		if head := kitStateOf(t, thread()); head.ID != id {
			t.Errorf("head: %s, want the edit: a fork moves it", kitLine(head))
		}
		w.ran()
		kitContinue(t, thread(), "a", "x", "b")
		kitRan(t, w, "b")

		// Another fork from the same place does not see the first.
		second := kitHistory(t, thread())
		kitUpdate(t, thread().At(afterA.ID), kitSay("y"))
		kitContinue(t, thread(), "a", "y", "b")
		kitWantLines(t, kitAppended(t, thread(), second), `3 loop {"n":1,"log":["a","y","b"]} []`, `2 update {"n":1,"log":["a","y"]} [b]`)
		// The thread continues where it was moved to.
		kitRun(t, thread(), kitState{}, "a", "y", "b", "a", "b")
		// Each old end can be continued.
		kitRun(t, thread().At(first[0].ID), kitState{N: 2}, "a", "b", "a", "b")
		kitRun(t, thread(), kitState{}, "a", "b", "a", "b", "a", "b")
	})
}

type editSums struct {
	Total reduce.Sum[int] `json:"total"`
}

func editForkPending(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	type sums struct{ Total reduce.Sum[int] }
	fails := false
	build := func() *treadle.Thread[editSums, editSums] {
		b := treadle.New[editSums]("sums")
		treadle.AddNode(b, "ten", func(context.Context, editSums) (sums, error) { return sums{reduce.SumOf(10)}, nil })
		treadle.AddNode(b, "hundred", func(context.Context, editSums) (sums, error) {
			if fails {
				return sums{}, errKit
			}
			return sums{reduce.SumOf(100)}, nil
		})
		b.Sequence(treadle.Start, "ten", "hundred")
		g, err := b.Compile(&treadle.Options{Saver: saver})
		if err != nil {
			t.Fatal(err)
		}
		return g.Thread("t")
	}
	if _, err := build().Run(t.Context(), editSums{reduce.SumOf(1)}); err != nil {
		t.Fatal(err)
	}
	beforeTen := kitAt(t, kitHistory(t, build()), "ten")
	if _, err := build().At(beforeTen.ID).Update(t.Context(), sums{reduce.SumOf(20)}, treadle.AsNode("ten")); err != nil {
		t.Fatal(err)
	}
	out, err := build().Continue(t.Context())
	if err != nil || out.Total.N != 121 {
		t.Errorf("1 + 20 + 100 = %v, %v", out.Total, err)
	}
	// Neither does a fork from a checkpoint whose step partly failed.
	fails = true
	if _, err := build().At(beforeTen.ID).Continue(t.Context()); !errors.Is(err, errKit) {
		t.Fatal(err)
	}
	failed := kitStateOf(t, build())
	fails = false
	if _, err := build().Run(t.Context(), editSums{}); err != nil {
		t.Fatal(err)
	}
	if _, err := build().At(failed.ID).Update(t.Context(), sums{reduce.SumOf(5)}, treadle.AsNode("hundred")); err != nil {
		t.Fatal(err)
	}
	out, err = build().Continue(t.Context())
	if err != nil || out.Total.N != 16 {
		t.Errorf("1 + 10 + 5 = %v, %v", out.Total, err)
	}
}

func editPending(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitPair("one", "two"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		w.fail("two", errKit)
		if _, err := thread(treadle.MaxConcurrency(1)).Run(t.Context(), kitState{}); !errors.Is(err, errKit) {
			t.Fatal(err)
		}
		kitUpdate(t, thread(), kitSay("for two"), treadle.AsNode("two"))
		w.ran()
		if got, want := kitLine(kitStateOf(t, thread())), `1 update {"log":["one","for two"]} []`; got != want {
			t.Errorf("state %s, want %s", got, want)
		}
		kitContinue(t, thread(), "one", "for two")
		kitRan(t, w)
	})
}

func editBulk(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitPair("one", "two"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		id, err := thread().BulkUpdate(t.Context(),
			[]treadle.Edit{{Values: kitState{N: 1}, As: treadle.InputNode}},
			[]treadle.Edit{{Values: kitState{N: 1}, As: treadle.Start}},
			[]treadle.Edit{{Values: kitSay("2"), As: "two"}, {Values: kitSay("1"), As: "one"}},
			[]treadle.Edit{{Values: kitSay("3"), As: "one"}},
		)
		if err != nil {
			t.Fatal(err)
		}
		snaps := kitHistory(t, thread())
		if snaps[0].ID != id {
			t.Errorf("it returned %s, want the last checkpoint %s", id, snaps[0].ID)
		}
		kitWantLines(t, snaps,
			`2 update {"n":1,"log":["1","2","3"]} []`,
			`1 update {"n":1,"log":["1","2"]} []`,
			`0 update {"n":1,"log":[]} [one two]`,
			`-1 input {"log":[]} [__start__]`,
		)
		kitRan(t, w)
		// From an older checkpoint, as one fork.
		if _, err := thread().At(snaps[1].ID).BulkUpdate(t.Context(),
			[]treadle.Edit{{Values: kitSay("x"), As: "one"}}, []treadle.Edit{{Values: kitSay("y"), As: "one"}}); err != nil {
			t.Fatal(err)
		}
		added := kitAppended(t, thread(), snaps)
		kitWantLines(t, added, `3 update {"n":1,"log":["1","2","x","y"]} []`, `2 update {"n":1,"log":["1","2","x"]} []`)
		if added[1].Parent != snaps[1].ID || added[0].Parent != added[1].ID {
			t.Error("branch is not one line from the checkpoint it was made at")
		}
	})
}

// editRebuild checks that a history can be rebuilt from edits: values, steps, next nodes,
// and task names match the real run.
func editRebuild(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "a", "b")
		kitRun(t, thread(), kitState{N: 2}, "a", "b", "a", "b")
		lived := kitHistory(t, thread())
		copied := treadle.Must(kitChainOf(w, "chain", "a", "b").Compile(&treadle.Options{Saver: open(t)})).Thread("copy")
		var steps [][]treadle.Edit
		for n := range 2 {
			in := kitN{n + 1} // an edit of the state's own type sets all its fields, including the empty list
			steps = append(steps, []treadle.Edit{{Values: in, As: treadle.InputNode}}, []treadle.Edit{{Values: in, As: treadle.Start}},
				[]treadle.Edit{{Values: kitSay("a"), As: "a"}}, []treadle.Edit{{Values: kitSay("b"), As: "b"}})
		}
		if _, err := copied.BulkUpdate(t.Context(), steps...); err != nil {
			t.Fatal(err)
		}
		show := func(snaps []*treadle.Snapshot) (out []string) {
			for _, s := range snaps {
				out = append(out, strings.Replace(kitLine(s), " update ", " loop ", 1)+" "+kitTasks(s))
			}
			return out
		}
		if diff := cmp.Diff(show(lived), show(kitHistory(t, copied))); diff != "" {
			t.Errorf("lived and rebuilt (-lived +rebuilt):\n%s", diff)
		}
		kitRun(t, copied, kitState{}, "a", "b", "a", "b", "a", "b")
	})
}

// editRebuildSends checks that branches also run after edits, so that sends and joins
// match the original, and each edit is the result of the task that it stands for.
func editRebuildSends(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, travelFan, func(t *testing.T, w *kitWorld, thread kitHandle) {
		want := kitRunAny(t, thread(), kitState{N: 2})
		lived := kitHistory(t, thread())
		w.ran()
		copied := travelFan(t, w, open(t)).Thread("copy")
		if _, err := copied.BulkUpdate(t.Context(),
			[]treadle.Edit{{Values: kitN{2}, As: treadle.InputNode}},
			[]treadle.Edit{{Values: kitN{2}, As: treadle.Start}},
			[]treadle.Edit{{Values: kitSay("plan"), As: "plan"}},
			[]treadle.Edit{{Values: kitSay("word 0"), As: "say"}, {Values: kitSay("word 1"), As: "say"}, {Values: kitSay("side"), As: "side"}},
			[]treadle.Edit{{Values: kitSay("end"), As: "end"}},
			[]treadle.Edit{{Values: kitSay("last"), As: "last"}},
		); err != nil {
			t.Fatal(err)
		}
		kitRan(t, w)
		rebuilt := kitHistory(t, copied)
		var got, original []string
		for i := range max(len(lived), len(rebuilt)) {
			if i < len(lived) {
				original = append(original, fmt.Sprint(lived[i].Step, lived[i].Next, editWords(lived[i]), kitTasks(lived[i])))
			}
			if i < len(rebuilt) {
				got = append(got, fmt.Sprint(rebuilt[i].Step, rebuilt[i].Next, editWords(rebuilt[i]), kitTasks(rebuilt[i])))
			}
		}
		if diff := cmp.Diff(original, got); diff != "" {
			t.Errorf("lived and rebuilt (-lived +rebuilt):\n%s", diff)
		}
		var state kitState
		if err := rebuilt[0].Read(&state); err != nil || state.N != want.N || len(state.Log) != len(want.Log) {
			t.Errorf("rebuilt %v, %v; the run gave %v", state, err, want)
		}
	})
}

// editWords returns the words of a snapshot's log. Edits of one step are in node order;
// tasks of one step are in the order of nodes, then sends.
func editWords(s *treadle.Snapshot) []string {
	var state kitState
	if s.Read(&state) != nil {
		return nil
	}
	return slices.Sorted(slices.Values(state.Log))
}

// editCount has fields of every kind that a result can contain.
type editCount struct {
	N    int                          `json:"n"`
	Log  reduce.List[string]          `json:"log"`
	Sum  reduce.Sum[int]              `json:"sum"`
	Seen reduce.Map[string, struct{}] `json:"seen"`
}

// editResults checks that a history shows what each task wrote, whether a node or an edit
// wrote it, and how each checkpoint was created.
func editResults(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	type all struct {
		N   int
		Log reduce.List[string]
		Sum reduce.Sum[int]
	}
	type replace struct {
		Log treadle.Overwrite[reduce.List[string]]
	}
	words := func(w ...string) kitLog { return kitLog{w} }
	saver := open(t)
	build := func() *treadle.Thread[editCount, editCount] {
		b := treadle.New[editCount]("results")
		treadle.AddNode(b, "all", func(context.Context, editCount) (all, error) {
			return all{1, reduce.List[string]{"x", "y"}, reduce.SumOf(5)}, nil
		})
		treadle.AddNode(b, "one", func(context.Context, editCount) (kitLog, error) { return words("one"), nil })
		treadle.AddNode(b, "two", func(context.Context, editCount) (kitLog, error) { return words("2a", "2b"), nil })
		treadle.AddNode(b, "nothing", func(context.Context, editCount) (struct{}, error) { return struct{}{}, nil })
		treadle.AddNode(b, "new", func(context.Context, editCount) (replace, error) {
			return replace{treadle.Overwrite[reduce.List[string]]{Value: reduce.List[string]{"new"}}}, nil
		})
		treadle.AddNode(b, "plain", func(context.Context, editCount) (kitN, error) { return kitN{9}, nil })
		b.Edge(treadle.Start, "all")
		b.Edge("all", "one")
		b.Edge("all", "two")
		b.Edge("all", "nothing")
		b.Join([]any{"one", "two", "nothing"}, "new")
		b.Edge("new", "plain")
		g, err := b.Compile(&treadle.Options{Saver: saver})
		if err != nil {
			t.Fatal(err)
		}
		return g.Thread("t")
	}
	if _, err := build().Run(t.Context(), editCount{N: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := build().BulkUpdate(t.Context(), []treadle.Edit{{Values: treadle.Update{"n": 4}, As: "all"}},
		[]treadle.Edit{{Values: words("b"), As: "two"}, {Values: words("a"), As: "one"}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for s, err := range build().History(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		var line strings.Builder
		fmt.Fprintf(&line, "%d:", s.Step)
		for _, task := range s.Writes {
			fmt.Fprintf(&line, " %s %s", task.Name, task.Result)
		}
		line.WriteString(" |")
		for _, task := range s.Tasks {
			fmt.Fprintf(&line, " %s %s", task.Name, task.Result)
		}
		got = append(got, line.String())
	}
	want := []string{
		`6: one {"log":["a"]} two {"log":["b"]} |`,
		`5: all {"n":4} | nothing null one {"log":["a"]} two {"log":["b"]}`,
		`4: plain {"n":9} |`,
		`3: new {"log":{"__overwrite__":["new"]}} | plain {"n":9}`,
		`2: nothing null one {"log":["one"]} two {"log":["2a","2b"]} | new {"log":{"__overwrite__":["new"]}}`,
		`1: all {"n":1,"log":["x","y"],"sum":5} | nothing null one {"log":["one"]} two {"log":["2a","2b"]}`,
		`0: | all {"n":1,"log":["x","y"],"sum":5}`,
		`-1: __start__ {"n":3} | __start__ {"n":3}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	// A part of the history shows the same.
	all2 := kitHistory(t, build())
	for i := 1; i < len(all2); i++ {
		part := kitSelected(t, build(), &treadle.HistoryOptions{Before: all2[i-1].ID, Limit: 1})
		if len(part) != 1 || kitTasks(part[0]) != kitTasks(all2[i]) {
			t.Errorf("before step %d: %v", all2[i-1].Step, part)
		}
	}
}

// editGoto checks that a goto in an edit schedules its targets.
func editGoto(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	type in struct{ Word string }
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		b := kitChainOf(w, "goto", "a", "b")
		treadle.AddNode(b, "say", func(_ context.Context, s in) (kitLog, error) { return kitSay(s.Word), nil })
		treadle.AddBranch(b, "a", func(context.Context, kitState) (treadle.Goto, error) { return treadle.Goto{}, nil }, "say")
		return kitCompile(t, b, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{}, "a", "b")
		kitUpdate(t, thread(), treadle.Command[kitLog]{Update: &kitLog{reduce.List[string]{"cmd"}},
			Goto: append(treadle.Send("say", in{"hi"}), treadle.To("b")...)}, treadle.AsNode("b"))
		snap := kitStateOf(t, thread())
		if !slices.Equal(snap.Next, []string{"say", "b"}) {
			t.Errorf("next %v, want the send and b", snap.Next)
		}
		kitContinue(t, thread(), "a", "b", "cmd", "b", "hi")
		_, err := thread().Update(t.Context(), treadle.Command[kitLog]{Goto: treadle.To("nowhere")}, treadle.AsNode("b"))
		if bad, ok := errors.AsType[*treadle.GotoError](err); !ok || bad.To != "nowhere" {
			t.Errorf("goto an unknown node: %v, want a GotoError", err)
		}
	})
}

// editNote is a message with an ID; an empty text removes it.
type editNote struct{ ID, Text string }

type editNotes []editNote

func (n editNotes) Reduce(u editNotes) (editNotes, error) {
	out := slices.Clone(n)
	for _, note := range u {
		i := slices.IndexFunc(out, func(o editNote) bool { return o.ID == note.ID })
		switch {
		case i < 0 && note.Text == "":
			return nil, errors.New("there is no note " + note.ID + " to remove")
		case i < 0:
			out = append(out, note)
		case note.Text == "":
			out = slices.Delete(out, i, i+1)
		default:
			out[i] = note
		}
	}
	return out, nil
}

type editChat struct {
	Notes editNotes `json:"notes"`
}

func editRemove(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	type notes struct{ Notes editNotes }
	build := func() *treadle.Thread[editChat, editChat] {
		b := treadle.New[editChat]("chat")
		treadle.AddNode(b, "answer", func(_ context.Context, s editChat) (notes, error) {
			return notes{editNotes{{"re " + s.Notes[len(s.Notes)-1].ID, "yes"}}}, nil
		})
		treadle.AddNode(b, "tidy", func(_ context.Context, s editChat) (notes, error) {
			if len(s.Notes) < 4 {
				return notes{}, nil
			}
			return notes{editNotes{{ID: s.Notes[0].ID}}}, nil
		})
		b.Sequence(treadle.Start, "answer", "tidy")
		g, err := b.Compile(&treadle.Options{Saver: saver})
		if err != nil {
			t.Fatal(err)
		}
		return g.Thread("t")
	}
	want := func(out editChat, err error, ids ...string) {
		t.Helper()
		var got []string
		for _, n := range out.Notes {
			got = append(got, n.ID)
		}
		if err != nil || !slices.Equal(got, ids) {
			t.Errorf("notes %q, %v; want %q", got, err, ids)
		}
	}
	out, err := build().Run(t.Context(), editChat{editNotes{{"1", "hi"}}})
	want(out, err, "1", "re 1")
	out, err = build().Run(t.Context(), editChat{editNotes{{"2", "so"}}})
	want(out, err, "re 1", "2", "re 2") // the node removed the oldest
	if _, err := build().Update(t.Context(), notes{editNotes{{ID: "re 1"}, {"2", "edited"}}}, treadle.AsNode("tidy")); err != nil {
		t.Fatal(err)
	}
	out, err = build().Continue(t.Context())
	want(out, err, "2", "re 2")
	if out.Notes[0].Text != "edited" {
		t.Errorf("note 2 is %q, want it edited", out.Notes[0].Text)
	}
	before := kitHistory(t, build())
	if _, err := build().Update(t.Context(), notes{editNotes{{ID: "gone"}}}, treadle.AsNode("tidy")); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("removing a missing message: %v", err)
	}
	kitAppended(t, build(), before)
}

// editRoot checks that a graph whose state is a single channel is edited with values of
// that channel.
func editRoot(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	saver := open(t)
	type words = reduce.List[string]
	build := func() *treadle.Thread[words, words] {
		b := treadle.New[words]("words")
		for _, name := range []string{"a", "b"} {
			treadle.AddNode(b, name, func(context.Context, words) (words, error) { return words{name}, nil })
		}
		b.Sequence(treadle.Start, "a", "b")
		g, err := b.Compile(&treadle.Options{Saver: saver})
		if err != nil {
			t.Fatal(err)
		}
		return g.Thread("t")
	}
	if _, err := build().Run(t.Context(), words{"in"}); err != nil {
		t.Fatal(err)
	}
	if _, err := build().Update(t.Context(), words{"x"}, treadle.AsNode("a")); err != nil {
		t.Fatal(err)
	}
	out, err := build().Continue(t.Context())
	if diff := cmp.Diff(words{"in", "a", "b", "x", "b"}, out); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	kitWantLines(t, kitHistory(t, build()),
		`4 loop ["in","a","b","x","b"] []`, `3 update ["in","a","b","x"] [b]`, `2 loop ["in","a","b"] []`,
		`1 loop ["in","a"] [b]`, `0 loop ["in"] [a]`, `-1 input [] [__start__]`)
}

func editJSON(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothGraphs(t, open, kitChain("a", "b"), func(t *testing.T, _ *kitWorld, graph func() *kitGraph) {
		thread := func() *dynamic.Thread { return dynamic.Open(graph(), "t") }
		out, err := thread().RunJSON(t.Context(), json.RawMessage(`{"n":1}`))
		if err != nil || string(out) != `{"n":1,"log":["a","b"]}` {
			t.Fatalf("run: %s, %v", out, err)
		}
		for _, raw := range []string{`{"n":2,"log":["x"]}`, `null`, `{"log":{"__overwrite__":["y"]}}`} {
			if _, err := thread().UpdateJSON(t.Context(), json.RawMessage(raw), treadle.AsNode("a")); err != nil {
				t.Fatalf("update %s: %v", raw, err)
			}
		}
		if _, err := thread().UpdateJSON(t.Context(), json.RawMessage(`{"m":1}`), treadle.AsNode("a")); err == nil {
			t.Error("unknown field was taken")
		}
		out, err = thread().RunJSON(t.Context(), nil)
		if err != nil || string(out) != `{"n":2,"log":["y","b"]}` {
			t.Errorf("continue: %s, %v", out, err)
		}
	})
}
