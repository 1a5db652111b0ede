package main

import (
	"context"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

var number = regexp.MustCompile(`\d+`)

// offline is a model that follows rules, so that the program runs without a key.
var offline = llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
	last := req.Messages[len(req.Messages)-1]
	text := last.Text()
	call := func(tool string, args any) (llm.Message, error) {
		return llm.Message{ToolCalls: []llm.ToolCall{llmtest.ToolCall(tool, args)}}, nil
	}
	switch {
	case last.Role == llm.RoleTool:
		return llm.Assistant(text), nil
	case strings.HasPrefix(text, "Refund"):
		return call("refund", `{"number":`+number.FindString(text)+`}`)
	case strings.HasPrefix(text, "Remember: "):
		return call("manage_memory", map[string]string{"action": "create", "content": strings.TrimPrefix(text, "Remember: ")})
	case strings.HasPrefix(text, "What do you know"):
		return call("search_memory", map[string]string{"query": text})
	default:
		return call("list_orders", "{}")
	}
})
