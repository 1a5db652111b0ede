package llm

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/plainjson"
)

// collector joins chunks. Texts grow in place, so the cost is linear in the length
// of the response.
type collector struct {
	any      bool // a chunk was added
	id, name string
	text     strings.Builder
	blocks   []*blockBuilder
	calls    []*callBuilder
	usage    *Usage
	stop     StopReason
	meta     map[string]any
	extra    map[string]any

	whole *Message // the result of message, until more is added
}

type blockBuilder struct {
	Block           // except its texts
	text, reasoning strings.Builder
}

type callBuilder struct {
	ToolCallChunk                 // Args is that of the first chunk
	args          strings.Builder // used if more than one chunk has arguments
}

func (c *callBuilder) arguments() string {
	if c.args.Len() == 0 {
		return c.Args
	}
	return c.args.String()
}

// pin returns the ID of all chunks of the response: that of the first chunk, or a
// new one.
func (c *collector) pin(id string) string {
	if c.id == "" {
		c.id = id
	}
	if c.id == "" {
		c.id = "run-" + rand.Text()
	}
	return c.id
}

func (c *collector) empty() bool { return !c.any }

func (c *collector) add(next Chunk) error {
	c.any, c.whole = true, nil
	c.id = cmp.Or(c.id, next.ID)
	c.name = cmp.Or(c.name, next.Name)
	c.addText(next.Content)
	for _, b := range next.Blocks {
		if err := c.addBlock(b); err != nil {
			return fmt.Errorf("llm: joining a block of type %q: %w", b.Type, err)
		}
	}
	c.calls = slices.Grow(c.calls, len(next.ToolCalls))
	for _, call := range next.ToolCalls {
		if err := c.addCall(call); err != nil {
			return fmt.Errorf("llm: joining the tool call %s: %w", cmp.Or(call.Name, call.ID), err)
		}
	}
	if next.Usage != nil {
		sum := *next.Usage
		if c.usage != nil {
			sum = c.usage.Add(sum)
		}
		c.usage = &sum
	}
	c.stop = cmp.Or(next.Stop, c.stop)
	var err error
	if c.meta, err = mergeMaps(c.meta, next.Metadata); err != nil {
		return fmt.Errorf("llm: joining response metadata: %w", err)
	}
	if c.extra, err = mergeMaps(c.extra, next.Extra); err != nil {
		return fmt.Errorf("llm: joining extra fields: %w", err)
	}
	return nil
}

// addText appends to the text before all blocks, or to the text at the end.
func (c *collector) addText(s string) {
	if s == "" {
		return
	}
	if len(c.blocks) == 0 {
		c.text.WriteString(s)
		return
	}
	last := c.blocks[len(c.blocks)-1]
	if last.Type != BlockText || last.Index != nil || last.Extra != nil || last.ID != "" {
		last = &blockBuilder{Block: Block{Type: BlockText}}
		c.blocks = append(c.blocks, last)
	}
	last.text.WriteString(s)
}

func (c *collector) addBlock(b Block) error {
	if b.Type == BlockToolCall && c.marked(b.ID) {
		return nil
	}
	if at, ok := slotOf(b.Index, b.Extra); ok {
		for _, old := range c.blocks {
			if place, ok := slotOf(old.Index, old.Extra); ok && place == at && joins(old.ID, b.ID) && (joins(old.Type, b.Type) || b.Type == nonStandard) {
				return old.add(b)
			}
		}
	}
	added := &blockBuilder{Block: b}
	added.text.WriteString(b.Text)
	added.reasoning.WriteString(b.Reasoning)
	c.blocks = append(c.blocks, added)
	return nil
}

// joins reports whether two identifiers may denote the same thing: they do not
// differ.
func joins(a, b string) bool { return a == "" || b == "" || a == b }

const nonStandard = "non_standard"

// add appends a piece to the block.
func (b *blockBuilder) add(next Block) error {
	if next.Type == nonStandard && b.Type != nonStandard {
		// Provider-specific data is attached to the block that it belongs to.
		next = Block{Extra: map[string]any{"extras": next.Extra["value"]}}
	}
	b.Type = cmp.Or(b.Type, next.Type)
	b.ID = cmp.Or(b.ID, next.ID)
	b.text.WriteString(next.Text)
	b.reasoning.WriteString(next.Reasoning)
	b.URL += next.URL
	b.Data = append(slices.Clip(b.Data), next.Data...)
	b.FileID = cmp.Or(b.FileID, next.FileID)
	b.MIMEType = cmp.Or(b.MIMEType, next.MIMEType)
	var err error
	b.Extra, err = mergeMaps(b.Extra, next.Extra)
	return err
}

func (b *blockBuilder) block() Block {
	out := b.Block
	out.Text, out.Reasoning = b.text.String(), b.reasoning.String()
	return out
}

func (c *collector) addCall(call ToolCallChunk) error {
	if call.ID != "" && !c.marked(call.ID) {
		c.blocks = append(c.blocks, &blockBuilder{Block: Block{Type: BlockToolCall, ID: call.ID}})
	}
	if call.Index != nil {
		for _, old := range c.calls {
			if old.Index != nil && *old.Index == *call.Index && joins(old.ID, call.ID) {
				return old.add(call)
			}
		}
	}
	c.calls = append(c.calls, &callBuilder{ToolCallChunk: call})
	return nil
}

// marked reports whether a block marks the place of a call.
func (c *collector) marked(id string) bool {
	return slices.ContainsFunc(c.blocks, func(b *blockBuilder) bool { return b.Type == BlockToolCall && b.ID == id })
}

// add appends a piece to the call. Providers send the ID and name once or with
// every piece; only arguments come in parts.
func (c *callBuilder) add(next ToolCallChunk) error {
	c.ID = cmp.Or(c.ID, next.ID)
	if next.Name != c.Name {
		c.Name += next.Name
	}
	if next.Args != "" {
		if c.args.Len() == 0 {
			c.args.WriteString(c.Args)
		}
		c.args.WriteString(next.Args)
	}
	var err error
	c.Extra, err = mergeMaps(c.Extra, next.Extra)
	return err
}

// chunk returns all chunks as one.
func (c *collector) chunk() Chunk {
	out := Chunk{
		ID:       c.id,
		Name:     c.name,
		Content:  c.text.String(),
		Blocks:   c.blockList(),
		Usage:    c.usage,
		Stop:     c.stop,
		Metadata: c.meta,
		Extra:    c.extra,
	}
	for _, b := range c.calls {
		call := b.ToolCallChunk
		call.Args = b.arguments()
		out.ToolCalls = append(out.ToolCalls, call)
	}
	return out
}

// blockList returns the blocks, without the places of calls if all calls come last.
func (c *collector) blockList() []Block {
	isMark := func(b *blockBuilder) bool { return b.Type == BlockToolCall }
	blocks := c.blocks
	if n := slices.IndexFunc(blocks, isMark); n >= 0 && !slices.ContainsFunc(blocks[n:], func(b *blockBuilder) bool { return !isMark(b) }) {
		blocks = blocks[:n]
	}
	if len(blocks) == 0 {
		return nil
	}
	out := make([]Block, len(blocks))
	for i, b := range blocks {
		out[i] = b.block()
	}
	return out
}

// message returns the whole response. Both the run and the caller need it, so the
// parsed arguments of calls are cached.
func (c *collector) message() Message {
	if c.whole == nil {
		c.whole = new(c.messageSoFar(false))
	}
	return *c.whole
}

// messageSoFar returns the response as a message. If partial is set, truncated
// arguments are completed.
func (c *collector) messageSoFar(partial bool) Message {
	m := Message{
		Role:     RoleAI,
		ID:       c.id,
		Name:     c.name,
		Content:  c.text.String(),
		Blocks:   c.blockList(),
		Usage:    c.usage,
		Stop:     c.stop,
		Metadata: c.meta,
		Extra:    c.extra,
	}
	for i := range m.Blocks {
		m.Blocks[i].Index = nil // the indexes served to join the pieces
	}
	for i, b := range c.calls {
		raw := b.arguments()
		args, problem := parseArgs(raw, partial)
		if problem != "" {
			m.InvalidToolCalls = append(m.InvalidToolCalls, InvalidToolCall{ID: b.ID, Name: b.Name, Args: raw, Error: problem, Extra: b.Extra})
			continue
		}
		if m.ToolCalls == nil {
			m.ToolCalls = make([]ToolCall, 0, len(c.calls)-i)
		}
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: b.ID, Name: b.Name, Args: args, Extra: b.Extra})
	}
	return m
}

// parseArgs parses the arguments of a call, which must be a JSON object.
func parseArgs(raw string, partial bool) (args json.RawMessage, problem string) {
	text := strings.TrimSpace(raw)
	if text == "" {
		return json.RawMessage("{}"), ""
	}
	if text[0] == '{' && !strings.ContainsAny(text, " \t\r\n") { // compact if it is valid JSON
		r := plainjson.NewReader([]byte(text))
		compact := r.Raw()
		if r.Done() {
			return compact, ""
		}
	}
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) == nil { // fails for invalid JSON
		if text[0] != '{' {
			return nil, "the arguments are not a JSON object"
		}
		return b.Bytes(), ""
	}
	done, ok := completeJSON(text)
	if ok && done[0] == '{' && partial {
		return done, ""
	}
	var v any
	err := json.Unmarshal([]byte(text), &v)
	return nil, fmt.Sprintf("the arguments are not valid JSON: %v", err)
}
