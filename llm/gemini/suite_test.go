package gemini_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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

func TestProviderSuite(t *testing.T) { llmtest.Run(t, geminiSuite) }

var geminiSuite = llmtest.Provider{
	Open:    func(t *testing.T, url string) llm.Model { return open(t, "gemini-test", url) },
	Request: readRequest,
	Whole:   func(r llmtest.Reply) []byte { return marshal(response(wholeParts(r), r)) },
	Stream:  streamedAnswer,
	Unknown: []byte("data: {\"surprise\": {\"index\": 7}}\r\n\r\n"),
	Failure: func(f llmtest.Failure) []byte {
		body := marshal(object{"error": object{"code": f.Status, "message": f.Message, "status": f.Code}})
		if f.Stream {
			return fmt.Appendf(nil, "data: %s\r\n\r\n", body)
		}
		return body
	},
	Overflow: llmtest.Failure{Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT",
		Message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."},
	Tool: llmtest.Tool{
		Fields: object{"googleSearch": object{}, "codeExecution": object{}},
		Items: []object{
			{"executableCode": object{"code": "print('rain')", "language": "PYTHON", "id": "code_1"}},
			{"codeExecutionResult": object{"outcome": "OUTCOME_OK", "output": "rain\n", "id": "code_1"}},
		},
		Citation: object{"web": object{"uri": "https://example.com/weather", "title": "Weather"}},
	},
	Lacks: map[string]string{
		"Refusal":            "a refusal is ordinary text; only Google's filters have a finishReason",
		"CacheCreationUsage": "the API counts only tokens read from the cache",
	},
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
	ExecutableCode, CodeExecutionResult object
	ThoughtSignature                    string

	all object // all fields
}

func (p *wirePart) UnmarshalJSON(raw []byte) error {
	type plain wirePart
	return errors.Join(json.Unmarshal(raw, (*plain)(p)), json.Unmarshal(raw, &p.all))
}

type wireContent struct {
	Role  string
	Parts []wirePart
}

type wireRequest struct {
	SystemInstruction *wireContent
	Contents          []wireContent
	Tools             []json.RawMessage
	ToolConfig        struct {
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
	for _, raw := range req.Tools {
		var tool struct {
			FunctionDeclarations []struct {
				Name, Description    string
				ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema"`
			}
		}
		var fields object
		if err := errors.Join(json.Unmarshal(raw, &tool), json.Unmarshal(raw, &fields)); err != nil {
			return got, err
		}
		if fields["functionDeclarations"] == nil {
			got.Tools = append(got.Tools, llmtest.ReceivedTool{Fields: fields})
		}
		for _, f := range tool.FunctionDeclarations {
			got.Tools = append(got.Tools, llmtest.ReceivedTool{Name: f.Name, Description: f.Description, Parameters: f.ParametersJSONSchema})
		}
	}
	choice := req.ToolConfig.FunctionCallingConfig
	got.ToolChoice = strings.ToLower(choice.Mode)
	if len(choice.AllowedFunctionNames) > 0 {
		got.ToolChoice = choice.AllowedFunctionNames[0]
	}
	return got, nil
}

// readContent returns the messages of a turn. One turn contains the results of all calls.
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
			m.Blocks = append(m.Blocks, llm.Block{Type: llm.BlockToolCall, ID: p.FunctionCall.ID})
		case p.ExecutableCode != nil || p.CodeExecutionResult != nil:
			delete(p.all, "thoughtSignature")
			m.Blocks = append(m.Blocks, llm.Block{Type: "part", Extra: p.all})
		case p.InlineData != nil:
			kind, _, _ := strings.Cut(p.InlineData.MIMEType, "/")
			m.Blocks = append(m.Blocks, llm.Block{Type: kind, MIMEType: p.InlineData.MIMEType, Data: p.InlineData.Data})
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

// response builds a response or an event of a stream.
func response(parts []object, r llmtest.Reply) object {
	finish := map[llm.StopReason]string{llm.StopEnd: "STOP", llm.StopTools: "STOP", llm.StopLength: "MAX_TOKENS", "": ""}[r.Stop]
	candidate := object{"content": object{"role": "model", "parts": parts}, "index": 0}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	if r.Citation != nil && finish != "" {
		candidate["groundingMetadata"] = object{"webSearchQueries": []string{"weather"}, "groundingChunks": []any{r.Citation}}
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

// callParts returns the function calls.
func callParts(r llmtest.Reply) (parts []object) {
	for _, c := range r.Calls {
		parts = append(parts, object{"functionCall": object{"name": c.Name, "args": json.RawMessage(strings.Join(c.Args, ""))}})
	}
	if len(r.Items) == 0 && len(r.Text) == 0 {
		sign(parts, r)
	}
	return parts
}

// itemParts returns the output of the API's tools.
func itemParts(r llmtest.Reply) (parts []object) {
	for _, item := range r.Items {
		parts = append(parts, maps.Clone(item))
	}
	sign(parts, r)
	return parts
}

// sign puts the signature of the reasoning on the first of the parts after it.
func sign(parts []object, r llmtest.Reply) {
	if len(parts) > 0 && r.Signature != "" {
		parts[0]["thoughtSignature"] = r.Signature
	}
}

func wholeParts(r llmtest.Reply) (parts []object) {
	for _, p := range r.Parts() {
		if len(p.Reasoning) > 0 {
			parts = append(parts, object{"text": strings.Join(p.Reasoning, ""), "thought": true})
		}
		parts = append(parts, itemParts(p)...)
		if len(p.Text) > 0 {
			text := object{"text": strings.Join(p.Text, "")}
			if len(p.Items) == 0 {
				sign([]object{text}, p)
			}
			parts = append(parts, text)
		}
		parts = append(parts, callParts(p)...)
	}
	return parts
}

// streamedAnswer returns one event per piece; function calls are never split.
// Every event counts the tokens so far. The signature of a text follows it in an
// empty part.
func streamedAnswer(r llmtest.Reply) [][]byte {
	var events [][]byte
	send := func(r llmtest.Reply, parts ...object) {
		events = append(events, bytes.Join([][]byte{[]byte("data: "), marshal(response(parts, r)), []byte("\r\n\r\n")}, nil))
	}
	soFar := llmtest.Reply{Usage: llm.Usage{Input: r.Usage.Input, Total: r.Usage.Input}}
	for _, p := range r.Parts() {
		for _, s := range p.Reasoning {
			send(soFar, object{"text": s, "thought": true})
		}
		for _, part := range itemParts(p) {
			send(soFar, part)
		}
		for _, s := range p.Text {
			soFar.Usage.Output++
			soFar.Usage.Total++
			send(soFar, object{"text": s})
		}
		for _, part := range callParts(p) {
			send(soFar, part)
		}
	}
	end := object{"text": ""}
	if len(r.Items) == 0 && len(r.Text) > 0 {
		sign([]object{end}, r)
	}
	send(r, end)
	return events
}
