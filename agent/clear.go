package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// ClearOptions configures [ClearResults]. A nil *ClearOptions means the defaults.
type ClearOptions struct {
	// Tokens is the number of tokens above which results are cleared; 0 means
	// 100,000.
	Tokens int
	// Share, if Tokens is 0, is the limit as a share of the model's context window,
	// such as 0.5. The window must be known; see [llm.Info].
	Share float64
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
// results. If the provider rejects a call with an [llm.ContextError] below the
// limit, old results are hidden and the call is made again once.
func ClearResults(opts *ClearOptions) *Middleware {
	o := valueOf(opts)
	o.Keep = max(0, cmp.Or(o.Keep, 3))
	o.Text = cmp.Or(o.Text, "[cleared]")
	check := func(s Setup) error {
		_, err := o.limit(s.Model)
		return err
	}
	return &Middleware{Name: "clear_results", Check: check, WrapModel: func(ctx context.Context, call ModelCall, next ModelFunc) (llm.Message, error) {
		limit, err := o.limit(call.Model)
		if err != nil {
			return llm.Message{}, fmt.Errorf("agent: clear_results: %w", err)
		}
		n, err := o.count(ctx, call)
		if err != nil {
			return llm.Message{}, fmt.Errorf("agent: count tokens of the conversation: %w", err)
		}
		if n > limit {
			call.Messages, _ = o.clear(call.Messages)
			return next(ctx, call)
		}
		answer, err := next(ctx, call)
		if _, over := errors.AsType[*llm.ContextError](err); !over || treadle.Propagate(ctx, err) != nil {
			return answer, err
		}
		short, cleared := o.clear(call.Messages)
		if !cleared {
			return answer, err
		}
		call.Messages = short
		return next(ctx, call)
	}}
}

// limit returns the number of tokens above which results are cleared.
func (o ClearOptions) limit(model llm.Model) (int, error) {
	switch {
	case o.Tokens < 0:
		return 0, fmt.Errorf("invalid Tokens %d: want 1 or more, or 0 for 100,000", o.Tokens)
	case o.Share != 0 && o.Tokens != 0:
		return 0, errors.New("both Tokens and Share are set: choose one")
	case o.Share != 0:
		return llm.Describe(model).Share(o.Share)
	}
	return cmp.Or(o.Tokens, 100_000), nil
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

// clear returns the conversation without the contents of old results, and reports
// whether there were any.
func (o ClearOptions) clear(ms llm.Messages) (_ llm.Messages, cleared bool) {
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
				cleared = true
			}
		case llm.RoleAI:
			if o.Args {
				clearArgs(m, gone)
			}
			clear(gone) // other AI messages may reuse IDs
		}
	}
	return ms, cleared
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
