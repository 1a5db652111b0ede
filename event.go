package treadle

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/treadle-go/treadle/internal/pregel"
)

// A Mode selects a kind of event in a stream. Modes can be combined with |.
type Mode uint16

// The modes of a stream.
const (
	ModeValues      Mode = 1 << iota // the state after each step: [Values]
	ModeUpdates                      // the writes of each node, and interrupts: [Updated], [Interrupted], [Abandoned]
	ModeCustom                       // values sent with [Emit]: [Custom]
	ModeMessages                     // chunks of model responses, and messages that nodes return: [Token], [Returned]
	ModeTasks                        // the start and end of tasks: [TaskStarted], [TaskFinished]
	ModeCheckpoints                  // with a saver: [Checkpointed]
	ModeDebug                        // tasks and checkpoints in the format of LangGraph's debug mode
	ModeEvents                       // the start and end of graphs, nodes, models, and tools: [Lifecycle]
	ModeWrites                       // with ModeEvents: also the input and field writes
)

// modeNames maps modes to their LangGraph names.
var modeNames = map[Mode]string{
	ModeValues: "values", ModeUpdates: "updates", ModeCustom: "custom", ModeMessages: "messages",
	ModeTasks: "tasks", ModeCheckpoints: "checkpoints", ModeDebug: "debug", ModeEvents: "events",
	ModeWrites: "writes",
}

// String returns the wire name of the mode, or the names of several modes separated by |.
func (m Mode) String() string {
	if name, ok := modeNames[m]; ok {
		return name
	}
	var names []string
	for bit := ModeValues; bit <= ModeWrites; bit <<= 1 {
		if m&bit != 0 {
			names = append(names, modeNames[bit])
			m &^= bit
		}
	}
	if m != 0 {
		names = append(names, fmt.Sprintf("Mode(%d)", uint16(m)))
	}
	return strings.Join(names, "|")
}

// allModes is the set of all modes.
const allModes = ModeWrites<<1 - 1

// check returns an error if m contains an unknown mode or none.
func (m Mode) check() error {
	if m == 0 || m&^allModes != 0 {
		return fmt.Errorf("treadle: unknown stream mode %d: want a combination of %s", uint16(m&^allModes), allModes)
	}
	return nil
}

// MarshalText returns the same as String.
func (m Mode) MarshalText() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	return []byte(m.String()), nil
}

// UnmarshalText parses the wire name of a mode, such as "updates", or several names
// separated by |.
func (m *Mode) UnmarshalText(text []byte) error {
	var all Mode
	for name := range strings.SplitSeq(string(text), "|") {
		mode, ok := modeNamed(name)
		if !ok {
			return fmt.Errorf("treadle: unknown stream mode %q: want one of %s", name, allModes)
		}
		all |= mode
	}
	*m = all
	return nil
}

func modeNamed(name string) (Mode, bool) {
	for mode, n := range modeNames {
		if n == name {
			return mode, true
		}
	}
	return 0, false
}

// An Event is an event of a run: one of the types of this package that embed
// [Origin]. Use a type switch.
type Event interface {
	// Where returns the origin of the event.
	Where() Origin
}

// Origin describes where an event comes from.
type Origin struct {
	Mode      Mode      // the mode that selects the event
	Namespace []string  // of the graph, outermost first: "node:task"; empty at the root
	Graph     string    // name of the graph
	Step      int       // on a thread, the count continues from run to run
	Node      string    // empty if the event is about the graph
	TaskID    string    // identifies the task; empty if the event is about the graph
	Time      time.Time // zero for tokens
	// Tags and Metadata belong to the model call, message, or task of the
	// event. Only Token, Returned, TaskStarted, and Lifecycle events have them.
	Tags     []string
	Metadata map[string]any
}

// Where implements [Event].
func (o Origin) Where() Origin { return o }

// Values is the state after a step.
type Values struct {
	Origin
	State  Record  // the fields that have been written; read them with [Record.Read]
	Pauses []Pause // what an interrupted run waits for
}

// Updated reports the writes of a node.
type Updated struct {
	Origin
	Update Record
	Cached bool // the result comes from the cache
}

// Custom carries a value sent with [Emit].
type Custom struct {
	Origin
	Value any // the value passed to [Emit]
}

// A Token is a chunk of a model response. All tokens of a response share one Origin, which
// is a pointer, unlike in other events, and must not be modified.
// [Token.Where] returns a copy.
type Token struct {
	*Origin
	// Chunk is an llm.Chunk, or an llm.Message if the model does not stream. Models
	// outside this module may report values of other types.
	Chunk any
}

// Text returns the text of the chunk, which is empty for a chunk of a tool call.
func (t Token) Text() string {
	switch c := t.Chunk.(type) {
	case interface{ Text() string }:
		return c.Text()
	case string:
		return c
	}
	return ""
}

// Where implements [Event].
func (t Token) Where() Origin {
	if t.Origin == nil {
		return Origin{}
	}
	return *t.Origin
}

// Returned carries a complete message that a node returned and that no model streamed
// during the run, such as a tool result. Like [Token], it is an event of
// [ModeMessages].
type Returned struct {
	Origin
	// Message is an llm.Message, or another value with a method MessageID() string.
	Message any
}

// TaskStarted reports that a node is about to run.
type TaskStarted struct {
	Origin
	Input    any      // a [Record] of the state, or the input of a send
	Triggers []string // what scheduled the node, in LangGraph's notation
}

// TaskFinished reports that a node has run.
type TaskFinished struct {
	Origin
	Result Record  // the fields that the task wrote
	Err    error   // why the task failed; nil if it succeeded or waits
	Pauses []Pause // what it waits for

	tried *pregel.Tried // for the wire; nil after one attempt
}

// Checkpointed reports a saved checkpoint. With [Async], it may arrive
// while the next step runs. With [Exit], a run has one, at its end.
type Checkpointed struct {
	Origin
	Snapshot Snapshot // the state of the thread at the checkpoint
}

// Lifecycle reports the start, streaming, or end of a graph, node, model, tool, or
// retriever, as in LangChain's event stream.
type Lifecycle struct {
	Origin
	Event   string   // on_chain_start, on_chat_model_stream, on_tool_end, on_custom_event, …
	Name    string   // of the graph, node, model, tool, or retriever
	RunID   string   // identifies the call: its start and end share the ID
	Parents []string // the IDs of the calls around it, outermost first
	Input   any      // of a start and of an end
	Chunk   any      // of a stream event
	Output  any      // of an end
	Err     error    // of an error event
}

// Finished is the last event of a successful run.
type Finished[Out any] struct {
	Origin
	Output Out // what Run would have returned
}

// A Record contains the fields of a graph's state that have been written.
type Record struct{ r *pregel.Record }

// Read fills the struct that dst points to. It matches fields by name; fields that were
// never written become zero.
func (r Record) Read(dst any) error { return r.r.Read(dst) }

// Get returns the value of a field by its Go or JSON name.
func (r Record) Get(name string) (any, bool) {
	if r.r == nil {
		return nil, false
	}
	return r.r.Get(name)
}

// Has reports whether a field has been written.
func (r Record) Has(name string) bool {
	_, ok := r.Get(name)
	return ok
}

// Names returns the JSON names of the fields.
func (r Record) Names() []string {
	if r.r == nil {
		return nil
	}
	return r.r.Names()
}

// MarshalJSON encodes the fields under their JSON names.
func (r Record) MarshalJSON() ([]byte, error) {
	if r.r == nil {
		return []byte("null"), nil
	}
	return r.r.MarshalJSON()
}

// String returns the record's JSON.
func (r Record) String() string {
	raw, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// publisher converts the engine's events of a stream to public events.
type publisher struct {
	// The origin of the last token, and the origins of other messages.
	last    message
	origin  *Origin
	origins map[message]*Origin
}

// message identifies the message of a token.
type message struct {
	at *pregel.Origin
	of *pregel.Token
}

// maxOrigins limits the number of concurrently streamed messages whose tokens share an
// origin.
const maxOrigins = 64

func originOf(ev *pregel.Event) Origin {
	o := ev.At
	return Origin{Mode: Mode(ev.Mode), Namespace: o.NS, Graph: o.Graph, Step: o.Step, Node: o.Node, TaskID: o.Task, Time: o.Time}
}

// labeled returns the origin with tags and metadata.
func (o Origin) labeled(tags []string, metadata map[string]any) Origin {
	o.Tags, o.Metadata = tags, metadata
	return o
}

// tokenOrigin returns the origin of a token, which all tokens of a message share.
func (p *publisher) tokenOrigin(ev *pregel.Event, of *pregel.Token) *Origin {
	m := message{ev.At, of}
	if m == p.last {
		return p.origin
	}
	o := p.origins[m]
	if o == nil {
		if len(p.origins) >= maxOrigins {
			clear(p.origins)
		}
		if p.origins == nil {
			p.origins = map[message]*Origin{}
		}
		o = new(originOf(ev).labeled(of.Tags, of.Metadata))
		p.origins[m] = o
	}
	p.last, p.origin = m, o
	return o
}

func (p *publisher) publish(ev *pregel.Event) Event {
	if d, ok := ev.Data.(*pregel.Token); ok {
		if d.Whole {
			return Returned{originOf(ev).labeled(d.Tags, d.Metadata), ev.Value}
		}
		return Token{p.tokenOrigin(ev, d), ev.Value}
	}
	at := originOf(ev)
	switch d := ev.Data.(type) {
	case pregel.Custom:
		return Custom{at, ev.Value}
	case *pregel.Values:
		return Values{at, Record{d.Record}, d.Pauses}
	case *pregel.Updated:
		return Updated{at, Record{d.Record}, d.Cached}
	case *pregel.TaskStart:
		return TaskStarted{at.labeled(d.Tags, d.Metadata), public(d.Input), d.Triggers}
	case *pregel.TaskEnd:
		return TaskFinished{at, Record{d.Record}, d.Err, d.Pauses, d.Tried}
	case *pregel.Interrupted:
		return Interrupted{at, d.Pauses, d.Before, d.After}
	case *pregel.Abandoned:
		return Abandoned{at, taskStates(d.Tasks)}
	case *pregel.Checkpoint:
		return Checkpointed{at, *snapshot(d)}
	case *pregel.Span:
		return Lifecycle{at.labeled(d.Tags, d.Metadata), d.Event, d.Name, d.RunID, d.Parents, public(d.Input), public(d.Chunk), public(d.Output), d.Err}
	}
	panic(fmt.Sprintf("treadle: publish: unknown event %T", ev.Data)) // a test publishes one of each kind
}

// public converts the engine's records in v to public records.
func public(v any) any {
	switch v := v.(type) {
	case *pregel.Record:
		return Record{v}
	case map[string]*pregel.Record:
		out := make(map[string]any, len(v))
		for k, r := range v {
			out[k] = Record{r}
		}
		return out
	}
	return v
}
