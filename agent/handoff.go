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

// HandoffOptions configures [Handoff]. A nil *HandoffOptions means the defaults.
type HandoffOptions struct {
	// Name is the tool's name; empty means transfer_to_<agent>.
	Name string
	// Description explains the tool to the model; empty means "Ask agent '<agent>'
	// for help".
	Description string
	// Update is written to the state of the parent graph, in addition to the
	// conversation.
	Update treadle.Update
	// Task makes the model write a task for the other agent, which gets it as a
	// user message instead of the conversation.
	Task bool
	// Hidden keeps the call and its result out of the conversation.
	Hidden bool
}

// Handoff returns a tool that hands the conversation to another agent. Both agents
// must be nodes of the same graph. The other agent gets the whole conversation,
// with a result for every call in the message. If a message calls several handoff
// tools, their agents run at the same time. Handoff panics if the agent name is empty.
func Handoff(agent string, opts *HandoffOptions) *llm.Tool {
	if agent == "" {
		panic("agent: Handoff: empty agent name")
	}
	if opts == nil {
		opts = &HandoffOptions{}
	}
	name := cmp.Or(opts.Name, "transfer_to_"+toolNameOf(agent))
	description := cmp.Or(opts.Description, fmt.Sprintf("Ask agent '%s' for help", agent))
	if !opts.Task {
		return llm.NewTool(name, description, func(ctx context.Context, _ struct{}) (treadle.Command[treadle.Update], error) {
			return handingTo(ctx, agent, opts, treadle.To(agent)), nil
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
		return handingTo(ctx, agent, opts, treadle.Send(agent, json.RawMessage(raw))), err
	})
}

// Metadata keys of handoff messages, and the ID prefix of task messages.
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

func handingTo(ctx context.Context, agent string, opts *HandoffOptions, next treadle.Goto) treadle.Command[treadle.Update] {
	call, _ := llm.CallFrom(ctx)
	result := llm.ToolResult(call, "Successfully transferred to "+agent)
	result.Metadata = handoffMark(agent, opts.Hidden)
	update := treadle.Update{"messages": llm.Messages{result}}
	maps.Copy(update, opts.Update)
	return treadle.Command[treadle.Update]{Update: &update, Goto: next, Parent: true}
}

// withoutHidden removes hidden handoffs. It drops a message that contains only such
// calls, because a model's input must not end with an AI message.
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
	asked := llm.Filter(ms[at:at+1], &llm.FilterOptions{NotToolCalls: slices.Collect(maps.Keys(gone))})
	out := slices.Concat(ms[:at], asked)
	return append(out, slices.DeleteFunc(slices.Clone(ms[at+1:]), hidden)...)
}

// lastAsking returns the index of the last message with one of the calls, or -1.
func lastAsking(ms llm.Messages, calls map[string]bool) int {
	for i := range slices.Backward(ms) {
		if slices.ContainsFunc(ms[i].ToolCalls, func(c llm.ToolCall) bool { return calls[c.ID] }) {
			return i
		}
	}
	return -1
}

var notInToolName = regexp.MustCompile(`[^a-z0-9_-]+`)

// toolNameOf returns an agent's name as part of a tool name.
func toolNameOf(agent string) string {
	return notInToolName.ReplaceAllString(strings.ToLower(agent), "_")
}
