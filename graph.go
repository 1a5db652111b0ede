package treadle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/store"
	"github.com/treadle-go/treadle/treadletype"
)

// A Graph is a compiled graph. It is immutable and safe for concurrent use.
type Graph[In, Out any] struct {
	core

	// For a graph whose types differ from the types of its plan: a workflow, or a graph of
	// package dynamic. They may be nil.
	wrap   func(In) pregel.Input
	unwrap func(any) Out
	last   func(Origin, any) Event // returns the last event of a stream
}

// core is the part of a Graph that does not depend on its type parameters. Generic code is
// compiled for each pair of types, so Graph itself contains little code. Documentation shows
// a promoted method without the type parameters, so Graph has a method for each exported
// method of core. Core implements [AnyGraph] for subgraphs.
type core struct {
	plan *pregel.Plan
	base pregel.Settings
	mods []RunOption

	checkInTests bool // Options.Check was nil
	defaultCache bool // Options.Cache was nil
}

func newCore(plan *pregel.Plan, opts *Options) core {
	g := core{plan: plan, checkInTests: opts.Check == nil, defaultCache: opts.Cache == nil}
	g.base = pregel.Settings{
		StepLimit:      opts.StepLimit,
		MaxConcurrency: opts.MaxConcurrency,
		Saver:          opts.Saver,
		Cache:          opts.Cache,
		Store:          opts.Store,
		Check:          opts.Check != nil && *opts.Check,
		Logger:         opts.Logger,
		StepTimeout:    opts.StepTimeout,
		PutTimeout:     opts.PutTimeout,
		Before:         namesOf(opts.Before),
		After:          namesOf(opts.After),
		Codecs:         opts.Codecs,
	}
	if g.base.Cache == nil {
		if c, ok := opts.Saver.(checkpoint.Cacher); ok {
			g.base.Cache = c.Cache()
		} else {
			g.base.Cache = checkpoint.NewMemoryCache()
		}
	}
	g.base.SizeWarning = cmp.Or(opts.SizeWarning, pregel.DefaultSizeWarning)
	g.base.SetSaver(opts.Saver)
	if g.base.Logger == nil {
		g.base.Logger = slog.Default()
	}
	return g
}

// Name returns the graph's name.
func (g *Graph[In, Out]) Name() string { return g.core.Name() }

// Name implements [AnyGraph].
func (g *core) Name() string { return g.plan.Name() }

// Warnings returns the problems that Compile found but that do not prevent the graph
// from running. With [Options].Strict, Compile returns them as errors instead.
func (g *Graph[In, Out]) Warnings() []string { return g.plan.Warnings() }

// With returns a copy of the graph with options for its runs. A later option replaces an
// earlier one of the same kind; tags and metadata accumulate.
func (g *Graph[In, Out]) With(opts ...RunOption) *Graph[In, Out] {
	out := *g
	out.core = g.with(opts)
	return &out
}

func (g *core) with(opts []RunOption) core {
	for i, o := range opts {
		if o == nil { // With returns no error, and a run would fail far from the cause
			panic(fmt.Sprintf("treadle: graph %q: option %d of %d is nil", g.Name(), i+1, len(opts)))
		}
	}
	out := *g
	out.mods = slices.Concat(g.mods, opts)
	for _, o := range opts {
		if change, ok := o.(baseOption); ok {
			change(&out.base, out.defaultCache)
		}
	}
	return out
}

func (g *core) settings() pregel.Settings {
	if len(g.mods) > 0 {
		return g.modified()
	}
	s := g.base
	if g.checkInTests {
		s.Check = underTest()
	}
	return s
}

// modified returns the settings of a graph with options. It is separate because options
// take a pointer, which allocates.
func (g *core) modified() pregel.Settings {
	s := g.base
	if g.checkInTests {
		s.Check = underTest()
	}
	for _, o := range g.mods {
		o.run(&s)
	}
	return s
}

// Run runs the graph to its end. If the run fails, the output contains the state so far.
// Inside a node of another graph, the graph runs as a subgraph: it shares the parent run's
// context value, streams, and cancellation.
func (g *Graph[In, Out]) Run(ctx context.Context, in In) (Out, error) {
	out, err := g.plan.Invoke(ctx, g.input(in), g.settings())
	return g.result(out), err
}

// input returns the input for the engine.
func (g *Graph[In, Out]) input(in In) pregel.Input {
	if g.wrap != nil {
		return g.wrap(in)
	}
	return pregel.Input{Value: in}
}

// result converts the engine's output, which is a pointer to an Out, a dynamic output, or
// the output of a workflow.
func (g *Graph[In, Out]) result(v any) Out {
	if g.unwrap != nil && v != nil {
		return g.unwrap(v)
	}
	if p, ok := v.(*Out); ok {
		return *p
	}
	out, _ := v.(Out) // v is nil if the run could not start
	return out
}

// RunAll runs the graph once for each input, at most MaxConcurrency runs at a time,
// and returns the outputs in the order of the inputs. A failed run does not stop
// the others; RunAll joins the errors, each with the index of its input.
func (g *Graph[In, Out]) RunAll(ctx context.Context, inputs []In) ([]Out, error) {
	if g == nil {
		return nil, errors.New("treadle: RunAll: nil graph")
	}
	outs := make([]Out, len(inputs))
	errs := make([]error, len(inputs))
	limit := g.settings().MaxConcurrency
	if limit <= 0 || limit > len(inputs) {
		limit = len(inputs)
	}
	slots := make(chan struct{}, max(limit, 1))
	var wg sync.WaitGroup
	for i := range inputs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			g.plan.Start(ctx, g.input(inputs[i]), g.settings(), func(out any, err error) {
				outs[i] = g.result(out)
				if err != nil {
					errs[i] = fmt.Errorf("input %d: %w", i, err)
				}
			})
		})
	}
	wg.Wait()
	return outs, errors.Join(errs...)
}

// A StreamOption configures a stream.
type StreamOption interface{ stream(*streamConfig) }

type streamOption func(*streamConfig)

func (f streamOption) stream(c *streamConfig) { f(c) }

type streamConfig struct {
	modes     Mode
	subgraphs bool
	keys      []string
	err       error // of the options
	goOn      []continueOption
}

// Modes selects the events of a stream; the default is
// [ModeUpdates]. An unknown mode fails the stream.
func Modes(modes ...Mode) StreamOption {
	return streamOption(func(c *streamConfig) {
		for _, m := range modes {
			c.modes |= m
			if err := m.check(); err != nil && c.err == nil {
				c.err = err
			}
		}
	})
}

// Subgraphs adds the values, updates, tasks, and checkpoints of subgraphs to a
// stream. Tokens and custom events arrive from every depth without it.
func Subgraphs() StreamOption { return streamOption(func(c *streamConfig) { c.subgraphs = true }) }

// OutputKeys restricts values and updates to the named fields.
func OutputKeys(fields ...string) StreamOption {
	return streamOption(func(c *streamConfig) { c.keys = append(c.keys, fields...) })
}

// Stream runs the graph and yields events as they happen. If the run succeeds,
// the last event is a [Finished]; otherwise the last pair contains the error. Leaving
// the loop cancels the run and waits for its goroutines.
func (g *Graph[In, Out]) Stream(ctx context.Context, in In, opts ...StreamOption) iter.Seq2[Event, error] {
	return g.stream(ctx, g.input(in), opts, g.finish)
}

// finish returns the last event of a stream.
func (g *Graph[In, Out]) finish(at Origin, out any) Event {
	if g.last != nil {
		return g.last(at, out)
	}
	return Finished[Out]{Origin: at, Output: g.result(out)}
}

// errLeft cancels a run whose stream is no longer read.
var errLeft = errors.New("treadle: stream closed by its reader")

func (g *core) stream(ctx context.Context, in pregel.Input, opts []StreamOption, last func(Origin, any) Event) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { g.yieldEvents(ctx, in, opts, last, yield) }
}

// yieldEvents yields the events of a stream. It is separate from stream because the compiler
// copies small functions into the methods of every graph type.
func (g *core) yieldEvents(ctx context.Context, in pregel.Input, opts []StreamOption, last func(Origin, any) Event, yield func(Event, error) bool) {
	cfg := streamConfig{}
	if ctx == nil {
		yield(nil, fmt.Errorf("graph %q: %w", g.Name(), pregel.ErrNilContext))
		return
	}
	for i, o := range opts {
		if o == nil {
			yield(nil, nilOption(g.Name(), "stream", i, len(opts)))
			return
		}
		o.stream(&cfg)
	}
	for _, o := range cfg.goOn {
		o(&in)
	}
	if len(cfg.goOn) > 0 && !in.Continue && in.Resume == nil {
		cfg.err = fmt.Errorf("graph %q: WithUpdate does not apply to a new input: use ContinueStream or ResumeStream", g.Name())
	}
	if cfg.modes == 0 {
		cfg.modes = ModeUpdates
	}
	keys, err := g.plan.Keys(cfg.keys)
	if cfg.err != nil {
		err = cfg.err
	}
	if err != nil {
		yield(nil, err)
		return
	}
	ctx, cancel := context.WithCancelCause(ctx)
	queue := pregel.NewQueue()
	set := g.settings()
	set.Sink = pregel.NewSink(queue, pregel.Mode(cfg.modes), cfg.subgraphs, keys)
	if recorded := set.Recorded; recorded != nil {
		set.Recorded = func() error { queue.Settle(); return recorded() }
	}
	var out any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer queue.Close()
		g.plan.Start(ctx, in, set, func(o any, e error) { out, err = o, e })
	}()
	// However the loop ends, even by a panic, the run ends with it.
	defer func() {
		cancel(errLeft)
		queue.Close()
		<-done
		queue.Release()
	}()
	var events publisher
	for batch := queue.Take(); len(batch) > 0; batch = queue.Take() {
		for i := range batch {
			if !yield(events.publish(&batch[i]), nil) {
				return
			}
		}
	}
	<-done
	if err != nil {
		yield(nil, err)
		return
	}
	yield(last(Origin{Graph: g.Name()}, out), nil)
}

func nilOption(graph, what string, i, n int) error {
	return fmt.Errorf("graph %q: %s: option %d of %d is nil", graph, what, i+1, n)
}

// Thread returns a handle to the thread with the given ID. The thread keeps the
// state of its runs, so the graph needs a saver.
func (g *Graph[In, Out]) Thread(id string, opts ...RunOption) *Thread[In, Out] {
	return &Thread[In, Out]{handle: g.handle(id, opts), g: g}
}

func (g *core) handle(id string, opts []RunOption) handle {
	opts = append(slices.Clip(opts), runOption(func(s *pregel.Settings) { s.Thread = id }))
	return handle{core: g.with(opts), id: id}
}

// ClearCache deletes the cached results of the given nodes, or of all nodes.
func (g *Graph[In, Out]) ClearCache(ctx context.Context, nodes ...NodeRef) error {
	return g.core.ClearCache(ctx, nodes...)
}

// ClearCache implements [Graph.ClearCache].
func (g *core) ClearCache(ctx context.Context, nodes ...NodeRef) error {
	if ctx == nil {
		return fmt.Errorf("graph %q: clear cache: %w", g.Name(), pregel.ErrNilContext)
	}
	names := namesOf(nodes)
	if len(names) == 0 {
		names = g.plan.NodeNames()
	}
	spaces := make([]string, len(names))
	for i, n := range names {
		if !slices.Contains(g.plan.NodeNames(), n) {
			return fmt.Errorf("graph %q: clear cache: unknown node %q", g.Name(), n)
		}
		spaces[i] = pregel.CacheSpace(g.Name(), n)
	}
	g.plan.ForgetOwn(ctx, names...)
	return g.base.Cache.Clear(ctx, spaces...)
}

// Subgraphs yields the subgraphs with the path of their nodes: "outer/inner" for a subgraph
// of a subgraph.
func (g *Graph[In, Out]) Subgraphs() iter.Seq2[string, AnyGraph] { return g.core.Subgraphs() }

// Subgraphs implements [AnyGraph].
func (g *core) Subgraphs() iter.Seq2[string, AnyGraph] {
	return func(yield func(string, AnyGraph) bool) {
		for path, p := range g.plan.Subgraphs() {
			inner := newCore(p, &Options{})
			if !yield(path, &inner) {
				return
			}
		}
	}
}

// Info describes the run that a node belongs to. [InfoFrom] returns it. See
// [treadletype.Info].
//
//	Graph          string
//	Node           string
//	Thread         string
//	RunID          string
//	TaskID         string
//	IdempotencyKey string
//	CheckpointID   string
//	Namespace      []string
//	Step           int
//	RemainingSteps int
//	Attempt        int
//	FirstAttempt   time.Time
//	Deadline       time.Time
//	Tags           []string
//	Metadata       map[string]any
//	Config         map[string]any
//
// Fields:
//   - Graph, Node, Thread, RunID, and TaskID identify the task. Thread is empty if the run
//     has no thread.
//   - IdempotencyKey identifies the task to external systems. It stays the same across
//     retries, resumes, and crashes, and differs on a fork. With [Async], it survives a
//     crash only inside [Do] and tasks, and with [Exit] not at all.
//   - CheckpointID is the checkpoint that the task runs from.
//   - Namespace is the namespace of the graph; it is empty for the root graph.
//   - Step is the current step, and RemainingSteps the number of steps until the step limit.
//   - Attempt counts attempts, starting at 1. FirstAttempt is the start of the first
//     attempt, and Deadline the deadline of the current one, or zero.
//   - Tags and Metadata belong to the task; see [Tags] and [Metadata].
//   - Config is the run configuration from the server, in the format of LangGraph's config.
//     It is nil without a server and must not be modified.
type Info = treadletype.Info

// InfoFrom describes the run that ctx belongs to: graph, node, thread, run ID, task ID,
// idempotency key, step, attempt, and remaining steps. Outside a run, it returns the zero
// Info.
func InfoFrom(ctx context.Context) Info {
	info, _ := pregel.InfoOf(ctx)
	return info
}

// ContextFrom returns the value passed to the run with [Context]; ok is
// false if the run has no value of this type.
func ContextFrom[C any](ctx context.Context) (c C, ok bool) {
	c, ok = pregel.ContextOf(ctx).(C)
	return c, ok
}

// StoreFrom returns the store of the run that ctx belongs to. It works at any
// depth: in nodes, branches, tasks, tools, and subgraphs. If the run has no
// store, StoreFrom returns nil, whose methods return [store.ErrNoStore].
func StoreFrom(ctx context.Context) *store.Store { return pregel.StoreOf(ctx) }

// LoggerFrom returns the logger of the run that ctx belongs to, [Options].Logger. Outside a
// run, it returns slog.Default().
func LoggerFrom(ctx context.Context) *slog.Logger { return pregel.Logger(ctx) }

// Emit sends v as a [Custom] event to the streams of the run that ctx belongs to
// and of its parent runs. Outside a run, it does nothing.
func Emit(ctx context.Context, v any) { pregel.Emit(ctx, v) }

// Heartbeat resets the node's [IdleTimeout].
func Heartbeat(ctx context.Context) { pregel.Heartbeat(ctx) }

func (g *core) graph() *core { return g }
