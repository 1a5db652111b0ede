package pregel

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// Mode is a set of kinds of events.
type Mode uint16

// The kinds of events that a stream may carry.
const (
	ModeValues Mode = 1 << iota
	ModeUpdates
	ModeCustom
	ModeTokens
	ModeTasks
	ModeCheckpoints
	ModeDebug
	ModeEvents
	ModeWrites // lifecycle events of the input and of what nodes write

	// everywhere are the modes that reach a stream from nested graphs even if
	// it did not ask for subgraphs.
	everywhere = ModeCustom | ModeTokens | ModeEvents | ModeWrites
)

// Event is one thing that happened.
type Event struct {
	Mode  Mode
	At    *Origin
	Time  time.Time // zero for tokens: they are many, and a clock costs as much as they do
	Data  any       // *Record, *Updated, *TaskStart, *TaskEnd, *Checkpoint, *Span, a chunk, or the value of a custom event
	Token *Token    // what is known about a chunk

	Pauses []Pause // of values: what an interrupted run waits for
}

// Origin says where events come from. Many events share one.
type Origin struct {
	NS    []string // of the graph, outermost first
	Graph string
	Step  int
	Node  string // "" for events of the graph itself
	Task  string // the task's id
}

// Updated is what a finished task wrote.
type Updated struct {
	Record *Record
	Cached bool
}

// TaskStart is a task about to run.
type TaskStart struct {
	Input    any // *Record, or what was sent
	Triggers []string
	Tags     []string
	Metadata map[string]any
}

// TaskEnd is a task that has run.
type TaskEnd struct {
	Record *Record
	Err    error
	Pauses []Pause // questions it has stopped with
}

// Token describes the message that chunks are pieces of.
type Token struct {
	Tags     []string
	Metadata map[string]any
}

// Sink is where a stream's events go. Nested runs have the chain of all
// streams they are part of.
type Sink struct {
	queue     *Queue
	modes     Mode
	subgraphs bool
	keys      []string // JSON names; nil: all
	ns        string   // of the run that opened the stream
	up        *Sink
	all       Mode // what a run below may have to report
}

// NewSink returns the sink of a new stream.
func NewSink(q *Queue, modes Mode, subgraphs bool, keys []string) *Sink {
	return &Sink{queue: q, modes: modes, subgraphs: subgraphs, keys: keys, all: expand(modes)}
}

// expand says which events are made for a set of modes: debug is made of the
// events of two others.
func expand(m Mode) Mode {
	if m&ModeDebug != 0 {
		m |= ModeTasks | ModeCheckpoints
	}
	if m&ModeWrites != 0 {
		m |= ModeEvents // writes are parts of what nodes do
	}
	return m
}

// under attaches a nested run's own stream, if it has one, to its parent's.
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

// emit hands an event to every stream that wants it.
func (r *Run) emit(mode Mode, ev Event) {
	for s := r.sinks; s != nil; s = s.up {
		if s.queue == nil {
			continue
		}
		if s.ns != r.ns() && !s.subgraphs && mode&everywhere == 0 {
			continue
		}
		if mode == ModeValues && s.keys != nil && len(ev.Pauses) == 0 && !r.touched(s.keys) {
			continue
		}
		if s.modes&mode != 0 {
			ev.Mode = mode
			s.queue.push(s.filter(ev))
		}
		if s.modes&ModeDebug != 0 && mode&(ModeTasks|ModeCheckpoints) != 0 {
			ev.Mode = ModeDebug
			s.queue.push(s.filter(ev))
		}
	}
}

// filter applies the stream's output keys.
func (s *Sink) filter(ev Event) Event {
	if s.keys == nil {
		return ev
	}
	switch d := ev.Data.(type) {
	case *Record:
		ev.Data = d.only(s.keys)
	case *Updated:
		ev.Data = &Updated{Record: d.Record.only(s.keys), Cached: d.Cached}
	}
	return ev
}

// event is an event of the graph itself.
func (r *Run) event(data any) Event {
	return Event{At: &Origin{NS: r.path(), Graph: r.plan.name, Step: r.step}, Data: data, Time: time.Now()}
}

// event is an event of a task.
func (t *Task) event(data any) Event {
	return Event{At: t.origin(), Data: data, Time: time.Now()}
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
	r.emit(ModeValues, r.event(r.plan.schema.record(r.slots, chans)))
}

// shown are the fields in events of values: of a nested graph those of its
// output, unless it is streamed by itself.
func (r *Run) shown() []*channel {
	p := r.plan
	if r.parent == nil || r.set.Sink != nil || p.schema.workflow || p.spec.Out == p.spec.State {
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
	if m&ModeTokens != 0 {
		t.run.seeInput(t)
	}
}

// announce reports the tasks of a step before any of them runs: sends first,
// then nodes by name.
func (r *Run) announce(tasks []*Task) {
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

// Tags with a meaning.
const (
	// TagHidden keeps a task out of the streams of updates and tasks. Its events
	// show as those of the task that called it.
	TagHidden = "langsmith:hidden"
	// TagNoStream keeps tokens out of streams.
	TagNoStream = "nostream"
)

// modes are the streams that hear of the task.
func (t *Task) modes() Mode {
	m := t.run.modes
	if m&(ModeUpdates|ModeTasks) != 0 && slices.Contains(t.node.Tags, TagHidden) {
		m &^= ModeUpdates | ModeTasks
	}
	return m
}

// inputRecord is what a PULL task reads: absent fields are absent.
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

// emitFailure reports a failure that an error handler is about to answer.
func (t *Task) emitFailure(err error) {
	if t.modes()&ModeTasks != 0 {
		t.run.emit(ModeTasks, t.event(&TaskEnd{Record: &Record{schema: t.run.plan.schema}, Err: err}))
	}
}

// written is what the task wrote.
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
	if err == nil {
		if r.modes&ModeTokens != 0 {
			r.seeOutput(t)
		}
		if t.modes()&ModeUpdates != 0 {
			r.emit(ModeUpdates, t.event(&Updated{Record: rec, Cached: t.cached}))
		}
	}
	if t.modes()&ModeTasks != 0 && !Bubbles(err) && !t.cached {
		r.emit(ModeTasks, t.event(&TaskEnd{Record: rec, Err: err}))
	}
	if r.modes&ModeEvents != 0 {
		t.spanEnd(sc, rec, err)
	}
}

// emitPaused reports the tasks of a step that have ended with questions.
func (r *Run) emitPaused(tasks []*Task) {
	for _, t := range tasks {
		if _, asked := errors.AsType[*InterruptError](t.err); asked && t.modes()&ModeTasks != 0 && t.node != startNode { // which nobody was told of
			r.emit(ModeTasks, t.event(&TaskEnd{Record: &Record{schema: r.plan.schema}, Pauses: t.paused()}))
		}
	}
}

// Queue carries events from the run to the reader of a stream. Writers wait
// while it is full; the reader takes everything there is at once.
type Queue struct {
	mu      sync.Mutex
	filled  sync.Cond
	drained sync.Cond
	events  []Event
	spare   []Event
	closed  bool
}

// queueLimit bounds how far a run may be ahead of its reader.
const queueLimit = 1024

// NewQueue returns an empty Queue.
func NewQueue() *Queue {
	q := &Queue{}
	q.filled.L, q.drained.L = &q.mu, &q.mu
	return q
}

func (q *Queue) push(ev Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.events) >= queueLimit && !q.closed {
		q.drained.Wait()
	}
	if q.closed {
		return
	}
	q.events = append(q.events, ev)
	if len(q.events) == 1 {
		q.filled.Signal()
	}
}

// Take waits for events and returns them all, or none once the queue is closed
// and empty. The slice is valid until the next call.
func (q *Queue) Take() []Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.events) == 0 && !q.closed {
		q.filled.Wait()
	}
	clear(q.spare)
	batch := q.events
	q.events, q.spare = q.spare[:0], batch
	q.drained.Broadcast()
	return batch
}

// Close ends the stream: what is in the queue can still be taken, later events
// are dropped.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
	q.drained.Broadcast()
}
