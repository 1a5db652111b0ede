package llm_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
)

func mark(id string) llm.Block { return llm.Block{Type: llm.BlockToolCall, ID: id} }

func called(id string) llm.Chunk {
	return llm.Chunk{ToolCalls: []llm.ToolCallChunk{{ID: id, Name: "f", Args: "{}"}}}
}

// sequence describes a message in order.
func sequence(m llm.Message) (out []string) {
	for b, call := range m.Sequence() {
		switch {
		case call != nil:
			out = append(out, "call "+call.ID)
		case b.Type == llm.BlockReasoning:
			out = append(out, "think "+b.Reasoning)
		case b.Type == llm.BlockText:
			out = append(out, "say "+b.Text)
		default:
			out = append(out, b.Type)
		}
	}
	return out
}

func TestMessageSequence(t *testing.T) {
	signed := llm.Block{Type: llm.BlockText, Extra: map[string]any{"signature": "c2ln"}}
	openAI := llm.Block{Type: "function_call", ID: "fc_1", Extra: map[string]any{"call_id": "b"}}
	for _, test := range []struct {
		name   string
		text   string
		blocks []llm.Block
		calls  []string
		want   []string
	}{
		{"nothing", "", nil, nil, nil},
		{"calls last", "hi", []llm.Block{reasoning("hm")}, []string{"a", "b"}, []string{"say hi", "think hm", "call a", "call b"}},
		{"interleaved", "", []llm.Block{reasoning("1"), mark("a"), reasoning("2"), mark("b")}, []string{"a", "b"}, []string{"think 1", "call a", "think 2", "call b"}},
		{"other order than ToolCalls", "", []llm.Block{mark("b"), llm.Text("x"), mark("a")}, []string{"a", "b"}, []string{"call b", "say x", "call a"}},
		{"unmarked call", "", []llm.Block{mark("a"), reasoning("2")}, []string{"a", "b"}, []string{"call a", "think 2", "call b"}},
		{"provider formats", "", []llm.Block{{Type: "thinking", Extra: map[string]any{"thinking": "1"}}, {Type: "tool_use", ID: "a"}, {Type: "input_json_delta"}, openAI, llm.Text("x")},
			[]string{"a", "b"}, []string{"think 1", "call a", "call b", "say x"}},
		{"repeated mark", "", []llm.Block{reasoning("1"), mark("a"), mark("a"), llm.Text("x")}, []string{"a"}, []string{"think 1", "call a", "say x"}},
		{"two calls with one ID", "", []llm.Block{reasoning("1"), mark("a"), reasoning("2"), mark("a")}, []string{"a", "a"}, []string{"think 1", "call a", "think 2", "call a"}},
		{"two calls with one ID and one mark", "", []llm.Block{reasoning("1"), mark("a"), llm.Text("x")}, []string{"a", "a"}, []string{"think 1", "call a", "say x", "call a"}},
		{"empty texts", "", []llm.Block{llm.Text(""), mark("a"), signed}, []string{"a"}, []string{"call a", "say "}},
		{"removed call", "", []llm.Block{reasoning("1"), mark("a"), reasoning("2"), mark("b")}, []string{"b"}, []string{"think 2", "call b"}},
		{"removed call at the end", "", []llm.Block{reasoning("1"), mark("a"), reasoning("2"), mark("b")}, []string{"a"}, []string{"think 1", "call a"}},
		{"removed call before text", "", []llm.Block{llm.Text("x"), reasoning("1"), {Type: "redacted_thinking"}, mark("a"), llm.Text("y")}, nil, []string{"say x", "say y"}},
		{"removed first of two calls", "", []llm.Block{reasoning("1"), mark("a"), mark("b"), llm.Text("x")}, []string{"b"}, []string{"think 1", "call b", "say x"}},
		{"removed second of two calls", "", []llm.Block{reasoning("1"), mark("a"), mark("b"), llm.Text("x")}, []string{"a"}, []string{"think 1", "call a", "say x"}},
		{"new call in its place", "", []llm.Block{reasoning("1"), mark("a")}, []string{"c"}, []string{"think 1", "call c"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := llm.Message{Role: llm.RoleAI, Content: test.text, Blocks: test.blocks}
			for _, id := range test.calls {
				m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: id, Name: "f"})
			}
			if d := cmp.Diff(test.want, sequence(m)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			for range m.Sequence() { // leaving the loop is safe
				break
			}
		})
	}
}

func TestCollectMarksCallPlaces(t *testing.T) {
	thought := func(i int, s string) llm.Chunk { return llm.Chunk{Blocks: []llm.Block{at(i, reasoning(s))}} }
	say := func(s string) llm.Chunk { return llm.Chunk{Content: s} }
	for _, test := range []struct {
		name   string
		chunks []llm.Chunk
		text   string
		blocks []llm.Block
	}{
		{"calls last", []llm.Chunk{say("hi"), called("a"), called("b")}, "hi", nil},
		{"reasoning, then calls", []llm.Chunk{thought(0, "1"), called("a"), called("b")}, "", []llm.Block{reasoning("1")}},
		{"text after a call", []llm.Chunk{say("hi"), called("a"), say("b"), say("ye")}, "hi", []llm.Block{mark("a"), llm.Text("bye")}},
		{"interleaved", []llm.Chunk{thought(0, "1"), called("a"), thought(1, "2"), called("b")}, "", []llm.Block{reasoning("1"), mark("a"), reasoning("2"), mark("b")}},
		{"one chunk", []llm.Chunk{{Blocks: []llm.Block{reasoning("1"), mark("a"), reasoning("2")}, ToolCalls: slices.Concat(called("a").ToolCalls, called("b").ToolCalls)}},
			"", []llm.Block{reasoning("1"), mark("a"), reasoning("2"), mark("b")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var sum llm.Chunk
			for _, c := range append(test.chunks, llm.Chunk{Stop: llm.StopTools}) {
				var err error
				if sum, err = sum.Add(c); err != nil {
					t.Fatal(err)
				}
			}
			whole, err := llm.Collect(func(yield func(llm.Chunk, error) bool) {
				for _, c := range append(test.chunks, llm.Chunk{Stop: llm.StopTools}) {
					if !yield(c, nil) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(whole)
			if err != nil {
				t.Fatal(err)
			}
			var saved llm.Message
			if err := json.Unmarshal(raw, &saved); err != nil {
				t.Fatal(err)
			}
			for name, m := range map[string]llm.Message{"Add": sum.Message(), "Collect": whole, "JSON": saved, "Chunk": whole.Chunk().Message()} {
				if d := cmp.Diff(test.blocks, m.Blocks); d != "" || m.Content != test.text {
					t.Errorf("%s: text %q, blocks (-want +got):\n%s", name, m.Content, d)
				}
			}
		})
	}
}
