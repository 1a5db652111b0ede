package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/llm/openai"
)

// TestProviderSuite runs the suite against a server other than OpenAI.
func TestProviderSuite(t *testing.T) {
	p := chatProvider()
	p.Open = opener(openai.Options{}, "/v1")
	llmtest.Run(t, p)
}

// Azure's streams start with a piece without choices.
func TestAzureChatSuite(t *testing.T) {
	p := chatProvider()
	p.Open = opener(openai.Options{Provider: "azure", Azure: true, API: "chat"}, "")
	p.Request = azureRequest(t, p.Request)
	whole, stream := filtered(p, `"index":0`, `"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}`)
	p.Whole, p.Stream = whole, func(r llmtest.Reply) [][]byte {
		first := []byte(`data: {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{}}]}` + "\n\n")
		return append([][]byte{first}, stream(r)...)
	}
	p.Lacks["ReasoningLoop"] = "the API does not return reasoning, nor accept it"
	p.Lacks["ReasoningAfterKill"] = p.Lacks["ReasoningLoop"]
	llmtest.Run(t, p)
}

// chatProvider describes the Chat Completions API, without Open.
func chatProvider() llmtest.Provider {
	return llmtest.Provider{
		Request: readRequest,
		Whole:   wholeAnswer,
		Stream:  streamedAnswer,
		Unknown: []byte("event: surprise\ndata: {\"object\":\"surprise\"}\n\n"),
		Failure: func(f llmtest.Failure) []byte {
			if f.Stream {
				return fmt.Appendf(nil, "data: %s\n\n", wireFailure(f))
			}
			return wireFailure(f)
		},
		Overflow: llmtest.Failure{Status: http.StatusBadRequest, Code: overflowCode,
			Message: "This model's maximum context length is 128000 tokens. However, your messages resulted in 130512 tokens."},
		Lacks: map[string]string{
			"BlockOrder":    "a message has one content and one list of calls, without an order",
			"ProviderTools": "the API has only function tools",
		},
	}
}

const overflowCode = "context_length_exceeded"

func wireFailure(f llmtest.Failure) []byte {
	kind, code := f.Code, any(nil)
	if f.Code == overflowCode {
		kind, code = "invalid_request_error", f.Code
	}
	return marshal(object{"error": object{"message": f.Message, "type": kind, "param": nil, "code": code}})
}

// The rest of this file is the wire format, written by hand from its documentation.

type object = map[string]any

func marshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

type wireMessage struct {
	Role       string
	Content    json.RawMessage
	Reasoning  string
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string
		Type     string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

type wireRequest struct {
	Model               string
	Stream              bool
	Messages            []wireMessage
	MaxTokens           int `json:"max_tokens"`
	MaxCompletionTokens int `json:"max_completion_tokens"` // OpenAI and Azure
	Temperature         *float64
	Stop                []string
	ToolChoice          json.RawMessage `json:"tool_choice"`
	Tools               []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
	ResponseFormat *struct {
		Type       string
		JSONSchema struct {
			Name   string
			Schema json.RawMessage
		} `json:"json_schema"`
	} `json:"response_format"`
}

func readRequest(r *http.Request, body []byte) (got llmtest.Received, err error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer a key" {
		return got, fmt.Errorf("%s %s with authorization %q", r.Method, r.URL.Path, r.Header.Get("Authorization"))
	}
	var req wireRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return got, err
	}
	got = llmtest.Received{Model: req.Model, Stream: req.Stream, MaxTokens: req.MaxTokens + req.MaxCompletionTokens, Temperature: req.Temperature, StopWords: req.Stop}
	var system []string
	for _, m := range req.Messages {
		msg, err := readMessage(m)
		if err != nil {
			return got, err
		}
		if m.Role == "system" {
			system = append(system, msg.Text())
			continue
		}
		got.Messages = append(got.Messages, msg)
	}
	got.System = strings.Join(system, "\n\n")
	for _, tool := range req.Tools {
		if tool.Type != "function" {
			return got, fmt.Errorf("a tool of type %q", tool.Type)
		}
		f := tool.Function
		got.Tools = append(got.Tools, llmtest.ReceivedTool{Name: f.Name, Description: f.Description, Parameters: f.Parameters})
	}
	if f := req.ResponseFormat; f != nil {
		if f.Type != "json_schema" || f.JSONSchema.Name == "" {
			return got, fmt.Errorf("response_format %+v", f)
		}
		got.Output = f.JSONSchema.Schema
	}
	got.ToolChoice, err = readToolChoice(req.ToolChoice)
	return got, err
}

func readToolChoice(raw json.RawMessage) (string, error) {
	if raw == nil {
		return "", nil
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		if word == "required" {
			word = llm.ToolChoiceAny
		}
		return word, nil
	}
	var named struct {
		Type     string
		Function struct{ Name string }
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", fmt.Errorf("tool_choice %s: %w", raw, err)
	}
	if named.Type != "function" {
		return "", fmt.Errorf("tool_choice %s", raw)
	}
	return named.Function.Name, nil
}

func readMessage(m wireMessage) (out llm.Message, err error) {
	roles := map[string]llm.Role{"system": llm.RoleSystem, "user": llm.RoleHuman, "assistant": llm.RoleAI, "tool": llm.RoleTool}
	out = llm.Message{Role: roles[m.Role], ToolCallID: m.ToolCallID}
	if out.Role == "" {
		return out, fmt.Errorf("role %q", m.Role)
	}
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Args: json.RawMessage(c.Function.Arguments)})
	}
	if m.Reasoning != "" {
		out.Blocks = append(out.Blocks, llm.Block{Type: llm.BlockReasoning, Reasoning: m.Reasoning})
	}
	if m.Content == nil || json.Unmarshal(m.Content, &out.Content) == nil {
		return out, nil
	}
	var parts []struct {
		Type, Text string
		ImageURL   struct{ URL string } `json:"image_url"`
	}
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return out, err
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			out.Blocks = append(out.Blocks, llm.Text(p.Text))
		case "image_url":
			b := llm.ImageURL(p.ImageURL.URL)
			if head, data, ok := strings.Cut(strings.TrimPrefix(b.URL, "data:"), ";base64,"); ok {
				raw, err := base64.StdEncoding.DecodeString(data)
				if err != nil {
					return out, err
				}
				b = llm.Image(head, raw)
			}
			out.Blocks = append(out.Blocks, b)
		default:
			return out, fmt.Errorf("a part of type %q", p.Type)
		}
	}
	return out, nil
}

func finishReason(stop llm.StopReason) string {
	if stop == llm.StopRefusal {
		return "stop" // the refusal is in another field
	}
	return string(stop)
}

func wireUsage(u llm.Usage) object {
	return object{"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Total,
		"prompt_tokens_details":     object{"cached_tokens": u.InputDetails[llm.UsageCacheRead], "cache_write_tokens": u.InputDetails[llm.UsageCacheCreation], "audio_tokens": 0},
		"completion_tokens_details": object{"reasoning_tokens": u.OutputDetails[llm.UsageReasoning], "audio_tokens": 0}}
}

func wholeAnswer(r llmtest.Reply) []byte {
	message := object{"role": "assistant", "content": strings.Join(r.Text, ""), "refusal": nil, "annotations": []any{}}
	if r.Stop == llm.StopRefusal {
		message["content"], message["refusal"] = nil, strings.Join(r.Text, "")
	}
	if len(r.Reasoning) > 0 {
		message["reasoning"] = strings.Join(r.Reasoning, "")
		message["reasoning_details"] = []object{{"type": "reasoning.text", "text": strings.Join(r.Reasoning, ""), "signature": r.Signature, "index": 0}}
	}
	var calls []object
	for _, c := range r.Calls {
		calls = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": strings.Join(c.Args, "")}})
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return marshal(object{"id": "chatcmpl-1", "object": "chat.completion", "created": 1741570283, "model": "gpt-test-2026", "system_fingerprint": "fp_1",
		"choices": []object{{"index": 0, "message": message, "logprobs": nil, "finish_reason": finishReason(r.Stop)}}, "usage": wireUsage(r.Usage)})
}

func streamedAnswer(r llmtest.Reply) [][]byte {
	var events [][]byte
	send := func(choices []object, usage any) {
		events = append(events, fmt.Appendf(nil, "data: %s\n\n", marshal(object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1741570283,
			"model": "gpt-test-2026", "system_fingerprint": "fp_1", "choices": choices, "usage": usage})))
	}
	delta := func(d object) { send([]object{{"index": 0, "delta": d, "logprobs": nil, "finish_reason": nil}}, nil) }
	delta(object{"role": "assistant", "content": "", "refusal": nil})
	for _, text := range r.Reasoning {
		delta(object{"reasoning": text, "reasoning_details": []object{{"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0}}})
	}
	if len(r.Reasoning) > 0 {
		delta(object{"reasoning_details": []object{{"type": "reasoning.text", "signature": r.Signature, "format": "anthropic-claude-v1", "index": 0}}})
	}
	field := "content"
	if r.Stop == llm.StopRefusal {
		field = "refusal"
	}
	for _, text := range r.Text {
		delta(object{field: text})
	}
	for _, c := range callDeltas(r) {
		delta(object{"tool_calls": []object{c}})
	}
	send([]object{{"index": 0, "delta": object{}, "logprobs": nil, "finish_reason": finishReason(r.Stop)}}, nil)
	send([]object{}, wireUsage(r.Usage))
	return append(events, []byte("data: [DONE]\n\n"))
}

// callDeltas returns the pieces of the calls, in order or alternately.
func callDeltas(r llmtest.Reply) []object {
	var out []object
	piece := func(i, k int) {
		c := r.Calls[i]
		if k == 0 {
			out = append(out, object{"index": i, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}})
		}
		out = append(out, object{"index": i, "function": object{"arguments": c.Args[k]}})
	}
	if !r.Interleave {
		for i, c := range r.Calls {
			for k := range c.Args {
				piece(i, k)
			}
		}
		return out
	}
	for k, more := 0, true; more; k++ {
		more = false
		for i, c := range r.Calls {
			if k < len(c.Args) {
				piece(i, k)
				more = true
			}
		}
	}
	return out
}
