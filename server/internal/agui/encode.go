package agui

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/treadle-go/treadle/llm"
)

// Event is an event for the client. Its keys are the fields of the protocol.
type Event map[string]any

// An Encoder converts the frames of a run to events. The frames are those of the stream modes
// that [Modes] lists. Everything that an encoder opens, it closes before [Encoder.Close]
// returns, as clients require.
type Encoder struct {
	send   func(Event)
	nested bool // also show the messages of subgraphs

	open  []*message        // messages that models are writing, in order of their start
	ended map[string]bool   // IDs of complete messages
	steps []string          // nodes that run, with a repeated name for each task
	tasks map[string]string // names of running tasks, by ID
	calls map[string]bool   // IDs of open calls
	state map[string]any    // as the client has it; nil before the first snapshot
}

// Modes lists the stream modes that an [Encoder] reads.
var Modes = []string{"values", "messages-tuple", "custom", "tasks"}

// NewEncoder returns an encoder that passes its events to send. nested includes the messages of
// subgraphs.
func NewEncoder(send func(Event), nested bool) *Encoder {
	return &Encoder{send: send, nested: nested, ended: map[string]bool{}, tasks: map[string]string{}, calls: map[string]bool{}}
}

// message is a message that a model is writing.
type message struct {
	id, task  string
	text      bool // the text has started
	reasoning bool // the reasoning has started and not ended
	reasoned  int  // number of reasoning parts so far
	calls     []*call
}

// call is a tool call of a message.
type call struct {
	index   *int
	id      string
	name    string
	waiting string // arguments that came before the ID and the name
	started bool
	hidden  bool // another open call has the same ID
}

// Frame converts a frame of the run: its mode, the namespace of its graph, and its data.
func (e *Encoder) Frame(mode string, ns []string, data json.RawMessage) {
	switch mode {
	case "messages":
		if len(ns) == 0 || e.nested {
			e.message(data)
		}
	case "tasks":
		e.task(len(ns) == 0, data)
	case "values":
		if len(ns) == 0 {
			e.State(data)
		}
	case "custom":
		e.custom(data)
	}
}

// message converts a chunk of a message, or a whole message.
func (e *Encoder) message(data json.RawMessage) {
	var pair []json.RawMessage
	if json.Unmarshal(data, &pair) != nil || len(pair) != 2 {
		return
	}
	var kind struct{ Type, ID string }
	var at struct {
		NS string `json:"langgraph_checkpoint_ns"`
	}
	if json.Unmarshal(pair[0], &kind) != nil || json.Unmarshal(pair[1], &at) != nil || e.ended[kind.ID] {
		return
	}
	task := at.NS[strings.LastIndex(at.NS, ":")+1:]
	switch kind.Type {
	case "AIMessageChunk":
		var c llm.Chunk
		if json.Unmarshal(pair[0], &c) == nil {
			e.chunk(e.messageOf(c.ID, task), c)
		}
	case "ai", "tool":
		var m llm.Message
		if json.Unmarshal(pair[0], &m) != nil {
			return
		}
		if m.Role == llm.RoleAI {
			w := e.messageOf(m.ID, task)
			e.chunk(w, m.Chunk())
			e.end(w)
			return
		}
		e.ended[m.ID] = true
		e.send(Event{"type": "TOOL_CALL_RESULT", "messageId": m.ID, "toolCallId": m.ToolCallID, "content": m.Text(), "role": "tool"})
	}
}

// messageOf returns the open message with an ID.
func (e *Encoder) messageOf(id, task string) *message {
	for _, w := range e.open {
		if w.id == id {
			return w
		}
	}
	w := &message{id: id, task: task}
	e.open = append(e.open, w)
	return w
}

// chunk converts a piece of a message.
func (e *Encoder) chunk(w *message, c llm.Chunk) {
	for _, b := range (llm.Message{Content: c.Content, Blocks: c.Blocks}).Parts() {
		switch b.Type {
		case llm.BlockReasoning:
			e.reasoning(w, b.Reasoning)
		case llm.BlockText:
			e.text(w, b.Text)
		}
	}
	for _, piece := range c.ToolCalls {
		e.grow(w, piece)
	}
}

func (e *Encoder) text(w *message, text string) {
	if text == "" {
		return
	}
	e.endReasoning(w)
	if !w.text {
		w.text = true
		e.send(Event{"type": "TEXT_MESSAGE_START", "messageId": w.id, "role": "assistant"})
	}
	e.send(Event{"type": "TEXT_MESSAGE_CONTENT", "messageId": w.id, "delta": text})
}

// reasoningID returns the ID of the reasoning that is part of a message. Clients show it as a
// message of its own.
func (w *message) reasoningID() string { return w.id + ":reasoning:" + strconv.Itoa(w.reasoned) }

func (e *Encoder) reasoning(w *message, text string) {
	if text == "" {
		return
	}
	if !w.reasoning {
		w.reasoning = true
		w.reasoned++
		e.send(Event{"type": "REASONING_START", "messageId": w.reasoningID()})
		e.send(Event{"type": "REASONING_MESSAGE_START", "messageId": w.reasoningID(), "role": "reasoning"})
	}
	e.send(Event{"type": "REASONING_MESSAGE_CONTENT", "messageId": w.reasoningID(), "delta": text})
}

func (e *Encoder) endReasoning(w *message) {
	if !w.reasoning {
		return
	}
	w.reasoning = false
	e.send(Event{"type": "REASONING_MESSAGE_END", "messageId": w.reasoningID()})
	e.send(Event{"type": "REASONING_END", "messageId": w.reasoningID()})
}

// grow converts a piece of a tool call. A call starts when its ID and name are known.
func (e *Encoder) grow(w *message, piece llm.ToolCallChunk) {
	e.endReasoning(w)
	c := w.call(piece)
	if c.id == "" {
		c.id = piece.ID
	}
	if c.name == "" {
		c.name = piece.Name
	}
	c.waiting += piece.Args
	if !c.started {
		if c.id == "" || c.name == "" {
			return
		}
		c.started, c.hidden = true, e.calls[c.id]
		if !c.hidden {
			e.calls[c.id] = true
			e.send(Event{"type": "TOOL_CALL_START", "toolCallId": c.id, "toolCallName": c.name, "parentMessageId": w.id})
		}
	}
	if c.waiting != "" && !c.hidden {
		e.send(Event{"type": "TOOL_CALL_ARGS", "toolCallId": c.id, "delta": c.waiting})
	}
	c.waiting = ""
}

// call returns the call that a piece continues or starts.
func (w *message) call(piece llm.ToolCallChunk) *call {
	for _, c := range w.calls {
		same := c.index != nil && piece.Index != nil && *c.index == *piece.Index
		if same && (piece.ID == "" || c.id == "" || c.id == piece.ID) {
			return c
		}
	}
	c := &call{index: piece.Index}
	w.calls = append(w.calls, c)
	return c
}

// end closes a message. A message without content stays unknown to the client.
func (e *Encoder) end(w *message) {
	for i := range e.open {
		if e.open[i] == w {
			e.open = append(e.open[:i:i], e.open[i+1:]...)
			break
		}
	}
	e.ended[w.id] = true
	e.endReasoning(w)
	for _, c := range w.calls {
		if c.started && !c.hidden {
			delete(e.calls, c.id)
			e.send(Event{"type": "TOOL_CALL_END", "toolCallId": c.id})
		}
	}
	if w.text {
		e.send(Event{"type": "TEXT_MESSAGE_END", "messageId": w.id})
	}
}

// task converts the start or the end of a task. The end of a task ends its messages.
func (e *Encoder) task(root bool, data json.RawMessage) {
	var t map[string]json.RawMessage
	var id, name string
	if json.Unmarshal(data, &t) != nil || json.Unmarshal(t["id"], &id) != nil || json.Unmarshal(t["name"], &name) != nil {
		return
	}
	if _, started := t["triggers"]; started {
		if root && e.tasks[id] == "" {
			e.tasks[id] = name
			e.step(name)
		}
		return
	}
	for _, w := range append([]*message(nil), e.open...) {
		if w.task == id {
			e.end(w)
		}
	}
	if name := e.tasks[id]; root && name != "" {
		delete(e.tasks, id)
		e.endStep(name)
	}
}

// step starts a step. Clients know a step by its name, so tasks of one node that run at the same
// time are one step.
func (e *Encoder) step(name string) {
	if !e.runs(name) {
		e.send(Event{"type": "STEP_STARTED", "stepName": name})
	}
	e.steps = append(e.steps, name)
}

func (e *Encoder) endStep(name string) {
	for i, running := range e.steps {
		if running == name {
			e.steps = append(e.steps[:i:i], e.steps[i+1:]...)
			break
		}
	}
	if !e.runs(name) {
		e.send(Event{"type": "STEP_FINISHED", "stepName": name})
	}
}

func (e *Encoder) runs(name string) bool {
	return slices.Contains(e.steps, name)
}

// State converts a state of the graph: the first time to a snapshot, later to its changes.
// Messages are not part of it, because they have separate events.
func (e *Encoder) State(values json.RawMessage) {
	state := Object(values)
	if state == nil {
		return // the graph's state is not an object
	}
	delete(state, "messages")
	delete(state, "__interrupt__")
	if e.state == nil {
		e.state = state
		e.send(Event{"type": "STATE_SNAPSHOT", "snapshot": state})
		return
	}
	if ops := diff(nil, "", e.state, state); len(ops) > 0 {
		e.send(Event{"type": "STATE_DELTA", "delta": ops})
	}
	e.state = state
}

// Object decodes a JSON object without rounding its numbers. It returns nil for anything else.
func Object(raw json.RawMessage) (out map[string]any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&out) != nil {
		return nil
	}
	return out
}

// custom converts an event of the graph's own. An object with a name gives the event that name.
func (e *Encoder) custom(data json.RawMessage) {
	var named struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(data, &named) != nil || named.Name == "" {
		named.Name = "custom"
	}
	e.send(Event{"type": "CUSTOM", "name": named.Name, "value": data})
}

// Close closes everything that is open.
func (e *Encoder) Close() {
	for len(e.open) > 0 {
		e.end(e.open[0])
	}
	for len(e.steps) > 0 {
		e.endStep(e.steps[0])
	}
	clear(e.tasks)
}
