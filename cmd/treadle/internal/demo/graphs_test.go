package demo

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
)

// The graphs that draw can draw also run.
func TestGraphsRun(t *testing.T) {
	for _, test := range []struct{ name, answer, want string }{
		{"jokes", `{"decision":"no"}`, `{"topic":"owls","subjects":["owls at work","owls in love","owls on holiday","owls in production"],"jokes":[` +
			`{"subject":"owls at work","text":"We put owls in charge of the stand-up. It ended early, and nobody knew what to do with the time.","laughs":2},` +
			`{"subject":"owls in love","text":"I told my date that I write Go and think about owls. She returned an error. I did not check it.","laughs":10},` +
			`{"subject":"owls on holiday","text":"I booked a quiet week without owls. On day two I paid extra for the upgrade.","laughs":7},` +
			`{"subject":"owls in production","text":"We shipped owls on a Friday. The dashboard is green. The dashboard is always green.","laughs":10}],` +
			`"loudest":10,"winner":{"subject":"owls in love","text":"I told my date that I write Go and think about owls. She returned an error. I did not check it.","laughs":10},` +
			`"decision":"no","notes":[]}`},
		{"essay", "", `{"topic":"owls","notes":["found: owls, page 1","read: owls, page 1","found: owls, page 2","read: owls, page 2"],` +
			`"draft":"Published: On owls, with 4 notes, draft 2.","round":2,"lines":["revise","accept"]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			entry, err := FindGraph(test.name)
			if err != nil {
				t.Fatal(err)
			}
			g, err := entry.Build(checkpoint.NewMemory())
			if err != nil {
				t.Fatal(err)
			}
			if w, ok := g.(interface{ Warnings() []string }); !ok || len(w.Warnings()) > 0 {
				t.Errorf("compile warnings: %v", w)
			}
			thread := dynamic.Open(g, "t")
			out, err := thread.RunJSON(t.Context(), []byte(`{"topic":"owls"}`))
			if _, asks := errors.AsType[*treadle.InterruptError](err); asks && test.answer != "" {
				out, err = resumed(thread.CommandJSON(t.Context(), []byte(`{"resume":`+test.answer+`}`)))
			}
			if err != nil {
				t.Fatal(err)
			}
			diff(t, string(out), test.want)
		})
	}
}

// resumed returns the output at the end of a stream.
func resumed(events iter.Seq2[treadle.Event, error]) (out json.RawMessage, err error) {
	for ev, err := range events {
		if err != nil {
			return nil, err
		}
		if done, ok := ev.(treadle.Finished[json.RawMessage]); ok {
			out = done.Output
		}
	}
	return out, nil
}

// An answer of another type is rejected before anything runs; an unknown word makes
// the node ask again.
func TestDemoAsksAgainAfterUnknownAnswer(t *testing.T) {
	g, err := NewJokes(0, checkpoint.NewMemory())
	if err != nil {
		t.Fatal(err)
	}
	thread := dynamic.Open(g, "t")
	_, err = thread.RunJSON(t.Context(), []byte(`{"topic":"owls"}`))
	questions := []string{asked(err)}
	_, err = resumed(thread.CommandJSON(t.Context(), []byte(`{"resume":"yes"}`)))
	if ae, ok := errors.AsType[*treadle.AnswerError](err); !ok || ae.Pause.Node != "approve" {
		t.Errorf("answer of another type: %v", err)
	}
	_, err = resumed(thread.CommandJSON(t.Context(), []byte(`{"resume":{"decision":"perhaps"}}`)))
	diff(t, append(questions, asked(err)), []string{"Publish this joke?", `Publish this joke? Answer yes, no, or another, not "perhaps".`})
	out, err := resumed(thread.CommandJSON(t.Context(), []byte(`{"resume":{"decision":"yes"}}`)))
	if err != nil || !strings.Contains(string(out), `"published":{"subject":"owls in love",`) {
		t.Errorf("got %s, %v", out, err)
	}
}

// asked returns the question of an interrupted run.
func asked(err error) string {
	stop, ok := errors.AsType[*treadle.InterruptError](err)
	if !ok || len(stop.Pauses) != 1 {
		return fmt.Sprintf("no question, but %v", err)
	}
	var p proposal
	if err := stop.Pauses[0].Decode(&p); err != nil {
		return err.Error()
	}
	return p.Question
}

func TestGraphNamesMatchEntries(t *testing.T) {
	want := map[string]string{"jokes": "jokes", "demo": "agent", "essay": "essay"}
	got := map[string]string{}
	for _, b := range Graphs() {
		g, err := b.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		got[b.Name] = g.Name()
	}
	diff(t, got, want)
}
