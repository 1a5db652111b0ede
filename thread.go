package treadle

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
)

// Thread is a handle on a conversation: a line of checkpoints that runs add
// to. It holds nothing itself; two handles with one id are the same thread.
type Thread[In, Out any] struct {
	g  *Graph[In, Out]
	id string
}

// ID is the thread's id.
func (t *Thread[In, Out]) ID() string { return t.id }

func (t *Thread[In, Out]) check() error {
	switch {
	case t.g.base.Saver == nil:
		return fmt.Errorf("graph %q: thread %q: %w", t.g.Name(), t.id, ErrNoSaver)
	case t.id == "":
		return fmt.Errorf("graph %q: %w", t.g.Name(), ErrNoThread)
	}
	return nil
}

// Run runs the graph with an input on top of the thread's state. Work that an
// earlier run left unfinished is given up for it.
func (t *Thread[In, Out]) Run(ctx context.Context, in In) (Out, error) {
	return t.invoke(ctx, t.g.input(in))
}

// Continue goes on from the thread's last checkpoint: after an error, after
// the step limit, after an update. Tasks that had finished do not run again.
func (t *Thread[In, Out]) Continue(ctx context.Context) (Out, error) {
	return t.invoke(ctx, pregel.Input{Continue: true})
}

func (t *Thread[In, Out]) invoke(ctx context.Context, in pregel.Input) (Out, error) {
	if err := t.check(); err != nil {
		var zero Out
		return zero, err
	}
	out, err := t.g.plan.Invoke(ctx, in, t.g.settings())
	return t.g.result(out), err
}

// Stream is Run as a stream; see [Graph.Stream].
func (t *Thread[In, Out]) Stream(ctx context.Context, in In, opts ...StreamOption) iter.Seq2[Event, error] {
	return t.stream(ctx, t.g.input(in), opts, t.g.finish)
}

// ContinueStream is Continue as a stream.
func (t *Thread[In, Out]) ContinueStream(ctx context.Context, opts ...StreamOption) iter.Seq2[Event, error] {
	return t.stream(ctx, pregel.Input{Continue: true}, opts, t.g.finish)
}

func (t *Thread[In, Out]) stream(ctx context.Context, in pregel.Input, opts []StreamOption, last func(Origin, any) Event) iter.Seq2[Event, error] {
	if err := t.check(); err != nil {
		return func(yield func(Event, error) bool) { yield(nil, err) }
	}
	return t.g.stream(ctx, in, opts, last)
}

// At returns a handle on the thread as of an earlier checkpoint. Continue on it
// runs again what came after, as a new branch; Run and Update begin a branch
// with an input or an edit. The old branch stays in the history, and the
// thread's head moves to the new one.
func (t *Thread[In, Out]) At(id checkpoint.ID) *Thread[In, Out] {
	return &Thread[In, Out]{g: t.g.With(runOption(func(s *pregel.Settings) { s.At = id })), id: t.id}
}

// Snapshot is a thread's state at a checkpoint.
type Snapshot struct {
	ID        checkpoint.ID
	Parent    checkpoint.ID // zero for the first
	Thread    string
	Values    Record
	Next      []string // nodes that are to run from here
	Tasks     []TaskState
	Step      int               // -1 for the first input
	Source    checkpoint.Source // what made it
	RunID     string
	Metadata  map[string]any
	Pauses    []Pause // open questions of all tasks
	CreatedAt time.Time

	around map[string]checkpoint.ID // of a nested graph's event: the checkpoints around it, by namespace
}

// TaskState is a task that is to run from a checkpoint, or has.
type TaskState struct {
	ID, Name string
	Error    string  // of its last try, if it failed
	Result   Record  // if it finished while another task of its step failed
	Pauses   []Pause // questions it waits with

	nested string // the namespace of the graph that it runs, if any
}

func snapshot(c *pregel.Checkpoint) *Snapshot {
	s := &Snapshot{ID: c.ID, Parent: c.Parent, Thread: c.Thread, Values: Record{c.Values}, Next: c.Next, Step: c.Step, Source: c.Source,
		RunID: c.RunID, Metadata: c.Metadata, CreatedAt: c.Time, around: c.Around}
	for _, t := range c.Tasks {
		s.Tasks = append(s.Tasks, TaskState{ID: t.ID, Name: t.Name, Error: t.Err, Result: Record{t.Done}, Pauses: t.Pauses, nested: t.Nested})
		s.Pauses = append(s.Pauses, t.Pauses...)
	}
	return s
}

// Read fills a struct with the state; see [Record.Read].
func (s *Snapshot) Read(dst any) error { return s.Values.Read(dst) }

// Has reports whether a field has been written.
func (s *Snapshot) Has(field string) bool { return s.Values.Has(field) }

// State returns the thread's present state. A thread that does not exist has a
// Snapshot without ID and values.
func (t *Thread[In, Out]) State(ctx context.Context) (*Snapshot, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	set := t.g.settings()
	cp, err := t.g.plan.State(ctx, set, set.At)
	if err != nil || cp == nil {
		return &Snapshot{Thread: t.id}, err
	}
	return snapshot(cp), nil
}

// A HistoryOption selects checkpoints.
type HistoryOption func(*checkpoint.Query)

// Limit selects the newest n checkpoints.
func Limit(n int) HistoryOption { return func(q *checkpoint.Query) { q.Limit = n } }

// Earlier selects checkpoints made before the given one.
func Earlier(id checkpoint.ID) HistoryOption { return func(q *checkpoint.Query) { q.Before = id } }

// Having selects checkpoints whose metadata has these values.
func Having(metadata map[string]any) HistoryOption {
	return func(q *checkpoint.Query) { q.Metadata = metadata }
}

// History yields the thread's checkpoints, newest first.
func (t *Thread[In, Out]) History(ctx context.Context, opts ...HistoryOption) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) {
		if err := t.check(); err != nil {
			yield(nil, err)
			return
		}
		var q checkpoint.Query
		for _, o := range opts {
			o(&q)
		}
		for cp, err := range t.g.plan.History(ctx, t.g.settings(), q) {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(snapshot(cp), nil) {
				return
			}
		}
	}
}

// An UpdateOption configures an update.
type UpdateOption func(*updateConfig)

type updateConfig struct{ as string }

// AsNode makes an update as if the named node had written it: what follows
// that node is next.
func AsNode(name string) UpdateOption { return func(c *updateConfig) { c.as = name } }

// Update edits the thread's state. values is what a node of the graph could
// return: a struct of fields, an [Update], a [Command], or nil to write nothing. It goes
// through the fields' reducers and returns the new checkpoint.
func (t *Thread[In, Out]) Update(ctx context.Context, values any, opts ...UpdateOption) (checkpoint.ID, error) {
	return t.update(ctx, values, opts)
}

func (t *Thread[In, Out]) update(ctx context.Context, values any, opts []UpdateOption) (checkpoint.ID, error) {
	if err := t.check(); err != nil {
		return checkpoint.ID{}, err
	}
	var c updateConfig
	for _, o := range opts {
		o(&c)
	}
	return t.g.plan.Update(ctx, t.g.settings(), values, c.as)
}

// RunJSON is Run with JSON in and out; a nil input is Continue.
func (t *Thread[In, Out]) RunJSON(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	if t.id != "" {
		if err := t.check(); err != nil {
			return nil, err
		}
	}
	return t.g.runJSON(ctx, input)
}

// StreamJSON is Stream with a JSON input; a nil input is Continue. The last
// event is a Finished[json.RawMessage].
func (t *Thread[In, Out]) StreamJSON(ctx context.Context, input json.RawMessage, opts ...StreamOption) iter.Seq2[Event, error] {
	if t.id != "" {
		if err := t.check(); err != nil {
			return func(yield func(Event, error) bool) { yield(nil, err) }
		}
	}
	return t.g.streamJSON(ctx, input, opts)
}

// UpdateJSON is Update with JSON values by JSON name; null writes nothing.
func (t *Thread[In, Out]) UpdateJSON(ctx context.Context, values json.RawMessage, opts ...UpdateOption) (checkpoint.ID, error) {
	return t.update(ctx, values, opts)
}
