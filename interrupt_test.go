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

// deployed is a workflow as one version of a program has it, on a saver that outlives it.
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

func TestInterruptAsksAgainIfTheAnswerNoLongerFits(t *testing.T) {
	for name, question := range map[string]any{"by order": "how many?", "by key": treadle.Question{Value: "how many?", Key: "n"}} {
		t.Run(name, func(t *testing.T) {
			saver, log := checkpoint.NewMemory(), &bytes.Buffer{}
			_, err := deployed(t, saver, log, asks[bool](question)).Run(t.Context(), 0)
			first := pausesOf(t, err)

			v2 := deployed(t, saver, log, asks[int](question))
			_, err = v2.Resume(t.Context(), true) // fits the question that is stored
			second := pausesOf(t, err)
			if len(second) != 1 || second[0].ID == first[0].ID || string(second[0].Schema) != `{"type":"integer"}` {
				t.Fatalf("after an answer for the old version the thread asks %v, want an integer", second)
			}
			if !strings.Contains(log.String(), "asked again") {
				t.Errorf("the log does not tell of the answer that was dropped: %s", log)
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

func TestContinueShowsTheQuestionOfTheNewVersion(t *testing.T) {
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

// A signal that a node has taken belongs to it when it runs again, unless it cannot be read any more.
func TestSignalIsAwaitedAgainIfTheOneTakenNoLongerFits(t *testing.T) {
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

func TestQuestionIsTheSameWhateverTheOrderOfItsKeys(t *testing.T) {
	saver, log := checkpoint.NewMemory(), &bytes.Buffer{}
	_, err := deployed(t, saver, log, asks[int](json.RawMessage(`{"a":1,"b":2.0}`))).Run(t.Context(), 0)
	pausesOf(t, err)
	out, err := deployed(t, saver, log, asks[int](json.RawMessage(`{"b":2,"a":1}`))).Resume(t.Context(), 7)
	if err != nil || out != "7" || log.Len() > 0 {
		t.Errorf("Resume = %q, %v; log: %s", out, err, log)
	}
}

// Parity with LangGraph, whose fields with a reducer begin with an empty value of their type.
func TestFieldsThatAccumulateAreNeverNullInJSON(t *testing.T) {
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
		t.Errorf("%d values were streamed, want those of both graphs", values)
	}
}
