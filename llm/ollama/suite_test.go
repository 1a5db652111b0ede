package ollama_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/llm/ollama"
)

func TestProviderSuite(t *testing.T) {
	llmtest.Run(t, llmtest.Provider{
		Open: func(t *testing.T, url string) llm.Model {
			m, err := ollama.New("qwen3:4b", &ollama.Options{BaseURL: url, Key: "a key"})
			if err != nil {
				t.Fatal(err)
			}
			return m
		},
		Request:    readRequest,
		Whole:      wholeAnswer,
		Stream:     streamedAnswer,
		StreamType: "application/x-ndjson",
		Unknown:    []byte(`{"model":"qwen3:4b","surprise":{"index":7},"done":false}` + "\n"),
		Failure:    func(f llmtest.Failure) []byte { return append(marshal(object{"error": f.Message}), '\n') },
		Overflow:   llmtest.Failure{Status: http.StatusBadRequest, Message: "the input length exceeds the context length"},
		Lacks: map[string]string{
			"ToolChoice":         "the API cannot force a tool call; TestToolChoice tests the rest",
			"Images":             "the API accepts no URLs; TestImages tests bytes",
			"CacheReadUsage":     "the API does not report cached tokens",
			"CacheCreationUsage": "the API does not report cached tokens",
			"ReasoningUsage":     "the API does not count thinking separately",
			"Refusal":            "the API has no refusals",
			"BlockOrder":         "the API has no order of thinking and calls",
			"ProviderTools":      "the server runs no tools",
		},
	})
}

// The wire format, written from Ollama's documentation.

type object = map[string]any

func marshal(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

type wireMessage struct {
	Role, Content, Thinking string
	Images                  [][]byte
	ToolName                string `json:"tool_name"`
	ToolCallID              string `json:"tool_call_id"`
	ToolCalls               []struct {
		ID       string
		Function struct {
			Index     int
			Name      string
			Arguments json.RawMessage
		}
	} `json:"tool_calls"`
}

type wireRequest struct {
	Model     string
	Stream    *bool
	Messages  []wireMessage
	Format    json.RawMessage
	Think     any
	Truncate  *bool
	KeepAlive any `json:"keep_alive"`
	Options   struct {
		NumCtx      int `json:"num_ctx"`
		NumPredict  int `json:"num_predict"`
		Temperature *float64
		TopK        int `json:"top_k"`
		Stop        []string
	}
	Tools []struct {
		Type     string
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
}

func readRequest(r *http.Request, body []byte) (got llmtest.Received, err error) {
	if r.Method != http.MethodPost || r.URL.Path != "/api/chat" || r.Header.Get("Authorization") != "Bearer a key" {
		return got, fmt.Errorf("%s %s with authorization %q", r.Method, r.URL.Path, r.Header.Get("Authorization"))
	}
	var req wireRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return got, err
	}
	if req.Truncate == nil || *req.Truncate {
		return got, errors.New("truncate is not false")
	}
	got = llmtest.Received{Model: req.Model, Stream: req.Stream == nil || *req.Stream, Output: req.Format,
		MaxTokens: req.Options.NumPredict, Temperature: req.Options.Temperature, StopWords: req.Options.Stop}
	for _, m := range req.Messages {
		if m.Role == "system" {
			got.System = strings.TrimPrefix(got.System+"\n\n"+m.Content, "\n\n")
			continue
		}
		roles := map[string]llm.Role{"user": llm.RoleHuman, "assistant": llm.RoleAI, "tool": llm.RoleTool}
		out := llm.Message{Role: roles[m.Role], Content: m.Content, ToolCallID: m.ToolCallID, Name: m.ToolName}
		if out.Role == "" {
			return got, fmt.Errorf("role %q", m.Role)
		}
		if m.Thinking != "" {
			out.Blocks = []llm.Block{{Type: llm.BlockReasoning, Reasoning: m.Thinking}}
		}
		for _, data := range m.Images {
			if out.Role != llm.RoleHuman {
				return got, fmt.Errorf("images in a message of the %s", m.Role)
			}
			out.Blocks = append(out.Blocks, llm.Image("image/png", data))
		}
		for i, c := range m.ToolCalls {
			if c.Function.Index != i {
				return got, fmt.Errorf("call %d has index %d", i, c.Function.Index)
			}
			out.ToolCalls = append(out.ToolCalls, llm.ToolCall{ID: c.ID, Name: c.Function.Name, Args: c.Function.Arguments})
		}
		got.Messages = append(got.Messages, out)
	}
	for _, tool := range req.Tools {
		if tool.Type != "function" {
			return got, fmt.Errorf("tool of type %q", tool.Type)
		}
		f := tool.Function
		got.Tools = append(got.Tools, llmtest.ReceivedTool{Name: f.Name, Description: f.Description, Parameters: f.Parameters})
	}
	return got, nil
}

func line(message object, more object) object {
	message["role"] = "assistant"
	out := object{"model": "qwen3:4b", "created_at": "2026-08-04T19:22:45.499127Z", "message": message, "done": false}
	maps.Copy(out, more)
	return out
}

func end(r llmtest.Reply) object {
	reason := "stop"
	if r.Stop == llm.StopLength {
		reason = "length"
	}
	return object{"done": true, "done_reason": reason, "total_duration": 4883583458, "load_duration": 1334875,
		"prompt_eval_count": r.Usage.Input, "prompt_eval_duration": 342546000, "eval_count": r.Usage.Output, "eval_duration": 4535599000}
}

func wireCall(i int, c llmtest.Call) object {
	return object{"id": c.ID, "function": object{"index": i, "name": c.Name, "arguments": json.RawMessage(strings.Join(c.Args, ""))}}
}

func wholeAnswer(r llmtest.Reply) []byte {
	message := object{"content": strings.Join(r.Text, "")}
	if len(r.Reasoning) > 0 {
		message["thinking"] = strings.Join(r.Reasoning, "")
	}
	var calls []object
	for i, c := range r.Calls {
		calls = append(calls, wireCall(i, c))
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	return marshal(line(message, end(r)))
}

func streamedAnswer(r llmtest.Reply) (lines [][]byte) {
	send := func(o object) { lines = append(lines, append(marshal(o), '\n')) }
	for _, text := range r.Reasoning {
		send(line(object{"content": "", "thinking": text}, nil))
	}
	for _, text := range r.Text {
		send(line(object{"content": text}, nil))
	}
	for i, c := range r.Calls {
		send(line(object{"content": "", "tool_calls": []object{wireCall(i, c)}}, nil))
	}
	send(line(object{"content": ""}, end(r)))
	return lines
}
