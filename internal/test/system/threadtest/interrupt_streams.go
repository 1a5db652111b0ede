package threadtest

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
)

func interruptBareGoto(t *testing.T, open opener) {
	askBothWays(t, open, askChain(asking("ask"), plain("two")), func(t *testing.T, rig *askRig[askState, askState]) {
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "ask?")
		out, err := rig.thread().Continue(t.Context(), treadle.WithUpdate(treadle.To("two")))
		askedStrings(t, err, "ask?")
		if diff := cmp.Diff([]string{"two"}, []string(out.Log)); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		if _, err := rig.thread().Continue(t.Context(), treadle.WithUpdate(treadle.To("nowhere"))); err == nil || !strings.Contains(err.Error(), `"nowhere"`) {
			t.Errorf("%v, want an error that names the node", err)
		}
		if _, err := rig.thread().Update(t.Context(), treadle.To("two"), treadle.AsNode("ask")); err != nil {
			t.Errorf("update that only goes somewhere: %v", err)
		}
	})
}

func interruptAlsoStream(t *testing.T, open opener) {
	type note struct{ Note string }
	askBothWays(t, open, askChain(asking("ask"), plain("two")), func(t *testing.T, rig *askRig[askState, askState]) {
		last := func(seq iter.Seq2[treadle.Event, error]) (out askState, last error) {
			for ev, err := range seq {
				if f, ok := ev.(treadle.Finished[askState]); ok {
					out = f.Output
				}
				last = err
			}
			return out, last
		}
		_, err := rig.thread().Run(t.Context(), askState{})
		askedStrings(t, err, "ask?")
		_, err = last(rig.thread().ContinueStream(t.Context(), treadle.WithUpdate(note{"one"}), treadle.Modes(treadle.ModeValues)))
		askedStrings(t, err, "ask?")
		if s := noteOf(t, rig.thread()); s != "one" {
			t.Errorf("note: %q, want what was said with ContinueStream", s)
		}
		out, err := last(rig.thread().ResumeStream(t.Context(), "A", treadle.Modes(treadle.ModeValues), treadle.WithUpdate(note{"two"})))
		if err != nil || out.Note != "two" {
			t.Errorf("note: %q, %v, want what was said with ResumeStream", out.Note, err)
		}
		if _, err = last(rig.thread().Stream(t.Context(), askState{}, treadle.WithUpdate(note{"three"}))); err == nil || !strings.Contains(err.Error(), "ContinueStream") {
			t.Errorf("new input with Also: %v, want an error that says what to use", err)
		}
	})
}

func noteOf(t *testing.T, th *treadle.Thread[askState, askState]) string {
	t.Helper()
	s, err := th.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	v, _ := s.State.Get("note")
	note, _ := v.(string)
	return note
}

// interruptNestedValues checks that a subgraph streams the fields of its output and ends
// with its interrupt.
func interruptNestedValues(t *testing.T, open opener) {
	type inner struct {
		X int `json:"x"`
		Y int `json:"y"`
	}
	type onlyX struct {
		X int `json:"x"`
	}
	type onlyY struct {
		Y int `json:"y"`
	}
	sb := treadle.New[inner]("sub")
	treadle.AddNode(sb, "pre", func(context.Context, inner) (onlyY, error) { return onlyY{3}, nil })
	treadle.AddNode(sb, "q", func(ctx context.Context, _ inner) (inner, error) {
		x, err := treadle.Interrupt[int](ctx, "q")
		return inner{x, 5}, err
	})
	sb.Sequence(treadle.Start, "pre", "q")
	b := treadle.New[inner]("g")
	treadle.AddGraph(b, "sub", treadle.Must(treadle.Compile[inner, onlyX](sb, nil)))
	b.Edge(treadle.Start, "sub")
	th := treadle.Must(b.Compile(&treadle.Options{Saver: open(t)})).Thread("1")
	read := func(seq iter.Seq2[treadle.Event, error]) (lines []string) {
		for ev := range seq {
			v, ok := ev.(treadle.Values)
			if !ok {
				continue
			}
			words := []string{strings.Repeat("sub ", len(v.Namespace)) + v.State.String()}
			for _, p := range v.Pauses {
				words = append(words, "asks "+string(p.Value))
			}
			lines = append(lines, strings.Join(words, " "))
		}
		return lines
	}
	opts := []treadle.StreamOption{treadle.Modes(treadle.ModeValues), treadle.Subgraphs()}
	want := []string{`{"x":4,"y":1}`, `sub {"x":4}`, `sub {"x":4} asks "q"`, `{"x":4,"y":1} asks "q"`}
	if diff := cmp.Diff(want, read(th.Stream(t.Context(), inner{X: 4, Y: 1}, opts...))); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	want = []string{`{"x":4,"y":1}`, `sub {"x":4}`, `sub {"x":7}`, `{"x":7,"y":1}`}
	if diff := cmp.Diff(want, read(th.ResumeStream(t.Context(), 7, opts...))); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
}
