package llm

import "slices"

// FilterOptions configures [Filter]. Roles, Names, and IDs select messages: if any
// of them is set, a message must match one. The fields that start with No or Not
// then remove messages. The zero value and nil keep all messages.
type FilterOptions struct {
	Roles []Role
	Names []string
	IDs   []string

	NotRoles []Role
	NotNames []string
	NotIDs   []string
	// NoToolCalls removes AI messages with tool calls, and all tool results.
	NoToolCalls bool
	// NotToolCalls removes the calls with these IDs, their blocks, the reasoning
	// that only led to them, and their results. An AI message that loses all its
	// calls is removed too.
	NotToolCalls []string
}

// Filter returns the messages that the options select. It does not change ms.
func Filter(ms Messages, opts *FilterOptions) Messages {
	if opts == nil {
		opts = &FilterOptions{}
	}
	out := make(Messages, 0, len(ms))
	for _, m := range ms {
		if slices.Contains(opts.NotRoles, m.Role) || slices.Contains(opts.NotIDs, m.ID) ||
			m.Name != "" && slices.Contains(opts.NotNames, m.Name) {
			continue
		}
		m, ok := opts.withoutCalls(m)
		if ok && opts.includes(&m) {
			out = append(out, m)
		}
	}
	return slices.Clip(out)
}

func (o *FilterOptions) includes(m *Message) bool {
	if len(o.Roles)+len(o.Names)+len(o.IDs) == 0 {
		return true
	}
	return slices.Contains(o.Roles, m.Role) || slices.Contains(o.Names, m.Name) || slices.Contains(o.IDs, m.ID)
}

// withoutCalls returns m without the excluded calls, and whether to keep it.
func (o *FilterOptions) withoutCalls(m Message) (Message, bool) {
	calls := m.Role == RoleAI && len(m.ToolCalls) > 0
	switch {
	case o.NoToolCalls && (calls || m.Role == RoleTool):
		return m, false
	case m.Role == RoleTool:
		return m, !slices.Contains(o.NotToolCalls, m.ToolCallID)
	case !calls || len(o.NotToolCalls) == 0:
		return m, true
	}
	left := make([]ToolCall, 0, len(m.ToolCalls))
	for _, c := range m.ToolCalls {
		if !slices.Contains(o.NotToolCalls, c.ID) {
			left = append(left, c)
		}
	}
	m.ToolCalls = left
	var blocks []Block
	for _, p := range m.order() {
		if p.block.Type != "" {
			blocks = append(blocks, p.block)
		}
	}
	m.Blocks = blocks
	return m, len(left) > 0
}

// MergeRuns joins consecutive messages with the same role. The separator is put
// between texts of messages without blocks; blocks and tool calls are concatenated.
// A joined message has the ID, name, and metadata of its first message. Tool
// results are not joined, because each answers one call. MergeRuns does not change
// ms.
func MergeRuns(ms Messages, separator string) Messages {
	out := make(Messages, 0, len(ms))
	for _, m := range ms {
		n := len(out)
		if n == 0 || m.Role != out[n-1].Role || m.Role == RoleTool || m.Role == RoleRemove {
			out = append(out, m)
			continue
		}
		out[n-1] = joined(out[n-1], m, separator)
	}
	return slices.Clip(out)
}

func joined(a, b Message, separator string) Message {
	switch {
	case len(a.Blocks) > 0:
		blocks := a.Blocks
		if b.Content != "" {
			blocks = slices.Concat(blocks, []Block{Text(b.Content)})
		}
		a.Blocks = slices.Concat(blocks, b.Blocks)
	case a.Content != "" && b.Content != "" && len(b.Blocks) == 0:
		a.Content += separator + b.Content
	default:
		a.Content += b.Content
		a.Blocks = b.Blocks
	}
	a.ToolCalls = slices.Concat(a.ToolCalls, b.ToolCalls)
	a.InvalidToolCalls = slices.Concat(a.InvalidToolCalls, b.InvalidToolCalls)
	switch {
	case a.Usage == nil:
		a.Usage = b.Usage
	case b.Usage != nil:
		sum := a.Usage.Add(*b.Usage)
		a.Usage = &sum
	}
	if extra, err := mergeMaps(a.Extra, b.Extra); err == nil {
		a.Extra = extra
	}
	return a
}
