package treadle_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/reduce"
)

// fabric is the state of the generated graphs: a field for every kind of merge, and a last
// value for each node.
type fabric struct {
	Log   reduce.List[string]
	Count reduce.Sum[int]         // tasks so far, which bounds the loops
	Marks reduce.Map[string, int] // few keys, so that the order of writes shows
	Bound int                     // loops end at this Count
	Sent  int                     // set in the inputs of sends, never in the state

	F0, F1, F2, F3, F4, F5, F6, F7, F8, F9, F10, F11, F12, F13, F14, F15 int
}

const lastValues = 16

// threads contains the writes of nodes. A node has its own last value, so the fields are
// optional.
type threads struct {
	Count reduce.Sum[int]
	Marks reduce.Map[string, int]
	Next  treadle.Goto

	F0, F1, F2, F3, F4, F5, F6, F7, F8, F9, F10, F11, F12, F13, F14, F15 *int
}

type addsLog struct {
	threads
	Log reduce.List[string]
}

type clearsLog struct {
	threads
	Log *treadle.Overwrite[reduce.List[string]]
}

// pattern is a generated graph. Nodes are identified by number, which is unique in the
// whole tree of graphs and increases with their position in their graph.
type pattern struct {
	name     string
	nodes    []*knot
	edges    [][2]int // from -1 is the start
	joins    []seam
	branches []fork
}

type knot struct {
	id       int
	kind     kind
	deferred bool
	gotos    []int // where it may go on its own
	child    *pattern
}

type kind int

const (
	plain  kind = iota
	clears      // overwrites the log at times
	graph       // is a graph
	calls       // runs a graph
)

type seam struct {
	from []int
	to   int
}

type fork struct {
	from  int
	salt  int
	dests []int
}

// drawPattern generates a pattern. Edges and joins only lead forward; only gotos and
// branches, which stop at the bound, lead back.
func drawPattern(t *rapid.T, name string, depth int, ids *int, cleared *bool) *pattern {
	p := &pattern{name: name}
	n := rapid.IntRange(2, 6).Draw(t, "nodes")
	if depth > 0 {
		n = min(n, 3)
	}
	first := *ids
	n = min(n, lastValues-first)
	*ids += n
	all := make([]int, n)
	for i := range all {
		all[i] = first + i
	}
	some := func(label string, from []int, most int) []int {
		if len(from) == 0 {
			return nil
		}
		picked := rapid.SliceOfNDistinct(rapid.SampledFrom(from), 0, min(most, len(from)), rapid.ID[int]).Draw(t, label)
		return slices.Sorted(slices.Values(picked))
	}
	for i, id := range all {
		k := &knot{id: id, deferred: rapid.IntRange(0, 5).Draw(t, "deferred") == 0, gotos: some("gotos", all, 3)}
		switch what := rapid.IntRange(0, 9).Draw(t, "kind"); {
		case i == 0: // which may lead to all nodes, according to Compile
		case what == 0 && !*cleared:
			k.kind, *cleared = clears, true
		case what <= 2 && depth < 2 && *ids < lastValues:
			k.kind = graph
		case what == 3 && depth < 2 && *ids < lastValues:
			k.kind = calls
		}
		if k.kind == graph || k.kind == calls {
			k.child = drawPattern(t, fmt.Sprintf("%s-%d", name, i), depth+1, ids, cleared)
		}
		p.nodes = append(p.nodes, k)
	}
	p.edges = append(p.edges, [2]int{-1, first})
	for _, to := range some("entries", all[1:], 2) {
		p.edges = append(p.edges, [2]int{-1, to})
	}
	for i, from := range all {
		for _, to := range some("edges", all[i+1:], 2) {
			p.edges = append(p.edges, [2]int{from, to})
		}
		if rapid.IntRange(0, 2).Draw(t, "branches") == 0 {
			p.branches = append(p.branches, fork{from, i, all})
		}
		if from := some("join", all[:i], 3); len(from) > 0 {
			p.joins = append(p.joins, seam{from, all[i]})
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "entry branch") == 0 {
		p.branches = append(p.branches, fork{-1, 99, all})
	}
	return p
}

// effect is the behavior of a node, which depends only on what it reads.
type effect struct {
	log   []string
	clear bool
	marks map[string]int
	last  *int
	gotos []int
	sends []parcel
}

type parcel struct {
	to int
	in fabric
}

// roll returns a number that depends on every part of the input.
func roll(salt int, what string, s fabric) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %v", salt, what, s)
	return h.Sum64()
}

func (k *knot) act(s fabric, called *fabric) effect {
	if called != nil {
		s.Log = append(s.Log, fmt.Sprint(roll(k.id, "called", *called)%1000))
	}
	h := roll(k.id, "act", s)
	e := effect{marks: map[string]int{fmt.Sprint("m", h%3): int(h % 1000)}}
	for i := range h % 3 {
		e.log = append(e.log, fmt.Sprintf("%d.%d.%d", k.id, i, h>>8%1000))
	}
	if s.Sent == 0 {
		v := int(h>>16%100) + 1
		e.last, e.clear = &v, k.kind == clears && h>>4%3 == 0
	}
	if s.Count.N < s.Bound {
		for i, to := range k.gotos {
			switch h >> (20 + 2*i) % 4 {
			case 0, 1:
				e.gotos = append(e.gotos, to)
			case 2:
				if s.Sent == 0 {
					e.sends = append(e.sends, parcel{to, packed(s, int(h%50)+1)})
				}
			}
		}
	}
	return e
}

// packed returns the input of a send: enough to stop in time, and marked.
func packed(s fabric, v int) fabric {
	return fabric{Log: reduce.List[string]{fmt.Sprint("sent ", v)}, Count: s.Count, Bound: s.Bound, Sent: v}
}

// calling returns the input of a graph that a node runs.
func calling(k *knot, s fabric) fabric {
	return fabric{Log: reduce.List[string]{fmt.Sprint("by ", k.id)}, Count: s.Count, Bound: s.Bound, Marks: s.Marks}
}

// route returns the targets of a branch: some of its nodes, and some with their own input.
func (f *fork) route(s fabric) (to []int, sends []parcel) {
	if s.Count.N >= s.Bound {
		return nil, nil
	}
	h := roll(f.salt, "route", s)
	for i, d := range f.dests {
		switch h >> (3 * i) % 8 {
		case 0, 1:
			to = append(to, d)
		case 2:
			sends = append(sends, parcel{d, packed(s, int(h%50)+1)})
		}
	}
	return to, sends
}

// weaving configures how a pattern is built and run.
type weaving struct {
	procs  int
	noise  bool
	limit  int // MaxConcurrency
	stream bool
	saver  bool
	cold   bool // the second turn is another process's
	alias  bool // nodes have other names in the same order
}

func (w *weaving) nameOf(id int) string {
	if w.alias {
		return fmt.Sprintf("zz%03d_", 7*id+3)
	}
	return fmt.Sprintf("n%02d", id)
}

// plainNames puts the usual names back.
func (w *weaving) plainNames(s string) string {
	if w.alias {
		for id := range lastValues {
			s = strings.ReplaceAll(s, w.nameOf(id), (&weaving{}).nameOf(id))
		}
	}
	return s
}

// jitter randomizes the order in which tasks end.
func (w *weaving) jitter() {
	if !w.noise {
		return
	}
	for range rand.IntN(4) {
		runtime.Gosched()
	}
	x := 1
	for i := range rand.IntN(2000) {
		x = x*31 + i
	}
	runtime.KeepAlive(x)
}

func (w *weaving) targets(gotos []int, sends []parcel) (g treadle.Goto) {
	for _, to := range gotos {
		g = append(g, treadle.To(w.nameOf(to))...)
	}
	for _, s := range sends {
		g = append(g, treadle.Send(w.nameOf(s.to), s.in)...)
	}
	return g
}

func (w *weaving) threads(k *knot, e effect) threads {
	out := threads{Count: reduce.SumOf(1), Marks: e.marks, Next: w.targets(e.gotos, e.sends)}
	if e.last != nil {
		reflect.ValueOf(&out).Elem().FieldByName("F" + strconv.Itoa(k.id)).Set(reflect.ValueOf(e.last))
	}
	return out
}

// build compiles a pattern.
func (w *weaving) build(p *pattern, saver checkpoint.Saver) (*treadle.Graph[fabric, fabric], error) {
	b := treadle.New[fabric](p.name)
	for _, k := range p.nodes {
		var opts []treadle.NodeOption
		if k.deferred {
			opts = append(opts, treadle.Defer())
		}
		var child *treadle.Graph[fabric, fabric]
		if k.child != nil {
			var err error
			if child, err = w.build(k.child, nil); err != nil {
				return nil, err
			}
		}
		act := func(ctx context.Context, s fabric) (effect, error) {
			w.jitter()
			treadle.Emit(ctx, fmt.Sprint("begin ", k.id))
			var called *fabric
			if child != nil {
				out, err := child.Run(ctx, calling(k, s))
				if err != nil {
					return effect{}, err
				}
				called = &out
			}
			e := k.act(s, called)
			w.jitter()
			treadle.Emit(ctx, fmt.Sprint("end ", len(e.log)))
			return e, nil
		}
		switch k.kind {
		case graph:
			treadle.AddGraph(b, w.nameOf(k.id), child, opts...)
		case clears:
			treadle.AddNode(b, w.nameOf(k.id), func(ctx context.Context, s fabric) (clearsLog, error) {
				e, err := act(ctx, s)
				out := clearsLog{threads: w.threads(k, e)}
				if e.clear {
					out.Log = &treadle.Overwrite[reduce.List[string]]{Value: e.log}
				}
				return out, err
			}, opts...)
		default:
			treadle.AddNode(b, w.nameOf(k.id), func(ctx context.Context, s fabric) (addsLog, error) {
				e, err := act(ctx, s)
				return addsLog{w.threads(k, e), e.log}, err
			}, opts...)
		}
	}
	name := func(id int) string {
		if id < 0 {
			return treadle.Start
		}
		return w.nameOf(id)
	}
	for _, e := range p.edges {
		b.Edge(name(e[0]), name(e[1]))
	}
	for _, j := range p.joins {
		var from []string
		for _, id := range j.from {
			from = append(from, name(id))
		}
		b.Join(treadle.Nodes(from), name(j.to))
	}
	for _, f := range p.branches {
		treadle.AddBranch(b, name(f.from), func(_ context.Context, s fabric) (treadle.Goto, error) {
			w.jitter()
			to, sends := f.route(s)
			if len(to)+len(sends) == 0 {
				return treadle.To(treadle.End), nil
			}
			return w.targets(to, sends), nil
		})
	}
	return b.Compile(&treadle.Options{Saver: saver, StepLimit: 1000, MaxConcurrency: w.limit})
}

// cloth is the outcome of a pattern, without anything that may differ between runs.
type cloth struct {
	states      []string   // after each turn
	events      [][]string // of each turn, if it was streamed
	steps       []string   // the nodes of each step of the outermost graph
	checkpoints []string   // of the thread, oldest first
	puts        []string   // the saves in each namespace
}

// ledger records what subgraphs save, because their namespaces cannot be listed.
type ledger struct {
	*checkpoint.Memory
	mu   sync.Mutex
	puts map[string][]string
}

func (l *ledger) Put(ctx context.Context, p *checkpoint.Put) error {
	var b strings.Builder
	fmt.Fprintf(&b, "step %d %s", p.Step, p.Source)
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "; %s %s -%d +%s %v", c.Channel, c.Data, c.Drop, c.Items, c.Clear)
	}
	l.mu.Lock()
	l.puts[p.Namespace] = append(l.puts[p.Namespace], b.String())
	l.mu.Unlock()
	return l.Memory.Put(ctx, p)
}

// contents returns the lines of all namespaces, identified by their nodes. Several
// namespaces may have the same nodes, so the result is a multiset.
func (l *ledger) contents() (all []string) {
	for ns, puts := range l.puts {
		var path []string
		for part := range strings.SplitSeq(ns, "|") {
			node, _, _ := strings.Cut(part, ":")
			path = append(path, node)
		}
		all = append(all, strings.Join(path, "/")+": "+strings.Join(puts, "\n  "))
	}
	slices.Sort(all)
	return all
}

func textOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "no JSON: " + err.Error()
	}
	return string(raw)
}

// make runs the pattern: without a saver one turn, with one a second on top.
func (w *weaving) make(t *rapid.T, ctx context.Context, p *pattern, inputs []fabric) *cloth {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(w.procs))
	out := &cloth{}
	var store *ledger
	var saver checkpoint.Saver
	if w.saver {
		store = &ledger{Memory: checkpoint.NewMemory(), puts: map[string][]string{}}
		saver = store
	} else {
		inputs = inputs[:1]
	}
	g, err := w.build(p, saver)
	if err != nil {
		t.Fatalf("%+v does not compile: %v", w, err)
	}
	var told []string // checkpoints as the stream told them
	for turn, in := range inputs {
		if turn > 0 && w.cold {
			if g, err = w.build(p, saver); err != nil {
				t.Fatal(err)
			}
		}
		thread := g.Thread("thread")
		var state fabric
		switch {
		case w.stream:
			modes := treadle.Modes(treadle.ModeValues, treadle.ModeUpdates, treadle.ModeCustom, treadle.ModeTasks, treadle.ModeCheckpoints)
			events := g.Stream(ctx, in, modes, treadle.Subgraphs())
			if w.saver {
				events = thread.Stream(ctx, in, modes, treadle.Subgraphs())
			}
			var tape tape
			for ev, err := range events {
				if err != nil {
					t.Fatalf("%+v: turn %d: %v", w, turn, err)
				}
				tape.note(t, ev)
			}
			state = tape.end(t)
			out.events = append(out.events, tape.lines())
			out.steps = append(out.steps, tape.steps...)
			told = append(told, tape.checkpoints...)
		case w.saver:
			state, err = thread.Run(ctx, in)
		default:
			state, err = g.Run(ctx, in)
		}
		if err != nil {
			t.Fatalf("%+v: turn %d: %v", w, turn, err)
		}
		out.states = append(out.states, textOf(state))
	}
	if w.saver {
		parent := checkpoint.ID{}
		snaps := []*treadle.Snapshot{}
		for snap, err := range g.Thread("thread").History(ctx, nil) {
			if err != nil {
				t.Fatalf("%+v: history: %v", w, err)
			}
			snaps = append(snaps, snap)
		}
		for _, snap := range slices.Backward(snaps) {
			if snap.Parent != parent {
				t.Fatalf("%+v: checkpoint %s follows %s, want %s", w, snap.ID, snap.Parent, parent)
			}
			parent = snap.ID
			out.checkpoints = append(out.checkpoints, picture(snap))
		}
		if w.stream {
			if d := cmp.Diff(out.checkpoints, told); d != "" {
				t.Fatalf("%+v: the history and the stream's checkpoints (-history +stream):\n%s", w, d)
			}
		}
		out.puts = store.contents()
	}
	for _, lines := range append(out.events, out.steps, out.checkpoints, out.puts) {
		for i := range lines {
			lines[i] = w.plainNames(lines[i])
		}
	}
	return out
}

func picture(s *treadle.Snapshot) string {
	var tasks []string
	for _, task := range s.Tasks {
		tasks = append(tasks, task.Name+task.Error)
	}
	return fmt.Sprintf("step %d %s next %v tasks %v values %s", s.Step, s.Source, s.Next, tasks, s.State)
}

// tape takes down a stream. Tasks of a step end in any order; everything else
// has a place.
type tape struct {
	labels      map[string]string // of tasks, by ID: the path of their graph, the step and their rank in it
	open        map[string]bool
	started     map[string]int // tasks of a graph and step
	seen        map[string][]line
	steps       []string
	checkpoints []string
	values      *treadle.Values
	finished    *treadle.Finished[fabric]
}

type line struct {
	step int
	part int    // of the step: 0 tasks start, 1 they run and end, 2 it has ended
	task string // in part 1
	text string
}

// graph returns the label of the graph in a namespace.
func (p *tape) graph(ns []string) string {
	label := ""
	for _, part := range ns {
		if _, id, ok := strings.Cut(part, ":"); ok {
			label = p.labels[id]
		} else {
			label += "|" + part
		}
	}
	return label
}

func (p *tape) note(t *rapid.T, ev treadle.Event) {
	if p.labels == nil {
		p.labels = map[string]string{}
		p.open = map[string]bool{}
		p.started = map[string]int{}
		p.seen = map[string][]line{}
	}
	if p.finished != nil {
		t.Fatalf("an event after the last: %T", ev)
	}
	at := ev.Where()
	for _, part := range at.Namespace {
		if _, id, ok := strings.Cut(part, ":"); ok && !p.open[id] {
			t.Fatalf("%T at %v, whose task does not run", ev, at.Namespace)
		}
	}
	in := p.graph(at.Namespace)
	l := line{step: at.Step, part: 1}
	switch ev := ev.(type) {
	case treadle.TaskStarted:
		key := fmt.Sprintf("%s/%d", in, at.Step)
		p.started[key]++
		p.labels[at.TaskID] = fmt.Sprintf("%s.%s#%d", key, at.Node, p.started[key])
		p.open[at.TaskID] = true
		l.part = 0
		l.text = fmt.Sprintf("start %s %v %s", p.labels[at.TaskID], ev.Triggers, textOf(ev.Input))
		if in == "" {
			if p.started[key] > 1 {
				n := len(p.steps)
				p.steps[n-1] += " " + at.Node
			} else {
				p.steps = append(p.steps, at.Node)
			}
		}
	case treadle.TaskFinished:
		p.open[at.TaskID] = false
		l.text = fmt.Sprintf("finish %s %v", ev.Result, ev.Err)
	case treadle.Updated:
		l.text = fmt.Sprintf("update %s %v", ev.Update, ev.Cached)
	case treadle.Custom:
		l.text = fmt.Sprintf("custom %v", ev.Value)
	case treadle.Values:
		l.part, l.text = 2, fmt.Sprintf("values %s", ev.State)
		if in == "" {
			p.values = &ev
		}
	case treadle.Checkpointed:
		l.part, l.text = 2, "checkpoint "+picture(&ev.Snapshot)
		if in == "" {
			p.checkpoints = append(p.checkpoints, picture(&ev.Snapshot))
		}
	case treadle.Finished[fabric]:
		p.finished = &ev
		return
	default:
		t.Fatalf("an event that was not requested: %T", ev)
	}
	if l.part == 1 {
		l.task = p.labels[at.TaskID]
	}
	p.seen[in] = append(p.seen[in], l)
}

// end checks the guarantees of a complete stream and returns its output.
func (p *tape) end(t *rapid.T) fabric {
	if p.finished == nil || p.values == nil {
		t.Fatalf("the stream ended without values or a result")
	}
	var last fabric
	if err := p.values.State.Read(&last); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(textOf(last), textOf(p.finished.Output)); d != "" {
		t.Fatalf("the last values and the result (-values +result):\n%s", d)
	}
	for id, open := range p.open {
		if open {
			t.Fatalf("task %s has started and not ended", p.labels[id])
		}
	}
	for in, lines := range p.seen {
		ordered := slices.IsSortedFunc(lines, func(a, b line) int {
			if a.step != b.step {
				return a.step - b.step
			}
			return a.part - b.part
		})
		if !ordered {
			t.Fatalf("the events of graph %q are not in the order of its steps:\n%v", in, lines)
		}
	}
	return p.finished.Output
}

// lines returns the events: graph by graph, step by step, and while tasks run, task by
// task.
func (p *tape) lines() (out []string) {
	for _, in := range slices.Sorted(maps.Keys(p.seen)) {
		lines := p.seen[in]
		slices.SortStableFunc(lines, func(a, b line) int {
			if a.step != b.step {
				return a.step - b.step
			}
			if a.part != b.part {
				return a.part - b.part
			}
			return strings.Compare(a.task, b.task)
		})
		for _, l := range lines {
			out = append(out, fmt.Sprintf("%s: step %d: %s %s", in, l.step, l.task, l.text))
		}
	}
	return out
}

// without returns the lines without checkpoints, which only runs with a saver have.
func without(lines []string, what string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return strings.Contains(l, what) })
}

// The reference: super-steps in their simplest form, over plain values.

type refState struct {
	log   []string
	count int
	marks map[string]int
	other map[string]int // last values by field
}

type refWrite struct {
	field string
	log   []string
	n     int
	marks map[string]int
	over  bool
}

func (s refState) view() fabric {
	f := fabric{Log: s.log, Count: reduce.SumOf(s.count), Marks: s.marks}
	for name, v := range s.other {
		reflect.ValueOf(&f).Elem().FieldByName(name).SetInt(int64(v))
	}
	return f
}

// with returns the state after the writes of one step.
func (s refState) with(ws []refWrite) refState {
	out := refState{slices.Clone(s.log), s.count, maps.Clone(s.marks), maps.Clone(s.other)}
	fixed := false
	for _, w := range ws {
		switch {
		case w.field == "Count":
			out.count += w.n
		case w.field == "Marks":
			maps.Copy(out.marks, w.marks)
		case w.field != "Log":
			out.other[w.field] = w.n
		case w.over:
			out.log, fixed = slices.Clone(w.log), true
		case !fixed:
			out.log = append(out.log, w.log...)
		}
	}
	return out
}

// input returns the state after an input.
func (s refState) input(in fabric) refState {
	out := s.with([]refWrite{{field: "Log", log: in.Log}, {field: "Count", n: in.Count.N}, {field: "Marks", marks: in.Marks}})
	v := reflect.ValueOf(in)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Int && !f.IsZero() {
			out.other[v.Type().Field(i).Name] = int(f.Int())
		}
	}
	return out
}

func emptyRef() refState { return refState{marks: map[string]int{}, other: map[string]int{}} }

// refTask is a node to run: with the state, or with its own input.
type refTask struct {
	id   int
	sent *fabric
}

// reference runs a pattern. Of a thread it keeps the state and the joins.
type reference struct {
	p     *pattern
	state refState
	joins []map[int]bool
	steps [][]int
}

func newReference(p *pattern) *reference {
	r := &reference{p: p, state: emptyRef()}
	for range p.joins {
		r.joins = append(r.joins, map[int]bool{})
	}
	return r
}

// run runs until no node is left and returns all writes.
func (r *reference) run() (all []refWrite) {
	next, sends := r.after(-1, r.state, nil)
	waiting := map[int]bool{}
	for {
		ready := map[int]bool{}
		for _, id := range next {
			if r.node(id).deferred {
				waiting[id] = true
			} else {
				ready[id] = true
			}
		}
		for i, j := range r.p.joins { // complete joins
			switch {
			case len(r.joins[i]) < len(j.from):
			case r.node(j.to).deferred:
				waiting[j.to] = true
			default:
				ready[j.to] = true
				clear(r.joins[i])
			}
		}
		if len(ready)+len(sends) == 0 {
			ready, waiting = waiting, map[int]bool{}
			for i, j := range r.p.joins {
				if len(r.joins[i]) == len(j.from) {
					clear(r.joins[i])
				}
			}
		}
		var tasks []refTask
		for _, id := range slices.Sorted(maps.Keys(ready)) {
			tasks = append(tasks, refTask{id: id})
		}
		for _, s := range sends {
			tasks = append(tasks, refTask{s.to, &s.in})
		}
		if len(tasks) == 0 {
			return all
		}
		next, sends = nil, nil
		var step []refWrite
		var ids []int
		for _, t := range tasks {
			ids = append(ids, t.id)
			ws, gotos, parcels := r.perform(t)
			step = append(step, ws...)
			more, routed := r.after(t.id, r.state, ws)
			next = append(append(next, gotos...), more...)
			sends = append(append(sends, parcels...), routed...)
			for i, j := range r.p.joins {
				if slices.Contains(j.from, t.id) {
					r.joins[i][t.id] = true
				}
			}
		}
		r.steps = append(r.steps, ids)
		r.state = r.state.with(step)
		all = append(all, step...)
	}
}

func (r *reference) node(id int) *knot {
	return r.p.nodes[slices.IndexFunc(r.p.nodes, func(k *knot) bool { return k.id == id })]
}

// after returns the targets of edges and branches, which see the writes of one task.
func (r *reference) after(from int, s refState, ws []refWrite) (next []int, sends []parcel) {
	for _, e := range r.p.edges {
		if e[0] == from {
			next = append(next, e[1])
		}
	}
	for _, f := range r.p.branches {
		if f.from == from {
			to, parcels := f.route(s.with(ws).view())
			next, sends = append(next, to...), append(sends, parcels...)
		}
	}
	return next, sends
}

// perform runs one task.
func (r *reference) perform(t refTask) (ws []refWrite, gotos []int, sends []parcel) {
	k, s := r.node(t.id), r.state
	if t.sent != nil {
		s = emptyRef().input(*t.sent)
	}
	if k.kind == graph {
		child := newReference(k.child)
		child.state = s
		return handUp(child.run(), child.state), nil, nil
	}
	var called *fabric
	if k.kind == calls {
		child := newReference(k.child)
		child.state = emptyRef().input(calling(k, s.view()))
		child.run()
		out := child.state.view()
		called = &out
	}
	e := k.act(s.view(), called)
	ws = []refWrite{{field: "Count", n: 1}, {field: "Marks", marks: e.marks}}
	if k.kind != clears || e.clear {
		ws = append(ws, refWrite{field: "Log", log: e.log, over: e.clear})
	}
	if e.last != nil {
		ws = append(ws, refWrite{field: "F" + strconv.Itoa(k.id), n: *e.last})
	}
	return ws, e.gotos, e.sends
}

// handUp returns the writes of a subgraph as one task of its parent graph: the final last
// values, the updates of the other fields, or the whole log if it was replaced.
func handUp(ws []refWrite, end refState) (up []refWrite) {
	over := slices.ContainsFunc(ws, func(w refWrite) bool { return w.over })
	for _, w := range ws {
		if w.field != "Log" || !over {
			up = append(up, w)
		}
	}
	if over {
		up = append(up, refWrite{field: "Log", log: end.log, over: true})
	}
	return up
}

// setChecks keeps the default run short. TREADLE_PROPERTY_CHECKS=5000, or
// rapid's own flag, makes it long.
func setChecks(t *testing.T) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	was, n := checks.Value.String(), os.Getenv("TREADLE_PROPERTY_CHECKS")
	if n == "" && was == checks.DefValue {
		n = "25"
		if race.Enabled {
			n = "10"
		}
	}
	if n == "" {
		return
	}
	if err := checks.Value.Set(n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(was) }) // it was that before
}

// Whatever the scheduler does, a graph gives the state that super-steps say it
// gives, and the same events and checkpoints.
func TestResultIndependentOfScheduling(t *testing.T) {
	setChecks(t)
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		ids, cleared := 0, false
		p := drawPattern(t, "root", 0, &ids, &cleared)
		first := fabric{Log: reduce.List[string]{"in"}, Bound: 16 - rapid.IntRange(0, 16).Draw(t, "short of the bound")}
		ref := newReference(p)
		ref.state = ref.state.input(first)
		ref.run()
		states := []string{textOf(ref.state.view())}
		second := fabric{Log: reduce.List[string]{"again"}, Bound: ref.state.count + rapid.IntRange(0, 6).Draw(t, "second bound")}
		ref.state = ref.state.input(second)
		ref.run()
		states = append(states, textOf(ref.state.view()))
		var steps []string
		for _, step := range ref.steps {
			steps = append(steps, strings.Join(names(step), " "))
		}

		var base *cloth
		for _, w := range []*weaving{
			{procs: 2, stream: true, saver: true},
			{procs: 1, stream: true, saver: true, noise: true},
			{procs: 8, stream: true, saver: true, noise: true, limit: 3},
			{procs: 2, stream: true, saver: true, noise: true, limit: 1, cold: true},
			{procs: 8, saver: true, noise: true},
			{procs: 2, saver: true, noise: true, limit: 3, cold: true},
			{procs: 2, stream: true, noise: true},
			{procs: 8, noise: true},
			{procs: 1, limit: 1},
			{procs: 2, stream: true, saver: true, alias: true},
		} {
			got := w.make(t, ctx, p, []fabric{first, second})
			same := func(what string, want, got any) {
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("%+v: %s (-want +got):\n%s", *w, what, d)
				}
			}
			same("the states, against the reference", states[:len(got.states)], got.states)
			if base == nil {
				base = got
				same("the steps, against the reference", steps, sortedWords(got.steps))
			}
			if w.saver {
				same("the checkpoints", base.checkpoints, got.checkpoints)
				same("saves", base.puts, got.puts)
			}
			switch {
			case w.stream && w.saver:
				same("the events", base.events, got.events)
			case w.stream:
				same("the events, without a saver", without(base.events[0], " checkpoint "), got.events[0])
			}
		}
	})
}

func names(ids []int) (out []string) {
	for _, id := range ids {
		out = append(out, (&weaving{}).nameOf(id))
	}
	slices.Sort(out)
	return out
}

func sortedWords(lines []string) (out []string) {
	for _, l := range lines {
		words := strings.Fields(l)
		slices.Sort(words)
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// A source that runs twice in a step, by an edge and by a send, counts once: it
// is not already there in the next round.
func TestJoinCountsSourceOncePerStep(t *testing.T) {
	b := treadle.New[fabric]("twice")
	step := func(name string, next func(fabric) treadle.Goto) {
		treadle.AddNode(b, name, func(_ context.Context, s fabric) (addsLog, error) {
			return addsLog{threads{Next: next(s)}, reduce.List[string]{name}}, nil
		})
	}
	none := func(fabric) treadle.Goto { return nil }
	step("first", func(fabric) treadle.Goto { return append(treadle.To("a", "b"), treadle.Send("a", fabric{})...) })
	step("a", none)
	step("b", none)
	step("both", func(s fabric) treadle.Goto {
		if slices.Contains(s.Log, "both") {
			return nil
		}
		return treadle.To("b") // which alone is not both
	})
	b.Edge(treadle.Start, "first")
	b.Join([]any{"a", "b"}, "both")
	wantFabricLog(t, b, "first", "a", "b", "a", "both", "b")
}

// While a deferred node waits after its complete join, further runs of the sources do not
// count toward the next round.
func TestCompleteJoinIgnoresSources(t *testing.T) {
	b := treadle.New[fabric]("waiting")
	once := func(name, to string, opts ...treadle.NodeOption) {
		treadle.AddNode(b, name, func(_ context.Context, s fabric) (addsLog, error) {
			out := addsLog{Log: reduce.List[string]{name}}
			if to != "" && !slices.Contains(s.Log, name) {
				out.Next = treadle.To(to)
			}
			return out, nil
		}, opts...)
	}
	once("a", "back")
	once("b", "")
	once("back", "a")
	once("late", "b", treadle.Defer())
	b.Edge(treadle.Start, "a")
	b.Edge(treadle.Start, "b")
	b.Join([]any{"a", "b"}, "late")
	wantFabricLog(t, b, "a", "b", "back", "a", "late", "b")
}

func wantFabricLog(t *testing.T, b *treadle.Builder[fabric], want ...string) {
	t.Helper()
	g, err := b.Compile(nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Run(t.Context(), fabric{})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, []string(out.Log)); d != "" {
		t.Errorf("the nodes that ran (-want +got):\n%s", d)
	}
}
