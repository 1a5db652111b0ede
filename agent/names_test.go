package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func marshal(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Ports the supervisor's row "agent-name add".
func TestInlineNamesShowNamesToModel(t *testing.T) {
	picture := llm.ImageURL("https://example.org/a.png")
	blocks := by("alice", "")
	blocks.Blocks = []llm.Block{picture, llm.Text("look"), llm.Text("here")}
	mute := by("alice", "")
	mute.Blocks = []llm.Block{picture}
	c := call("1", "get_weather", `{}`)
	for _, tc := range []struct {
		name    string
		in      llm.Message
		content string
		blocks  []llm.Block
	}{
		{"text", by("alice", "hi"), "<name>alice</name><content>hi</content>", nil},
		{"text blocks", blocks, "", []llm.Block{picture, llm.Text("<name>alice</name><content>look</content>"), llm.Text("here")}},
		{"no text", mute, "<name>alice</name><content></content>", []llm.Block{picture}},
		{"calls", by("alice", "", c), "<name>alice</name><content></content>", nil},
		{"no name", llm.Assistant("hi"), "hi", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := tc.in
			want.Content, want.Blocks = tc.content, tc.blocks
			history := llm.Messages{llm.User("hello"), tc.in}
			heard := llm.Messages{llm.User("hello"), want}
			for _, c := range tc.in.ToolCalls {
				history, heard = append(history, llm.ToolResult(c, "ok")), append(heard, llm.ToolResult(c, "ok"))
			}
			model := llmtest.Scripted(t, llmtest.Say("fine", llmtest.Heard(append(heard, llm.User("go on"))...)))
			a, err := agent.New(model, &agent.Options{Middleware: []*agent.Middleware{agent.InlineNames()}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Run(t.Context(), agent.State{Chat: llm.Chat{Messages: append(history, llm.User("go on"))}}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Ports the supervisor's row "agent-name remove".
func TestInlineNamesAreRemovedFromResponses(t *testing.T) {
	picture := llm.ImageURL("https://example.org/a.png")
	for _, tc := range []struct {
		name    string
		answer  llm.Message
		content string
		blocks  []llm.Block
	}{
		{"text", llm.Assistant("<name>bob</name><content>hi</content>"), "hi", nil},
		{"lines", llm.Assistant("<name>bob</name><content>hi\nthere</content>"), "hi\nthere", nil},
		{"plain", llm.Assistant("hi"), "hi", nil},
		{"blocks", llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{llm.Text("<name>bob</name><content>look</content>"), picture}},
			"", []llm.Block{llm.Text("look"), picture}},
		{"empty content", llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{llm.Text("<name>bob</name><content></content>"), picture}},
			"", []llm.Block{picture}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, err := agent.New(llm.With(llmtest.Scripted(t, llmtest.Turn{Message: tc.answer}), llm.NoStream()),
				&agent.Options{Name: "bob", Middleware: []*agent.Middleware{agent.InlineNames()}})
			if err != nil {
				t.Fatal(err)
			}
			out, err := a.Run(t.Context(), agent.Ask("hello"))
			if err != nil {
				t.Fatal(err)
			}
			got := out.Messages[1]
			for i := range got.Blocks {
				got.Blocks[i].Index = nil
			}
			if d := cmp.Diff(tc.blocks, got.Blocks); d != "" || got.Content != tc.content {
				t.Errorf("content %q, want %q; blocks (-want +got):\n%s", got.Content, tc.content, d)
			}
		})
	}
}
