package store_test

import (
	"testing"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// A branch is a backend as all others: what its trunk does after it began is not seen.
func TestABranchPassesTheSuite(t *testing.T) {
	open := func(t *testing.T) store.Backend { return emptyBranch(t, store.NewMemoryBackend()) }
	// A branch keeps its deletions: without them, items of its base would come back.
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, open, "ASweepDropsOldHistory", "ASweptTraceEndsOldWatches", "AReadUntilAVersionBeforeASweepIsRefused",
			"WatchGoesOnWhereItStopped") // and the traces of what was forgotten
	})
}

// emptyBranch returns the backend of a branch that began when the store was empty.
func emptyBranch(t *testing.T, b store.Backend) store.Backend {
	t.Helper()
	s, err := store.New(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	branch, err := s.Fork(t.Context(), store.Latest, store.BranchInfo{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []store.Namespace{{"noise"}} {
		if err := s.Put(t.Context(), n, "k", map[string]any{"t": "pizza in the trunk"}, &store.PutOptions{NoIndex: n[0] == "noise"}); err != nil {
			t.Fatal(err)
		}
	}
	return store.BackendOf(branch)
}

// What a branch recalls equals what a model recalls, for random histories.
func TestBranches(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		storetest.Branches(t, func(*testing.T) store.Backend { return store.NewMemoryBackend() })
	})
	t.Run("encrypted", func(t *testing.T) {
		storetest.Branches(t, func(t *testing.T) store.Backend {
			return sealedBackend(t, store.NewMemoryBackend(), storeKey(1))
		})
	})
}
