package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	read, written, thought := u.InputDetails[llm.UsageCacheRead], u.InputDetails[llm.UsageCacheCreation], u.OutputDetails[llm.UsageReasoning]
	return object{
		"input_tokens": u.Input - read - written, "cache_read_input_tokens": read, "cache_creation_input_tokens": written,
		"output_tokens": u.Output, "output_tokens_details": object{"thinking_tokens": thought}, "service_tier": "standard",
	}
}

func wireMessage(content []object, stop any, usage object) object {
	if content == nil {
		content = []object{}
	}
	return object{
		"id": "msg_01", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6-20260901", "content": content,
		"stop_reason": stop, "stop_sequence": nil, "usage": usage,
	}
}

// writeWhole encodes an unstreamed response.
func writeWhole(r llmtest.Reply) []byte {
	var content []object
	for _, p := range r.Parts() {
		if len(p.Reasoning) > 0 {
			content = append(content, object{"type": "thinking", "thinking": strings.Join(p.Reasoning, ""), "signature": p.Signature})
		}
		content = append(content, p.Items...)
		if len(p.Text) > 0 {
			text := object{"type": "text", "text": strings.Join(p.Text, ""), "citations": nil}
			if p.Citation != nil {
				text["citations"] = []any{p.Citation}
			}
			content = append(content, text)
		}
		for _, c := range p.Calls {
			content = append(content, object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": json.RawMessage(strings.Join(c.Args, "")), "caller": object{"type": "direct"}})
		}
	}
	return encode(wireMessage(content, stopReasons[r.Stop], wireUsage(r.Usage)))
}

// writeStream returns a streamed response. Blocks follow each other in this protocol,
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
	for _, p := range r.Parts() {
		if len(p.Reasoning) > 0 {
			block(object{"type": "thinking", "thinking": "", "signature": ""}, append(
				pieces("thinking_delta", "thinking", p.Reasoning), object{"type": "signature_delta", "signature": p.Signature})...)
		}
		for _, item := range p.Items {
			if item["type"] != "server_tool_use" {
				block(item)
				continue
			}
			begun := maps.Clone(item)
			begun["input"] = object{}
			input := string(encode(item["input"]))
			block(begun, pieces("input_json_delta", "partial_json", []string{"", input[:5], input[5:]})...)
		}
		if len(p.Text) > 0 {
			deltas := pieces("text_delta", "text", p.Text)
			if p.Citation != nil {
				deltas = append(deltas, object{"type": "citations_delta", "citation": p.Citation})
			}
			block(object{"type": "text", "text": ""}, deltas...)
		}
		for _, c := range p.Calls {
			// The API begins with an empty piece.
			block(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}, "caller": object{"type": "direct"}},
				pieces("input_json_delta", "partial_json", append([]string{""}, c.Args...))...)
		}
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
	body := object{"type": "error", "error": object{"type": f.Code, "message": f.Message}, "request_id": "req_01"}
	if f.Stream {
		return event(body)
	}
	return encode(body)
}

var overflow = llmtest.Failure{Status: http.StatusBadRequest, Code: "invalid_request_error", Message: "prompt is too long: 205012 tokens > 200000 maximum"}

// webSearch is a tool that Anthropic runs.
var webSearch = llmtest.Tool{
	Fields: object{"type": "web_search_20260318", "name": "web_search", "max_uses": 3},
	Items: []object{
		{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": object{"query": "weather"}, "caller": object{"type": "direct"}},
		{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "caller": object{"type": "direct"}, "content": []any{
			object{"type": "web_search_result", "title": "Weather", "url": "https://example.com/weather", "encrypted_content": "Eo8K", "page_age": nil}}},
	},
	Citation: object{"type": "web_search_result_location", "url": "https://example.com/weather", "title": "Weather", "encrypted_index": "Eo8L", "cited_text": "Rain."},
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
	Citations []object

	all object // all fields
}

func (b *wireBlock) UnmarshalJSON(raw []byte) error {
	type plain wireBlock
	_ = json.Unmarshal(raw, &b.all)
	if kind, _ := b.all["type"].(string); kind == "web_search_tool_result" {
		b.Type = kind // its content has other blocks
		return nil
	}
	return json.Unmarshal(raw, (*plain)(b))
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
	Tools        []json.RawMessage
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
	for _, raw := range in.Tools {
		var t struct {
			Type, Name, Description string
			InputSchema             json.RawMessage `json:"input_schema"`
		}
		var fields object
		if err := errors.Join(json.Unmarshal(raw, &t), json.Unmarshal(raw, &fields)); err != nil {
			return got, err
		}
		tool := llmtest.ReceivedTool{Name: t.Name, Description: t.Description, Parameters: t.InputSchema}
		if t.Type != "" {
			tool = llmtest.ReceivedTool{Fields: fields}
		}
		got.Tools = append(got.Tools, tool)
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

// readMessages returns the messages of a turn: one, and one more for each tool result.
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
			m.Blocks = append(m.Blocks, llm.Block{Type: llm.BlockToolCall, ID: b.ID})
		case "server_tool_use", "web_search_tool_result":
			m.Blocks = append(m.Blocks, llm.Block{Type: b.Type, Extra: b.all})
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

// open returns a model whose provider is at url.
func open(t testing.TB, url string) *anthropic.Model {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	model, err := anthropic.New("claude-sonnet-4-6", &anthropic.Options{Key: "key", BaseURL: url, HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func TestProviderSuite(t *testing.T) {
	p := suite()
	p.Open = func(t *testing.T, url string) llm.Model { return open(t, url) }
	llmtest.Run(t, p)
}

// Bedrock's compatible server, which package models opens, has another path and expects a
// token in place of the key.
func TestMantleProviderSuite(t *testing.T) {
	p := suite()
	p.Open = func(t *testing.T, url string) llm.Model {
		client := &http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		m, err := anthropic.New("claude-sonnet-4-6", &anthropic.Options{Key: "token", BaseURL: url + "/anthropic", HTTPClient: client,
			Header: http.Header{"X-Api-Key": nil, "Authorization": {"Bearer token"}}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	p.Request = func(r *http.Request, body []byte) (llmtest.Received, error) {
		path, ok := strings.CutPrefix(r.URL.Path, "/anthropic")
		if !ok || r.Header.Get("Authorization") != "Bearer token" || r.Header.Get("X-Api-Key") != "" {
			return llmtest.Received{}, fmt.Errorf("%s %v", r.URL.Path, r.Header)
		}
		r = r.Clone(r.Context())
		r.URL.Path = path
		r.Header.Set("X-Api-Key", "key") // what readRequest expects
		return readRequest(r, body)
	}
	llmtest.Run(t, p)
}

// suite describes Anthropic's API, without Open.
func suite() llmtest.Provider {
	return llmtest.Provider{
		Request:  readRequest,
		Whole:    writeWhole,
		Stream:   writeStream,
		Unknown:  event(object{"type": "surprise", "index": 7}),
		Failure:  writeFailure,
		Overflow: overflow,
		Tool:     webSearch,
	}
}
