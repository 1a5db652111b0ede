package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/retrieval"
)

// model searches for the question, and then quotes the first sentence of the best passage.
var model = llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
	last := req.Messages[len(req.Messages)-1]
	if last.Role == llm.RoleHuman {
		call := llmtest.ToolCall("search_documents", map[string]string{"query": last.Text()})
		return llm.Message{Role: llm.RoleAI, ToolCalls: []llm.ToolCall{call}}, nil
	}
	passages := retrieval.PassagesOf(req.Messages)
	if len(passages) == 0 {
		return llm.Assistant("I could not find this in the documents."), nil
	}
	text := ""
	for line := range strings.Lines(passages[0].Text) {
		if text == "" && !strings.HasPrefix(line, "#") { // below the headings
			text = strings.TrimSpace(line)
		}
	}
	sentence, _, _ := strings.Cut(text, ".")
	return llm.Assistant(fmt.Sprintf(`The documents say: %s [%d: "%s"].`, sentence, passages[0].Citation, sentence)), nil
})
