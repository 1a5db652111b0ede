package pregel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/checkpoint"
)

func TestTaskOrder(t *testing.T) {
	p := codecPlan(t)
	r := p.codecRun(t)
	id := func(name string) int32 { return p.byName[name].id }
	r.ctl.armed = []int32{id("a"), id("b")}
	r.ctl.sends = []packet{{node: id("struct"), input: codecSent{N: 1}}, {node: id("int"), input: 2}, {node: id("struct"), input: codecSent{N: 3}}}
	tasks, err := r.prepare()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, task := range tasks {
		got = append(got, fmt.Sprintf("%s %d", task.Name(), task.index))
	}
	if want := []string{"a -1", "b -1", "struct 0", "int 1", "struct 2"}; !slices.Equal(got, want) {
		t.Errorf("tasks %q, want %q", got, want)
	}
}

// IDs are saved: a thread of an earlier version must find its tasks again.
func TestTaskIDs(t *testing.T) {
	p := codecPlan(t)
	r := p.codecRun(t)
	r.set.RunID = "run"
	long := strings.Repeat("x", 300)
	for _, test := range []struct {
		task *Task
		text string
	}{
		{&Task{run: r, node: p.byName["a"], step: 3, index: -1}, "run||3|a|pull"},
		{&Task{run: r, node: p.byName["int"], step: 12, index: 7, packet: &packet{}}, "run||12|int|push7"},
		{&Task{run: r, node: &node{NodeSpec: &NodeSpec{Name: long}}, step: -1, index: -1}, "run||-1|" + long + "|pull"},
	} {
		sum := sha256.Sum256([]byte(test.text))
		s := hex.EncodeToString(sum[:16])
		want := s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
		if got := test.task.ID(); got != want {
			t.Errorf("ID of %.40s is %s, want %s", test.text, got, want)
		}
		r.set.RunID = "other"
		if got := test.task.ID(); got != want {
			t.Errorf("ID of %.40s has changed to %s", test.text, got)
		}
		r.set.RunID = "run"
	}
	r.head = checkpoint.ID{1}
	if got, other := (&Task{run: r, node: p.byName["a"], step: 3}).ID(), (&Task{run: r, node: p.byName["a"], step: 3}).ID(); got != other {
		t.Errorf("two tasks alike have the ids %s and %s", got, other)
	}
}

// The run keeps the memory of a lone task's writes for the next step, unless an
// event may hold them.
func TestWritesHeldByEventsAreNotReused(t *testing.T) {
	p := codecPlan(t)
	for _, modes := range []Mode{0, ModeUpdates} {
		r := p.codecRun(t)
		r.modes = modes
		r.ctl.armed = []int32{p.byName["a"].id}
		var outs []*outcome
		for range 2 {
			tasks, err := r.prepare()
			if err != nil {
				t.Fatal(err)
			}
			outs = append(outs, tasks[0].out)
		}
		if reused := outs[0] == outs[1]; reused != (modes == 0) {
			t.Errorf("modes %d: reused is %t", modes, reused)
		}
	}
}
