package openai_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/llm/openai"
)

func TestResponsesSuite(t *testing.T) {
	p := responsesProvider()
	p.Open = opener(openai.Options{API: "responses"}, "/v1")
	llmtest.Run(t, p)
}

// Bedrock's compatible server has another path, and its errors another provider.
func TestMantleResponsesSuite(t *testing.T) {
	p := responsesProvider()
	p.Open = opener(openai.Options{Provider: "bedrock_mantle_openai", API: "responses"}, "/openai/v1")
	p.Request = under("/openai", p.Request)
	llmtest.Run(t, p)
}

func TestAzureResponsesSuite(t *testing.T) {
	p := responsesProvider()
	p.Open = opener(openai.Options{Provider: "azure", Azure: true}, "")
	p.Request = azureRequest(t, p.Request)
	p.Whole, p.Stream = filtered(p, `"object":"response"`, `"content_filters":[{"blocked":false,"source_type":"prompt"}]`)
	llmtest.Run(t, p)
}

// filtered adds results of Azure's content filters after a field of responses.
func filtered(p llmtest.Provider, field, results string) (whole func(llmtest.Reply) []byte, stream func(llmtest.Reply) [][]byte) {
	add := func(raw []byte) []byte { return bytes.ReplaceAll(raw, []byte(field), []byte(field+","+results)) }
	whole = func(r llmtest.Reply) []byte { return add(p.Whole(r)) }
	stream = func(r llmtest.Reply) (out [][]byte) {
		for _, piece := range p.Stream(r) {
			out = append(out, add(piece))
		}
		return out
	}
	return whole, stream
}

// opener returns a function that opens a model whose API is at a path.
func opener(opts openai.Options, path string) func(*testing.T, string) llm.Model {
	return func(t *testing.T, url string) llm.Model {
		o := opts
		o.BaseURL, o.Key = url+path, "a key"
		m, err := openai.New("gpt-test", &o)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

type requestReader = func(*http.Request, []byte) (llmtest.Received, error)

// under reads requests whose path starts with prefix.
func under(prefix string, read requestReader) requestReader {
	return func(r *http.Request, body []byte) (llmtest.Received, error) {
		rest, ok := strings.CutPrefix(r.URL.Path, prefix)
		if !ok {
			return llmtest.Received{}, fmt.Errorf("path %s, want one that starts with %s", r.URL.Path, prefix)
		}
		r = r.Clone(r.Context())
		r.URL.Path = rest
		return read(r, body)
	}
}

// azureRequest reads requests to Azure, which have a key in a header of their own and no
// api-version.
func azureRequest(t *testing.T, read requestReader) requestReader {
	setAzure(t, nil)
	return under("/openai", func(r *http.Request, body []byte) (llmtest.Received, error) {
		if r.Header.Get("Api-Key") != "a key" || r.Header.Get("Authorization") != "" || r.URL.RawQuery != "" {
			return llmtest.Received{}, fmt.Errorf("query %q, header %v", r.URL.RawQuery, r.Header)
		}
		r.Header.Set("Authorization", "Bearer a key") // what read expects
		return read(r, body)
	})
}

// responsesProvider describes the Responses API, without Open.
func responsesProvider() llmtest.Provider {
	return llmtest.Provider{
		Request: readResponsesRequest,
		Whole:   func(r llmtest.Reply) []byte { return marshal(wireResponse(r, responseItems(r))) },
		Stream:  streamedResponse,
		Unknown: responseEvent(object{"type": "response.surprise", "item_id": "x_1"}),
		Failure: func(f llmtest.Failure) []byte {
			if f.Stream {
				return responseEvent(object{"type": "error", "code": f.Code, "message": f.Message, "param": nil, "sequence_number": 3})
			}
			return wireFailure(f)
		},
		Overflow: llmtest.Failure{Status: http.StatusBadRequest, Code: overflowCode,
			Message: "Your input exceeds the context window of this model. Please adjust your input and try again."},
		Tool: llmtest.Tool{
			Fields: object{"type": "web_search", "search_context_size": "low"},
			Items: []object{{"type": "web_search_call", "id": "ws_1", "status": "completed",
				"action": object{"type": "search", "query": "weather", "sources": []any{object{"type": "url", "url": "https://example.com/weather"}}}}},
			Citation: object{"type": "url_citation", "url": "https://example.com/weather", "title": "Weather", "start_index": 0, "end_index": 9},
		},
		Lacks: map[string]string{"StopWords": "the API has no stop words"},
	}
}

// The rest of this file is the wire format, written by hand from its documentation.

type wireItem struct {
	Type    string
	Role    string
	ID      string
	Content []struct {
		Type, Text string
		ImageURL   string `json:"image_url"`
	}
	CallID           string `json:"call_id"`
	Name             string
	Arguments        string
	Output           json.RawMessage
	Summary          []struct{ Type, Text string }
	EncryptedContent string `json:"encrypted_content"`

	all object // all fields
}

func (i *wireItem) UnmarshalJSON(raw []byte) error {
	type plain wireItem
	return errors.Join(json.Unmarshal(raw, (*plain)(i)), json.Unmarshal(raw, &i.all))
}

type wireResponsesRequest struct {
	Model           string
	Stream          bool
	Store           *bool
	Include         []string
	Input           []wireItem
	MaxOutputTokens int `json:"max_output_tokens"`
	Temperature     *float64
	ToolChoice      json.RawMessage `json:"tool_choice"`
	Reasoning       struct{ Effort string }
	Text            struct {
		Format *struct {
			Type, Name string
			Schema     json.RawMessage
		}
	}
	Tools []json.RawMessage
}

func readResponsesRequest(r *http.Request, body []byte) (got llmtest.Received, err error) {
	if r.Method != http.MethodPost || r.URL.Path != "/v1/responses" || r.Header.Get("Authorization") != "Bearer a key" {
		return got, fmt.Errorf("%s %s with authorization %q", r.Method, r.URL.Path, r.Header.Get("Authorization"))
	}
	var req wireResponsesRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return got, err
	}
	if req.Store == nil || *req.Store || len(req.Include) == 0 || req.Include[0] != "reasoning.encrypted_content" {
		return got, fmt.Errorf("store %v, include %q", req.Store, req.Include)
	}
	got = llmtest.Received{Model: req.Model, Stream: req.Stream, MaxTokens: req.MaxOutputTokens, Temperature: req.Temperature}
	if err := readItems(&got, req.Input); err != nil {
		return got, err
	}
	for _, raw := range req.Tools {
		var tool struct {
			Type, Name, Description string
			Strict                  *bool
			Parameters              json.RawMessage
		}
		var fields object
		if err := errors.Join(json.Unmarshal(raw, &tool), json.Unmarshal(raw, &fields)); err != nil {
			return got, err
		}
		switch {
		case tool.Type == "web_search":
			got.Tools = append(got.Tools, llmtest.ReceivedTool{Fields: fields})
		case tool.Type != "function" || tool.Strict == nil:
			return got, fmt.Errorf("tool %s", raw)
		default:
			got.Tools = append(got.Tools, llmtest.ReceivedTool{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters})
		}
	}
	if f := req.Text.Format; f != nil {
		if f.Type != "json_schema" || f.Name == "" {
			return got, fmt.Errorf("text.format %+v", f)
		}
		got.Output = f.Schema
	}
	got.ToolChoice, err = readResponsesChoice(req.ToolChoice)
	return got, err
}

func readResponsesChoice(raw json.RawMessage) (string, error) {
	var named struct{ Type, Name string }
	if raw == nil || raw[0] == '"' {
		return readToolChoice(raw)
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", err
	}
	if named.Type != "function" {
		return "", fmt.Errorf("tool_choice %s", raw)
	}
	return named.Name, nil
}

// readItems groups items to messages, and checks the API's rules for their order.
func readItems(got *llmtest.Received, items []wireItem) error {
	calls := map[string]bool{}
	var system []string
	current := func() *llm.Message { // the model's message that an item belongs to
		if n := len(got.Messages); n > 0 && got.Messages[n-1].Role == llm.RoleAI {
			return &got.Messages[n-1]
		}
		got.Messages = append(got.Messages, llm.Message{Role: llm.RoleAI})
		return &got.Messages[len(got.Messages)-1]
	}
	for i, item := range items {
		switch item.Type {
		case "message":
			m, err := readResponsesMessage(item)
			switch {
			case err != nil:
				return err
			case item.Role == "system":
				system = append(system, m.Text())
			case item.Role == "assistant":
				current().Blocks = append(current().Blocks, m.Blocks...)
			default:
				got.Messages = append(got.Messages, m)
			}
		case "reasoning":
			if item.Summary == nil || item.EncryptedContent == "" || !strings.HasPrefix(item.ID, "rs_") || i+1 == len(items) ||
				items[i+1].Type != "function_call" && items[i+1].Type != "web_search_call" && items[i+1].Role != "assistant" {
				return fmt.Errorf("item %d: reasoning %+v lacks required fields", i, item)
			}
			b := llm.Block{Type: llm.BlockReasoning}
			for _, part := range item.Summary {
				b.Reasoning += part.Text
			}
			current().Blocks = append(current().Blocks, b)
		case "web_search_call":
			current().Blocks = append(current().Blocks, llm.Block{Type: item.Type, Extra: item.all})
		case "function_call":
			calls[item.CallID] = true
			m := current()
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: item.CallID, Name: item.Name, Args: json.RawMessage(item.Arguments)})
			m.Blocks = append(m.Blocks, llm.Block{Type: llm.BlockToolCall, ID: item.CallID})
		case "function_call_output":
			if !calls[item.CallID] {
				return fmt.Errorf("no tool call found for function call output with call_id %s", item.CallID)
			}
			delete(calls, item.CallID)
			m := llm.Message{Role: llm.RoleTool, ToolCallID: item.CallID}
			if err := json.Unmarshal(item.Output, &m.Content); err != nil {
				return err
			}
			got.Messages = append(got.Messages, m)
		default:
			return fmt.Errorf("item of type %q", item.Type)
		}
	}
	got.System = strings.Join(system, "\n\n")
	return nil
}

func readResponsesMessage(item wireItem) (m llm.Message, err error) {
	m.Role = map[string]llm.Role{"system": llm.RoleSystem, "user": llm.RoleHuman, "assistant": llm.RoleAI}[item.Role]
	for _, p := range item.Content {
		switch {
		case item.Role == "assistant" && p.Type == "output_text", item.Role != "assistant" && p.Type == "input_text":
			m.Blocks = append(m.Blocks, llm.Text(p.Text))
		case p.Type == "input_image" && strings.HasPrefix(p.ImageURL, "data:"):
			head, data, _ := strings.Cut(strings.TrimPrefix(p.ImageURL, "data:"), ";base64,")
			raw, err := base64.StdEncoding.DecodeString(data)
			if err != nil {
				return m, err
			}
			m.Blocks = append(m.Blocks, llm.Image(head, raw))
		case p.Type == "input_image":
			m.Blocks = append(m.Blocks, llm.ImageURL(p.ImageURL))
		default:
			return m, fmt.Errorf("part of type %q in a message of role %q", p.Type, item.Role)
		}
	}
	return m, nil
}

// responseItems returns the output of a whole response.
func responseItems(r llmtest.Reply) (items []object) {
	for i, p := range r.Parts() {
		items = append(items, partItems(i, p, r.Stop)...)
	}
	return items
}

// partItems returns the output items of a part of a response.
func partItems(i int, p llmtest.Reply, stop llm.StopReason) (items []object) {
	if len(p.Reasoning) > 0 {
		items = append(items, object{"type": "reasoning", "id": fmt.Sprintf("rs_%d", i), "encrypted_content": "enc" + p.Signature,
			"summary": []object{{"type": "summary_text", "text": strings.Join(p.Reasoning, "")}}})
	}
	items = append(items, p.Items...)
	if len(p.Text) > 0 {
		part := object{"type": "output_text", "text": strings.Join(p.Text, ""), "annotations": annotations(p), "logprobs": []any{}}
		if stop == llm.StopRefusal {
			part = object{"type": "refusal", "refusal": strings.Join(p.Text, "")}
		}
		items = append(items, object{"type": "message", "id": fmt.Sprintf("msg_%d", i), "status": "completed", "role": "assistant", "content": []object{part}})
	}
	for k, c := range p.Calls {
		items = append(items, object{"type": "function_call", "id": fmt.Sprintf("fc_%d_%d", i, k), "status": "completed", "call_id": c.ID, "name": c.Name, "arguments": strings.Join(c.Args, "")})
	}
	return items
}

func annotations(r llmtest.Reply) []any {
	if r.Citation == nil {
		return []any{}
	}
	return []any{r.Citation}
}

func wireResponse(r llmtest.Reply, output []object) object {
	out := object{"id": "resp_1", "object": "response", "created_at": 1741570283, "model": "gpt-test-2026", "status": "completed", "error": nil,
		"incomplete_details": nil, "output": output, "service_tier": "default", "store": false,
		"usage": object{"input_tokens": r.Usage.Input, "output_tokens": r.Usage.Output, "total_tokens": r.Usage.Total,
			"input_tokens_details":  object{"cached_tokens": r.Usage.InputDetails[llm.UsageCacheRead], "cache_write_tokens": r.Usage.InputDetails[llm.UsageCacheCreation], "cache_write_tokens_details": object{"ttl_30m_tokens": 0}},
			"output_tokens_details": object{"reasoning_tokens": r.Usage.OutputDetails[llm.UsageReasoning]}}}
	if r.Stop == llm.StopLength {
		out["status"], out["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	}
	return out
}

func responseEvent(data object) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", data["type"], marshal(data))
}

// stream writes the events of a response.
type stream struct {
	events [][]byte
	items  int
}

func (s *stream) send(kind string, data object) {
	data["type"], data["sequence_number"] = "response."+kind, len(s.events)
	s.events = append(s.events, responseEvent(data))
}

// item writes an item: its start, its pieces, and its end.
func (s *stream) item(started, done object, pieces func(send func(kind string, data object))) {
	s.send("output_item.added", object{"output_index": s.items, "item": started})
	pieces(func(kind string, data object) {
		data["item_id"], data["output_index"] = done["id"], s.items
		s.send(kind, data)
	})
	s.send("output_item.done", object{"output_index": s.items, "item": done})
	s.items++
}

func streamedResponse(r llmtest.Reply) [][]byte {
	s := &stream{}
	begun := wireResponse(llmtest.Reply{}, []object{})
	begun["status"], begun["usage"] = "in_progress", nil
	s.send("created", object{"response": begun})
	s.send("in_progress", object{"response": begun})
	parts := r.Parts()
	if r.Interleave {
		s.interleaved(responseItems(r), r.Calls)
		parts = nil
	}
	for i, p := range parts {
		calls := p.Calls
		for _, item := range partItems(i, p, r.Stop) {
			switch item["type"] {
			case "reasoning":
				s.reasoning(item, p.Reasoning)
			case "web_search_call":
				s.search(item)
			case "message":
				s.message(item, p.Text, annotations(p), r.Stop == llm.StopRefusal)
			case "function_call":
				s.call(item, calls[0].Args)
				calls = calls[1:]
			}
		}
	}
	end := "completed"
	if r.Stop == llm.StopLength {
		end = "incomplete"
	}
	s.send(end, object{"response": wireResponse(r, responseItems(r))})
	return s.events
}

// started returns an item at its start, with other fields than at its end.
func started(item, other object) object {
	out := maps.Clone(item)
	maps.Copy(out, other)
	return out
}

func (s *stream) reasoning(item object, pieces []string) {
	s.item(started(item, object{"summary": []any{}, "encrypted_content": "part"}), item, func(send func(string, object)) {
		send("reasoning_summary_part.added", object{"summary_index": 0, "part": object{"type": "summary_text", "text": ""}})
		for _, p := range pieces {
			send("reasoning_summary_text.delta", object{"summary_index": 0, "delta": p, "obfuscation": "xyz"})
		}
		send("reasoning_summary_text.done", object{"summary_index": 0, "text": strings.Join(pieces, "")})
		send("reasoning_summary_part.done", object{"summary_index": 0, "part": object{"type": "summary_text", "text": strings.Join(pieces, "")}})
	})
}

func (s *stream) search(item object) {
	begun := object{"type": item["type"], "id": item["id"], "status": "in_progress"}
	s.item(begun, item, func(send func(string, object)) {
		for _, kind := range []string{"in_progress", "searching", "completed"} {
			send("web_search_call."+kind, object{})
		}
	})
}

func (s *stream) message(item object, pieces []string, notes []any, refusal bool) {
	s.item(started(item, object{"content": []any{}, "status": "in_progress"}), item, func(send func(string, object)) {
		kind, field := "output_text", "text"
		if refusal {
			kind, field = "refusal", "refusal"
		}
		send("content_part.added", object{"content_index": 0, "part": object{"type": kind, field: ""}})
		for _, p := range pieces {
			send(kind+".delta", object{"content_index": 0, "delta": p, "logprobs": []any{}})
		}
		for i, note := range notes {
			send("output_text.annotation.added", object{"content_index": 0, "annotation_index": i, "annotation": note})
		}
		send(kind+".done", object{"content_index": 0, field: strings.Join(pieces, "")})
		send("content_part.done", object{"content_index": 0, "part": object{"type": kind, field: strings.Join(pieces, "")}})
	})
}

func (s *stream) call(item object, pieces []string) {
	s.item(started(item, object{"arguments": "", "status": "in_progress"}), item, func(send func(string, object)) {
		for _, p := range pieces {
			send("function_call_arguments.delta", object{"delta": p})
		}
		send("function_call_arguments.done", object{"arguments": strings.Join(pieces, "")})
	})
}

// interleaved writes the pieces of calls alternately.
func (s *stream) interleaved(items []object, calls []llmtest.Call) {
	for i, item := range items {
		s.send("output_item.added", object{"output_index": i, "item": started(item, object{"arguments": "", "status": "in_progress"})})
	}
	for k := range 3 {
		for i, c := range calls {
			if k < len(c.Args) {
				s.send("function_call_arguments.delta", object{"output_index": i, "item_id": items[i]["id"], "delta": c.Args[k]})
			}
		}
	}
	for i, item := range items {
		s.send("output_item.done", object{"output_index": i, "item": item})
	}
}
