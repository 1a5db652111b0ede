package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/store"
)

// When the history no longer reaches back to a branch's base, reads of the
// branch fail instead of returning other items. Other items can still be read.
func TestBranchReportsMissingHistory(t *testing.T) {
	s := treadle.Must(store.NewMemory(&store.Options{History: 3}))
	ctx, n := t.Context(), store.Namespace{"n"}
	put := func(s *store.Store, key string, v int) {
		t.Helper()
		if err := s.Put(ctx, n, key, map[string]any{"v": v}, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(s, "k", 0)
	put(s, "other", 0)
	branch := treadle.Must(s.Fork(ctx, store.Latest, store.BranchInfo{}))
	for v := range 3 {
		put(s, "k", 1+v)
	}
	_, getErr := branch.Get(ctx, n, "k", nil)
	_, searchErr := branch.Search(ctx, n, nil)
	for _, err := range []error{getErr, searchErr} {
		if e, ok := errors.AsType[*store.GoneError](err); !ok || e.Key != "k" {
			t.Errorf("got error %v, want a GoneError for key k", err)
		}
	}
	if _, err := branch.Get(ctx, n, "other", nil); err != nil {
		t.Error(err)
	}
	// The branch's own writes are still readable, and a merge reports a
	// conflict.
	put(branch, "k", 9)
	if item, err := branch.Get(ctx, n, "k", nil); err != nil || string(item.Value) != `{"v":9}` {
		t.Errorf("got item %v, %v from the branch", item, err)
	}
	if e, ok := errors.AsType[*store.MergeError](branch.Merge(ctx, nil)); !ok || len(e.Conflicts) != 1 || e.Conflicts[0].Base != nil {
		t.Errorf("merge returned %v, want a conflict without a base", e)
	}
	if _, err := store.NewMemory(&store.Options{Branches: true, History: 1}); err == nil {
		t.Error("Branches with a History of 1 accepted")
	}
}

// Reads refresh the items of a branch, but not the items of its base.
func TestBranchRefreshesOnlyOwnItems(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := treadle.Must(store.NewMemory(&store.Options{Now: func() time.Time { return now }, TTL: time.Minute}))
	ctx, n := t.Context(), store.Namespace{"n"}
	put := func(s *store.Store, key string) {
		t.Helper()
		if err := s.Put(ctx, n, key, map[string]any{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(s, "base")
	put(s, "both")
	branch := treadle.Must(s.Fork(ctx, store.Latest, store.BranchInfo{}))
	put(branch, "own")
	put(branch, "both")
	now = now.Add(40 * time.Second)
	found, err := branch.Search(ctx, n, nil)
	if err != nil || len(found) != 3 || !found[2].Expires.Equal(now.Add(time.Minute)) {
		t.Fatalf("got %v, %v", found, err)
	}
	now = now.Add(40 * time.Second)
	if found, err = branch.Search(ctx, n, &store.SearchOptions{NoRefresh: true}); err != nil || len(found) != 2 {
		t.Errorf("got %d items, %v after 80 s, want only the branch's own", len(found), err)
	}
	now = now.Add(40 * time.Second) // the branch's item hides the base's even after it has expired
	if found, err = branch.Search(ctx, n, nil); err != nil || len(found) != 0 {
		t.Errorf("got %d items, %v at the end", len(found), err)
	}
}

// Several writers write concurrently to two branches and the trunk. Some of
// them use separate handles, like other processes.
func TestConcurrentBranchWrites(t *testing.T) {
	s := treadle.Must(store.NewMemory(nil))
	ctx, n := t.Context(), store.Namespace{"n"}
	stores := []*store.Store{s}
	for _, name := range []string{"a", "b"} {
		one := treadle.Must(s.Fork(ctx, store.Latest, store.BranchInfo{Name: name}))
		stores = append(stores, one, treadle.Must(s.Branch(ctx, name)))
	}
	var writers sync.WaitGroup
	const puts = 20
	for i, to := range stores {
		for w := range 2 {
			writers.Go(func() {
				for k := range puts {
					if err := to.Put(ctx, n, fmt.Sprint(i, " ", w, " ", k), map[string]any{}, &store.PutOptions{IfAbsent: true}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	writers.Wait()
	for i, want := range []int{2 * puts, 4 * puts, 4 * puts, 4 * puts, 4 * puts} {
		if items, err := stores[i].Search(ctx, n, &store.SearchOptions{Limit: 1000}); err != nil || len(items) != want {
			t.Errorf("store %d: got %d items, %v, want %d", i, len(items), err, want)
		}
	}
	for _, i := range []int{1, 3} {
		if err := stores[i].Merge(ctx, nil); err != nil {
			t.Error(err)
		}
	}
	if items, err := s.Search(ctx, nil, &store.SearchOptions{Limit: 1000}); err != nil || len(items) != 10*puts {
		t.Errorf("trunk after the merges: got %d items, %v, want %d", len(items), err, 10*puts)
	}
}

// The branch namespace cannot be used for anything else.
func TestBranchNamespaceIsReserved(t *testing.T) {
	s := treadle.Must(store.NewMemory(nil))
	err := s.Put(t.Context(), store.Namespace{store.BranchRoot, "x"}, "k", map[string]any{}, nil)
	if _, ok := errors.AsType[*store.InvalidError](err); !ok {
		t.Errorf("put in the branch namespace: %v", err)
	}
	if _, err := s.Branch(t.Context(), "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("missing branch: %v", err)
	}
	for _, err := range []error{s.Merge(t.Context(), nil), s.Discard(t.Context())} {
		if _, ok := errors.AsType[*store.InvalidError](err); !ok {
			t.Errorf("called on the trunk: %v", err)
		}
	}
	if _, err := s.Fork(t.Context(), store.Latest, store.BranchInfo{Name: "index"}); err == nil {
		t.Error("reserved branch name accepted")
	}
	if _, err := s.Fork(t.Context(), 5, store.BranchInfo{}); err == nil {
		t.Error("base version beyond the latest accepted")
	}
}

func TestDiscardAfterChildWasMerged(t *testing.T) {
	s, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	fork := func(of *store.Store, name string) *store.Store {
		now, err := of.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, err := of.Fork(t.Context(), now, store.BranchInfo{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	parent := fork(s, "parent")
	child := fork(parent, "child")
	if err := child.Put(t.Context(), store.Namespace{"a"}, "k", map[string]string{"x": "y"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := parent.Discard(t.Context()); err == nil {
		t.Error("a branch with an open child was discarded")
	}
	if err := child.Merge(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := parent.Discard(t.Context()); err != nil {
		t.Errorf("after the merge of the child: %v", err)
	}
	branches, err := s.Branches(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range branches {
		if b.State != store.Discarded {
			t.Errorf("branch %s is %s", b.Name, b.State)
		}
	}
}
