package agent

import (
	"context"
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

// holder holds text back, for the content and for each block on its own.
type holder struct {
	redactor
	content string
	blocks  map[int]*heldBlock
	order   []int
}

type heldBlock struct {
	as   llm.Block // its type, index and id
	text string
}

// pass is the chunk with what may be shown of its text, and what was held back.
func (h *holder) pass(c llm.Chunk) (llm.Chunk, error) {
	var err error
	if c.Content, err = h.next(&h.content, c.Content); err != nil {
		return c, err
	}
	c.Blocks = slices.Clone(c.Blocks)
	for i := range c.Blocks {
		b := &c.Blocks[i]
		if b.Type != llm.BlockText {
			continue
		}
		if b.Index == nil { // a whole one
			if b.Text, err = h.text(b.Text, llm.RoleAI); err != nil {
				return c, err
			}
			continue
		}
		held := h.blocks[*b.Index]
		if held == nil {
			held = &heldBlock{as: llm.Block{Type: b.Type, Index: b.Index, ID: b.ID}}
			h.blocks[*b.Index] = held
			h.order = append(h.order, *b.Index)
		}
		if b.Text, err = h.next(&held.text, b.Text); err != nil {
			return c, err
		}
	}
	return c, nil
}

// next takes the safe part of what is held and said.
func (h *holder) next(held *string, said string) (string, error) {
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
		if b.Text != "" {
			c.Blocks = append(c.Blocks, b)
		}
	}
	return c, c.Content != "" || len(c.Blocks) > 0, nil
}
