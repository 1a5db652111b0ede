package ui_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/ui"
)

func shown(id string, merge bool, props map[string]any) ui.Message {
	return ui.Message{ID: id, Name: "card", Props: props, Metadata: map[string]any{"merge": merge}}
}

func TestReduceReplacesMergesAndRemoves(t *testing.T) {
	a, b := shown("a", false, map[string]any{"x": 1, "y": 1}), shown("b", false, nil)
	for _, test := range []struct {
		name   string
		update ui.Messages
		want   ui.Messages
		err    string
	}{
		{"append", ui.Messages{shown("c", false, nil)}, ui.Messages{a, b, shown("c", false, nil)}, ""},
		{"replace", ui.Messages{shown("a", false, map[string]any{"x": 2})}, ui.Messages{shown("a", false, map[string]any{"x": 2}), b}, ""},
		{"merge", ui.Messages{shown("a", true, map[string]any{"x": 2})}, ui.Messages{shown("a", true, map[string]any{"x": 2, "y": 1}), b}, ""},
		{"merge into no props", ui.Messages{shown("b", true, map[string]any{"x": 2})}, ui.Messages{a, shown("b", true, map[string]any{"x": 2})}, ""},
		{"remove", ui.Messages{{ID: "a", Remove: true}}, ui.Messages{b}, ""},
		{"remove unknown", ui.Messages{{ID: "z", Remove: true}}, nil, `ui: remove message "z": unknown ID`},
		{"no ID", ui.Messages{{Name: "card"}}, nil, "ui: message without an ID"},
	} {
		t.Run(test.name, func(t *testing.T) {
			old := ui.Messages{a, b}
			got, err := old.Reduce(test.update)
			if (err == nil) != (test.err == "") || err != nil && !strings.HasPrefix(err.Error(), test.err) {
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(ui.Messages{a, b}, old); diff != "" {
				t.Errorf("Reduce changed its receiver:\n%s", diff)
			}
		})
	}
}

func TestMessageJSONIsLangGraphs(t *testing.T) {
	for _, text := range []string{
		`{"type":"ui","id":"a","name":"card","props":{"x":1},"metadata":{"merge":true}}`,
		`{"type":"ui","id":"a","name":"card","props":{},"metadata":{}}`,
		`{"type":"remove-ui","id":"a"}`,
	} {
		var m ui.Message
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(m); string(got) != text || err != nil {
			t.Errorf("%s became %s, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"type":"human","id":"a"}`, `[]`, `{"type":"ui","props":[]}`} {
		if err := json.Unmarshal([]byte(text), new(ui.Message)); err == nil || !strings.HasPrefix(err.Error(), "ui: message") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPushRejectsInvalidProps(t *testing.T) {
	for _, props := range []any{nil, 1, "x", []int{1}, func() {}} {
		if _, err := ui.Push(t.Context(), "card", props, nil); err == nil || !strings.HasPrefix(err.Error(), "ui: push card: props") {
			t.Errorf("props %v: %v", props, err)
		}
	}
	if _, err := ui.Push(t.Context(), "", struct{}{}, nil); err == nil {
		t.Error("empty name accepted")
	}
}

// A node that fails after Push and runs again pushes the same message.
func TestRerunPushesSameMessage(t *testing.T) {
	type state struct {
		UI ui.Messages `json:"ui"`
	}
	type update struct {
		UI ui.Messages `json:"ui"`
	}
	var pushed []ui.Message
	b := treadle.New[state]("g")
	treadle.AddNode(b, "show", func(ctx context.Context, _ state) (update, error) {
		m, err := ui.Push(ctx, "card", map[string]int{"x": 1}, nil)
		other, _ := ui.Push(ctx, "card", map[string]int{"x": 2}, nil)
		pushed = append(pushed, m)
		if m.ID == other.ID {
			t.Error("two components have one ID")
		}
		if len(pushed) == 1 {
			err = fmt.Errorf("broken")
		}
		return update{ui.Messages{m}}, err
	})
	b.Edge(treadle.Start, "show")
	thread := treadle.Must(b.Compile(&treadle.Options{Saver: checkpoint.NewMemory()})).Thread("1")
	if _, err := thread.Run(t.Context(), state{}); err == nil {
		t.Fatal("first run succeeded")
	}
	if _, err := thread.Continue(t.Context()); err != nil || len(pushed) != 2 || pushed[0].ID != pushed[1].ID {
		t.Errorf("pushed %v, %v", pushed, err)
	}
}
