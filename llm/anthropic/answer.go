package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/treadle-go/treadle/llm"
)

// chunkOf returns a whole response as a chunk.
func chunkOf(m *sdk.Message) (llm.Chunk, error) {
	chunk := llm.Chunk{ID: m.ID, Stop: stopOf(m.StopReason), Metadata: startOf(m)}
	addStop(chunk.Metadata, m.StopReason, m.StopSequence, m.StopDetails)
	usage := countsOf(m.Usage).usage()
	chunk.Usage = &usage
	for i, part := range m.Content {
		if err := addPart(&chunk, i, part); err != nil {
			return chunk, &llm.Error{Provider: provider, Err: fmt.Errorf("content block %d: %w", i, err)}
		}
	}
	if text, ok := onlyText(chunk.Blocks); ok {
		chunk.Content, chunk.Blocks = text, nil
	}
	return chunk, nil
}

func addPart(chunk *llm.Chunk, i int, part sdk.ContentBlockUnion) error {
	switch part.Type {
	case "tool_use":
		extra, err := callExtra(part.RawJSON())
		chunk.ToolCalls = append(chunk.ToolCalls, llm.ToolCallChunk{Index: &i, ID: part.ID, Name: part.Name, Args: string(part.Input), Extra: extra})
		return err
	case "text":
		b := llm.Text(part.Text)
		var cited []any
		for _, c := range part.Citations {
			var v any
			if err := json.Unmarshal([]byte(c.RawJSON()), &v); err != nil {
				return err
			}
			cited = append(cited, v)
		}
		if cited != nil {
			b.Extra = map[string]any{"citations": cited}
		}
		chunk.Blocks = append(chunk.Blocks, b)
	case "thinking":
		chunk.Blocks = append(chunk.Blocks, thinking(part.Thinking, part.Signature))
	default:
		var b llm.Block
		if err := json.Unmarshal([]byte(part.RawJSON()), &b); err != nil {
			return err
		}
		chunk.Blocks = append(chunk.Blocks, b)
	}
	return nil
}

func thinking(text, signature string) llm.Block {
	b := llm.Block{Type: llm.BlockReasoning, Reasoning: text}
	if signature != "" {
		b.Extra = map[string]any{"signature": signature}
	}
	return b
}

// onlyText returns the concatenated text if all blocks are plain text.
func onlyText(blocks []llm.Block) (string, bool) {
	var all strings.Builder
	for _, b := range blocks {
		if b.Type != llm.BlockText || b.Extra != nil {
			return "", false
		}
		all.WriteString(b.Text)
	}
	return all.String(), true
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
