package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/reduce"
	"github.com/treadle-go/treadle/store"
)

// lesson is the state of graphs that learn a fact and list the known facts.
type lesson struct {
	Fact  string
	Known string
	Asked string
	Parts reduce.List[string]
}

var facts = store.Namespace{"facts"}

// known returns the facts in a store, in order.
func known(ctx context.Context, s *store.Store) (string, error) {
	items, err := s.Search(ctx, facts, &store.SearchOptions{Limit: 100})
	var keys []string
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	slices.Sort(keys)
	return strings.Join(keys, " "), err
}

func learnFact(ctx context.Context, fact string) (string, error) {
	s := treadle.StoreFrom(ctx)
	if err := s.Put(ctx, facts, fact, map[string]any{"fact": fact}, nil); err != nil {
		return "", err
	}
	return known(ctx, s)
}

// learner returns a graph that learns in one node.
func learner(t *testing.T, s *store.Store) *treadle.Graph[lesson, lesson] {
	t.Helper()
	b := treadle.New[lesson]("learner")
	treadle.AddNode(b, "learn", func(ctx context.Context, l lesson) (struct{ Known string }, error) {
		all, err := learnFact(ctx, l.Fact)
		return struct{ Known string }{all}, err
	})
	b.Edge(treadle.Start, "learn")
	return treadle.Must(b.Compile(&treadle.Options{Store: s, Saver: checkpoint.NewMemory()}))
}

func branching(t *testing.T) *store.Store {
	t.Helper()
	return treadle.Must(store.NewMemory(&store.Options{Branches: true, Embedder: store.NewHashEmbedder(32)}))
}

// learns runs a thread and checks the facts known afterward.
func learns(t *testing.T, thread *treadle.Thread[lesson, lesson], fact, want string) {
	t.Helper()
	out, err := thread.Run(t.Context(), lesson{Fact: fact})
	if err != nil || out.Known != want {
		t.Fatalf("known facts after learning %s: %q, %v, want %q", fact, out.Known, err, want)
	}
}

// knows checks the facts in a store.
func knows(t *testing.T, s *store.Store, want string) {
	t.Helper()
	if got, err := known(t.Context(), s); err != nil || got != want {
		t.Fatalf("known facts: %q, %v, want %q", got, err, want)
	}
}

// head returns the head of a thread.
func head(t *testing.T, thread *treadle.Thread[lesson, lesson]) *treadle.Snapshot {
	t.Helper()
	snap, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// branchOf returns the store of the thread's branch.
func branchOf(t *testing.T, s *store.Store, thread *treadle.Thread[lesson, lesson]) *store.Store {
	t.Helper()
	at, _ := head(t, thread).Metadata["__memory__"].(map[string]any)
	name, _ := at["branch"].(string)
	b, err := s.Branch(t.Context(), name)
	if err != nil {
		t.Fatalf("branch of the thread with metadata %v: %v", at, err)
	}
	return b
}

func TestForkReadsStoreAsOfCheckpoint(t *testing.T) {
	for name, end := range map[string]struct {
		end  func(*store.Store) error
		then string
	}{
		"merge":   {func(b *store.Store) error { return b.Merge(t.Context(), nil) }, "a b c d x y z"},
		"discard": {func(b *store.Store) error { return b.Discard(t.Context()) }, "a b c d z"},
	} {
		t.Run(name, func(t *testing.T) {
			s := branching(t)
			g := learner(t, s)
			thread := g.Thread("1")
			learns(t, thread, "a", "a")
			first := head(t, thread)
			learns(t, thread, "b", "a b")
			learns(t, g.Thread("2"), "c", "a b c")
			learns(t, thread.At(first.ID), "x", "a x")
			learns(t, g.Thread("2"), "d", "a b c d")
			learns(t, thread, "y", "a x y") // stays in the branch
			knows(t, s, "a b c d")

			b := branchOf(t, s, thread)
			if i := b.BranchInfo(); i.Thread != "1" || i.Checkpoint != first.ID.String() || i.Run == "" || i.Of != "" {
				t.Errorf("got branch %+v", i)
			}
			// A child branch, and a sibling.
			inBranch := head(t, thread)
			learns(t, thread.At(first.ID), "p", "a p")
			learns(t, thread.At(inBranch.ID), "q", "a q x y")
			if i := branchOf(t, s, thread).BranchInfo(); i.Of != b.BranchInfo().Name {
				t.Errorf("got child branch %+v", i)
			}
			if err := branchOf(t, s, thread).Discard(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := end.end(b); err != nil {
				t.Fatal(err)
			}
			learns(t, thread, "z", end.then) // the thread continues in the trunk
		})
	}
}

func TestForkWritesEverywhereToItsBranch(t *testing.T) {
	s := branching(t)
	inner := treadle.New[lesson]("inner")
	treadle.AddNode(inner, "deep", func(ctx context.Context, l lesson) (struct{ Known string }, error) {
		all, err := learnFact(ctx, l.Fact+"-deep")
		return struct{ Known string }{all}, err
	})
	inner.Edge(treadle.Start, "deep")
	task := treadle.NewTask("task", func(ctx context.Context, fact string) (string, error) { return learnFact(ctx, fact) })
	b := treadle.New[lesson]("outer")
	treadle.AddNode(b, "split", func(ctx context.Context, l lesson) (treadle.Goto, error) {
		if _, err := task.Go(ctx, l.Fact+"-task").Wait(); err != nil {
			return nil, err
		}
		var to treadle.Goto
		for i := range 8 {
			to = append(to, treadle.Send("part", lesson{Fact: fmt.Sprint(l.Fact, "-part", i)})...)
		}
		return to, nil
	}, treadle.Destinations("part"))
	treadle.AddNode(b, "part", func(ctx context.Context, l lesson) (struct{ Parts reduce.List[string] }, error) {
		_, err := learnFact(ctx, l.Fact)
		return struct{ Parts reduce.List[string] }{reduce.List[string]{l.Fact}}, err
	})
	treadle.AddGraph(b, "inner", treadle.Must(inner.Compile(nil)))
	treadle.AddNode(b, "ask", func(ctx context.Context, l lesson) (struct{ Asked string }, error) {
		answer, err := treadle.Interrupt[string](ctx, "more?")
		if err != nil {
			return struct{ Asked string }{}, err
		}
		_, err = learnFact(ctx, l.Fact+"-"+answer)
		return struct{ Asked string }{answer}, err
	})
	b.Sequence(treadle.Start, "split")
	b.Sequence("part", "inner", "ask")
	g := treadle.Must(b.Compile(&treadle.Options{Store: s, Saver: checkpoint.NewMemory()}))
	thread := g.Thread("1")
	whole := func(th *treadle.Thread[lesson, lesson], fact string) {
		t.Helper()
		_, err := th.Run(t.Context(), lesson{Fact: fact})
		if _, asked := errors.AsType[*treadle.InterruptError](err); !asked {
			t.Fatal(err)
		}
		if _, err := thread.Resume(t.Context(), "yes"); err != nil {
			t.Fatal(err)
		}
	}
	const parts = "f-part0 f-part1 f-part2 f-part3 f-part4 f-part5 f-part6 f-part7"
	whole(thread, "a")
	knowsA := strings.ReplaceAll("f-deep "+parts+" f-task f-yes", "f-", "a-")
	knows(t, s, knowsA)
	first := head(t, thread)
	whole(thread, "b")
	whole(thread.At(first.ID), "x")
	knows(t, s, knowsA+" "+strings.ReplaceAll(knowsA, "a-", "b-"))
	branch := branchOf(t, s, thread)
	knows(t, branch, knowsA+" "+strings.ReplaceAll(knowsA, "a-", "x-"))
	diff, err := s.Diff(t.Context(), branch)
	if err != nil || len(diff) != 22 {
		t.Errorf("got %d differences, %v", len(diff), err)
	}
}

func TestSubgraphForkReadsStoreAsOfCheckpoint(t *testing.T) {
	s := branching(t)
	learn := func(what string, asks bool) func(context.Context, lesson) (struct{ Known string }, error) {
		return func(ctx context.Context, l lesson) (out struct{ Known string }, err error) {
			if asks {
				if _, err := treadle.Interrupt[string](ctx, "now?"); err != nil {
					return out, err
				}
			}
			out.Known, err = learnFact(ctx, what)
			return out, err
		}
	}
	inner := treadle.New[lesson]("inner")
	treadle.AddNode(inner, "one", learn("1", false))
	treadle.AddNode(inner, "two", learn("2", true))
	inner.Sequence(treadle.Start, "one", "two")
	b := treadle.New[lesson]("outer")
	treadle.AddGraph(b, "inner", treadle.Must(inner.Compile(nil)))
	treadle.AddNode(b, "end", learn("3", false))
	b.Sequence(treadle.Start, "inner", "end")
	thread := treadle.Must(b.Compile(&treadle.Options{Store: s, Saver: checkpoint.NewMemory()})).Thread("1")
	pauses := func(_ lesson, err error) {
		t.Helper()
		if _, asked := errors.AsType[*treadle.InterruptError](err); !asked {
			t.Fatal(err)
		}
	}
	pauses(thread.Run(t.Context(), lesson{}))
	graph := head(t, thread).Tasks[0].Graph
	if _, err := thread.Resume(t.Context(), "yes"); err != nil {
		t.Fatal(err)
	}
	knows(t, s, "1 2 3")
	nested, err := thread.Nested(graph.Namespace...)
	if err != nil {
		t.Fatal(err)
	}
	pauses(nested.At(graph.ID).Continue(t.Context()))
	branch := branchOf(t, s, thread)
	knows(t, branch, "1")
	if err := s.Forget(t.Context(), facts, "1"); err != nil {
		t.Fatal(err)
	}
	out, err := thread.Resume(t.Context(), "yes")
	if err != nil || out.Known != "2 3" {
		t.Errorf("facts known to the fork: %q, %v", out.Known, err)
	}
}

func TestEditOfOlderCheckpointCreatesBranch(t *testing.T) {
	s := branching(t)
	g := learner(t, s)
	thread := g.Thread("1")
	learns(t, thread, "a", "a")
	first := head(t, thread)
	learns(t, thread, "b", "a b")
	if _, err := thread.At(first.ID).Update(t.Context(), struct{ Fact string }{"edited"}); err != nil {
		t.Fatal(err)
	}
	learns(t, thread, "x", "a x")
	if _, err := thread.At(first.ID).Update(t.Context(), nil, treadle.AsNode(treadle.CopyNode)); err != nil {
		t.Fatal(err)
	}
	learns(t, thread, "y", "a y")
	// Editing the head stays in the head's branch.
	if _, err := thread.Update(t.Context(), struct{ Fact string }{"edited"}); err != nil {
		t.Fatal(err)
	}
	learns(t, thread, "z", "a y z")
	knows(t, s, "a b")
	all, err := s.Branches(t.Context())
	if err != nil || len(all) != 2 {
		t.Errorf("got branches %+v, %v", all, err)
	}
}

func TestForkWithoutStoreVersionIsRejected(t *testing.T) {
	backend, saver := store.NewMemoryBackend(), checkpoint.NewMemory()
	b := treadle.New[lesson]("learner")
	treadle.AddNode(b, "learn", func(ctx context.Context, l lesson) (struct{ Known string }, error) {
		all, err := learnFact(ctx, l.Fact)
		return struct{ Known string }{all}, err
	})
	b.Edge(treadle.Start, "learn")
	compiled := func(branches bool) *treadle.Graph[lesson, lesson] {
		s := treadle.Must(store.New(backend, &store.Options{Branches: branches}))
		return treadle.Must(b.Compile(&treadle.Options{Store: s, Saver: saver}))
	}
	before := compiled(false).Thread("1")
	learns(t, before, "a", "a")
	first := head(t, before)
	if first.Metadata["__memory__"] != nil {
		t.Errorf("metadata without Branches: %v", first.Metadata)
	}
	learns(t, before, "b", "a b")
	learns(t, before.At(first.ID), "c", "a b c") // reads the current store
	after := compiled(true).Thread("1")
	_, err := after.At(first.ID).Run(t.Context(), lesson{Fact: "x"})
	if err == nil || !strings.Contains(err.Error(), "does not record the store version") {
		t.Errorf("fork from a checkpoint without a version: %v", err)
	}
	learns(t, after, "d", "a b c d")
}

// callCounter counts the calls of a backend.
type callCounter struct {
	store.Backend
	do, changes, history atomic.Int64
}

func (c *callCounter) Do(ctx context.Context, b *store.Batch) (*store.Results, error) {
	c.do.Add(1)
	return c.Backend.Do(ctx, b)
}

func (c *callCounter) Changes(ctx context.Context, prefix store.Namespace, after int64, limit int) ([]*store.Record, int64, error) {
	c.changes.Add(1)
	return c.Backend.Changes(ctx, prefix, after, limit)
}

func (c *callCounter) History(ctx context.Context, n store.Namespace, key string) ([]*store.Record, error) {
	c.history.Add(1)
	return c.Backend.History(ctx, n, key)
}

// A thread that does not fork calls the backend as often as its nodes do. With
// Branches, each checkpoint only adds a read of the version.
func TestUnforkedThreadDoesNotPayForBranches(t *testing.T) {
	for _, on := range []bool{false, true} {
		c := &callCounter{Backend: store.NewMemoryBackend()}
		g := learner(t, treadle.Must(store.New(c, &store.Options{Branches: on})))
		thread := g.Thread("1")
		const turns = 5
		for i := range turns {
			if _, err := thread.Run(t.Context(), lesson{Fact: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		checkpoints := 0
		for _, err := range thread.History(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			checkpoints++
		}
		versions := 0
		if on {
			versions = checkpoints
		}
		if do, changes, history := c.do.Load(), c.changes.Load(), c.history.Load(); do != 2*turns || changes != int64(versions) || history != 0 {
			t.Errorf("Branches %v: %d turns of a put and a search: %d Do, %d Changes, and %d History calls, want %d, %d, and 0", on, turns, do, changes, history, 2*turns, versions)
		}
	}
}
