package llm

import (
	"iter"
	"slices"
)

// Sequence yields the content and the tool calls of an AI message in the order in
// which the model wrote them, for implementations of [Model] whose provider expects
// them back in that order. The call is nil for content. Content is yielded as by
// [Message.Parts], except that an empty text with fields in Extra is kept.
//
// A block that repeats a call marks its place; calls without a block come last. If
// a call was removed from ToolCalls, its block is omitted, and so is the reasoning
// directly before it, unless another call takes its place.
func (m Message) Sequence() iter.Seq2[Block, *ToolCall] {
	return func(yield func(Block, *ToolCall) bool) {
		if m.Content != "" && !yield(Text(m.Content), nil) {
			return
		}
		for _, p := range m.order() {
			b := p.block.standard()
			if p.call == nil && b.Type == BlockText && b.Text == "" && len(b.Extra) == 0 {
				continue
			}
			if !yield(b, p.call) {
				return
			}
		}
	}
}

// placed is a block, or a call with the block that marks its place, if any.
type placed struct {
	block Block
	call  *ToolCall
}

// order returns the blocks and calls in order. If several calls have the same ID,
// each block with that ID marks the place of the next of them.
func (m *Message) order() []placed {
	out := make([]placed, 0, len(m.Blocks)+len(m.ToolCalls))
	seen := map[string]bool{}
	taken := make([]bool, len(m.ToolCalls))
	removed := false // the call after the last blocks was removed
	for _, b := range m.Blocks {
		if !repeatsCall(b.Type) {
			out, removed = settled(out, removed), false
			out = append(out, placed{block: b})
			continue
		}
		id := callID(b)
		if id == "" {
			continue
		}
		i := 0
		for i < len(taken) && (taken[i] || m.ToolCalls[i].ID != id) {
			i++
		}
		switch {
		case i < len(taken):
			taken[i], removed = true, false
			out = append(out, placed{b, &m.ToolCalls[i]})
		case !seen[id]:
			removed = true
		}
		seen[id] = true
	}
	for i := range m.ToolCalls {
		if !taken[i] {
			out, removed = append(out, placed{call: &m.ToolCalls[i]}), false
		}
	}
	return settled(out, removed)
}

// settled removes the reasoning at the end if its call was removed.
func settled(out []placed, removed bool) []placed {
	for n := len(out); removed && n > 0 && isThought(out[n-1]); n-- {
		out = out[:n-1]
	}
	return out
}

func isThought(p placed) bool {
	return p.call == nil && slices.Contains([]string{BlockReasoning, "thinking", "redacted_thinking"}, p.block.Type)
}

// repeatsCall reports whether blocks of a type repeat ToolCalls in the content:
// those of this package, LangChain, Anthropic, and OpenAI.
func repeatsCall(typ string) bool {
	return slices.Contains([]string{BlockToolCall, "tool_use", "tool_call_chunk", "invalid_tool_call", "function_call", "custom_tool_call", "input_json_delta"}, typ)
}

// callID returns the ID of the call that a block repeats. OpenAI's blocks have
// another ID too.
func callID(b Block) string {
	if id := text(b.Extra["call_id"]); id != "" {
		return id
	}
	return b.ID
}
