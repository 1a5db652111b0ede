package main

import (
	"context"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
)

// all returns the texts of a request.
func all(req *llm.Request) string {
	var texts []string
	for _, m := range req.Messages {
		texts = append(texts, m.Text())
	}
	return strings.Join(texts, "\n")
}

// waiterModel answers by rules. It sees the conversation and the recalled memories.
var waiterModel = llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
	switch text := all(req); {
	case strings.Contains(req.Messages[len(req.Messages)-1].Text(), "What did I say"):
		return llm.Assistant("You said: " + req.Messages[1].Text()), nil
	case strings.Contains(text, "allergic to nuts"):
		return llm.Assistant("Take the lemon cake, because of your allergy."), nil
	default:
		return llm.Assistant("Take the nut cake."), nil
	}
})

// extractorModel decides what to remember. It stores one fact, once.
var extractorModel = llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
	if text := all(req); !strings.Contains(text, "I am allergic to nuts") || strings.Contains(text, "The guest is allergic") {
		return llm.Assistant("Nothing new."), nil
	}
	fact := memory.Memory{Content: "The guest is allergic to nuts."}
	return llm.Message{ToolCalls: []llm.ToolCall{llmtest.ToolCall("Memory", fact)}}, nil
})
