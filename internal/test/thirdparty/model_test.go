package thirdparty_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"example.com/thirdparty"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

func TestModel(t *testing.T) {
	llmtest.Run(t, llmtest.Provider{
		Open: func(t *testing.T, url string) llm.Model {
			m := thirdparty.NewModel("parrot-1", url, "a key")
			t.Cleanup(m.Close)
			return m
		},
		Request:    readRequest,
		Whole:      func(r llmtest.Reply) []byte { return line(whole(r)) },
		Stream:     streamed,
		StreamType: "application/x-ndjson",
		Unknown:    []byte("{\"surprise\":1}\n"),
		Failure: func(f llmtest.Failure) []byte {
			if f.Stream {
				return nil // the stream breaks off
			}
			return line(map[string]string{"code": f.Code, "message": f.Message})
		},
		Overflow: llmtest.Failure{Status: http.StatusBadRequest, Code: "too_long", Message: "the prompt is too long"},
		Lacks: map[string]string{
			"BlockOrder":         "events have no order",
			"ReasoningLoop":      "reasoning is not sent back",
			"ReasoningAfterKill": "reasoning is not sent back",
			"ProviderTools":      "the provider runs no tools",
			"CacheCreationUsage": "only tokens read from the cache are counted",
			"UnknownEventLog":    "the package logs nothing",
		},
	})
}

// The provider's side of the protocol follows. It shares no types with the model.

type event map[string]any

func line(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(raw, '\n')
}

var stopNames = map[llm.StopReason]string{llm.StopEnd: "end", llm.StopTools: "calls", llm.StopLength: "length", llm.StopRefusal: "refusal"}

func ending(r llmtest.Reply) event {
	u := r.Usage
	return event{"done": true, "stop": stopNames[r.Stop], "usage": event{"input": u.Input, "output": u.Output,
		"cached": u.InputDetails[llm.UsageCacheRead], "thought": u.OutputDetails[llm.UsageReasoning]}}
}

func whole(r llmtest.Reply) event {
	e := ending(r)
	e["thought"], e["text"] = strings.Join(r.Reasoning, ""), strings.Join(r.Text, "")
	var calls []event
	for i, c := range r.Calls {
		calls = append(calls, event{"index": i, "id": c.ID, "name": c.Name, "args": strings.Join(c.Args, "")})
	}
	e["calls"] = calls
	return e
}

func streamed(r llmtest.Reply) (lines [][]byte) {
	for _, s := range r.Reasoning {
		lines = append(lines, line(event{"thought": s}))
	}
	for _, s := range r.Text {
		lines = append(lines, line(event{"text": s}))
	}
	var pieces [][]event // by call
	for i, c := range r.Calls {
		of := []event{{"index": i, "id": c.ID, "name": c.Name}}
		for _, args := range c.Args {
			of = append(of, event{"index": i, "args": args})
		}
		pieces = append(pieces, of)
	}
	if !r.Interleave {
		for _, of := range pieces {
			for _, piece := range of {
				lines = append(lines, line(event{"calls": []event{piece}}))
			}
		}
	} else {
		for round, more := 0, true; more; round++ {
			more = false
			for _, of := range pieces {
				if round < len(of) {
					lines, more = append(lines, line(event{"calls": []event{of[round]}})), true
				}
			}
		}
	}
	return append(lines, line(ending(r)))
}

func readRequest(r *http.Request, body []byte) (got llmtest.Received, err error) {
	if r.Method != http.MethodPost || r.Header.Get("X-Key") != "a key" {
		return got, fmt.Errorf("%s with key %q", r.Method, r.Header.Get("X-Key"))
	}
	var in struct {
		Model    string
		Stream   bool
		Messages []struct {
			Role   string
			Text   string
			Images []struct {
				Type string
				Data []byte
				URL  string
			}
			Calls  []struct{ ID, Name, Args string }
			CallID string `json:"call_id"`
		}
		Tools       []llmtest.ReceivedTool
		ToolChoice  string `json:"tool_choice"`
		Schema      json.RawMessage
		MaxTokens   int `json:"max_tokens"`
		Temperature *float64
		StopWords   []string `json:"stop_words"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return got, err
	}
	got = llmtest.Received{Model: in.Model, Stream: in.Stream, Tools: in.Tools, ToolChoice: in.ToolChoice, Output: in.Schema,
		MaxTokens: in.MaxTokens, Temperature: in.Temperature, StopWords: in.StopWords}
	for _, w := range in.Messages {
		m := llm.Message{Content: w.Text, ToolCallID: w.CallID}
		switch w.Role {
		case "system":
			got.System += w.Text
			continue
		case "user":
			m.Role = llm.RoleHuman
		case "model":
			m.Role = llm.RoleAI
		case "tool":
			m.Role = llm.RoleTool
		default:
			return got, fmt.Errorf("unknown role %q", w.Role)
		}
		if len(w.Images) > 0 {
			m.Content, m.Blocks = "", []llm.Block{llm.Text(w.Text)}
			for _, image := range w.Images {
				m.Blocks = append(m.Blocks, llm.Block{Type: llm.BlockImage, MIMEType: image.Type, Data: image.Data, URL: image.URL})
			}
		}
		for _, c := range w.Calls {
			m.ToolCalls = append(m.ToolCalls, llm.ToolCall{ID: c.ID, Name: c.Name, Args: json.RawMessage(c.Args)})
		}
		got.Messages = append(got.Messages, m)
	}
	return got, nil
}
