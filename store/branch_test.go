package store_test

import (
	"strings"
	"testing"

	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/store/storetest"
)

// A branch is a backend like any other. It does not see the trunk's later
// changes.
func TestBranchPassesSuite(t *testing.T) {
	open := func(t *testing.T) store.Backend { return emptyBranch(t, store.NewMemoryBackend()) }
	// A branch keeps its deletion records: without them, items of its base
	// would reappear.
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, open, "SweepDropsOldHistory", "SweptRecordEndsOldWatches", "UntilFailsAfterSweep",
			"WatchResumes", "CountIncludesHistory", "CountIncludesBranches", // branches also keep records of forgotten items
			"ExportIncludesHistory", "ImportingTwiceAddsNothing", "ImportAddsNewerVersions", "ImportKeepsNewerChange",
			"ImportRestoresForgottenItems", "ImportBoundsHistory", "ImportStopsAtDamagedLine") // only the trunk supports imports
	})
	// Its changes include additional records of forgotten items.
	t.Run("differential", func(t *testing.T) { storetest.Differential(t, open, "changes", "imports") })
}

// An export of the trunk omits branches, an export of a branch contains what
// the branch sees, and only the trunk supports imports.
func TestExportOmitsBranches(t *testing.T) {
	ctx := t.Context()
	trunk, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	put := func(s *store.Store, key, text string) {
		t.Helper()
		if err := s.Put(ctx, store.Namespace{"n"}, key, map[string]any{"text": text}, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(trunk, "k", "known before")
	branch, err := trunk.Fork(ctx, store.Latest, store.BranchInfo{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	put(branch, "k", "learned in the branch")
	put(trunk, "l", "learned in the trunk")
	for s, want := range map[*store.Store][]string{trunk: {"known before", "learned in the trunk"}, branch: {"known before", "learned in the branch"}} {
		var file strings.Builder
		n, err := s.Export(ctx, &file)
		if n != 2 || err != nil || !strings.Contains(file.String(), want[0]) || !strings.Contains(file.String(), want[1]) {
			t.Errorf("got %d exported versions, %v: %s", n, err, file.String())
		}
		there, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		if report, err := there.Import(ctx, strings.NewReader(file.String())); report.Versions != 2 || err != nil {
			t.Errorf("got import report %+v, %v", report, err)
		}
		if _, err := branch.Import(ctx, strings.NewReader(file.String())); err == nil || !strings.Contains(err.Error(), "requires the trunk") {
			t.Errorf("import into a branch: %v", err)
		}
	}
}

// emptyBranch returns the backend of a branch created while the store was
// empty.
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

// Reads of a branch match a model, for random histories.
func TestBranches(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		storetest.Branches(t, func(*testing.T) store.Backend { return store.NewMemoryBackend() }, 5)
	})
	t.Run("encrypted", func(t *testing.T) {
		storetest.Branches(t, func(t *testing.T) store.Backend {
			return sealedBackend(t, store.NewMemoryBackend(), storeKey(1))
		}, 3)
	})
}
