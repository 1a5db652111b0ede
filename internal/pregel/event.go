package pregel

import (
	"errors"
	"slices"
	"time"

	"github.com/treadle-go/treadle/treadletype"
)

// Mode is a set of event kinds.
type Mode uint16

// The event kinds that a stream can carry.
const (
	ModeValues Mode = 1 << iota
	ModeUpdates
	ModeCustom
	ModeMessages
	ModeTasks
	ModeCheckpoints
	ModeDebug
	ModeEvents
	ModeWrites // lifecycle events of the input and of node writes

	// everywhere contains the modes whose subgraph events reach a stream even if it
	// did not request subgraphs.
	everywhere = ModeCustom | ModeMessages | ModeEvents | ModeWrites
)

// Event is an event of a run. It is small, because token streams contain many of
// them.
type Event struct {
	Mode  Mode
	At    *Origin
	Data  Data
	Value any // for a Token, the chunk; for a Custom, the emitted value
}

// Data describes what happened. It is one of the types with a Kind method below.
type Data interface{ Kind() Kind }

// Kind identifies a type of Data.
type Kind uint8

// The kinds of Data.
const (
	KindValues Kind = iota
	KindUpdated
	KindCustom
	KindToken
	KindTaskStart
	KindTaskEnd
	KindInterrupted
	KindAbandoned
	KindCheckpoint
	KindSpan
	Kinds // the number of kinds
)

// Kind implements [Data].
func (*Values) Kind() Kind { return KindValues }

// Kind implements [Data].
func (*Updated) Kind() Kind { return KindUpdated }

// Kind implements [Data].
func (Custom) Kind() Kind { return KindCustom }

// Kind implements [Data].
func (*Token) Kind() Kind { return KindToken }

// Kind implements [Data].
func (*TaskStart) Kind() Kind { return KindTaskStart }

// Kind implements [Data].
func (*TaskEnd) Kind() Kind { return KindTaskEnd }

// Kind implements [Data].
func (*Interrupted) Kind() Kind { return KindInterrupted }

// Kind implements [Data].
func (*Abandoned) Kind() Kind { return KindAbandoned }

// Kind implements [Data].
func (*Checkpoint) Kind() Kind { return KindCheckpoint }

// Kind implements [Data].
func (*Span) Kind() Kind { return KindSpan }

// Origin is the source of an event. The tokens of a message share one.
type Origin struct {
	NS    []string // of the graph, outermost first
	Graph string
	Step  int
	Node  string    // "" for events of the graph itself
	Task  string    // task ID
	Time  time.Time // zero for tokens: reading the clock costs as much as a token
}

// Values is the state after a step.
type Values struct {
	Record *Record
	Pauses []Pause // pending interrupts of an interrupted run
}

// Updated contains the writes of a finished task.
type Updated struct {
	Record *Record
	Cached bool
}

// Custom is the event of a value emitted by a node.
type Custom struct{}

// Token describes a piece of a message, or a whole message. All pieces of a message
// share it.
type Token struct {
	Tags     []string
	Metadata map[string]any
	Whole    bool // a message returned by a node
}

// TaskStart reports a task that is about to run.
type TaskStart struct {
	Input    any // a *Record, or the input that was sent
	Triggers []string
	Tags     []string
	Metadata map[string]any
}

// TaskEnd reports a task that has run.
type TaskEnd struct {
	Record *Record
	Err    error
	Pauses []Pause // interrupts that stopped it
	Tried  *Tried  // nil after one attempt
}

// streams holds the receivers of a run's events.
type streams struct {
	sinks *Sink
	modes Mode  // the union of all sinks' modes
	span  *span // of the run, for lifecycle events
	trace *trace
}

// Sink receives the events of a stream. A subgraph run has a chain of sinks, one
// for each stream that it is part of.
type Sink struct {
	queue     *Queue
	modes     Mode
	subgraphs bool
	keys      []string // JSON names; nil means all
	ns        string   // of the run that opened the stream
	up        *Sink
	all       Mode // the modes that a subgraph run must report
}

// NewSink returns the sink of a new stream.
func NewSink(q *Queue, modes Mode, subgraphs bool, keys []string) *Sink {
	return &Sink{queue: q, modes: modes, subgraphs: subgraphs, keys: keys, all: expand(modes)}
}

// expand returns the modes whose events m requires. Debug consists of the events of
// two other modes.
func expand(m Mode) Mode {
	if m&ModeDebug != 0 {
		m |= ModeTasks | ModeCheckpoints
	}
	if m&ModeWrites != 0 {
		m |= ModeEvents // writes are node events
	}
	return m
}

// under attaches the stream of a subgraph run, if any, to the sinks of its parent.
func (s *Sink) under(up *Sink, ns string) *Sink {
	if s == nil && up == nil {
		return nil
	}
	out := &Sink{ns: ns, up: up}
	if s != nil {
		*out = *s
		out.ns, out.up = ns, up
	}
	for a := up; a != nil; a = a.up {
		if a.subgraphs {
			out.all |= expand(a.modes)
		}
		out.all |= a.modes & everywhere
	}
	return out
}

// emit sends an event to every stream that requested it.
func (r *Run) emit(mode Mode, ev Event) {
	for s := r.sinks; s != nil; s = s.up {
		if s.queue == nil {
			continue
		}
		if s.ns != r.ns() && !s.subgraphs && mode&everywhere == 0 {
			continue
		}
		if v, ok := ev.Data.(*Values); ok && s.keys != nil && len(v.Pauses) == 0 && !r.touched(s.keys) {
			continue
		}
		if s.modes&mode != 0 {
			s.push(mode, ev)
		}
		if s.modes&ModeDebug != 0 && mode&(ModeTasks|ModeCheckpoints) != 0 {
			s.push(ModeDebug, ev)
		}
	}
}

// push applies the stream's output keys and adds the event to its queue.
func (s *Sink) push(mode Mode, ev Event) {
	ev.Mode = mode
	if s.keys != nil {
		ev.Data = s.filter(ev.Data)
	}
	s.queue.push(&ev)
}

func (s *Sink) filter(data Data) Data {
	switch d := data.(type) {
	case *Values:
		return &Values{Record: d.Record.only(s.keys), Pauses: d.Pauses}
	case *Updated:
		return &Updated{Record: d.Record.only(s.keys), Cached: d.Cached}
	}
	return data
}

// event returns an event of the graph itself.
func (r *Run) event(data Data) Event {
	return Event{At: &Origin{NS: r.path(), Graph: r.plan.name, Step: r.step, Time: time.Now()}, Data: data}
}

// event returns an event of a task.
func (t *Task) event(data Data) Event {
	at := t.origin()
	at.Time = time.Now()
	return Event{At: at, Data: data}
}

func (t *Task) origin() *Origin {
	o := &Origin{NS: t.run.path(), Graph: t.run.plan.name, Step: t.step, Node: t.node.Name, Task: t.ID()}
	if t.handling {
		o.Node = "__error_handler__" + t.node.Name
	}
	return o
}

func (r *Run) emitValues() {
	chans := r.shown()
	if len(chans) < len(r.plan.schema.channels) && !slices.ContainsFunc(chans, func(c *channel) bool { return r.touched([]string{c.wire}) }) {
		return
	}
	r.emit(ModeValues, r.event(&Values{Record: r.plan.schema.record(r.slots, chans)}))
}

// shown returns the fields shown in Values events. A subgraph shows its output,
// unless it has its own stream.
func (r *Run) shown() []*channel {
	p := r.plan
	if r.parent() == nil || r.set.Sink != nil || p.schema.workflow || p.spec.Out == p.spec.State {
		return p.schema.channels
	}
	return p.output
}

func (t *Task) emitStart(sc *scope) {
	m := t.run.modes
	if m == 0 {
		return
	}
	if m&ModeEvents != 0 {
		t.spanStart(sc)
	}
	if m&ModeMessages != 0 {
		t.run.noteInputMessages(t)
	}
}

// emitStarts reports the tasks of a step before any of them runs: sends first, then
// nodes by name.
func (r *Run) emitStarts(tasks []*Task) {
	if r.modes&ModeTasks == 0 {
		return
	}
	say := func(t *Task) {
		if t.modes()&ModeTasks == 0 {
			return
		}
		start := &TaskStart{Triggers: t.node.triggers, Tags: t.node.Tags, Metadata: merged(r.set.Metadata, t.node.Metadata)}
		start.Tags = slices.Concat(r.set.Tags, t.node.Tags)
		if t.packet != nil {
			start.Triggers, start.Input = []string{"__pregel_push"}, t.packet.input
		} else {
			start.Input = t.inputRecord()
		}
		r.emit(ModeTasks, t.event(start))
	}
	for _, t := range tasks {
		if t.packet != nil {
			say(t)
		}
	}
	for _, t := range tasks {
		if t.packet == nil {
			say(t)
		}
	}
}

// Tags with a special meaning.
const (
	// TagHidden hides a task from the streams of updates and tasks. Its other
	// events appear as events of the task that called it.
	TagHidden = "langsmith:hidden"
	// TagNoStream excludes tokens from streams.
	TagNoStream = "nostream"
)

// modes returns the modes whose streams receive events of the task.
func (t *Task) modes() Mode {
	m := t.run.modes
	if m&(ModeUpdates|ModeTasks) != 0 && slices.Contains(t.node.Tags, TagHidden) {
		m &^= ModeUpdates | ModeTasks
	}
	return m
}

// inputRecord returns the fields that a PULL task reads, without those never
// written.
func (t *Task) inputRecord() *Record {
	r := t.run
	if t.node.nest != nil {
		chans := make([]*channel, len(t.node.nest.down))
		for i, p := range t.node.nest.down {
			chans[i] = p.parent
		}
		return r.plan.schema.record(r.slots, chans)
	}
	v := r.plan.views[t.node.view]
	if v.kind == viewMap {
		return r.plan.schema.record(r.slots, r.plan.public)
	}
	chans := make([]*channel, len(v.fields))
	for i := range v.fields {
		chans[i] = v.fields[i].ch
	}
	return r.plan.schema.record(r.slots, chans)
}

// emitFailure reports a failure before the node's error handler runs.
func (t *Task) emitFailure(err error) {
	if t.modes()&ModeTasks != 0 {
		t.run.emit(ModeTasks, t.event(&TaskEnd{Record: &Record{schema: t.run.plan.schema}, Err: err, Tried: t.tried()}))
	}
}

// written returns the task's writes as a record.
func (t *Task) written() *Record {
	s := t.run.plan.schema
	rec := &Record{schema: s, root: s.root, list: true, items: t.out.writes}
	if s.workflow {
		rec = &Record{schema: s, root: true}
		for _, w := range t.out.writes {
			if w.ch.wire == End {
				rec.items = []write{{ch: &channel{name: Root, wire: End, typ: w.ch.typ, upd: w.ch.upd}, val: w.val}}
			}
		}
	}
	return rec
}

func (t *Task) emitEnd(sc *scope, err error) {
	r := t.run
	if r.modes == 0 {
		return
	}
	rec := t.written()
	if r.modes&ModeEvents != 0 { // before the others, as in LangGraph
		t.spanEnd(sc, rec, err)
	}
	if err == nil {
		if r.modes&ModeMessages != 0 {
			r.emitOutputMessages(t)
		}
		if t.modes()&ModeUpdates != 0 {
			r.emit(ModeUpdates, t.event(&Updated{Record: rec, Cached: t.cached}))
		}
	}
	if t.modes()&ModeTasks != 0 && !treadletype.IsPause(err) && !t.aborted && !t.cached {
		end := &TaskEnd{Record: rec, Err: err}
		if !t.handling { // emitFailure has reported the attempts of the node
			end.Tried = t.tried()
		}
		r.emit(ModeTasks, t.event(end))
	}
}

// emitPaused reports the tasks of a step that ended with interrupts.
func (r *Run) emitPaused(tasks []*Task) {
	for _, t := range tasks {
		if _, asked := errors.AsType[*InterruptError](t.err); asked && t.modes()&ModeTasks != 0 && t.node != startNode { // the start was not reported
			r.emit(ModeTasks, t.event(&TaskEnd{Record: &Record{schema: r.plan.schema}, Pauses: t.paused(), Tried: t.tried()}))
		}
	}
}
