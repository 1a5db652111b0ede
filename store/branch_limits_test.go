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

// When the history does not reach back to a branch's base any more, reads of the branch
// fail instead of returning other items, and other items can still be read.
func TestABranchWhosePastIsGoneSaysSo(t *testing.T) {
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
			t.Errorf("the error is %v, want a GoneError of k", err)
		}
	}
	if _, err := branch.Get(ctx, n, "other", nil); err != nil {
		t.Error(err)
	}
	// What the branch itself has written is known, and a merge asks what to do.
	put(branch, "k", 9)
	if item, err := branch.Get(ctx, n, "k", nil); err != nil || string(item.Value) != `{"v":9}` {
		t.Errorf("the branch has %v, %v", item, err)
	}
	if e, ok := errors.AsType[*store.MergeError](branch.Merge(ctx, nil)); !ok || len(e.Conflicts) != 1 || e.Conflicts[0].Base != nil {
		t.Errorf("the merge is %v, want a conflict without a base", e)
	}
	if _, err := store.NewMemory(&store.Options{Branches: true, History: 1}); err == nil {
		t.Error("branches without history are accepted")
	}
}

// Reading refreshes the items of a branch, and not those of its base.
func TestLivesOfItemsInABranch(t *testing.T) {
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
		t.Fatalf("found %v, %v", found, err)
	}
	now = now.Add(40 * time.Second)
	if found, err = branch.Search(ctx, n, &store.SearchOptions{NoRefresh: true}); err != nil || len(found) != 2 {
		t.Errorf("after 80 s the branch has %d items, %v, want those that it has put", len(found), err)
	}
	now = now.Add(40 * time.Second) // the branch's item hides that of the base, also when it has expired
	if found, err = branch.Search(ctx, n, nil); err != nil || len(found) != 0 {
		t.Errorf("in the end the branch has %d items, %v", len(found), err)
	}
}

// Two branches and the trunk are written to at the same time, each by several writers,
// some of them with handles of their own, as in other processes.
func TestBranchesAreWrittenToConcurrently(t *testing.T) {
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
			t.Errorf("store %d has %d items, %v, want %d", i, len(items), err, want)
		}
	}
	for _, i := range []int{1, 3} {
		if err := stores[i].Merge(ctx, nil); err != nil {
			t.Error(err)
		}
	}
	if items, err := s.Search(ctx, nil, &store.SearchOptions{Limit: 1000}); err != nil || len(items) != 10*puts {
		t.Errorf("after the merges the trunk has %d items, %v, want %d", len(items), err, 10*puts)
	}
}

// The namespaces of branches cannot be used for anything else.
func TestTheNamespaceOfBranchesIsReserved(t *testing.T) {
	s := treadle.Must(store.NewMemory(nil))
	err := s.Put(t.Context(), store.Namespace{store.BranchRoot, "x"}, "k", map[string]any{}, nil)
	if _, ok := errors.AsType[*store.InvalidError](err); !ok {
		t.Errorf("a put there is %v", err)
	}
	if _, err := s.Branch(t.Context(), "none"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a branch that does not exist is %v", err)
	}
	for _, err := range []error{s.Merge(t.Context(), nil), s.Discard(t.Context())} {
		if _, ok := errors.AsType[*store.InvalidError](err); !ok {
			t.Errorf("of the trunk it is %v", err)
		}
	}
	if _, err := s.Fork(t.Context(), store.Latest, store.BranchInfo{Name: "index"}); err == nil {
		t.Error("a branch has the name of the list of branches")
	}
	if _, err := s.Fork(t.Context(), 5, store.BranchInfo{}); err == nil {
		t.Error("a branch begins at a version of the future")
	}
}
