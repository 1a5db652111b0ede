package memorytest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/test/killtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

var pendingWork = store.Namespace{"reflector", "pending"}

// words is a payload that accumulates.
type words []string

func (w words) Reduce(more words) words { return slices.Concat(w, more) }

// submitterEnv makes the test binary a process that submits work until it is killed. Its
// value is the path of the file.
const submitterEnv = "TREADLE_MEMORY_SUBMITTER"

// Acknowledged work runs in the next process, once, whether it was waiting or running when
// the process was killed with SIGKILL.
//
// Defect: §4.1 (7) pending work ends with the process.
func TestKilledReflectorLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	for _, n := range []int{1, 2, 3, 17, 60} {
		acked := killedSubmitter(t, path, n)
		covered, left := resumed(t, path)
		for key, want := range acked {
			// The last entry may have been written but not acknowledged.
			got := covered[key]
			if len(got) > len(want)+1 || !slices.Equal(got[:min(len(got), len(want))], want) {
				t.Errorf("killed after %d: key %s ran %q, acknowledged was %q", n, key, got, want)
			}
		}
		if left != 0 {
			t.Errorf("killed after %d: %d entries left", n, left)
		}
	}
}

// killedSubmitter returns the work that a process acknowledged before it was killed, by key.
func killedSubmitter(t *testing.T, path string, n int) map[string]words {
	t.Helper()
	acked := map[string]words{}
	for _, line := range killtest.Lines(t, submitterEnv+"="+path, n) {
		key, word, _ := strings.Cut(line, "\t")
		acked[key] = append(acked[key], word)
	}
	return acked
}

// resumed returns the work that the next process runs, and the number of remaining entries.
func resumed(t *testing.T, path string) (covered map[string]words, left int) {
	t.Helper()
	db := openFile(t, path)
	s := newStore(t, db, nil)
	covered = map[string]words{}
	var mu sync.Mutex
	r, err := memory.OpenReflector(t.Context(), s, pendingWork, func(_ context.Context, key string, w words) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		covered[key] = append(covered[key], w...)
		return "", nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	items, err := s.Search(t.Context(), pendingWork, &store.SearchOptions{Limit: 1000})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return covered, len(items)
}

// submitUntilKilled is the main function of the child process. Work for "running" starts
// and never ends; the rest is due in an hour.
func submitUntilKilled(path string) {
	go killtest.EndWithParent()
	fmt.Fprintln(os.Stderr, submitForever(path))
	os.Exit(1)
}

func submitForever(path string) error {
	ctx := context.Background()
	db, err := sqlite.Open(path, nil)
	if err != nil {
		return err
	}
	s, err := db.Store(nil)
	if err != nil {
		return err
	}
	started := make(chan struct{}, 1)
	r, err := memory.OpenReflector(ctx, s, pendingWork, func(context.Context, string, words) (string, error) {
		started <- struct{}{}
		select {}
	}, nil)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		for _, key := range []string{"running", "waiting", fmt.Sprint("single ", i)} {
			after := time.Hour
			if key == "running" && i == 0 {
				after = 0
			}
			if _, err := r.Submit(ctx, key, words{fmt.Sprint(i)}, after); err != nil {
				return err
			}
			fmt.Fprintf(os.Stdout, "%s\t%d\n", key, i)
			if after == 0 {
				<-started // later submissions arrive while it runs
			}
		}
	}
}
