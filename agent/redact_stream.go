package agent

import (
	"context"
	"encoding/json"
	"iter"
	"slices"

	"github.com/treadle-go/treadle/llm"
)

// redacted is a model that says nothing of what is to be found: its text comes
// through as soon as nothing that has begun can go on in it.
type redacted struct {
	llm.Model
	redactor
}

// Unwrap is the model inside; see [llm.With].
func (m *redacted) Unwrap() llm.Model { return m.Model }

// Rewrap is the same around another model.
func (m *redacted) Rewrap(model llm.Model) llm.Model { return &redacted{model, m.redactor} }

// Stream implements [llm.Model].
func (m *redacted) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		h := &holder{redactor: m.redactor, blocks: map[int]*heldBlock{}}
		for chunk, err := range m.Model.Stream(ctx, req) {
			if err != nil {
				// What is held back may be half of something.
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

// silent reports whether a chunk has nothing left to say.
func silent(c *llm.Chunk) bool {
	return c.Content == "" && len(c.Blocks) == 0 && len(c.ToolCalls) == 0 && c.Usage == nil && c.Stop == "" && c.Metadata == nil && c.Extra == nil
}

// holder holds text back, for the content and for each block on its own. What comes
// in pieces of JSON or of another form is held until the end.
type holder struct {
	redactor
	content string
	blocks  map[int]*heldBlock
	order   []int
	later   llm.Chunk
}

type heldBlock struct {
	as              llm.Block // its type, index and id
	text, reasoning string
}

// pass is the chunk with what may be shown of its text, and what was held back.
func (h *holder) pass(c llm.Chunk) (llm.Chunk, error) {
	var err error
	if c.Content, err = h.next(&h.content, c.Content); err != nil {
		return c, err
	}
	if len(c.ToolCalls) > 0 {
		if h.later, err = h.later.Add(llm.Chunk{ToolCalls: c.ToolCalls}); err != nil {
			return c, err
		}
		c.ToolCalls = nil
	}
	var blocks []llm.Block
	for _, b := range c.Blocks {
		shown, err := h.block(b)
		if err != nil {
			return c, err
		}
		blocks = append(blocks, shown...)
	}
	c.Blocks = blocks
	if c.Extra != nil {
		clean := &cleaner{redactor: h.redactor, where: llm.RoleAI}
		c.Extra, _ = clean.value(c.Extra).(map[string]any)
		err = clean.err
	}
	return c, err
}

// block is what may be shown of a block.
func (h *holder) block(b llm.Block) (shown []llm.Block, err error) {
	if b.Index == nil { // a whole one
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

// next takes the safe part of what is held and said.
func (h *holder) next(held *string, said string) (string, error) {
	if said == "" {
		return "", nil
	}
	all := *held + said
	cut := h.safe(all)
	*held = all[cut:]
	return h.text(all[:cut], llm.RoleAI)
}

// rest is what is still held at the end.
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
