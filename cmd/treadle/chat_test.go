package main

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/cmd/treadle/internal/demo"
	"github.com/treadle-go/treadle/llm"
)

func TestReadAnswer(t *testing.T) {
	yes, no := &demo.Answer{Approved: true}, &demo.Answer{}
	for line, want := range map[string]*demo.Answer{
		"yes": yes, "Y": yes, "no": no, "N": no, "no!": no,
		"no, not now": {Reason: "not now"},
		"yes, but":    nil, "": nil, "perhaps": nil,
	} {
		got, ok := readAnswer(line)
		if ok != (want != nil) {
			t.Errorf("%q: parsed: %v", line, ok)
		} else if ok {
			diff(t, got, *want)
		}
	}
}

// A model's text must not move the cursor or change colors.
func TestTranscriptHasNoEscapeCodes(t *testing.T) {
	s := &screen{}
	v := newTranscript(&streams{out: &writer{w: s}})
	v.say(llm.Chunk{ID: "1", Content: "a\x1b[31mb\x07\n\tc"})
	v.close()
	diff(t, s.raw.String(), "a[31mb\n\tc\n")
}

func TestThreadsShowPrintsConversation(t *testing.T) {
	messages := llm.Messages{
		llm.User("what is 2 + 2?"),
		llm.Assistant("Let me see.", llm.ToolCall{ID: "1", Name: "calculator", Args: json.RawMessage(`{"expression": "2 + 2"}`)}),
		{Role: llm.RoleTool, Name: "calculator", ToolCallID: "1", Content: "no", Status: llm.StatusError},
		llm.Assistant("It is four.\nI think."),
	}
	raw, err := json.Marshal(messages)
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{}
	in := &inspector{streams: &streams{out: &writer{w: s}}}
	if !in.conversation("messages", raw) {
		t.Error("not recognized as a conversation")
	}
	diff(t, s.String(), `messages:
  user           what is 2 + 2?
  assistant      Let me see.
                 → calculator {"expression":"2 + 2"}
  calculator ✗   no
  assistant      It is four.
                 I think.
`)
	for _, other := range []string{`[]`, `["a"]`, `[{"role":"user","content":"a"}]`, `[{"type":"circle"}]`, `{"type":"human"}`, `3`} {
		if in.conversation("messages", json.RawMessage(other)) {
			t.Errorf("%s recognized as a conversation", other)
		}
	}
}

// A provider error keeps its line breaks, but no escape codes.
func TestErrorTextKeepsLines(t *testing.T) {
	const page = "openai: 502 Bad Gateway: <html>\n<b>\x1b[31mno\x00\r\n</html>\n"
	diff(t, errorText(errors.New(page)), "openai: 502 Bad Gateway: <html>\n  <b>[31mno\n  </html>")
}

// The transcript shows a tool error on one line.
func TestTranscriptJoinsErrorLines(t *testing.T) {
	const page = "503 Service Unavailable:\r\n\n  <html>\n</html>\n"
	s := &screen{}
	v := newTranscript(&streams{out: &writer{w: s}})
	v.show(treadle.Lifecycle{Event: "on_tool_start", RunID: "1", Name: "search", Input: map[string]string{"query": "x"}})
	v.show(treadle.Lifecycle{Event: "on_tool_error", RunID: "1", Err: errors.New(page)})
	v.close()
	diff(t, s.String(), `  ✗ search {"query":"x"}: 503 Service Unavailable:, <html>, </html>`+"\n")
}
