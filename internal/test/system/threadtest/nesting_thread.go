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
)

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
					n, _ := s.State.Get("count")
					steps = append(steps, fmt.Sprint(s.Step, " ", s.Source, " ", n, " ", s.Next))
				}
				want := []string{"6 loop 4 []", "5 loop 3 [j]", "4 loop 2 [i]", "3 input 2 [__start__]",
					"2 loop 2 []", "1 loop 1 [j]", "0 loop 0 [i]", "-1 input 0 [__start__]"}
				if diff := cmp.Diff(want, steps); diff != "" {
					t.Errorf("graph's own history (-want +got):\n%s", diff)
				}
				// Other threads have separate state.
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

// nestLoop returns a graph that runs its subgraph n times.
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
		treadle.AddBranch(b, "again", func(_ context.Context, s kitState) (treadle.Goto, error) {
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

// nestingForked checks that a fork uses the persistent subgraph's state as of the
// parent's checkpoint.
func nestingForked(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestLoop([]string{"i"}, treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 2}, "i#0", "i#1")
		first := kitHistory(t, thread())
		inner := kitHistory(t, kitNested(t, thread(), "sub"))
		kitRun(t, thread(), kitState{N: 1}, "i#0", "i#1", "i#2")

		second := kitAt(t, first, "sub") // before the second iteration of the first turn
		kitContinue(t, thread().At(second.ID), "i#0", "i#1")
		kitContinue(t, thread().At(first[len(first)-2].ID), "i#0", "i#1") // from the start
		kitRun(t, thread().At(first[0].ID), kitState{N: 1}, "i#0", "i#1", "i#2")
		kitUpdate(t, thread().At(second.ID), kitN{2}, treadle.AsNode("again"))
		kitContinue(t, thread(), "i#0", "i#1", "i#2")
		// The thread continues from its head, and so does the graph.
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
		// New input discards the effects of the failed turn, including those in the
		// graph.
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

// nestingEditedBetween checks that an edit of a persistent subgraph between turns takes
// effect in the next turn.
func nestingEditedBetween(t *testing.T, open func(t *testing.T) checkpoint.Saver) {
	kitBothWays(t, open, nestLoop([]string{"i"}, treadle.PerThread()), func(t *testing.T, w *kitWorld, thread kitHandle) {
		kitRun(t, thread(), kitState{N: 1}, "i#0")
		first := kitStateOf(t, thread())
		for range 2 {
			if _, err := kitNested(t, thread(), "sub").Update(t.Context(), json.RawMessage(`{"count":10}`)); err != nil {
				t.Fatal(err)
			}
		}
		kitRun(t, thread(), kitState{N: 1}, "i#0", "i#21")
		kitRun(t, thread(), kitState{N: 1}, "i#0", "i#21", "i#22")
		// A fork from before other turns uses the state as of then.
		kitRun(t, thread().At(first.ID), kitState{N: 1}, "i#0", "i#1")
	})
}
