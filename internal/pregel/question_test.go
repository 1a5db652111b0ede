package pregel

import (
	"slices"
	"testing"
)

// Calls run side by side and ask in any order; their questions are in the order
// of the calls.
func TestQuestionsAreInTheOrderOfCalls(t *testing.T) {
	p := codecPlan(t)
	r := p.codecRun(t)
	up := &Task{run: r, node: p.nodes[0], index: -1}
	call := func(i int32) *Task { return &Task{run: r, node: p.nodes[0], index: i, caller: up} }
	third, first, second := call(2), call(0), call(1)
	third.pause(0, Pause{ID: "third"})
	up.pause(2*1, Pause{ID: "itself, after one call"})
	first.pause(0, Pause{ID: "first"}, Pause{ID: "first again"})
	second.pause(0, Pause{ID: "second"})
	second.pause(0, Pause{ID: "second"}) // the same question
	var got []string
	for _, q := range up.paused() {
		got = append(got, q.ID)
	}
	if want := []string{"first", "first again", "itself, after one call", "second", "third"}; !slices.Equal(got, want) {
		t.Errorf("questions %q, want %q", got, want)
	}
	if n := len(first.paused()); n != 2 {
		t.Errorf("the first call has %d questions, want its own two", n)
	}
	up.dropPauses()
	if len(up.paused()) != 0 {
		t.Error("questions are left after they were dropped")
	}
}
