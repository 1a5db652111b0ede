package gemini_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/gemini"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// open is a model whose provider is the server at url.
func open(t *testing.T, name, url string) *gemini.Model {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	m, err := gemini.New(name, &gemini.Options{BaseURL: url, Key: "a key", HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestProviderSuite(t *testing.T) {
	llmtest.Run(t, llmtest.Provider{
		Open:    func(t *testing.T, url string) llm.Model { return open(t, "gemini-test", url) },
		Request: readRequest,
		Whole:   func(r llmtest.Reply) []byte { return marshal(response(wholeParts(r), r)) },
		Stream:  streamedAnswer,
		Failure: func(f llmtest.Failure) []byte {
			return marshal(object{"error": object{"code": f.Status, "message": f.Message, "status": f.Code}})
		},
		Lacks: map[string]string{"Refusal": "a model that refuses says so in its text; only Google's filters are told, as a finishReason"},
	})
}

// What follows is the wire format, written by hand from its documentation.

type object = map[string]any

func marshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

type wirePart struct {
	Text       *string
	Thought    bool
	InlineData *struct {
		MIMEType string `json:"mimeType"`
		Data     []byte
	}
	FileData *struct {
		MIMEType string `json:"mimeType"`
		FileURI  string `json:"fileUri"`
	}
	FunctionCall *struct {
		ID, Name string
		Args     json.RawMessage
	}
	FunctionResponse *struct {
		ID, Name string
		Response map[string]string
	}
	ThoughtSignature string
}

type wireContent struct {
	Role  string
	Parts []wirePart
}

type wireRequest struct {
	SystemInstruction *wireContent
	Contents          []wireContent
	Tools             []struct {
		FunctionDeclarations []struct {
			Name, Description    string
			ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
		}
	}
	ToolConfig struct {
		FunctionCallingConfig struct {
			Mode                 string
			AllowedFunctionNames []string
		}
	}
	GenerationConfig struct {
		MaxOutputTokens    int
		Temperature        *float64
		StopSequences      []string
		ResponseMIMEType   string          `json:"responseMimeType"`
		ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
	}
}

func readRequest(r *http.Request, body []byte) (got llmtest.Received, err error) {
	model, method, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1beta/models/"), ":")
	if !ok || r.Method != http.MethodPost || r.Header.Get("X-Goog-Api-Key") != "a key" {
		return got, fmt.Errorf("%s %s with key %q", r.Method, r.URL.Path, r.Header.Get("X-Goog-Api-Key"))
	}
	if method != "generateContent" && (method != "streamGenerateContent" || r.URL.Query().Get("alt") != "sse") {
		return got, fmt.Errorf("the method is %s?%s", method, r.URL.RawQuery)
	}
	var req wireRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return got, err
	}
	c := req.GenerationConfig
	got = llmtest.Received{Model: model, Stream: method == "streamGenerateContent", MaxTokens: c.MaxOutputTokens, Temperature: c.Temperature, StopWords: c.StopSequences}
	if c.ResponseJSONSchema != nil {
		if c.ResponseMIMEType != "application/json" {
			return got, fmt.Errorf("a schema for %q", c.ResponseMIMEType)
		}
		got.Output = c.ResponseJSONSchema
	}
	if s := req.SystemInstruction; s != nil {
		var texts []string
		for _, p := range s.Parts {
			texts = append(texts, *p.Text)
		}
		got.System = strings.Join(texts, "\n\n")
	}
	for _, content := range req.Contents {
		ms, err := readContent(content)
		if err != nil {
			return got, err
		}
		got.Messages = append(got.Messages, ms...)
	}
	for _, tool := range req.Tools {
		for _, f := range tool.FunctionDeclarations {
			got.Tools = append(got.Tools, llmtest.ReceivedTool{Name: f.Name, Description: f.Description, Parameters: f.ParametersJSONSchema})
		}
	}
	choice := req.ToolConfig.FunctionCallingConfig
	if got.ToolChoice = strings.ToLower(choice.Mode); len(choice.AllowedFunctionNames) > 0 {
		got.ToolChoice = choice.AllowedFunctionNames[0]
	}
	return got, nil
}

// readContent is a turn. The results of all calls are one.
func readContent(c wireContent) (out []llm.Message, err error) {
	m := llm.Message{Role: map[string]llm.Role{"user": llm.RoleHuman, "model": llm.RoleAI}[c.Role]}
	if m.Role == "" || len(c.Parts) == 0 {
		return nil, fmt.Errorf("a turn of role %q with %d parts", c.Role, len(c.Parts))
	}
	for _, p := range c.Parts {
		switch {
		case p.FunctionResponse != nil:
			f := p.FunctionResponse
			out = append(out, llm.Message{Role: llm.RoleTool, ToolCallID: f.ID, Name: f.Name, Content: f.Response["output"] + f.Response["error"]})
		case p.FunctionCall != nil:
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: p.FunctionCall.ID, Name: p.FunctionCall.Name, Args: p.FunctionCall.Args})
		case p.InlineData != nil:
			m.Blocks = append(m.Blocks, llm.Image(p.InlineData.MIMEType, p.InlineData.Data))
		case p.FileData != nil:
			m.Blocks = append(m.Blocks, llm.ImageURL(p.FileData.FileURI))
		case p.Text == nil:
			return nil, fmt.Errorf("a part of nothing")
		case p.Thought:
			m.Blocks = append(m.Blocks, llm.Block{Type: llm.BlockReasoning, Reasoning: *p.Text})
		default:
			m.Blocks = append(m.Blocks, llm.Text(*p.Text))
		}
	}
	if len(out) > 0 {
		return out, nil
	}
	return []llm.Message{m}, nil
}

// response is what a response and each event of a stream look like.
func response(parts []object, r llmtest.Reply) object {
	finish := map[llm.StopReason]string{llm.StopEnd: "STOP", llm.StopTools: "STOP", llm.StopLength: "MAX_TOKENS", "": ""}[r.Stop]
	candidate := object{"content": object{"role": "model", "parts": parts}, "index": 0}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	reasoning := r.Usage.OutputDetails[llm.UsageReasoning]
	usage := object{"promptTokenCount": r.Usage.Input, "candidatesTokenCount": r.Usage.Output - reasoning, "totalTokenCount": r.Usage.Total,
		"promptTokensDetails": []object{{"modality": "TEXT", "tokenCount": r.Usage.Input}}}
	if reasoning > 0 {
		usage["thoughtsTokenCount"] = reasoning
	}
	if n := r.Usage.InputDetails[llm.UsageCacheRead]; n > 0 {
		usage["cachedContentTokenCount"] = n
	}
	return object{"candidates": []object{candidate}, "usageMetadata": usage, "modelVersion": "gemini-test-001", "responseId": "resp-1"}
}

func callPart(c llmtest.Call) object {
	return object{"functionCall": object{"name": c.Name, "args": json.RawMessage(strings.Join(c.Args, ""))}}
}

func wholeParts(r llmtest.Reply) (parts []object) {
	if len(r.Reasoning) > 0 {
		parts = append(parts, object{"text": strings.Join(r.Reasoning, ""), "thought": true})
	}
	if len(r.Text) > 0 {
		text := object{"text": strings.Join(r.Text, "")}
		if r.Signature != "" {
			text["thoughtSignature"] = r.Signature
		}
		parts = append(parts, text)
	}
	for _, c := range r.Calls {
		parts = append(parts, callPart(c))
	}
	return parts
}

// streamedAnswer is one event for each piece; function calls are never in pieces.
// Every event counts the tokens so far.
func streamedAnswer(r llmtest.Reply) [][]byte {
	var events [][]byte
	send := func(r llmtest.Reply, parts ...object) {
		events = append(events, bytes.Join([][]byte{[]byte("data: "), marshal(response(parts, r)), []byte("\r\n\r\n")}, nil))
	}
	soFar := llmtest.Reply{Usage: llm.Usage{Input: r.Usage.Input, Total: r.Usage.Input}}
	for _, s := range r.Reasoning {
		send(soFar, object{"text": s, "thought": true})
	}
	for _, s := range r.Text {
		soFar.Usage.Output++
		soFar.Usage.Total++
		send(soFar, object{"text": s})
	}
	for _, c := range r.Calls {
		send(soFar, callPart(c))
	}
	end := object{"text": ""}
	if r.Signature != "" {
		end["thoughtSignature"] = r.Signature
	}
	send(r, end)
	return events
}
