package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// ClearOptions configures [ClearResults]. A nil *ClearOptions means the defaults.
type ClearOptions struct {
	// Tokens is the number of tokens above which results are cleared; 0 means
	// 100,000.
	Tokens int
	// Keep is the number of newest results that are never cleared; 0 means 3, and a
	// negative number means none.
	Keep int
	// Except lists tools whose results are never cleared. They may be tools of
	// other agents in a team.
	Except []string
	// Args also clears the arguments of the calls.
	Args bool
	// Text replaces a cleared result; empty means "[cleared]".
	Text string
	// Count counts tokens; nil means [llm.CountTokens].
	Count llm.Counter
}

// ClearResults hides old tool results from the model when the conversation becomes
// too long. Only the model's input changes; the saved conversation keeps the
// results.
func ClearResults(options *ClearOptions) *Middleware {
	o := valueOf(options)
	o.Tokens = cmp.Or(o.Tokens, 100_000)
	o.Keep = max(0, cmp.Or(o.Keep, 3))
	o.Text = cmp.Or(o.Text, "[cleared]")
	var err error
	if o.Tokens < 0 {
		err = fmt.Errorf("Tokens is %d: want at least 1, or 0 for 100,000", o.Tokens) //nolint:staticcheck // it begins with the name of an option
	}
	return &Middleware{Name: "clear_results", err: err, WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
		n, err := o.count(ctx, call)
		if err != nil {
			return llm.Message{}, fmt.Errorf("agent: counting the tokens of the conversation: %w", err)
		}
		if n > o.Tokens {
			call.Messages = o.clear(call.Messages)
		}
		return next(ctx, call)
	}}
}

func (o ClearOptions) count(ctx context.Context, call ModelCall) (int, error) {
	ms := call.Messages
	if call.System != "" {
		ms = append(llm.Messages{llm.System(call.System)}, ms...)
	}
	if o.Count == nil {
		return llm.CountTokens(ms, &llm.CountOptions{Tools: call.Tools}), nil
	}
	return o.Count(ctx, ms)
}

// clear returns the conversation without the contents of old results.
func (o ClearOptions) clear(ms llm.Messages) llm.Messages {
	ms = slices.Clone(ms)
	kept := 0
	gone := map[string]bool{} // cleared calls of the AI message above
	for i := len(ms) - 1; i >= 0; i-- {
		switch m := &ms[i]; m.Role {
		case llm.RoleTool:
			switch {
			case kept < o.Keep:
				kept++
			case !slices.Contains(o.Except, m.Name):
				m.Content, m.Blocks, m.Artifact = o.Text, nil, nil
				gone[m.ToolCallID] = true
			}
		case llm.RoleAI:
			if o.Args {
				clearArgs(m, gone)
			}
			clear(gone) // other AI messages may reuse IDs
		}
	}
	return ms
}

// clearArgs clears the arguments of the calls whose results are cleared.
func clearArgs(m *llm.Message, gone map[string]bool) {
	m.ToolCalls = slices.Clone(m.ToolCalls)
	for i := range m.ToolCalls {
		if gone[m.ToolCalls[i].ID] {
			m.ToolCalls[i].Args = json.RawMessage("{}")
		}
	}
}
