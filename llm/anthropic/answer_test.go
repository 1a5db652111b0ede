package anthropic_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func generate(t *testing.T, model llm.Model, history ...llm.Message) llm.Message {
	t.Helper()
	m, err := llm.Generate(t.Context(), model, history...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var thoughtful = llm.Message{
	Role: llm.RoleAI,
	ID:   "msg_02",
	Blocks: []llm.Block{
		{Type: llm.BlockReasoning, Reasoning: "Two cities, two calls.", Extra: object{"signature": "EqQBCgIYAhIM+/=="}},
		{Type: "redacted_thinking", Extra: object{"data": "EmwKAhgBEgy3va3pzix/LafPsn4a"}},
		llm.Text("I will look."),
	},
	ToolCalls: []llm.ToolCall{
		{ID: "toolu_1", Name: "get_weather", Args: json.RawMessage(`{"city":"Oslo"}`)},
		{ID: "toolu_2", Name: "get_weather", Args: json.RawMessage(`{"city":"Rome"}`),
			Extra: object{"caller": object{"type": "code_execution_20260120", "tool_id": "srvtoolu_9"}}},
	},
	Usage: &llm.Usage{Input: 1120, Output: 60, Total: 1180,
		InputDetails:  map[string]int{llm.UsageCacheRead: 1000, llm.UsageCacheCreation: 100},
		OutputDetails: map[string]int{llm.UsageReasoning: 25}},
	Stop:     llm.StopTools,
	Metadata: object{"model_provider": "anthropic", "model_name": "claude-opus-5-5", "id": "msg_02", "stop_reason": "tool_use"},
}

func TestStreamedMessageEqualsUnstreamed(t *testing.T) {
	s := serve(t, file("thinking_tools.json"), file("thinking_tools.sse"))
	model := open(t, s.URL)
	for _, m := range []llm.Model{llm.With(model, llm.NoStream()), model} {
		if d := cmp.Diff(thoughtful, generate(t, m, llm.User("Weather?"))); d != "" {
			t.Errorf("the answer (-want +got):\n%s", d)
		}
	}
}

func TestThinkingAndCallsAreSentBackUnchanged(t *testing.T) {
	s := serve(t, ok(), ok())
	model := llm.With(open(t, s.URL), llm.NoStream())
	history := llm.Messages{llm.User("Weather?"), thoughtful, llm.ToolResult(thoughtful.ToolCalls[0], "rain"), llm.ToolResult(thoughtful.ToolCalls[1], "sun")}
	generate(t, model, history...)
	golden(t, "request_thinking.json", s.body(0))

	// The same from a store, where messages are JSON.
	raw, err := json.Marshal(history)
	if err != nil {
		t.Fatal(err)
	}
	var stored llm.Messages
	if err := json.Unmarshal(raw, &stored); err != nil {
		t.Fatal(err)
	}
	generate(t, model, stored...)
	golden(t, "request_thinking.json", s.body(1))
}

func TestServerToolBlocksAreSentBack(t *testing.T) {
	s := serve(t, file("web_search.sse"), ok())
	model := open(t, s.URL)
	question := llm.User("What do owls do?")
	m := generate(t, model, question)
	citation := object{"type": "web_search_result_location", "url": "https://example.com/owls", "title": "Owls", "encrypted_index": "Eo8L", "cited_text": "They hoot."}
	found := object{"type": "web_search_result", "title": "Owls", "url": "https://example.com/owls", "encrypted_content": "Eo8K", "page_age": nil}
	want := []llm.Block{
		{Type: "server_tool_use", ID: "srvtoolu_1", Extra: object{"name": "web_search", "input": object{"query": "owls"}}},
		{Type: "web_search_tool_result", Extra: object{"tool_use_id": "srvtoolu_1", "content": []any{found}}},
		llm.Text("Owls hoot"),
		{Type: llm.BlockText, Extra: object{"citations": []any{citation}}},
		llm.Text(" at night."),
	}
	if d := cmp.Diff(want, m.Blocks); d != "" {
		t.Errorf("the blocks (-want +got):\n%s", d)
	}
	if d := cmp.Diff(&llm.Usage{Input: 230, Output: 40, Total: 270}, m.Usage); d != "" {
		t.Errorf("the usage (-want +got):\n%s", d)
	}
	if m.Text() != "Owls hoot at night." || len(m.ToolCalls) > 0 {
		t.Errorf("the answer says %q and asks for %v", m.Text(), m.ToolCalls)
	}
	m.Blocks[0].Index = new(0) // LangChain stores the places
	generate(t, llm.With(model, llm.NoStream()), question, m, llm.User("Sure?"))
	golden(t, "request_server_tools.json", s.body(1))
}

// Later turns need the references in the citations of a web search.
func TestCitationsAreSentBack(t *testing.T) {
	reply := llmtest.Reply{Items: webSearch.Items, Text: []string{"It ", "rains."}, Citation: webSearch.Citation, Stop: llm.StopEnd}
	for _, stream := range []bool{true, false} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if !stream {
				text("json", http.StatusOK, string(writeWhole(reply)))(w, r)
				return
			}
			text("sse", http.StatusOK, string(bytes.Join(writeStream(reply), nil)))(w, r)
		}, ok())
		model := llm.With(open(t, s.URL), llm.Tools(llm.ProviderTool(webSearch.Fields)))
		whole := llm.With(model, llm.NoStream())
		question := llm.User("Weather?")
		if !stream {
			model = whole
		}
		m := generate(t, model, question)
		for i := range m.Blocks {
			if cited, ok := m.Blocks[i].Extra["citations"].([]any); ok {
				cited[0].(object)["file_id"] = nil // responses contain it, and requests must not
			}
		}
		generate(t, whole, question, m, llm.User("Thanks"))
		var sent wireRequest
		if err := json.Unmarshal(s.body(1), &sent); err != nil {
			t.Fatal(err)
		}
		content := sent.Messages[1].Content
		if d := cmp.Diff([]object{webSearch.Citation}, content[len(content)-1].Citations); d != "" {
			t.Errorf("stream %v: the citations sent back (-want +got):\n%s", stream, d)
		}
	}
}

func TestResponsesHaveStopReason(t *testing.T) {
	for _, c := range []struct {
		reason string
		want   llm.StopReason
	}{
		{"end_turn", llm.StopEnd},
		{"stop_sequence", llm.StopEnd},
		{"tool_use", llm.StopTools},
		{"max_tokens", llm.StopLength},
		{"model_context_window_exceeded", llm.StopLength},
		{"refusal", llm.StopRefusal},
		{"pause_turn", "pause_turn"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			reply := wireMessage([]object{{"type": "text", "text": "x"}}, c.reason, object{"input_tokens": 1, "output_tokens": 1})
			s := serve(t, text("json", http.StatusOK, string(encode(reply))))
			m := generate(t, llm.With(open(t, s.URL), llm.NoStream()), llm.User("Hi"))
			if m.Stop != c.want || m.Metadata["stop_reason"] != c.reason {
				t.Errorf("the answer stopped for %q (%v), want %q", m.Stop, m.Metadata, c.want)
			}
		})
	}
}

func TestRefusalsCarryTheirDetails(t *testing.T) {
	details := object{"type": "refusal", "category": "bio", "explanation": "It is not allowed."}
	whole := wireMessage([]object{{"type": "text", "text": "First you"}}, "refusal", object{"input_tokens": 1, "output_tokens": 1})
	whole["id"], whole["model"], whole["stop_details"] = "msg_04", "claude-opus-5-5", details
	s := serve(t, file("refusal.sse"), text("json", http.StatusOK, string(encode(whole))))
	model := open(t, s.URL)
	for _, m := range []llm.Message{generate(t, model, llm.User("How?")), generate(t, llm.With(model, llm.NoStream()), llm.User("How?"))} {
		want := object{"model_provider": "anthropic", "model_name": "claude-opus-5-5", "id": "msg_04", "stop_reason": "refusal", "stop_details": details}
		if d := cmp.Diff(want, m.Metadata); d != "" || m.Stop != llm.StopRefusal || m.Text() != "First you" {
			t.Errorf("the refusal stopped for %q and says %q; its metadata (-want +got):\n%s", m.Stop, m.Text(), d)
		}
	}
}

func TestStopWordsAreNamed(t *testing.T) {
	reply := wireMessage([]object{{"type": "text", "text": "x"}}, "stop_sequence", object{"input_tokens": 1, "output_tokens": 1})
	reply["stop_sequence"] = "END"
	s := serve(t, text("json", http.StatusOK, string(encode(reply))))
	m := generate(t, llm.With(open(t, s.URL), llm.NoStream()), llm.User("Hi"))
	if m.Metadata["stop_sequence"] != "END" {
		t.Errorf("the metadata is %v, want the stop_sequence END", m.Metadata)
	}
}

// Anthropic wants answers that may take long to be streamed.
func TestLongUnstreamedResponseIsOneChunk(t *testing.T) {
	reply := llmtest.Reply{Text: []string{"a", "b", "c"}, Stop: llm.StopEnd, Usage: llm.Usage{Input: 3, Output: 4, Total: 7}}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var all string
		for _, e := range writeStream(reply) {
			all += string(e)
		}
		text("sse", http.StatusOK, all)(w, r)
	})
	var chunks []llm.Chunk
	for chunk, err := range llm.Stream(t.Context(), llm.With(open(t, s.URL), llm.NoStream(), llm.MaxTokens(64000)), llm.User("Hi")) {
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, chunk)
	}
	if body := plain(t, s.body(0)).(object); body["stream"] != true {
		t.Errorf("the request says stream %v", body["stream"])
	}
	if len(chunks) != 1 || chunks[0].Content != "abc" || chunks[0].Stop != llm.StopEnd || chunks[0].Usage.Total != 7 {
		t.Errorf("the chunks are %+v, want one with all", chunks)
	}
}

func TestWholeResponsesKeepCitations(t *testing.T) {
	citation := object{"type": "char_location", "cited_text": "They hoot.", "document_index": 0.0, "document_title": nil, "start_char_index": 0.0, "end_char_index": 10.0}
	reply := wireMessage([]object{{"type": "text", "text": "Owls "}, {"type": "text", "text": "hoot.", "citations": []any{citation}}}, "end_turn", object{"input_tokens": 1, "output_tokens": 1})
	s := serve(t, text("json", http.StatusOK, string(encode(reply))))
	m := generate(t, llm.With(open(t, s.URL), llm.NoStream()), llm.User("Hi"))
	want := []llm.Block{{Type: llm.BlockText, Text: "hoot.", Extra: object{"citations": []any{citation}}}}
	if d := cmp.Diff(want, m.Blocks); d != "" || m.Content != "Owls " {
		t.Errorf("the answer says %q; its blocks (-want +got):\n%s", m.Text(), d)
	}
}
