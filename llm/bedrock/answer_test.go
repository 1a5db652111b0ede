package bedrock_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// both returns the streamed and the whole response with the same content.
func both(t *testing.T, events []byte, content []object, stop string, more object) []llm.Message {
	t.Helper()
	metadata := object{"usage": object{"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}}
	whole := object{"output": object{"message": object{"role": "assistant", "content": content}}, "stopReason": stop}
	maps.Copy(metadata, more)
	maps.Copy(whole, metadata)
	streamed, err := respond(t, streamOf(event("messageStart", object{"role": "assistant"}), events, event("messageStop", object{"stopReason": stop}), event("metadata", metadata)))
	if err != nil {
		t.Fatal(err)
	}
	once, err := respond(t, marshal(whole), llm.NoStream())
	if err != nil {
		t.Fatal(err)
	}
	return []llm.Message{streamed, once}
}

func TestGuardrailIntervenes(t *testing.T) {
	trace := object{"guardrail": object{"inputAssessment": object{"g1": object{"topicPolicy": object{"topics": []any{object{"name": "Finance", "type": "DENY", "action": "BLOCKED"}}}}}}}
	for _, m := range both(t, event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"text": "I cannot discuss that."}}),
		[]object{{"text": "I cannot discuss that."}}, "guardrail_intervened", object{"trace": trace}) {
		if m.Stop != llm.StopFilter || m.Text() != "I cannot discuss that." {
			t.Errorf("stop %q, text %q", m.Stop, m.Text())
		}
		same(t, "trace", trace, m.Metadata["trace"])
		want := object{"model_provider": "bedrock_converse", "model_name": claude, "stop_reason": "guardrail_intervened", "request_id": "r-1"}
		for name, v := range want {
			if m.Metadata[name] != v {
				t.Errorf("metadata %s is %v, want %v", name, m.Metadata[name], v)
			}
		}
	}
}

func TestCitations(t *testing.T) {
	citation := object{"title": "Owls", "location": object{"documentPage": object{"documentIndex": 0.0, "start": 1.0, "end": 2.0}}}
	events := streamOf(event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"text": "Owls hoot."}}),
		event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"citation": citation}}),
		event("contentBlockStop", object{"contentBlockIndex": 0}))
	content := []object{{"citationsContent": object{"content": []object{{"text": "Owls hoot."}}, "citations": []object{citation}}}}
	for _, m := range both(t, events, content, "end_turn", nil) {
		if m.Text() != "Owls hoot." || len(m.Blocks) != 1 {
			t.Fatalf("text %q, blocks %+v", m.Text(), m.Blocks)
		}
		same(t, "citations", []any{citation}, m.Blocks[0].Extra["citations"])
	}
}

func TestRedactedReasoning(t *testing.T) {
	events := streamOf(event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"reasoningContent": object{"redactedContent": []byte("secret")}}}),
		event("contentBlockStop", object{"contentBlockIndex": 0}), event("contentBlockDelta", object{"contentBlockIndex": 1, "delta": object{"text": "Yes."}}))
	content := []object{{"reasoningContent": object{"redactedContent": []byte("secret")}}, {"text": "Yes."}}
	for _, m := range both(t, events, content, "end_turn", nil) {
		same(t, "blocks", []llm.Block{{Type: "redacted_thinking", Data: []byte("secret")}, llm.Text("Yes.")}, m.Blocks)
	}
}

// Calls and results of tools that Bedrock runs are kept, but not offered to the
// program, and are sent back in their place.
func TestServerToolBlocks(t *testing.T) {
	use := object{"toolUse": object{"toolUseId": "s1", "name": "nova_grounding", "type": "server_tool_use", "input": object{"query": "owls"}}}
	result := object{"toolResult": object{"toolUseId": "s1", "type": "nova_grounding_result", "status": "success", "content": []any{object{"text": "Owls."}}}}
	events := streamOf(
		event("contentBlockStart", object{"contentBlockIndex": 0, "start": object{"toolUse": object{"toolUseId": "s1", "name": "nova_grounding", "type": "server_tool_use"}}}),
		event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"toolUse": object{"input": `{"query":`}}}),
		event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"toolUse": object{"input": `"owls"}`}}}),
		event("contentBlockStop", object{"contentBlockIndex": 0}),
		event("contentBlockStart", object{"contentBlockIndex": 1, "start": object{"toolResult": object{"toolUseId": "s1", "type": "nova_grounding_result", "status": "success"}}}),
		event("contentBlockDelta", object{"contentBlockIndex": 1, "delta": object{"toolResult": []object{{"text": "Owls."}}}}),
		event("contentBlockStop", object{"contentBlockIndex": 1}),
		event("contentBlockDelta", object{"contentBlockIndex": 2, "delta": object{"text": "They hoot."}}))
	for _, m := range both(t, events, []object{use, result, {"text": "They hoot."}}, "end_turn", nil) {
		want := []llm.Block{{Type: "non_standard", Extra: object{"value": use}}, {Type: "non_standard", Extra: object{"value": result}}, llm.Text("They hoot.")}
		same(t, "blocks", want, m.Blocks)
		if len(m.ToolCalls) != 0 || m.Stop != llm.StopEnd {
			t.Errorf("calls %+v, stop %s", m.ToolCalls, m.Stop)
		}
		got := send(t, claude, []llm.Option{lookTool()}, llm.User("Hi"), m, llm.User("Thanks"))
		same(t, "sent back", []string{"toolUse", "toolResult", "text"}, kinds(t, got.Messages[1].Content))
	}
}

func TestTokenLimitBeforeArguments(t *testing.T) {
	start := event("contentBlockStart", object{"contentBlockIndex": 0, "start": object{"toolUse": object{"toolUseId": "1", "name": "look"}}})
	stop := event("contentBlockStop", object{"contentBlockIndex": 0})
	end := func(reason string) []byte {
		return streamOf(event("messageStop", object{"stopReason": reason}), event("metadata", object{"usage": object{}}))
	}
	m, err := respond(t, streamOf(start, stop, end("max_tokens")))
	if err != nil || len(m.ToolCalls) != 0 || len(m.InvalidToolCalls) != 1 || m.Stop != llm.StopLength {
		t.Errorf("at the limit: calls %+v, invalid %+v, %v", m.ToolCalls, m.InvalidToolCalls, err)
	}
	m, err = respond(t, streamOf(start, event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"toolUse": object{"input": ""}}}), stop, end("tool_use")))
	if err != nil || len(m.ToolCalls) != 1 || string(m.ToolCalls[0].Args) != "{}" {
		t.Errorf("without arguments: %+v, %v", m, err)
	}
}

func TestMalformedOutput(t *testing.T) {
	for _, reason := range []string{"malformed_tool_use", "malformed_model_output"} {
		m, err := respond(t, streamOf(event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"text": "Hm"}}),
			event("messageStop", object{"stopReason": reason}), event("metadata", object{"usage": object{}})))
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Code != reason || !e.Temporary() || m.Stop != "" {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestUnknownEventsAreSkipped(t *testing.T) {
	m, err := respond(t, streamOf(event("messageStart", object{"role": "assistant"}),
		event("brandNew", object{"contentBlockIndex": 0, "what": []any{1}}),
		event("contentBlockStart", object{"contentBlockIndex": 0, "start": object{"hologram": object{}}}),
		event("contentBlockDelta", object{"contentBlockIndex": 0, "delta": object{"hologram": object{"x": 1}}}),
		event("contentBlockDelta", object{"contentBlockIndex": 1, "delta": object{"text": "Hi."}}),
		event("messageStop", object{"stopReason": "brand_new"}), event("metadata", object{"usage": object{"inputTokens": 3, "cacheWriteInputTokens": 4}})))
	if err != nil || m.Text() != "Hi." || m.Stop != "brand_new" || m.Usage.Input != 7 || m.Usage.InputDetails[llm.UsageCacheCreation] != 4 {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = respond(t, marshal(object{"output": object{"message": object{"role": "assistant", "content": []object{{"hologram": object{"x": "y"}}, {"text": "Hi."}}}}, "stopReason": "end_turn"}), llm.NoStream())
	if err != nil || m.Text() != "Hi." || len(m.Blocks) != 2 || m.Blocks[0].Type != "non_standard" {
		t.Errorf("%+v, %v", m, err)
	}
}

// A stream cut at any byte causes an error, and never a shorter response.
func TestStreamCutAtEveryByte(t *testing.T) {
	whole := streamOf(writeStream(llmtest.Reply{Reasoning: []string{"Hm"}, Signature: "cw==", Text: []string{"Hi"}, Stop: llm.StopTools,
		Calls: []llmtest.Call{{ID: "1", Name: "look", Args: []string{`{}`}}}})...)
	s := &server{}
	m := open(t, claude, s.start(t))
	for n := range len(whole) {
		s.body = whole[:n]
		_, err := llm.Generate(t.Context(), m, llm.User("Hi"))
		if e, ok := errors.AsType[*llm.Error](err); !ok || !e.Cut || !strings.Contains(e.Error(), "before the response was complete") {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(whole), err)
		}
	}
	s.body = whole
	if _, err := llm.Generate(t.Context(), m, llm.User("Hi")); err != nil {
		t.Error(err)
	}
}
