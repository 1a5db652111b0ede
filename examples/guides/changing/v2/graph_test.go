package v2

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/sqlite"
)

// recorded returns the new graph on a copy of the recorded threads.
func recorded(t *testing.T) *treadle.Graph[Essay, Essay] {
	t.Helper()
	raw, err := os.ReadFile("../testdata/v1.db")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "v1.db")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	g, err := New(db)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestReadsFinishedThread(t *testing.T) {
	var got Essay
	snap, err := recorded(t).Thread("finished").State(t.Context())
	if err == nil {
		err = snap.Read(&got)
	}
	if want := (Essay{Title: "Owls", Body: "All about Owls. Ada", Length: 3}); err != nil || got != want {
		t.Errorf("state %+v, want %+v: %v", got, want, err)
	}
}

func TestResumesWaitingThread(t *testing.T) {
	got, err := recorded(t).Thread("waiting").Resume(t.Context(), "Ada")
	if want := (Essay{Title: "Bees", Body: "All about Bees.", Length: 3, Author: "Ada"}); err != nil || got != want {
		t.Errorf("state %+v, want %+v: %v", got, want, err)
	}
}

func TestContinuesStoppedThread(t *testing.T) {
	thread := recorded(t).Thread("stopped")
	if _, err := thread.Continue(t.Context()); !treadle.IsPause(err) {
		t.Fatalf("run ended with %v, want an interrupt", err)
	}
	if got, err := thread.Resume(t.Context(), "Ada"); err != nil || got.Author != "Ada" {
		t.Errorf("state %+v, %v", got, err)
	}
}
