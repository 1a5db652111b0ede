package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/internal/delay"
)

// GraphOptions configures a [Graph]. A nil *GraphOptions means the defaults, as does
// the zero value.
type GraphOptions struct {
	Config   map[string]any // of the runs; see RunCreate.Config
	Context  any            // of the runs
	Metadata map[string]any // of the runs
	// TTL controls how long the server keeps the threads that the graph creates as a
	// node; nil means the server's default.
	TTL *TTL
}

// A Graph is a graph on a server, with Go types. In is sent, and Out is received, as
// JSON.
type Graph[In, Out any] struct{ remote }

// remote is a Graph without its types.
type remote struct {
	c         *Client
	assistant string
	thread    string // "" if none is bound
	o         GraphOptions
}

// NewGraph returns the graph of an assistant, identified by its ID or a graph name. It
// does not contact the server.
func NewGraph[In, Out any](c *Client, assistant string, opts *GraphOptions) *Graph[In, Out] {
	return &Graph[In, Out]{remote{c: c, assistant: assistant, o: *orEmpty(opts)}}
}

// Thread returns the graph bound to a thread on the server, which the first run
// creates. Its runs share the state of the thread. The ID must be a UUID.
func (g *Graph[In, Out]) Thread(id string) *Graph[In, Out] {
	out := *g
	out.thread = id
	return &out
}

// Run runs the graph and returns its output. If the graph is interrupted, Run returns a
// [*treadle.InterruptError]; on a thread, call Resume to continue. If the run fails, Run returns a
// [*RunError].
//
// Run has the signature of a node. In a node of a graph on a thread, it is durable: it uses a remote thread
// that belongs to the node's task, its result is recorded, and if the node runs again, it continues with the
// remote run that it has started. The node interrupts with the remote graph's interrupts, and the answers are
// sent to the remote thread. The remote thread is kept; its metadata identifies the thread, graph, and node
// that created it as "treadle_thread", "treadle_graph", and "treadle_node". When ctx is done, the remote run
// is canceled, and it continues when the node runs again.
func (g *Graph[In, Out]) Run(ctx context.Context, in In) (Out, error) {
	info := treadle.InfoFrom(ctx)
	if info.Thread == "" {
		return decoded[Out](g.once(ctx, &RunCreate{Input: in}))
	}
	// The task has the name of the node, so that an interrupt names its node.
	call := treadle.NewTask(info.Node, func(ctx context.Context, _ struct{}) (json.RawMessage, error) {
		return g.durable(ctx, info, in)
	}, treadle.Tags(treadle.TagHidden))
	return decoded[Out](call.Run(ctx, struct{}{}))
}

// Resume answers the pending interrupt of the graph's thread, or several with
// [treadle.Answers], and continues the run.
func (g *Graph[In, Out]) Resume(ctx context.Context, answer any) (Out, error) {
	if g.thread == "" {
		var zero Out
		return zero, fmt.Errorf("client: graph %s: resume: %w", g.assistant, treadle.ErrNoThread)
	}
	if answer == nil {
		answer = json.RawMessage("null")
	}
	return decoded[Out](g.once(ctx, &RunCreate{Command: &Command{Resume: answer}}))
}

// Continue continues from the state of the graph's thread: after an error, at a
// breakpoint, or after an edit.
func (g *Graph[In, Out]) Continue(ctx context.Context) (Out, error) {
	if g.thread == "" {
		var zero Out
		return zero, fmt.Errorf("client: graph %s: continue: %w", g.assistant, treadle.ErrNoThread)
	}
	return decoded[Out](g.once(ctx, &RunCreate{}))
}

// Stream runs the graph and yields its events in the given modes, including the events
// of subgraphs; no modes means "updates". If the graph is interrupted, the last error
// is a [*treadle.InterruptError].
func (g *Graph[In, Out]) Stream(ctx context.Context, in In, modes ...string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { g.stream(ctx, in, modes, yield) }
}

func decoded[Out any](raw json.RawMessage, err error) (Out, error) {
	var out Out
	if err != nil || len(raw) == 0 {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, fmt.Errorf("client: decode output %s as %T: %w", abridged(raw), out, err)
	}
	return out, nil
}

// fill adds the graph's settings and the task's key to a run.
func (t *task) fill(o *RunCreate) {
	o.Assistant = t.assistant
	o.Config = t.o.Config
	o.Context = t.o.Context
	o.Metadata = with(t.o.Metadata, taskKey, t.key)
}

// once runs the graph. If no thread is bound, it creates one, so that the result
// survives a broken connection, and deletes it afterward.
func (g *remote) once(ctx context.Context, o *RunCreate) (json.RawMessage, error) {
	t, err := g.newTask()
	if err != nil {
		return nil, err
	}
	defer func() { t.leave(ctx, ctx.Err() != nil) }()
	o.IfNotExists = "create"
	if err := t.begin(ctx, o, "run"); err != nil {
		return nil, err
	}
	values, state, err := t.join(ctx)
	if err != nil {
		return nil, err
	}
	if err := g.stopped(ctx, state, t.temporary); err != nil {
		return nil, err
	}
	return values, nil
}

// stopped returns the error for a state that waits for input.
func (g *remote) stopped(ctx context.Context, state *State, own bool) error {
	var err error
	switch {
	case len(state.Interrupts) > 0:
		err = &treadle.InterruptError{Graph: g.assistant, Pauses: state.Interrupts}
	case len(state.Next) > 0:
		err = &treadle.InterruptError{Graph: g.assistant, Before: state.Next}
	default:
		return nil
	}
	switch {
	case treadle.InfoFrom(ctx).TaskID != "": // this is not an interrupt of the enclosing run
		return fmt.Errorf("client: %s: %w", err.Error(), treadle.ErrNoThread)
	case own:
		return fmt.Errorf("client: remote graph has no thread, so it cannot resume: use Graph.Thread: %w", err)
	}
	return err
}

func (g *remote) stream(ctx context.Context, in any, modes []string, yield func(Event, error) bool) {
	t, err := g.newTask()
	if err != nil {
		yield(Event{}, err)
		return
	}
	if len(modes) == 0 {
		modes = []string{"updates"}
	}
	o := &RunCreate{Input: in, IfNotExists: "create", StreamMode: modes, Subgraphs: true}
	t.fill(o)
	left, failed := false, false
	defer func() { t.leave(ctx, left || ctx.Err() != nil) }()
	g.c.Runs.stream(ctx, t.thread, o, func() { treadle.Heartbeat(ctx) }, func(ev Event, err error) bool {
		failed = err != nil
		left = !yield(ev, err)
		return !left
	})
	if left || failed {
		return
	}
	state, err := g.c.Threads.State(ctx, t.thread, nil)
	if err == nil {
		err = g.stopped(ctx, state, t.temporary)
	}
	if err != nil {
		yield(Event{}, err)
	}
}

// nodeThreads is the UUID namespace of the IDs of threads that nodes create.
var nodeThreads = uuid.MustParse("8f2ba0f4-31ab-4d2c-9a7e-4be0c8f5b1a6")

// task is an execution of a remote graph. Its runs can be found by its key.
type task struct {
	*remote
	thread    string
	own       bool // the task is the thread's only user
	temporary bool // the thread is deleted at the end
	key       string
	run       string // the run found or created last
}

// newTask returns an execution that cannot be found again later.
func (g *remote) newTask() (*task, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, err
	}
	t := &task{remote: g, thread: g.thread, key: id.String()}
	if t.thread == "" {
		t.thread, t.own, t.temporary = id.String(), true, true
	}
	return t, nil
}

// leaveTime limits the work on the server after the caller has gone.
const leaveTime = 5 * time.Second

// leave cancels the run of a task whose caller has gone, and deletes a temporary
// thread. If that fails, the run ends by itself.
func (t *task) leave(ctx context.Context, gone bool) {
	if !gone && !t.temporary {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if gone {
		// The run may have been created even if the response has not arrived.
		if made, err := t.made(ctx); err == nil && len(made) > 0 {
			_ = t.c.Runs.Cancel(ctx, t.thread, made[0].ID, nil)
		}
	}
	if t.temporary {
		_ = t.c.Threads.Delete(ctx, t.thread)
	}
}

// join waits until the task's run ends and returns its values and the state of the
// thread.
func (t *task) join(ctx context.Context) (json.RawMessage, *State, error) {
	values, err := t.c.Runs.join(ctx, ref{t.thread, t.run}, func() { treadle.Heartbeat(ctx) })
	if err != nil {
		return nil, nil, err
	}
	state, err := t.c.Threads.State(ctx, t.thread, nil)
	return values, state, err
}

// durable runs the graph for a task of a node. A task that runs again continues where
// it stopped.
func (g *remote) durable(ctx context.Context, node treadle.Info, in any) (json.RawMessage, error) {
	t := &task{remote: g, thread: g.thread, key: treadle.InfoFrom(ctx).IdempotencyKey}
	if err := t.open(ctx, node); err != nil {
		return nil, err
	}
	defer func() { t.leave(ctx, ctx.Err() != nil) }()
	o, why := &RunCreate{Input: in}, "input"
	made, err := t.made(ctx)
	if err != nil {
		return nil, err
	}
	found := false
	if len(made) > 0 {
		t.run, why = made[0].ID, "continue "+made[0].ID
		if o, err = t.resumed(ctx, made, in); err != nil {
			return nil, err
		}
		found = o == nil
	}
	for {
		if o != nil {
			if err := t.begin(ctx, o, why); err != nil {
				return nil, err
			}
		}
		values, state, err := t.join(ctx)
		if err != nil {
			return nil, err
		}
		if found { // an earlier attempt may have canceled the run, which has ended only now
			found = false
			if made, err = t.made(ctx); err == nil && len(made) > 0 {
				o, err = t.resumed(ctx, made, in)
			}
			if err != nil {
				return nil, err
			}
			if o != nil {
				continue
			}
		}
		if len(state.Interrupts) == 0 {
			if len(state.Next) > 0 {
				return nil, fmt.Errorf("client: graph %s: run %s stopped before %q: breakpoints are not supported in a node", g.assistant, t.run, state.Next)
			}
			return values, nil
		}
		if o, err = t.ask(ctx, t.run, state.Interrupts); err != nil {
			return nil, err
		}
		why = "resume " + t.run
	}
}

// open creates the thread of the task unless it exists.
func (t *task) open(ctx context.Context, node treadle.Info) error {
	if t.thread != "" {
		_, err := t.c.Threads.Create(ctx, &ThreadCreate{ID: t.thread, IfExists: "do_nothing"})
		return err
	}
	t.own = true
	t.thread = uuid.NewSHA1(nodeThreads, []byte(t.key+" "+t.assistant)).String()
	_, err := t.c.Threads.Create(ctx, &ThreadCreate{ID: t.thread, IfExists: "do_nothing", TTL: t.o.TTL, Metadata: map[string]any{
		"treadle_thread": node.Thread, "treadle_graph": node.Graph, "treadle_node": node.Node}})
	return err
}

// taskKey is the metadata key of a run that holds its task's key.
const taskKey = "treadle_task"

// made returns the runs that the task has created, newest first.
func (t *task) made(ctx context.Context) ([]Run, error) {
	runs, err := t.c.Runs.List(ctx, t.thread, &RunList{Limit: 100})
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return slices.DeleteFunc(runs, func(r Run) bool { return r.Metadata[taskKey] != t.key }), err
}

// resumed returns the run that continues after the last run, if that has failed or was
// canceled. It returns nil if the last run is unfinished or has succeeded.
func (t *task) resumed(ctx context.Context, made []Run, in any) (*RunCreate, error) {
	switch made[0].Status {
	case "error", "timeout", "interrupted":
	default:
		return nil, nil
	}
	state, err := t.c.Threads.State(ctx, t.thread, nil)
	if err != nil {
		return nil, err
	}
	asker := slices.IndexFunc(made, func(r Run) bool { return r.Status == "success" })
	switch {
	case state.Checkpoint == nil: // it had not saved its input yet
		return &RunCreate{Input: in}, nil
	case len(state.Interrupts) > 0 && asker >= 0: // the answer may not have arrived
		return t.ask(ctx, made[asker].ID, state.Interrupts)
	}
	return &RunCreate{}, nil
}

// begin creates a run. If the outcome is unknown, it searches for the run.
func (t *task) begin(ctx context.Context, o *RunCreate, why string) error {
	t.fill(o)
	o.Key = t.key + " " + why
	if t.own {
		o.Strategy = "reject" // any other run there belongs to an earlier attempt
	}
	before := t.run
	for attempt := 1; ; attempt++ {
		run, err := t.c.Runs.Create(ctx, t.thread, o)
		if err == nil {
			t.run = run.ID
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, ErrConflict) && !t.c.retry.Retryable(err) {
			return err
		}
		made, lookErr := t.made(ctx)
		if lookErr != nil {
			return errors.Join(err, lookErr)
		}
		if len(made) > 0 && made[0].ID != before {
			t.run = made[0].ID
			return nil
		}
		pause, more := t.c.retry.Wait(attempt)
		if !more || errors.Is(err, ErrConflict) {
			return err
		}
		if delay.For(ctx, pause) != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// ask interrupts the node with the remote graph's interrupts, and returns the run
// that answers them. asker is the interrupted run. Each interrupt is asked once, so
// an answer is never mistaken for the answer to another interrupt.
func (t *task) ask(ctx context.Context, asker string, questions []treadle.Pause) (*RunCreate, error) {
	answers := map[string]json.RawMessage{}
	var asked error
	for _, q := range questions {
		value := q.Value
		if len(value) == 0 {
			value = json.RawMessage("null")
		}
		answer, err := treadle.Interrupt[json.RawMessage](ctx, treadle.Question{Value: value, Key: asker + " " + q.ID})
		if err != nil && asked == nil {
			asked = err
		}
		answers[q.ID] = answer
	}
	return &RunCreate{Command: &Command{Resume: answers}}, asked
}
