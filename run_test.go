package treadle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

// trail is the state of most graphs here: the nodes that ran, in commit order.
type trail struct {
	Log reduce.List[string] `json:"log"`
	N   int                 `json:"n"`
}

type trod struct{ Log reduce.List[string] }

// tread returns a node that leaves its mark.
func tread(mark string) func(context.Context, struct{}) (trod, error) {
	return func(context.Context, struct{}) (trod, error) { return trod{reduce.List[string]{mark}}, nil }
}

// trailOf returns a trail graph of nodes that leave their names.
func trailOf(nodes ...string) *treadle.Builder[trail] {
	b := treadle.New[trail]("path")
	for _, n := range nodes {
		treadle.AddNode(b, n, tread(n))
	}
	return b
}

func ready[S any](t *testing.T, b *treadle.Builder[S], o *treadle.Options) *treadle.Graph[S, S] {
	t.Helper()
	g, err := b.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// walk runs a trail graph and returns its marks in one string.
func walk(t *testing.T, g *treadle.Graph[trail, trail], in ...string) string {
	t.Helper()
	out, err := g.Run(t.Context(), trail{Log: in})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out.Log, " ")
}

func wantText(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Errorf("got no error, want %s", want)
	} else if diff := cmp.Diff(want, testLine.ReplaceAllString(err.Error(), "${1}N")); diff != "" {
		t.Errorf("the error differs (-want +got):\n%s", diff)
	}
}

// testLine is the line of a test, which changes.
var testLine = regexp.MustCompile(`(_test\.go:)\d+`)

// The writes of a step are visible in the next step, in the order of the nodes' names,
// regardless of the order of the edges.
//
// Parity: 64. Quirk B8: edges are not a set whose order leaks.
func TestStepCommitsInNodeOrder(t *testing.T) {
	for _, edges := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "c", "a"}} {
		b := trailOf("c", "a", "b", "last")
		for _, n := range edges {
			b.Edge(treadle.Start, n)
			b.Edge(n, "last")
		}
		if got := walk(t, ready(t, b, nil), "in"); got != "in a b c last" {
			t.Errorf("with edges to %v the trail is %q, want in a b c last", edges, got)
		}
	}
}

// The nodes of a step run at the same time: each waits for the other here. The
// later to finish still comes first if its name does.
//
// Parity: 64.
func TestNodesOfStepRunInParallel(t *testing.T) {
	aReady, bDone := make(chan struct{}), make(chan struct{})
	b := treadle.New[trail]("parallel")
	treadle.AddNode(b, "a", func(context.Context, struct{}) (trod, error) {
		close(aReady)
		<-bDone
		return trod{reduce.List[string]{"a"}}, nil
	})
	treadle.AddNode(b, "b", func(context.Context, struct{}) (trod, error) {
		<-aReady
		close(bDone)
		return trod{reduce.List[string]{"b"}}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b")
	if got := walk(t, ready(t, b, nil)); got != "a b" {
		t.Errorf("the trail is %q, want a b", got)
	}
}

// A node reads the state as of the start of its step: siblings do not see each other's
// writes.
func TestSiblingsDoNotSeeEachOther(t *testing.T) {
	b := treadle.New[trail]("apart")
	for _, n := range []string{"a", "b"} {
		treadle.AddNode(b, n, func(_ context.Context, s trail) (trod, error) {
			return trod{reduce.List[string]{fmt.Sprintf("%s saw %d", n, len(s.Log))}}, nil
		})
		b.Edge(treadle.Start, n)
	}
	if got := walk(t, ready(t, b, nil), "in"); got != "in a saw 1 b saw 1" {
		t.Errorf("the trail is %q", got)
	}
}

// Nodes reached by several edges in one step run once; a diamond with an extra
// direct edge runs the target twice, in two steps.
//
// Parity: 35.
func TestNodeRunsOncePerTriggeringStep(t *testing.T) {
	b := trailOf("a", "b", "c", "d")
	for _, e := range [][2]string{{treadle.Start, "a"}, {"a", "b"}, {"a", "c"}, {"b", "d"}, {"c", "d"}} {
		b.Edge(e[0], e[1])
	}
	if got := walk(t, ready(t, b, nil)); got != "a b c d" {
		t.Errorf("the diamond's trail is %q, want a b c d", got)
	}
	b.Edge("a", "d")
	if got := walk(t, ready(t, b, nil)); got != "a b c d d" {
		t.Errorf("with the direct edge the trail is %q, want a b c d d", got)
	}
}

// Parity: 53.
func TestSequenceRunsInOrder(t *testing.T) {
	b := trailOf("z", "m", "a")
	b.Edge(treadle.Start, "z")
	b.Sequence("z", "m", "a")
	if got := walk(t, ready(t, b, nil)); got != "z m a" {
		t.Errorf("the trail is %q, want z m a", got)
	}
	one := trailOf("only")
	one.Edge(treadle.Start, "only")
	one.Sequence("only")
	if got := walk(t, ready(t, one, nil)); got != "only" {
		t.Errorf("the trail of a sequence of one is %q", got)
	}
}

// Names may be of any string type: an enumeration converts.
//
// Parity: 50.
func TestNodeNamesOfStringType(t *testing.T) {
	type stage string
	const first, second stage = "first", "second"
	b := trailOf(string(first), string(second))
	b.Edge(treadle.Start, string(first))
	b.Edge(string(first), string(second))
	if got := walk(t, ready(t, b, nil)); got != "first second" {
		t.Errorf("the trail is %q", got)
	}
}

// An edge to End is allowed and does nothing; so is a join into it.
func TestEdgesToEndRunNothing(t *testing.T) {
	b := trailOf("a", "b")
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b")
	b.Edge("a", treadle.End)
	b.Join([]any{"a", "b"}, treadle.End)
	if got := walk(t, ready(t, b, nil)); got != "a b" {
		t.Errorf("the trail is %q, want a b", got)
	}
}

// A node that writes nothing still leads on.
//
// Parity: 23.
func TestNodeWithoutWritesHasSuccessors(t *testing.T) {
	b := trailOf("b")
	treadle.AddNode(b, "a", func(context.Context, trail) (*trod, error) { return nil, nil })
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	if got := walk(t, ready(t, b, nil)); got != "b" {
		t.Errorf("the trail is %q, want b", got)
	}
	silent := treadle.New[trail]("silent")
	treadle.AddNode(silent, "a", func(context.Context, trail) (struct{}, error) { return struct{}{}, nil })
	silent.Edge(treadle.Start, "a")
	out, err := ready(t, silent, nil).Run(t.Context(), trail{})
	if err != nil || out.Log != nil || out.N != 0 {
		t.Errorf("the output is %+v, %v, want the zero state", out, err)
	}
}

// A join waits for its sources regardless of the number of steps between them, and starts
// over after it has fired.
//
// Parity: 25, 27.
func TestJoinWaitsForAllSources(t *testing.T) {
	b := trailOf("a", "b1", "b2", "end")
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b1")
	b.Edge("b1", "b2")
	b.Join([]any{"a", "b2"}, "end")
	if got := walk(t, ready(t, b, nil)); got != "a b1 b2 end" {
		t.Errorf("the trail is %q, want a b1 b2 end", got)
	}
	never := trailOf("a", "b", "end")
	never.Edge(treadle.Start, "a")
	treadle.AddBranch(never, "a", func(context.Context, trail) (treadle.Goto, error) { return treadle.To(treadle.End), nil }, "b", treadle.End)
	never.Join([]any{"a", "b"}, "end")
	if got := walk(t, ready(t, never, nil)); got != "a" {
		t.Errorf("a join with a source that never runs gives the trail %q, want a", got)
	}
}

// Parity: 27. A join starts over after it has fired: in a loop it fires again.
func TestJoinInLoop(t *testing.T) {
	b := trailOf("a", "b", "c")
	treadle.AddNode(b, "top", func(_ context.Context, s trail) (trail2, error) {
		return trail2{Log: reduce.List[string]{"top"}, N: s.N + 1}, nil
	})
	b.Edge(treadle.Start, "top")
	b.Edge("top", "a")
	b.Edge("top", "b")
	b.Join([]any{"a", "b"}, "c")
	treadle.AddBranch(b, "c", func(_ context.Context, s trail) (treadle.Goto, error) {
		if s.N < 2 {
			return treadle.To("top"), nil
		}
		return treadle.To(treadle.End), nil
	}, "top", treadle.End)
	if got := walk(t, ready(t, b, nil)); got != "top a b c top a b c" {
		t.Errorf("the trail is %q", got)
	}
}

type trail2 struct {
	Log reduce.List[string]
	N   int
}

// Parity: 29. A source of a join may be reached by a branch.
func TestJoinFedByBranch(t *testing.T) {
	b := trailOf("rewrite", "analyzer", "one", "two", "qa")
	b.Edge(treadle.Start, "rewrite")
	b.Edge("rewrite", "analyzer")
	b.Edge("analyzer", "one")
	treadle.AddBranch(b, "rewrite", func(context.Context, trail) (treadle.Goto, error) { return treadle.To("two"), nil }, "two", treadle.End)
	b.Join([]any{"one", "two"}, "qa")
	if got := walk(t, ready(t, b, nil)); got != "rewrite analyzer two one qa" {
		t.Errorf("the trail is %q", got)
	}
}

// Parity: 31. A node reached by a join and by an edge runs for each.
func TestNodeReachedByJoinAndEdgeRunsTwice(t *testing.T) {
	b := trailOf("a", "b", "c", "qa")
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	b.Edge("a", "qa")
	b.Edge("b", "c")
	b.Join([]any{"b", "c"}, "qa")
	if got := walk(t, ready(t, b, nil)); got != "a b qa c qa" {
		t.Errorf("the trail is %q, want a b qa c qa", got)
	}
}

// A join may have more sources than a word has bits.
func TestJoinWithHundredSources(t *testing.T) {
	b := trailOf("z")
	var names []string
	for i := range 100 {
		n := fmt.Sprintf("n%02d", i)
		names = append(names, n)
		treadle.AddNode(b, n, tread(n))
		if i < 99 {
			b.Edge(treadle.Start, n)
		}
	}
	b.Edge("n00", "n99") // the last one comes a step later
	b.Join(treadle.Nodes(names), "z")
	if got, want := walk(t, ready(t, b, nil)), strings.Join(append(names, "z"), " "); got != want {
		t.Errorf("the trail is %q, want %q", got, want)
	}
}

// Incomplete joins and waiting deferred nodes are part of the checkpoint.
func TestJoinAndDeferredNodeSurviveStop(t *testing.T) {
	b := trailOf("a", "b1", "b2", "b3", "end")
	treadle.AddNode(b, "last", tread("last"), treadle.Defer())
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b1")
	b.Sequence("b1", "b2", "b3")
	b.Edge("a", "last")
	b.Join([]any{"a", "b2"}, "end")
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	_, err := g.Thread("1", treadle.StepLimit(1)).Run(t.Context(), trail{})
	if e, ok := errors.AsType[*treadle.StepLimitError](err); !ok || !slices.Equal(e.Next, []string{"b2"}) {
		t.Fatalf("the run ended with %v, want the limit before b2", err)
	}
	out, err := g.Thread("1").Continue(t.Context())
	if got := strings.Join(out.Log, " "); err != nil || got != "a b1 b2 b3 end last" {
		t.Errorf("the trail is %q, %v", got, err)
	}
	// No work is left, and that is not an error.
	again, err := g.Thread("1").Continue(t.Context())
	if err != nil || len(again.Log) != len(out.Log) {
		t.Errorf("continued after its end the thread gives %v, %v", again.Log, err)
	}
}

// A deferred node runs when nothing else is left, once for all that led to it,
// with a join and without.
//
// Parity: 28.
func TestDeferredNodeRunsLast(t *testing.T) {
	build := func(join bool) *treadle.Builder[trail] {
		b := trailOf("a", "b", "c1", "c2", "c3")
		treadle.AddNode(b, "qa", tread("qa"), treadle.Defer())
		b.Edge(treadle.Start, "a")
		b.Edge(treadle.Start, "b")
		b.Edge(treadle.Start, "c1")
		b.Sequence("c1", "c2", "c3")
		if join {
			b.Join([]any{"a", "b"}, "qa")
		} else {
			b.Edge("a", "qa")
			b.Edge("b", "qa")
			b.Edge("c3", "qa")
		}
		return b
	}
	for _, join := range []bool{false, true} {
		if got := walk(t, ready(t, build(join), nil)); got != "a b c1 c2 c3 qa" {
			t.Errorf("with a join %t the trail is %q, want a b c1 c2 c3 qa", join, got)
		}
	}
}

// A deferred node that is scheduled again after it has run runs again.
//
// Parity: 28.
func TestDeferredNodeIsReleasedAgain(t *testing.T) {
	b := trailOf("a")
	treadle.AddNode(b, "late", func(_ context.Context, s trail) (trail2, error) {
		return trail2{Log: reduce.List[string]{"late"}, N: s.N + 1}, nil
	}, treadle.Defer())
	b.Edge(treadle.Start, "a")
	b.Edge("a", "late")
	treadle.AddBranch(b, "late", func(_ context.Context, s trail) (treadle.Goto, error) {
		if s.N < 2 {
			return treadle.To("a"), nil
		}
		return treadle.To(treadle.End), nil
	}, "a", treadle.End)
	if got := walk(t, ready(t, b, nil)); got != "a late a late" {
		t.Errorf("the trail is %q, want a late a late", got)
	}
}

// A branch from the start chooses the entry, also several.
//
// Parity: 24, 26.
func TestBranchFromStart(t *testing.T) {
	b := trailOf("a", "b", "c", "d")
	treadle.AddBranch(b, treadle.Start, func(_ context.Context, s trail) (treadle.Goto, error) {
		if s.N > 0 {
			return treadle.To("b", "c"), nil
		}
		return treadle.To("a"), nil
	}, "a", "b", "c")
	b.Edge("b", "d")
	b.Edge("c", "d")
	g := ready(t, b, nil)
	for n, want := range []string{"a", "b c d"} {
		out, err := g.Run(t.Context(), trail{N: n})
		if got := strings.Join(out.Log, " "); err != nil || got != want {
			t.Errorf("with N = %d the trail is %q, %v, want %q", n, got, err, want)
		}
	}
}

// A branch sees the state with the writes of its own node and without the writes of the
// node's siblings.
func TestBranchSeesOnlyOwnWrites(t *testing.T) {
	b := trailOf("a", "b", "c")
	var saw sync.Map
	for _, n := range []string{"a", "b"} {
		b.Edge(treadle.Start, n)
		treadle.AddBranch(b, n, func(_ context.Context, s trail) (treadle.Goto, error) {
			saw.Store(n, strings.Join(s.Log, " "))
			return treadle.To("c"), nil
		}, "c")
	}
	if got := walk(t, ready(t, b, nil), "in"); got != "in a b c" {
		t.Errorf("the trail is %q", got)
	}
	for n, want := range map[string]string{"a": "in a", "b": "in b"} {
		if got, _ := saw.Load(n); got != want {
			t.Errorf("the branch of %s saw %q, want %q", n, got, want)
		}
	}
}

// Reading the future value of a list must not claim its memory: two branches of one step
// read different continuations of the same list.
func TestBranchesReadSeparateLists(t *testing.T) {
	b := trailOf("a", "b", "grow1", "grow2")
	b.Edge(treadle.Start, "grow1")
	b.Edge("grow1", "grow2") // by now the list has spare memory
	b.Edge("grow2", "a")
	b.Edge("grow2", "b")
	var saw sync.Map
	for _, n := range []string{"a", "b"} {
		treadle.AddBranch(b, n, func(_ context.Context, s trail) (treadle.Goto, error) {
			saw.Store(n, s.Log[len(s.Log)-1])
			return treadle.To(treadle.End), nil
		}, treadle.End)
	}
	if got := walk(t, ready(t, b, nil)); got != "grow1 grow2 a b" {
		t.Errorf("the trail is %q", got)
	}
	for _, n := range []string{"a", "b"} {
		if got, _ := saw.Load(n); got != n {
			t.Errorf("the branch of %s saw %v at the end of the list", n, got)
		}
	}
}

type lengthRouter struct{ limit int }

func (r lengthRouter) route(_ context.Context, s trail) (treadle.Goto, error) {
	if len(s.Log) < r.limit {
		return treadle.To("a"), nil
	}
	return treadle.To(treadle.End), nil
}

// A router may be a method of a value with its own settings; without declared
// destinations it may go anywhere.
//
// Parity: 33.
func TestRouterMayBeMethod(t *testing.T) {
	b := trailOf("a", "b")
	b.Edge(treadle.Start, "a")
	treadle.AddBranch(b, "a", lengthRouter{3}.route)
	if got := walk(t, ready(t, b, nil)); got != "a a a" {
		t.Errorf("the trail is %q, want a a a", got)
	}
}

// Parity: 34. All branches after a node count.
func TestTwoBranchesAfterNode(t *testing.T) {
	b := trailOf("a", "b", "c", "d")
	b.Edge(treadle.Start, "a")
	treadle.AddBranch(b, "a", func(context.Context, trail) (treadle.Goto, error) { return treadle.To("c"), nil }, "c")
	treadle.AddBranch(b, "a", func(context.Context, trail) (treadle.Goto, error) { return treadle.To("b", "c"), nil }, "b", "c", "d")
	if got := walk(t, ready(t, b, nil)); got != "a b c" {
		t.Errorf("the trail is %q, want a b c", got)
	}
}

// A branch and a static edge both apply.
func TestBranchAndEdgeBothRun(t *testing.T) {
	b := trailOf("a", "b", "c")
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	treadle.AddBranch(b, "a", func(context.Context, trail) (treadle.Goto, error) { return treadle.To("c"), nil }, "c")
	if got := walk(t, ready(t, b, nil)); got != "a b c" {
		t.Errorf("the trail is %q, want a b c", got)
	}
}

// A branch may read less than the state, and a private field that its node
// has written.
//
// Parity: 207.
func TestBranchReadsOwnStruct(t *testing.T) {
	type verdict struct{ Good bool }
	type rated struct {
		Log  reduce.List[string]
		Good bool
	}
	b := trailOf("yes", "no")
	treadle.AddNode(b, "rate", func(_ context.Context, s trail) (rated, error) {
		return rated{reduce.List[string]{"rate"}, s.N > 5}, nil
	})
	b.Edge(treadle.Start, "rate")
	treadle.AddBranch(b, "rate", func(_ context.Context, v verdict) (treadle.Goto, error) {
		if v.Good {
			return treadle.To("yes"), nil
		}
		return treadle.To("no"), nil
	}, "yes", "no")
	g := ready(t, b, nil)
	for n, want := range map[int]string{1: "rate no", 9: "rate yes"} {
		out, err := g.Run(t.Context(), trail{N: n})
		if got := strings.Join(out.Log, " "); err != nil || got != want {
			t.Errorf("with N = %d the trail is %q, %v, want %q", n, got, err, want)
		}
	}
}

// Parity: 3. Quirk B20: an unknown node is an error, not a warning.
func TestBranchWithoutDestination(t *testing.T) {
	boom := errors.New("boom")
	for _, test := range []struct {
		name   string
		to     treadle.Goto
		err    error
		panics bool
		want   string
	}{
		{"nothing", nil, nil, false,
			`graph "path": node "a" (step 1): branch: goto: branch returned no destination: return treadle.To(treadle.End) to stop`},
		{"unknown", treadle.To("x"), nil, false, `graph "path": node "a" (step 1): goto "x": unknown node; the graph has a, b`},
		{"no name", treadle.To(""), nil, false, `graph "path": node "a" (step 1): goto: target has no name`},
		{"start", treadle.To(treadle.Start), nil, false, `graph "path": node "a" (step 1): goto "__start__": start cannot be a target`},
		{"error", nil, boom, false, `graph "path": node "a" (step 1): branch: boom`},
		{"panic", nil, nil, true, `graph "path": node "a" (step 1): branch: panic: no idea (treadle_test.TestBranchWithoutDestination.func1.1, run_test.go:N)`},
		{"send to the end", treadle.Send(treadle.End, 1), nil, false, `graph "path": node "a" (step 1): goto "__end__": cannot send to the end`},
		{"send to the unknown", treadle.Send("x", 1), nil, false, `graph "path": node "a" (step 1): goto "x": unknown node; the graph has a, b`},
	} {
		for _, parallel := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, parallel %t", test.name, parallel), func(t *testing.T) {
				b := trailOf("a", "b")
				b.Edge(treadle.Start, "a")
				if parallel {
					b.Edge(treadle.Start, "b")
				}
				treadle.AddBranch(b, "a", func(context.Context, trail) (treadle.Goto, error) {
					if test.panics {
						panic("no idea")
					}
					return test.to, test.err
				})
				_, err := ready(t, b, nil).Run(t.Context(), trail{})
				wantText(t, err, test.want)
				failure, ok := errors.AsType[*treadle.NodeError](err)
				if !ok || failure.Node != "a" || failure.Step != 1 {
					t.Fatalf("%v is not a NodeError of a", err)
				}
				if test.err != nil && !errors.Is(err, test.err) {
					t.Errorf("%v hides its cause", err)
				}
				if hasStack := strings.Contains(string(failure.Stack), "TestBranchWithoutDestination"); hasStack != test.panics {
					t.Errorf("the stack is %q", failure.Stack)
				}
			})
		}
	}
}

// A failed branch belongs to its node: a thread shows the node as failed, and the node
// runs again.
func TestFailedBranchFailsItsNode(t *testing.T) {
	for _, parallel := range []bool{false, true} {
		var runs, fails atomic.Int32
		b := trailOf("b", "c")
		treadle.AddNode(b, "a", func(context.Context, struct{}) (trod, error) {
			runs.Add(1)
			return trod{reduce.List[string]{"a"}}, nil
		})
		b.Edge(treadle.Start, "a")
		if parallel {
			b.Edge(treadle.Start, "b")
		}
		treadle.AddBranch(b, "a", func(context.Context, trail) (treadle.Goto, error) {
			if fails.Add(1) == 1 {
				return nil, errors.New("lost")
			}
			return treadle.To("c"), nil
		}, "b", "c")
		thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("1")
		_, err := thread.Run(t.Context(), trail{})
		const text = `graph "path": node "a" (step 1): branch: lost`
		wantText(t, err, text)
		snap, err := thread.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(snap.Tasks) == 0 || snap.Tasks[0].Name != "a" || snap.Tasks[0].Error != text {
			t.Errorf("parallel %t: the tasks are %+v, want a with its error", parallel, snap.Tasks)
		}
		out, err := thread.Continue(t.Context())
		want := "a c"
		if parallel {
			want = "a b c"
		}
		if got := strings.Join(out.Log, " "); err != nil || got != want {
			t.Errorf("parallel %t: the trail is %q, %v, want %q", parallel, got, err, want)
		}
		if runs.Load() != 2 {
			t.Errorf("parallel %t: a ran %d times, want 2", parallel, runs.Load())
		}
	}
}

// The trace that the specification works out in full: an edge to two nodes, a
// join, a branch with sends.
//
// Appendix A.
func TestWorkedTrace(t *testing.T) {
	type state struct {
		V reduce.List[string] `json:"v"`
	}
	type wrote struct{ V reduce.List[string] }
	saver := checkpoint.NewMemory()
	b := treadle.New[state]("worked")
	node := func(mark string) func(context.Context, struct{}) (wrote, error) {
		return func(context.Context, struct{}) (wrote, error) { return wrote{reduce.List[string]{mark}}, nil }
	}
	for _, n := range []string{"a", "b", "j", "z"} {
		treadle.AddNode(b, n, node(n))
	}
	m := treadle.AddNode(b, "m", func(_ context.Context, n int) (wrote, error) {
		return wrote{reduce.List[string]{fmt.Sprint("m", n)}}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b")
	b.Join([]any{"a", "b"}, "j")
	treadle.AddBranch(b, "j", func(context.Context, state) (treadle.Goto, error) {
		return slices.Concat(treadle.Send(m, 1), treadle.Send(m, 2), treadle.To("z")), nil
	}, "m", "z")
	thread := ready(t, b, &treadle.Options{Saver: saver}).Thread("t")
	out, err := thread.Run(t.Context(), state{reduce.List[string]{"in"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(reduce.List[string]{"in", "a", "b", "j", "z", "m1", "m2"}, out.V); diff != "" {
		t.Errorf("the output differs (-want +got):\n%s", diff)
	}

	type row struct {
		Source checkpoint.Source
		Step   int
		Values string
		Next   []string
	}
	var got []row
	var ids, parents []checkpoint.ID
	for snap, err := range thread.History(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row{snap.Source, snap.Step, snap.State.String(), snap.Next})
		ids, parents = append(ids, snap.ID), append(parents, snap.Parent)
	}
	slices.Reverse(got)
	want := []row{
		{checkpoint.Input, -1, `{"v":[]}`, []string{treadle.Start}},
		{checkpoint.Loop, 0, `{"v":["in"]}`, []string{"a", "b"}},
		{checkpoint.Loop, 1, `{"v":["in","a","b"]}`, []string{"j"}},
		{checkpoint.Loop, 2, `{"v":["in","a","b","j"]}`, []string{"m", "m", "z"}},
		{checkpoint.Loop, 3, `{"v":["in","a","b","j","z","m1","m2"]}`, nil},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the checkpoints differ (-want +got):\n%s", diff)
	}
	if wantParents := append(slices.Clone(ids[1:]), checkpoint.ID{}); !slices.Equal(parents, wantParents) {
		t.Errorf("the parents are %v, want %v", parents, wantParents)
	}

	// What is stored: v only once it was written, with a version that grows by
	// one per step.
	slices.Reverse(ids)
	for i, id := range ids {
		cp, err := saver.Get(t.Context(), checkpoint.Key{Thread: "t", ID: id})
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := cp.Values["v"]; ok != (i > 0) || v.Version != uint64(i) {
			t.Errorf("checkpoint %d holds v: %t in version %d, want version %d", i, ok, v.Version, i)
		}
		if len(cp.Pending) > 0 {
			t.Errorf("checkpoint %d has pending writes although its step was completed: %v", i, cp.Pending)
		}
	}

	// New input while j is pending gives j up, and the join starts over.
	stopped := ready(t, b, &treadle.Options{Saver: saver, StepLimit: 1}).Thread("u")
	_, err = stopped.Run(t.Context(), state{reduce.List[string]{"in"}})
	if e, ok := errors.AsType[*treadle.StepLimitError](err); !ok || !slices.Equal(e.Next, []string{"j"}) {
		t.Fatalf("the run ended with %v, want the step limit before j", err)
	}
	_, err = stopped.Run(t.Context(), state{reduce.List[string]{"again"}})
	if e, ok := errors.AsType[*treadle.StepLimitError](err); !ok || !slices.Equal(e.Next, []string{"j"}) {
		t.Fatalf("the second run ended with %v, want the step limit before j", err)
	}
	out, err = stopped.Continue(t.Context())
	if e, ok := errors.AsType[*treadle.StepLimitError](err); ok {
		t.Errorf("the run ended with %v", e)
	}
	if diff := cmp.Diff(reduce.List[string]{"in", "a", "b", "again", "a", "b", "j", "z", "m1", "m2"}, out.V); diff != "" {
		t.Errorf("the output differs (-want +got):\n%s", diff)
	}
}

// The input counts as a step and so does finding that nothing is left.
//
// Parity: 9. Quirk B12: the counting is kept.
func TestStepLimitTable(t *testing.T) {
	chain := func(n int) *treadle.Builder[trail] {
		names := []string{"a", "b", "c"}[:n]
		b := trailOf(names...)
		b.Edge(treadle.Start, "a")
		b.Sequence(treadle.Nodes(names)...)
		return b
	}
	loop := trailOf("a")
	loop.Edge(treadle.Start, "a")
	loop.Edge("a", "a")
	for _, test := range []struct {
		name  string
		graph *treadle.Builder[trail]
		limit int
		ran   string
		want  string // the error
	}{
		{"one node", chain(1), 1, "a", "step limit 1 reached before the end (next: the end, so one more step is enough)"},
		{"one node", chain(1), 2, "a", ""},
		{"two nodes", chain(2), 1, "a", "step limit 1 reached before the end (next: b)"},
		{"two nodes", chain(2), 2, "a b", "step limit 2 reached before the end (next: the end, so one more step is enough)"},
		{"two nodes", chain(2), 3, "a b", ""},
		{"three nodes", chain(3), 1, "a", "step limit 1 reached before the end (next: b)"},
		{"three nodes", chain(3), 2, "a b", "step limit 2 reached before the end (next: c)"},
		{"three nodes", chain(3), 3, "a b c", "step limit 3 reached before the end (next: the end, so one more step is enough)"},
		{"three nodes", chain(3), 4, "a b c", ""},
		{"three nodes", chain(3), 25, "a b c", ""},
		{"loop", loop, 1, "a", "step limit 1 reached before the end (next: a)"},
		{"loop", loop, 5, "a a a a a", "step limit 5 reached before the end (next: a)"},
	} {
		t.Run(fmt.Sprintf("%s, limit %d", test.name, test.limit), func(t *testing.T) {
			text := ""
			if test.want != "" {
				text = `graph "path": ` + test.want + ": raise it with treadle.StepLimit"
			}
			check := func(out trail, err error) {
				t.Helper()
				if got := strings.Join(out.Log, " "); got != test.ran {
					t.Errorf("the trail is %q, want %q", got, test.ran)
				}
				if text == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				wantText(t, err, text)
				if e, ok := errors.AsType[*treadle.StepLimitError](err); !ok || e.Limit != test.limit || e.Graph != "path" {
					t.Errorf("%v is not a StepLimitError of limit %d", err, test.limit)
				}
			}
			check(ready(t, test.graph, &treadle.Options{StepLimit: test.limit}).Run(t.Context(), trail{}))
			check(ready(t, test.graph, nil).With(treadle.StepLimit(test.limit)).Run(t.Context(), trail{}))
			if test.name == "loop" {
				return
			}

			// On a thread, finished work is kept, and more steps finish the run.
			g := ready(t, test.graph, &treadle.Options{Saver: checkpoint.NewMemory()})
			check(g.Thread("1", treadle.StepLimit(test.limit)).Run(t.Context(), trail{}))
			var kept trail
			snap, err := g.Thread("1").State(t.Context())
			if err == nil {
				err = snap.Read(&kept)
			}
			if got := strings.Join(kept.Log, " "); err != nil || got != test.ran {
				t.Errorf("the thread kept %q, %v, want %q", got, err, test.ran)
			}
			out, err := g.Thread("1").Continue(t.Context())
			all := map[string]string{"one node": "a", "two nodes": "a b", "three nodes": "a b c"}[test.name]
			if got := strings.Join(out.Log, " "); err != nil || got != all {
				t.Errorf("continued, the trail is %q, %v, want %q", got, err, all)
			}
		})
	}
}

// A continuation has no input to count, so one more step than in a new run fits into the
// limit.
func TestStepLimitOfContinuation(t *testing.T) {
	b := trailOf("a", "b", "c", "d", "e")
	b.Edge(treadle.Start, "a")
	b.Sequence("a", "b", "c", "d", "e")
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	for _, test := range []struct {
		limit int
		want  string
		ends  bool
	}{{1, "a b c d", false}, {2, "a b c d e", false}, {3, "a b c d e", true}} {
		id := fmt.Sprint(test.limit)
		if _, err := g.Thread(id, treadle.StepLimit(1)).Run(t.Context(), trail{}); err == nil {
			t.Fatal("a limit of 1 is enough")
		}
		out, err := g.Thread(id, treadle.StepLimit(test.limit)).Continue(t.Context())
		if got := strings.Join(out.Log, " "); got != test.want {
			t.Errorf("with limit %d the trail is %q, want %q", test.limit, got, test.want)
		}
		if _, limited := errors.AsType[*treadle.StepLimitError](err); limited == test.ends {
			t.Errorf("with limit %d the error is %v", test.limit, err)
		}
	}
}

// Every turn of a thread has the whole limit.
func TestStepLimitIsPerRun(t *testing.T) {
	b := trailOf("a", "b")
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory(), StepLimit: 3}).Thread("1")
	for turn := range 4 {
		if _, err := thread.Run(t.Context(), trail{}); err != nil {
			t.Fatalf("turn %d: %v", turn, err)
		}
	}
}

// Quirk B12: a limit that equals the default counts, too, and the last one wins.
func TestLastStepLimitWins(t *testing.T) {
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("n%02d", i)
	}
	b := trailOf(names...)
	b.Edge(treadle.Start, names[0])
	b.Sequence(treadle.Nodes(names)...)
	g := ready(t, b, &treadle.Options{StepLimit: 5})
	if _, err := g.With(treadle.StepLimit(25)).Run(t.Context(), trail{}); err != nil {
		t.Errorf("a limit of 25 over one of 5: %v", err)
	}
	if _, err := g.With(treadle.StepLimit(25), treadle.StepLimit(3)).Run(t.Context(), trail{}); err == nil {
		t.Error("a limit of 3 after one of 25 does not count")
	}
	if _, err := g.Run(t.Context(), trail{}); err == nil {
		t.Error("With has changed the graph it was called on")
	}
}

// Without a limit a run takes 25 steps.
func TestDefaultStepLimit(t *testing.T) {
	b := trailOf("a")
	b.Edge(treadle.Start, "a")
	b.Edge("a", "a")
	out, err := ready(t, b, nil).Run(t.Context(), trail{})
	if e, ok := errors.AsType[*treadle.StepLimitError](err); !ok || e.Limit != 25 || len(out.Log) != 25 {
		t.Errorf("the run ended with %v after %d nodes, want the limit of 25", err, len(out.Log))
	}
}

func TestSettingsOutOfRange(t *testing.T) {
	b := trailOf("a")
	b.Edge(treadle.Start, "a")
	g := ready(t, b, nil)
	for _, test := range []struct {
		option treadle.RunOption
		want   string
	}{
		{treadle.StepLimit(0), `graph "path": invalid StepLimit 0: want 1 or more`},
		{treadle.StepLimit(-3), `graph "path": invalid StepLimit -3: want 1 or more`},
		{treadle.MaxConcurrency(-1), `graph "path": invalid MaxConcurrency -1: want 1 or more, or 0 for no limit`},
	} {
		out, err := g.With(test.option).Run(t.Context(), trail{N: 3})
		wantText(t, err, test.want)
		if out.Log != nil || out.N != 0 {
			t.Errorf("the run that could not start returned %+v", out)
		}
	}
}

// crowd returns a graph that sends n numbers to one node and records the maximum number of
// concurrent calls.
func crowd(n int, most *atomic.Int32) *treadle.Builder[trail] {
	var now atomic.Int32
	b := treadle.New[trail]("crowd")
	many := treadle.AddNode(b, "many", func(_ context.Context, i int) (trod, error) {
		at := now.Add(1)
		defer now.Add(-1)
		for {
			m := most.Load()
			if at <= m || most.CompareAndSwap(m, at) {
				break
			}
		}
		<-time.After(time.Second) // synctest's clock: all permitted calls have started
		return trod{reduce.List[string]{fmt.Sprint(i)}}, nil
	})
	treadle.AddBranch(b, treadle.Start, func(context.Context, trail) (treadle.Goto, error) {
		var to treadle.Goto
		for i := range n {
			to = append(to, treadle.Send(many, i)...)
		}
		return to, nil
	}, "many")
	return b
}

// Parity: 120. The bound holds exactly, and the order of results does not
// depend on it.
func TestMaxConcurrencyLimitsStep(t *testing.T) {
	for _, test := range []struct{ limit, want int }{{0, 100}, {10, 10}, {1, 1}, {1000, 100}} {
		synctest.Test(t, func(t *testing.T) {
			var most atomic.Int32
			g := ready(t, crowd(100, &most), nil)
			out, err := g.With(treadle.MaxConcurrency(test.limit)).Run(t.Context(), trail{})
			if err != nil {
				t.Fatal(err)
			}
			if got := int(most.Load()); got != test.want {
				t.Errorf("with a limit of %d, %d ran concurrently, want %d", test.limit, got, test.want)
			}
			for i, s := range out.Log {
				if s != fmt.Sprint(i) {
					t.Fatalf("result %d is %s", i, s)
				}
			}
			if len(out.Log) != 100 {
				t.Errorf("there are %d results", len(out.Log))
			}
		})
	}
}

// The bound may be part of the graph. It then applies to the graph as a subgraph too, and
// a run option replaces it.
func TestMaxConcurrencyOption(t *testing.T) {
	parent := func(t *testing.T, child *treadle.Graph[trail, trail]) *treadle.Graph[trail, trail] {
		b := treadle.New[trail]("parent")
		b.Edge(treadle.Start, treadle.AddGraph(b, "child", child))
		return ready(t, b, &treadle.Options{MaxConcurrency: 7})
	}
	same := func(_ *testing.T, g *treadle.Graph[trail, trail]) *treadle.Graph[trail, trail] { return g }
	for _, test := range []struct {
		name string
		opts *treadle.Options
		use  func(*testing.T, *treadle.Graph[trail, trail]) *treadle.Graph[trail, trail]
		run  []treadle.RunOption
		want int32
	}{
		{"graph", &treadle.Options{MaxConcurrency: 4}, same, nil, 4},
		{"run", &treadle.Options{MaxConcurrency: 4}, same, []treadle.RunOption{treadle.MaxConcurrency(9)}, 9},
		{"no limit", &treadle.Options{MaxConcurrency: 4}, same, []treadle.RunOption{treadle.MaxConcurrency(0)}, 20},
		{"subgraph", &treadle.Options{MaxConcurrency: 4}, parent, nil, 4},
		{"parent graph", nil, parent, nil, 7},
		{"run of the parent graph", nil, parent, []treadle.RunOption{treadle.MaxConcurrency(9)}, 9},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var most atomic.Int32
				g := test.use(t, ready(t, crowd(20, &most), test.opts))
				if _, err := g.With(test.run...).Run(t.Context(), trail{}); err != nil || most.Load() != test.want {
					t.Errorf("%d ran concurrently, %v, want %d", most.Load(), err, test.want)
				}
			})
		})
	}
}

// Parity: 66. A compiled graph has no state.
func TestOneGraphFromTenGoroutines(t *testing.T) {
	b := trailOf("b1", "b2", "c")
	treadle.AddNode(b, "a", func(_ context.Context, s trail) (trail2, error) {
		return trail2{Log: reduce.List[string]{fmt.Sprint("a", s.N)}, N: s.N * 2}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b1")
	b.Edge("a", "b2")
	b.Join([]any{"b1", "b2"}, "c")
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			for turn := range 20 {
				out, err := g.Run(t.Context(), trail{N: i + 1})
				want := fmt.Sprintf("a%d b1 b2 c", i+1)
				if got := strings.Join(out.Log, " "); err != nil || got != want || out.N != 2*(i+1) {
					t.Errorf("goroutine %d, turn %d: %q, %d, %v", i, turn, got, out.N, err)
				}
				out, err = g.Thread(fmt.Sprint("thread ", i)).Run(t.Context(), trail{N: i + 1})
				if err != nil || len(out.Log) != 4*(turn+1) {
					t.Errorf("thread %d, turn %d: %v, %v", i, turn, out.Log, err)
				}
			}
		})
	}
	wg.Wait()
}

// A failure has the node, the step and the cause; a panic also the place in the
// user's code and the stack.
func TestNodeErrorSaysWhere(t *testing.T) {
	cause := errors.New("no owls today")
	for _, test := range []struct {
		name  string
		node  func(context.Context, struct{}) (trod, error)
		want  string
		stack bool
	}{
		{"error", func(context.Context, struct{}) (trod, error) { return trod{reduce.List[string]{"lost"}}, cause },
			`graph "path": node "b" (step 2): no owls today`, false},
		{"panic", func(context.Context, struct{}) (trod, error) { panic(cause) },
			`graph "path": node "b" (step 2): panic: no owls today (treadle_test.TestNodeErrorSaysWhere.func2, run_test.go:N)`, true},
		{"panic of the runtime", func(context.Context, struct{}) (trod, error) {
			s := []int{}
			_ = s[len(s)]
			return trod{}, nil
		}, `graph "path": node "b" (step 2): panic: runtime error: index out of range [0] with length 0 (treadle_test.TestNodeErrorSaysWhere.func3, run_test.go:N)`, true},
	} {
		for _, parallel := range []bool{false, true} {
			b := trailOf("a", "c")
			treadle.AddNode(b, "b", test.node)
			b.Edge(treadle.Start, "a")
			b.Edge("a", "b")
			b.Edge("a", "c")
			if !parallel {
				b = trailOf("a")
				treadle.AddNode(b, "b", test.node)
				b.Edge(treadle.Start, "a")
				b.Edge("a", "b")
			}
			out, err := ready(t, b, nil).Run(t.Context(), trail{})
			wantText(t, err, test.want)
			failure, ok := errors.AsType[*treadle.NodeError](err)
			if !ok {
				t.Fatalf("%s: %T is not a NodeError", test.name, err)
			}
			if failure.Graph != "path" || failure.Node != "b" || failure.Path != "" || failure.Step != 2 || failure.Attempt != 1 {
				t.Errorf("%s: the failure is at %+v", test.name, failure)
			}
			if test.name != "panic of the runtime" && !errors.Is(err, cause) {
				t.Errorf("%s: the cause is hidden", test.name)
			}
			if got := strings.Contains(string(failure.Stack), "TestNodeErrorSaysWhere"); got != test.stack {
				t.Errorf("%s: the stack shows the node: %t, want %t:\n%s", test.name, got, test.stack, failure.Stack)
			}
			if got := strings.Join(out.Log, " "); got != "a" {
				t.Errorf("%s: the output so far is %q, want a", test.name, got)
			}
		}
	}
}

// A failing node cancels its siblings, and the run waits for them and returns the node's
// error, not the siblings' cancellation errors.
//
// Parity: 111.
func TestFailureCancelsSiblings(t *testing.T) {
	started, cleaned := make(chan struct{}), false
	var cause error
	b := treadle.New[trail]("siblings")
	treadle.AddNode(b, "a", func(ctx context.Context, _ struct{}) (trod, error) {
		close(started)
		<-ctx.Done()
		cause, cleaned = context.Cause(ctx), true
		return trod{}, ctx.Err()
	})
	boom := errors.New("boom")
	treadle.AddNode(b, "b", func(context.Context, struct{}) (trod, error) {
		<-started
		return trod{}, boom
	})
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b")
	_, err := ready(t, b, nil).Run(t.Context(), trail{})
	wantText(t, err, `graph "siblings": node "b" (step 1): boom`)
	if !cleaned {
		t.Error("the run ended before the canceled sibling did")
	}
	if !errors.Is(err, boom) || errors.Is(err, context.Canceled) {
		t.Errorf("the run's error is %v", err)
	}
	if cause == nil || cause.Error() != `canceled because "b" failed: context canceled` {
		t.Errorf("the sibling's cause is %v", cause)
	}
}

// After a failure, tasks that have not started do not start.
func TestFailurePreventsLaterStarts(t *testing.T) {
	var ran atomic.Int32
	b := treadle.New[trail]("rest")
	many := treadle.AddNode(b, "many", func(_ context.Context, i int) (trod, error) {
		ran.Add(1)
		return trod{}, fmt.Errorf("number %d", i)
	})
	treadle.AddBranch(b, treadle.Start, func(context.Context, trail) (treadle.Goto, error) {
		return slices.Concat(treadle.Send(many, 1), treadle.Send(many, 2), treadle.Send(many, 3)), nil
	}, "many")
	_, err := ready(t, b, nil).With(treadle.MaxConcurrency(1)).Run(t.Context(), trail{})
	wantText(t, err, `graph "rest": node "many" (step 1): number 1`)
	if ran.Load() != 1 {
		t.Errorf("%d tasks ran, want 1", ran.Load())
	}
}

// If several tasks fail, the first task's failure counts.
func TestFirstFailureByNameCounts(t *testing.T) {
	both := make(chan struct{})
	var n atomic.Int32
	b := treadle.New[trail]("failures")
	for _, name := range []string{"b", "a"} {
		treadle.AddNode(b, name, func(context.Context, struct{}) (trod, error) {
			if n.Add(1) == 2 {
				close(both)
			}
			<-both
			return trod{}, errors.New(name)
		})
		b.Edge(treadle.Start, name)
	}
	_, err := ready(t, b, nil).Run(t.Context(), trail{})
	wantText(t, err, `graph "failures": node "a" (step 1): a`)
}

// If a node cancels its own context and returns the error, that is a failure like any
// other.
func TestNodeCancellationIsFailure(t *testing.T) {
	b := treadle.New[trail]("own")
	treadle.AddNode(b, "a", func(ctx context.Context, _ struct{}) (trod, error) {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return trod{}, ctx.Err()
	})
	b.Edge(treadle.Start, "a")
	_, err := ready(t, b, nil).Run(t.Context(), trail{})
	wantText(t, err, `graph "own": node "a" (step 1): context canceled`)
}

// Work that finished before a cancellation is kept. The error contains the cause and is
// also a plain context error.
//
// Parity: 111.
func TestCancellationAroundStep(t *testing.T) {
	why := errors.New("the user left")
	build := func(cancel func(), heeds bool) *treadle.Builder[trail] {
		b := trailOf("a", "c")
		treadle.AddNode(b, "b", func(ctx context.Context, _ struct{}) (trod, error) {
			cancel()
			if heeds {
				return trod{}, ctx.Err()
			}
			return trod{reduce.List[string]{"b"}}, nil
		})
		b.Edge(treadle.Start, "a")
		b.Sequence("a", "b", "c")
		return b
	}
	for _, test := range []struct {
		name  string
		early bool // canceled before the run
		heeds bool // the node under way notices
		ran   string
		want  string
		next  []string
	}{
		{"before", true, false, "", `graph "path": canceled at step 0: the user left (context canceled)`, nil},
		{"during", false, true, "a", `graph "path": canceled at step 2: the user left (context canceled)`, []string{"b"}},
		{"after", false, false, "a b", `graph "path": canceled at step 3: the user left (context canceled)`, []string{"c"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			g := ready(t, build(func() { cancel(why) }, test.heeds), &treadle.Options{Saver: checkpoint.NewMemory()})
			if test.early {
				cancel(why)
			}
			out, err := g.Thread("1").Run(ctx, trail{})
			wantText(t, err, test.want)
			if !errors.Is(err, why) || !errors.Is(err, context.Canceled) {
				t.Errorf("%v is not both the cause and context.Canceled", err)
			}
			if got := strings.Join(out.Log, " "); got != test.ran {
				t.Errorf("the trail is %q, want %q", got, test.ran)
			}
			snap, err := g.Thread("1").State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.next, snap.Next); diff != "" {
				t.Errorf("next differs (-want +got):\n%s", diff)
			}
		})
	}
}

// A canceled run can be continued and does not repeat committed steps.
func TestCanceledThreadContinues(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := trailOf("a", "c")
	treadle.AddNode(b, "b", func(ctx context.Context, _ struct{}) (trod, error) {
		cancel() // of no effect in the second run
		return trod{reduce.List[string]{"b"}}, ctx.Err()
	})
	b.Edge(treadle.Start, "a")
	b.Sequence("a", "b", "c")
	thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("1")
	if _, err := thread.Run(ctx, trail{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("the run ended with %v", err)
	}
	out, err := thread.Continue(t.Context())
	if got := strings.Join(out.Log, " "); err != nil || got != "a b c" {
		t.Errorf("continued, the trail is %q, %v, want a b c", got, err)
	}
}

// A deadline is a cancellation too.
func TestCallerDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := treadle.New[trail]("slow")
		treadle.AddNode(b, "a", func(ctx context.Context, _ struct{}) (trod, error) {
			<-ctx.Done()
			return trod{}, ctx.Err()
		})
		b.Edge(treadle.Start, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := ready(t, b, nil).Run(ctx, trail{})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the run ended with %v", err)
		}
		if first, _, _ := strings.Cut(err.Error(), "\n"); first != `graph "slow": canceled at step 1: context deadline exceeded` {
			t.Errorf("the error starts with %q", first)
		}
	})
}

// A run that has finished when the cancellation arrives succeeds.
func TestCancellationInLastStepIsIgnored(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := treadle.New[trail]("last")
	treadle.AddNode(b, "a", func(context.Context, struct{}) (trod, error) {
		cancel()
		return trod{reduce.List[string]{"a"}}, nil
	})
	b.Edge(treadle.Start, "a")
	out, err := ready(t, b, nil).Run(ctx, trail{})
	if err != nil || len(out.Log) != 1 {
		t.Errorf("the run gives %v, %v", out.Log, err)
	}
}

// A node's context derives from the caller's, so it has the caller's values.
func TestNodeSeesCallerContextValues(t *testing.T) {
	type key struct{}
	b := treadle.New[trail]("values")
	for _, n := range []string{"a", "b"} {
		treadle.AddNode(b, n, func(ctx context.Context, _ struct{}) (trod, error) {
			return trod{reduce.List[string]{fmt.Sprint(n, ctx.Value(key{}))}}, nil
		})
		b.Edge(treadle.Start, n)
	}
	out, err := ready(t, b, nil).Run(context.WithValue(t.Context(), key{}, 7), trail{})
	if got := strings.Join(out.Log, " "); err != nil || got != "a7 b7" {
		t.Errorf("the trail is %q, %v", got, err)
	}
}

// With binds settings to a copy of the graph; later ones win, tags and metadata
// add up.
func TestWithReturnsCopy(t *testing.T) {
	var seen []treadle.Info
	b := treadle.New[trail]("bound")
	treadle.AddNode(b, "a", func(ctx context.Context, _ struct{}) (struct{}, error) {
		seen = append(seen, treadle.InfoFrom(ctx))
		return struct{}{}, nil
	}, treadle.Tags("node"), treadle.Metadata(map[string]any{"k": "node", "n": 1}))
	b.Edge(treadle.Start, "a")
	g := ready(t, b, nil)
	one := g.With(treadle.Tags("x"), treadle.Metadata(map[string]any{"k": "run", "r": 1}), treadle.RunID("run 1"))
	two := one.With(treadle.Tags("y"), treadle.Metadata(map[string]any{"r": 2}), treadle.RunID("run 2"))
	for _, g := range []*treadle.Graph[trail, trail]{g, one, two, one} {
		if _, err := g.Run(t.Context(), trail{}); err != nil {
			t.Fatal(err)
		}
	}
	type bound struct {
		RunID    string
		Tags     []string
		Metadata map[string]any
	}
	var got []bound
	for i, info := range seen {
		if i == 0 {
			if len(info.RunID) != 36 {
				t.Errorf("a run without a name has the ID %q, want a UUID", info.RunID)
			}
			info.RunID = "random"
		}
		got = append(got, bound{info.RunID, info.Tags, info.Metadata})
	}
	first := bound{"run 1", []string{"x", "node"}, map[string]any{"k": "node", "n": 1, "r": 1}}
	want := []bound{
		{"random", []string{"node"}, map[string]any{"k": "node", "n": 1}},
		first,
		{"run 2", []string{"x", "y", "node"}, map[string]any{"k": "node", "n": 1, "r": 2}},
		first,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the settings differ (-want +got):\n%s", diff)
	}
}

// A node can read information about its run. The remaining steps count down to the last
// step that can still succeed.
//
// Parity: 192, 196, 199.
func TestRunInfoDescribesTheTask(t *testing.T) {
	var seen []treadle.Info
	note := func(ctx context.Context, _ struct{}) (struct{}, error) {
		seen = append(seen, treadle.InfoFrom(ctx))
		return struct{}{}, nil
	}
	b := treadle.New[trail]("info")
	treadle.AddNode(b, "a", note, treadle.Retry())
	treadle.AddNode(b, "b", note, treadle.Retry())
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	saver := checkpoint.NewMemory()
	thread := ready(t, b, &treadle.Options{Saver: saver, StepLimit: 7}).Thread("essay-7", treadle.RunID("r"))
	deadline := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	if _, err := thread.Run(ctx, trail{}); err != nil {
		t.Fatal(err)
	}
	var from []string
	for snap, err := range thread.History(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		from = append(from, snap.ID.String())
	}
	for i, info := range seen {
		want := treadle.Info{Graph: "info", Node: []string{"a", "b"}[i], Thread: "essay-7", RunID: "r", Step: i + 1, RemainingSteps: 6 - i,
			Attempt: 1, CheckpointID: from[2-i], Deadline: deadline, TaskID: info.TaskID, IdempotencyKey: info.IdempotencyKey,
			FirstAttempt: info.FirstAttempt}
		if diff := cmp.Diff(want, info); diff != "" {
			t.Errorf("the info differs (-want +got):\n%s", diff)
		}
		if len(info.TaskID) != 36 || info.FirstAttempt.IsZero() {
			t.Errorf("the task has the ID %q and started at %v", info.TaskID, info.FirstAttempt)
		}
	}
	if len(seen) != 2 || seen[0].TaskID == seen[1].TaskID {
		t.Errorf("the tasks are %v", seen)
	}
	if got := treadle.InfoFrom(t.Context()); cmp.Diff(treadle.Info{}, got) != "" {
		t.Errorf("outside a run the info is %+v", got)
	}
}

// A loop ends itself when its steps run out.
//
// Parity: 199.
func TestRemainingStepsEndLoop(t *testing.T) {
	b := treadle.New[trail]("countdown")
	treadle.AddNode(b, "a", func(ctx context.Context, _ struct{}) (trod, error) {
		return trod{reduce.List[string]{fmt.Sprint(treadle.InfoFrom(ctx).RemainingSteps)}}, nil
	})
	b.Edge(treadle.Start, "a")
	treadle.AddBranch(b, "a", func(ctx context.Context, _ trail) (treadle.Goto, error) {
		if treadle.InfoFrom(ctx).RemainingSteps > 1 {
			return treadle.To("a"), nil
		}
		return treadle.To(treadle.End), nil
	}, "a", treadle.End)
	g := ready(t, b, nil)
	out, err := g.With(treadle.StepLimit(5)).Run(t.Context(), trail{})
	if got := strings.Join(out.Log, " "); err != nil || got != "4 3 2 1" {
		t.Errorf("the steps that remain are %q, %v, want 4 3 2 1", got, err)
	}
}

type caller struct {
	User string `json:"user"`
	Age  int    `json:"age"`
}

func (c caller) Validate() error {
	if c.Age < 0 {
		return errors.New("an age below zero")
	}
	return nil
}

// A run's context value reaches nodes and branches, is typed, and is checked
// before anything runs if the graph declares its type.
//
// Parity: 192, 194.
func TestContextReachesNodesAndBranches(t *testing.T) {
	type out struct{ Log reduce.List[string] }
	b := treadle.New[trail]("context")
	treadle.AddNode(b, "a", func(ctx context.Context, _ struct{}) (out, error) {
		c, ok := treadle.ContextFrom[caller](ctx)
		return out{reduce.List[string]{fmt.Sprintf("%s %d %t", c.User, c.Age, ok)}}, nil
	})
	treadle.AddNode(b, "b", func(ctx context.Context, _ struct{}) (out, error) {
		_, ok := treadle.ContextFrom[string](ctx)
		return out{reduce.List[string]{fmt.Sprintf("a string: %t", ok)}}, nil
	})
	b.Edge(treadle.Start, "a")
	treadle.AddBranch(b, "a", func(ctx context.Context, _ trail) (treadle.Goto, error) {
		if c, ok := treadle.ContextFrom[caller](ctx); ok && c.User == "ann" {
			return treadle.To("b"), nil
		}
		return treadle.To(treadle.End), nil
	}, "b", treadle.End)
	plain := ready(t, b, nil)
	treadle.ContextType[caller](b)
	typed := ready(t, b, nil)
	for _, test := range []struct {
		name   string
		graph  *treadle.Graph[trail, trail]
		option treadle.RunOption
		want   string
		err    string
	}{
		{"value", plain, treadle.Context(caller{"ann", 7}), "ann 7 true, a string: false", ""},
		{"none", plain, treadle.Tags(), " 0 false", ""},
		{"another type, not declared", plain, treadle.Context("ann"), " 0 false", ""},
		{"JSON, not declared", plain, treadle.Context(json.RawMessage(`{"user":"ann"}`)), "",
			`graph "context": context: JSON value without a declared type: use treadle.ContextType`},
		{"declared", typed, treadle.Context(caller{"ann", 7}), "ann 7 true, a string: false", ""},
		{"declared, none", typed, treadle.Tags(), " 0 false", ""},
		{"declared, another type", typed, treadle.Context(7), "",
			`graph "context": context: got int, want treadle_test.caller`},
		{"declared, JSON", typed, treadle.Context(json.RawMessage(`{"user":"bob","age":3}`)), "bob 3 true", ""},
		{"declared, invalid JSON", typed, treadle.Context(json.RawMessage(`{"age":"old"}`)), "",
			`graph "context": context: want treadle_test.caller: json: cannot unmarshal string into Go struct field caller.age of type int`},
		{"not valid", typed, treadle.Context(caller{"ann", -1}), "", `graph "context": invalid context: an age below zero`},
		{"not valid, JSON", typed, treadle.Context(json.RawMessage(`{"age":-1}`)), "", `graph "context": invalid context: an age below zero`},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := test.graph.With(test.option).Run(t.Context(), trail{})
			if test.err != "" {
				wantText(t, err, test.err)
			} else if err != nil {
				t.Error(err)
			}
			if got := strings.Join(out.Log, ", "); got != test.want {
				t.Errorf("the nodes saw %q, want %q", got, test.want)
			}
		})
	}
	if _, ok := treadle.ContextFrom[caller](t.Context()); ok {
		t.Error("there is a value outside a run")
	}
}

// Parity: 5.
func TestContextSchema(t *testing.T) {
	b := trailOf("a")
	b.Edge(treadle.Start, "a")
	schemas, err := ready(t, b, nil).Schemas()
	if err != nil || schemas.Context != nil {
		t.Errorf("without a declared type the schema is %v, %v", schemas.Context, err)
	}
	treadle.ContextType[caller](b)
	schemas, err = ready(t, b, nil).Schemas()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"object","properties":{"user":{"type":"string"},"age":{"type":"integer"}},"required":["user","age"],"additionalProperties":false}`
	if got := asJSON(t, schemas.Context); got != want {
		t.Errorf("the schema is %s, want %s", got, want)
	}
}

// globalGraph is compiled before the flags of go test are defined.
var globalGraph = func() *treadle.Graph[trail, trail] {
	b := treadle.New[trail]("global")
	treadle.AddNode(b, "change", func(_ context.Context, s trail) (treadle.Goto, error) {
		s.Log[0] = "changed"
		return nil, nil
	})
	b.Edge(treadle.Start, "change")
	return treadle.Must(b.Compile(nil))
}()

func TestGlobalGraphIsChecked(t *testing.T) {
	_, err := globalGraph.Run(t.Context(), trail{Log: reduce.List[string]{"given"}})
	if _, ok := errors.AsType[*treadle.MutationError](err); !ok {
		t.Errorf("a node that changes its input: %v, want a MutationError", err)
	}
}

// RunAll keeps the order, runs every input, and names the inputs that failed.
func TestRunAllRejectsNilGraphAndContext(t *testing.T) {
	var none context.Context
	var g *treadle.Graph[string, string]
	if _, err := g.RunAll(t.Context(), []string{"a"}); err == nil {
		t.Error("a nil graph ran")
	}
	if _, err := g.RunAll(none, nil); err == nil {
		t.Error("a nil context was accepted")
	}
}

func TestRunAllKeepsOrderAndJoinsErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		odd := errors.New("odd")
		var now, most atomic.Int32
		b := treadle.New[trail]("all")
		treadle.AddNode(b, "a", func(_ context.Context, s struct{ N int }) (struct{ N int }, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			<-time.After(time.Duration(10-s.N) * time.Second) // the first ends last
			if s.N%2 == 1 {
				return struct{ N int }{}, odd
			}
			return struct{ N int }{s.N * 10}, nil
		})
		b.Edge(treadle.Start, "a")
		g := ready(t, b, nil)
		outs, err := g.RunAll(t.Context(), []trail{{N: 2}, {N: 3}, {N: 4}, {N: 5}})
		wantText(t, err, "input 1: graph \"all\": node \"a\" (step 1): odd\ninput 3: graph \"all\": node \"a\" (step 1): odd")
		if !errors.Is(err, odd) {
			t.Error("the cause is hidden")
		}
		var got []int
		for _, o := range outs {
			got = append(got, o.N)
		}
		if want := []int{20, 3, 40, 5}; !slices.Equal(got, want) {
			t.Errorf("the outputs are %v, want %v", got, want)
		}
		most.Store(0)
		outs, err = g.With(treadle.MaxConcurrency(2)).RunAll(t.Context(), make([]trail, 6))
		if err != nil || len(outs) != 6 || most.Load() != 2 {
			t.Errorf("%d outputs, %v, %d concurrent, want 6 and 2", len(outs), err, most.Load())
		}
		outs, err = g.RunAll(t.Context(), nil)
		if err != nil || len(outs) != 0 {
			t.Errorf("without inputs: %v, %v", outs, err)
		}
	})
}

type bookshop struct {
	Books  []string         `json:"books"`
	Prices map[string]int   `json:"prices"`
	Log    reduce.List[int] `json:"log"`
	N      int
}

// A node must not modify its input, because other nodes share it. Under go test, the run
// fails; appending to an input is safe, because it copies.
func TestCheckDetectsModifiedInput(t *testing.T) {
	for _, test := range []struct {
		name  string
		node  func(bookshop)
		field string
	}{
		{"slice", func(s bookshop) { s.Books[0] = "gone" }, "Books"},
		{"map", func(s bookshop) { s.Prices["owls"] = 0 }, "Prices"},
		{"new key", func(s bookshop) { s.Prices["cats"] = 0 }, "Prices"},
		{"list", func(s bookshop) { s.Log[0] = 9 }, "Log"},
		{"append", func(s bookshop) { _ = append(s.Books, "more") }, ""},
		{"append to a list", func(s bookshop) { _ = append(s.Log, 9) }, ""},
		{"its own copy", func(s bookshop) { s.N = 5; s.Books = nil }, ""}, //nolint:govet // the copy is intentionally unused
	} {
		build := func() *treadle.Builder[bookshop] {
			b := treadle.New[bookshop]("check")
			treadle.AddNode(b, "first", func(context.Context, struct{}) (struct{ Log reduce.List[int] }, error) {
				return struct{ Log reduce.List[int] }{reduce.List[int]{1}}, nil
			})
			treadle.AddNode(b, "a", func(_ context.Context, s bookshop) (struct{}, error) {
				test.node(s)
				return struct{}{}, nil
			})
			b.Edge(treadle.Start, "first")
			b.Edge("first", "a")
			return b
		}
		in := func() bookshop { return bookshop{Books: []string{"owls"}, Prices: map[string]int{"owls": 3}} }
		for _, check := range []*bool{nil, new(true), new(false)} {
			t.Run(fmt.Sprintf("%s, check %d", test.name, check), func(t *testing.T) {
				_, err := ready(t, build(), &treadle.Options{Check: check}).Run(t.Context(), in())
				if test.field == "" || check != nil && !*check {
					if err != nil {
						t.Error(err)
					}
					return
				}
				wantText(t, err, `graph "check": node "a" (step 2): modified its input field `+test.field+
					`, which other nodes and old checkpoints share: copy it and return the copy`)
				if e, ok := errors.AsType[*treadle.MutationError](err); !ok || e.Node != "a" || e.Field != test.field {
					t.Errorf("%v is not a MutationError of %s", err, test.field)
				}
			})
		}
	}
}

// Two nodes that append to the same input slice do not share its memory.
func TestSiblingsAppendToSharedInput(t *testing.T) {
	b := treadle.New[bookshop]("append")
	var got sync.Map
	for _, n := range []string{"a", "b"} {
		treadle.AddNode(b, n, func(_ context.Context, s bookshop) (struct{}, error) {
			got.Store(n, append(s.Books, n))
			return struct{}{}, nil
		})
		b.Edge(treadle.Start, n)
	}
	books := make([]string, 1, 10)
	books[0] = "owls"
	if _, err := ready(t, b, nil).Run(t.Context(), bookshop{Books: books}); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"a", "b"} {
		if v, _ := got.Load(n); !slices.Equal(v.([]string), []string{"owls", n}) {
			t.Errorf("node %s has %v", n, v)
		}
	}
}

// A whole graph may run as part of a node, over a list of inputs.
//
// Parity: 22.
func TestGraphCalledInNode(t *testing.T) {
	inner := treadle.New[trail]("inner")
	treadle.AddNode(inner, "double", func(_ context.Context, s struct{ N int }) (struct{ N int }, error) {
		return struct{ N int }{s.N * 2}, nil
	})
	inner.Edge(treadle.Start, "double")
	small := ready(t, inner, nil)
	type numbers struct {
		In  []int
		Out []int
	}
	b := treadle.New[numbers]("outer")
	treadle.AddNode(b, "each", func(ctx context.Context, s struct{ In []int }) (struct{ Out []int }, error) {
		var out []int
		for _, n := range s.In {
			o, err := small.Run(ctx, trail{N: n})
			if err != nil {
				return struct{ Out []int }{}, err
			}
			out = append(out, o.N)
		}
		return struct{ Out []int }{out}, nil
	})
	b.Edge(treadle.Start, "each")
	out, err := ready(t, b, nil).Run(t.Context(), numbers{In: []int{1, 2, 3}})
	if err != nil || !slices.Equal(out.Out, []int{2, 4, 6}) {
		t.Errorf("the output is %v, %v", out.Out, err)
	}
}

// Without a saver, threads are unavailable, and the error names the remedy.
func TestThreadRequiresSaverAndID(t *testing.T) {
	b := trailOf("a")
	b.Edge(treadle.Start, "a")
	_, err := ready(t, b, nil).Thread("1").Run(t.Context(), trail{})
	wantText(t, err, `graph "path": thread "1": treadle: graph has no saver: set Options.Saver`)
	if !errors.Is(err, treadle.ErrNoSaver) {
		t.Error("it is not ErrNoSaver")
	}
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	_, err = g.Thread("").Run(t.Context(), trail{})
	if !errors.Is(err, treadle.ErrNoThread) {
		t.Error("it is not ErrNoThread")
	}
	_, err = g.Thread("new").Continue(t.Context())
	wantText(t, err, `graph "path": treadle: nothing to continue: thread has no checkpoint: run it with an input first`)
	if !errors.Is(err, treadle.ErrNothingToContinue) {
		t.Error("it is not ErrNothingToContinue")
	}
	snap, err := g.Thread("new").State(t.Context())
	if err != nil || !snap.ID.IsZero() || snap.Thread != "new" || snap.Has("log") {
		t.Errorf("the state of a new thread is %+v, %v", snap, err)
	}
	out := trail{N: 5}
	if err := snap.Read(&out); err != nil || out.N != 0 {
		t.Errorf("reading it gives %+v, %v, want the zero state", out, err)
	}
}
