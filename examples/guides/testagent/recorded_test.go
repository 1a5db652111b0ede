package desk

import (
	"context"
	"flag"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

var record = flag.Bool("record", false, "call the real model for requests that are not recorded")

// realModel stands for a provider, so that the test runs without a key.
func realModel() (llm.Model, error) {
	return llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
		if last := req.Messages[len(req.Messages)-1]; last.Role == llm.RoleTool {
			return llm.Assistant("We have " + last.Text() + " copies of Emma."), nil
		}
		return llm.Message{ToolCalls: []llm.ToolCall{llmtest.ToolCall("stock", Book{"Emma"})}}, nil
	}), nil
}

func TestRecordedConversation(t *testing.T) {
	var live llm.Model
	if *record {
		var err error
		if live, err = realModel(); err != nil {
			t.Fatal(err)
		}
	}
	model := llmtest.NewCassette("testdata/emma", live)
	out, err := newDesk(t, model, fakeShop(new([]string))).Run(t.Context(), agent.Ask("Do you have Emma?"))
	if err != nil || !strings.Contains(agent.Answer(out), "3") {
		t.Errorf("answer %q, %v", agent.Answer(out), err)
	}
}
