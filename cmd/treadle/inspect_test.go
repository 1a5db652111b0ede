package main

import (
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
)

func TestVoidResultsAreNotShown(t *testing.T) {
	g := describe(&checkpoint.Checkpoint{Control: []byte(`{"next":["a","b"]}`), Pending: []checkpoint.Write{
		{Task: "1", Kind: checkpoint.Done, Data: []byte(`null`)},
		{Task: "2", Kind: checkpoint.Done, Data: []byte(`{"writes":[]}`)},
	}})
	if len(g.Tasks) != 1 || g.Tasks[0].ID != "2" || g.Status != unfinished {
		t.Errorf("tasks %+v, status %s; want task 2, status %s", g.Tasks, g.Status, unfinished)
	}
}

// Checkpoints of LangGraph before 0.3 do not contain the graph's edges.
func TestImportedThreadShowsUnknownEdges(t *testing.T) {
	for control, want := range map[string]status{
		`{"after":["a"]}`:              undecided,
		`{"after":["a"],"next":["b"]}`: unfinished,
	} {
		if g := describe(&checkpoint.Checkpoint{Control: []byte(control)}); g.Status != want || len(g.After) != 1 || g.After[0] != "a" {
			t.Errorf("%s: status %s after %q, want %s", control, g.Status, g.After, want)
		}
	}
}
