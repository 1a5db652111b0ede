package treadle_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/reduce"
)

// writes returns a graph that runs the given functions in one step, each as a separate
// node, named a to z in order.
func writes[S, Out any](nodes ...func() Out) *treadle.Builder[S] {
	b := treadle.New[S]("writes")
	for i, fn := range nodes {
		name := string(rune('a' + i))
		treadle.AddNode(b, name, func(context.Context, struct{}) (Out, error) { return fn(), nil })
		b.Edge(treadle.Start, name)
	}
	return b
}

func give[T any](v T) func() T { return func() T { return v } }

// median is a custom type that accumulates: updates are single numbers.
type median []int

func (m median) Reduce(n int) (median, error) {
	if n < 0 {
		return nil, fmt.Errorf("%d is negative", n)
	}
	if n == 13 {
		panic("unlucky")
	}
	return slices.Sorted(slices.Values(append(slices.Clone(m), n))), nil
}

// The accumulating types of the package, through a graph and on their own.
//
// Parity: 167.
func TestAccumulatingTypes(t *testing.T) {
	type state struct {
		List reduce.List[int]        `json:"list"`
		Set  reduce.Set[string]      `json:"set"`
		Map  reduce.Map[string, int] `json:"map"`
		Sum  reduce.Sum[float64]     `json:"sum"`
		Max  reduce.Max[int]         `json:"max"`
	}
	type update struct {
		List reduce.List[int]
		Set  reduce.Set[string]
		Map  reduce.Map[string, int]
		Sum  reduce.Sum[float64]
		Max  reduce.Max[int]
	}
	b := writes[state](
		give(update{reduce.List[int]{2, 3}, reduce.SetOf("b", "a"), reduce.Map[string, int]{"x": 1, "y": 1}, reduce.SumOf(1.5), reduce.MaxOf(-7)}),
		give(update{reduce.List[int]{4}, reduce.SetOf("c", "a"), reduce.Map[string, int]{"y": 2}, reduce.SumOf(2.0), reduce.MaxOf(-9)}),
	)
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	out, err := g.Thread("1").Run(t.Context(), state{List: reduce.List[int]{1}, Sum: reduce.SumOf(10.0)})
	if err != nil {
		t.Fatal(err)
	}
	want := state{reduce.List[int]{1, 2, 3, 4}, reduce.SetOf("a", "b", "c"), reduce.Map[string, int]{"x": 1, "y": 2}, reduce.SumOf(13.5), reduce.MaxOf(-7)}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("the output differs (-want +got):\n%s", diff)
	}
	const text = `{"list":[1,2,3,4],"set":["a","b","c"],"map":{"x":1,"y":2},"sum":13.5,"max":-7}`
	if got := asJSON(t, out); got != text {
		t.Errorf("the JSON is %s, want %s", got, text)
	}
	var stored state
	snap, err := g.Thread("1").State(t.Context())
	if err == nil {
		err = snap.Read(&stored)
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, stored); diff != "" {
		t.Errorf("the saved state differs (-want +got):\n%s", diff)
	}
	// A second turn accumulates on the saved state.
	out, err = g.Thread("1").Run(t.Context(), state{Max: reduce.MaxOf(4)})
	if err != nil || out.Sum != reduce.SumOf(17.0) || len(out.List) != 7 || out.Max != reduce.MaxOf(4) {
		t.Errorf("the second turn gives %v, %v", out, err)
	}
}

// An accumulating type starts with its zero value.
func TestAccumulatingTypesAtZero(t *testing.T) {
	type state struct {
		List reduce.List[int]
		Set  reduce.Set[string]
		Map  reduce.Map[string, int]
		Sum  reduce.Sum[int]
		Max  reduce.Max[int]
	}
	if got, want := asJSON(t, state{}), `{"List":[],"Set":[],"Map":{},"Sum":0,"Max":null}`; got != want {
		t.Errorf("the JSON is %s, want %s", got, want)
	}
	var back state
	if err := json.Unmarshal([]byte(`{"List":[],"Set":[],"Map":{},"Sum":0,"Max":null}`), &back); err != nil || back.Max.Ok {
		t.Errorf("read back it is %+v, %v", back, err)
	}
	if got := fmt.Sprint(reduce.SumOf(3), reduce.MaxOf("x"), reduce.Max[int]{}); got != "3 x none" {
		t.Errorf("as text they are %q", got)
	}
	if s := reduce.SetOf(1, 2); !s.Has(1) || s.Has(3) {
		t.Error("Has is wrong")
	}
	for _, test := range []struct{ m, u, want reduce.Max[int] }{
		{reduce.Max[int]{}, reduce.MaxOf(-1), reduce.MaxOf(-1)},
		{reduce.MaxOf(-1), reduce.Max[int]{}, reduce.MaxOf(-1)},
		{reduce.MaxOf(2), reduce.MaxOf(1), reduce.MaxOf(2)},
		{reduce.MaxOf(2), reduce.MaxOf(3), reduce.MaxOf(3)},
		{reduce.Max[int]{}, reduce.Max[int]{}, reduce.Max[int]{}},
	} {
		if got := test.m.Reduce(test.u); got != test.want {
			t.Errorf("of %v and %v the greatest is %v, want %v", test.m, test.u, got, test.want)
		}
	}
	// Reduce does not modify its receiver.
	l := append(make(reduce.List[int], 0, 9), 1)
	a, b := l.Reduce(reduce.List[int]{2}), l.Reduce(reduce.List[int]{3})
	if a[1] != 2 || b[1] != 3 || len(l) != 1 {
		t.Errorf("the lists are %v, %v, %v", l, a, b)
	}
	m := reduce.Map[string, int]{"x": 1}
	m.Reduce(reduce.Map[string, int]{"x": 2})
	if m["x"] != 1 {
		t.Errorf("the map was changed: %v", m)
	}
	s := reduce.SetOf(1)
	s.Reduce(reduce.SetOf(2))
	if !maps.Equal(s, reduce.SetOf(1)) {
		t.Errorf("the set was changed: %v", s)
	}
}

// Parity: 7. The input goes through the reducer before the first node runs, on
// top of the empty value.
func TestInputIsReducedBeforeFirstNode(t *testing.T) {
	type state struct{ Total reduce.Sum[int] }
	type total struct{ Total reduce.Sum[int] }
	b := treadle.New[state]("reduced")
	treadle.AddNode(b, "a", func(context.Context, state) (total, error) { return total{reduce.SumOf(2)}, nil })
	treadle.AddNode(b, "b", func(_ context.Context, s total) (total, error) { return total{reduce.SumOf(s.Total.N * 10)}, nil })
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	g := ready(t, b, nil)
	for in, want := range map[int]int{5: 77, 0: 22} {
		out, err := g.Run(t.Context(), state{reduce.SumOf(in)})
		if err != nil || out.Total.N != want {
			t.Errorf("from %d the total is %v, %v, want %d", in, out.Total, err, want)
		}
	}
}

// A custom reducer may take updates of another type and may fail. If the types differ, an
// input with a state value is rejected: it is not an update, and would discard the
// accumulated value.
func TestCustomReducer(t *testing.T) {
	type state struct {
		Middle median `json:"middle"`
	}
	type number struct{ Middle int }
	build := func(ns ...int) *treadle.Graph[state, state] {
		var nodes []func() number
		for _, n := range ns {
			nodes = append(nodes, give(number{n}))
		}
		b := writes[state](nodes...)
		b.Initial(state{median{9}})
		return ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	}
	g := build(5, 1, 3)
	out, err := g.Thread("1").Run(t.Context(), state{})
	if err != nil || !slices.Equal(out.Middle, median{1, 3, 5, 9}) {
		t.Errorf("the output is %v, %v", out.Middle, err)
	}
	_, err = g.Thread("1").Run(t.Context(), state{median{100}})
	wantText(t, err, `graph "writes": update: field middle: input contains a value of the state (treadle_test.median), but updates of this field are int: `+
		`leave it zero, or compile the graph with an input type whose field Middle is int (treadle.Compile); Builder.Initial sets starting values`)
	out, err = g.Thread("1").Run(t.Context(), state{})
	if err != nil || !slices.Equal(out.Middle, median{1, 1, 3, 3, 5, 5, 9}) {
		t.Errorf("an input without the field gives %v, %v, want the value kept", out.Middle, err)
	}

	out, err = build(5, -1, 3).Run(t.Context(), state{})
	wantText(t, err, `graph "writes": node "b" (step 1): field middle: reduce: -1 is negative`)
	if !slices.Equal(out.Middle, median{9}) {
		t.Errorf("the failed step left %v, want the state before it", out.Middle)
	}
	_, err = build(5, 13).Run(t.Context(), state{})
	wantText(t, err, `graph "writes": node "b" (step 1): reduce: panic: unlucky (treadle_test.median.Reduce, state_test.go:N)`)
	if failure, ok := errors.AsType[*treadle.NodeError](err); !ok || !strings.Contains(string(failure.Stack), "median.Reduce") {
		t.Errorf("the stack of the panic does not show the reducer: %v", err)
	}
	_, err = build(13).Run(t.Context(), state{})
	wantText(t, err, `graph "writes": node "a" (step 1): reduce: panic: unlucky (treadle_test.median.Reduce, state_test.go:N)`)

	// A declared input type carries updates.
	narrow, err := treadle.Compile[number, state](writes[state](give(number{5})), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err = narrow.Run(t.Context(), number{7})
	if err != nil || !slices.Equal(out.Middle, median{5, 7}) {
		t.Errorf("a declared input gives %v, %v", out.Middle, err)
	}
	_, err = narrow.Run(t.Context(), number{-7})
	wantText(t, err, `graph "writes": node "__start__" (step 0): field middle: reduce: -7 is negative`)
}

// The builder sets the reducer of a type from another package, by Go name or JSON name.
func TestReducerSetByBuilder(t *testing.T) {
	type state struct {
		Seen map[string]bool `json:"seen"`
		Text string          `json:"text"`
	}
	type update struct {
		Seen map[string]bool
		Text int
	}
	b := writes[state](give(update{map[string]bool{"a": true}, 1}), give(update{map[string]bool{"b": true}, 2}))
	treadle.Reduce(b, "Seen", func(a, u map[string]bool) map[string]bool {
		out := maps.Clone(a)
		if out == nil {
			out = map[string]bool{}
		}
		maps.Copy(out, u)
		return out
	})
	treadle.Reduce(b, "text", func(s string, n int) string { return s + fmt.Sprint(n) })
	b.Initial(state{Text: "n"})
	out, err := ready(t, b, nil).Run(t.Context(), state{Seen: map[string]bool{"in": true}})
	if err != nil || out.Text != "n12" || len(out.Seen) != 3 {
		t.Errorf("the output is %+v, %v", out, err)
	}
}

// Parity: 1, 11. If two nodes write a field without a reducer, the conflict names them,
// and the state is unchanged.
func TestTwoWritersOfOneValueConflict(t *testing.T) {
	type n struct{ N int }
	g := ready(t, writes[trail](give(n{1}), give(n{2}), give(n{3})), nil)
	out, err := g.Run(t.Context(), trail{N: 7})
	wantText(t, err, `graph "writes": node "b" (step 1): field n: written by a and b in one step without a reducer: give its type a Reduce method`)
	e, ok := errors.AsType[*treadle.ConflictError](err)
	if !ok || e.Field != "n" || !slices.Equal(e.Nodes, []string{"a", "b"}) || e.Overwrite {
		t.Errorf("the conflict is %+v", e)
	}
	if out.N != 7 {
		t.Errorf("the failed step left %d, want 7", out.N)
	}
	// A conflict counts even if both write the same, and the zero.
	_, err = ready(t, writes[trail](give(n{}), give(n{})), nil).Run(t.Context(), trail{})
	if _, ok := errors.AsType[*treadle.ConflictError](err); !ok {
		t.Errorf("two writers of zero give %v", err)
	}
	// Two tasks of one node conflict, too.
	b := treadle.New[trail]("sent")
	w := treadle.AddNode(b, "w", func(_ context.Context, i int) (n, error) { return n{i}, nil })
	treadle.AddBranch(b, treadle.Start, func(context.Context, trail) (treadle.Goto, error) {
		return slices.Concat(treadle.Send(w, 1), treadle.Send(w, 2)), nil
	}, "w")
	_, err = ready(t, b, nil).Run(t.Context(), trail{})
	wantText(t, err, `graph "sent": node "w" (step 1): field n: written twice by w in one step without a reducer: give its type a Reduce method`)
}

// Parity: 11, 21. Several writers of a list all count, in a fixed order: again
// and again.
func TestListWritesKeepOrder(t *testing.T) {
	b := trailOf("one", "two", "join")
	b.Edge(treadle.Start, "one")
	b.Edge(treadle.Start, "two")
	b.Join([]any{"one", "two"}, "join")
	g := ready(t, b, nil)
	for range 100 {
		if got := walk(t, g, "in"); got != "in one two join" {
			t.Fatalf("the trail is %q", got)
		}
	}
}

// Parity: 108. An overwrite replaces the accumulated value, takes precedence over other
// updates of its step, and conflicts with a second overwrite.
func TestOverwriteReplacesValue(t *testing.T) {
	type over struct {
		Log treadle.Overwrite[reduce.List[string]]
	}
	overwrite := func(s string) func(context.Context, struct{}) (over, error) {
		return func(context.Context, struct{}) (over, error) {
			return over{treadle.Overwrite[reduce.List[string]]{Value: reduce.List[string]{s}}}, nil
		}
	}
	sequence := trailOf("a", "c")
	treadle.AddNode(sequence, "b", overwrite("b"))
	sequence.Edge(treadle.Start, "a")
	sequence.Sequence("a", "b", "c")
	if got := walk(t, ready(t, sequence, nil), "in"); got != "b c" {
		t.Errorf("in a sequence the trail is %q, want b c", got)
	}
	// Both orders: the overwrite comes before the plain update, or after it.
	for _, plain := range []string{"a", "z"} {
		b := trailOf(plain, "zz")
		treadle.AddNode(b, "b", overwrite("b"))
		b.Edge(treadle.Start, plain)
		b.Edge(treadle.Start, "b")
		b.Edge("b", "zz")
		if got := walk(t, ready(t, b, nil), "in"); got != "b zz" {
			t.Errorf("with %s the trail is %q, want b zz", plain, got)
		}
	}
	twice := trailOf("a")
	treadle.AddNode(twice, "b", overwrite("b"))
	treadle.AddNode(twice, "c", overwrite("c"))
	for _, n := range []string{"a", "b", "c"} {
		twice.Edge(treadle.Start, n)
	}
	_, err := ready(t, twice, nil).Run(t.Context(), trail{})
	wantText(t, err, `graph "path": node "c" (step 1): field log: overwritten by b and c in one step: a step may overwrite a field only once`)
	if e, ok := errors.AsType[*treadle.ConflictError](err); !ok || !e.Overwrite {
		t.Errorf("%v is not a conflict of overwrites", err)
	}
	// A stored list is replaced as well.
	g := ready(t, sequence, &treadle.Options{Saver: checkpoint.NewMemory()})
	for range 2 {
		out, err := g.Thread("1").Run(t.Context(), trail{Log: reduce.List[string]{"in", "in"}})
		if err != nil || !slices.Equal(out.Log, words{"b", "c"}) {
			t.Errorf("on a thread the trail is %v, %v", out.Log, err)
		}
	}
	snap, err := g.Thread("1").State(t.Context())
	if err != nil || snap.State.String() != `{"log":["b","c"]}` {
		t.Errorf("the thread holds %v, %v", snap.State, err)
	}
}

// An overwrite may be optional, may be of a field that holds one value, and may
// be in an Update.
func TestOverwriteInOtherPlaces(t *testing.T) {
	type optional struct {
		Log *treadle.Overwrite[reduce.List[string]]
		N   treadle.Overwrite[int]
	}
	b := treadle.New[trail]("over")
	treadle.AddNode(b, "a", func(context.Context, struct{}) (optional, error) {
		return optional{N: treadle.Overwrite[int]{Value: 5}}, nil
	})
	treadle.AddNode(b, "b", func(context.Context, struct{}) (treadle.Update, error) {
		return treadle.Update{"log": treadle.Overwrite[reduce.List[string]]{Value: reduce.List[string]{"b"}}}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	out, err := ready(t, b, nil).Run(t.Context(), trail{Log: reduce.List[string]{"in"}, N: 1})
	if err != nil || out.N != 5 || !slices.Equal(out.Log, words{"b"}) {
		t.Errorf("the output is %+v, %v", out, err)
	}
	root := treadle.New[words]("root")
	treadle.AddNode(root, "a", func(context.Context, words) (treadle.Overwrite[words], error) {
		return treadle.Overwrite[words]{Value: words{"a"}}, nil
	})
	root.Edge(treadle.Start, "a")
	list, err := ready(t, root, nil).Run(t.Context(), words{"in"})
	if err != nil || !slices.Equal(list, words{"a"}) {
		t.Errorf("of one value the output is %v, %v", list, err)
	}
}

// Parity: 169. In JSON an overwrite has two forms.
func TestOverwriteHasTwoFormsInJSON(t *testing.T) {
	b := trailOf("a")
	b.Edge(treadle.Start, "a")
	for _, test := range []struct{ input, want string }{
		{`{"log":["x"]}`, `["in","a","x","a"]`},
		{`{"log":{"__overwrite__":["x"]}}`, `["x","a"]`},
		{`{"log":{"type":"__overwrite__","value":["x"]}}`, `["x","a"]`},
	} {
		g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
		if _, err := g.Thread("1").Run(t.Context(), trail{Log: reduce.List[string]{"in"}}); err != nil {
			t.Fatal(err)
		}
		out, err := dynamic.Open(g, "1").RunJSON(t.Context(), json.RawMessage(test.input))
		if want := `{"log":` + test.want + `}`; err != nil || string(out) != want {
			t.Errorf("%s gives %s, %v, want %s", test.input, out, err, want)
		}
	}
	// It needs to be just that.
	_, err := dynamic.Open(ready(t, b, nil), "").RunJSON(t.Context(), json.RawMessage(`{"log":{"__overwrite__":["x"],"more":1}}`))
	if _, ok := errors.AsType[*treadle.UpdateError](err); !ok {
		t.Errorf("an overwrite with another key gives %v", err)
	}
}

// An ephemeral field is present only in the step after the write.
func TestEphemeralFieldLivesForOneStep(t *testing.T) {
	type state struct {
		Keep  string `json:"keep"`
		Brief string `json:"brief" treadle:"ephemeral"`
	}
	type keep struct{ Keep string }
	b := treadle.New[state]("ephemeral")
	treadle.AddNode(b, "a", func(_ context.Context, s state) (struct{ Brief string }, error) {
		return struct{ Brief string }{s.Brief + "x"}, nil
	})
	look := func(_ context.Context, s state) (keep, error) { return keep{s.Keep + "|" + s.Brief}, nil }
	treadle.AddNode(b, "b", look)
	treadle.AddNode(b, "c", look)
	b.Edge(treadle.Start, "a")
	b.Sequence("a", "b", "c")
	thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("1")
	out, err := thread.Run(t.Context(), state{Keep: "in", Brief: "i"})
	if err != nil || out != (state{Keep: "in|ix|"}) {
		t.Errorf("the output is %+v, %v", out, err)
	}
	var held []string
	for snap, err := range thread.History(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, snap.State.String())
	}
	slices.Reverse(held)
	want := []string{`{}`, `{"keep":"in","brief":"i"}`, `{"keep":"in","brief":"ix"}`, `{"keep":"in|ix"}`, `{"keep":"in|ix|"}`}
	if diff := cmp.Diff(want, held); diff != "" {
		t.Errorf("the checkpoints differ (-want +got):\n%s", diff)
	}
}

// An untracked field lives as long as the run, takes any type, and is never
// stored.
//
// Parity: 167.
func TestUntrackedFieldIsNeverStored(t *testing.T) {
	type state struct {
		Log  reduce.List[string] `json:"log"`
		Call func() string       `json:"call" treadle:"untracked"`
	}
	saver := checkpoint.NewMemory()
	b := treadle.New[state]("untracked")
	look := func(_ context.Context, s state) (trod, error) {
		if s.Call == nil {
			return trod{reduce.List[string]{"nothing"}}, nil
		}
		return trod{reduce.List[string]{s.Call()}}, nil
	}
	treadle.AddNode(b, "a", look)
	treadle.AddNode(b, "b", look)
	treadle.AddNode(b, "c", look)
	b.Edge(treadle.Start, "a")
	b.Sequence("a", "b", "c")
	g := ready(t, b, &treadle.Options{Saver: saver})
	in := state{Call: func() string { return "called" }}
	out, err := g.Thread("1").Run(t.Context(), in)
	if err != nil || !slices.Equal(out.Log, words{"called", "called", "called"}) || out.Call == nil {
		t.Errorf("in one run the log is %v, %v", out.Log, err)
	}
	if _, err := g.Thread("2", treadle.StepLimit(1)).Run(t.Context(), in); err == nil {
		t.Fatal("a limit of 1 is enough")
	}
	out, err = g.Thread("2").Continue(t.Context())
	if err != nil || !slices.Equal(out.Log, words{"called", "nothing", "nothing"}) {
		t.Errorf("continued, the log is %v, %v", out.Log, err)
	}
	for _, id := range []string{"1", "2"} {
		for cp, err := range saver.List(t.Context(), checkpoint.Query{Thread: id}) {
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := cp.Values["call"]; ok || strings.Contains(string(cp.Control), "call\"") {
				t.Errorf("checkpoint %d of thread %s holds the field: %s", cp.Step, id, cp.Control)
			}
		}
	}
}

// The result of a task that is kept because its sibling failed does not hold
// its untracked fields either.
func TestUntrackedFieldOfSavedResult(t *testing.T) {
	type state struct {
		N    int         `json:"n"`
		Conn chan string `json:"conn" treadle:"untracked"`
	}
	type out struct {
		N    int
		Conn chan string
	}
	runs, fail := 0, true
	b := treadle.New[state]("kept")
	treadle.AddNode(b, "a", func(context.Context, struct{}) (out, error) {
		runs++
		return out{7, make(chan string)}, nil
	})
	treadle.AddNode(b, "b", func(context.Context, struct{}) (struct{}, error) {
		if fail {
			return struct{}{}, errors.New("once")
		}
		return struct{}{}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b")
	thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory(), MaxConcurrency: 1}).Thread("1")
	if _, err := thread.Run(t.Context(), state{}); err == nil {
		t.Fatal("b does not fail")
	}
	fail = false
	final, err := thread.Continue(t.Context())
	if err != nil || final.N != 7 || final.Conn != nil || runs != 1 {
		t.Errorf("the output is %+v, %v after %d runs of a, want its result kept without the channel", final, err, runs)
	}
}

// An embedded struct contributes its fields, at any depth; a node may embed the
// same one.
func TestEmbeddedStructsContributeTheirFields(t *testing.T) {
	type base struct {
		Messages reduce.List[string] `json:"messages"`
	}
	type middle struct {
		base
		Count reduce.Sum[int] `json:"count"`
	}
	type state struct {
		middle
		Summary string `json:"summary"`
	}
	b := treadle.New[state]("embedded")
	treadle.AddNode(b, "a", func(_ context.Context, s base) (middle, error) {
		return middle{base{reduce.List[string]{fmt.Sprint("saw ", len(s.Messages))}}, reduce.SumOf(1)}, nil
	})
	treadle.AddNode(b, "b", func(_ context.Context, s state) (struct{ Summary string }, error) {
		return struct{ Summary string }{fmt.Sprint(s.Messages, s.Count)}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	var in state
	in.Messages = reduce.List[string]{"hi"}
	out, err := g.Thread("1").Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := asJSON(t, out), `{"messages":["hi","saw 1"],"count":1,"summary":"[hi saw 1] 1"}`; got != want {
		t.Errorf("the output is %s, want %s", got, want)
	}
	snap, err := g.Thread("1").State(t.Context())
	if err != nil || snap.State.String() != asJSON(t, out) {
		t.Errorf("the thread holds %v, %v", snap.State, err)
	}
	var part base
	if err := snap.Read(&part); err != nil || len(part.Messages) != 2 {
		t.Errorf("an embedded part reads as %v, %v", part, err)
	}
}

// A state that is not a struct is one field, with a reducer or without.
//
// Parity: 8, 9.
func TestSingleValueState(t *testing.T) {
	b := treadle.New[int]("number")
	treadle.AddNode(b, "inc", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	treadle.AddNode(b, "double", func(_ context.Context, n int) (int, error) { return n * 2, nil })
	b.Edge(treadle.Start, "inc")
	b.Edge("inc", "double")
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	out, err := g.Run(t.Context(), 1)
	if err != nil || out != 4 {
		t.Errorf("the output is %d, %v, want 4", out, err)
	}
	if diff := cmp.Diff([]string{"1", "2", "4"}, updatesOf(t, g, 1, treadle.ModeValues)); diff != "" {
		t.Errorf("the values differ (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`{"inc":2}`, `{"double":4}`}, updatesOf(t, g, 1, treadle.ModeUpdates)); diff != "" {
		t.Errorf("the updates differ (-want +got):\n%s", diff)
	}
	if _, err := g.With(treadle.StepLimit(1)).Run(t.Context(), 1); err == nil {
		t.Error("two nodes fit into one step")
	}
	if out, err = g.Thread("1").Run(t.Context(), 5); err != nil || out != 12 {
		t.Errorf("on a thread the output is %d, %v", out, err)
	}
	snap, err := g.Thread("1").State(t.Context())
	var n int
	if err == nil {
		err = snap.Read(&n)
	}
	if err != nil || n != 12 || snap.State.String() != "12" {
		t.Errorf("the thread holds %v, %v", snap.State, err)
	}
	raw, err := dynamic.Open(g, "").RunJSON(t.Context(), json.RawMessage("20"))
	if err != nil || string(raw) != "42" {
		t.Errorf("as JSON the output is %s, %v", raw, err)
	}
}

// A node of this graph may take nothing, a number from a send, or the value; it returns an
// update, nothing, or control.
func TestNodesOfSingleValueState(t *testing.T) {
	b := treadle.New[words]("list")
	treadle.AddNode(b, "a", say("a"))
	treadle.AddNode(b, "b", func(context.Context, words) (*words, error) { return nil, nil })
	treadle.AddNode(b, "c", func(_ context.Context, s words) (words, error) { return words{fmt.Sprint(len(s))}, nil })
	b.Edge(treadle.Start, "a")
	b.Sequence("a", "b", "c")
	g := ready(t, b, nil)
	out, err := g.Run(t.Context(), words{"in"})
	if err != nil || !slices.Equal(out, words{"in", "a", "2"}) {
		t.Errorf("the output is %v, %v", out, err)
	}
	bad := treadle.New[words]("bad")
	treadle.AddNode(bad, "a", func(context.Context, words) (int, error) { return 0, nil })
	bad.Edge(treadle.Start, "a")
	_, err = bad.Compile(nil)
	wantText(t, err, `graph "bad": node "a": int is not an update of the state reduce.List[string]: want reduce.List[string]`)
}

// Parity: 129. A thread of this graph is edited with updates of the value.
func TestEditOfSingleValueState(t *testing.T) {
	b := treadle.New[words]("list")
	treadle.AddNode(b, "a", say("a"))
	treadle.AddNode(b, "b", say("b"))
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("1", treadle.StepLimit(1))
	if _, err := thread.Run(t.Context(), words{"in"}); err == nil {
		t.Fatal("a limit of 1 is enough")
	}
	if _, err := thread.Update(t.Context(), words{"edit"}); err != nil {
		t.Fatal(err)
	}
	out, err := thread.Continue(t.Context())
	if err != nil || !slices.Equal(out, words{"in", "a", "edit", "b"}) {
		t.Errorf("the output is %v, %v", out, err)
	}
	if _, err := thread.Update(t.Context(), treadle.Overwrite[words]{Value: words{"new"}}, treadle.AsNode("a")); err != nil {
		t.Fatal(err)
	}
	out, err = thread.Continue(t.Context())
	if err != nil || !slices.Equal(out, words{"new", "b"}) {
		t.Errorf("after the overwrite the output is %v, %v", out, err)
	}
	_, err = thread.Update(t.Context(), 7, treadle.AsNode("a"))
	wantText(t, err, `graph "list": update: int is not an update of the state reduce.List[string]: want reduce.List[string]`)
}

// A dynamic state is a checked map.
func TestDynamicState(t *testing.T) {
	b := treadle.New[treadle.Update]("dynamic")
	treadle.AddField[string](b, "topic")
	treadle.AddField[reduce.List[string]](b, "log")
	treadle.AddField[int](b, "n")
	b.Initial(treadle.Update{"n": 40})
	treadle.AddNode(b, "a", func(_ context.Context, s treadle.Update) (treadle.Update, error) {
		_, there := s["topic"]
		return treadle.Update{"log": reduce.List[string]{fmt.Sprint("topic ", there)}, "n": s["n"].(int) + 2}, nil
	})
	// A struct may be read and written too, by JSON names.
	type typed struct {
		Topic string `json:"topic"`
	}
	treadle.AddNode(b, "b", func(_ context.Context, s typed) (typed, error) { return typed{s.Topic + "!"}, nil })
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	out, err := g.Thread("1").Run(t.Context(), treadle.Update{"topic": "owls"})
	want := treadle.Update{"topic": "owls!", "log": reduce.List[string]{"topic true"}, "n": 42}
	if diff := cmp.Diff(want, out); err != nil || diff != "" {
		t.Errorf("the output differs, %v (-want +got):\n%s", err, diff)
	}
	out, err = g.Run(t.Context(), treadle.Update{})
	want = treadle.Update{"topic": "!", "log": reduce.List[string]{"topic false"}, "n": 42}
	if diff := cmp.Diff(want, out); err != nil || diff != "" {
		t.Errorf("without input the output differs, %v (-want +got):\n%s", err, diff)
	}
	snap, err := g.Thread("1").State(t.Context())
	var kept treadle.Update
	if err == nil {
		err = snap.Read(&kept)
	}
	if err != nil || kept["n"] != 42 || kept["topic"] != "owls!" {
		t.Errorf("the thread holds %v, %v", kept, err)
	}
}

// An Update is checked against the fields: names and types.
func TestUpdateMayNameFieldsAsGoDoes(t *testing.T) {
	b := treadle.New[draft]("names")
	treadle.AddNode(b, "a", func(context.Context, draft) (treadle.Update, error) { return treadle.Update{"Topic": "x"}, nil })
	b.Edge(treadle.Start, "a")
	out, err := treadle.Must(b.Compile(nil)).Run(t.Context(), draft{})
	if err != nil || out.Topic != "x" {
		t.Errorf("the topic is %q, %v", out.Topic, err)
	}
}

func TestInvalidUpdate(t *testing.T) {
	for _, test := range []struct {
		name   string
		update treadle.Update
		field  string
		want   string
	}{
		{"unknown key", treadle.Update{"tpoic": "x"}, "tpoic", `field tpoic: unknown field; the state has Notes, count, log, topic`},
		{"several unknown keys", treadle.Update{"zz": 1, "tpoic": "x", "a": 1}, "a", `field a: unknown field; the state has Notes, count, log, topic`},
		{"by both names", treadle.Update{"Topic": "x", "topic": "y"}, "topic", `field topic: given twice, as topic and as Topic`},
		{"wrong type", treadle.Update{"topic": 1}, "topic", `field topic: is int, but updates of this field are string`},
		{"nil", treadle.Update{"topic": nil}, "topic", `field topic: nil is not a string`},
		{"wrong element", treadle.Update{"log": []int{1}}, "log", `field log: is []int, but updates of this field are reduce.List[string]`},
		{"wrong overwrite", treadle.Update{"log": treadle.Overwrite[int]{Value: 1}}, "log", `field log: overwrites with int, but the field is reduce.List[string]`},
		{"wrong JSON", treadle.Update{"topic": json.RawMessage("1")}, "topic", `field topic: want string: json: cannot unmarshal number into Go value of type string`},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := treadle.New[draft]("fit")
			treadle.AddNode(b, "a", func(context.Context, draft) (treadle.Update, error) { return test.update, nil })
			b.Edge(treadle.Start, "a")
			_, err := ready(t, b, nil).Run(t.Context(), draft{})
			wantText(t, err, `graph "fit": node "a" (step 1): update: `+test.want)
			if e, ok := errors.AsType[*treadle.UpdateError](err); !ok || e.Field != test.field || e.Graph != "fit" {
				t.Errorf("the error is %+v", e)
			}

			// The same applies to an edit of a thread, which no node causes.
			thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()}).Thread("1")
			_, err = thread.Update(t.Context(), test.update)
			wantText(t, err, `graph "fit": update: `+test.want)
		})
	}
}

// Valid updates are accepted, even if the types are only convertible.
func TestValidUpdate(t *testing.T) {
	b := treadle.New[draft]("fit")
	treadle.AddNode(b, "a", func(context.Context, draft) (treadle.Update, error) {
		return treadle.Update{"topic": "owls", "log": []string{"plain slice"}, "count": json.RawMessage("3"), "Notes": map[string]string{"k": "v"}}, nil
	})
	treadle.AddNode(b, "b", func(context.Context, draft) (treadle.Update, error) { return treadle.Update{"log": nil}, nil })
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	out, err := ready(t, b, nil).Run(t.Context(), draft{})
	want := draft{"owls", reduce.List[string]{"plain slice"}, reduce.SumOf(3), reduce.Map[string, string]{"k": "v"}}
	if diff := cmp.Diff(want, out); err != nil || diff != "" {
		t.Errorf("the output differs, %v (-want +got):\n%s", err, diff)
	}
}

// Initial values apply to new runs and new threads; an input is applied after them.
func TestInitialValues(t *testing.T) {
	b := trailOf("a")
	b.Edge(treadle.Start, "a")
	b.Initial(trail{Log: reduce.List[string]{"first"}, N: 3})
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	for range 2 { // the runs do not share a list
		out, err := g.Run(t.Context(), trail{Log: reduce.List[string]{"in"}})
		if err != nil || !slices.Equal(out.Log, words{"first", "in", "a"}) || out.N != 3 {
			t.Errorf("the output is %+v, %v", out, err)
		}
	}
	if _, err := g.Thread("1").Run(t.Context(), trail{N: 9}); err != nil {
		t.Fatal(err)
	}
	out, err := g.Thread("1").Run(t.Context(), trail{})
	if err != nil || !slices.Equal(out.Log, words{"first", "a", "a"}) || out.N != 9 {
		t.Errorf("on a thread the output is %+v, %v, want the initial values once", out, err)
	}
	var stored trail
	snap, err := g.Thread("1").State(t.Context())
	if err == nil {
		err = snap.Read(&stored)
	}
	if err != nil || !slices.Equal(stored.Log, words{"first", "a", "a"}) {
		t.Errorf("the thread holds %+v, %v", stored, err)
	}
}

type booking struct {
	Guests int    `json:"guests"`
	Room   room   `json:"room"`
	Name   string `json:"name"`
}

type room struct {
	Beds int `json:"beds"`
}

func (b booking) Validate() error {
	if b.Room.Beds > 0 && b.Guests > b.Room.Beds {
		return fmt.Errorf("%d guests in %d beds", b.Guests, b.Room.Beds)
	}
	return nil
}

// Validate has a pointer receiver, which counts as well.
func (r *room) Validate() error {
	if r.Beds > 9 {
		return fmt.Errorf("a room with %d beds", r.Beds)
	}
	return nil
}

func TestSavedThreadGetsInitialOfNewField(t *testing.T) {
	saver := checkpoint.NewMemory()
	type before struct {
		Name string `json:"name"`
	}
	old := treadle.New[before]("loan")
	treadle.AddNode(old, "ask", func(ctx context.Context, _ before) (treadle.Update, error) {
		_, err := treadle.Interrupt[bool](ctx, "Approve?")
		return nil, err
	})
	old.Edge(treadle.Start, "ask")
	if _, err := treadle.Must(old.Compile(&treadle.Options{Saver: saver})).Thread("1").Run(t.Context(), before{"Ann"}); !treadle.IsPause(err) {
		t.Fatal(err)
	}
	type after struct {
		Name string  `json:"name"`
		Rate float64 `json:"rate"`
	}
	b := treadle.New[after]("loan")
	b.Initial(after{Rate: 4.5})
	treadle.AddNode(b, "ask", func(ctx context.Context, s after) (treadle.Update, error) {
		_, err := treadle.Interrupt[bool](ctx, "Approve?")
		return treadle.Update{"name": fmt.Sprint(s.Name, " at ", s.Rate)}, err
	})
	b.Edge(treadle.Start, "ask")
	out, err := treadle.Must(b.Compile(&treadle.Options{Saver: saver})).Thread("1").Resume(t.Context(), true)
	if want := (after{"Ann at 4.5", 4.5}); err != nil || out != want {
		t.Errorf("state %+v, want %+v: %v", out, want, err)
	}
}

// Parity: 30. A state and its fields are validated on input, at every commit
// and on an edit. What is not valid is not committed.
func TestValidatedState(t *testing.T) {
	type rooms struct{ Room room }
	build := func(beds int) *treadle.Graph[booking, booking] {
		b := treadle.New[booking]("hotel")
		treadle.AddNode(b, "assign", func(context.Context, booking) (rooms, error) { return rooms{room{beds}}, nil })
		b.Edge(treadle.Start, "assign")
		return ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	}
	out, err := build(2).Thread("1").Run(t.Context(), booking{Guests: 2})
	if err != nil || out.Room.Beds != 2 {
		t.Errorf("a valid booking gives %+v, %v", out, err)
	}
	for _, test := range []struct {
		name string
		beds int
		in   booking
		want string
		left booking
	}{
		{"the input", 2, booking{Guests: 3, Room: room{2}}, `graph "hotel": invalid input: 3 guests in 2 beds`, booking{}},
		{"a field of the input", 2, booking{Room: room{10}}, `graph "hotel": node "__start__" (step 0): invalid field room: a room with 10 beds`, booking{}},
		{"the state", 2, booking{Guests: 3}, `graph "hotel": node "assign" (step 1): invalid state: 3 guests in 2 beds`, booking{Guests: 3}},
		{"a field", 10, booking{Guests: 3}, `graph "hotel": node "assign" (step 1): invalid field room: a room with 10 beds`, booking{Guests: 3}},
	} {
		thread := build(test.beds).Thread("1")
		out, err := thread.Run(t.Context(), test.in)
		wantText(t, err, test.want)
		if _, ok := errors.AsType[*treadle.ValidationError](err); !ok {
			t.Errorf("%s: %T holds no ValidationError", test.name, err)
		}
		if out != test.left {
			t.Errorf("%s: the output is %+v, want %+v", test.name, out, test.left)
		}
	}
	thread := build(2).Thread("1")
	if _, err := thread.Run(t.Context(), booking{Guests: 2}); err != nil {
		t.Fatal(err)
	}
	_, err = thread.Update(t.Context(), treadle.Update{"guests": 5})
	wantText(t, err, `graph "hotel": node "assign" (step 2): invalid state: 5 guests in 2 beds`)
	snap, err := thread.State(t.Context())
	if got, _ := snap.State.Get("guests"); err != nil || got != 2 {
		t.Errorf("after the rejected edit: %v guests, %v", got, err)
	}
}

// An input decoded from JSON is validated like any other.
func TestValidatedStateFromJSON(t *testing.T) {
	b := treadle.New[booking]("hotel")
	treadle.AddNode(b, "a", func(context.Context, booking) (struct{}, error) { return struct{}{}, nil })
	b.Edge(treadle.Start, "a")
	_, err := dynamic.Open(ready(t, b, nil), "").RunJSON(t.Context(), json.RawMessage(`{"guests":3,"room":{"beds":2}}`))
	wantText(t, err, `graph "hotel": node "__start__" (step 0): invalid state: 3 guests in 2 beds`)
}

// Parity: 47. A field that was never written is absent from snapshots, streams, and JSON.
// A written field is present, even if it is zero.
func TestAbsentIsNotZero(t *testing.T) {
	type state struct {
		Foo string              `json:"foo"`
		Bar int                 `json:"bar"`
		Log reduce.List[string] `json:"log"`
	}
	type bar struct{ Bar int }
	b := treadle.New[state]("absent")
	treadle.AddNode(b, "a", func(context.Context, state) (bar, error) { return bar{0}, nil })
	b.Edge(treadle.Start, "a")
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	if diff := cmp.Diff([]string{`{"bar":0,"log":[]}`}, updatesOf(t, g, state{}, treadle.ModeValues)); diff != "" {
		t.Errorf("the values differ (-want +got):\n%s", diff)
	}
	if _, err := g.Thread("1").Run(t.Context(), state{}); err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread("1").State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]bool{"foo": false, "Foo": false, "bar": true, "Bar": true, "log": true, "nonsense": false} {
		if got := snap.Has(field); got != want {
			t.Errorf("%s is present: %t, want %t", field, got, want)
		}
	}
	if got := snap.State.Names(); !slices.Equal(got, []string{"bar", "log"}) {
		t.Errorf("the names are %v", got)
	}
	raw, err := dynamic.Open(g, "").RunJSON(t.Context(), json.RawMessage(`{}`))
	if err != nil || string(raw) != `{"bar":0,"log":[]}` {
		t.Errorf("as JSON the output is %s, %v", raw, err)
	}
	out := state{Foo: "left over"}
	if err := snap.Read(&out); err != nil || out.Foo != "" {
		t.Errorf("an absent field reads as %q, %v", out.Foo, err)
	}
}

// Parity: 88. A node writes exactly the fields of its result: a zero field is written, and
// a nil optional field is not.
func TestZeroIsWrittenNilIsNot(t *testing.T) {
	type state struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
		Next  *int   `json:"next"`
	}
	type out struct {
		Name  string
		Count *int
		Next  *int
	}
	b := treadle.New[state]("zero")
	treadle.AddNode(b, "a", func(context.Context, state) (out, error) { return out{}, nil })
	b.Edge(treadle.Start, "a")
	seven := 7
	res, err := ready(t, b, nil).Run(t.Context(), state{"owl", 3, &seven})
	if err != nil || res.Name != "" || res.Count != 3 || res.Next != nil {
		t.Errorf("the output is %+v, %v, want the name cleared, the count kept and, being of pointer type itself, next cleared", res, err)
	}
}

// A whole state may be returned where nothing accumulates.
func TestWholeStateMayBeReturned(t *testing.T) {
	type state struct {
		A, B int
	}
	b := treadle.New[state]("whole")
	treadle.AddNode(b, "a", func(_ context.Context, s state) (state, error) {
		s.A++
		return s, nil
	})
	treadle.AddNode(b, "b", func(_ context.Context, s state) (*state, error) {
		if s.A < 5 {
			return nil, nil
		}
		return &state{}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	g := ready(t, b, nil)
	for in, want := range map[state]state{{1, 1}: {2, 1}, {4, 1}: {0, 0}} {
		if out, err := g.Run(t.Context(), in); err != nil || out != want {
			t.Errorf("%v gives %v, %v, want %v", in, out, err, want)
		}
	}
}

// Parity: 92. An input with nothing in it is an input.
func TestEmptyInput(t *testing.T) {
	b := trailOf("a")
	b.Edge(treadle.Start, "a")
	g := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	if got := walk(t, g); got != "a" {
		t.Errorf("the trail is %q", got)
	}
	raw, err := dynamic.Open(g, "").RunJSON(t.Context(), json.RawMessage(`{}`))
	if err != nil || string(raw) != `{"log":["a"]}` {
		t.Errorf("as JSON: %s, %v", raw, err)
	}
	// nil is not an input.
	_, err = dynamic.Open(g, "new").RunJSON(t.Context(), nil)
	if !errors.Is(err, treadle.ErrNothingToContinue) {
		t.Errorf("without input a fresh thread gives %v", err)
	}
}

// Turn two with only one field set keeps the others; a zero cannot be written
// by an input of the state's type, but by a declared one.
func TestInputWritesItsNonZeroFields(t *testing.T) {
	type state struct {
		Topic, Style string
	}
	b := treadle.New[state]("turns")
	treadle.AddNode(b, "a", func(context.Context, state) (struct{}, error) { return struct{}{}, nil })
	b.Edge(treadle.Start, "a")
	saver := checkpoint.NewMemory()
	g := ready(t, b, &treadle.Options{Saver: saver})
	for _, turn := range []struct{ in, want state }{
		{state{"owls", "dry"}, state{"owls", "dry"}},
		{state{Topic: "cats"}, state{"cats", "dry"}},
	} {
		if out, err := g.Thread("1").Run(t.Context(), turn.in); err != nil || out != turn.want {
			t.Errorf("the output is %+v, %v, want %+v", out, err, turn.want)
		}
	}
	type ask struct{ Topic string }
	narrow, err := treadle.Compile[ask, state](b, &treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := narrow.Thread("1").Run(t.Context(), ask{}); err != nil || out != (state{Style: "dry"}) {
		t.Errorf("a declared input gives %+v, %v, want the topic cleared", out, err)
	}
}

// Parity: 6. Nodes have their own input types, private fields pass between them, the
// output is filtered, and keys outside the input type are dropped.
func TestInputOutputAndPrivateFields(t *testing.T) {
	type state struct {
		Hello string `json:"hello"`
		Bye   string `json:"bye"`
		Msgs  reduce.List[string]
	}
	type ask struct{ Hello string }
	type answer struct {
		Msgs  reduce.List[string]
		Hello string
	}
	type hidden struct {
		Bye string
		Now int `json:"now"`
	}
	b := treadle.New[state]("schemas")
	var sawA, sawB string
	treadle.AddNode(b, "a", func(_ context.Context, s state) (hidden, error) {
		sawA = asText(s)
		return hidden{"gone", 123}, nil
	})
	treadle.AddNode(b, "b", func(_ context.Context, h hidden) (struct{ Msgs reduce.List[string] }, error) {
		sawB = asText(h)
		return struct{ Msgs reduce.List[string] }{reduce.List[string]{"hi"}}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	saver := checkpoint.NewMemory()
	g, err := treadle.Compile[ask, answer](b, &treadle.Options{Saver: saver})
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Run(t.Context(), ask{"there"})
	if err != nil || asText(out) != `{"Msgs":["hi"],"Hello":"there"}` {
		t.Errorf("the output is %s, %v", asText(out), err)
	}
	if want := `{"hello":"there","bye":"","Msgs":[]}`; sawA != want {
		t.Errorf("a saw %s, want %s", sawA, want)
	}
	if want := `{"Bye":"gone","now":123}`; sawB != want {
		t.Errorf("b saw %s, want %s", sawB, want)
	}
	raw, err := dynamic.Open(g, "1").RunJSON(t.Context(), json.RawMessage(`{"hello":"json","bye":"dropped","Msgs":["dropped"]}`))
	if err != nil || string(raw) != `{"Msgs":["hi"],"hello":"json"}` {
		t.Errorf("as JSON the output is %s, %v", raw, err)
	}
	_, err = dynamic.Open(g, "").RunJSON(t.Context(), json.RawMessage(`{"hello":"json","misspelled":1}`))
	wantText(t, err, `graph "schemas": update: field misspelled: unknown field; the state has Msgs, bye, hello, now`)
	// A private field is saved: a stopped run continues with it.
	if _, err := g.Thread("2", treadle.StepLimit(1)).Run(t.Context(), ask{"x"}); err == nil {
		t.Fatal("a limit of 1 is enough")
	}
	sawB = ""
	if _, err := g.Thread("2").Continue(t.Context()); err != nil || sawB != `{"Bye":"gone","now":123}` {
		t.Errorf("continued, b saw %s, %v", sawB, err)
	}
}

func asText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Parity: 207. A private field that accumulates does so between nodes.
func TestPrivateFieldMayAccumulate(t *testing.T) {
	type secret struct{ Secret reduce.List[string] }
	b := treadle.New[trail]("private")
	for _, n := range []string{"a", "b"} {
		treadle.AddNode(b, n, func(context.Context, struct{}) (secret, error) { return secret{reduce.List[string]{n}}, nil })
		b.Edge(treadle.Start, n)
	}
	treadle.AddNode(b, "c", func(_ context.Context, s secret) (trod, error) { return trod{s.Secret}, nil })
	b.Join([]any{"a", "b"}, "c")
	if got := walk(t, ready(t, b, nil)); got != "a b" {
		t.Errorf("the trail is %q, want a b", got)
	}
}

// Parity: 30. Schemas describe the JSON of input, output, and state. The schema of an
// accumulating type describes its contents; in an input, it describes its updates.
func TestSchemasDescribeJSON(t *testing.T) {
	type state struct {
		Topic  string                   `json:"topic"`
		List   reduce.List[string]      `json:"list"`
		Set    reduce.Set[int]          `json:"set"`
		Map    reduce.Map[string, bool] `json:"map"`
		Sum    reduce.Sum[float64]      `json:"sum"`
		Max    reduce.Max[int]          `json:"max"`
		Middle median                   `json:"middle"`
	}
	type ask struct {
		Topic  string
		Middle int
	}
	type answer struct{ List reduce.List[string] }
	b := treadle.New[state]("schemas")
	treadle.AddNode(b, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	b.Edge(treadle.Start, "a")
	g, err := treadle.Compile[ask, answer](b, nil)
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := g.Schemas()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"input":{"type":"object","properties":{"topic":{"type":"string"},"middle":{"type":"integer"}}},` +
		`"output":{"type":"object","properties":{"list":{"type":["null","array"],"items":{"type":"string"}}}},` +
		`"state":{"type":"object","properties":{"topic":{"type":"string"},"list":{"type":["null","array"],"items":{"type":"string"}},` +
		`"set":{"type":["null","array"],"items":{"type":"integer"}},"map":{"type":"object","additionalProperties":{"type":"boolean"}},` +
		`"sum":{"type":"number"},"max":{"type":"integer"},"middle":{"type":["null","array"],"items":{"type":"integer"}}}}}`
	if diff := cmp.Diff(want, asJSON(t, schemas)); diff != "" {
		t.Errorf("the schemas differ (-want +got):\n%s", diff)
	}
	one := treadle.New[words]("one")
	treadle.AddNode(one, "a", say("a"))
	one.Edge(treadle.Start, "a")
	schemas, err = ready(t, one, nil).Schemas()
	if err != nil || asJSON(t, schemas.State) != `{"type":["null","array"],"items":{"type":"string"}}` {
		t.Errorf("the schema of one value is %s, %v", asJSON(t, schemas.State), err)
	}
}

// A renamed field is read from its old key.
func TestRenamedFieldReadsItsOldKey(t *testing.T) {
	type before struct {
		Subject string `json:"subject"`
	}
	type after struct {
		Topic string `json:"topic" treadle:"was=subject"`
	}
	saver := checkpoint.NewMemory()
	old := treadle.New[before]("renamed")
	treadle.AddNode(old, "a", func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil })
	old.Edge(treadle.Start, "a")
	if _, err := ready(t, old, &treadle.Options{Saver: saver}).Thread("1").Run(t.Context(), before{"owls"}); err != nil {
		t.Fatal(err)
	}
	b := treadle.New[after]("renamed")
	treadle.AddNode(b, "a", func(_ context.Context, s after) (after, error) { return after{s.Topic + "!"}, nil })
	b.Edge(treadle.Start, "a")
	thread := ready(t, b, &treadle.Options{Saver: saver}).Thread("1")
	out, err := thread.Run(t.Context(), after{})
	if err != nil || out.Topic != "owls!" {
		t.Errorf("the output is %+v, %v", out, err)
	}
	var first *treadle.Snapshot // with the input
	for snap, err := range thread.History(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		first = snap
	}
	out, err = thread.At(first.ID).Continue(t.Context())
	if err != nil || out.Topic != "owls!" {
		t.Errorf("from the saved input: %+v, %v", out, err)
	}
}

// A field that was renamed twice is read from the latest name that a checkpoint has.
func TestTwiceRenamedFieldReadsLatestName(t *testing.T) {
	type first struct {
		A string `json:"a"`
	}
	type second struct {
		B string `json:"b" treadle:"was=a"`
	}
	type third struct {
		C string `json:"c" treadle:"was=b,was=a"`
	}
	saver := checkpoint.NewMemory()
	idle := func(context.Context, struct{}) (struct{}, error) { return struct{}{}, nil }
	one := treadle.New[first]("renamed")
	treadle.AddNode(one, "n", idle)
	one.Edge(treadle.Start, "n")
	two := treadle.New[second]("renamed")
	treadle.AddNode(two, "n", idle)
	two.Edge(treadle.Start, "n")
	three := treadle.New[third]("renamed")
	treadle.AddNode(three, "n", idle)
	three.Edge(treadle.Start, "n")
	options := &treadle.Options{Saver: saver}
	v1, v2, v3 := ready(t, one, options), ready(t, two, options), ready(t, three, options)

	_, err1 := v1.Thread("1").Run(t.Context(), first{"oldest"})
	_, err2 := v2.Thread("2").Run(t.Context(), second{"newer"})
	_, err3 := v1.Thread("3").Run(t.Context(), first{"oldest"})
	_, err4 := v2.Thread("3").Run(t.Context(), second{"newer"})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	for thread, want := range map[string]string{"1": "oldest", "2": "newer", "3": "newer"} {
		if out, err := v3.Thread(thread).Run(t.Context(), third{}); err != nil || out.C != want {
			t.Errorf("thread %s: %+v, %v; want %s", thread, out, err, want)
		}
	}
}

// The saved result of a finished task keeps the value of a renamed field.
func TestRenamedFieldOfFinishedTask(t *testing.T) {
	type before struct {
		Subject string `json:"subject"`
		Asked   string
	}
	type after struct {
		Topic string `json:"topic" treadle:"was=subject"`
		Asked string
	}
	type asked struct{ Asked string }
	ask := func(ctx context.Context, _ struct{}) (asked, error) {
		v, err := treadle.Interrupt[string](ctx, "sure?")
		return asked{v}, err
	}
	type subject struct{ Subject string }
	saver := checkpoint.NewMemory()
	old := treadle.New[before]("pending")
	treadle.AddNode(old, "ask", ask)
	treadle.AddNode(old, "write", func(context.Context, struct{}) (subject, error) { return subject{"owls"}, nil })
	old.Edge(treadle.Start, "ask")
	old.Edge(treadle.Start, "write")
	if _, err := ready(t, old, &treadle.Options{Saver: saver}).Thread("1").Run(t.Context(), before{}); !treadle.IsPause(err) {
		t.Fatal(err)
	}
	type topic struct{ Topic string }
	b := treadle.New[after]("pending")
	treadle.AddNode(b, "ask", ask)
	treadle.AddNode(b, "write", func(context.Context, struct{}) (topic, error) { return topic{"again"}, nil })
	b.Edge(treadle.Start, "ask")
	b.Edge(treadle.Start, "write")
	out, err := ready(t, b, &treadle.Options{Saver: saver}).Thread("1").Resume(t.Context(), "yes")
	if err != nil || out != (after{"owls", "yes"}) {
		t.Errorf("result: %+v, %v; want owls and yes", out, err)
	}
}

// A saved Send keeps the value of a renamed field of its input.
func TestRenamedFieldOfSendInput(t *testing.T) {
	type state struct{ Out string }
	type before struct {
		Subject string `json:"subject"`
		Other   int
	}
	type after struct {
		Topic string `json:"topic" treadle:"was=title,was=subject"`
		Other int
	}
	saver := checkpoint.NewMemory()
	old := treadle.New[state]("sends")
	fan := func(context.Context, struct{}) (treadle.Goto, error) {
		return treadle.Send("n", before{"owls", 7}), nil
	}
	work := treadle.AddNode(old, "n", func(context.Context, before) (state, error) { return state{}, nil })
	treadle.AddBranch(old, treadle.Start, fan, work)
	_, err := ready(t, old, &treadle.Options{Saver: saver}).With(treadle.Before("n")).Thread("1").Run(t.Context(), state{})
	if !treadle.IsPause(err) {
		t.Fatal(err)
	}
	b := treadle.New[state]("sends")
	renamed := treadle.AddNode(b, "n", func(_ context.Context, in after) (state, error) {
		return state{fmt.Sprint(in.Topic, in.Other)}, nil
	})
	treadle.AddBranch(b, treadle.Start, fan, renamed)
	out, err := ready(t, b, &treadle.Options{Saver: saver}).Thread("1").Continue(t.Context())
	if err != nil || out.Out != "owls7" {
		t.Errorf("output %+v, %v; want owls7", out, err)
	}
}

// One input feeds several nodes and several outputs.
//
// Parity: 23.
func TestOneNodeWritesSeveralFields(t *testing.T) {
	type state struct {
		In       int
		Sum, Dif int
	}
	type both struct{ Sum, Dif int }
	b := treadle.New[state]("several")
	treadle.AddNode(b, "a", func(_ context.Context, s struct{ In int }) (both, error) { return both{s.In + 1, s.In - 1}, nil })
	b.Edge(treadle.Start, "a")
	out, err := ready(t, b, nil).Run(t.Context(), state{In: 3})
	if err != nil || out != (state{3, 4, 2}) {
		t.Errorf("the output is %+v, %v", out, err)
	}
}

// A node that keeps its input or its result cannot use them to change the past.
func TestHistoryIsImmutable(t *testing.T) {
	type state struct {
		Prices map[string]int `json:"prices"`
	}
	mine := map[string]int{"owl": 1}
	b := treadle.New[state]("past")
	treadle.AddNode(b, "a", func(context.Context, struct{}) (state, error) { return state{mine}, nil })
	treadle.AddNode(b, "b", func(context.Context, struct{}) (struct{}, error) {
		mine["owl"] = 2
		return struct{}{}, nil
	})
	b.Edge(treadle.Start, "a")
	b.Edge("a", "b")
	thread := ready(t, b, &treadle.Options{Saver: checkpoint.NewMemory(), Check: new(false)}).Thread("1")
	if _, err := thread.Run(t.Context(), state{}); err != nil {
		t.Fatal(err)
	}
	for snap, err := range thread.History(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if snap.Step >= 1 && snap.State.String() != `{"prices":{"owl":1}}` {
			t.Errorf("step %d now holds %s", snap.Step, snap.State)
		}
	}
}

type entries []string

func (e entries) Reduce(u entries) entries { return slices.Concat(e, u) }
func (entries) Reducer() reduce.Reducer    { return entryReducer{} }

// entryReducer has a method with the name of a former engine method.
type entryReducer struct {
	reduce.Appending[entries, string]
}

func (entryReducer) DecodeJSON([]byte, any) bool { return true }

func (entryReducer) DecodePlain() func([]byte, any) bool {
	return func([]byte, any) bool { return true }
}

type sideBySide []string

func (s sideBySide) Reduce(u sideBySide) sideBySide { return slices.Concat(s, u) }
func (sideBySide) Reducer() reduce.Reducer          { return sideBySideReducer{} }

// sideBySideReducer reads the elements of a stored list on several goroutines.
type sideBySideReducer struct {
	reduce.Appending[sideBySide, string]
}

func (sideBySideReducer) Build(n int, fill func(int, any) error) (any, error) {
	out := make(sideBySide, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() { errs[i] = fill(i, &out[i]) })
	}
	wg.Wait()
	return out, errors.Join(errs...)
}

func TestReducerReadsElementsConcurrently(t *testing.T) {
	type state struct{ Log sideBySide }
	type wrote struct{ Log sideBySide }
	want := make(sideBySide, 100)
	for i := range want {
		want[i] = fmt.Sprint("element ", i)
	}
	b := treadle.New[state]("g")
	treadle.AddNode(b, "a", func(context.Context, state) (wrote, error) { return wrote{want}, nil })
	b.Edge(treadle.Start, "a")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))
	if _, err := g.Thread("1").Run(t.Context(), state{}); err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread("1").State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if log, _ := snap.State.Get("Log"); !slices.Equal(log.(sideBySide), want) {
		t.Errorf("the log is %q, want %q", log, want)
	}
}

func TestReducerMethodsDoNotClash(t *testing.T) {
	type state struct{ Log entries }
	type wrote struct{ Log entries }
	b := treadle.New[state]("g")
	treadle.AddNode(b, "a", func(context.Context, state) (wrote, error) { return wrote{entries{"x"}}, nil })
	b.Edge(treadle.Start, "a")
	g := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))
	if _, err := g.Thread("1").Run(t.Context(), state{}); err != nil {
		t.Fatal(err)
	}
	snap, err := g.Thread("1").State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if log, _ := snap.State.Get("Log"); !slices.Equal(log.(entries), entries{"x"}) {
		t.Errorf("the log is %q, want x", log)
	}
}
