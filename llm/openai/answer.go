package openai

import (
	"cmp"

	"github.com/treadle-go/treadle/llm"
)

// answer converts the pieces of a response to chunks. Data that the server sends
// last, or repeats with every piece, is kept for the last chunk.
type answer struct {
	calls   callTracker
	refused bool
	finish  string
	usage   *llm.Usage
	head    head
	thought thought
}

// add returns the chunk for a piece, and whether it has any content.
func (a *answer) add(p *piece) (chunk llm.Chunk, ok bool) {
	a.finish = cmp.Or(p.finish, a.finish)
	if p.usage != nil {
		a.usage = p.usage
	}
	a.head.add(p.head)
	chunk.Metadata = p.meta // chunks are merged
	if b, ok := a.thought.add(p.reasoning); ok {
		chunk.Blocks = []llm.Block{b}
	}
	a.refused = a.refused || p.refusal != ""
	switch text := p.content + p.refusal; {
	case text != "" && len(chunk.Blocks) > 0: // Content would come before the blocks
		chunk.Blocks = append(chunk.Blocks, llm.Text(text))
	default:
		chunk.Content = text
	}
	if p.audio != nil {
		chunk.Blocks = append(chunk.Blocks, *p.audio)
	}
	chunk.ToolCalls = a.calls.add(p.calls)
	return chunk, chunk.Content != "" || len(chunk.Blocks) > 0 || len(chunk.ToolCalls) > 0 || chunk.Metadata != nil
}

// last returns the chunk that ends the response.
func (a *answer) last() llm.Chunk {
	chunk := llm.Chunk{Usage: a.usage, Metadata: a.head.metadata()}
	known := true
	switch a.finish {
	case "stop":
		chunk.Stop = llm.StopEnd
	case "tool_calls", "function_call":
		chunk.Stop = llm.StopTools
	case "length", "max_tokens", "model_length":
		chunk.Stop = llm.StopLength
	case "content_filter":
		chunk.Stop = llm.StopFilter
	default:
		chunk.Stop, known = llm.StopEnd, false
	}
	if !known {
		chunk.Metadata["stop_reason"] = a.finish
	}
	if chunk.Stop == llm.StopEnd {
		switch {
		case a.refused:
			chunk.Stop = llm.StopRefusal
		case len(a.calls.all) > 0: // sent if a tool was forced, and always by some servers
			chunk.Stop = llm.StopTools
		}
	}
	if b, ok := a.thought.last(); ok {
		chunk.Blocks = []llm.Block{b}
	}
	return chunk
}
