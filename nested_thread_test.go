package treadle_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
)

type nestedState struct {
	N   int
	Log reduce.List[string]
}

type nestedLog struct{ Log reduce.List[string] }

// flaky returns a graph of two nodes; the second fails the first time.
func flaky(t *testing.T) *treadle.Graph[nestedState, nestedState] {
	t.Helper()
	failed := false
	b := treadle.New[nestedState]("child")
	treadle.AddNode(b, "one", func(context.Context, nestedState) (nestedLog, error) {
		return nestedLog{reduce.List[string]{"one"}}, nil
	})
	treadle.AddNode(b, "two", func(context.Context, nestedState) (nestedLog, error) {
		if !failed {
			failed = true
			return nestedLog{}, errOnce
		}
		return nestedLog{reduce.List[string]{"two"}}, nil
	})
	b.Edge(treadle.Start, "one")
	b.Edge("one", "two")
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var errOnce = errors.New("only once")

// around returns a graph with a saver whose only node is g.
func around(t *testing.T, g *treadle.Graph[nestedState, nestedState], opts ...treadle.NodeOption) *treadle.Graph[nestedState, nestedState] {
	t.Helper()
	b := treadle.New[nestedState]("parent")
	treadle.AddGraph(b, "child", g, opts...)
	b.Edge(treadle.Start, "child")
	out, err := b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The second attempt stores its checkpoints where the first one did.
func TestThreadContinuesAfterSubgraphFailure(t *testing.T) {
	thread := around(t, flaky(t)).Thread("t")
	if _, err := thread.Run(t.Context(), nestedState{N: 1}); !errors.Is(err, errOnce) {
		t.Fatalf("the first run: %v, want %v", err, errOnce)
	}
	out, err := thread.Continue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(nestedState{N: 1, Log: reduce.List[string]{"one", "two"}}, out); diff != "" {
		t.Error(diff)
	}
}

func TestNestedGraphIsRetriedOnThread(t *testing.T) {
	retry := treadle.Retry(treadle.RetryPolicy{Initial: 1, NoJitter: true, On: func(err error) bool { return errors.Is(err, errOnce) }})
	out, err := around(t, flaky(t), retry).Thread("t").Run(t.Context(), nestedState{N: 1})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(nestedState{N: 1, Log: reduce.List[string]{"one", "two"}}, out); diff != "" {
		t.Error(diff)
	}
}

func TestSubgraphCacheKeyIsInheritedState(t *testing.T) {
	calls := 0
	b := treadle.New[nestedState]("child")
	treadle.AddNode(b, "ten", func(_ context.Context, s nestedState) (struct{ N int }, error) {
		calls++
		return struct{ N int }{10 * s.N}, nil
	})
	b.Edge(treadle.Start, "ten")
	child, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	g := around(t, child, treadle.Cache(0))
	for _, n := range []int{1, 2, 1} {
		out, err := g.Run(t.Context(), nestedState{N: n})
		if err != nil || out.N != 10*n {
			t.Errorf("of %d the result is %d, %v; want %d", n, out.N, err, 10*n)
		}
	}
	if calls != 2 {
		t.Errorf("the graph ran %d times, want twice: the third input is a repetition", calls)
	}
}

func TestSubgraphHandlerGetsInheritedState(t *testing.T) {
	var given nestedState
	g := around(t, flaky(t), treadle.OnError(func(_ context.Context, in nestedState, failure *treadle.NodeError) (nestedLog, error) {
		given = in
		return nestedLog{reduce.List[string]{"handled " + failure.Node}}, nil
	}))
	out, err := g.Run(t.Context(), nestedState{N: 7})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(nestedState{N: 7}, given); diff != "" {
		t.Errorf("the handler's input: %s", diff)
	}
	if diff := cmp.Diff(nestedState{N: 7, Log: reduce.List[string]{"handled child"}}, out); diff != "" {
		t.Error(diff)
	}
}
