package pregel

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Calls run side by side and ask in any order; their questions are in the order
// of the calls.
func TestInterruptsInCallOrder(t *testing.T) {
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

func TestSchemasOfAnswersAreBounded(t *testing.T) {
	var a answerSchemas
	first, err := a.of(json.RawMessage(`{"type":"integer"}`))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := a.of(json.RawMessage(`{"type":"integer"}`)); again != first || err != nil {
		t.Errorf("the schema was prepared twice (%v)", err)
	}
	for i := range 10 * maxAnswerSchemas {
		s, err := a.of(json.RawMessage(fmt.Sprintf(`{"type":"integer","maximum":%d}`, i)))
		if err != nil {
			t.Fatal(err)
		}
		if s.Validate(float64(i)) != nil || s.Validate(float64(i+1)) == nil {
			t.Fatalf("the schema of another question was used: maximum %d", i)
		}
	}
	if _, err := a.of(json.RawMessage(`{"type":"integer","description":"` + strings.Repeat("x", maxAnswerSchema) + `"}`)); err != nil {
		t.Fatal(err)
	}
	if len(a.text) > maxAnswerSchemas || slices.ContainsFunc(slices.Collect(maps.Keys(a.text)), func(s string) bool { return len(s) > maxAnswerSchema }) {
		t.Errorf("%d schemas are kept, want at most %d of at most %d bytes", len(a.text), maxAnswerSchemas, maxAnswerSchema)
	}
	if _, err := a.of(json.RawMessage(`{"type":`)); err == nil {
		t.Error("a schema that is not JSON was accepted")
	}
}
