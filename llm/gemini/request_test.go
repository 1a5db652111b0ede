package gemini_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
)

var update = flag.Bool("update", false, "write what is sent to testdata, to be read before it is kept")

type forecast struct {
	City string `json:"city" jsonschema:"where to look"`
	Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit"`
	Area struct {
		Wide bool `json:"wide"`
		Deep int  `json:"deep"`
	} `json:"area"`
}

func forecasts() *llm.Tool {
	return llm.NewTool("get_weather", "Tells the weather.", func(context.Context, forecast) (string, error) { return "", nil })
}

func call(id, name, args string, extra map[string]any) llm.ToolCall {
	return llm.ToolCall{ID: id, Name: name, Args: json.RawMessage(args), Extra: extra}
}

// from returns a message that a provider's model made.
func from(provider string, m llm.Message) llm.Message {
	m.Metadata = map[string]any{"model_provider": provider}
	return m
}

// The body is compared with testdata, as a whole.
func TestRequestBody(t *testing.T) {
	signature := map[string]any{"signature": "c2lnbmVk"}
	weather := call("fc_1", "get_weather", `{"city":"Bonn"}`, signature)
	clock := call("fc_2", "get_time", `{}`, nil)
	pixel := []byte("\x89PNG pixel")
	failed := llm.ToolResult(clock, "no clock")
	failed.Status = llm.StatusError
	tests := []struct {
		name  string
		model string // gemini-3-test if empty
		with  []llm.Option
		ask   []llm.Message
	}{
		{name: "history", ask: []llm.Message{
			llm.System("Be brief."), llm.User("Weather and time?"), llm.Assistant("Let me see.", weather, clock),
			llm.ToolResult(weather, map[string]any{"sky": "blue"}), failed,
			llm.Assistant("Blue sky."), llm.System("Answer in German."), llm.User("And tomorrow?"),
		}},
		{name: "reasoning", with: []llm.Option{llm.Reasoning("low")}, ask: []llm.Message{
			llm.User("Do owls fly?"),
			from("gemini", llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{
				{Type: llm.BlockReasoning, Reasoning: "They have wings."}, llm.Text("They fly."), {Type: llm.BlockText, Extra: signature}}}),
			llm.User("Sure?"),
			from("anthropic", llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{
				{Type: llm.BlockReasoning, Reasoning: "Am I?", Extra: signature}, llm.Text("Yes.")}}),
			llm.User("Really?"),
		}},
		{name: "foreign_calls", ask: []llm.Message{
			llm.User("Weather?"), from("openai", llm.Assistant("", call("call_9", "get_weather", `{"city":"Rome"}`, signature), call("call_10", "get_time", ``, nil))),
			llm.ToolResult(llm.ToolCall{ID: "call_9"}, "hot"), llm.ToolResult(llm.ToolCall{ID: "call_10"}, "noon"),
		}},
		{name: "langchain_signatures", ask: []llm.Message{
			llm.User("Weather?"), from("google_genai", llm.Message{Role: llm.RoleAI, Blocks: []llm.Block{{Type: llm.BlockText, Text: "Let me see.", Extra: map[string]any{"extras": map[string]any{"signature": "-_-_"}}}, {Type: llm.BlockReasoning, Reasoning: "Hm.", Extra: map[string]any{"signature": "damaged"}}}}),
			llm.User("And?"),
		}},
		{name: "made_ids", model: "gemini-2.5-flash", ask: []llm.Message{
			llm.User("Weather?"), llm.Assistant("", call("gemini-resp-1-0", "get_weather", `{"city":"Rome"}`, nil)),
			llm.ToolResult(llm.ToolCall{ID: "gemini-resp-1-0"}, "hot"),
		}},
		{name: "tools", with: []llm.Option{llm.ToolChoice("get_weather"), llm.Tools(forecasts(),
			&llm.Tool{Name: "search", Extra: map[string]any{"googleSearch": map[string]any{}}},
			&llm.Tool{Name: "anything", Description: "Takes anything.", Extra: map[string]any{"behavior": "BLOCKING", "cache_control": map[string]any{"type": "ephemeral"}},
				Run: func(context.Context, json.RawMessage) (any, error) { return nil, nil }})},
			ask: []llm.Message{llm.User("Weather?")}},
		{name: "media", ask: []llm.Message{
			llm.User("What are these?", llm.Image("image/png", pixel), llm.ImageURL("https://example.com/owl.jpg?size=9"),
				llm.ImageURL("data:image/gif;base64,R0lGOA=="), llm.Audio("audio/mp3", []byte("hoot")), llm.File("a.pdf", "application/pdf", []byte("%PDF")),
				llm.Block{Type: llm.BlockFile, FileID: "files/abc", MIMEType: "text/csv"},
				llm.Block{Type: llm.BlockVideo, FileID: "https://example.com/v1beta/files/def", MIMEType: "video/mp4"},
				llm.Block{Type: llm.BlockPlain, Text: "A document."}),
			llm.Assistant("", weather),
			llm.ToolResult(weather, []llm.Block{llm.Text("A map:"), llm.Image("image/png", pixel), llm.ImageURL("https://example.com/map.png")}),
		}},
		{name: "settings", model: "gemini-2.5-pro", with: []llm.Option{llm.MaxTokens(64), llm.Temperature(0.7), llm.TopP(0.9), llm.Seed(7), llm.StopWords("END"), llm.Reasoning("high"),
			llm.Setting("generationConfig", map[string]any{"topK": 40, "topP": 0.5}), llm.Setting("safetySettings", []map[string]string{{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}}),
			llm.Setting("cachedContent", "cachedContents/x")},
			ask: []llm.Message{llm.User("Hi")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, ok(text("ok")))
			name := tt.model
			if name == "" {
				name = "gemini-3-test"
			}
			model := llm.With(open(t, name, s.URL), append(tt.with, llm.NoStream())...)
			if _, err := llm.Generate(t.Context(), model, tt.ask...); err != nil {
				t.Fatal(err)
			}
			golden(t, tt.name, string(s.last().body))
		})
	}
}

func TestObjectSchemaKeepsFieldOrder(t *testing.T) {
	type verdict struct {
		Why  string `json:"why" jsonschema:"the reasons"`
		Owls []struct {
			Name string `json:"name"`
			Age  int    `json:"age,omitempty"`
		} `json:"owls"`
		Just bool `json:"just"`
	}
	s := serve(t, streams(event("STOP", text(`{"why": "wings", "owls": [{"name": "Eule"}], "just": true}`))))
	got, err := llm.Object[verdict](t.Context(), open(t, "gemini-3-test", s.URL), llm.User("Do owls fly?"))
	if err != nil || got.Why != "wings" || !got.Just || len(got.Owls) != 1 {
		t.Errorf("the value is %+v, %v", got, err)
	}
	golden(t, "output", string(s.last().body))
}

// golden compares a body with testdata/request_name.json.
func golden(t *testing.T, name, body string) {
	t.Helper()
	file := filepath.Join("testdata", "request_"+name+".json")
	got := indented(t, []byte(body))
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the body (-want +got):\n%s", d)
	}
}
