package models

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
	"github.com/treadle-go/treadle/llm/gemini"
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

func TestConversationsCrossProviders(t *testing.T) {
	clean(t)
	var sent string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		sent = string(raw)
		http.Error(w, `{"error":{"message":"out of order"}}`, http.StatusInternalServerError)
	}))
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		s.Close()
	})
	quiet := slog.New(slog.DiscardHandler)
	responses, err1 := openai.New("gpt-5-mini", &openai.Options{BaseURL: s.URL + "/v1", Key: "k", API: "responses", Logger: quiet})
	chat, err2 := openai.New("gpt-5-mini", &openai.Options{BaseURL: s.URL + "/v1", Key: "k", API: "chat", Logger: quiet})
	claude, err3 := anthropic.New("claude-sonnet-5-5", &anthropic.Options{BaseURL: s.URL, Key: "k", Logger: quiet})
	google, err4 := gemini.New("gemini-3.8-flash", &gemini.Options{BaseURL: s.URL, Key: "k", Logger: quiet})
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for from, answer := range histories {
		for to, model := range map[string]llm.Model{"openai": responses, "chat": chat, "anthropic": claude, "gemini": google} {
			t.Run(from+" to "+to, func(t *testing.T) {
				answer.Role, answer.Metadata = llm.RoleAI, map[string]any{"model_provider": from}
				answer.ToolCalls = []llm.ToolCall{{ID: "call_1", Name: "get_weather", Args: json.RawMessage(`{"city":"Paris"}`)}}
				sent = ""
				_, err := llm.Generate(t.Context(), model, llm.System("Be brief."), llm.User("Weather here?", llm.Image("image/png", []byte("map"))),
					answer, llm.ToolResult(answer.ToolCalls[0], "sunny"), llm.User("Thanks."))
				if sent == "" {
					t.Fatalf("nothing was sent: %v", err)
				}
				for _, want := range []string{"Be brief.", "Weather here?", "bWFw", "get_weather", "Paris", "Looking.", "sunny", "Thanks."} {
					if !strings.Contains(sent, want) {
						t.Errorf("%q is missing in %s", want, sent)
					}
				}
				for _, opaque := range []string{"c2VjcmV0", "opaque"} {
					own := from == to && (opaque != "opaque" || from != "gemini")
					if strings.Contains(sent, opaque) != own {
						t.Errorf("%s is sent: %v, want %v, in %s", opaque, !own, own, sent)
					}
				}
			})
		}
	}
}
