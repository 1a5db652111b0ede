package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/anthropic"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// The wire format of the Messages API, written from its documentation and
// without the SDK.

type object = map[string]any

func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // the tests' own values
	}
	return raw
}

// event is a server-sent event, as the API names and writes it.
func event(data object) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", data["type"], encode(data))
}

var stopReasons = map[llm.StopReason]string{
	llm.StopEnd: "end_turn", llm.StopTools: "tool_use", llm.StopLength: "max_tokens", llm.StopRefusal: "refusal",
}

func wireUsage(u llm.Usage) object {
	read, thought := u.InputDetails[llm.UsageCacheRead], u.OutputDetails[llm.UsageReasoning]
	return object{
		"input_tokens": u.Input - read, "cache_read_input_tokens": read, "cache_creation_input_tokens": 0,
		"output_tokens": u.Output, "output_tokens_details": object{"thinking_tokens": thought}, "service_tier": "standard",
	}
}

func wireMessage(content []object, stop any, usage object) object {
	if content == nil {
		content = []object{}
	}
	return object{
		"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5-20260901", "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": usage,
	}
}

// writeWhole is a response that is not streamed.
func writeWhole(r llmtest.Reply) []byte {
	var content []object
	if len(r.Reasoning) > 0 {
		content = append(content, object{"type": "thinking", "thinking": strings.Join(r.Reasoning, ""), "signature": r.Signature})
	}
	if len(r.Text) > 0 {
		content = append(content, object{"type": "text", "text": strings.Join(r.Text, ""), "citations": nil})
	}
	for _, c := range r.Calls {
		content = append(content, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(strings.Join(c.Args, "")), "caller": object{"type": "direct"}})
	}
	return encode(wireMessage(content, stopReasons[r.Stop], wireUsage(r.Usage)))
}

// writeStream is a streamed response. Blocks follow each other in this protocol,
// so calls are never interleaved.
func writeStream(r llmtest.Reply) [][]byte {
	start := r.Usage
	start.Output, start.OutputDetails = 1, nil
	events := [][]byte{event(object{"type": "message_start", "message": wireMessage(nil, nil, wireUsage(start))}), event(object{"type": "ping"})}
	index := 0
	block := func(start object, deltas ...object) {
		events = append(events, event(object{"type": "content_block_start", "index": index, "content_block": start}))
		for _, d := range deltas {
			events = append(events, event(object{"type": "content_block_delta", "index": index, "delta": d}))
		}
		events = append(events, event(object{"type": "content_block_stop", "index": index}))
		index++
	}
	if len(r.Reasoning) > 0 {
		block(object{"type": "thinking", "thinking": "", "signature": ""}, append(
			pieces("thinking_delta", "thinking", r.Reasoning), object{"type": "signature_delta", "signature": r.Signature})...)
	}
	if len(r.Text) > 0 {
		block(object{"type": "text", "text": ""}, pieces("text_delta", "text", r.Text)...)
	}
	for _, c := range r.Calls {
		// The API begins with an empty piece.
		block(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}, "caller": object{"type": "direct"}},
			pieces("input_json_delta", "partial_json", append([]string{""}, c.Args...))...)
	}
	return append(events,
		event(object{"type": "message_delta", "delta": object{"stop_reason": stopReasons[r.Stop], "stop_sequence": nil}, "usage": wireUsage(r.Usage)}),
		event(object{"type": "message_stop"}))
}

func pieces(kind, field string, texts []string) []object {
	out := make([]object, len(texts))
	for i, s := range texts {
		out[i] = object{"type": kind, field: s}
	}
	return out
}

func writeFailure(f llmtest.Failure) []byte {
	return encode(object{"type": "error", "error": object{"type": f.Code, "message": f.Message}, "request_id": "req_01"})
}

// wireBlock is a block of a request's content.
type wireBlock struct {
	Type      string
	Text      string
	Thinking  string
	Signature string
	Source    *struct {
		Type      string
		MediaType string `json:"media_type"`
		Data      []byte
		URL       string
	}
	ID        string
	Name      string
	Input     json.RawMessage
	ToolUseID string `json:"tool_use_id"`
	IsError   bool   `json:"is_error"`
	Content   []wireBlock
}

// wireContent is a content: a text, or a list of blocks.
type wireContent []wireBlock

func (c *wireContent) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*c = wireContent{{Type: "text", Text: text}}
		return nil
	}
	return json.Unmarshal(raw, (*[]wireBlock)(c))
}

type wireRequest struct {
	Model    string
	Stream   bool
	System   wireContent
	Messages []struct {
		Role    string
		Content wireContent
	}
	Tools []struct {
		Name, Description string
		InputSchema       json.RawMessage `json:"input_schema"`
	}
	ToolChoice   struct{ Type, Name string } `json:"tool_choice"`
	OutputConfig struct {
		Format struct {
			Type   string
			Schema json.RawMessage
		}
	} `json:"output_config"`
	MaxTokens     int `json:"max_tokens"`
	Temperature   *float64
	StopSequences []string `json:"stop_sequences"`
}

// readRequest reads a request as the API would.
func readRequest(r *http.Request, body []byte) (llmtest.Received, error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != "key" || r.Header.Get("Anthropic-Version") != "2023-06-01" {
		return llmtest.Received{}, fmt.Errorf("it is not the API: %v", r.Header)
	}
	var in wireRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return llmtest.Received{}, err
	}
	if in.MaxTokens == 0 {
		return llmtest.Received{}, errors.New("max_tokens: Field required")
	}
	got := llmtest.Received{Model: in.Model, Stream: in.Stream, MaxTokens: in.MaxTokens, Temperature: in.Temperature, StopWords: in.StopSequences, Output: in.OutputConfig.Format.Schema}
	var system []string
	for _, b := range in.System {
		system = append(system, b.Text)
	}
	got.System = strings.Join(system, "\n\n")
	for _, t := range in.Tools {
		got.Tools = append(got.Tools, llmtest.ReceivedTool{Name: t.Name, Description: t.Description, Parameters: t.InputSchema})
	}
	if got.ToolChoice = in.ToolChoice.Type; got.ToolChoice == "tool" {
		got.ToolChoice = in.ToolChoice.Name
	}
	var before string
	for i, m := range in.Messages {
		if m.Role == before {
			return got, fmt.Errorf("messages %d: roles must alternate", i)
		}
		before = m.Role
		got.Messages = append(got.Messages, readMessages(m.Role, m.Content)...)
	}
	return got, nil
}

// readMessages is a turn: a message, and one for each result of a tool.
func readMessages(role string, content wireContent) (out []llm.Message) {
	m := llm.Message{Role: map[string]llm.Role{"user": llm.RoleHuman, "assistant": llm.RoleAI, "system": llm.RoleSystem}[role]}
	for _, b := range content {
		switch b.Type {
		case "tool_result":
			r := llm.Message{Role: llm.RoleTool, ToolCallID: b.ToolUseID}
			if b.IsError {
				r.Status = llm.StatusError
			}
			for _, c := range b.Content {
				r.Content += c.Text
			}
			out = append(out, r)
		case "tool_use":
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: b.ID, Name: b.Name, Args: b.Input})
		case "text":
			m.Blocks = append(m.Blocks, llm.Text(b.Text))
		case "thinking":
			m.Blocks = append(m.Blocks, llm.Block{Type: llm.BlockReasoning, Reasoning: b.Thinking, Extra: object{"signature": b.Signature}})
		case "image":
			m.Blocks = append(m.Blocks, llm.Block{Type: llm.BlockImage, Data: b.Source.Data, MIMEType: b.Source.MediaType, URL: b.Source.URL})
		}
	}
	if len(m.Blocks)+len(m.ToolCalls) > 0 {
		out = append(out, m)
	}
	return out
}

// open is a model whose provider is at url.
func open(t testing.TB, url string) *anthropic.Model {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	model, err := anthropic.New("claude-sonnet-5-5", &anthropic.Options{Key: "key", BaseURL: url, HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func TestProviderKeepsTheRulesOfModels(t *testing.T) {
	llmtest.Run(t, llmtest.Provider{
		Open:    func(t *testing.T, url string) llm.Model { return open(t, url) },
		Request: readRequest,
		Whole:   writeWhole,
		Stream:  writeStream,
		Failure: writeFailure,
	})
}
