package pregel

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/reduce"
)

// Types of a small graph, in place of the root package's types.
type (
	codecGoto   []Target
	codecUpdate map[string]any
	codecList   []string
	codecTally  map[string]int // its updates are words
)

func (l codecList) Reduce(u codecList) codecList { return slices.Concat(l, u) }
func (codecList) Reducer() reduce.Reducer        { return reduce.Appending[codecList, string]{} }

func (c codecTally) Reduce(word string) codecTally {
	out := codecTally{word: 1}
	for k, n := range c {
		out[k] += n
	}
	return out
}

type codecState struct {
	Text  string
	Log   codecList
	Tally codecTally
	Any   any
	Ptr   *int
	Deep  struct {
		Items []map[string]*codecDeep `json:"items"`
	} `json:"deep"`
	Raw json.RawMessage
}

type codecDeep struct {
	Next *codecDeep
	When time.Time
}

type codecSent struct {
	N     int
	Label *string `json:"label,omitempty"`
}

// codecPlan returns a graph with everything that a control can contain: nodes, deferred
// nodes, nodes with all kinds of inputs, and joins.
func codecPlan(t testing.TB) *Plan {
	t.Helper()
	words := &Vocabulary{
		Goto:      reflect.TypeFor[codecGoto](),
		Targets:   func(to []Target, g any) []Target { return append(to, g.(codecGoto)...) },
		Update:    reflect.TypeFor[codecUpdate](),
		AsMap:     func(u any) map[string]any { return u.(codecUpdate) },
		FromMap:   func(m map[string]any) any { return codecUpdate(m) },
		Overwrite: func(reflect.Type) (reflect.Type, bool) { return nil, false },
		Command:   func(reflect.Type) (reflect.Type, bool) { return nil, false },
	}
	node := func(name string, in reflect.Type) *NodeSpec {
		return &NodeSpec{Name: name, In: in, Out: words.Goto, Call: func(context.Context, any) (any, error) { return codecGoto(nil), nil }}
	}
	state := reflect.TypeFor[codecState]()
	late := node("late", state)
	late.Defer = true
	p, err := Compile(&Spec{
		Name: "codec", Words: words, State: state, In: state, Out: state, Storable: true,
		Nodes: []*NodeSpec{
			node("a", state), node("b", state), node(`odd "name" <é>`, state), late,
			node("int", reflect.TypeFor[int]()), node("struct", reflect.TypeFor[codecSent]()), node("map", words.Update), node("pointer", reflect.TypeFor[*codecSent]()),
		},
		Edges: []EdgeSpec{{Start, "a"}, {"a", "b"}, {`odd "name" <é>`, "late"}},
		Joins: []JoinSpec{{[]string{"a", "b"}, "late"}, {[]string{"b", "late", `odd "name" <é>`}, "a"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Plan) codecRun(t testing.TB) *Run {
	t.Helper()
	r, err := p.idleRun(t.Context(), &Settings{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var unexported = cmp.AllowUnexported(control{}, packet{}, write{}, Target{})

// sameChannels compares channels by identity and leaves out buffers.
var sameChannels = cmp.Options{
	cmp.Comparer(func(a, b *channel) bool { return a == b }),
	cmp.FilterPath(func(p cmp.Path) bool {
		name := p.Last().String()
		return name == ".space" || name == ".spare"
	}, cmp.Ignore()),
}

func TestControlRoundTrip(t *testing.T) {
	p := codecPlan(t)
	id := func(name string) int32 { return p.byName[name].id }
	some := func(join int, sources ...int) bits {
		b := newBits(len(p.joins[join].sources))
		for _, s := range sources {
			b.set(s)
		}
		return b
	}
	text := "text"
	for name, test := range map[string]struct {
		ctl  control
		last []string
	}{
		"nothing":         {},
		"nodes":           {control{armed: []int32{id("a"), id(`odd "name" <é>`)}}, []string{Start}},
		"a pending input": {control{start: []byte(`{"Text":"x"}`)}, []string{Start}},
		"a seed":          {control{seed: "seed", armed: []int32{id("b")}}, nil},
		"deferred nodes":  {control{armed: []int32{id("a")}, waiting: []int32{id("late")}}, []string{"a", "b"}},
		"joins":           {control{joins: []bits{some(0, 1), some(1, 0, 2)}}, nil},
		"a complete join": {control{joins: []bits{some(0, 0, 1), some(1)}, waiting: []int32{id("late")}}, nil},
		"sends": {control{sends: []packet{
			{node: id("int"), input: 7},
			{node: id("int"), input: -1, timeout: time.Second},
			{node: id("struct"), input: codecSent{N: 1, Label: &text}},
			{node: id("pointer"), input: (*codecSent)(nil)},
			{node: id("a"), input: codecState{Text: "own", Log: codecList{"x"}, Tally: codecTally{"a": 2}, Any: []any{1.5, nil}, Raw: json.RawMessage("{}")}},
			{node: id("map"), input: codecUpdate{"Text": "x", "Log": codecList{"y"}, "other": 1.0}},
		}}, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, back := p.codecRun(t), p.codecRun(t)
			if test.ctl.joins == nil {
				test.ctl.joins = r.ctl.joins
			}
			*r.ctl, r.last = test.ctl, test.last
			raw, err := r.encodeControl()
			if err != nil {
				t.Fatal(err)
			}
			if err := back.decodeControl(raw); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			slices.Sort(r.ctl.armed)
			if d := cmp.Diff(*r.ctl, *back.ctl, unexported, sameChannels); d != "" {
				t.Errorf("%s (-before +after):\n%s", raw, d)
			}
			if !slices.Equal(back.last, test.last) {
				t.Errorf("the last nodes are %q, want %q", back.last, test.last)
			}
		})
	}
}

func TestControlOfOtherGraphVersion(t *testing.T) {
	p := codecPlan(t)
	for name, raw := range map[string]string{
		"the input has another type":  `{"sends":[{"node":"int","input":"text"}]}`,
		"the input is missing":        `{"sends":[{"node":"int"}]}`,
		"it is no JSON":               `{`,
		"it is empty":                 ``,
		"it is another kind of thing": `[]`,
		"names of another kind":       `{"next":[1]}`,
		"sources of another kind":     `{"joins":{"join:a+b:late":1}}`,
		"an invalid child head ID":    `{"children":{"x":"y"}}`,
	} {
		if err := p.codecRun(t).decodeControl([]byte(raw)); err == nil {
			t.Errorf("%s: %s is read without an error", name, raw)
		}
	}
	// It can be read, edited, and given a new input, but not continued.
	for name, raw := range map[string]string{
		"a node is gone":          `{"next":["gone"]}`,
		"a deferred node is gone": `{"waiting":["gone"]}`,
		"the receiver is gone":    `{"sends":[{"node":"gone","input":1}]}`,
		"the source is gone":      `{"after":["gone"]}`,
	} {
		r := p.codecRun(t)
		if err := r.decodeControl([]byte(raw)); err != nil {
			t.Errorf("%s: %s: %v", name, raw, err)
		}
		if !slices.Equal(r.ctl.gone, []string{"gone"}) || !r.ctl.idle() || len(r.ctl.waiting) > 0 {
			t.Errorf("%s: %s leads to %+v, want a missing node", name, raw, r.ctl)
		}
		if to, ok := errors.AsType[*GotoError](r.accept(Input{Continue: true})); !ok || to.To != "gone" {
			t.Errorf("%s: continuing it is %v, want a GotoError", name, to)
		}
	}
	for name, raw := range map[string]string{
		"a join is gone":           `{"joins":{"join:x+y:z":["x"]}}`,
		"a join's source is gone":  `{"joins":{"join:a+b:late":["gone"]}}`,
		"a key of a later version": `{"later":1}`,
		"the node before is gone":  `{"last":["gone"]}`,
		"nothing scheduled":        `null`,
	} {
		r := p.codecRun(t)
		if err := r.decodeControl([]byte(raw)); err != nil {
			t.Errorf("%s: %s: %v", name, raw, err)
		}
		if !r.ctl.idle() || slices.ContainsFunc(r.ctl.joins, bits.any) {
			t.Errorf("%s: %s leads to %+v, want nothing", name, raw, r.ctl)
		}
	}
}

func TestJoinIgnoresSourceOrder(t *testing.T) {
	p := codecPlan(t)
	for _, raw := range []string{`{"joins":{"join:a+b:late":["b"]}}`, `{"joins":{"join:b+a:late":["b"]}}`} {
		r := p.codecRun(t)
		if err := r.decodeControl([]byte(raw)); err != nil || !slices.ContainsFunc(r.ctl.joins, bits.any) {
			t.Errorf("%s leads to %+v, %v, want a join that waits for a", raw, r.ctl, err)
		}
	}
}

// An imported checkpoint may name nodes that have run instead of those that run next.
func TestControlFollowsEdgesAfterNodes(t *testing.T) {
	p := codecPlan(t)
	r := p.codecRun(t)
	if err := r.decodeControl([]byte(`{"after":["a","odd \"name\" <é>"],"next":["b"]}`)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.ctl.armed, []int32{p.byName["b"].id}) || !slices.Equal(r.ctl.waiting, []int32{p.byName["late"].id}) || len(r.ctl.gone) > 0 {
		t.Errorf("control %+v, want b next and late waiting", r.ctl)
	}
}

func TestResultRoundTrip(t *testing.T) {
	p := codecPlan(t)
	ch := p.schema.byName
	n := 3
	for name, out := range map[string]outcome{
		"nothing": {},
		"handled": {handled: true},
		"updates": {writes: []write{
			{ch: ch["Text"], val: "x"}, {ch: ch["Log"], val: codecList{"a", ""}}, {ch: ch["Log"], val: codecList(nil)},
			{ch: ch["Tally"], val: "word"}, {ch: ch["Ptr"], val: &n}, {ch: ch["Ptr"], val: (*int)(nil)}, {ch: ch["Any"], val: map[string]any{"k": []any{"v"}}},
			{ch: ch["Any"]}, {ch: ch["Raw"], val: json.RawMessage(`{"a":1}`)},
		}},
		"overwrites": {writes: []write{
			{ch: ch["Log"], val: codecList{"new"}, over: true}, {ch: ch["Tally"], val: codecTally{"a": 1}, over: true},
		}},
		"gotos": {targets: []Target{{Node: "a"}, {Node: End}, {Node: "nowhere"},
			{Node: "int", Input: 5, IsSend: true, Timeout: time.Hour},
			{Node: "struct", Input: codecSent{N: 2}, IsSend: true},
			{Node: "map", Input: codecUpdate{"Tally": codecTally{"x": 1}, "n": 1.0}, IsSend: true},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := p.codecRun(t)
			parts := func(o *outcome) []any { return []any{o.writes, o.targets, o.handled} }
			before, after := &Task{run: r, node: p.nodes[0], out: &out}, &Task{run: r, node: p.nodes[0], out: &outcome{}}
			raw, err := before.encodeResult(false)
			if err != nil {
				t.Fatal(err)
			}
			if err := after.decodeResult(raw); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			// An empty list and none are one list.
			empty := cmp.FilterValues(func(a, b codecList) bool { return len(a) == 0 && len(b) == 0 }, cmp.Ignore())
			if d := cmp.Diff(parts(&out), parts(after.out), unexported, sameChannels, empty); d != "" {
				t.Errorf("%s (-before +after):\n%s", raw, d)
			}
		})
	}
}

func FuzzDecodeControl(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{}`, `[]`, `{"next":[],"last":[]}`, `{"next":["a","b","a"],"last":["__start__"]}`,
		`{"start":{"Text":"x"},"last":["a"]}`, `{"start":null}`, `{"waiting":["late","late","a"]}`,
		`{"sends":[{"node":"int","input":7,"timeout":{"Run":5}},{"node":"struct","input":{"N":1,"label":"x"}}]}`,
		`{"sends":[{"node":"map","input":{"Log":["x"],"Text":5,"z":[1,{"a":null}]}},{"node":"pointer","input":null},{"node":"a","input":{"Tally":{"a":1},"Any":1e400}}]}`,
		`{"joins":{"join:a+b:late":["b","a","gone"],"none":null}}`, `{"seed":"s","owner":"o","children":{"ns":"1ec9414c-232a-6b00-b3c8-9f6bdeced846"}}`,
		`{"next":["odd \"name\" <é>","odd \"name\" \u003cé\u003e"]}`,
		`{"after":["a","gone","odd \"name\" <é>"],"next":["b"]}`,
	} {
		f.Add([]byte(s))
	}
	p := codecPlan(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := p.codecRun(t)
		if r.decodeControl(raw) != nil {
			return
		}
		for _, ids := range [][]int32{r.ctl.armed, r.ctl.waiting} {
			for i, id := range ids {
				if id < 0 || int(id) >= len(p.nodes) || i > 0 && ids[i-1] >= id {
					t.Fatalf("%s: the nodes %v are not a set of the graph's nodes in order", raw, ids)
				}
			}
		}
		for _, s := range r.ctl.sends {
			n := p.nodes[s.node]
			if got := reflect.TypeOf(s.input); got != n.In {
				t.Fatalf("%s: node %s takes %s and would get %v", raw, n.Name, n.In, got)
			}
		}
		if _, err := r.prepare(); err != nil && !slices.ContainsFunc(r.ctl.armed, func(id int32) bool { return p.nodes[id].sendOnly != "" }) {
			t.Fatalf("%s: %v", raw, err)
		}
		// What is stored again is the same.
		once, err := r.encodeControl()
		if err != nil {
			t.Fatalf("%s: encode: %v", raw, err)
		}
		back := p.codecRun(t)
		if err := back.decodeControl(once); err != nil {
			t.Fatalf("%s is stored as %s: %v", raw, once, err)
		}
		twice, err := back.encodeControl()
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%s is stored as %s and then as %s, %v", raw, once, twice, err)
		}
	})
}

func FuzzDecodeUpdate(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{}`, `[]`, `"x"`, `{"Text":"x"}`, `{"Text":null}`, `{"Text":5}`, `{"text":"x"}`, `{"gone":1}`,
		`{"Log":["a","b"]}`, `{"Log":null}`, `{"Log":{"__overwrite__":["x"]}}`, `{"Log":{"type":"__overwrite__","value":["x"]}}`,
		`{"Log":{"__overwrite__":null}}`, `{"Log":{"__overwrite__":1}}`, `{"Tally":"word"}`, `{"Tally":{"__overwrite__":{"__overwrite__":1}}}`,
		`{"Tally":{"type":"__overwrite__","value":null}}`, `{"Text":{"__overwrite__":"x"}}`, `{"Any":{"a":[1,null,1.5]},"Ptr":3,"Raw":{"z":1}}`,
		`{"Ptr":null,"Any":null,"Raw":null}`, `{"deep":{"items":[{"a":{"Next":{"Next":null},"When":"2022-02-22T19:22:22Z"},"b":null},null]}}`,
		`{"Log":["a"],"Log":["b"]}`, "{\"Log\":[\"\xff\"]}",
	} {
		f.Add([]byte(s))
	}
	p := codecPlan(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var o outcome
		if p.schema.decodeUpdate(&o, raw) != nil {
			return
		}
		r := p.codecRun(t)
		for _, w := range o.writes {
			want := w.ch.upd
			if w.over {
				want = w.ch.typ
			}
			if got := reflect.TypeOf(w.val); got != want && want.Kind() != reflect.Interface {
				t.Fatalf("%s: field %s takes %s and would get %v", raw, w.ch.wire, want, got)
			}
			if err := r.slots[w.ch.id].fold(w, 1, 0, true); err != nil {
				t.Fatalf("%s: fold: %v", raw, err)
			}
		}
		// The state that it gives can be read and stored.
		r.plan.state.fresh(r.slots, p.schema.words, p.public)
		if _, err := p.schema.record(r.slots, p.public).MarshalJSON(); err != nil {
			t.Fatalf("%s: the state: %v", raw, err)
		}
		// What is stored of it is the same update.
		once, err := (&Record{schema: p.schema, items: o.writes}).MarshalJSON()
		if err != nil {
			t.Fatalf("%s: encode: %v", raw, err)
		}
		var back outcome
		if err := p.schema.decodeUpdate(&back, once); err != nil {
			t.Fatalf("%s is stored as %s: %v", raw, once, err)
		}
		twice, err := (&Record{schema: p.schema, items: back.writes}).MarshalJSON()
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%s is stored as %s and then as %s, %v", raw, once, twice, err)
		}
	})
}

func FuzzDecodeResult(f *testing.F) {
	for _, s := range []string{
		``, `null`, `{}`, `{"handled":true}`, `{"writes":[{"field":"Log","value":["x"]},{"field":"Log","value":null,"over":true}]}`,
		`{"writes":[{"field":"Tally","value":"x"},{"field":"Tally","value":{"a":1},"over":true},{"field":"gone","value":1}]}`,
		`{"writes":[{"field":"Any"}]}`, `{"goto":[{"node":"a"},{"node":"int","send":true,"input":1},{"node":"gone","send":true,"input":1},{"node":"int","send":true}]}`,
	} {
		f.Add([]byte(s))
	}
	p := codecPlan(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := p.codecRun(t)
		task := &Task{run: r, node: p.nodes[0], out: &outcome{}}
		if task.decodeResult(raw) != nil {
			return
		}
		once, err := task.encodeResult(false)
		if err != nil {
			t.Fatalf("%s: encode: %v", raw, err)
		}
		back := &Task{run: r, node: p.nodes[0], out: &outcome{}}
		if err := back.decodeResult(once); err != nil {
			t.Fatalf("%s is stored as %s: %v", raw, once, err)
		}
		twice, err := back.encodeResult(false)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%s is stored as %s and then as %s, %v", raw, once, twice, err)
		}
	})
}
