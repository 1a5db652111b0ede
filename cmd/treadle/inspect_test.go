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
		t.Errorf("tasks %+v of a checkpoint that is %s; want task 2 of one that is %s", g.Tasks, g.Status, unfinished)
	}
}
