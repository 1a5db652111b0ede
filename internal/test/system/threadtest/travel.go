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

// Travel is the suite for time travel: steps before a checkpoint do not run again, steps
// after it run as a new fork, and the original history is kept.
var Travel = Suite{
	{"Replay", concurrent, travelReplay},
	{"ReplayOfEverything", sequential, travelEverywhere},
	{"ReplayOfEnd", sequential, travelEnd},
	{"NewInput", sequential, travelInput},
	{"ForkWithEdit", sequential, travelEdit},
	{"ReplayBeforeQuestion", sequential, travelBeforeQuestion},
	{"ReplayAtQuestion", sequential, travelAtQuestion},
	{"ReplayIsRepeatable", sequential, travelRepeatable},
	{"ForkBetweenQuestions", sequential, travelBetweenQuestions},
	{"SeveralQuestionsInOneNode", sequential, travelSeveralQuestions},
	{"AnswerGoesToHead", sequential, travelAnswerHead},
	{"Breakpoints", sequential, travelBreakpoints},
	{"Loop", sequential, travelLoop},
	{"ReplacedResults", sequential, travelReplacedResults},
	{"Copy", sequential, travelCopy},
	{"CopyAsksAgain", sequential, travelCopyAsks},
	{"CopyWithReplacedResults", sequential, travelCopyResults},
	{"CopyInNestedGraph", sequential, travelCopyNested},
	{"CopyRefused", sequential, travelCopyRefused},
	{"IdempotencyKeyIsNew", sequential, travelKeys},
	{"SendsAndJoins", concurrent, travelSends},
}

func travelReplay(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b", "c"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "a", "b", "c")
		before := kitHistory(t, thread())
		at := kitAt(t, before, "b")
		w.ran()
		kitContinue(t, thread().At(at.ID), "a", "b", "c")
		kitRan(t, w, "b", "c")
		added := kitAppended(t, thread(), before)
		kitWantLines(t, added,
			`4 loop {"n":1,"log":["a","b","c"]} []`,
			`3 loop {"n":1,"log":["a","b"]} [c]`,
			`2 fork {"n":1,"log":["a"]} [b]`,
		)
		if fork := added[2]; fork.Parent != at.ID || fork.Tasks[0].ID == at.Tasks[0].ID {
			t.Errorf("fork starts after %s with task %s, want after %s with a separate task", fork.Parent, fork.Tasks[0].ID, at.ID)
		}
		if head := kitStateOf(t, thread()); head.ID != added[0].ID {
			t.Errorf("head: %s, want the end of the new branch", kitLine(head))
		}
		kitRun(t, thread(), kitState{}, "a", "b", "c", "a", "b", "c")
	})
}

// travelEverywhere checks that continuing from every checkpoint produces the original
// result.
func travelEverywhere(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b", "c"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "a", "b", "c")
		kitRun(t, thread(), kitState{N: 2}, "a", "b", "c", "a", "b", "c")
		travelTails(t, w, thread)
	})
}

// travelTails forks every checkpoint of a thread without an edit and compares what
// follows with the original, ignoring IDs and steps. Each run of the thread is compared
// up to its own end.
func travelTails(t *testing.T, w *kitWorld, thread kitHandle) {
	t.Helper()
	original := kitHistory(t, thread())
	slices.Reverse(original) // oldest first
	tail := func(snaps []*treadle.Snapshot) (out []string) {
		for i, s := range snaps {
			if i > 0 && s.Source == checkpoint.Input {
				break // the next run
			}
			out = append(out, fmt.Sprintf("%s %v %s", s.State, s.Next, kitTasks(s)))
		}
		return out
	}
	for i, s := range original {
		before := kitHistory(t, thread())
		if _, err := thread().At(s.ID).Continue(t.Context()); err != nil {
			t.Fatalf("from %s: %v", kitLine(s), err)
		}
		added := kitAppended(t, thread(), before)
		slices.Reverse(added)
		if len(s.Next) == 0 { // nothing left to run
			if len(added) != 0 {
				t.Errorf("from the end %s the thread got %v", kitLine(s), kitLines(added))
			}
			continue
		}
		if diff := cmp.Diff(tail(original[i:]), tail(added)); diff != "" {
			t.Errorf("from %s (-original +branch):\n%s", kitLine(s), diff)
		}
	}
	w.ran()
}

func travelEnd(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "a")
		first := kitStateOf(t, thread())
		kitRun(t, thread(), kitState{N: 2}, "a", "a")
		before := kitHistory(t, thread())
		w.ran()
		out := kitContinue(t, thread().At(first.ID), "a")
		if out.N != 1 {
			t.Errorf("n is %d, want the old run's 1", out.N)
		}
		kitRan(t, w)
		if added := kitAppended(t, thread(), before); len(added) != 0 {
			t.Errorf("replay of nothing added %v", kitLines(added))
		}
	})
}

func travelInput(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "a", "b")
		before := kitHistory(t, thread())
		kitRun(t, thread().At(kitAt(t, before, "b").ID), kitState{N: 9}, "a", "a", "b")
		kitWantLines(t, kitAppended(t, thread(), before),
			`5 loop {"n":9,"log":["a","a","b"]} []`,
			`4 loop {"n":9,"log":["a","a"]} [b]`,
			`3 loop {"n":9,"log":["a"]} [a]`,
			`2 input {"n":1,"log":["a"]} [__start__]`,
		)
		if _, err := thread().At(checkpoint.NewID(1, checkpoint.ID{})).Run(t.Context(), kitState{}); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("from a checkpoint that is not there: %v, want ErrNotFound", err)
		}
	})
}

func travelEdit(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		b := treadle.New[kitState]("double")
		treadle.AddNode(b, "a", w.node("a"))
		treadle.AddNode(b, "double", func(ctx context.Context, s kitState) (kitN, error) {
			return kitN{s.N * 2}, w.enter(ctx, "double")
		})
		b.Sequence(treadle.Start, "a", "double")
		return kitCompile(t, b, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "a")
		first := kitHistory(t, thread())
		at := kitAt(t, first, "double")
		w.ran()
		for i, n := range []int{10, 20, 30} {
			kitUpdate(t, thread().At(at.ID), kitN{n}, treadle.AsNode("a"))
			out := kitContinue(t, thread(), "a")
			if out.N != 2*n {
				t.Errorf("branch %d: n is %d, want %d", i, out.N, 2*n)
			}
			kitRan(t, w, "double")
			added := kitAppended(t, thread(), first)
			if len(added) != 2*(i+1) {
				t.Errorf("after branch %d: %v", i, kitLines(added))
			}
		}
		// All ends exist, unchanged.
		var ends []string
		for _, s := range kitHistory(t, thread()) {
			if len(s.Next) == 0 {
				ends = append(ends, s.State.String())
			}
		}
		want := []string{`{"n":60,"log":["a"]}`, `{"n":40,"log":["a"]}`, `{"n":20,"log":["a"]}`, `{"n":2,"log":["a"]}`}
		if diff := cmp.Diff(want, ends); diff != "" {
			t.Errorf("ends of the branches (-want +got):\n%s", diff)
		}
	})
}

func travelBeforeQuestion(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "ask?", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{N: 1})
		first := kitAsked(t, err, "ask?")
		kitResume(t, thread(), "one", "a", "ask=one", "b")
		before := kitHistory(t, thread())
		w.ran()
		_, err = thread().At(kitAt(t, before, "a").ID).Continue(t.Context())
		again := kitAsked(t, err, "ask?")
		kitRan(t, w, "a", "ask")
		if again[0].ID == first[0].ID {
			t.Error("question on the new branch has the id of the old one")
		}
		snap := kitStateOf(t, thread())
		if len(snap.Pauses) != 1 || snap.Pauses[0].ID != again[0].ID {
			t.Errorf("open questions %v, want the new one", snap.Pauses)
		}
		kitResume(t, thread(), "two", "a", "ask=two", "b")
		kitRan(t, w, "ask", "b")
		kitWantLines(t, kitAppended(t, thread(), before),
			`4 loop {"n":1,"log":["a","ask=two","b"]} []`,
			`3 loop {"n":1,"log":["a","ask=two"]} [b]`,
			`2 loop {"n":1,"log":["a"]} [ask]`,
			`1 fork {"n":1,"log":[]} [a]`,
		)
	})
}

func travelAtQuestion(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "ask?", "b"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{})
		kitAsked(t, err, "ask?")
		asking := kitStateOf(t, thread())
		kitResume(t, thread(), "one", "a", "ask=one", "b")
		w.ran()
		// The answer was given in the other fork, so the question is asked again.
		_, err = thread().At(asking.ID).Continue(t.Context())
		kitAsked(t, err, "ask?")
		kitRan(t, w, "ask")
		kitResume(t, thread(), "two", "a", "ask=two", "b")

		// Also with an edit of the state in between.
		kitUpdate(t, thread().At(asking.ID), kitSay("edited"))
		_, err = thread().Continue(t.Context())
		kitAsked(t, err, "ask?")
		kitResume(t, thread(), "three", "a", "edited", "ask=three", "b")

		// The edit can also answer for the node.
		kitUpdate(t, thread().At(asking.ID), kitSay("skipped"), treadle.AsNode("ask"))
		kitContinue(t, thread(), "a", "skipped", "b")
	})
}

func travelRepeatable(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "ask?"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{})
		kitAsked(t, err, "ask?")
		asking := kitStateOf(t, thread())
		kitResume(t, thread(), "x", "a", "ask=x")
		seen := map[string]bool{}
		for range 3 {
			_, err = thread().At(asking.ID).Continue(t.Context())
			p := kitAsked(t, err, "ask?")
			if seen[p[0].ID] {
				t.Error("two branches share a question's id")
			}
			seen[p[0].ID] = true
		}
		// Continuing without an answer asks the same question.
		_, err = thread().Continue(t.Context())
		if p := kitAsked(t, err, "ask?"); !seen[p[0].ID] {
			t.Error("question has another id when it is asked again on the same branch")
		}
		kitResume(t, thread(), "y", "a", "ask=y")
	})
}

func travelBetweenQuestions(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("one?", "two?", "end"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{})
		kitAsked(t, err, "one?")
		_, err = thread().Resume(t.Context(), "1")
		kitAsked(t, err, "two?")
		between := kitStateOf(t, thread())
		kitResume(t, thread(), "2", "one=1", "two=2", "end")
		w.ran()
		kitUpdate(t, thread().At(between.ID), kitSay("between"))
		_, err = thread().Continue(t.Context())
		kitAsked(t, err, "two?")
		kitRan(t, w, "two")
		kitResume(t, thread(), "zwei", "one=1", "between", "two=zwei", "end")

		// From the first interrupt on, both are asked again.
		first := kitAt(t, kitHistory(t, thread()), "one")
		_, err = thread().At(first.ID).Continue(t.Context())
		kitAsked(t, err, "one?")
		_, err = thread().Resume(t.Context(), "eins")
		kitAsked(t, err, "two?")
		kitResume(t, thread(), "2", "one=eins", "two=2", "end")
	})
}

func travelSeveralQuestions(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		b := treadle.New[kitState]("several")
		treadle.AddNode(b, "ask", func(ctx context.Context, _ kitState) (kitLog, error) {
			var words []string
			for _, q := range []string{"first?", "second?"} {
				answer, err := treadle.Interrupt[string](ctx, q)
				if err != nil {
					return kitLog{}, err
				}
				words = append(words, answer)
			}
			return kitSay(words...), nil
		})
		b.Edge(treadle.Start, "ask")
		return kitCompile(t, b, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{})
		kitAsked(t, err, "first?")
		at := kitStateOf(t, thread())
		_, err = thread().Resume(t.Context(), "1")
		kitAsked(t, err, "second?")
		if snap := kitStateOf(t, thread()); snap.ID != at.ID || len(snap.Pauses) != 1 {
			t.Errorf("state %s with questions %v, want the same checkpoint with the second one", kitLine(snap), snap.Pauses)
		}
		kitResume(t, thread(), "2", "1", "2")
		_, err = thread().At(at.ID).Continue(t.Context())
		kitAsked(t, err, "first?")
		_, err = thread().Resume(t.Context(), "one")
		kitAsked(t, err, "second?")
		kitResume(t, thread(), "two", "one", "two")
	})
}

func travelAnswerHead(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "ask?"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread().Run(t.Context(), kitState{})
		kitAsked(t, err, "ask?")
		head := kitStateOf(t, thread())
		before := kitHistory(t, thread())
		if _, err := thread().At(head.Parent).Resume(t.Context(), "x"); err == nil {
			t.Error("checkpoint without an interrupt accepted an answer")
		}
		kitAppended(t, thread(), before)
		w.ran()
		// The head selected by its ID is the head.
		kitResume(t, thread().At(head.ID), "x", "a", "ask=x")
		kitRan(t, w, "ask")
		kitWantLines(t, kitAppended(t, thread(), before[1:])[:1], `2 loop {"log":["a","ask=x"]} []`)
	})
}

func travelBreakpoints(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, kitChain("a", "b", "c"), func(t *testing.T, w *kitWorld, thread kitHandle) {
		stopped := func(err error, before, after []string) {
			t.Helper()
			stop, ok := errors.AsType[*treadle.InterruptError](err)
			if !ok || !slices.Equal(stop.Before, before) || !slices.Equal(stop.After, after) {
				t.Fatalf("%v, want a breakpoint before %v, after %v", err, before, after)
			}
		}
		_, err := thread(treadle.After("a")).Run(t.Context(), kitState{N: 1})
		stopped(err, nil, []string{"a"})
		if got, want := kitLine(kitStateOf(t, thread())), `1 loop {"n":1,"log":["a"]} [b]`; got != want {
			t.Errorf("state %s, want %s", got, want)
		}
		_, err = thread(treadle.Before("c")).Continue(t.Context())
		stopped(err, []string{"c"}, nil)
		kitUpdate(t, thread(), kitSay("edited"))
		_, err = thread(treadle.Before("c"), treadle.After("c")).Continue(t.Context())
		stopped(err, nil, []string{"c"}) // not before c again
		kitContinue(t, thread(), "a", "b", "edited", "c")
		kitRan(t, w, "a", "b", "c")
		before := kitHistory(t, thread())
		kitWantLines(t, before,
			`4 loop {"n":1,"log":["a","b","edited","c"]} []`,
			`3 update {"n":1,"log":["a","b","edited"]} [c]`,
			`2 loop {"n":1,"log":["a","b"]} [c]`,
			`1 loop {"n":1,"log":["a"]} [b]`,
			`0 loop {"n":1,"log":[]} [a]`,
			`-1 input {"log":[]} [__start__]`,
		)
		// A replay stops at breakpoints like a run.
		_, err = thread(treadle.Before("c")).At(kitAt(t, before, "b").ID).Continue(t.Context())
		stopped(err, []string{"c"}, nil)
		kitContinue(t, thread(), "a", "b", "c")
		kitRan(t, w, "b", "c")
		// New input abandons a run that waits at a breakpoint.
		_, err = thread(treadle.Before("*")).Run(t.Context(), kitState{})
		stopped(err, []string{"a"}, nil)
		kitRun(t, thread(), kitState{}, "a", "b", "c", "a", "b", "c")
	})
}

// travelLoop edits an agent's loop partway and continues it.
func travelLoop(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		b := treadle.New[kitState]("agent")
		treadle.AddNode(b, "agent", func(ctx context.Context, s kitState) (kitN, error) {
			return kitN{s.N + 1}, w.enter(ctx, "agent")
		})
		treadle.AddNode(b, "tool", func(ctx context.Context, s kitState) (kitLog, error) {
			return kitSay(fmt.Sprint("tool ", s.N)), w.enter(ctx, "tool")
		})
		b.Edge(treadle.Start, "agent")
		treadle.AddBranch(b, "agent", func(_ context.Context, s kitState) (treadle.Goto, error) {
			if s.N >= 3 {
				return treadle.To(treadle.End), nil
			}
			return treadle.To("tool"), nil
		}, "tool", treadle.End)
		b.Edge("tool", "agent")
		return kitCompile(t, b, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		_, err := thread(treadle.Before("tool")).Run(t.Context(), kitState{})
		if _, ok := errors.AsType[*treadle.InterruptError](err); !ok {
			t.Fatal(err)
		}
		// The edit is made as the agent, so its branch decides again.
		kitUpdate(t, thread(), kitN{2})
		if got, want := kitLine(kitStateOf(t, thread())), `2 update {"n":2,"log":[]} [tool]`; got != want {
			t.Errorf("state %s, want %s", got, want)
		}
		kitContinue(t, thread(), "tool 2")
		kitRan(t, w, "agent", "agent", "tool")
		before := kitHistory(t, thread())
		kitUpdate(t, thread(), kitN{0}, treadle.AsNode("agent"))
		kitContinue(t, thread(), "tool 2", "tool 0", "tool 1", "tool 2")
		w.ran()
		// An edit that satisfies the branch ends the run.
		at := kitAt(t, before, "tool")
		kitUpdate(t, thread().At(at.ID), kitN{5}, treadle.AsNode("agent"))
		if snap := kitStateOf(t, thread()); len(snap.Next) != 0 {
			t.Errorf("next %v, want nothing", snap.Next)
		}
		kitContinue(t, thread())
		kitRan(t, w)
		travelTails2(t, thread, at)
	})
}

// travelTails2 replays one checkpoint twice and checks that the results are equal.
func travelTails2(t *testing.T, thread kitHandle, at *treadle.Snapshot) {
	t.Helper()
	var first []string
	for range 2 {
		before := kitHistory(t, thread())
		if _, err := thread().At(at.ID).Continue(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := kitLines(kitAppended(t, thread(), before))
		if first == nil {
			first = got
		} else if diff := cmp.Diff(first, got); diff != "" {
			t.Errorf("same checkpoint, two branches (-first +second):\n%s", diff)
		}
	}
}

// travelReplacedResults forks a checkpoint with different results for the tasks that ran
// from it: one edit for each task, which together form the step.
func travelReplacedResults(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
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
			if _, err := thread().At(at.ID).BulkUpdate(t.Context(), []treadle.Edit{
				{Values: kitSay(word + "1"), As: "one"}, {Values: kitSay(word + "2"), As: "two"}}); err != nil {
				t.Fatal(err)
			}
			kitContinue(t, thread(), word+"1", word+"2", "end")
			kitRan(t, w, "end")
		}
		// The two forks are siblings: both start at the same checkpoint.
		added := kitAppended(t, thread(), before)
		kitWantLines(t, added,
			`2 loop {"log":["y1","y2","end"]} []`, `1 update {"log":["y1","y2"]} [end]`,
			`2 loop {"log":["x1","x2","end"]} []`, `1 update {"log":["x1","x2"]} [end]`)
		if added[1].Parent != at.ID || added[3].Parent != at.ID {
			t.Error("branches are not siblings")
		}
	})
}

func travelKeys(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	var keys []string
	build := func(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
		b := treadle.New[kitState]("keys")
		treadle.AddNode(b, "pay", func(ctx context.Context, _ kitState) (kitLog, error) {
			keys = append(keys, treadle.InfoFrom(ctx).IdempotencyKey)
			return kitSay("paid"), w.enter(ctx, "pay")
		})
		b.Edge(treadle.Start, "pay")
		return kitCompile(t, b, saver)
	}
	kitBothWays(t, open, build, func(t *testing.T, w *kitWorld, thread kitHandle) {
		keys = nil
		w.fail("pay", errKit)
		if _, err := thread().Run(t.Context(), kitState{}); !errors.Is(err, errKit) {
			t.Fatal(err)
		}
		w.fail("pay", nil)
		kitContinue(t, thread(), "paid")
		kitContinue(t, thread().At(kitAt(t, kitHistory(t, thread()), "pay").ID), "paid")
		if len(keys) != 3 || keys[0] == "" || keys[0] != keys[1] || keys[2] == keys[0] {
			t.Errorf("keys %q: want the same after a failure and another on a fork", keys)
		}
	})
}

func travelSends(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, travelFan, func(t *testing.T, w *kitWorld, thread kitHandle) {
		out := kitRunAny(t, thread(), kitState{N: 2})
		kitWantLog(t, "run", out, []string{"plan", "side", "word 0", "word 1", "end", "last"})
		travelTails(t, w, thread)
	})
}

type travelWord struct{ Word string }

// travelFan builds a graph with sends, a join over different depths, and a deferred node.
func travelFan(t *testing.T, w *kitWorld, saver checkpoint.Saver) *kitGraph {
	b := treadle.New[kitState]("fan")
	for _, name := range []string{"plan", "side", "end"} {
		treadle.AddNode(b, name, w.node(name))
	}
	treadle.AddNode(b, "last", w.node("last"), treadle.Defer())
	say := treadle.AddNode(b, "say", func(ctx context.Context, in travelWord) (kitLog, error) {
		return kitSay(in.Word), w.enter(ctx, "say")
	})
	b.Edge(treadle.Start, "plan")
	b.Edge("plan", "side")
	b.Edge("plan", "last")
	treadle.AddBranch(b, "plan", func(_ context.Context, s kitState) (treadle.Goto, error) {
		next := treadle.Goto{}
		for i := range s.N {
			next = append(next, treadle.Send(say, travelWord{fmt.Sprint("word ", i)})...)
		}
		return next, nil
	}, "say")
	b.Join([]any{"side", "say"}, "end")
	return kitCompile(t, b, saver)
}
