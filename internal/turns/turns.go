// Package turns finds the places where a conversation can be cut without separating tool
// calls from their results. Providers reject a conversation that contains only one of
// them.
package turns

import "github.com/treadle-go/treadle/llm"

// Ends returns the ends of the groups in a conversation, in order; the last is the
// conversation's length. A group is a single message, or a message with tool calls and
// everything up to their last result. If a later message reuses a call ID, it refers to a
// different call.
func Ends(ms llm.Messages) []int {
	reach := make([]int, len(ms)) // index of the last message that belongs to each message
	owner := map[string]int{}     // message index by call ID
	for i := range ms {
		reach[i] = i
		switch m := &ms[i]; m.Role {
		case llm.RoleAI:
			for _, c := range m.ToolCalls {
				owner[c.ID] = i
			}
			for _, c := range m.InvalidToolCalls {
				owner[c.ID] = i
			}
		case llm.RoleTool:
			if at, ok := owner[m.ToolCallID]; ok {
				reach[at] = i
			}
		}
	}
	var ends []int
	far := 0
	for i := range ms {
		if far = max(far, reach[i]); far == i {
			ends = append(ends, i+1)
		}
	}
	return ends
}

// LastHuman returns the index of the user's latest message, or -1.
func LastHuman(ms llm.Messages) int {
	i := len(ms) - 1
	for i >= 0 && ms[i].Role != llm.RoleHuman {
		i--
	}
	return i
}
