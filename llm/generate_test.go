package llm_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// modelFunc is a model made of a function.
type modelFunc func(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool)

func (f modelFunc) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) { f(ctx, req, yield) }
}

// diary is an observer that records its calls.
type diary struct {
	calls []observe.Call
	lines []string
}

func (d *diary) Begin(ctx context.Context, call observe.Call) (context.Context, observe.Span) {
	call.Detail = nil // the whole request or tool, for traces
	d.calls = append(d.calls, call)
	d.lines = append(d.lines, fmt.Sprintf("begin %s %s %v", call.Kind, call.Name, call.Tags))
	return ctx, d
}

func (d *diary) Chunk(v any) {
	c := v.(llm.Chunk)
	d.lines = append(d.lines, fmt.Sprintf("chunk %s %q", c.ID, c.Content))
}

func (d *diary) End(output any, err error) {
	if m, ok := output.(llm.Message); ok {
		output = m.ID + " " + m.Content
	}
	d.lines = append(d.lines, fmt.Sprintf("end %v %v", output, err))
}

func (d *diary) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, observe.Key, d)
}

func speaker(chunks ...llm.Chunk) modelFunc {
	return func(_ context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		for _, c := range chunks {
			if !yield(c, nil) {
				return
			}
		}
	}
}

func TestGenerateReportsEachChunkUnderOneID(t *testing.T) {
	for _, test := range []struct {
		name   string
		model  llm.Model
		want   []string
		wantID string
	}{
		{"the provider's id", speaker(llm.Chunk{ID: "m1", Content: "a"}, llm.Chunk{Content: "b"}, llm.Chunk{ID: "m2", Stop: llm.StopEnd}),
			[]string{"begin chat_model model [x]", `chunk m1 "a"`, `chunk m1 "b"`, `chunk m1 ""`, "end m1 ab <nil>"}, "m1"},
		{"a new ID, although the provider sends its own late", speaker(llm.Chunk{Content: "a"}, llm.Chunk{ID: "m2", Content: "b"}),
			[]string{"begin chat_model model [x]", `chunk ID "a"`, `chunk ID "b"`, "end ID ab <nil>"}, ""},
		{"in one piece", llm.With(speaker(llm.Chunk{ID: "m1", Content: "ab"}), llm.NoStream()),
			[]string{"begin chat_model model [x]", "end m1 ab <nil>"}, "m1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var d diary
			m, err := llm.Generate(d.in(t.Context()), llm.With(test.model, llm.Tags("x")), llm.User("hi"))
			if err != nil {
				t.Fatal(err)
			}
			if test.wantID != "" && m.ID != test.wantID || m.ID == "" {
				t.Errorf("the message has id %q, want %q", m.ID, test.wantID)
			}
			for i := range d.lines {
				d.lines[i] = strings.ReplaceAll(d.lines[i], m.ID, cmpOr(test.wantID, "ID"))
			}
			same(t, "observed calls", test.want, d.lines)
		})
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestGenerateReportsCallToRun(t *testing.T) {
	var d diary
	model := llm.With(llmtest.Scripted(t, llmtest.Say("yes")), llm.Temperature(0.5), llm.MaxTokens(9), llm.Metadata(map[string]any{"mine": 1}), llm.Tags("joke"))
	if _, err := llm.Generate(d.in(t.Context()), llm.With(model, llm.Tags("outer")), llm.User("hi")); err != nil {
		t.Fatal(err)
	}
	got := d.calls[0]
	same(t, "the call", observe.Call{Kind: observe.Model, Name: "script", Input: llm.Messages{llm.User("hi")}, Tags: []string{"joke", "outer"},
		Metadata: map[string]any{"ls_model_type": "chat", "ls_provider": "llmtest", "ls_model_name": "script", "ls_temperature": 0.5, "ls_max_tokens": 9, "mine": 1}, Provider: "llmtest"}, got)
}

func TestGenerateFailsWithPartialMessage(t *testing.T) {
	broken := errors.New("broken")
	var d diary
	m, err := llm.Generate(d.in(t.Context()), llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("one two"), Err: broken}), llm.User("count"))
	if !errors.Is(err, broken) || m.Text() != "one two" {
		t.Errorf("got %q, %v; want the text so far and the error", m.Text(), err)
	}
	if last := d.lines[len(d.lines)-1]; last != "end <nil> broken" {
		t.Errorf("the run observed %q", last)
	}
}

func TestGenerateRejectsEmptyStream(t *testing.T) {
	if m, err := llm.Generate(t.Context(), speaker(), llm.User("hi")); err == nil || !errors.Is(err, llm.ErrEmpty) {
		t.Errorf("got %+v, %v; want an error", m, err)
	}
}

func TestGenerateRejectsInvalidRequests(t *testing.T) {
	ok := llm.NewTool("ok", "", func(context.Context, struct{}) (string, error) { return "", nil })
	for want, model := range map[string]llm.Model{
		`duplicate tool name "ok"`:        llm.With(speaker(), llm.Tools(ok, ok)),
		`unknown tool choice "other"`:     llm.With(speaker(), llm.Tools(ok), llm.ToolChoice("other")),
		"invalid name":                    llm.With(speaker(), llm.Tools(&llm.Tool{Name: "not ok", Run: ok.Run})),
		"nil tool":                        llm.With(speaker(), llm.Tools(nil)),
		"arguments must be a struct, not": llm.With(speaker(), llm.Tools(llm.NewTool("f", "", func(context.Context, string) (string, error) { return "", nil }))),
	} {
		if _, err := llm.Generate(t.Context(), model, llm.User("hi")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
	if _, err := llm.Generate(t.Context(), speaker()); err == nil || !strings.Contains(err.Error(), "no messages") {
		t.Errorf("without messages the error is %v", err)
	}
}

// A history from a canceled turn is repaired on the way to the model,
// which here is as strict as the strictest provider.
func TestGenerateRepairsHistory(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Say("ok", func(r *llm.Request) error {
		if got, want := flow(r.Messages), "u (a,b) a=1 b! again"; got != want {
			return fmt.Errorf("the model got %q, want %q", got, want)
		}
		return nil
	}))
	if _, err := llm.Generate(t.Context(), model, llm.User("u"), calls("a", "b"), result("a", "1"), result("a", "1"), llm.User("again"), result("z", "9")); err != nil {
		t.Error(err)
	}
}

func TestStreamEndsCallIfCallerStops(t *testing.T) {
	var d diary
	ended := false
	model := modelFunc(func(ctx context.Context, _ *llm.Request, yield func(llm.Chunk, error) bool) {
		defer func() { ended = true }()
		for yield(llm.Chunk{Content: "on and on "}, nil) {
		}
	})
	for range llm.Stream(d.in(t.Context()), model, llm.User("hi")) {
		break
	}
	if !ended || !strings.Contains(d.lines[len(d.lines)-1], "stopped reading") {
		t.Errorf("the model ended: %v; the run observed %q", ended, d.lines)
	}
}

// around is a model of one's own around another.
type around struct{ llm.Model }

func (a around) Unwrap() llm.Model            { return a.Model }
func (a around) Rewrap(m llm.Model) llm.Model { return around{m} }

// What is bound inside is known to the run, whatever stands around it.
func TestTagsAreKnownThroughWrappers(t *testing.T) {
	bound := func() llm.Model {
		return llm.With(llmtest.NewScript(llmtest.Say("x")), llm.Tags("in"), llm.Metadata(map[string]any{"k": 1}), llm.NoStream())
	}
	for name, model := range map[string]llm.Model{
		"retry":     llm.Retry(bound(), nil),
		"fallback":  llm.Fallback(bound(), llmtest.NewScript()),
		"one's own": around{bound()},
		"several":   llm.Fallback(llm.Retry(around{bound()}, nil), llmtest.NewScript()),
	} {
		var d diary
		if _, err := llm.Generate(d.in(t.Context()), llm.With(model, llm.Tags("out")), llm.User("hi")); err != nil {
			t.Fatal(err)
		}
		call := d.calls[0]
		same(t, name+": tags", []string{"in", "out"}, call.Tags)
		same(t, name+": metadata", 1, call.Metadata["k"])
		same(t, name+": model", "script", call.Name)
		same(t, name+": lines", 2, len(d.lines)) // its beginning and its end, and no chunk
	}
}

func TestOuterSettingsWin(t *testing.T) {
	var got *llm.Request
	model := modelFunc(func(_ context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
		got = req
		yield(llm.Chunk{Content: "x"}, nil)
	})
	inner := llm.With(model, llm.Temperature(1), llm.Seed(7), llm.TopP(0.5), llm.StopWords("a"), llm.Tags("in"), llm.Setting("k", 1), llm.ModelName("m"), llm.Reasoning("low"))
	outer := llm.With(llm.Retry(inner, nil), llm.Temperature(0), llm.Tags("out"), llm.Setting("l", 2), llm.SerialTools())
	check := func(t *testing.T) {
		t.Helper()
		same(t, "the request", llm.Request{Model: "m", Messages: llm.Messages{llm.User("hi")}, Temperature: new(0.0), TopP: new(0.5), Seed: new(int64(7)), StopWords: []string{"a"},
			Tags: []string{"in", "out"}, Settings: map[string]any{"k": 1, "l": 2}, SerialTools: true, Reasoning: "low"}, *got)
	}
	if _, err := llm.Generate(t.Context(), outer, llm.User("hi")); err != nil {
		t.Fatal(err)
	}
	check(t)
	// Each model of a fallback has settings of its own.
	if _, err := llm.Generate(t.Context(), llm.With(llm.Fallback(inner, model), llm.Temperature(0), llm.Setting("l", 2), llm.SerialTools()), llm.User("hi")); err != nil {
		t.Fatal(err)
	}
	got.Tags = []string{"in", "out"} // not for models
	check(t)
	// Asked without Generate the settings count as well.
	if _, err := llm.Collect(outer.Stream(t.Context(), &llm.Request{Messages: llm.Messages{llm.User("hi")}})); err != nil {
		t.Fatal(err)
	}
	check(t)
}
