// Package turns finds the places where a conversation may be cut without separating
// tool calls from their results. Providers reject a conversation with only one of them.
package turns

import "github.com/treadle-go/treadle/llm"

// Ends returns the ends of the groups of a conversation, in order; the last one is its
// length. A group is a single message, or a message with tool calls and everything up to
// the last of their results. If a later message uses the id of a call again, that is
// another call.
func Ends(ms llm.Messages) []int {
	reach := make([]int, len(ms)) // the last message that belongs to this one
	owner := map[string]int{}     // by call id
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

// LastHuman returns the index of the user's newest message, or -1.
func LastHuman(ms llm.Messages) int {
	i := len(ms) - 1
	for i >= 0 && ms[i].Role != llm.RoleHuman {
		i--
	}
	return i
}
