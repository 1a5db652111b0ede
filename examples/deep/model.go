package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/agent/deep"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// decisions converts the arguments of the command to an answer.
func decisions(answer []string) agent.Decisions {
	d := agent.Decision{Type: agent.DecisionType(answer[0])}
	if len(answer) > 1 {
		d.Message = answer[1]
	}
	return agent.Decisions{d}
}

// show prints the result of a run: an answer or a question.
func show(out io.Writer, state deep.State, err error) error {
	if stop, ok := errors.AsType[*treadle.InterruptError](err); ok {
		var review agent.Review
		if err := stop.Pauses[0].Decode(&review); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\nStart again with approve or reject.\n", review.Calls[0].Description)
		return nil
	}
	if err == nil {
		fmt.Fprintln(out, deep.Answer(state))
	}
	return err
}

type args = map[string]any

// offline follows a few rules instead of calling a provider. As a sub-agent, it reads the file
// named in its task and reports the first line. Otherwise it looks for papers, gives each to a
// sub-agent, and writes the reports to a file.
var offline = llmtest.Func(func(_ context.Context, r *llm.Request) (llm.Message, error) {
	last := r.Messages[len(r.Messages)-1]
	var calls []llm.ToolCall
	switch {
	case strings.HasPrefix(last.Text(), "Summarize "):
		calls = append(calls, llmtest.ToolCall("read_file", args{"file_path": strings.TrimPrefix(last.Text(), "Summarize ")}))
	case last.Role == llm.RoleHuman:
		calls = append(calls, llmtest.ToolCall("glob", args{"pattern": "*.txt"}))
	case last.Name == "glob":
		for p := range strings.Lines(last.Text()) {
			calls = append(calls, llmtest.ToolCall("task", args{"subagent_type": "general-purpose", "description": "Summarize " + strings.TrimSpace(p)}))
		}
	case last.Name == "task":
		calls = append(calls, llmtest.ToolCall("write_file", args{"file_path": "/report.md", "content": reports(r.Messages)}))
	case last.Name == "read_file":
		_, text, _ := strings.Cut(last.Text(), "@@\n")
		line, _, _ := strings.Cut(text, "\n")
		return llm.Assistant(line), nil
	default:
		return llm.Assistant("Result: " + last.Text()), nil
	}
	return llm.Assistant("", calls...), nil
})

// reports returns a list of the sub-agents' reports.
func reports(ms llm.Messages) string {
	var b strings.Builder
	for _, m := range ms {
		if m.Name == "task" {
			b.WriteString("- " + m.Text() + "\n")
		}
	}
	return b.String()
}
