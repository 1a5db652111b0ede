package store_test

import (
	"strings"
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
			"WatchGoesOnWhereItStopped", "EverythingThatIsKeptIsCounted", "WhatBranchesHaveWrittenIsCounted", // and the traces of what was forgotten
			"ExportsTravelWithTheirHistory", "ImportingTwiceAddsNothing", "AnImportGoesOnWhereTheFileWentOn", "TheNewerOfTwoChangesWinsAndTheOtherIsReported",
			"AnImportBringsBackWhatWasForgotten", "HistoryIsBoundedInImports", "ADamagedLineEndsAnImportBehindTheLinesBeforeIt") // imports are for the trunk
	})
	// Its changes have more traces of what was forgotten.
	t.Run("differential", func(t *testing.T) { storetest.Differential(t, open, "changes", "imports") })
}

// An export of the trunk has nothing of its branches, one of a branch has what the branch sees, and only the trunk takes
// imports.
func TestBranchesAreNotExportedWithTheTrunk(t *testing.T) {
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
	put(branch, "k", "learnt in the branch")
	put(trunk, "l", "learnt in the trunk")
	for s, want := range map[*store.Store][]string{trunk: {"known before", "learnt in the trunk"}, branch: {"known before", "learnt in the branch"}} {
		var file strings.Builder
		n, err := s.Export(ctx, &file)
		if n != 2 || err != nil || !strings.Contains(file.String(), want[0]) || !strings.Contains(file.String(), want[1]) {
			t.Errorf("the export has %d versions, %v: %s", n, err, file.String())
		}
		there, err := store.NewMemory(nil)
		if err != nil {
			t.Fatal(err)
		}
		if report, err := there.Import(ctx, strings.NewReader(file.String())); report.Versions != 2 || err != nil {
			t.Errorf("the import is %+v, %v", report, err)
		}
		if _, err := branch.Import(ctx, strings.NewReader(file.String())); err == nil || !strings.Contains(err.Error(), "is for the trunk") {
			t.Errorf("an import into a branch: %v", err)
		}
	}
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
		storetest.Branches(t, func(*testing.T) store.Backend { return store.NewMemoryBackend() }, 5)
	})
	t.Run("encrypted", func(t *testing.T) {
		storetest.Branches(t, func(t *testing.T) store.Backend {
			return sealedBackend(t, store.NewMemoryBackend(), storeKey(1))
		}, 3)
	})
}
