package adapter

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

// said describes messages: roles, texts, data of media, and call IDs.
func said(ms llm.Messages) string {
	var out []string
	for _, m := range ms {
		line := string(m.Role)
		for _, b := range m.Parts() {
			line += " " + b.Text + b.Reasoning + string(b.Data) + b.FileID
		}
		for _, c := range m.ToolCalls {
			line += " " + c.ID
		}
		out = append(out, line)
	}
	return strings.Join(out, ", ")
}

func TestMoveMedia(t *testing.T) {
	image := func(data string) llm.Block { return llm.Image("image/png", []byte(data)) }
	answer := func(text string, blocks ...llm.Block) llm.Message {
		return llm.Message{Role: llm.RoleAI, Content: text, Blocks: blocks, Metadata: map[string]any{"model_provider": "gemini"}}
	}
	call := llm.ToolCall{ID: "c1", Name: "f"}
	calling := answer("Look.", image("owl"))
	calling.ToolCalls = []llm.ToolCall{call}
	thought := llm.Block{Type: llm.BlockReasoning, Reasoning: "hm"}
	langChain := llm.Block{Type: "image_url", Extra: map[string]any{"image_url": map[string]any{"url": "data:image/png;base64,b3ds"}}}
	sound := llm.Block{Type: llm.BlockAudio, ID: "stored", Data: []byte("hoot")}
	for _, test := range []struct {
		name    string
		history llm.Messages
		reads   bool
		want    string
		at      string
		turn    int
		warned  string
	}{
		{"no media", llm.Messages{llm.User("Hi", image("me")), answer("Hello.")}, true, "human Hi me, ai Hello.", "0 1", 0, ""},
		{"image", llm.Messages{llm.User("Draw."), answer("Here.", image("owl")), llm.User("Bigger.")}, true,
			"human Draw., ai Here., human From the assistant: owl, human Bigger.", "0 1 1 2", 3, ""},
		{"image of LangChain", llm.Messages{llm.User("Draw."), answer("Here.", langChain)}, true, "human Draw., ai Here., human From the assistant: owl", "0 1 1", 0, ""},
		{"image of OpenAI", llm.Messages{llm.User("Draw."), answer("Here.", llm.Block{Type: Generation, Extra: map[string]any{"result": "b3ds", "status": "completed"}})}, true,
			"human Draw., ai Here., human From the assistant: owl", "0 1 1", 0, ""},
		{"unfinished image of OpenAI", llm.Messages{llm.User("Draw."), answer("Here.", llm.Block{Type: Generation})}, true, "human Draw., ai Here. ", "0 1", 0, ""},
		{"image after results", llm.Messages{llm.User("Draw."), calling, llm.ToolResult(call, "ok"), answer("Done.")}, true,
			"human Draw., ai Look. c1, tool ok, human From the assistant: owl, ai Done.", "0 1 2 1 3", 0, ""},
		{"image alone", llm.Messages{llm.User("Draw."), answer("", thought, image("owl")), llm.User("Bigger.")}, true,
			"human Draw., human From the assistant: owl, human Bigger.", "0 1 2", 2, ""},
		{"blind model", llm.Messages{llm.User("Draw."), answer("Here.", image("owl")), answer("", image("nest"))}, false, "human Draw., ai Here.", "0 1", 0, "image"},
		{"user sends images", llm.Messages{llm.User("Copy.", image("a")), answer("Here.", image("b"))}, false,
			"human Copy. a, ai Here., human From the assistant: b", "0 1 1", 0, ""},
		{"unsendable image", llm.Messages{llm.User("Draw."), answer("Here.", llm.Block{Type: llm.BlockImage, FileID: "f"})}, true, "human Draw., ai Here.", "0 1", 0, "image"},
		{"audio", llm.Messages{llm.User("Sing."), answer("La.", llm.Audio("audio/wav", []byte("la")))}, true, "human Sing., ai La.", "0 1", 0, "audio"},
		{"kept audio", llm.Messages{llm.User("Sing."), answer("", sound)}, true, "human Sing., ai hoot", "0 1", 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := said(test.history)
			keep := func(_ *llm.Message, b llm.Block) bool { return b.ID == "stored" }
			var log bytes.Buffer
			w := NewWarner(slog.New(slog.NewTextHandler(&log, nil)), "acme", "m")
			for range 2 {
				u := MoveMedia(test.history, test.reads, keep, func(b llm.Block) bool { return b.FileID == "" })
				w.Media(u)
				var at []string
				for i := range u.Messages {
					at = append(at, fmt.Sprint(u.At(i)))
				}
				if got := said(u.Messages); got != test.want || strings.Join(at, " ") != test.at || u.Turn() != test.turn {
					t.Errorf("%q at %v, turn %d; want %q at %s, turn %d", got, at, u.Turn(), test.want, test.at, test.turn)
				}
			}
			if after := said(test.history); after != before {
				t.Errorf("the history became %s", after)
			}
			want := ""
			if test.warned != "" {
				want = `msg="acme: dropping media of a model's message" type=` + test.warned + " provider=gemini model=m\n"
			}
			if _, got, _ := strings.Cut(log.String(), "level=WARN "); got != want {
				t.Errorf("logged %q, want %q", got, want)
			}
		})
	}
}
