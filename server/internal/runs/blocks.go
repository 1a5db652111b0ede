package runs

import (
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
)

// messages assembles the messages of protocol v2. Each message is a list of blocks, which
// start, grow, and finish one after the other.
type messages struct {
	add  func(ns []string, node string, data any)
	open map[string]*message // by message ID
	runs map[string]string   // message IDs by the ID of the model run that writes them
}

// message is a message that a model is writing.
type message struct {
	id, node, task string
	ns             []string
	blocks         []*block
	usage          *llm.Usage
	stop           llm.StopReason
}

// block is a block of a message.
type block struct {
	at       int // position in the message
	kind     string
	id       string
	index    *int // shared by all pieces of the block
	finished bool
	text     strings.Builder // a text, reasoning, or the arguments of a tool call
	sent     int             // length of the arguments last sent
	name     string          // tool name
	rest     llm.Chunk       // the other fields of the pieces
}

// callBlock is the type of an incomplete tool call.
const callBlock = "tool_call_chunk"

// token records a chunk of a model's message, or a whole message.
func (m *messages) token(at *treadle.Origin, v any) {
	switch v := v.(type) {
	case llm.Chunk:
		m.chunk(at, v)
	case llm.Message:
		m.whole(at.Namespace, at.Node, v)
	}
}

// returned records a message that a node returned. A tool result is recorded in a namespace
// named after its tool call.
func (m *messages) returned(at *treadle.Origin, v any) {
	msg, ok := v.(llm.Message)
	switch {
	case !ok:
	case msg.Role == llm.RoleAI:
		m.whole(at.Namespace, at.Node, msg)
	case msg.Role == llm.RoleTool:
		m.whole(append(slices.Clone(at.Namespace), "tools:"+msg.ToolCallID), at.Node, msg)
	}
}

// whole records a complete message.
func (m *messages) whole(ns []string, node string, msg llm.Message) {
	w := &message{id: msg.ID, node: node, ns: ns, usage: msg.Usage, stop: msg.Stop}
	data := map[string]any{}
	if msg.Role == llm.RoleTool {
		data["tool_call_id"] = msg.ToolCallID
	}
	m.start(w, string(msg.Role), data)
	i := 0
	for b, c := range msg.Sequence() {
		switch {
		case c != nil:
			m.grow(w, llm.ToolCallChunk{Index: new(i), ID: c.ID, Name: c.Name, Args: string(c.Args)})
		case b.Type != llm.BlockText || b.Text != "":
			b.Index = new(i)
			m.piece(w, b)
		}
		i++
	}
	m.finish(w, "")
}

// chunk records a chunk of a model's message.
func (m *messages) chunk(at *treadle.Origin, c llm.Chunk) {
	w := m.open[c.ID]
	if w == nil {
		w = &message{id: c.ID, node: at.Node, task: at.TaskID, ns: at.Namespace}
		if m.open == nil {
			m.open = map[string]*message{}
		}
		m.open[c.ID] = w
		m.start(w, string(llm.RoleAI), map[string]any{})
	}
	if c.Usage != nil {
		sum := *c.Usage
		if w.usage != nil {
			sum = w.usage.Add(sum)
		}
		w.usage = &sum
	}
	if c.Stop != "" {
		w.stop = c.Stop
	}
	for _, b := range (llm.Message{Content: c.Content, Blocks: c.Blocks}).Parts() {
		m.piece(w, b)
	}
	for _, call := range c.ToolCalls {
		m.grow(w, call)
	}
}

// send records an event of a message. It includes the message ID under every name that clients
// use to distinguish messages written at the same time.
func (m *messages) send(w *message, event string, data map[string]any) {
	data["event"], data["run_id"] = event, w.id
	if event != "message-start" {
		data["message_id"] = w.id
	}
	m.add(w.ns, w.node, data)
}

func (m *messages) start(w *message, role string, data map[string]any) {
	data["role"], data["id"], data["metadata"] = role, w.id, map[string]any{"langgraph_node": w.node}
	m.send(w, "message-start", data)
}

// piece records a piece of a block, or a whole block. A text without an index continues the
// previous text.
func (m *messages) piece(w *message, p llm.Block) {
	var b *block
	n := len(w.blocks)
	if p.Index != nil {
		b = w.find(p.Type, p.ID, p.Index)
	} else if n > 0 && p.Type == llm.BlockText && w.blocks[n-1].kind == llm.BlockText && w.blocks[n-1].index == nil {
		b = w.blocks[n-1]
	}
	if b == nil {
		b = m.begin(w, p.Type, p.ID, p.Index)
		content := map[string]any{"type": p.Type}
		switch p.Type {
		case llm.BlockText:
			content["text"] = ""
		case llm.BlockReasoning:
			content["reasoning"] = ""
		default:
			m.send(w, "content-block-start", map[string]any{"index": b.at, "content": p})
			content = nil
		}
		if content != nil {
			m.send(w, "content-block-start", map[string]any{"index": b.at, "content": content})
		}
	}
	b.finished = false
	text, delta := p.Text, map[string]any{"type": "text-delta", "text": p.Text}
	switch b.kind {
	case llm.BlockText:
		p.Text = ""
	case llm.BlockReasoning:
		text, delta = p.Reasoning, map[string]any{"type": "reasoning-delta", "reasoning": p.Reasoning}
		p.Reasoning = ""
	default:
		text = "" // sent when the block is complete
	}
	b.merge(p)
	if text != "" {
		b.text.WriteString(text)
		m.send(w, "content-block-delta", map[string]any{"index": b.at, "delta": delta})
	}
}

// merge adds the fields of a piece other than text to its block.
func (b *block) merge(p llm.Block) {
	if sum, err := b.rest.Add(llm.Chunk{Blocks: []llm.Block{p}}); err == nil {
		b.rest = sum
	}
}

// grow records a piece of a tool call. Each event replaces the arguments so far, which is the
// only form that all clients support, so long arguments are not sent with every piece.
func (m *messages) grow(w *message, c llm.ToolCallChunk) {
	var b *block
	if c.Index != nil {
		b = w.find(callBlock, c.ID, c.Index)
	}
	if b == nil {
		b = m.begin(w, callBlock, c.ID, c.Index)
		b.name = c.Name
		m.send(w, "content-block-start", map[string]any{"index": b.at, "content": b.call("")})
	} else {
		b.id, b.name = b.id+c.ID, b.name+c.Name
	}
	b.finished = false
	b.text.WriteString(c.Args)
	if n := b.text.Len(); n > b.sent && n-b.sent >= b.sent/16 {
		b.sent = n
		m.send(w, "content-block-delta", map[string]any{"index": b.at, "delta": map[string]any{"type": "block-delta", "fields": b.call(b.text.String())}})
	}
}

// call returns the tool call as written so far.
func (b *block) call(args string) map[string]any {
	out := map[string]any{"type": callBlock, "id": nil, "name": nil, "args": args, "index": b.at}
	if b.id != "" {
		out["id"] = b.id
	}
	if b.name != "" {
		out["name"] = b.name
	}
	return out
}

// find returns the block that a piece continues, or nil.
func (w *message) find(kind, id string, index *int) *block {
	for _, b := range slices.Backward(w.blocks) {
		calls := kind == callBlock
		if b.index != nil && *b.index == *index && calls == (b.kind == callBlock) && (kind == "" || kind == b.kind) && (id == "" || b.id == "" || id == b.id) {
			return b
		}
	}
	return nil
}

// begin adds a block to a message and finishes the previous blocks. If a model writes several
// blocks in turns, a block may finish more than once.
func (m *messages) begin(w *message, kind, id string, index *int) *block {
	m.finishBlocks(w)
	b := &block{at: len(w.blocks), kind: kind, id: id, index: index}
	w.blocks = append(w.blocks, b)
	return b
}

func (m *messages) finishBlocks(w *message) {
	for _, b := range w.blocks {
		if !b.finished {
			b.finished = true
			m.send(w, "content-block-finish", map[string]any{"index": b.at, "content": b.content()})
		}
	}
}

// content returns the complete block.
func (b *block) content() any {
	if b.kind == callBlock {
		c := llm.Chunk{ToolCalls: []llm.ToolCallChunk{{ID: b.id, Name: b.name, Args: b.text.String()}}, Stop: llm.StopTools}.Message()
		if len(c.InvalidToolCalls) > 0 {
			return c.InvalidToolCalls[0]
		}
		return c.ToolCalls[0]
	}
	out := llm.Block{Type: b.kind, ID: b.id}
	if len(b.rest.Blocks) > 0 {
		out = b.rest.Blocks[0]
	}
	out.Type, out.Index = b.kind, nil
	switch b.kind {
	case llm.BlockText:
		out.Text = b.text.String()
	case llm.BlockReasoning:
		out.Reasoning = b.text.String()
	}
	return out
}

// finish records the end of a message, or its failure if failed is not empty.
func (m *messages) finish(w *message, failed string) {
	if failed != "" {
		m.send(w, "error", map[string]any{"message": failed})
		return
	}
	m.finishBlocks(w)
	data := map[string]any{"reason": w.stop}
	if w.stop == "" {
		data["reason"] = llm.StopEnd
	}
	if w.usage != nil {
		data["usage"] = w.usage
	}
	m.send(w, "message-finish", data)
}

// call records which model run writes a message. It is called before the first piece of the
// message.
func (m *messages) call(run, id string) {
	if m.runs == nil {
		m.runs = map[string]string{}
	}
	m.runs[run] = id
}

// end ends an open message; failed is the reason if it was cut off.
func (m *messages) end(id, failed string) {
	maps.DeleteFunc(m.runs, func(_, of string) bool { return of == id })
	if w := m.open[id]; w != nil {
		delete(m.open, id)
		m.finish(w, failed)
	}
}

// endCall ends the message that a model run writes.
func (m *messages) endCall(run, failed string) { m.end(m.runs[run], failed) }

// endTask ends the messages that a task has left open.
func (m *messages) endTask(task string) {
	for _, id := range sortedKeys(m.open) {
		if m.open[id].task == task {
			m.end(id, "")
		}
	}
}

func (m *messages) endAll(failed string) {
	clear(m.runs)
	for _, id := range sortedKeys(m.open) {
		m.end(id, failed)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
