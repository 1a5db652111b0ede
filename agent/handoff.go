package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// HandoffOptions configure [Handoff]. A nil *HandoffOptions is the zero value.
type HandoffOptions struct {
	// Name is the tool's name; empty means transfer_to_<agent>.
	Name string
	// Description tells the model what the tool does; empty means "Ask agent
	// '<agent>' for help".
	Description string
	// Update is written to the state of the graph around the agents, in addition
	// to the conversation.
	Update treadle.Update
	// Task makes the model write a task for the other agent. The agent gets it as
	// a message from the user, instead of the conversation.
	Task bool
	// Hidden keeps the call and its result out of the conversation.
	Hidden bool
}

// Handoff returns a tool that hands the conversation to another agent. Both agents
// must be nodes of the same graph. The other agent gets the whole conversation,
// with a result for every call of the answer. If an answer calls several hand-off
// tools, their agents run at the same time.
func Handoff(agent string, o *HandoffOptions) *llm.Tool {
	if agent == "" {
		panic("agent: Handoff: the name of the agent is empty")
	}
	if o == nil {
		o = &HandoffOptions{}
	}
	name := cmp.Or(o.Name, "transfer_to_"+toolNameOf(agent))
	description := cmp.Or(o.Description, fmt.Sprintf("Ask agent '%s' for help", agent))
	if !o.Task {
		return llm.NewTool(name, description, func(ctx context.Context, _ struct{}) (treadle.Command[treadle.Update], error) {
			return handingTo(ctx, agent, o, treadle.To(agent)), nil
		})
	}
	type work struct {
		Task string `json:"task" jsonschema:"what the agent is to do, with all that it needs to know: it does not see this conversation"`
	}
	return llm.NewTool(name, description, func(ctx context.Context, in work) (treadle.Command[treadle.Update], error) {
		call, _ := llm.CallFrom(ctx)
		task := llm.User(in.Task)
		task.ID, task.Metadata = taskID+call.ID, handoffMark(agent, false)
		raw, err := json.Marshal(llm.Chat{Messages: llm.Messages{task}})
		return handingTo(ctx, agent, o, treadle.Send(agent, json.RawMessage(raw))), err
	})
}

// The marks that hand-offs leave in the Metadata of messages, and the beginning of
// the ids of tasks.
const (
	handoffTo     = "__handoff_destination"
	handoffHidden = "__handoff_hidden"
	taskID        = "task_"
)

func handoffMark(agent string, hidden bool) map[string]any {
	m := map[string]any{}
	if agent != "" {
		m[handoffTo] = agent
	}
	if hidden {
		m[handoffHidden] = true
	}
	return m
}

func handingTo(ctx context.Context, agent string, o *HandoffOptions, next treadle.Goto) treadle.Command[treadle.Update] {
	call, _ := llm.CallFrom(ctx)
	result := llm.ToolResult(call, "Successfully transferred to "+agent)
	result.Metadata = handoffMark(agent, o.Hidden)
	update := treadle.Update{"messages": llm.Messages{result}}
	maps.Copy(update, o.Update)
	return treadle.Command[treadle.Update]{Update: &update, Goto: next, Parent: true}
}

// withoutHidden leaves out hand-offs that are not to be seen. An answer that is
// nothing but such calls goes with them: what a model is given must not end with
// an answer.
func withoutHidden(ms llm.Messages) llm.Messages {
	hidden := func(m llm.Message) bool { return m.Role == llm.RoleTool && m.Metadata[handoffHidden] == true }
	gone := map[string]bool{}
	for _, m := range ms {
		if hidden(m) {
			gone[m.ToolCallID] = true
		}
	}
	at := lastAsking(ms, gone)
	if at < 0 {
		return ms
	}
	out := slices.Clone(ms[:at])
	asked := ms[at]
	asked.ToolCalls = slices.DeleteFunc(slices.Clone(asked.ToolCalls), func(c llm.ToolCall) bool { return gone[c.ID] })
	asked.Blocks = slices.DeleteFunc(slices.Clone(asked.Blocks), func(b llm.Block) bool { return gone[b.ID] })
	if len(asked.ToolCalls) > 0 {
		out = append(out, asked)
	}
	return append(out, slices.DeleteFunc(slices.Clone(ms[at+1:]), hidden)...)
}

// lastAsking is the place of the last answer with one of the calls, or -1.
func lastAsking(ms llm.Messages, calls map[string]bool) int {
	for i := range slices.Backward(ms) {
		if slices.ContainsFunc(ms[i].ToolCalls, func(c llm.ToolCall) bool { return calls[c.ID] }) {
			return i
		}
	}
	return -1
}

var notInToolName = regexp.MustCompile(`[^a-z0-9_-]+`)

// toolNameOf is an agent's name as a part of a tool's.
func toolNameOf(agent string) string {
	return notInToolName.ReplaceAllString(strings.ToLower(agent), "_")
}
