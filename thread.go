package treadle

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/treadletype"
)

// A Thread is a handle to a thread: a series of checkpoints that runs add to. The
// handle holds no state; two handles with the same ID refer to the same thread.
type Thread[In, Out any] struct {
	handle
	g *Graph[In, Out]
}

// handle is the part of a Thread that does not depend on its type parameters; see core.
// Thread has a method for each exported method of handle.
type handle struct {
	core core
	id   string
}

// ID returns the thread's ID.
func (t *Thread[In, Out]) ID() string { return t.id }

func (t *handle) check(ctx context.Context) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("graph %q: thread %q: %w", t.core.Name(), t.id, pregel.ErrNilContext)
	case t.core.base.Saver == nil:
		return fmt.Errorf("graph %q: thread %q: %w", t.core.Name(), t.id, ErrNoSaver)
	case t.id == "":
		return fmt.Errorf("graph %q: %w", t.core.Name(), ErrNoThread)
	}
	return nil
}

// Run runs the graph with an input on the thread's state. If the previous run was
// interrupted or failed, its unfinished tasks are abandoned; see [Abandoned].
func (t *Thread[In, Out]) Run(ctx context.Context, in In) (Out, error) {
	return t.invoke(ctx, t.g.input(in))
}

// Continue continues from the thread's latest checkpoint: after an error, at the step
// limit, at a breakpoint, or after an update. Finished tasks do not run again.
func (t *Thread[In, Out]) Continue(ctx context.Context, opts ...ContinueOption) (Out, error) {
	in, err := t.continueInput(pregel.Input{Continue: true}, opts)
	if err != nil {
		var zero Out
		return zero, err
	}
	return t.invoke(ctx, in)
}

// A ContinueOption configures Continue and Resume, and their streams.
type ContinueOption interface {
	StreamOption
	continuation(*pregel.Input)
}

type continueOption func(*pregel.Input)

func (f continueOption) continuation(in *pregel.Input) { f(in) }
func (f continueOption) stream(c *streamConfig)        { c.goOn = append(c.goOn, f) }

// WithUpdate updates the state before the thread continues. values is anything that a node
// may return, as for [Thread.Update]. Unlike an update with [AsNode], it does not
// replace the nodes that run next; a goto, alone or in a [Command], adds nodes.
func WithUpdate(values any) ContinueOption {
	return continueOption(func(in *pregel.Input) { in.Also = values })
}

func (t *handle) continueInput(in pregel.Input, opts []ContinueOption) (pregel.Input, error) {
	for i, o := range opts {
		if o == nil {
			return in, nilOption(t.core.Name(), "continue", i, len(opts))
		}
		o.continuation(&in)
	}
	return in, nil
}

func (t *Thread[In, Out]) invoke(ctx context.Context, in pregel.Input) (Out, error) {
	if err := t.check(ctx); err != nil {
		var zero Out
		return zero, err
	}
	out, err := t.core.plan.Invoke(ctx, in, t.core.settings())
	return t.g.result(out), err
}

// Stream is like Run, but yields events; see [Graph.Stream].
func (t *Thread[In, Out]) Stream(ctx context.Context, in In, opts ...StreamOption) iter.Seq2[Event, error] {
	return t.stream(ctx, t.g.input(in), opts, t.g.finish)
}

// ContinueStream is like Continue, but yields events. It also accepts the options of
// Continue.
func (t *Thread[In, Out]) ContinueStream(ctx context.Context, opts ...StreamOption) iter.Seq2[Event, error] {
	return t.stream(ctx, pregel.Input{Continue: true}, opts, t.g.finish)
}

func (t *handle) stream(ctx context.Context, in pregel.Input, opts []StreamOption, last func(Origin, any) Event) iter.Seq2[Event, error] {
	if err := t.check(ctx); err != nil {
		return func(yield func(Event, error) bool) { yield(nil, err) }
	}
	return t.core.stream(ctx, in, opts, last)
}

// At returns a handle to the thread at an earlier checkpoint. Calling Continue on
// it reruns the following steps as a fork; Run and Update start a fork
// with an input or an edit. The original steps remain in the history, and the fork
// becomes the thread's current state.
func (t *Thread[In, Out]) At(id checkpoint.ID) *Thread[In, Out] {
	return &Thread[In, Out]{handle: t.at(id), g: t.g}
}

func (t *handle) at(id checkpoint.ID) handle {
	at := runOption(func(s *pregel.Settings) { s.At = id })
	return handle{core: t.core.with([]RunOption{at}), id: t.id}
}

// A Snapshot is the state of a thread at a checkpoint.
type Snapshot struct {
	ID        checkpoint.ID     // of the checkpoint; zero if the thread has none
	Parent    checkpoint.ID     // zero for the first
	Thread    string            // the thread's ID
	Namespace []string          // of a subgraph; see [Thread.Nested]
	State     Record            // the fields that have been written; read them with [Record.Read]
	Next      []string          // the nodes that run next
	Tasks     []TaskState       // the tasks of the nodes in Next
	Writes    []TaskState       // the tasks of the previous step with their results, the edits, or the input
	Step      int               // -1 for the first input
	Source    checkpoint.Source // its origin: an input, a step, an update, or a copy
	RunID     string            // the ID that [RunID], or a server, gave the run that saved the checkpoint
	Metadata  map[string]any    // of the run; "__abandoned__" lists abandoned tasks, see [Abandoned]
	Pauses    []Pause           // what the tasks wait for: answers, signals, and times
	CreatedAt time.Time         // when the checkpoint was made

	around map[string]checkpoint.ID // for an event of a subgraph: the parent graphs' checkpoints, by namespace
}

// A TaskState is a task of a checkpoint that runs next or has run.
type TaskState struct {
	ID, Name string    // tasks in Writes have no ID
	Error    string    // of the last attempt, if it failed
	Result   Record    // of a finished task; a state has it only while other tasks of the step are unfinished
	Pauses   []Pause   // what it waits for
	Graph    *Snapshot // the state of the subgraph that the task runs, if the subgraph has started

	nested string // the namespace of the subgraph that it runs, if any
	sent   int    // its index among the sends of the step, or -1
	tried  *pregel.Tried
}

func snapshot(c *pregel.Checkpoint) *Snapshot {
	s := &Snapshot{ID: c.ID, Parent: c.Parent, Thread: c.Thread, State: Record{c.Values}, Next: c.Next, Step: c.Step, Source: c.Source,
		RunID: c.RunID, Metadata: c.Metadata, CreatedAt: c.Time, around: c.Around}
	if c.Namespace != "" {
		s.Namespace = strings.Split(c.Namespace, "|")
	}
	for _, t := range c.Made {
		s.Writes = append(s.Writes, TaskState{Name: t.Name, Result: Record{t.Done}})
	}
	for _, t := range c.Tasks {
		s.Pauses = append(s.Pauses, t.Pauses...)
	}
	s.Tasks = taskStates(c.Tasks)
	return s
}

func taskStates(tasks []pregel.TaskInfo) (out []TaskState) {
	for _, t := range tasks {
		var inner *Snapshot
		if t.Graph != nil {
			inner = snapshot(t.Graph)
		}
		out = append(out, TaskState{
			Graph:  inner,
			ID:     t.ID,
			Name:   t.Name,
			Error:  t.Err,
			Result: Record{t.Done},
			Pauses: t.Pauses,
			nested: t.Nested,
			sent:   t.Sent,
			tried:  t.Tried,
		})
	}
	return out
}

// Read decodes the state into dst: a pointer to a struct or, for a workflow, to its
// result. See [Record.Read].
func (s *Snapshot) Read(dst any) error { return s.State.Read(dst) }

// Has reports whether a field has been written.
func (s *Snapshot) Has(field string) bool { return s.State.Has(field) }

// State returns the thread's current state. If the thread does not exist, it returns
// a Snapshot with a zero ID and an empty state.
func (t *Thread[In, Out]) State(ctx context.Context) (*Snapshot, error) { return t.handle.State(ctx) }

// State implements [Thread.State].
func (t *handle) State(ctx context.Context) (*Snapshot, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	cp, err := t.core.plan.State(ctx, t.core.settings())
	if err != nil || cp == nil {
		return &Snapshot{Thread: t.id}, err
	}
	return snapshot(cp), nil
}

// HistoryOptions selects checkpoints of a thread. The zero value and a nil
// *HistoryOptions select all of them.
type HistoryOptions struct {
	Limit    int                 // the maximum number, newest first; 0 means no limit
	Before   checkpoint.ID       // only checkpoints before this one; the zero ID means all
	Metadata map[string]any      // only checkpoints with these metadata values
	Sources  []checkpoint.Source // only checkpoints from these sources; empty means all
	Step     *int                // only checkpoints of this step, one per fork; nil means all
}

// History yields the thread's checkpoints, newest first. A nil opts selects all of them.
func (t *Thread[In, Out]) History(ctx context.Context, opts *HistoryOptions) iter.Seq2[*Snapshot, error] {
	return t.handle.History(ctx, opts)
}

// History implements [Thread.History].
func (t *handle) History(ctx context.Context, opts *HistoryOptions) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) { t.yieldHistory(ctx, opts, yield) }
}

// yieldHistory is separate from History for the same reason as [core.yieldEvents].
func (t *handle) yieldHistory(ctx context.Context, opts *HistoryOptions, yield func(*Snapshot, error) bool) {
	if err := t.check(ctx); err != nil {
		yield(nil, err)
		return
	}
	if opts == nil {
		opts = &HistoryOptions{}
	}
	q := pregel.Query{Sources: opts.Sources, Step: opts.Step}
	q.Limit, q.Before, q.Metadata = opts.Limit, opts.Before, opts.Metadata
	for cp, err := range t.core.plan.History(ctx, t.core.settings(), q) {
		if err != nil {
			yield(nil, err)
			return
		}
		if !yield(snapshot(cp), nil) {
			return
		}
	}
}

// An UpdateOption configures an update.
type UpdateOption interface{ update(*Edit) }

type updateOption func(*Edit)

func (f updateOption) update(e *Edit) { f(e) }

// AsNode attributes an update to a node: the nodes that follow that node run next. Four
// names are special:
//
//   - [Start]: the first nodes run next, as after an input.
//   - [End]: no node runs next. The update must have no values.
//   - [InputNode]: the values are an input that the thread reads when it is
//     continued.
//   - [CopyNode]: copies the checkpoint. The copy has the same parent and can be
//     run or edited instead of the original. Its questions are asked again. The
//     update must have no values.
func AsNode(node NodeRef) UpdateOption {
	return updateOption(func(e *Edit) { e.As = nameOf(node) })
}

// Update edits the thread's state and returns the ID of the new checkpoint. values is anything
// that a node of the graph may return: a struct of fields, an [Update], a [Command], a
// [Goto], or nil to write nothing. Reducers apply. For a workflow, values is anything that
// the workflow may return. [AsNode] attributes the update to a node.
func (t *Thread[In, Out]) Update(ctx context.Context, values any, opts ...UpdateOption) (checkpoint.ID, error) {
	return t.update(ctx, values, opts)
}

func (t *handle) update(ctx context.Context, values any, opts []UpdateOption) (checkpoint.ID, error) {
	if err := t.check(ctx); err != nil {
		return checkpoint.ID{}, err
	}
	edit := Edit{Values: values}
	for i, o := range opts {
		if o == nil {
			return checkpoint.ID{}, nilOption(t.core.Name(), "update", i, len(opts))
		}
		o.update(&edit)
	}
	return t.core.plan.Update(ctx, t.core.settings(), [][]Edit{{edit}})
}

// An Edit is one update of a thread, applied as if a node had written it.
// [Thread.BulkUpdate] takes lists of edits. See [treadletype.Edit].
//
//	Values any
//	As     string
//
// Fields:
//   - Values is any value that a node could return; nil writes nothing.
//   - As is the node's name; empty means the last node that wrote, if there is only one.
type Edit = treadletype.Edit

// BulkUpdate makes several updates and returns the ID of the last checkpoint. Each list of
// edits is one step with one checkpoint. If a step has several edits, each must name its
// node.
func (t *Thread[In, Out]) BulkUpdate(ctx context.Context, steps ...[]Edit) (checkpoint.ID, error) {
	return t.handle.BulkUpdate(ctx, steps...)
}

// BulkUpdate implements [Thread.BulkUpdate].
func (t *handle) BulkUpdate(ctx context.Context, steps ...[]Edit) (checkpoint.ID, error) {
	if err := t.check(ctx); err != nil {
		return checkpoint.ID{}, err
	}
	return t.core.plan.Update(ctx, t.core.settings(), steps)
}

// Nested returns a handle to a subgraph of the thread, by the namespace that
// events and snapshots show. Without a namespace, it returns the thread itself. It
// returns [checkpoint.ErrNotFound] if no node of the graph has the namespace.
//
// State, History, and Update of the handle apply to the subgraph. Continue
// and Resume run the whole thread. After At, they return to a checkpoint of the
// subgraph: the thread forks at the step in which the subgraph ran, the
// subgraph continues from its state at that checkpoint, and
// the other tasks of that step run again. Update after At edits the subgraph on
// a fork. Run returns an error, because a subgraph gets its input from its parent graph.
func (t *Thread[In, Out]) Nested(namespace ...string) (*Thread[In, Out], error) {
	h, err := t.nested(namespace)
	if err != nil {
		return nil, err
	}
	return &Thread[In, Out]{handle: h, g: t.g}, nil
}

func (t *handle) nested(namespace []string) (handle, error) {
	if err := t.check(context.Background()); err != nil {
		return handle{}, err
	}
	if _, err := t.core.plan.Nested(namespace); err != nil {
		return handle{}, err
	}
	in := runOption(func(s *pregel.Settings) { s.NS, s.At = strings.Join(namespace, "|"), checkpoint.ID{} })
	return handle{core: t.core.with([]RunOption{in}), id: t.id}, nil
}
