package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// forwardTool returns a tool that ends a team's run with an agent's last message,
// sent in the supervisor's name.
//
// As in LangGraph, the call and its result stay out of the conversation: the team's
// transcript contains only the message.
func forwardTool(supervisor string) *llm.Tool {
	type source struct {
		From string `json:"from_agent" jsonschema:"the name of the agent whose last message is the answer"`
	}
	return llm.NewTool("forward_message", "Forwards the latest message from the specified agent to the user without any changes. "+
		"Use this to preserve information fidelity, avoid misinterpretation of questions or responses, and save time.",
		func(ctx context.Context, in source) (any, error) {
			call, _ := llm.CallFrom(ctx)
			said, names := lastOf(historyFrom(ctx), in.From)
			if said == nil {
				return fmt.Sprintf("Could not find message from source agent %s. Found names: %s", in.From, strings.Join(names, ", ")), nil
			}
			result := llm.ToolResult(call, "Forwarded the message of "+said.Name)
			result.Metadata = handoffMark("", true)
			answer := llm.Message{Role: llm.RoleAI, Name: supervisor, Content: said.Content}
			if len(said.Blocks) > 0 { // without blocks that repeat tool calls
				answer.Content, answer.Blocks = "", said.Parts()
			}
			update := treadle.Update{"messages": llm.Messages{result, answer}}
			return treadle.Command[treadle.Update]{Update: &update, Goto: treadle.To(treadle.End), Parent: true}, nil
		})
}

// lastOf returns the named agent's last message with content, except handbacks. If
// there is none, it returns the names that do occur.
func lastOf(ms llm.Messages, name string) (*llm.Message, []string) {
	var names []string
	for i := range slices.Backward(ms) {
		m := &ms[i]
		if m.Role != llm.RoleAI || m.Name == "" || m.Metadata[isHandBack] == true || len(m.Parts()) == 0 {
			continue
		}
		if strings.EqualFold(m.Name, name) {
			return m, nil
		}
		if !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return nil, names
}
