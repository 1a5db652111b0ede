package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
)

func madeID(id string) bool { return strings.HasPrefix(id, "call_") && len(id) > 20 }

// Servers stream in different ways; the message is the same.
func TestStreamsOfManyServers(t *testing.T) {
	paris, rome := `{"city":"Paris"}`, `{"city":"Rome"}`
	tool := func(id, name, args string) llm.ToolCall {
		return llm.ToolCall{ID: id, Name: name, Args: json.RawMessage(args)}
	}
	signed := tool("call_1", "get_weather", paris)
	signed.Extra = map[string]any{"extra_content": map[string]any{"google": map[string]any{"thought_signature": "c2ln"}}}
	thought := func(field, text string) llm.Block {
		return llm.Block{Type: llm.BlockReasoning, Reasoning: text, Extra: map[string]any{"reasoning_field": field}}
	}
	detailed := thought("reasoning", "Owls fly.")
	detailed.Extra["reasoning_details"] = []any{
		map[string]any{"type": "reasoning.text", "text": "Owls fly.", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0.},
		map[string]any{"type": "reasoning.encrypted", "data": "ZW5j", "format": "anthropic-claude-v1", "index": 1.},
	}
	token := func(text string, p float64, b float64) any {
		return map[string]any{"token": text, "logprob": p, "bytes": []any{b}, "top_logprobs": []any{}}
	}
	for file, want := range map[string]llm.Message{
		"openai_text.sse": {Content: "Hoot!", Stop: llm.StopEnd,
			Usage: &llm.Usage{Input: 19, Output: 10, Total: 29, InputDetails: map[string]int{llm.UsageCacheRead: 8}, OutputDetails: map[string]int{llm.UsageReasoning: 6}},
			Metadata: map[string]any{"id": "chatcmpl-abc", "model_name": "gpt-5-mini-2025-08-07", "service_tier": "default", "system_fingerprint": "fp_1",
				"logprobs": map[string]any{"content": []any{token("Hoo", -0.5, 72), token("t!", -0.25, 116)}, "refusal": nil}}},
		"openai_forced_tool.sse": {Stop: llm.StopTools, ToolCalls: []llm.ToolCall{tool("call_1", "get_weather", paris)},
			Metadata: map[string]any{"id": "chatcmpl-abc"}},
		"ollama_same_index.sse": {Stop: llm.StopTools, Blocks: []llm.Block{thought("reasoning", "Two cities.")},
			ToolCalls: []llm.ToolCall{tool("call_a", "get_weather", paris), tool("call_b", "get_weather", rome)},
			Metadata:  map[string]any{"id": "chatcmpl-7", "model_name": "qwen3", "system_fingerprint": "fp_ollama"}},
		"no_ids.sse": {Stop: llm.StopTools, ToolCalls: []llm.ToolCall{
			tool("made", "get_weather", paris), tool("made", "get_time", `{}`), tool("made", "get_time", `{"zone":"CET"}`)}},
		"repeated_names.sse": {Stop: llm.StopTools, ToolCalls: []llm.ToolCall{tool("call_a", "get_weather", paris), tool("call_b", "get_time", `{}`)}},
		"same_ids.sse":       {Stop: llm.StopTools, ToolCalls: []llm.ToolCall{tool("call_a", "get_weather", paris), tool("made", "get_weather", rome)}},
		"late_ids.sse":       {Stop: llm.StopTools, ToolCalls: []llm.ToolCall{tool("made", "get_weather", paris), tool("call_b", "get_weather", rome)}},
		"sglang_index.sse":   {Stop: llm.StopTools, ToolCalls: []llm.ToolCall{tool("call_a", "get_weather", paris)}},
		"gemini_signature.sse": {Stop: llm.StopTools, ToolCalls: []llm.ToolCall{signed, tool("call_2", "get_weather", rome)},
			Usage: &llm.Usage{Input: 5, Output: 3, Total: 9}},
		"deepseek_reasoning.sse": {Stop: llm.StopEnd, Blocks: []llm.Block{thought("reasoning_content", "Owls fly."), llm.Text("They do.")},
			Usage:    &llm.Usage{Input: 13, Output: 9, Total: 22, OutputDetails: map[string]int{llm.UsageReasoning: 4}},
			Metadata: map[string]any{"id": "1", "model_name": "deepseek-reasoner"}},
		"openrouter_details.sse": {Stop: llm.StopEnd, Blocks: []llm.Block{detailed, llm.Text("They do.")},
			Usage:    &llm.Usage{Input: 9, Output: 8, Total: 17},
			Metadata: map[string]any{"id": "gen-1", "model_name": "anthropic/claude-sonnet-4.5"}},
		"openai_audio.sse":  {Stop: llm.StopEnd, Blocks: []llm.Block{{Type: llm.BlockAudio, ID: "audio_1", Data: []byte("hoot, hoot"), Extra: map[string]any{"transcript": "Hoot, hoot."}}}},
		"mistral_parts.sse": {Stop: llm.StopEnd, Blocks: []llm.Block{{Type: llm.BlockReasoning, Reasoning: "Owls fly."}, llm.Text("They do.")}},
		"running_usage.sse": {Content: "ab", Stop: llm.StopEnd, Usage: &llm.Usage{Input: 5, Output: 2, Total: 7},
			Metadata: map[string]any{"stop_reason": "eos"}},
	} {
		t.Run(strings.TrimSuffix(file, ".sse"), func(t *testing.T) {
			got, err := llm.Generate(t.Context(), modelAt(t, another, &wire{body: readFile(t, file)}), llm.User("Hi"))
			if err != nil {
				t.Fatal(err)
			}
			want.Role, want.ID = llm.RoleAI, got.ID
			if want.Metadata == nil {
				want.Metadata = map[string]any{}
			}
			want.Metadata["model_provider"] = "openai"
			ids := map[string]bool{}
			for i, c := range got.ToolCalls {
				ids[c.ID] = true
				if madeID(c.ID) {
					got.ToolCalls[i].ID = "made"
				}
			}
			if len(ids) != len(want.ToolCalls) {
				t.Errorf("the calls have the ids %v, want one for each", ids)
			}
			same(t, "the message", want, got)
			if strings.HasPrefix(got.ID, "chatcmpl") {
				t.Errorf("the message has the server's id %s: servers repeat theirs, and messages with the same id replace each other", got.ID)
			}
		})
	}
}

// A whole answer means the same as a streamed one, and is one chunk.
func TestWholeAnswers(t *testing.T) {
	for _, test := range []struct {
		name, body string
		want       llm.Message
	}{
		{"reasoning before text", `{"choices":[{"message":{"content":"They do.","reasoning_content":"Owls fly.","reasoning":"Owls fly."},"finish_reason":"stop"}]}`,
			llm.Message{Stop: llm.StopEnd, Blocks: []llm.Block{{Type: llm.BlockReasoning, Reasoning: "Owls fly.", Extra: map[string]any{"reasoning_field": "reasoning_content"}}, llm.Text("They do.")}}},
		{"a call without id, its arguments as JSON, no reason to stop", `{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"get_weather","arguments":{"city":"Paris"}},"extra_content":{"a":"b"}}]}}]}`,
			llm.Message{Stop: llm.StopTools, ToolCalls: []llm.ToolCall{{ID: "made", Name: "get_weather", Args: json.RawMessage(`{"city":"Paris"}`), Extra: map[string]any{"extra_content": map[string]any{"a": "b"}}}}}},
		{"a broken call", `{"choices":[{"message":{"content":"x","tool_calls":[{"id":"call_1","function":{"name":"get_weather","arguments":"{\"city"}}]},"finish_reason":"length"}]}`,
			llm.Message{Content: "x", Stop: llm.StopLength, InvalidToolCalls: []llm.InvalidToolCall{{ID: "call_1", Name: "get_weather", Args: `{"city`, Error: "the arguments are not valid JSON: unexpected end of JSON input"}}}},
		{"spoken", `{"choices":[{"message":{"content":null,"audio":{"id":"audio_1","expires_at":1,"data":"aG9vdA==","transcript":"Hoot."}},"finish_reason":"stop"}]}`,
			llm.Message{Stop: llm.StopEnd, Blocks: []llm.Block{{Type: llm.BlockAudio, ID: "audio_1", Data: []byte("hoot"), Extra: map[string]any{"transcript": "Hoot."}}}}},
		{"content in parts", `{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Owls"},{"type":"text","text":" fly."}]},{"type":"text","text":"They do."}]},"finish_reason":"stop"}]}`,
			llm.Message{Stop: llm.StopEnd, Blocks: []llm.Block{{Type: llm.BlockReasoning, Reasoning: "Owls fly."}, llm.Text("They do.")}}},
		{"withheld", `{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}`, llm.Message{Stop: llm.StopFilter}},
		{"with sources", `{"choices":[{"message":{"content":"x","annotations":[{"type":"url_citation"}]},"finish_reason":"stop"}]}`,
			llm.Message{Content: "x", Stop: llm.StopEnd, Metadata: map[string]any{"annotations": []any{map[string]any{"type": "url_citation"}}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			model := llm.With(modelAt(t, another, &wire{body: test.body}), llm.NoStream())
			var chunks []llm.Chunk
			for chunk, err := range llm.Stream(t.Context(), model, llm.User("Hi")) {
				if err != nil {
					t.Fatal(err)
				}
				chunks = append(chunks, chunk)
			}
			if len(chunks) != 1 {
				t.Fatalf("the answer came in %d chunks, want 1", len(chunks))
			}
			got := chunks[0].Message()
			for i, c := range got.ToolCalls {
				if madeID(c.ID) {
					got.ToolCalls[i].ID = "made"
				}
			}
			test.want.Role, test.want.ID = llm.RoleAI, got.ID
			if test.want.Metadata == nil {
				test.want.Metadata = map[string]any{}
			}
			test.want.Metadata["model_provider"] = "openai"
			same(t, "the message", test.want, got)
		})
	}
}

// A server receives the reasoning that it has sent.
func TestReasoningIsSentBackUnchanged(t *testing.T) {
	w := &wire{body: readFile(t, "openrouter_details.sse")}
	model := modelAt(t, another, w)
	m, err := llm.Generate(t.Context(), model, llm.User("Do owls fly?"))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(m) // as in a thread that is read again
	if err != nil {
		t.Fatal(err)
	}
	var again llm.Message
	if err := json.Unmarshal(stored, &again); err != nil {
		t.Fatal(err)
	}
	if _, err := llm.Generate(t.Context(), llm.With(model), llm.User("Do owls fly?"), again, llm.User("Sure?")); err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Messages []map[string]any
	}
	if err := json.Unmarshal(w.sent, &sent); err != nil {
		t.Fatal(err)
	}
	same(t, "the answer sent back", map[string]any{"role": "assistant", "content": "They do.", "reasoning_details": []any{
		map[string]any{"type": "reasoning.text", "text": "Owls fly.", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0.},
		map[string]any{"type": "reasoning.encrypted", "data": "ZW5j", "format": "anthropic-claude-v1", "index": 1.},
	}}, sent.Messages[1])
}
