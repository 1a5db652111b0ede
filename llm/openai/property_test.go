package openai_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// cut cuts a text into pieces, some of them empty.
func cut(t *rapid.T, s string) []string {
	var out []string
	for len(s) > 0 {
		n := rapid.IntRange(0, len(s)).Draw(t, "piece")
		out = append(out, s[:n])
		s = s[n:]
	}
	return append(out, s)
}

// style describes how a server streams calls.
type style struct {
	name string
	// first and later contain the number, and the fields in addition to the arguments.
	first, later func(i int, c llmtest.Call) object
	interleave   bool
	whole        bool // calls are never cut
}

func callPart(index any, id, name string) object {
	fn := object{}
	if name != "" {
		fn["name"] = name
	}
	out := object{"function": fn}
	if index != nil {
		out["index"] = index
	}
	if id != "" {
		out["id"] = id
	}
	return out
}

var styles = []style{
	{"as documented", func(i int, c llmtest.Call) object { return callPart(i, c.ID, c.Name) }, func(i int, _ llmtest.Call) object { return callPart(i, "", "") }, true, false},
	{"id and name again and again", func(i int, c llmtest.Call) object { return callPart(i, c.ID, c.Name) }, func(i int, c llmtest.Call) object { return callPart(i, c.ID, c.Name) }, true, false},
	{"all with number 0", func(_ int, c llmtest.Call) object { return callPart(0, c.ID, c.Name) }, func(int, llmtest.Call) object { return callPart(0, "", "") }, false, false},
	{"without numbers", func(_ int, c llmtest.Call) object { return callPart(nil, c.ID, c.Name) }, func(int, llmtest.Call) object { return callPart(nil, "", "") }, false, false},
	{"the first by another number", func(i int, c llmtest.Call) object { return callPart(10+i, c.ID, c.Name) }, func(int, llmtest.Call) object { return callPart(nil, "", "") }, false, false},
	{"whole, without numbers and ids", func(_ int, c llmtest.Call) object { return callPart(nil, "", c.Name) }, nil, false, true},
}

// deltas returns the calls as a server of the style streams them, cut at random.
func (s style) deltas(t *rapid.T, calls []llmtest.Call) []object {
	queues := make([][]object, len(calls))
	for i, c := range calls {
		pieces := []string{strings.Join(c.Args, "")}
		if !s.whole {
			pieces = cut(t, pieces[0])
		}
		for k, args := range pieces {
			part := s.first
			if k > 0 {
				part = s.later
			}
			p := part(i, c)
			p["function"].(object)["arguments"] = args
			queues[i] = append(queues[i], p)
		}
	}
	var out []object
	begun := 0 // the calls begin in order
	for {
		var next []int
		for i, q := range queues[:min(begun+1, len(queues))] {
			if len(q) > 0 {
				next = append(next, i)
			}
		}
		if len(next) == 0 {
			return out
		}
		i := next[0]
		if s.interleave {
			i = rapid.SampledFrom(next).Draw(t, "next")
		}
		begun = max(begun, i+1)
		out = append(out, queues[i][0])
		queues[i] = queues[i][1:]
	}
}

// However a response is cut, and whichever server streams it, it equals the whole one.
func TestStreamedMessageEqualsUnstreamed(t *testing.T) {
	w := &wire{}
	model := modelAt(t, another, w)
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.SampledFrom(styles).Draw(rt, "style")
		text := rapid.StringMatching(`[a-z ]{0,12}`)
		reply := llmtest.Reply{Text: cut(rt, text.Draw(rt, "text")), Reasoning: cut(rt, text.Draw(rt, "reasoning")), Stop: llm.StopEnd}
		for i := range rapid.IntRange(0, 4).Draw(rt, "calls") {
			args := marshal(map[string]string{"a": text.Draw(rt, "a"), "b": text.Draw(rt, "b")})
			reply.Calls = append(reply.Calls, llmtest.Call{ID: fmt.Sprintf("call_%d", i), Name: rapid.SampledFrom([]string{"x", "xx", "y"}).Draw(rt, "name"), Args: []string{string(args)}})
		}
		w.body = string(wholeAnswer(reply))
		want, err := llm.Generate(t.Context(), llm.With(model, llm.NoStream()), llm.User("Hi"))
		if err != nil {
			rt.Fatal(err)
		}
		events := streamedAnswer(llmtest.Reply{Text: reply.Text, Reasoning: reply.Reasoning, Stop: reply.Stop})
		w.body = ""
		for i, event := range events {
			if i == len(events)-3 { // before the end, the usage and the mark
				for _, d := range s.deltas(rt, reply.Calls) {
					w.body += fmt.Sprintf("data: %s\n\n", marshal(object{"choices": []object{{"index": 0, "delta": object{"tool_calls": []object{d}}}}}))
				}
			}
			w.body += string(event)
		}
		got, err := llm.Generate(t.Context(), model, llm.User("Hi"))
		if err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(essence(want), essence(got)); d != "" {
			rt.Errorf("calls %s: whole and streamed differ (-whole +streamed):\n%s", s.name, d)
		}
	})
}

// essence returns the parts that do not depend on the style: IDs may be ours, and
// reasoning details are cut like texts.
func essence(m llm.Message) llm.Message {
	out := llm.Message{Content: m.Text(), Stop: m.Stop, Usage: m.Usage, Artifact: m.Reasoning(), InvalidToolCalls: m.InvalidToolCalls}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, llm.ToolCall{Name: c.Name, Args: c.Args})
	}
	return out
}

// Whatever a server sends, the answer is complete and fit for a history, or it
// is an error.
func FuzzStream(f *testing.F) {
	files, err := filepath.Glob("testdata/*.sse")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(raw))
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := &wire{body: body, header: map[string]string{"Content-Type": "text/event-stream"}}
		m, err := llm.Generate(t.Context(), modelAt(t, another, w), llm.User("Hi"))
		if err != nil {
			return // not always the provider's: pieces of metadata may not fit together
		}
		if m.Stop == "" {
			t.Error("the answer has no reason to stop")
		}
		ids := map[string]bool{}
		for _, c := range m.ToolCalls {
			if c.ID == "" || ids[c.ID] || !json.Valid(c.Args) {
				t.Errorf("the call %+v has no id of its own or no arguments", c)
			}
			ids[c.ID] = true
		}
	})
}
