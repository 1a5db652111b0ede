package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/treadle-go/treadle/internal/adapter"
	"github.com/treadle-go/treadle/llm"
)

// reader converts the events of a stream to chunks:
//
//	message_start (content_block_start content_block_delta… content_block_stop)… message_delta… message_stop
//
// Each block has an index. Unknown types of events and deltas are skipped and logged, as
// the API requires, because new ones may be added at any time.
type reader struct {
	begun bool // part of the response has been read
	done  bool // the whole response has been read
	cites bool // texts may have citations; see cites
	warn  *adapter.Warner

	counts counts
	open   map[int64]*serverBlock
	// last is the final chunk. It is held until the end, because a response with a
	// stop reason is complete.
	last llm.Chunk
}

// serverBlock is a block that is passed on as a whole, because its pieces are
// meaningless.
type serverBlock struct {
	start string // its JSON
	input strings.Builder
}

// read returns the chunk for an event, if any.
func (r *reader) read(e sdk.MessageStreamEventUnion) (chunk llm.Chunk, said bool, err error) {
	switch e.Type {
	case "message_start":
		r.counts = countsOf(e.Message.Usage)
		usage := r.counts.usage()
		chunk, said = llm.Chunk{ID: e.Message.ID, Metadata: startOf(&e.Message), Usage: &usage}, true
	case "content_block_start":
		chunk, said, err = r.startBlock(e.Index, e.ContentBlock)
	case "content_block_delta":
		chunk, said, err = r.continueBlock(e.Index, e.Delta)
	case "content_block_stop":
		chunk, said, err = r.endBlock(e.Index)
	case "message_delta":
		before := r.counts.usage()
		r.counts.update(e.Usage)
		r.end(e.Delta, r.counts.usage().Sub(before))
	case "message_stop":
		if r.last.Stop == "" {
			return chunk, false, errors.New("response without stop_reason")
		}
		r.done = true
		return r.last, true, nil
	default:
		r.warn.UnknownEvent(e.Type)
	}
	if err != nil {
		return llm.Chunk{}, false, fmt.Errorf("%s %d: %w", e.Type, e.Index, err)
	}
	r.begun = r.begun || said
	return chunk, said, nil
}

// end records the data about the end, which may come in several events.
func (r *reader) end(d sdk.MessageStreamEventUnionDelta, usage llm.Usage) {
	if r.last.Usage != nil {
		usage = r.last.Usage.Add(usage)
	}
	r.last.Usage = &usage
	if d.StopReason == "" {
		return
	}
	r.last.Stop = stopOf(d.StopReason)
	r.last.Metadata = map[string]any{}
	addStop(r.last.Metadata, d.StopReason, d.StopSequence, d.StopDetails)
}

func (r *reader) startBlock(index int64, b sdk.ContentBlockStartEventContentBlockUnion) (chunk llm.Chunk, said bool, err error) {
	switch b.Type {
	case "text":
		return r.text(index, b.Text), b.Text != "", nil
	case "thinking":
		return blockChunk(index, thinking(b.Thinking, b.Signature)), b.Thinking != "" || b.Signature != "", nil
	case "tool_use":
		call := llm.ToolCallChunk{Index: new(int(index)), ID: b.ID, Name: b.Name}
		if input := b.JSON.Input.Raw(); input != "{}" && input != "null" {
			call.Args = input // otherwise the input comes in pieces
		}
		call.Extra, err = callExtra(b.RawJSON())
		return llm.Chunk{ToolCalls: []llm.ToolCallChunk{call}}, true, err
	}
	if r.open == nil {
		r.open = map[int64]*serverBlock{}
	}
	r.open[index] = &serverBlock{start: b.RawJSON()}
	return chunk, false, nil
}

func (r *reader) continueBlock(index int64, d sdk.MessageStreamEventUnionDelta) (chunk llm.Chunk, said bool, err error) {
	switch d.Type {
	case "text_delta":
		return r.text(index, d.Text), d.Text != "", nil
	case "thinking_delta":
		return blockChunk(index, thinking(d.Thinking, "")), d.Thinking != "", nil
	case "signature_delta":
		return blockChunk(index, thinking("", d.Signature)), d.Signature != "", nil
	case "citations_delta":
		// Without a block, the text has already been sent, and the citation follows
		// it.
		var cited any
		err := json.Unmarshal([]byte(d.Citation.RawJSON()), &cited)
		return blockChunk(index, llm.Block{Type: llm.BlockText, Extra: map[string]any{"citations": []any{cited}}}), true, err
	case "input_json_delta":
		if b := r.open[index]; b != nil {
			b.input.WriteString(d.PartialJSON)
			return chunk, false, nil
		}
		call := llm.ToolCallChunk{Index: new(int(index)), Args: d.PartialJSON}
		return llm.Chunk{ToolCalls: []llm.ToolCallChunk{call}}, d.PartialJSON != "", nil
	}
	r.warn.UnknownEvent("content_block_delta " + d.Type)
	return chunk, false, nil
}

// text returns a piece of a text. A text with citations is a block.
func (r *reader) text(index int64, piece string) llm.Chunk {
	if r.cites {
		return blockChunk(index, llm.Text(piece))
	}
	return llm.Chunk{Content: piece}
}

func (r *reader) endBlock(index int64) (chunk llm.Chunk, said bool, err error) {
	open := r.open[index]
	if open == nil {
		return chunk, false, nil
	}
	delete(r.open, index)
	b, err := open.block()
	return blockChunk(index, b), err == nil, err
}

// block returns the complete block.
func (s *serverBlock) block() (b llm.Block, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(s.start), &fields); err != nil {
		return b, err
	}
	if s.input.Len() > 0 {
		fields["input"] = json.RawMessage(s.input.String())
		if !json.Valid(fields["input"]) {
			return b, fmt.Errorf("tool input is not JSON: %s", fields["input"])
		}
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return b, err
	}
	return b, json.Unmarshal(raw, &b)
}

// blockChunk returns a chunk with a piece of the block at an index.
func blockChunk(index int64, b llm.Block) llm.Chunk {
	b.Index = new(int(index))
	return llm.Chunk{Blocks: []llm.Block{b}}
}
