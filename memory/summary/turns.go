package summary

import (
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/turns"
	"github.com/treadle-go/treadle/llm"
)

// bounds returns the indexes at which a conversation may be cut, in order. It may be cut
// before human messages that are not inside a group (see [turns.Ends]), so that the rest
// starts with a human message, which some providers require. Without human messages, it may
// be cut between groups, and the last group is kept.
func bounds(ms llm.Messages) []int {
	ends := turns.Ends(ms)
	if len(ends) == 0 {
		return nil
	}
	ends = ends[:len(ends)-1]
	human := func(m llm.Message) bool { return m.Role == llm.RoleHuman }
	if !slices.ContainsFunc(ms, human) {
		return ends
	}
	return slices.DeleteFunc(ends, func(end int) bool { return !human(ms[end]) })
}

// withoutTools returns the messages for a model without the tools: calls and results become
// text, and a result becomes a human message.
func withoutTools(ms llm.Messages) llm.Messages {
	out := make(llm.Messages, 0, len(ms))
	for _, m := range ms {
		switch {
		case m.Role == llm.RoleTool:
			out = append(out, llm.Message{Role: llm.RoleHuman, ID: m.ID, Blocks: m.Blocks,
				Content: fmt.Sprintf("[Result of %s] %s", nameOf(ms, m), m.Content)})
			continue
		case m.Role == llm.RoleAI && len(m.ToolCalls)+len(m.InvalidToolCalls) > 0:
			m = callsAsText(m)
		}
		if m.Role != llm.RoleRemove && len(m.Parts()) > 0 {
			out = append(out, m)
		}
	}
	return out
}

// callsAsText returns an AI message with its tool calls as part of its text.
func callsAsText(m llm.Message) llm.Message {
	lines := []string{}
	for _, p := range m.Parts() {
		if p.Type == llm.BlockText {
			lines = append(lines, p.Text)
		}
	}
	for _, c := range m.ToolCalls {
		lines = append(lines, fmt.Sprintf("[Call of %s] %s", c.Name, c.Args))
	}
	for _, c := range m.InvalidToolCalls {
		lines = append(lines, fmt.Sprintf("[Call of %s] %s", c.Name, c.Args))
	}
	return llm.Message{Role: llm.RoleAI, ID: m.ID, Name: m.Name, Content: strings.Join(lines, "\n")}
}

// nameOf returns the name of the tool that produced a result.
func nameOf(ms llm.Messages, result llm.Message) string {
	if result.Name != "" {
		return result.Name
	}
	for _, m := range ms {
		for _, c := range m.ToolCalls {
			if c.ID == result.ToolCallID {
				return c.Name
			}
		}
	}
	return "a tool"
}

func askForSummary(ms llm.Messages) llm.Messages {
	return append(slices.Clip(ms), llm.User("Write a summary of the conversation above. Keep what is needed to go on with it: "+
		"names, facts, decisions, open questions. Answer with the summary alone."))
}

func askToExtend(summary string, ms llm.Messages) llm.Messages {
	return append(slices.Clip(ms), llm.User("This is a summary of the conversation before the messages above:\n\n"+summary+
		"\n\nWrite a summary of all of it: keep what the old one says and is still true, and add what the messages above say. Answer with the summary alone."))
}
