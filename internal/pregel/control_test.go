package pregel

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// wiredPlan returns a graph of n nodes n00, n01, … without edges, with the given joins and
// deferred nodes.
func wiredPlan(t *testing.T, n int, deferred []string, joins ...JoinSpec) *Plan {
	t.Helper()
	words := codecPlan(t).schema.words
	state := reflect.TypeFor[codecState]()
	spec := &Spec{Name: "wired", Words: words, State: state, In: state, Out: state, Joins: joins}
	for i := range n {
		name := fmt.Sprintf("n%02d", i)
		spec.Nodes = append(spec.Nodes, &NodeSpec{Name: name, In: state, Out: words.Goto, Defer: slices.Contains(deferred, name),
			Call: func(context.Context, any) (any, error) { return codecGoto(nil), nil }})
		spec.Edges = append(spec.Edges, EdgeSpec{Start, name})
	}
	p, err := Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestNodesAreArmedOncePerStep(t *testing.T) {
	p := wiredPlan(t, 3*fewArmed, nil)
	for _, nodes := range []int{1, 2, fewArmed - 1, fewArmed, fewArmed + 1, 3 * fewArmed} {
		r := p.codecRun(t)
		for range 2 { // two steps, so that marks of the first do not count in the second
			r.ver++
			r.ctl.armed = r.ctl.armed[:0]
			var want []int32
			for i := range nodes {
				id := int32(nodes - 1 - i)
				want = append(want, id)
				r.arm(r.ctl, id)
				r.arm(r.ctl, id)
				r.arm(r.ctl, want[0])
			}
			if !slices.Equal(r.ctl.armed, want) {
				t.Errorf("%d nodes: armed %v, want %v", nodes, r.ctl.armed, want)
			}
		}
	}
}

func TestDeferredNodesWaitForOthers(t *testing.T) {
	p := wiredPlan(t, 3, []string{"n01"})
	r := p.codecRun(t)
	r.ver++
	r.arm(r.ctl, 1)
	r.arm(r.ctl, 0)
	r.arm(r.ctl, 1)
	r.release(r.ctl)
	if !slices.Equal(r.ctl.armed, []int32{0}) || !slices.Equal(r.ctl.waiting, []int32{1}) {
		t.Fatalf("armed %v, waiting %v: want 0 armed and 1 waiting", r.ctl.armed, r.ctl.waiting)
	}
	r.ctl.armed = nil
	r.release(r.ctl)
	if !slices.Equal(r.ctl.armed, []int32{1}) || len(r.ctl.waiting) != 0 {
		t.Errorf("armed %v, waiting %v: want the deferred node armed", r.ctl.armed, r.ctl.waiting)
	}
}

func TestJoins(t *testing.T) {
	p := wiredPlan(t, 4, []string{"n03"}, JoinSpec{[]string{"n00", "n01"}, "n02"}, JoinSpec{[]string{"n00", "n01"}, "n03"})
	ran := func(r *Run, ids ...int32) {
		t.Helper()
		r.ver++
		r.ctl.armed = nil
		for _, id := range ids {
			task := &Task{run: r, node: p.nodes[id], out: &outcome{}}
			if err := r.advance(r.ctl, task, task.after()); err != nil {
				t.Fatal(err)
			}
		}
		r.release(r.ctl)
	}
	for name, test := range map[string]struct {
		steps [][]int32
		armed []int32
	}{
		"one source is not enough":              {[][]int32{{0}}, nil},
		"one source twice is not enough":        {[][]int32{{0}, {0, 0}}, nil},
		"both sources in one step":              {[][]int32{{0, 1}}, []int32{2}},
		"both sources, one after the other":     {[][]int32{{1}, {0}}, []int32{2}},
		"a second round starts without sources": {[][]int32{{0, 1}, {0}}, nil},
		"a second round":                        {[][]int32{{0, 1}, {0}, {1}}, []int32{2}},
	} {
		r := p.codecRun(t)
		for _, step := range test.steps {
			r.ctl.waiting = []int32{3} // so that the deferred target is not visible
			ran(r, step...)
		}
		if got := slices.DeleteFunc(slices.Clone(r.ctl.armed), func(id int32) bool { return id == 3 }); !slices.Equal(got, test.armed) {
			t.Errorf("%s: armed %v, want %v", name, got, test.armed)
		}
	}
}

// A stored control may still hold the sets that a later step would change.
func TestAdvanceLeavesEarlierJoinSetsAlone(t *testing.T) {
	p := wiredPlan(t, 3, nil, JoinSpec{[]string{"n00", "n01"}, "n02"})
	r := p.codecRun(t)
	before := r.ctl.joins
	r.ver++
	task := &Task{run: r, node: p.nodes[0], out: &outcome{}}
	if err := r.advance(r.ctl, task, task.after()); err != nil {
		t.Fatal(err)
	}
	if before[0].has(0) {
		t.Error("the earlier set has changed")
	}
	if !r.ctl.joins[0].has(0) {
		t.Error("the new set lacks the source")
	}
}
