// Package parity_test compares Treadle with recordings of the Python library.
// README.md says what a recording is; differences_test.go holds every way in
// which we differ on purpose.
package parity_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtest uses
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/test/pgtest"
)

// tests end the Postgres server before goroutines are counted.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

const (
	start = treadle.Start
	end   = treadle.End
	// upstream's name for a graph that nobody named
	graphName = "LangGraph"
)

// A build makes a recorded graph anew: what its nodes count starts from zero.
type build func(o *treadle.Options) (treadle.AnyGraph, error)

// cases are the graphs of the recordings, by the name of the fixture.
var cases = merge(sampleCases, edgeCases, sendCases, commandCases, nestedCases, channelCases, flowCases, streamCases)

func merge(suites ...map[string]build) map[string]build {
	all := map[string]build{}
	for _, s := range suites {
		maps.Copy(all, s)
	}
	return all
}

// fixture is a recording.
type fixture struct {
	Graph string `json:"graph"`
	Runs  []*run `json:"runs"`

	drawings map[string]any // mermaid, graph_json, and both with _xray1, _xray2
}

// run is one recorded call.
type run struct {
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	Options   options         `json:"options"`
	Output    any             `json:"output"`
	Chunks    []any           `json:"chunks"`
	Error     *pyError        `json:"error"`
	Unordered bool            `json:"unordered"`
}

type options struct {
	Method    string          `json:"method"`
	Version   string          `json:"version"`
	Mode      any             `json:"stream_mode"` // a name, a list of names, or nil
	Subgraphs bool            `json:"subgraphs"`
	Context   json.RawMessage `json:"context"`
	Keys      []string        `json:"output_keys"`
	Saver     string          `json:"checkpointer"`
	SameGraph bool            `json:"same_graph"`
	Config    struct {
		StepLimit      *int           `json:"recursion_limit"`
		MaxConcurrency int            `json:"max_concurrency"`
		Tags           []string       `json:"tags"`
		Metadata       map[string]any `json:"metadata"`
		Configurable   map[string]any `json:"configurable"`
	} `json:"config"`
}

type pyError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func loadFixtures(t *testing.T) []*fixture {
	t.Helper()
	files, err := filepath.Glob("fixtures/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	var all []*fixture
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f := &fixture{drawings: map[string]any{}}
		var fields map[string]any
		if err := errors.Join(json.Unmarshal(raw, f), json.Unmarshal(raw, &fields)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for k, v := range fields {
			if strings.HasPrefix(k, "mermaid") || strings.HasPrefix(k, "graph_json") {
				f.drawings[k] = v
			}
		}
		all = append(all, f)
		recordings[f.Graph] = f
	}
	return all
}

// recordings are the fixtures that were read, by name.
var recordings = map[string]*fixture{}

func recordedRun(p place) *run {
	for _, r := range recordings[p.graph].Runs {
		if r.Name == p.part {
			return r
		}
	}
	panic("no recording of " + p.String())
}

// TestEveryFixtureIsPorted: a recording is rebuilt here or says why not.
func TestEveryFixtureIsPorted(t *testing.T) {
	names := map[string]bool{}
	for _, f := range loadFixtures(t) {
		names[f.Graph] = true
		if ported, why := cases[f.Graph] != nil, notPorted[f.Graph]; ported == (why != "") {
			t.Errorf("%s: ported %v, reason not to port it %q: want exactly one", f.Graph, ported, why)
		}
	}
	for name := range cases {
		if !names[name] {
			t.Errorf("case %s has no fixture", name)
		}
	}
	for name := range notPorted {
		if !names[name] {
			t.Errorf("notPorted %s has no fixture", name)
		}
	}
}

// TestTraces runs every recorded graph and compares what it gives with the
// recording, after the differences of the table.
func TestTraces(t *testing.T) {
	table := newLedger()
	graphs, runs := 0, 0
	for _, f := range loadFixtures(t) {
		b := cases[f.Graph]
		if b == nil {
			continue // TestEveryFixtureIsPorted reports it
		}
		graphs++
		runs += len(f.Runs)
		t.Run(f.Graph, func(t *testing.T) { compareFixture(t, f, b, table) })
	}
	t.Logf("%d graphs, %d runs", graphs, runs)
	// A selection of the runs says nothing about differences in the others.
	if !t.Failed() && !strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		table.checkAllUsed(t)
	}
}

func compareFixture(t *testing.T, f *fixture, b build, table *ledger) {
	g, err := b(&treadle.Options{})
	want := any(nil)
	if f.Runs[0].Options.Method == "compile" {
		want = "rejected"
	}
	got := any(nil)
	if _, ok := errors.AsType[*treadle.BuildError](err); ok {
		got = "rejected"
	} else if err != nil {
		t.Fatal(err)
	}
	table.compare(t, place{f.Graph, "compile"}, want, got, nil)
	if got != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(f.drawings)) {
		got, err := drawing(g, name)
		if err != nil {
			t.Fatal(err)
		}
		table.compare(t, place{f.Graph, name}, f.drawings[name], got, nil)
	}
	for _, r := range f.Runs {
		if !r.Options.SameGraph {
			o := &treadle.Options{}
			if r.Options.Saver != "" {
				o.Saver = checkpoint.NewMemory()
			}
			if g, err = b(o); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(r.Name, func(t *testing.T) {
			got, steps := play(t, g, r)
			got = rewrite(got, withoutMarks)
			if !r.Unordered {
				steps = nil
			}
			table.compare(t, place{f.Graph, r.Name}, r.trace(), got, steps)
		})
	}
}

// drawing renders the graph as one of the recorded drawings.
func drawing(g treadle.AnyGraph, name string) (any, error) {
	shape := g.Shape()
	kind, depth, opened := strings.Cut(name, "_xray")
	if opened {
		shape = shape.Expand(int(depth[0] - '0'))
	}
	if kind == "mermaid" {
		return shape.Mermaid(), nil
	}
	raw, err := json.Marshal(shape)
	if err != nil {
		return nil, err
	}
	return decode(raw)
}

// trace returns what was recorded, in the form of play.
func (r *run) trace() any { return rewrite(r.recorded(), withoutMarks) }

// withoutMarks undoes how the recorder writes Python's objects, and drops the
// ids of events, which it leaves out.
func withoutMarks(v any) any {
	if s, ok := v.(string); ok && strings.HasPrefix(s, "lc_run--") {
		return strings.TrimSuffix(s, "-0") // of a message id, if the model did not stream
	}
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if m["$type"] == "Overwrite" {
		return map[string]any{"__overwrite__": m["value"]}
	}
	delete(m, "$type")
	if _, ok := m["event"]; ok {
		delete(m, "run_id")
		delete(m, "parent_ids")
	}
	return m
}

func (r *run) recorded() map[string]any {
	out := map[string]any{"error": r.Error.failure()}
	if r.Options.Method == "invoke" && r.Error == nil {
		out["output"] = r.Output
	}
	if r.Options.Method != "invoke" {
		out["chunks"] = append([]any{}, r.Chunks...)
	}
	return out
}

// play makes the recorded call. It returns what came of it as JSON values, and
// for a stream the number of the step that each chunk belongs to.
func play(t *testing.T, g treadle.AnyGraph, r *run) (any, []int) {
	thread := dynamic.Open(g, "", r.settings(t)...)
	if r.Options.Saver != "" {
		thread = dynamic.Open(g, "t1", r.settings(t)...)
	}
	input := r.Input
	if string(input) == "null" {
		input = nil
	}
	if r.Options.Method == "invoke" && r.Options.Mode == nil {
		raw, err := thread.RunJSON(t.Context(), input)
		out := map[string]any{"error": failureOf(err)}
		if err == nil {
			out["output"] = masked(t, raw)
			if r.Options.Version == "v2" {
				out["output"] = map[string]any{"value": out["output"], "interrupts": []any{}}
			}
		}
		return out, nil
	}
	wire, opts := r.framing(t)
	chunks, steps, err := collect(t, wire, thread.StreamJSON(t.Context(), input, opts...))
	out := map[string]any{"error": failureOf(err)}
	if r.Options.Method == "invoke" {
		out["output"] = chunks // an invoke with modes gives the list of its chunks
	} else {
		out["chunks"] = chunks
	}
	return out, steps
}

func (r *run) settings(t *testing.T) []treadle.RunOption {
	c := r.Options.Config
	opts := []treadle.RunOption{treadle.Tags(c.Tags...), treadle.Metadata(c.Metadata)}
	if c.StepLimit != nil {
		opts = append(opts, treadle.StepLimit(*c.StepLimit))
	}
	if c.MaxConcurrency > 0 {
		opts = append(opts, treadle.MaxConcurrency(c.MaxConcurrency))
	}
	if r.Options.Context != nil {
		opts = append(opts, treadle.Context(r.Options.Context))
	}
	// What upstream puts into the config map is the run's context here.
	delete(c.Configurable, "thread_id")
	if len(c.Configurable) > 0 {
		raw, err := json.Marshal(c.Configurable)
		if err != nil {
			t.Fatal(err)
		}
		opts = append(opts, treadle.Context(json.RawMessage(raw)))
	}
	return opts
}

// framing says how the run's chunks are rendered and which it has.
func (r *run) framing(t *testing.T) (dynamic.Wire, []treadle.StreamOption) {
	var names []string
	wire := dynamic.Wire{Subgraphs: r.Options.Subgraphs}
	switch mode := r.Options.Mode.(type) {
	case string:
		names = []string{mode}
	case []any:
		wire.Several = true
		for _, m := range mode {
			names = append(names, m.(string))
		}
	}
	if r.Options.Method == "events" {
		names = []string{"events"}
	}
	var opts []treadle.StreamOption
	for _, name := range names {
		var m treadle.Mode
		if err := m.UnmarshalText([]byte(name)); err != nil {
			t.Fatal(err)
		}
		opts = append(opts, treadle.Modes(m))
	}
	if r.Options.Version == "v2" {
		wire.Version = 2
	}
	if r.Options.Subgraphs {
		opts = append(opts, treadle.Subgraphs())
	}
	return wire, append(opts, treadle.OutputKeys(r.Options.Keys...))
}

func collect(t *testing.T, wire dynamic.Wire, events iter.Seq2[treadle.Event, error]) (chunks []any, steps []int, err error) {
	chunks = []any{}
	var seen []treadle.Event
	for ev, fail := range events {
		if fail != nil {
			err = fail
			break
		}
		raw, encErr := wire.Encode(ev)
		if encErr != nil {
			t.Fatal(encErr)
		}
		if raw != nil {
			chunks = append(chunks, masked(t, raw))
			seen = append(seen, ev)
		}
	}
	return chunks, stepsOf(seen), err
}

// stepsOf numbers events so that those of one step, which may come in any
// order, have one number. What happens in a nested graph belongs to the step of
// the outermost one that is under way, which the next event of that graph
// tells; values and checkpoints come between steps, each by itself.
func stepsOf(events []treadle.Event) []int {
	steps := make([]int, len(events))
	group, last := 0, treadle.Origin{Step: -2}
	for i, ev := range slices.Backward(events) {
		at := ev.Where()
		if len(at.Namespace) == 0 {
			switch ev.(type) {
			case treadle.Values, treadle.Checkpointed:
				group--
			default:
				if last.Step != at.Step || last.Node == "" {
					group--
				}
			}
			last = at
		}
		steps[i] = group
	}
	return steps
}

var (
	uuid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timestamp = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)`)
)

// masked decodes JSON and hides what varies, and the schemas of interrupts, as the recordings do.
func masked(t *testing.T, raw json.RawMessage) any {
	t.Helper()
	v, err := decode(raw)
	if err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	mask := func(s string) string { return timestamp.ReplaceAllString(uuid.ReplaceAllString(s, "<id>"), "<ts>") }
	return rewrite(v, func(v any) any {
		switch v := v.(type) {
		case string:
			return mask(v)
		case map[string]any:
			out := make(map[string]any, len(v))
			for k, e := range v {
				out[mask(k)] = e
			}
			if _, ok := out["response_schema"]; ok && len(out) == 3 && out["id"] != nil {
				delete(out, "response_schema")
			}
			return out
		}
		return v
	})
}

func decode(raw []byte) (v any, err error) {
	err = json.Unmarshal(raw, &v)
	return v, err
}

// rewrite returns a copy of a JSON value in which fn has replaced every part,
// the inner ones first.
func rewrite(v any, fn func(any) any) any {
	switch old := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(old))
		for k, e := range old {
			out[k] = rewrite(e, fn)
		}
		return fn(out)
	case []any:
		out := make([]any, len(old))
		for i, e := range old {
			out[i] = rewrite(e, fn)
		}
		return fn(out)
	}
	return fn(v)
}

// raised is an error that a recorded node makes itself.
type raised struct {
	text      string
	temporary bool
}

func (e *raised) Error() string   { return e.text }
func (e *raised) Temporary() bool { return e.temporary }

// failureOf returns the parts of an error that are compared: its kind, and its text if
// a node created it.
func failureOf(err error) any {
	kind := "other"
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*raised](err); ok {
		return "node: " + e.text
	}
	is := func(name string, ok bool) {
		if ok {
			kind = name
		}
	}
	_, conflict := errors.AsType[*treadle.ConflictError](err)
	_, badUpdate := errors.AsType[*treadle.UpdateError](err)
	_, badGoto := errors.AsType[*treadle.GotoError](err)
	_, limit := errors.AsType[*treadle.StepLimitError](err)
	_, invalid := errors.AsType[*treadle.ValidationError](err)
	is("update", conflict || badUpdate || invalid)
	is("goto", badGoto)
	is("step limit", limit)
	is("input", errors.Is(err, treadle.ErrNothingToContinue))
	return kind
}

// failure is failureOf for a recorded error.
func (e *pyError) failure() any {
	switch {
	case e == nil:
		return nil
	case e.Message == "Cannot send a packet to the END node", strings.HasPrefix(e.Message, "Branch did not return"):
		return "goto"
	case strings.HasPrefix(e.Message, "recursion_limit must"), e.Type == "ParentCommand",
		e.Type == "KeyError" && !strings.Contains(e.Message, "attempt"):
		return "other"
	}
	switch e.Type {
	case "GraphRecursionError":
		return "step limit"
	case "InvalidUpdateError", "ValidationError":
		return "update"
	case "EmptyInputError":
		return "input"
	case "ValueError", "ConnectionError", "RuntimeError", "KeyError", "AttributeError":
		return "node: " + strings.Trim(e.Message, "'")
	}
	return e.Type
}

// place is a drawing or a run of a fixture.
type place struct{ graph, part string }

func (p place) String() string { return p.graph + "/" + p.part }

// ledger applies the differences and notes which were needed.
type ledger struct{ needed map[string]map[place]bool }

func newLedger() *ledger { return &ledger{needed: map[string]map[place]bool{}} }

// compare reports what differs between the recording and us once the
// differences that concern p are applied. Each of them must be needed: without
// it the two would not agree. With steps, chunks of one step may come in any
// order.
func (l *ledger) compare(t *testing.T, p place, want, got any, steps []int) {
	t.Helper()
	concerned := concerning(p)
	if theirs, ours := adapted(p, concerned, want, got, steps); !reflect.DeepEqual(theirs, ours) {
		t.Errorf("%s: recorded (-), ours (+), after %s:\n%s", p, idsOf(concerned), gocmp.Diff(theirs, ours))
		return
	}
	for i, d := range concerned {
		others := slices.Delete(slices.Clone(concerned), i, i+1)
		if theirs, ours := adapted(p, others, want, got, steps); !reflect.DeepEqual(theirs, ours) {
			if l.needed[d.id] == nil {
				l.needed[d.id] = map[place]bool{}
			}
			l.needed[d.id][p] = true
		}
	}
}

// checkAllUsed fails for differences that no longer occur: anywhere, or at a
// place that they name.
func (l *ledger) checkAllUsed(t *testing.T) {
	for _, d := range differences {
		if len(l.needed[d.id]) == 0 {
			t.Errorf("difference %q no longer occurs", d.id)
			continue
		}
		for _, pattern := range d.places {
			used := false
			for p := range l.needed[d.id] {
				used = used || matches(pattern, p)
			}
			if !used {
				t.Errorf("difference %q no longer occurs at %s", d.id, pattern)
			}
		}
	}
}

func idsOf(ds []*difference) string {
	var ids []string
	for _, d := range ds {
		ids = append(ids, d.id)
	}
	return "[" + strings.Join(ids, " ") + "]"
}

// adapted applies differences to copies of what was recorded and of what we
// gave, and orders the chunks of each step.
func adapted(p place, ds []*difference, want, got any, steps []int) (any, any) {
	same := func(v any) any { return v }
	want, got = rewrite(want, same), rewrite(got, same)
	for _, d := range ds {
		if d.want != nil {
			want = d.want(p, want)
		}
		if d.both != nil {
			want, got = d.both(want), d.both(got)
		}
	}
	return settled(want, steps), settled(got, steps)
}

func concerning(p place) (ds []*difference) {
	for i := range differences {
		if differences[i].concerns(p) {
			ds = append(ds, &differences[i])
		}
	}
	return ds
}

// settled orders the chunks inside each step.
func settled(v any, steps []int) any {
	m, ok := v.(map[string]any)
	if !ok || steps == nil {
		return v
	}
	chunks, _ := m["chunks"].([]any)
	if len(chunks) != len(steps) {
		return v
	}
	type ranked struct {
		step  int
		text  string
		chunk any
	}
	var all []ranked
	for i, c := range chunks {
		all = append(all, ranked{steps[i], canonical(c), c})
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.text, b.text)) })
	sorted := make([]any, len(all))
	for i, r := range all {
		sorted[i] = r.chunk
	}
	out := maps.Clone(m)
	out["chunks"] = sorted
	return out
}

// matches says whether a pattern names a place: "graph/part", each with * for
// any text.
func matches(pattern string, p place) bool {
	graph, part, _ := strings.Cut(pattern, "/")
	return glob(graph, p.graph) && glob(part, p.part)
}

func glob(pattern, s string) bool {
	ok, err := filepath.Match(pattern, s)
	if err != nil {
		panic(fmt.Sprintf("pattern %q: %v", pattern, err))
	}
	return ok
}
