package dynamic_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/reduce"
)

// shelf has accumulating fields of every kind, and some other fields.
type shelf struct {
	Title string                  `json:"title"`
	Price *float64                `json:"price"`
	Tags  reduce.List[string]     `json:"tags"`
	Seen  reduce.Set[int]         `json:"seen"`
	Count reduce.Sum[int]         `json:"count"`
	Best  reduce.Max[float64]     `json:"best"`
	Notes reduce.Map[string, any] `json:"notes"`
	Extra any                     `json:"extra"`
}

// shelves returns a graph for callers that use only its JSON.
func shelves(t *testing.T) treadle.AnyGraph {
	t.Helper()
	type put struct {
		Tags  reduce.List[string]
		Count reduce.Sum[int]
	}
	b := treadle.New[shelf]("shelves")
	treadle.AddNode(b, "put", func(_ context.Context, s shelf) (put, error) {
		return put{reduce.List[string]{"put"}, reduce.SumOf(1)}, nil
	})
	treadle.AddNode(b, "sort", func(context.Context, shelf) (struct{}, error) { return struct{}{}, nil })
	b.Edge(treadle.Start, "put")
	b.Edge("put", "sort")
	return weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
}

// asked runs a graph with JSON and saves nothing.
func asked(t *testing.T, g treadle.AnyGraph, in string, opts ...treadle.RunOption) (string, error) {
	t.Helper()
	raw, err := dynamic.Open(g, "", opts...).RunJSON(t.Context(), json.RawMessage(in))
	return string(raw), err
}

// Fields that were never written are absent; written fields are present, even if null.
func TestRunJSON(t *testing.T) {
	g := shelves(t)
	same(t, "name", "shelves", g.Name())
	same(t, "shape", 4, len(g.Shape().Nodes))
	for in, want := range map[string]string{
		`{}`:                            `{"tags":["put"],"seen":[],"count":1,"notes":{}}`,
		`{"title":""}`:                  `{"title":"","tags":["put"],"seen":[],"count":1,"notes":{}}`,
		`{"title":"Emma","count":2}`:    `{"title":"Emma","tags":["put"],"seen":[],"count":3,"notes":{}}`,
		`{"price":null,"extra":[1]}`:    `{"price":null,"tags":["put"],"seen":[],"count":1,"notes":{},"extra":[1]}`,
		`{"seen":[2,1,2],"best":1.5}`:   `{"tags":["put"],"seen":[1,2],"count":1,"best":1.5,"notes":{}}`,
		`{"notes":{"a":{"b":[null]}}}`:  `{"tags":["put"],"seen":[],"count":1,"notes":{"a":{"b":[null]}}}`,
		`{"tags":["a"],"price":2.5e-1}`: `{"price":0.25,"tags":["a","put"],"seen":[],"count":1,"notes":{}}`,
	} {
		out, err := asked(t, g, in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
		}
		same(t, in, want, out)
	}
}

// The error for an invalid input names the field, and nothing runs.
func TestRunJSONRejectsInvalidInput(t *testing.T) {
	g := shelves(t)
	for in, want := range map[string]struct{ field, msg string }{
		`{"titel":"x"}`:      {"titel", "unknown field; the state has"},
		`{"Title":"x"}`:      {"Title", "unknown field; the state has"},
		`{"title":1}`:        {"title", "want string"},
		`{"tags":"a"}`:       {"tags", "want reduce.List[string]"},
		`{"count":"many"}`:   {"count", "want reduce.Sum[int]"},
		`[1]`:                {"", "want a JSON object of fields"},
		`"text"`:             {"", "want a JSON object of fields"},
		`{"title":"x"`:       {"", "want a JSON object of fields"},
		`{"count":1,"x":{}}`: {"x", "unknown field; the state has"},
	} {
		_, err := asked(t, g, in)
		problem, ok := errors.AsType[*treadle.UpdateError](err)
		if !ok {
			t.Errorf("%s: got %v", in, err)
			continue
		}
		if problem.Field != want.field || !strings.Contains(problem.Msg, want.msg) {
			t.Errorf("%s: field %q, %s", in, problem.Field, problem.Msg)
		}
	}
}

// An input type is a filter: fields that it lacks are dropped, but fields that the
// graph lacks cause an error.
func TestRunJSONFiltersByInputType(t *testing.T) {
	type ask struct{ Title string }
	type answer struct {
		Title string
		Tags  reduce.List[string]
	}
	b := treadle.New[shelf]("filtered")
	treadle.AddNode(b, "node", func(_ context.Context, s shelf) (answer, error) {
		return answer{s.Title + "!", reduce.List[string]{fmt.Sprint(len(s.Tags))}}, nil
	})
	b.Edge(treadle.Start, "node")
	g, err := treadle.Compile[ask, answer](b, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := asked(t, g, `{"title":"Emma","tags":["dropped"]}`)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "output", `{"title":"Emma!","tags":["0"]}`, out)
	if _, err := asked(t, g, `{"other":1}`); err == nil {
		t.Error("unknown field was accepted")
	}
}

// The marker replaces accumulated values, in both of its forms and in every JSON
// update. In other fields, it is plain data.
//
// Parity: 169.
func TestOverwriteInJSON(t *testing.T) {
	for _, marker := range []string{`{"__overwrite__":["fresh"]}`, `{"type":"__overwrite__","value":["fresh"]}`} {
		thread := dynamic.Open(shelves(t), "t")
		if _, err := thread.RunJSON(t.Context(), json.RawMessage(`{"tags":["old"]}`)); err != nil {
			t.Fatal(err)
		}
		out, err := thread.RunJSON(t.Context(), json.RawMessage(`{"tags":`+marker+`}`))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "as input", `{"tags":["fresh","put"],"seen":[],"count":2,"notes":{}}`, string(out))
		if _, err := thread.UpdateJSON(t.Context(), json.RawMessage(`{"tags":`+marker+`}`)); err != nil {
			t.Fatal(err)
		}
		snap, err := thread.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		same(t, "as update", `{"tags":["fresh"],"seen":[],"count":2,"notes":{}}`, snap.State.String())
	}
	out, err := asked(t, shelves(t), `{"extra":{"__overwrite__":1}}`)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "plain data", `{"tags":["put"],"seen":[],"count":1,"notes":{},"extra":{"__overwrite__":1}}`, out)
	out, err = asked(t, shelves(t), `{"notes":{"__overwrite__":1,"other":2}}`)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "map that resembles the marker", `{"tags":["put"],"seen":[],"count":1,"notes":{"__overwrite__":1,"other":2}}`, out)
	_, err = asked(t, shelves(t), `{"tags":{"__overwrite__":1}}`)
	if problem, ok := errors.AsType[*treadle.UpdateError](err); !ok || problem.Field != "tags" {
		t.Errorf("got %v", err)
	}
}

// A failed run returns the output so far.
func TestRunJSONReturnsPartialOutput(t *testing.T) {
	b := chain("failing", "a")
	treadle.AddNode(b, "b", func(context.Context, diary) (page, error) { return page{}, passing{"boom"} })
	b.Edge("a", "b")
	out, err := asked(t, weave(t, b, nil), `{"topic":"owls"}`)
	if !errors.Is(err, passing{"boom"}) {
		t.Errorf("got %v", err)
	}
	same(t, "output", `{"topic":"owls","log":["a"]}`, out)
}

func TestOpenErrors(t *testing.T) {
	unsaved := weave(t, chain("unsaved", "a"), nil)
	in := json.RawMessage(`{}`)
	for name, tt := range map[string]struct {
		call func() error
		want error
	}{
		"run without a saver": {func() error { _, err := dynamic.Open(unsaved, "t").RunJSON(t.Context(), in); return err }, treadle.ErrNoSaver},
		"stream without a saver": {func() error {
			err := heard(dynamic.Open(unsaved, "t").StreamJSON(t.Context(), in))
			return err
		}, treadle.ErrNoSaver},
		"state without a saver":   {func() error { _, err := dynamic.Open(unsaved, "t").State(t.Context()); return err }, treadle.ErrNoSaver},
		"state without a thread":  {func() error { _, err := dynamic.Open(shelves(t), "").State(t.Context()); return err }, treadle.ErrNoThread},
		"update without a thread": {func() error { _, err := dynamic.Open(shelves(t), "").UpdateJSON(t.Context(), in); return err }, treadle.ErrNoThread},
		"history without a thread": {func() error {
			for _, err := range dynamic.Open(shelves(t), "").History(t.Context(), nil) {
				return err
			}
			return nil
		}, treadle.ErrNoThread},
		"continue an unused thread": {func() error { _, err := dynamic.Open(shelves(t), "t").RunJSON(t.Context(), nil); return err }, treadle.ErrNothingToContinue},
		"continue without a thread": {func() error { _, err := dynamic.Open(shelves(t), "").RunJSON(t.Context(), nil); return err }, treadle.ErrNothingToContinue},
	} {
		if err := tt.call(); !errors.Is(err, tt.want) {
			t.Errorf("%s: got %v, want %v", name, err, tt.want)
		}
	}
	same(t, "id", "t", dynamic.Open(shelves(t), "t").ID())
}

func TestStreamJSON(t *testing.T) {
	thread := dynamic.Open(shelves(t), "t")
	var got []string
	for ev, err := range thread.StreamJSON(t.Context(), json.RawMessage(`{"title":"Emma"}`), treadle.Modes(treadle.ModeUpdates, treadle.ModeValues)) {
		if err != nil {
			t.Fatal(err)
		}
		switch ev := ev.(type) {
		case treadle.Values:
			got = append(got, "values "+ev.State.String())
		case treadle.Updated:
			got = append(got, ev.Node+" wrote "+ev.Update.String())
		case treadle.Finished[json.RawMessage]:
			got = append(got, "finished "+string(ev.Output))
		default:
			t.Errorf("unexpected event %T", ev)
		}
	}
	same(t, "events", []string{
		`values {"title":"Emma","tags":[],"seen":[],"count":0,"notes":{}}`,
		`put wrote {"tags":["put"],"count":1}`,
		`values {"title":"Emma","tags":["put"],"seen":[],"count":1,"notes":{}}`,
		`sort wrote null`,
		`finished {"title":"Emma","tags":["put"],"seen":[],"count":1,"notes":{}}`,
	}, got)
	err := heard(thread.StreamJSON(t.Context(), json.RawMessage(`{"x":1}`)))
	if _, ok := errors.AsType[*treadle.UpdateError](err); !ok {
		t.Errorf("got %v", err)
	}
}

// The test runs, edits, and continues a thread with JSON, and reads its state and history.
func TestThreadLifecycle(t *testing.T) {
	g := shelves(t)
	thread := dynamic.Open(g, "t", treadle.Metadata(map[string]any{"user": "ada"}))
	empty, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "before the first run", []any{true, "null", []string(nil)}, []any{empty.ID.IsZero(), empty.State.String(), empty.Next})
	if _, err := thread.RunJSON(t.Context(), json.RawMessage(`{"title":"Emma"}`)); err != nil {
		t.Fatal(err)
	}
	// As if put had written: sort is next.
	edited, err := thread.UpdateJSON(t.Context(), json.RawMessage(`{"tags":["edited"],"count":10}`), treadle.AsNode("put"))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "after the edit", []any{edited, []string{"sort"}, checkpoint.Update, `{"title":"Emma","tags":["put","edited"],"seen":[],"count":11,"notes":{}}`},
		[]any{snap.ID, snap.Next, snap.Source, snap.State.String()})
	out, err := thread.RunJSON(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "continued", `{"title":"Emma","tags":["put","edited"],"seen":[],"count":11,"notes":{}}`, string(out))
	if _, err := thread.UpdateJSON(t.Context(), json.RawMessage(`null`), treadle.AsNode("sort")); err != nil {
		t.Fatal(err)
	}
	var history []string
	for snap, err := range thread.History(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		history = append(history, fmt.Sprintf("%d %s %v", snap.Step, snap.Source, snap.Next))
	}
	same(t, "history", []string{
		"5 update []",
		"4 loop []",
		"3 update [sort]",
		"2 loop []",
		"1 loop [sort]",
		"0 loop [put]",
		"-1 input [__start__]",
	}, history)
	n := 0
	for snap, err := range thread.History(t.Context(), &treadle.HistoryOptions{Limit: 1, Before: edited}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		same(t, "before the edit", 2, snap.Step)
	}
	same(t, "limit", 1, n)
}

func TestUpdateJSONRejectsInvalidValues(t *testing.T) {
	thread := dynamic.Open(shelves(t), "t")
	if _, err := thread.RunJSON(t.Context(), json.RawMessage(`{}`)); err != nil {
		t.Fatal(err)
	}
	before, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		values, as, field, msg string
	}{
		{`{"x":1}`, "put", "x", "unknown field; the state has"},
		{`{"count":[]}`, "put", "count", "want reduce.Sum[int]"},
		{`[]`, "put", "", "want a JSON object of fields"},
		{`{}`, "unknown", "", "unknown node; the graph has put, sort"},
	} {
		_, err := thread.UpdateJSON(t.Context(), json.RawMessage(tt.values), treadle.AsNode(tt.as))
		problem, ok := errors.AsType[*treadle.UpdateError](err)
		if !ok || problem.Field != tt.field || !strings.Contains(problem.Msg, tt.msg) {
			t.Errorf("%s as %s: got %v", tt.values, tt.as, err)
		}
	}
	after, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the head", before.ID, after.ID)
}

type visitor struct {
	Name string `json:"name"`
	Age  int    `json:"age"`
}

func (v visitor) Validate() error {
	if v.Age < 0 {
		return errors.New("negative age")
	}
	return nil
}

// Parity: 194.
func TestContextJSON(t *testing.T) {
	greet := func(declare func(*treadle.Builder[diary])) treadle.AnyGraph {
		b := treadle.New[diary]("greet")
		treadle.AddNode(b, "node", func(ctx context.Context, _ diary) (page, error) {
			v, ok := treadle.ContextFrom[visitor](ctx)
			return did(fmt.Sprintf("%s %d %v", v.Name, v.Age, ok)), nil
		})
		b.Edge(treadle.Start, "node")
		declare(b)
		return weave(t, b, nil)
	}
	declared := greet(func(b *treadle.Builder[diary]) { treadle.ContextType[visitor](b) })
	plain := greet(func(*treadle.Builder[diary]) {})
	for name, tt := range map[string]struct {
		g    treadle.AnyGraph
		opt  treadle.RunOption
		want string // the output, or a part of the error
	}{
		"json":         {declared, treadle.Context(json.RawMessage(`{"name":"ada","age":36}`)), `{"log":["ada 36 true"]}`},
		"partly":       {declared, treadle.Context(json.RawMessage(`{"name":"ada"}`)), `{"log":["ada 0 true"]}`},
		"typed":        {declared, treadle.Context(visitor{"bob", 1}), `{"log":["bob 1 true"]}`},
		"undeclared":   {plain, treadle.Context(visitor{"bob", 1}), `{"log":["bob 1 true"]}`},
		"none":         {declared, treadle.Tags(), `{"log":[" 0 false"]}`},
		"wrong type":   {declared, treadle.Context("bob"), `graph "greet": context: got string, want dynamic_test.visitor`},
		"wrong json":   {declared, treadle.Context(json.RawMessage(`{"age":"old"}`)), `graph "greet": context: want dynamic_test.visitor: json: cannot unmarshal string`},
		"no object":    {declared, treadle.Context(json.RawMessage(`[1]`)), `graph "greet": context: want dynamic_test.visitor: json: cannot unmarshal array`},
		"null":         {declared, treadle.Context(json.RawMessage(` null`)), `{"log":[" 0 false"]}`},
		"misspelled":   {declared, treadle.Context(json.RawMessage(`{"nome":"ada"}`)), `graph "greet": context: want dynamic_test.visitor: json: unknown field "nome"; the type has name, age`},
		"broken":       {declared, treadle.Context(json.RawMessage(`{`)), `graph "greet": context: want dynamic_test.visitor: unexpected end of JSON input`},
		"not declared": {plain, treadle.Context(json.RawMessage(`{}`)), `graph "greet": context: JSON value without a declared type: use treadle.ContextType`},
		"not valid":    {declared, treadle.Context(json.RawMessage(`{"age":-1}`)), `graph "greet": invalid context: negative age`},
	} {
		out, err := asked(t, tt.g, `{}`, tt.opt)
		if err != nil {
			same(t, name+": output", `{}`, strings.ReplaceAll(out, `{"log":[]}`, `{}`))
			out = err.Error()
		}
		if !strings.HasPrefix(out, tt.want) {
			t.Errorf("%s: got %s, want %s", name, out, tt.want)
		}
	}
}

// Every kind of graph returns the same JSON as its typed run.
func TestOpenEveryKindOfGraph(t *testing.T) {
	sent := func() *treadle.Builder[diary] {
		b := treadle.New[diary]("sent")
		work := treadle.AddNode(b, "work", func(_ context.Context, n int) (page, error) { return did(fmt.Sprint("work ", n)), nil })
		treadle.AddNode(b, "plan", func(context.Context, diary) (treadle.Command[page], error) {
			up := did("plan")
			return treadle.Command[page]{Update: &up, Goto: append(treadle.Send(work, 1), treadle.Send(work, 2)...)}, nil
		}, treadle.Destinations("work"))
		treadle.AddNode(b, "last", func(context.Context, diary) (cleared, error) {
			return cleared{treadle.Overwrite[reduce.List[string]]{Value: reduce.List[string]{"only"}}}, nil
		}, treadle.Defer())
		b.Edge(treadle.Start, "plan")
		b.Edge("work", "last")
		return b
	}
	handled := func() *treadle.Builder[diary] {
		b := treadle.New[diary]("handled")
		treadle.AddNode(b, "bad", func(context.Context, diary) (page, error) { return page{}, passing{"boom"} }, treadle.OnError(recovers), treadle.Cache(0))
		b.Edge(treadle.Start, "bad")
		return b
	}
	nest := func() *treadle.Builder[diary] {
		child := treadle.New[diary]("child")
		treadle.AddNode(child, "away", func(context.Context, diary) (treadle.Command[page], error) {
			up := did("away")
			return treadle.Command[page]{Update: &up, Goto: treadle.To("target"), Parent: true}, nil
		}, treadle.Handoff("target"))
		child.Edge(treadle.Start, "away")
		b := treadle.New[diary]("nest")
		treadle.AddGraph(b, "sub", weave(t, child, nil))
		treadle.AddNode(b, "target", does("target"))
		b.Edge(treadle.Start, "sub")
		return b
	}
	for name, b := range map[string]*treadle.Builder[diary]{"sends, command, overwrite": sent(), "handler": handled(), "subgraph": nest()} {
		t.Run(name, func(t *testing.T) {
			g := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
			in := diary{Topic: "owls", Log: reduce.List[string]{"in"}}
			typed, err := g.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			want, err := json.Marshal(typed)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"", "t"} {
				out, err := dynamic.Open(g, id).RunJSON(t.Context(), raw)
				if err != nil {
					t.Fatal(err)
				}
				same(t, "run on "+id, string(want), string(out))
			}
			for ev, err := range dynamic.Open(g, "").StreamJSON(t.Context(), raw) {
				if err != nil {
					t.Fatal(err)
				}
				if end, ok := ev.(treadle.Finished[json.RawMessage]); ok {
					same(t, "streamed", string(want), string(end.Output))
				}
			}
			snap, err := dynamic.Open(g, "t").State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			same(t, "state", string(want), snap.State.String())
		})
	}
}

// A graph with one channel takes and returns the bare value.
func TestOneChannelGraph(t *testing.T) {
	type words = reduce.List[string]
	b := treadle.New[words]("words")
	treadle.AddNode(b, "add", func(_ context.Context, w words) (words, error) { return words{fmt.Sprint(len(w))}, nil })
	b.Edge(treadle.Start, "add")
	g := weave(t, b, &treadle.Options{Saver: checkpoint.NewMemory()})
	thread := dynamic.Open(g, "t")
	for _, want := range []string{`["a","1"]`, `["a","1","a","3"]`} {
		out, err := thread.RunJSON(t.Context(), json.RawMessage(`["a"]`))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "words", want, string(out))
	}
	if _, err := thread.UpdateJSON(t.Context(), json.RawMessage(`{"__overwrite__":["z"]}`)); err != nil {
		t.Fatal(err)
	}
	snap, err := thread.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, "state", `["z"]`, snap.State.String())
	_, err = thread.RunJSON(t.Context(), json.RawMessage(`{"a":1}`))
	if _, ok := errors.AsType[*treadle.UpdateError](err); !ok {
		t.Errorf("got %v", err)
	}
}
