package llm_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

// Every provider's adapter sees one form of content, whichever it was written in.
func TestPartsAreInOneForm(t *testing.T) {
	picture := llm.Image("image/png", []byte("hi"))
	for _, test := range []struct {
		name, raw string
		want      []llm.Block
	}{
		{"a text", `"hi"`, []llm.Block{llm.Text("hi")}},
		{"an empty text", `""`, nil},
		{"texts", `["a",{"type":"text","text":"b"},{"type":"text","text":""},{"type":"output_text","text":"c"}]`, []llm.Block{llm.Text("a"), llm.Text("b"), llm.Text("c")}},
		{"our image", `[{"type":"image","base64":"aGk=","mime_type":"image/png"}]`, []llm.Block{picture}},
		{"OpenAI's image", `[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]`, []llm.Block{picture}},
		{"OpenAI's image by address", `[{"type":"image_url","image_url":{"url":"https://x/y"}}]`, []llm.Block{llm.ImageURL("https://x/y")}},
		{"OpenAI's image by address alone", `[{"type":"input_image","image_url":"https://x/y"}]`, []llm.Block{llm.ImageURL("https://x/y")}},
		{"OpenAI's audio", `[{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}}]`, []llm.Block{llm.Audio("audio/wav", []byte("hi"))}},
		{"OpenAI's file", `[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}}]`, []llm.Block{llm.File("a.pdf", "application/pdf", []byte("hi"))}},
		{"OpenAI's uploaded file", `[{"type":"file","file":{"file_id":"f1"}}]`, []llm.Block{{Type: "file", FileID: "f1"}}},
		{"Anthropic's image", `[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]`, []llm.Block{picture}},
		{"Anthropic's image by address", `[{"type":"image","source":{"type":"url","url":"https://x/y"}}]`, []llm.Block{llm.ImageURL("https://x/y")}},
		{"Anthropic's document", `[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"aGk="}}]`, []llm.Block{llm.File("", "application/pdf", []byte("hi"))}},
		{"Anthropic's text document", `[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"hi"}}]`, []llm.Block{{Type: "text-plain", Text: "hi", MIMEType: "text/plain"}}},
		{"Anthropic's thinking", `[{"type":"thinking","thinking":"hm","signature":"s"}]`, []llm.Block{{Type: "reasoning", Reasoning: "hm", Extra: map[string]any{"signature": "s"}}}},
		{"LangChain's earlier image", `[{"type":"image","source_type":"base64","data":"aGk=","mime_type":"image/png"}]`, []llm.Block{picture}},
		{"LangChain's earlier file", `[{"type":"file","source_type":"id","id":"f1"}]`, []llm.Block{{Type: "file", FileID: "f1"}}},
		{"Google's media", `[{"type":"media","mime_type":"image/png","data":"aGk="}]`, []llm.Block{picture}},
		{"calls are elsewhere", `[{"type":"tool_use","id":"x","name":"f","input":{}},{"type":"tool_call","id":"y"}]`, nil},
		{"an unknown type", `[{"type":"hologram","depth":3}]`, []llm.Block{{Type: "hologram", Extra: map[string]any{"depth": 3.0}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var m llm.Message
			if err := json.Unmarshal([]byte(`{"type":"human","content":`+test.raw+`}`), &m); err != nil {
				t.Fatal(err)
			}
			before, _ := json.Marshal(m)
			same(t, "the parts", test.want, m.Parts())
			if after, _ := json.Marshal(m); !bytes.Equal(before, after) {
				t.Errorf("the message is now %s", after)
			}
		})
	}
}

func TestMessageText(t *testing.T) {
	m := llm.Message{Role: llm.RoleAI, Content: "a", Blocks: []llm.Block{reasoning("hm"), llm.Text("b"), llm.ImageURL("u"), llm.Text("c"), {Type: "thinking", Extra: map[string]any{"thinking": "!"}}}}
	if m.Text() != "abc" || m.Reasoning() != "hm!" {
		t.Errorf("it says %q and thinks %q, want abc and hm!", m.Text(), m.Reasoning())
	}
	if got := llm.Image("image/png", []byte("hi")).DataURL(); got != "data:image/png;base64,aGk=" {
		t.Errorf("the image is at %s", got)
	}
	if got := llm.File("a.pdf", "", nil).Filename(); got != "a.pdf" {
		t.Errorf("the file is named %q", got)
	}
}

func TestPrettyPrinting(t *testing.T) {
	withName := llm.Message{Role: llm.RoleTool, Name: "get_weather", Content: "It's sunny!"}
	invalid := llm.Message{Role: llm.RoleAI, InvalidToolCalls: []llm.InvalidToolCall{{ID: "c1", Name: "f", Args: "{", Error: "bad"}}}
	many := llm.Assistant("Let me see.", llm.ToolCall{ID: "c1", Name: "f", Args: json.RawMessage(`{"b":[1,2],"a":"x","n":null}`)}, llm.ToolCall{ID: "c2", Name: "g"})
	for _, test := range []struct {
		name string
		m    llm.Message
		want string
	}{
		{"human", llm.User("hi"), strings.Repeat("=", 32) + " Human Message " + strings.Repeat("=", 33) + "\n\nhi"},
		{"ai", llm.Assistant("hi"), strings.Repeat("=", 34) + " Ai Message " + strings.Repeat("=", 34) + "\n\nhi"},
		{"tool", withName, strings.Repeat("=", 33) + " Tool Message " + strings.Repeat("=", 33) + "\nName: get_weather\n\nIt's sunny!"},
		{"several calls", many, strings.Repeat("=", 34) + " Ai Message " + strings.Repeat("=", 34) +
			"\n\nLet me see.\nTool Calls:\n  f (c1)\n Call ID: c1\n  Args:\n    b: [1,2]\n    a: x\n    n: null\n  g (c2)\n Call ID: c2\n  Args:"},
		{"an invalid call", invalid, strings.Repeat("=", 34) + " Ai Message " + strings.Repeat("=", 34) +
			"\nInvalid Tool Calls:\n  f (c1)\n Call ID: c1\n  Error: bad\n  Args:\n    {"},
		{"blocks", llm.User("look", llm.Image("image/png", []byte("hi")), llm.ImageURL("https://x/y"), llm.Block{Type: "hologram"}),
			strings.Repeat("=", 32) + " Human Message " + strings.Repeat("=", 33) + "\n\nlook\n[image image/png, 2 bytes]\n[image https://x/y]\n[hologram]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.m.Pretty(); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
			if title, _, _ := strings.Cut(test.m.Pretty(), "\n"); len(title) != 80 {
				t.Errorf("the title has %d columns", len(title))
			}
		})
	}
}

// Bold letters are for terminals.
func TestPrintIsPlainInFile(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := llm.Print(f, llm.User("a"), llm.Assistant("b")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.Name())
	if want := llm.User("a").Pretty() + "\n" + llm.Assistant("b").Pretty() + "\n"; err != nil || string(got) != want {
		t.Errorf("the file holds %q, %v; want %q", got, err, want)
	}
}
