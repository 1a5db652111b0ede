package llm

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// HistoryError reports why providers would reject a conversation.
type HistoryError struct {
	Index  int // the index of the message
	ID     string
	CallID string // the ID of the tool call, if a call is the reason
	Reason string
}

// Error returns a message that names the message and the tool call.
func (e *HistoryError) Error() string {
	s := fmt.Sprintf("llm: message %d", e.Index)
	if e.ID != "" {
		s += fmt.Sprintf(" (id %s)", e.ID)
	}
	if e.CallID != "" {
		s += fmt.Sprintf(", tool call %s", e.CallID)
	}
	return s + ": " + e.Reason
}

// Check reports whether providers would accept the conversation. It returns a
// [*HistoryError] for the first message that violates one of these rules:
//
//   - An AI message with tool calls is followed immediately by the results of the
//     calls, one for each, in order. There are no other results.
//   - Each call has an ID that is unique within its message.
//   - There are no removals.
func Check(history []Message) error {
	for i := 0; i < len(history); i++ {
		m := &history[i]
		switch m.Role {
		case RoleRemove:
			return &HistoryError{i, m.ID, "", "removal in a conversation: merge it with Messages.Reduce"}
		case RoleTool:
			return &HistoryError{i, m.ID, m.ToolCallID, "tool result without a matching call in the AI message before it: use llm.Repair"}
		case RoleAI:
			if err := checkCalls(history, i); err != nil {
				return err
			}
			i += len(m.ToolCalls)
		}
	}
	return nil
}

func checkCalls(history []Message, i int) error {
	m := &history[i]
	for k := range m.ToolCalls { // in place, as in needsRepair
		call := &m.ToolCalls[k]
		if call.ID == "" {
			return &HistoryError{i, m.ID, "", fmt.Sprintf("call to %s without an ID: use llm.Repair", call.Name)}
		}
		for j := range k {
			if m.ToolCalls[j].ID == call.ID {
				return &HistoryError{i, m.ID, call.ID, "duplicate call ID: use llm.Repair"}
			}
		}
		if at := i + 1 + k; at >= len(history) || history[at].Role != RoleTool {
			return &HistoryError{i, m.ID, call.ID, "missing result: use llm.Repair"}
		} else if got := history[at].ToolCallID; got != call.ID {
			return &HistoryError{at, history[at].ID, got, fmt.Sprintf("expected the result of call %s: use llm.Repair", call.ID)}
		}
	}
	return nil
}

// unanswered is the content of the result that [Repair] adds to a call without one.
const unanswered = "The call has no result: it was canceled or did not finish."

// Repair returns the conversation in a form that providers accept; see [Check]. It
// does not change the given slice, and returns the slice itself if it is valid.
//
//   - The result of a call is the first one after it and before the next AI message
//     that uses the same call ID. Results are moved to their call and put in the
//     order of the calls. Other results are removed.
//   - A call without a result gets an error result that explains this.
//   - A call without an ID, or with the ID of another call of its message, gets a
//     new ID.
//   - An invalid call whose error was reported to the model becomes a call with the
//     argument invalid_json, which contains the text that the model wrote. Other
//     invalid calls are removed.
//   - Removal markers and AI messages left empty are dropped.
func Repair(history []Message) []Message {
	if !needsRepair(history) {
		return history
	}
	r := newRepair(history)
	out := make([]Message, 0, len(history)+1)
	for i := range history {
		switch m := history[i]; m.Role {
		case RoleRemove, RoleTool: // results are placed after their calls
		case RoleAI:
			out = r.appendAI(out, history, i)
		default:
			out = append(out, m)
		}
	}
	return out
}

func needsRepair(history []Message) bool {
	if Check(history) != nil {
		return true
	}
	for i := range history { // in place: copying each message would dominate the cost
		if m := &history[i]; m.Role == RoleAI && (len(m.InvalidToolCalls) > 0 || saysNothing(m)) {
			return true
		}
	}
	return false
}

// saysNothing reports whether m contains nothing to send to a provider. Usually its
// only content was invalid calls.
func saysNothing(m *Message) bool {
	return m.Content == "" && len(m.ToolCalls) == 0 && (len(m.Blocks) == 0 || len(m.Parts()) == 0)
}

type repair struct {
	used []bool // results already placed after their call
	// results and calls map each call ID to the indexes of its results and AI
	// messages, in order.
	results, calls map[string][]int
}

func newRepair(history []Message) *repair {
	r := &repair{make([]bool, len(history)), map[string][]int{}, map[string][]int{}}
	for i, m := range history {
		if m.Role == RoleTool && m.ToolCallID != "" {
			r.results[m.ToolCallID] = append(r.results[m.ToolCallID], i)
		}
		if m.Role != RoleAI {
			continue
		}
		for _, call := range m.ToolCalls {
			r.calls[call.ID] = append(r.calls[call.ID], i)
		}
		for _, call := range m.InvalidToolCalls {
			r.calls[call.ID] = append(r.calls[call.ID], i)
		}
	}
	return r
}

// result returns the index of the result of a call of message i, and marks it as
// used. The same ID in a later message belongs to another call, whose results come
// after that message.
func (r *repair) result(i int, id string) (int, bool) {
	end := math.MaxInt
	if k := slices.IndexFunc(r.calls[id], func(at int) bool { return at > i }); k >= 0 {
		end = r.calls[id][k]
	}
	for _, at := range r.results[id] {
		if i < at && at < end && !r.used[at] {
			r.used[at] = true
			return at, true
		}
	}
	return 0, false
}

// appendAI appends the AI message i and the results of its calls.
func (r *repair) appendAI(out, history []Message, i int) []Message {
	m := history[i]
	calls := make([]ToolCall, 0, len(m.ToolCalls)+len(m.InvalidToolCalls))
	answers := make([]Message, 0, cap(calls))
	taken := map[string]bool{}
	add := func(call ToolCall, answer Message) {
		if call.ID == "" || taken[call.ID] {
			call.ID = freeID(call.ID, len(calls), m.ToolCalls, taken)
		}
		taken[call.ID] = true
		answer.ToolCallID = call.ID
		calls, answers = append(calls, call), append(answers, answer)
	}
	for _, call := range m.ToolCalls {
		answer := Message{Role: RoleTool, Name: call.Name, Content: unanswered, Status: StatusError}
		if at, ok := r.result(i, call.ID); ok {
			answer = history[at]
		}
		add(call, answer)
	}
	for _, bad := range m.InvalidToolCalls {
		if at, ok := r.result(i, bad.ID); ok {
			args, _ := json.Marshal(map[string]string{"invalid_json": bad.Args}) // strings can always be encoded
			add(ToolCall{ID: bad.ID, Name: bad.Name, Args: args, Extra: bad.Extra}, history[at])
		}
	}
	m.ToolCalls, m.InvalidToolCalls = slices.Clip(calls), nil
	if len(calls) == 0 {
		m.ToolCalls = nil
	}
	if saysNothing(&m) {
		return out
	}
	return append(append(out, m), answers...)
}

// freeID returns a new ID for call number i of a message.
func freeID(old string, i int, calls []ToolCall, taken map[string]bool) string {
	if old == "" {
		old = "call"
	}
	for n := i; ; n++ {
		id := fmt.Sprintf("%s_%d", old, n)
		if !taken[id] && !slices.ContainsFunc(calls, func(c ToolCall) bool { return c.ID == id }) {
			return id
		}
	}
}
