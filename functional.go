package treadle

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/treadle-go/treadle/internal/plainjson"
	"github.com/treadle-go/treadle/internal/pregel"
)

// A Task is a function whose result is recorded. It is called in a workflow or in a
// node. When the run is retried or resumed, the call returns the recorded result, and
// the function does not run again. Results are saved as JSON; each call returns a
// new copy.
type Task[In, Out any] struct {
	name string
	fn   func(context.Context, In) (Out, error)
	spec pregel.NodeSpec
}

// NewTask returns a task. It accepts the options [Retry], [Timeout], [IdleTimeout],
// [HeartbeatOnly], [Cache], [CacheBy], [Tags], and [Metadata]. With any other option, calls
// of the task return an error.
func NewTask[In, Out any](name string, fn func(context.Context, In) (Out, error), opts ...NodeOption) *Task[In, Out] {
	t := &Task[In, Out]{name: name, fn: fn}
	configure(&t.spec, opts)
	for _, name := range t.spec.Beyond() {
		if name != "Tags" && name != "Metadata" {
			t.spec.Errs = append(t.spec.Errs, name+" has no effect on a task")
		}
	}
	if t.spec.Cache != nil && fn != nil {
		t.spec.Func = pregel.NewFunc(fn)
	}
	return t
}

// Name returns the task's name.
func (t *Task[In, Out]) Name() string { return t.name }

// Go starts the task and returns immediately. A workflow or node must start its tasks in the
// same order each time it runs. The task does not start after an interrupt or wait of
// the node, or if ctx or the run's context has ended; see [Do].
func (t *Task[In, Out]) Go(ctx context.Context, in In) *Future[Out] {
	if t.fn == nil || t.name == "" {
		return &Future[Out]{err: fmt.Errorf("task %q: missing name or function", t.name)}
	}
	if len(t.spec.Errs) > 0 {
		return &Future[Out]{err: fmt.Errorf("task %q: %s", t.name, t.spec.Errs[0])}
	}
	return &Future[Out]{f: pregel.StartCall(ctx, &pregel.CallSpec{Name: t.name, In: in, Options: &t.spec,
		Fn: func(ctx context.Context, in any) (any, error) { return boxed(t.fn(ctx, unbox[In](in))) }}), ctx: ctx}
}

// Run runs the task and waits for its result.
func (t *Task[In, Out]) Run(ctx context.Context, in In) (Out, error) { return t.Go(ctx, in).Wait() }

// A Future is the result of a task that may still be running.
type Future[Out any] struct {
	f   *pregel.Future
	ctx context.Context
	err error
}

// Wait waits for the task and returns its result and error. If the context passed
// to Go ends first, Wait returns the context's error.
func (f *Future[Out]) Wait() (Out, error) {
	var out Out
	if f.err != nil {
		return out, f.err
	}
	made, err := f.f.Wait(f.ctx)
	if err != nil {
		return out, err
	}
	if plainjson.Unmarshal(made.Raw, &out) {
		return out, nil
	}
	if err := json.Unmarshal(made.Raw, &out); err != nil {
		return out, fmt.Errorf("treadle: recorded result %s is not a %s: %w", made.Raw, reflect.TypeFor[Out](), err)
	}
	return out, nil
}

// Do runs an effect of a node or workflow once: when the run is retried or
// resumed, Do returns the recorded result. A crash before the result is recorded may
// repeat the effect, so pass InfoFrom(ctx).IdempotencyKey to external systems. If the
// result cannot be recorded, the run fails even if the node ignores the error.
//
// Once the node has asked a question or has begun to wait, Do returns that pause as an error
// without running fn. If ctx or the run's context has ended, Do returns the context's error.
// Neither is a failure to compensate for; docs/sagas.md explains how to write compensation.
func Do[Out any](ctx context.Context, name string, fn func(context.Context) (Out, error)) (Out, error) {
	var task func(context.Context, struct{}) (Out, error)
	if fn != nil {
		task = func(ctx context.Context, _ struct{}) (Out, error) { return fn(ctx) }
	}
	return NewTask(name, task).Run(ctx, struct{}{})
}

// workflow is the state of a workflow.
type workflow[In, Out, Saved any] struct {
	Input    In    `json:"__start__" treadle:"ephemeral"`
	Output   Out   `json:"__end__"`
	Previous Saved `json:"__previous__"`
}

// Final is the result of a workflow that returns one value and saves a different one for the
// next run on the thread; see [NewFinalWorkflow].
type Final[Out, Saved any] struct {
	Value Out   // the output of the run
	Save  Saved // the value that [PreviousFrom] returns in the next run
}

// NewWorkflow returns a graph that runs a plain function. The function may call tasks,
// [Interrupt], and [PreviousFrom]. Its result is the output of the run and, on a thread,
// the previous value for the next run.
func NewWorkflow[In, Out any](name string, fn func(context.Context, In) (Out, error), opts *Options, nodeOpts ...NodeOption) (*Graph[In, Out], error) {
	var final func(context.Context, In) (Final[Out, Out], error)
	if fn != nil {
		final = func(ctx context.Context, in In) (Final[Out, Out], error) {
			out, err := fn(ctx, in)
			return Final[Out, Out]{out, out}, err
		}
	}
	return newWorkflow(name, final, fn, opts, nodeOpts)
}

// NewFinalWorkflow is like [NewWorkflow], but for a function that returns one value and
// saves another.
func NewFinalWorkflow[In, Out, Saved any](name string, fn func(context.Context, In) (Final[Out, Saved], error), opts *Options, nodeOpts ...NodeOption) (*Graph[In, Out], error) {
	return newWorkflow(name, fn, fn, opts, nodeOpts)
}

// newWorkflow returns a workflow that runs fn; given is the user's function.
func newWorkflow[In, Out, Saved any](name string, fn func(context.Context, In) (Final[Out, Saved], error), given any, opts *Options, nodeOpts []NodeOption) (*Graph[In, Out], error) {
	type state = workflow[In, Out, Saved]
	type input struct{ Input In }
	type output struct{ Output Out }
	type written struct {
		Output   Out
		Previous Saved
	}
	b := New[state](name)
	b.spec.Workflow = true
	var node func(context.Context, input) (written, error)
	if fn != nil {
		node = func(ctx context.Context, in input) (written, error) {
			f, err := fn(ctx, in.Input)
			return written{f.Value, f.Save}, err
		}
	}
	AddNode(b, name, node, nodeOpts...)
	if fn != nil {
		b.spec.Nodes[0].Fn = given // distinguishes workflows; the closure around it does not
	}
	if opts != nil {
		b.spec.Nodes[0].Was = append(slices.Clip(b.spec.Nodes[0].Was), opts.Was...) // the node has the workflow's name
	}
	b.Edge(Start, name)
	g, err := Compile[input, output](b, opts)
	if err != nil {
		return nil, err
	}
	return &Graph[In, Out]{core: g.core,
		wrap:   func(in In) pregel.Input { return pregel.Input{Value: input{in}} },
		unwrap: func(v any) Out { return v.(*output).Output },
	}, nil
}

// PreviousFrom returns the value that the previous run of the workflow on this thread saved; ok
// is false on the first run, without a thread, and for a value of another type.
func PreviousFrom[Saved any](ctx context.Context) (saved Saved, ok bool) {
	v, _ := pregel.PreviousOf(ctx)
	saved, ok = v.(Saved)
	return saved, ok
}
