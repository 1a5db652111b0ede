package support

import (
	"context"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// Model returns the agent's model.
func Model() (llm.Model, error) {
	return offline, nil
}

var number = regexp.MustCompile(`\d+`)

// offline follows three rules instead of calling a provider: it repeats the result of a tool,
// calls a tool for the order mentioned last, and otherwise asks for an order.
var offline = llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
	last := req.Messages[len(req.Messages)-1]
	if last.Role == llm.RoleTool {
		return llm.Assistant(last.Text()), nil
	}
	tool, order := "status", ""
	if strings.Contains(last.Text(), "refund") {
		tool = "refund"
	}
	for _, m := range req.Messages {
		if found := number.FindString(m.Text()); found != "" {
			order = found
		}
	}
	if order == "" {
		return llm.Assistant("Which order is it?"), nil
	}
	call := llmtest.ToolCall(tool, `{"number":`+order+`}`)
	return llm.Message{ToolCalls: []llm.ToolCall{call}}, nil
})
