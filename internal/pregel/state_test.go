package pregel

import (
	"errors"
	"reflect"
	"slices"
	"testing"
)

func TestFold(t *testing.T) {
	ch := codecPlan(t).schema.byName
	text, log := ch["Text"], ch["Log"]
	add := func(s ...string) write { return write{ch: log, val: codecList(s)} }
	over := func(s ...string) write { return write{ch: log, val: codecList(s), over: true} }
	for name, test := range map[string]struct {
		writes []write // of one step
		want   any
		err    error
	}{
		"one value":                           {[]write{{ch: text, val: "x"}}, "x", nil},
		"two values":                          {[]write{{ch: text, val: "x"}, {ch: text, val: "y"}}, nil, errTwoWriters},
		"a list grows in the order of writes": {[]write{add("a"), add("b", "c"), add()}, codecList{"a", "b", "c"}, nil},
		"an overwrite beats what came before": {[]write{add("a"), over("z")}, codecList{"z"}, nil},
		"an overwrite beats what comes after": {[]write{over("z"), add("a")}, codecList{"z"}, nil},
		"two overwrites":                      {[]write{over("y"), over("z")}, nil, errTwoOverwrites},
	} {
		var s slot
		var err error
		for i, w := range test.writes {
			if err = s.fold(w, 1, int32(i), true); err != nil {
				break
			}
		}
		if !errors.Is(err, test.err) {
			t.Errorf("%s: error %v, want %v", name, err, test.err)
		}
		if err == nil && !reflect.DeepEqual(s.val, test.want) {
			t.Errorf("%s: %v, want %v", name, s.val, test.want)
		}
	}
}

func TestCommitFoldsInTaskOrder(t *testing.T) {
	p := codecPlan(t)
	r := p.codecRun(t)
	log := p.schema.byName["Log"]
	task := func(node string, words ...string) *Task {
		t := &Task{run: r, node: p.byName[node], out: &outcome{}}
		for _, w := range words {
			t.out.add(write{ch: log, val: codecList{w}})
		}
		return t
	}
	if err := r.commit([]*Task{task("b", "1", "2", "3"), task("a", "4")}); err != nil {
		t.Fatal(err)
	}
	if got := r.slots[log.id].val.(codecList); !slices.Equal(got, codecList{"1", "2", "3", "4"}) {
		t.Errorf("%v, want the writes in the order of the tasks", got)
	}
}

func TestRollbackRestoresChanges(t *testing.T) {
	p := codecPlan(t)
	r := p.codecRun(t)
	text, log := p.schema.byName["Text"], p.schema.byName["Log"]
	set := func(node, s string) error {
		task := &Task{run: r, node: p.byName[node], out: &outcome{}}
		task.out.add(write{ch: log, val: codecList{s}})
		task.out.add(write{ch: text, val: s})
		return r.commit([]*Task{task})
	}
	if err := set("a", "first"); err != nil {
		t.Fatal(err)
	}
	view := p.byName["a"].view
	if got := r.sync(view).(*codecState).Text; got != "first" {
		t.Fatalf("the view shows %q", got)
	}
	if err := set("b", "second"); err != nil {
		t.Fatal(err)
	}
	r.rollback()
	if got := r.slots[text.id].val; got != "first" || r.ver != 1 {
		t.Errorf("text %v at version %d after the rollback", got, r.ver)
	}
	if got := r.sync(view).(*codecState); got.Text != "first" || !slices.Equal(got.Log, codecList{"first"}) {
		t.Errorf("the view shows %q and %v after the rollback", got.Text, got.Log)
	}
}

func TestWideViewsShowEveryChange(t *testing.T) {
	type wide struct{ A, B, C, D, E, F, G, H, I, J string }
	p := codecPlan(t)
	spec := *p.spec
	spec.Joins, spec.Edges = nil, []EdgeSpec{{Start, "a"}}
	spec.State, spec.In, spec.Out = reflect.TypeFor[wide](), reflect.TypeFor[wide](), reflect.TypeFor[wide]()
	a := *spec.Nodes[0]
	a.In = spec.State
	spec.Nodes = []*NodeSpec{&a}
	p, err := Compile(&spec)
	if err != nil {
		t.Fatal(err)
	}
	r := p.codecRun(t)
	want := reflect.New(spec.State).Elem()
	steps := [][]string{{"A"}, {"B", "J"}, {}, {"A"}, {"C", "D"}, {"E"}}
	for i, fields := range steps {
		task := &Task{run: r, node: p.nodes[0], out: &outcome{}}
		for _, f := range fields {
			val := f + string(rune('0'+i))
			want.FieldByName(f).SetString(val)
			task.out.add(write{ch: p.schema.byName[f], val: val})
		}
		if err := r.commit([]*Task{task}); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			continue // the view misses a step
		}
		if got := *r.sync(p.nodes[0].view).(*wide); got != want.Interface() {
			t.Errorf("after step %d the view shows %+v, want %+v", i, got, want)
		}
	}
}
