package agent

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// HandoffOptions configure [Handoff]. A nil *HandoffOptions is the zero value.
type HandoffOptions struct {
	// Name of the tool; by default transfer_to_<agent>.
	Name string
	// Description for the model; by default it asks the agent for help.
	Description string
	// Update is written to the graph around the agents, besides the
	// conversation.
	Update treadle.Update
}

// Handoff is a tool that hands the conversation to another agent: a node of the
// graph that the agent with the tool is a node of. The conversation goes along,
// with a result for every call of the turn.
func Handoff(agent string, o *HandoffOptions) *llm.Tool {
	if o == nil {
		o = &HandoffOptions{}
	}
	name := cmp.Or(o.Name, "transfer_to_"+toolNameOf(agent))
	t := llm.NewTool(name, cmp.Or(o.Description, fmt.Sprintf("Ask agent '%s' for help", agent)),
		func(ctx context.Context, _ struct{}) (treadle.Command[treadle.Update], error) {
			call, _ := llm.CallFrom(ctx)
			update := treadle.Update{"messages": llm.Messages{llm.ToolResult(call, "Successfully transferred to "+agent)}}
			for field, v := range o.Update {
				update[field] = v
			}
			return treadle.Command[treadle.Update]{Update: &update, Goto: treadle.To(agent), Parent: true}, nil
		})
	return t
}

var notInToolName = regexp.MustCompile(`[^a-z0-9_-]+`)

// toolNameOf is an agent's name as a part of a tool's.
func toolNameOf(agent string) string {
	return notInToolName.ReplaceAllString(strings.ToLower(agent), "_")
}
