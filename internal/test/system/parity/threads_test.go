package parity_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
)

// A script is a recording of operations on one thread.
type script struct {
	Graph     string `json:"graph"`
	Ops       []*op  `json:"ops"`
	Unordered bool   `json:"unordered"`
}

// op is one recorded operation.
type op struct {
	Op      string   `json:"op"`
	Args    opArgs   `json:"args"`
	Output  any      `json:"output"`
	Chunks  []any    `json:"chunks"`
	State   any      `json:"state"`
	History []any    `json:"history"`
	Error   *pyError `json:"error"`
	Entered []string `json:"entered"`
}

type opArgs struct {
	Input      json.RawMessage       `json:"input"`
	Answer     json.RawMessage       `json:"answer"`
	Update     json.RawMessage       `json:"update"`
	Goto       string                `json:"goto"`
	Values     json.RawMessage       `json:"values"`
	As         string                `json:"as_node"`
	Steps      [][][]json.RawMessage `json:"steps"` // of pairs: values, node
	At         *int                  `json:"at"`
	Nested     []string              `json:"nested"`
	Stream     any                   `json:"stream"`
	Subgraphs  bool                  `json:"subgraphs"`
	Before     any                   `json:"before"` // names, or "*"
	After      any                   `json:"after"`
	StepLimit  *int                  `json:"limit"` // of a history: how many
	Filter     map[string]any        `json:"filter"`
	Durability string                `json:"durability"`
}

func loadScripts(t *testing.T) []*script {
	t.Helper()
	files, err := filepath.Glob("fixtures/threads/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	var all []*script
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := &script{}
		if err := json.Unmarshal(raw, s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, s)
	}
	return all
}

// TestEveryScriptIsPorted: every recorded thread has a graph here.
func TestEveryScriptIsPorted(t *testing.T) {
	names := map[string]bool{}
	for _, s := range loadScripts(t) {
		names[s.Graph] = true
		if scripted[s.Graph] == nil {
			t.Errorf("%s is not ported", s.Graph)
		}
	}
	for name := range scripted {
		if !names[name] {
			t.Errorf("%s has no recording", name)
		}
	}
}

// TestThreads plays every recorded script and compares what each operation
// gives with the recording, after the differences of the table.
func TestThreads(t *testing.T) {
	table := &threadLedger{needed: map[string]map[place]bool{}}
	scripts, ops := 0, 0
	for _, s := range loadScripts(t) {
		if scripted[s.Graph] == nil {
			continue // TestEveryScriptIsPorted reports it
		}
		scripts++
		ops += len(s.Ops)
		t.Run(s.Graph, func(t *testing.T) { playScript(t, s, table) })
	}
	t.Logf("%d scripts, %d operations", scripts, ops)
	if !t.Failed() && !strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		table.checkAllUsed(t)
	}
}

func playScript(t *testing.T, s *script, table *threadLedger) {
	tr := newTrace()
	saver := checkpoint.NewMemory()
	g, err := scripted[s.Graph](tr, &treadle.Options{Saver: saver, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p := &player{t: t, graph: g, saver: saver, ids: identities{ours: map[string]string{}, theirs: map[string]string{}}}
	noteAnswers(s)
	for i, o := range s.Ops {
		got, steps := p.do(o)
		got["entered"] = tr.take(s.Unordered)
		if !s.Unordered {
			steps = nil
		}
		want := o.recorded()
		if s.Unordered { // upstream keeps edges in sets
			want, got = inOrder(want), inOrder(got)
		}
		if !table.compare(t, s.at(i), want, got, steps, &p.ids) {
			return // what follows builds on it
		}
	}
}

// at returns the place of an operation.
func (s *script) at(i int) place { return place{s.Graph, fmt.Sprintf("%d %s", i, s.Ops[i].Op)} }

// inOrder sorts the tasks of snapshots by their names.
func inOrder(v map[string]any) map[string]any {
	name := func(v any) string {
		if m, ok := v.(map[string]any); ok {
			return m["name"].(string)
		}
		return v.(string)
	}
	return rewrite(v, func(v any) any {
		if s, tasks := tasksOf(v); tasks != nil {
			for _, key := range []string{"tasks", "next"} {
				slices.SortStableFunc(s[key].([]any), func(a, b any) int { return strings.Compare(name(a), name(b)) })
			}
		}
		return v
	}).(map[string]any)
}

// recorded returns what was recorded, in the form of player.do.
func (o *op) recorded() map[string]any {
	out := map[string]any{"error": o.failure()}
	entered := []any{}
	for _, name := range o.Entered {
		entered = append(entered, name)
	}
	out["entered"] = entered
	switch o.Op {
	case "state":
		out["state"] = o.State
	case "history":
		out["history"] = append([]any{}, o.History...)
	case "run", "continue", "resume", "command":
		if o.Args.Stream != nil {
			out["chunks"] = append([]any{}, o.Chunks...)
		} else if o.Error == nil {
			out["output"] = o.Output
		}
	}
	return rewrite(out, withoutMarks).(map[string]any)
}

// failure returns the kind of a recorded error; see failureOf.
func (o *op) failure() any {
	if e := o.Error; e != nil {
		switch {
		case strings.HasPrefix(e.Message, "When there are multiple pending"):
			return "ambiguous resume"
		case strings.HasPrefix(e.Message, "No updates"), strings.HasPrefix(e.Message, "No supersteps"):
			return "update"
		}
	}
	return o.Error.failure()
}

// threadFailure is failureOf with the errors of threads.
func threadFailure(err error) any {
	switch {
	case errors.Is(err, treadle.ErrAmbiguousResume):
		return "ambiguous resume"
	case errors.Is(err, treadle.ErrNothingToResume):
		return "nothing to resume"
	case errors.Is(err, treadle.ErrUnknownInterrupt):
		return "unknown question"
	}
	return failureOf(err)
}

// played is a graph whose types the player does not know.
type played interface {
	open(at checkpoint.ID, opts ...treadle.RunOption) playedThread
	// workflow reports a graph whose output is not an object of fields.
	workflow() bool
}

type playedThread interface {
	untyped() *dynamic.Thread
	resume(ctx context.Context, answer any, opts ...treadle.ContinueOption) (any, error)
	goOn(ctx context.Context, opts ...treadle.ContinueOption) (any, error)
	ResumeStream(ctx context.Context, answer any, opts ...treadle.StreamOption) iter.Seq2[treadle.Event, error]
	BulkUpdate(ctx context.Context, steps ...[]treadle.Edit) (checkpoint.ID, error)
}

type typedGraph[In, Out any] struct {
	g    *treadle.Graph[In, Out]
	flow bool
}

func (g typedGraph[In, Out]) workflow() bool { return g.flow }

func (g typedGraph[In, Out]) open(at checkpoint.ID, opts ...treadle.RunOption) playedThread {
	typed, untyped := g.g.Thread("t1", opts...), dynamic.Open(g.g, "t1", opts...)
	if !at.IsZero() {
		typed, untyped = typed.At(at), untyped.At(at)
	}
	return typedThread[In, Out]{typed, untyped}
}

type typedThread[In, Out any] struct {
	typed *treadle.Thread[In, Out]
	json  *dynamic.Thread
}

func (t typedThread[In, Out]) untyped() *dynamic.Thread { return t.json }

func (t typedThread[In, Out]) resume(ctx context.Context, answer any, opts ...treadle.ContinueOption) (any, error) {
	return t.typed.Resume(ctx, answer, opts...)
}

func (t typedThread[In, Out]) ResumeStream(ctx context.Context, answer any, opts ...treadle.StreamOption) iter.Seq2[treadle.Event, error] {
	return t.typed.ResumeStream(ctx, answer, opts...)
}

func (t typedThread[In, Out]) BulkUpdate(ctx context.Context, steps ...[]treadle.Edit) (checkpoint.ID, error) {
	return t.typed.BulkUpdate(ctx, steps...)
}

func (t typedThread[In, Out]) goOn(ctx context.Context, opts ...treadle.ContinueOption) (any, error) {
	return t.typed.Continue(ctx, opts...)
}

// player plays operations on a thread.
type player struct {
	t     *testing.T
	graph played
	saver *checkpoint.Memory
	ids   identities
}

// do makes the recorded call and returns what came of it as JSON values, and
// for a stream the step of each chunk.
func (p *player) do(o *op) (out map[string]any, steps []int) {
	ctx, a := p.t.Context(), &o.Args
	out = map[string]any{}
	fail := func(err error) {
		out["error"] = threadFailure(err)
	}
	switch o.Op {
	case "run", "continue", "resume", "command":
		return p.run(o)
	case "update":
		_, err := p.inspect(a).UpdateJSON(ctx, a.Values, treadle.AsNode(a.As))
		fail(err)
	case "bulk":
		var edits [][]treadle.Edit
		for _, s := range a.Steps {
			step := []treadle.Edit{}
			for _, pair := range s {
				e := treadle.Edit{Values: pair[0]}
				if err := json.Unmarshal(pair[1], &e.As); err != nil {
					p.t.Fatal(err)
				}
				step = append(step, e)
			}
			edits = append(edits, step)
		}
		_, err := p.graph.open(p.at(a)).BulkUpdate(ctx, edits...)
		fail(err)
	case "state":
		s, err := p.inspect(a).State(ctx)
		fail(err)
		if err == nil {
			out["state"] = p.snapshot(s, a.Subgraphs)
		}
	case "history":
		all := []any{}
		for s, err := range p.inspect(a).History(ctx, p.selection(a)) {
			if err != nil {
				fail(err)
				return out, nil
			}
			all = append(all, p.snapshot(s, false))
		}
		out["error"], out["history"] = nil, all
	case "delete":
		fail(p.saver.DeleteThread(ctx, "t1"))
	default:
		p.t.Fatalf("there is no operation %q", o.Op)
	}
	return out, nil
}

func (p *player) selection(a *opArgs) *treadle.HistoryOptions {
	var o treadle.HistoryOptions
	if a.StepLimit != nil {
		o.Limit = *a.StepLimit
	}
	for key, want := range a.Filter {
		switch key {
		case "source":
			o.Sources = append(o.Sources, checkpoint.Source(want.(string)))
		case "step":
			o.Step = new(int(want.(float64)))
		default:
			p.t.Fatalf("filter by %q", key)
		}
	}
	return &o
}

// at returns the checkpoint that an operation names by its place in the history.
func (p *player) at(a *opArgs) (id checkpoint.ID) {
	if a.At == nil {
		return id
	}
	i := 0
	for s, err := range p.graph.open(id).untyped().History(p.t.Context(), nil) {
		if err != nil {
			p.t.Fatal(err)
		}
		if i == *a.At {
			return s.ID
		}
		i++
	}
	p.t.Fatalf("history has %d checkpoints, not %d", i, *a.At+1)
	return id
}

// inspect returns the thread, or the nested one, that an operation is about.
func (p *player) inspect(a *opArgs) *dynamic.Thread {
	thread := p.graph.open(p.at(a)).untyped()
	if len(a.Nested) == 0 {
		return thread
	}
	s, err := thread.State(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, name := range a.Nested {
		i := slices.IndexFunc(s.Tasks, func(t treadle.TaskState) bool { return t.Name == name && t.Graph != nil })
		if i < 0 {
			p.t.Fatalf("no graph runs in %q", name)
		}
		s = s.Tasks[i].Graph
	}
	nested, err := thread.Nested(s.Namespace...)
	if err != nil {
		p.t.Fatal(err)
	}
	return nested
}

// run makes a call that runs the graph.
func (p *player) run(o *op) (map[string]any, []int) {
	ctx, a := p.t.Context(), &o.Args
	thread := p.graph.open(p.at(a), a.settings()...)
	input := a.Input
	if a.Stream != nil {
		wire, opts := (&run{Options: options{Mode: a.Stream, Subgraphs: a.Subgraphs}}).framing(p.t)
		events := thread.untyped().StreamJSON(ctx, input, opts...)
		if o.Op == "resume" {
			events = thread.ResumeStream(ctx, p.answer(a.Answer), opts...)
		}
		chunks, steps, err := collect(p.t, wire, events)
		if _, ok := errors.AsType[*treadle.InterruptError](err); ok {
			err = nil
		}
		return map[string]any{"error": threadFailure(err), "chunks": chunks}, steps
	}
	var result any
	var err error
	switch o.Op {
	case "resume":
		result, err = thread.resume(ctx, p.answer(a.Answer), a.also(p.t)...)
	case "command":
		result, err = thread.goOn(ctx, a.also(p.t)...)
	default:
		result, err = thread.untyped().RunJSON(ctx, input)
	}
	return p.outcome(result, err), nil
}

// outcome returns a result as upstream gives it: the open questions are part of the
// state.
func (p *player) outcome(result any, err error) map[string]any {
	paused, stopped := errors.AsType[*treadle.InterruptError](err)
	if err != nil && !stopped {
		return map[string]any{"error": threadFailure(err)}
	}
	output := p.json(result)
	if stopped && len(paused.Pauses) > 0 {
		fields, ok := output.(map[string]any)
		if !ok || p.graph.workflow() {
			fields = map[string]any{}
		}
		fields["__interrupt__"] = pausesJSON(p, paused.Pauses)
		output = fields
	}
	return map[string]any{"error": nil, "output": output}
}

func (a *opArgs) settings() (opts []treadle.RunOption) {
	names := func(v any) (out []string) {
		switch v := v.(type) {
		case string:
			out = []string{v}
		case []any:
			for _, e := range v {
				out = append(out, e.(string))
			}
		}
		return out
	}
	if a.Before != nil {
		opts = append(opts, treadle.Before(treadle.Nodes(names(a.Before))...))
	}
	if a.After != nil {
		opts = append(opts, treadle.After(treadle.Nodes(names(a.After))...))
	}
	if a.StepLimit != nil {
		opts = append(opts, treadle.StepLimit(*a.StepLimit))
	}
	switch a.Durability {
	case "sync":
		opts = append(opts, treadle.Sync)
	case "async":
		opts = append(opts, treadle.Async)
	case "exit":
		opts = append(opts, treadle.Exit)
	}
	return opts
}

// also returns what an operation brings beside an answer.
func (a *opArgs) also(t *testing.T) []treadle.ContinueOption {
	switch {
	case a.Goto != "":
		c := treadle.Command[entries]{Goto: treadle.To(a.Goto)}
		if a.Update != nil {
			c.Update = &entries{}
			if err := json.Unmarshal(a.Update, c.Update); err != nil {
				t.Fatal(err)
			}
		}
		return []treadle.ContinueOption{treadle.WithUpdate(c)}
	case a.Update != nil:
		return []treadle.ContinueOption{treadle.WithUpdate(a.Update)}
	}
	return nil
}

var recordedID = regexp.MustCompile(`^<interrupt \d+>$`)

// answer returns a recorded answer with our ids of questions in place of the
// numbers in the recording.
func (p *player) answer(raw json.RawMessage) any {
	var byID map[string]any
	if json.Unmarshal(raw, &byID) == nil && len(byID) > 0 {
		answers := treadle.Answers{}
		for id, v := range byID {
			if recordedID.MatchString(id) {
				answers[cmp.Or(p.ids.ours[id], id)] = v
			}
		}
		if len(answers) > 0 {
			return answers
		}
	}
	return raw
}

func (p *player) json(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		p.t.Fatal(err)
	}
	return masked(p.t, raw)
}

func pausesJSON(p *player, ps []treadle.Pause) []any {
	out := []any{}
	for _, q := range ps {
		out = append(out, map[string]any{"value": p.json(q.Value), "id": q.ID})
	}
	return out
}

func (p *player) snapshot(s *treadle.Snapshot, deep bool) any {
	tasks := []any{}
	for _, t := range s.Tasks {
		task := map[string]any{"name": t.Name, "error": nil, "interrupts": pausesJSON(p, t.Pauses), "result": p.json(t.Result)}
		if t.Error != "" {
			task["error"] = t.Error
		}
		if deep {
			task["state"] = nil
			if t.Graph != nil {
				task["state"] = p.snapshot(t.Graph, true)
			}
		}
		tasks = append(tasks, task)
	}
	out := map[string]any{"values": p.json(s.State), "next": p.json(append([]string{}, s.Next...)), "tasks": tasks,
		"source": nil, "step": nil, "parent": !s.Parent.IsZero()}
	if !s.ID.IsZero() {
		out["source"], out["step"] = p.json(s.Source), float64(s.Step)
	} else {
		out["values"] = map[string]any{} // nothing has values
	}
	return out
}

// trace notes which functions of a graph run.
type trace struct {
	mu      sync.Mutex
	entered []any
	seen    map[string]chan struct{}
}

func newTrace() *trace { return &trace{seen: map[string]chan struct{}{}} }

// enter notes that a function runs.
func (tr *trace) enter(name string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.entered = append(tr.entered, name)
}

// done says that a function has done what others wait for.
func (tr *trace) done(name string) {
	c := tr.waiting(name)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// wait returns when done was called, now or earlier on the thread.
func (tr *trace) wait(name string) { <-tr.waiting(name) }

func (tr *trace) waiting(name string) chan struct{} {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.seen[name] == nil {
		tr.seen[name] = make(chan struct{})
	}
	return tr.seen[name]
}

func (tr *trace) take(sorted bool) []any {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	out := append([]any{}, tr.entered...)
	tr.entered = nil
	if sorted {
		slices.SortFunc(out, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	}
	return out
}

// identities say which of our questions is which of the recorded ones. Ids are
// made differently, but a question keeps its id, and no two share one.
type identities struct{ ours, theirs map[string]string }

// align pairs the questions at the same places of two results.
func (ids identities) align(want, got any, pair func(theirs, ours string)) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return
		}
		theirs, _ := w["id"].(string)
		if ours, ok := g["id"].(string); ok && recordedID.MatchString(theirs) {
			pair(theirs, ours)
		}
		for k := range w {
			ids.align(w[k], g[k], pair)
		}
	case []any:
		g, ok := got.([]any)
		for i := range w {
			if ok && i < len(g) {
				ids.align(w[i], g[i], pair)
			}
		}
	}
}

// named is got with the recorded ids in place of ours, where they agree with
// what is known, and the new pairs.
func (ids identities) named(want, got any) (any, identities) {
	next := identities{ours: maps.Clone(ids.ours), theirs: maps.Clone(ids.theirs)}
	ids.align(want, got, func(theirs, ours string) {
		if _, known := next.theirs[ours]; !known && next.ours[theirs] == "" {
			next.ours[theirs], next.theirs[ours] = ours, theirs
		}
	})
	return rewrite(got, func(v any) any {
		m, ok := v.(map[string]any)
		if !ok {
			return v
		}
		if id, ok := m["id"].(string); ok {
			if theirs := next.theirs[id]; theirs != "" {
				m["id"] = theirs
			}
		}
		return m
	}), next
}

// threadLedger is the ledger of the threads' differences.
type threadLedger struct{ needed map[string]map[place]bool }

// compare is ledger.compare for an operation.
func (l *threadLedger) compare(t *testing.T, p place, want, got any, steps []int, ids *identities) bool {
	t.Helper()
	var concerned []*difference
	for i := range threadDifferences {
		if threadDifferences[i].concerns(p) {
			concerned = append(concerned, &threadDifferences[i])
		}
	}
	agree := func(ds []*difference) (any, any, identities) {
		theirs, ours := adapted(p, ds, want, got, steps)
		ours, next := ids.named(theirs, ours)
		return theirs, ours, next
	}
	theirs, ours, next := agree(concerned)
	if !reflect.DeepEqual(theirs, ours) {
		t.Errorf("%s: recorded (-), ours (+), after %s:\n%s", p, idsOf(concerned), gocmp.Diff(theirs, ours))
		return false
	}
	for i, d := range concerned {
		if theirs, ours, _ := agree(slices.Delete(slices.Clone(concerned), i, i+1)); !reflect.DeepEqual(theirs, ours) {
			if l.needed[d.id] == nil {
				l.needed[d.id] = map[place]bool{}
			}
			l.needed[d.id][p] = true
		}
	}
	*ids = next
	return true
}

// checkAllUsed fails for differences, or places of them, that no longer occur.
func (l *threadLedger) checkAllUsed(t *testing.T) {
	for _, d := range threadDifferences {
		for _, pattern := range d.places {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(l.needed[d.id])), func(p place) bool { return matches(pattern, p) }) {
				t.Errorf("difference %q no longer occurs at %s", d.id, pattern)
			}
		}
	}
}
