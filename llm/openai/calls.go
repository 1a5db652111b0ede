package openai

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// callTracker distinguishes the calls of a streamed response. OpenAI numbers them
// and sends each ID once. Other servers send whole calls, all with number 0; repeat
// ID and name with every piece; omit IDs or use one twice; or number the first
// piece of a call differently from the following pieces.
type callTracker struct {
	all  []*openCall
	open map[int64]*openCall // by the server's number: the last call with it
}

type openCall struct {
	index int
	id    string
	made  bool // the ID was generated here
	args  strings.Builder
}

// add converts the pieces of one delta.
func (t *callTracker) add(pieces []callPiece) []llm.ToolCallChunk {
	if len(pieces) == 0 {
		return nil
	}
	var out []llm.ToolCallChunk
	seen := map[*openCall]bool{} // calls in this delta
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

// find returns the call that a piece continues, or nil.
func (t *callTracker) find(p callPiece, seen map[*openCall]bool) *openCall {
	c := t.open[p.index]
	switch {
	case c == nil && p.id == "" && p.name == "" && len(t.all) > 0:
		return t.all[len(t.all)-1] // a new call has a name
	case c == nil:
		return t.unfinished(p.id)
	case p.id == c.id:
		return c
	case p.id != "":
		if c.made && p.name == "" {
			return c // the server's ID is late: keep ours
		}
		return nil
	case p.name != "" && (seen[c] || c.complete()):
		return nil // the previous call is complete
	}
	return c
}

// complete reports whether the arguments are complete.
func (c *openCall) complete() bool { return json.Valid([]byte(c.args.String())) }

// unfinished returns the call with an ID whose arguments are incomplete, or nil.
func (t *callTracker) unfinished(id string) *openCall {
	for _, c := range t.all {
		if id != "" && c.id == id && !c.complete() {
			return c
		}
	}
	return nil
}

func (t *callTracker) begin(p callPiece) *openCall {
	c := &openCall{index: len(t.all), id: p.id}
	if c.id == "" || slices.ContainsFunc(t.all, func(o *openCall) bool { return o.id == c.id }) {
		c.id, c.made = "call_"+rand.Text(), true
	}
	if t.open == nil {
		t.open = map[int64]*openCall{}
	}
	t.open[p.index] = c
	t.all = append(t.all, c)
	return c
}
