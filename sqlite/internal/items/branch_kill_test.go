package items

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/store"
)

// mergerEnv makes the test binary a process that merges branches until it is killed.
// It is the path of the file and the name of the round.
const mergerEnv = "TREADLE_SQLITE_MERGER"

// mergedKeys is how many items a branch writes.
const mergedKeys = 60

// A kill -9 at any moment of a merge leaves the trunk as before it or as after it: the
// items of a branch that is open are not in the trunk, and all of one that was merged are.
func TestKilledMergeIsAtomic(t *testing.T) {
	kills := 10
	if race.Enabled {
		kills = 3
	}
	db := open(t, filepath.Join(t.TempDir(), "test.db"), nil)
	s, err := db.Store(nil)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(uint64(os.Getpid()), 3))
	for round := range kills {
		name := fmt.Sprint("round ", round)
		acked := map[string]bool{}
		for _, line := range killtest.Lines(t, mergerEnv+"="+db.conn.Path+"\n"+name, 2+rnd.IntN(60)) {
			if branch, ok := strings.CutPrefix(line, "merged "); ok {
				acked[branch] = true
			}
		}
		all, err := s.Branches(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range all {
			if b.Run != name {
				continue
			}
			if acked[b.Name] && b.State != store.Merged {
				t.Errorf("branch %q is %s, and its merge was acknowledged", b.Name, b.State)
			}
			checkMerged(t, s, b)
		}
		checkBackend(t, db)
		if t.Failed() {
			return
		}
	}
}

// checkMerged expects all changes of a branch in the trunk, or none.
func checkMerged(t *testing.T, s *store.Store, b store.BranchInfo) {
	t.Helper()
	for i := range mergedKeys {
		n, key := store.Namespace{b.Name}, fmt.Sprint(i)
		item, err := s.Get(t.Context(), n, key, nil)
		want := []string{"trunk", "", "trunk"}[i%3] // changed, new and deleted in the branch
		if b.State == store.Merged {
			want = []string{"branch", "branch", ""}[i%3]
		}
		if want == "" {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("branch %q is %s: key %s is in the trunk, %v", b.Name, b.State, key, err)
			}
			continue
		}
		if err != nil || !strings.Contains(string(item.Value), want) {
			t.Errorf("branch %q is %s: key %s in the trunk is %v, %v", b.Name, b.State, key, item, err)
		}
	}
}

// mergeUntilKilled is the other process.
func mergeUntilKilled(where string) {
	go killtest.EndWithParent()
	path, name, _ := strings.Cut(where, "\n")
	err := mergeOnAndOn(path, name)
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func mergeOnAndOn(path, name string) error {
	ctx := context.Background()
	db, err := openTest(path, nil)
	if err != nil {
		return err
	}
	s, err := db.Store(nil)
	if err != nil {
		return err
	}
	lines := make(chan string)
	go func() { // ticks let the parent kill at any moment
		for tick := time.NewTicker(300 * time.Microsecond); ; {
			select {
			case line := <-lines:
				fmt.Fprintln(os.Stdout, line)
			case <-tick.C:
				fmt.Fprintln(os.Stdout, "tick")
			}
		}
	}()
	for i := 0; ; i++ {
		branch := fmt.Sprint(name, " ", i)
		n := store.Namespace{branch}
		var before, after []store.Op
		for k := range mergedKeys {
			put := store.PutOp{Namespace: n, Key: fmt.Sprint(k), Value: map[string]any{"by": "trunk"}}
			if k%3 != 1 {
				before = append(before, put)
			}
			put.Value = map[string]any{"by": "branch"}
			if k%3 != 2 {
				after = append(after, put)
			} else {
				after = append(after, store.DeleteOp{Namespace: n, Key: put.Key})
			}
		}
		if _, err := s.Batch(ctx, before...); err != nil {
			return err
		}
		b, err := s.Fork(ctx, store.Latest, store.BranchInfo{Name: branch, Run: name})
		if err != nil {
			return err
		}
		if _, err := b.Batch(ctx, after...); err != nil {
			return err
		}
		if err := b.Merge(ctx, nil); err != nil {
			return err
		}
		lines <- "merged " + branch
	}
}
