// Package turns knows where a conversation may be cut without parting tool calls
// from their results, which providers refuse.
package turns

import "github.com/treadle-go/treadle/llm"

// Ends are the ends of the groups of a conversation, in order; the last is its
// length. A group is a message; or one with tool calls and everything up to the
// last of their results. An id that a later message uses again is another call's.
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

// LastHuman is the place of the user's newest message; -1 if there is none.
func LastHuman(ms llm.Messages) int {
	i := len(ms) - 1
	for i >= 0 && ms[i].Role != llm.RoleHuman {
		i--
	}
	return i
}
