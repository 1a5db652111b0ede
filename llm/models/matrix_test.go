package models

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
	"github.com/treadle-go/treadle/llm/bedrock"
	"github.com/treadle-go/treadle/llm/gemini"
	"github.com/treadle-go/treadle/llm/ollama"
	"github.com/treadle-go/treadle/llm/openai"
)

// Histories contain what each provider's models write: opaque reasoning around a
// tool call, and an item of a tool that the provider ran.
var histories = map[string]llm.Message{
	"openai": {Blocks: []llm.Block{
		{Type: llm.BlockReasoning, ID: "rs_1", Reasoning: "I look.", Extra: map[string]any{"encrypted_content": "c2VjcmV0"}},
		{Type: "web_search_call", ID: "ws_1", Extra: map[string]any{"status": "completed", "action": map[string]any{"type": "search", "query": "opaque"}}},
		{Type: llm.BlockToolCall, ID: "call_1"}, {Type: llm.BlockText, Text: "Looking.", Extra: map[string]any{"phase": "commentary"}}}},
	"anthropic": {Blocks: []llm.Block{
		{Type: llm.BlockReasoning, Reasoning: "I look.", Extra: map[string]any{"signature": "c2VjcmV0"}},
		{Type: "server_tool_use", ID: "srvtoolu_1", Extra: map[string]any{"name": "web_search", "input": map[string]any{"query": "opaque"}}},
		{Type: llm.BlockToolCall, ID: "call_1"}, {Type: llm.BlockText, Text: "Looking."}}},
	"gemini": {Blocks: []llm.Block{
		{Type: llm.BlockReasoning, Reasoning: "I look.", Extra: map[string]any{"signature": "c2VjcmV0"}},
		{Type: llm.BlockToolCall, ID: "call_1"}, {Type: llm.BlockText, Text: "Looking.", Extra: map[string]any{"signature": "c2VjcmV0"}}}},
}

// adapters returns a model of each adapter, whose server is at url.
func adapters(t *testing.T, url string) map[string]llm.Model {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "k")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "k")
	quiet := slog.New(slog.DiscardHandler)
	responses, err1 := openai.New("gpt-5-mini", &openai.Options{BaseURL: url + "/v1", Key: "k", API: "responses", Logger: quiet})
	chat, err2 := openai.New("gpt-5-mini", &openai.Options{BaseURL: url + "/v1", Key: "k", API: "chat", Logger: quiet})
	claude, err3 := anthropic.New("claude-sonnet-5-5", &anthropic.Options{BaseURL: url, Key: "k", Logger: quiet})
	google, err4 := gemini.New("gemini-3.8-flash", &gemini.Options{BaseURL: url, Key: "k", Logger: quiet})
	aws, err5 := bedrock.New("us.amazon.nova-pro-v1:0", &bedrock.Options{BaseURL: url, Region: "us-east-1", Logger: quiet})
	local, err6 := ollama.New("qwen3", &ollama.Options{BaseURL: url, Logger: quiet})
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	return map[string]llm.Model{"openai": responses, "chat": chat, "anthropic": claude, "gemini": google, "bedrock": aws, "ollama": local}
}

// recorder starts a server that rejects requests and keeps the last one.
func recorder(t *testing.T) (url string, sent *string) {
	t.Helper()
	sent = new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		*sent = string(raw)
		http.Error(w, `{"error":{"message":"out of order"}}`, http.StatusInternalServerError)
	}))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	})
	return s.URL, sent
}

func TestConversationsCrossProviders(t *testing.T) {
	clean(t)
	url, sent := recorder(t)
	models := adapters(t, url)
	for from, answer := range histories {
		for to, model := range models {
			t.Run(from+" to "+to, func(t *testing.T) {
				answer.Role, answer.Metadata = llm.RoleAI, map[string]any{"model_provider": from}
				answer.ToolCalls = []llm.ToolCall{{ID: "call_1", Name: "get_weather", Args: json.RawMessage(`{"city":"Paris"}`)}}
				*sent = ""
				_, err := llm.Generate(t.Context(), model, llm.System("Be brief."), llm.User("Weather here?", llm.Image("image/png", []byte("map"))),
					answer, llm.ToolResult(answer.ToolCalls[0], "sunny"), llm.User("Thanks."))
				if *sent == "" {
					t.Fatalf("nothing was sent: %v", err)
				}
				for _, want := range []string{"Be brief.", "Weather here?", "bWFw", "get_weather", "Paris", "Looking.", "sunny", "Thanks."} {
					if !strings.Contains(*sent, want) {
						t.Errorf("%q is missing in %s", want, *sent)
					}
				}
				for _, opaque := range []string{"c2VjcmV0", "opaque"} {
					own := from == to && (opaque != "opaque" || from != "gemini")
					if strings.Contains(*sent, opaque) != own {
						t.Errorf("%s is sent: %v, want %v, in %s", opaque, !own, own, *sent)
					}
				}
			})
		}
	}
}

// The images that a model wrote reach another model, whatever follows them: a user, a tool
// result, or another agent's message.
func TestGeneratedImagesCrossProviders(t *testing.T) {
	clean(t)
	url, sent := recorder(t)
	models := adapters(t, url)
	call := llm.ToolCall{ID: "call_1", Name: "publish", Args: json.RawMessage(`{"title":"Owl"}`)}
	gemini := map[string]any{"model_provider": "gemini"}
	drawn := llm.Message{Role: llm.RoleAI, Content: "Look.", Blocks: []llm.Block{llm.Image("image/png", []byte("map"))}, Metadata: gemini}
	alone, calling := drawn, drawn
	generated := llm.Message{Role: llm.RoleAI, Content: "Look.", Metadata: map[string]any{"model_provider": "openai"},
		Blocks: []llm.Block{{Type: "image_generation_call", ID: "ig_1", Extra: map[string]any{"status": "completed", "output_format": "webp", "result": "bWFw"}}}}
	alone.Content, calling.ToolCalls = "", []llm.ToolCall{call}
	for name, after := range map[string][]llm.Message{
		"end":                   {drawn},
		"image alone":           {alone, llm.User("Bigger.")},
		"OpenAI's tool":         {generated, llm.User("Bigger.")},
		"user":                  {drawn, llm.User("Bigger.")},
		"system message":        {drawn, llm.User("Bigger."), llm.System("Hurry.")},
		"tool result":           {calling, llm.ToolResult(call, "ok")},
		"other agent's message": {drawn, llm.Assistant("Nice owl."), llm.User("Bigger.")},
	} {
		for to, model := range models {
			t.Run(name+" to "+to, func(t *testing.T) {
				for question, want := range map[string]int{"Draw.": 1, "Draw like this.": 2} {
					if to == "ollama" && want == 1 {
						want = 0 // many models read no images
					}
					first := llm.User(question)
					if question != "Draw." {
						first.Blocks = []llm.Block{llm.Image("image/png", []byte("map"))}
					}
					*sent = ""
					_, err := llm.Generate(t.Context(), model, append([]llm.Message{first}, after...)...)
					if got := strings.Count(*sent, "bWFw"); *sent == "" || got != want {
						t.Errorf("%d images, want %d, in %q (error %v)", got, want, *sent, err)
					}
				}
			})
		}
	}
}

// A message that contains only what its own provider understands does not end the
// conversation with another provider.
func TestOpaqueMessagesCrossProviders(t *testing.T) {
	clean(t)
	url, sent := recorder(t)
	for to, model := range adapters(t, url) {
		for name, blocks := range map[string][]llm.Block{
			"reasoning":     {{Type: llm.BlockReasoning, Reasoning: "Hm.", Extra: map[string]any{"signature": "c2VjcmV0"}}},
			"provider tool": {{Type: "acme_search", Extra: map[string]any{"query": "c2VjcmV0"}}},
			"audio":         {llm.Audio("audio/wav", []byte("secret"))},
		} {
			t.Run(name+" to "+to, func(t *testing.T) {
				*sent = ""
				m := llm.Message{Role: llm.RoleAI, Blocks: blocks, Metadata: map[string]any{"model_provider": "acme"}}
				_, err := llm.Generate(t.Context(), model, llm.User("Hi."), m, llm.User("Go on."))
				if !strings.Contains(*sent, "Go on.") || strings.Contains(*sent, "c2VjcmV0") && (name != "audio" || to != "gemini") {
					t.Errorf("sent %q, %v", *sent, err)
				}
			})
		}
	}
}
