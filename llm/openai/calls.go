package openai

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// callTracker tells the calls of a streamed answer apart. OpenAI numbers them,
// and names each once by an id. Other servers send whole calls, all with number
// 0, repeat id and name with every piece, leave out ids, or number the first
// piece of a call differently from those that follow.
type callTracker struct {
	all  []*openCall
	open map[int64]*openCall // by the server's number: the last one with it
}

type openCall struct {
	index int
	id    string
	made  bool // the id is ours
	args  strings.Builder
}

// add is the pieces of one delta in this module's form.
func (t *callTracker) add(pieces []callPiece) []llm.ToolCallChunk {
	var out []llm.ToolCallChunk
	seen := map[*openCall]bool{} // in this delta
	for _, p := range pieces {
		c := t.find(p, seen)
		chunk := llm.ToolCallChunk{Name: p.name, Args: p.args}
		if c == nil {
			c = t.begin(p)
			chunk.ID = c.id
		}
		seen[c] = true
		c.args.WriteString(p.args)
		chunk.Index = new(c.index)
		if p.content != nil {
			chunk.Extra = map[string]any{extraContent: p.content}
		}
		out = append(out, chunk)
	}
	return out
}

// find is the call that a piece continues, or nil.
func (t *callTracker) find(p callPiece, seen map[*openCall]bool) *openCall {
	c := t.open[p.index]
	switch {
	case c == nil && p.id == "" && p.name == "" && len(t.all) > 0:
		return t.all[len(t.all)-1] // nothing begins without a name
	case c == nil, p.id == c.id:
		return c
	case p.id != "":
		if c.made && p.name == "" {
			return c // its id is late: ours stands
		}
		return nil
	case p.name != "" && (seen[c] || json.Valid([]byte(c.args.String()))):
		return nil // the one before it is complete
	}
	return c
}

func (t *callTracker) begin(p callPiece) *openCall {
	c := &openCall{index: len(t.all), id: p.id}
	if c.id == "" {
		c.id, c.made = "call_"+rand.Text(), true
	}
	if t.open == nil {
		t.open = map[int64]*openCall{}
	}
	t.open[p.index] = c
	t.all = append(t.all, c)
	return c
}
