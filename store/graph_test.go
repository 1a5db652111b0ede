package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/store"
)

type visit struct{ Place string }

// note stores the place of its call.
func note(ctx context.Context, place string) error {
	return treadle.StoreFrom(ctx).Put(ctx, store.Namespace{"seen", treadle.InfoFrom(ctx).Thread}, place, map[string]any{}, nil)
}

// The store is available everywhere in a run: in a node, a branch, a task, a
// subgraph (whose own store is not used), and the functions that they call.
//
// Parity: 49.
func TestStoreIsAvailableAtAnyDepth(t *testing.T) {
	own := treadle.Must(store.NewMemory(nil))
	task := treadle.NewTask("task", func(ctx context.Context, _ string) (string, error) { return "", note(ctx, "task") })
	inner := treadle.New[visit]("inner")
	treadle.AddNode(inner, "node", func(ctx context.Context, v visit) (visit, error) { return v, note(ctx, "nested") })
	inner.Edge(treadle.Start, "node")
	nested := treadle.Must(inner.Compile(&treadle.Options{Store: own}))

	b := treadle.New[visit]("outer")
	treadle.AddNode(b, "node", func(ctx context.Context, v visit) (visit, error) {
		_, err := task.Go(ctx, "").Wait()
		_, runErr := nested.Run(ctx, v) // nested by a call
		return v, errors.Join(err, runErr, note(ctx, "node"))
	})
	treadle.AddGraph(b, "graph", nested)
	b.Edge(treadle.Start, "node")
	treadle.AddBranch(b, "node", func(ctx context.Context, _ visit) (treadle.Goto, error) {
		return treadle.To("graph"), note(ctx, "branch")
	}, "graph")
	s := treadle.Must(store.NewMemory(nil))
	g := treadle.Must(b.Compile(&treadle.Options{Store: s, Saver: checkpoint.NewMemory()}))

	var runs sync.WaitGroup
	const threads = 20
	for i := range threads {
		runs.Go(func() {
			if _, err := g.Thread(fmt.Sprint(i)).Run(t.Context(), visit{"x"}); err != nil {
				t.Error(err)
			}
		})
	}
	runs.Wait()
	for i := range threads {
		items, err := s.Search(t.Context(), store.Namespace{"seen", fmt.Sprint(i)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, item := range items {
			seen[item.Key] = true
		}
		if diff := cmp.Diff(map[string]bool{"node": true, "task": true, "branch": true, "nested": true}, seen); diff != "" {
			t.Errorf("thread %d (-want +got):\n%s", i, diff)
		}
	}
	if namespaces, err := own.Namespaces(t.Context(), nil); len(namespaces) != 0 || err != nil {
		t.Errorf("namespaces in the subgraph's own store: %v, %v", namespaces, err)
	}
	// Run by itself, the subgraph uses its own store.
	if _, err := nested.Run(t.Context(), visit{"x"}); err == nil {
		t.Error("run without a thread succeeded, but the namespace has an empty segment")
	}
}

func TestGraphWithoutStoreReportsIt(t *testing.T) {
	b := treadle.New[visit]("none")
	treadle.AddNode(b, "node", func(ctx context.Context, v visit) (visit, error) { return v, note(ctx, "node") })
	b.Edge(treadle.Start, "node")
	_, err := treadle.Must(b.Compile(nil)).Run(t.Context(), visit{"x"})
	if !errors.Is(err, store.ErrNoStore) {
		t.Errorf("got error %v", err)
	}
	s := treadle.StoreFrom(t.Context())
	for name, call := range map[string]func() error{
		"history": func() error { _, err := s.History(t.Context(), store.Namespace{"a"}, "k"); return err },
		"sweep":   func() error { _, err := s.Sweep(t.Context()); return err },
		"reindex": func() error { _, err := s.Reindex(t.Context()); return err },
		"as of":   func() error { _, err := s.AsOf(testTime).Search(t.Context(), nil, nil); return err },
		"watch": func() error {
			for _, err := range s.Watch(t.Context(), nil, 0) {
				return err
			}
			return nil
		},
	} {
		if err := call(); !errors.Is(err, store.ErrNoStore) {
			t.Errorf("%s outside a graph: %v", name, err)
		}
	}
}
