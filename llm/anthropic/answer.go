package anthropic

import (
	"encoding/json"
	"fmt"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/treadle-go/treadle/llm"
)

// chunkOf returns a whole response as a chunk.
func chunkOf(m *sdk.Message, cites bool) (llm.Chunk, error) {
	chunk := llm.Chunk{ID: m.ID, Stop: stopOf(m.StopReason), Metadata: startOf(m)}
	addStop(chunk.Metadata, m.StopReason, m.StopSequence, m.StopDetails)
	usage := countsOf(m.Usage).usage()
	chunk.Usage = &usage
	for i, part := range m.Content {
		next, err := partOf(i, part, cites)
		if err == nil {
			chunk, err = chunk.Add(next)
		}
		if err != nil {
			return chunk, &llm.Error{Provider: provider, Err: fmt.Errorf("content block %d: %w", i, err)}
		}
	}
	return chunk, nil
}

// partOf returns a content block as a chunk.
func partOf(i int, part sdk.ContentBlockUnion, cites bool) (chunk llm.Chunk, err error) {
	var b llm.Block
	switch part.Type {
	case "tool_use":
		call := llm.ToolCallChunk{Index: &i, ID: part.ID, Name: part.Name, Args: string(part.Input)}
		call.Extra, err = callExtra(part.RawJSON())
		return llm.Chunk{ToolCalls: []llm.ToolCallChunk{call}}, err
	case "text":
		if len(part.Citations) == 0 && !cites {
			return llm.Chunk{Content: part.Text}, nil
		}
		b, err = citedText(part)
	case "thinking":
		b = thinking(part.Thinking, part.Signature)
	default:
		err = json.Unmarshal([]byte(part.RawJSON()), &b)
	}
	return llm.Chunk{Blocks: []llm.Block{b}}, err
}

func citedText(part sdk.ContentBlockUnion) (llm.Block, error) {
	b := llm.Text(part.Text)
	if len(part.Citations) == 0 {
		return b, nil
	}
	cited := make([]any, len(part.Citations))
	for i, c := range part.Citations {
		if err := json.Unmarshal([]byte(c.RawJSON()), &cited[i]); err != nil {
			return b, err
		}
	}
	b.Extra = map[string]any{"citations": cited}
	return b, nil
}

func thinking(text, signature string) llm.Block {
	b := llm.Block{Type: llm.BlockReasoning, Reasoning: text}
	if signature != "" {
		b.Extra = map[string]any{"signature": signature}
	}
	return b
}

// callExtra returns the fields that must be sent back with a tool call.
func callExtra(raw string) (map[string]any, error) {
	var fields struct {
		Caller  map[string]any `json:"caller"`
		Toolset string         `json:"toolset_name"`
	}
	if err := json.Unmarshal([]byte(raw), &fields); err != nil {
		return nil, err
	}
	extra := map[string]any{}
	if len(fields.Caller) > 0 && fields.Caller["type"] != "direct" { // the default
		extra["caller"] = fields.Caller
	}
	if fields.Toolset != "" {
		extra["toolset_name"] = fields.Toolset
	}
	if len(extra) == 0 {
		return nil, nil
	}
	return extra, nil
}

// stopOf converts Anthropic's stop reason.
func stopOf(reason sdk.StopReason) llm.StopReason {
	switch reason {
	case sdk.StopReasonEndTurn, sdk.StopReasonStopSequence:
		return llm.StopEnd
	case sdk.StopReasonToolUse:
		return llm.StopTools
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return llm.StopLength
	case sdk.StopReasonRefusal:
		return llm.StopRefusal
	}
	return llm.StopReason(reason)
}

// startOf returns the metadata known at the start of a response.
func startOf(m *sdk.Message) map[string]any {
	return map[string]any{"model_provider": provider, "model_name": m.Model, "id": m.ID}
}

// addStop adds the metadata about the end of a response.
func addStop(meta map[string]any, reason sdk.StopReason, word string, details sdk.RefusalStopDetails) {
	meta["stop_reason"] = string(reason)
	if word != "" {
		meta["stop_sequence"] = word
	}
	var fields map[string]any
	if json.Unmarshal([]byte(details.RawJSON()), &fields) == nil && len(fields) > 0 {
		meta["stop_details"] = fields
	}
}
