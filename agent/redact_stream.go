package agent

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// redacted is a model whose responses are redacted. Text passes as soon as it
// cannot be part of a match that later text would complete.
type redacted struct {
	llm.Model
	redactor
}

// Unwrap returns the wrapped model; see [llm.With].
func (m *redacted) Unwrap() llm.Model { return m.Model }

// Rewrap returns the same wrapper around another model.
func (m *redacted) Rewrap(model llm.Model) llm.Model { return &redacted{model, m.redactor} }

// Stream implements [llm.Model].
func (m *redacted) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		h := &holder{redactor: m.redactor, blocks: map[int]*heldBlock{}}
		for chunk, err := range m.Model.Stream(ctx, req) {
			if err != nil {
				// The text held back may contain part of a match.
				yield(llm.Chunk{}, err)
				return
			}
			if chunk, err = h.pass(chunk); err != nil {
				yield(llm.Chunk{}, err)
				return
			}
			if !silent(&chunk) && !yield(chunk, nil) {
				return
			}
		}
		rest, some, err := h.rest()
		switch {
		case err != nil:
			yield(llm.Chunk{}, err)
		case some:
			yield(rest, nil)
		}
	}
}

// silent reports whether a chunk has no content left.
func silent(c *llm.Chunk) bool {
	return c.Content == "" && len(c.Blocks) == 0 && len(c.ToolCalls) == 0 && c.Usage == nil && c.Stop == "" && c.Metadata == nil && c.Extra == nil
}

// holder holds back text, separately for the content and for each block. Tool call
// arguments and fields of other types are held until the end; blocks mark the
// places of the calls.
type holder struct {
	redactor
	content string
	blocks  map[int]*heldBlock
	order   []int
	later   llm.Chunk
	marked  []string // call IDs
}

type heldBlock struct {
	as              llm.Block // its type, index, and ID
	text, reasoning string
}

// pass returns the chunk with the text that may be shown, including text held back
// earlier.
func (h *holder) pass(c llm.Chunk) (llm.Chunk, error) {
	var err error
	if c.Content, err = h.next(&h.content, c.Content); err != nil {
		return c, err
	}
	var marks []llm.Block
	if len(c.ToolCalls) > 0 {
		if h.later, err = h.later.Add(llm.Chunk{ToolCalls: c.ToolCalls}); err != nil {
			return c, err
		}
		marks = h.marks(c.ToolCalls)
		c.ToolCalls = nil
	}
	if len(marks) > 0 { // later content does not continue the text before a call
		rest, err := h.text(h.content, llm.RoleAI)
		if err != nil {
			return c, err
		}
		c.Content, h.content = c.Content+rest, ""
	}
	var blocks []llm.Block
	for _, b := range c.Blocks {
		shown, err := h.block(b)
		if err != nil {
			return c, err
		}
		blocks = append(blocks, shown...)
	}
	c.Blocks = append(blocks, marks...)
	if c.Extra != nil {
		clean := &cleaner{redactor: h.redactor, where: llm.RoleAI}
		c.Extra, _ = clean.value(c.Extra).(map[string]any)
		err = clean.err
	}
	return c, err
}

// marks returns blocks for the places of new calls.
func (h *holder) marks(calls []llm.ToolCallChunk) (marks []llm.Block) {
	for _, call := range calls {
		if call.ID != "" && !slices.Contains(h.marked, call.ID) {
			h.marked = append(h.marked, call.ID)
			marks = append(marks, llm.Block{Type: llm.BlockToolCall, ID: call.ID})
		}
	}
	return marks
}

// block returns the part of a block that may be shown.
func (h *holder) block(b llm.Block) (shown []llm.Block, err error) {
	if b.Index == nil { // a complete block
		clean := &cleaner{redactor: h.redactor, where: llm.RoleAI}
		shown = clean.blocks([]llm.Block{b})
		return shown, clean.err
	}
	if (b.Text != "" || b.Reasoning != "") && h.blocks[*b.Index] == nil {
		h.blocks[*b.Index] = &heldBlock{as: llm.Block{Type: b.Type, Index: b.Index, ID: b.ID}}
		h.order = append(h.order, *b.Index)
	}
	if held := h.blocks[*b.Index]; held != nil {
		if b.Text, err = h.next(&held.text, b.Text); err != nil {
			return nil, err
		}
		if b.Reasoning, err = h.next(&held.reasoning, b.Reasoning); err != nil {
			return nil, err
		}
	}
	if len(b.Extra) > 0 {
		rest := llm.Block{Type: b.Type, Index: b.Index, ID: b.ID, Extra: b.Extra}
		b.Extra = nil
		if h.later, err = h.later.Add(llm.Chunk{Blocks: []llm.Block{rest}}); err != nil {
			return nil, err
		}
	}
	return []llm.Block{b}, nil
}

// next adds said to the held text and returns the safe part.
func (h *holder) next(held *string, said string) (string, error) {
	if said == "" {
		return "", nil
	}
	all := *held + said
	cut := h.safe(all)
	*held = all[cut:]
	return h.text(all[:cut], llm.RoleAI)
}

// rest returns the text still held at the end.
func (h *holder) rest() (c llm.Chunk, some bool, err error) {
	if c.Content, err = h.text(h.content, llm.RoleAI); err != nil {
		return c, false, err
	}
	for _, i := range h.order {
		b := h.blocks[i].as
		if b.Text, err = h.text(h.blocks[i].text, llm.RoleAI); err != nil {
			return c, false, err
		}
		if b.Reasoning, err = h.text(h.blocks[i].reasoning, llm.RoleAI); err != nil {
			return c, false, err
		}
		if b.Text != "" || b.Reasoning != "" {
			c.Blocks = append(c.Blocks, b)
		}
	}
	clean := &cleaner{redactor: h.redactor, where: llm.RoleAI}
	c.Blocks = append(c.Blocks, clean.blocks(h.later.Blocks)...)
	c.ToolCalls = slices.Clone(h.later.ToolCalls)
	for i := range c.ToolCalls {
		c.ToolCalls[i].Args = string(clean.json(json.RawMessage(c.ToolCalls[i].Args)))
	}
	return c, c.Content != "" || len(c.Blocks) > 0 || len(c.ToolCalls) > 0, clean.err
}
