package treadle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// deployed returns a thread of a workflow in one version of a program, with a saver that
// outlives it.
func deployed(t *testing.T, saver checkpoint.Saver, log *bytes.Buffer, fn func(context.Context, int) (string, error)) *treadle.Thread[int, string] {
	t.Helper()
	g, err := treadle.NewWorkflow("w", fn, &treadle.Options{Saver: saver, Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return g.Thread("1")
}

func asks[T any](question any) func(context.Context, int) (string, error) {
	return func(ctx context.Context, _ int) (string, error) {
		answer, err := treadle.Interrupt[T](ctx, question)
		if err != nil {
			return "", err
		}
		raw, err := json.Marshal(answer)
		return string(raw), err
	}
}

func TestInterruptAsksAgainAfterTypeChange(t *testing.T) {
	for name, question := range map[string]any{"by order": "how many?", "by key": treadle.Question{Value: "how many?", Key: "n"}} {
		t.Run(name, func(t *testing.T) {
			saver, log := checkpoint.NewMemory(), &bytes.Buffer{}
			_, err := deployed(t, saver, log, asks[bool](question)).Run(t.Context(), 0)
			first := pausesOf(t, err)

			v2 := deployed(t, saver, log, asks[int](question))
			_, err = v2.Resume(t.Context(), true) // valid for the saved question
			second := pausesOf(t, err)
			if len(second) != 1 || second[0].ID == first[0].ID || string(second[0].Schema) != `{"type":"integer"}` {
				t.Fatalf("after an answer for the old version the thread asks %v, want an integer", second)
			}
			if !strings.Contains(log.String(), "asking again") {
				t.Errorf("the log does not report the dropped answer: %s", log)
			}
			if _, err = v2.Resume(t.Context(), true); err == nil {
				t.Error("the new question takes a bool")
			}
			if out, err := v2.Resume(t.Context(), 7); err != nil || out != "7" {
				t.Errorf("Resume(7) = %q, %v", out, err)
			}
		})
	}
}

// The type may change more than once before the node gets through.
func TestInterruptAsksAgainForEachNewType(t *testing.T) {
	saver, log := checkpoint.NewMemory(), &bytes.Buffer{}
	_, err := deployed(t, saver, log, asks[bool]("?")).Run(t.Context(), 0)
	pausesOf(t, err)
	_, err = deployed(t, saver, log, asks[int]("?")).Resume(t.Context(), true)
	pausesOf(t, err)
	v3 := deployed(t, saver, log, asks[string]("?"))
	_, err = v3.Resume(t.Context(), 7)
	pausesOf(t, err)
	if out, err := v3.Resume(t.Context(), "done"); err != nil || out != `"done"` {
		t.Errorf("Resume = %q, %v", out, err)
	}
}

func TestContinueShowsNewQuestion(t *testing.T) {
	saver, log := checkpoint.NewMemory(), &bytes.Buffer{}
	_, err := deployed(t, saver, log, asks[bool]("?")).Run(t.Context(), 0)
	pausesOf(t, err)
	v2 := deployed(t, saver, log, asks[int]("?"))
	_, err = v2.Continue(t.Context())
	pausesOf(t, err)
	if out, err := v2.Resume(t.Context(), 7); err != nil || out != "7" {
		t.Errorf("Resume(7) = %q, %v", out, err)
	}
}

// A node that runs again gets the signal that it took before, unless the signal can no
// longer be decoded.
func TestWaitForSkipsOutdatedSignal(t *testing.T) {
	saver, log := checkpoint.NewMemory(), &bytes.Buffer{}
	later := errors.New("the rest of the node fails")
	v1 := deployed(t, saver, log, func(ctx context.Context, _ int) (string, error) {
		if _, err := treadle.WaitFor[string](ctx, "go", nil); err != nil {
			return "", err
		}
		return "", later
	})
	_, err := v1.Run(t.Context(), 0)
	pausesOf(t, err)
	if err := v1.Signal(t.Context(), "go", "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := v1.Continue(t.Context()); !errors.Is(err, later) {
		t.Fatal(err)
	}
	v2 := deployed(t, saver, log, func(ctx context.Context, _ int) (string, error) {
		n, err := treadle.WaitFor[int](ctx, "go", nil)
		return string(rune('0' + n)), err
	})
	_, err = v2.Continue(t.Context())
	pausesOf(t, err)
	if err := v2.Signal(t.Context(), "go", 5); err != nil {
		t.Fatal(err)
	}
	if out, err := v2.Continue(t.Context()); err != nil || out != "5" {
		t.Errorf("Continue = %q, %v", out, err)
	}
}

func TestQuestionIgnoresKeyOrder(t *testing.T) {
	saver, log := checkpoint.NewMemory(), &bytes.Buffer{}
	_, err := deployed(t, saver, log, asks[int](json.RawMessage(`{"a":1,"b":2.0}`))).Run(t.Context(), 0)
	pausesOf(t, err)
	out, err := deployed(t, saver, log, asks[int](json.RawMessage(`{"b":2,"a":1}`))).Resume(t.Context(), 7)
	if err != nil || out != "7" || log.Len() > 0 {
		t.Errorf("Resume = %q, %v; log: %s", out, err, log)
	}
}

// Parity with LangGraph, where fields with a reducer start with an empty value of their
// type.
func TestAccumulatingFieldsAreNeverNull(t *testing.T) {
	type state struct {
		Items []string       `json:"items"`
		Seen  map[string]int `json:"seen"`
		Raw   []byte         `json:"raw"`
	}
	build := func(name string) *treadle.Builder[state] {
		b := treadle.New[state](name)
		treadle.Reduce(b, "Items", func(a, b []string) []string { return append(a, b...) })
		treadle.Reduce(b, "Seen", func(a, b map[string]int) map[string]int { return b })
		treadle.Reduce(b, "Raw", func(a, b []byte) []byte { return append(a, b...) })
		return b
	}
	inner := build("inner")
	treadle.AddNode(inner, "ask", func(ctx context.Context, _ state) (struct{}, error) {
		_, err := treadle.Interrupt[bool](ctx, "?")
		return struct{}{}, err
	})
	inner.Edge(treadle.Start, "ask")
	outer := build("outer")
	treadle.AddGraph(outer, "sub", treadle.Must(inner.Compile(nil)))
	outer.Edge(treadle.Start, "sub")
	g := treadle.Must(outer.Compile(&treadle.Options{Saver: checkpoint.NewMemory()}))

	const want = `{"items":[],"seen":{},"raw":null}`
	values := 0
	for ev, err := range g.Thread("1").Stream(t.Context(), state{}, treadle.Modes(treadle.ModeValues), treadle.Subgraphs()) {
		v, ok := ev.(treadle.Values)
		if err != nil || !ok {
			continue
		}
		values++
		if raw, err := json.Marshal(v.State); err != nil || string(raw) != want {
			t.Errorf("values of %q = %s, %v, want %s", v.Graph, raw, err, want)
		}
	}
	if values < 2 {
		t.Errorf("%d values were streamed, want the values of both graphs", values)
	}
}

func TestNothingToResumeNamesState(t *testing.T) {
	for _, c := range []struct {
		name string
		fn   func(context.Context, int) (string, error)
		want string
	}{
		{"empty", asks[int]("how many?"), "thread is empty: check its ID and its saver"},
		{"ended", func(context.Context, int) (string, error) { return "", nil }, "run has ended: start another with an input"},
		{"failed", func(context.Context, int) (string, error) { return "", errors.New("broken") }, "run failed, was cut short, or stopped at a breakpoint: continue the thread"},
		{"signal", func(ctx context.Context, _ int) (string, error) { return treadle.WaitFor[string](ctx, "go", nil) }, `node "w" waits for signal "go"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			thread := deployed(t, checkpoint.NewMemory(), &bytes.Buffer{}, c.fn)
			if c.name != "empty" {
				_, _ = thread.Run(t.Context(), 0) // sets the state
			}
			_, err := thread.Resume(t.Context(), 7)
			want := `graph "w": thread "1": resume: treadle: no pending interrupt: ` + c.want
			if !errors.Is(err, treadle.ErrNothingToResume) || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		})
	}
}
