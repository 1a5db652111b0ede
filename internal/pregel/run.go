package pregel

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/treadletype"
)

// Run is an execution of a graph. It belongs to the goroutine of its loop; tasks
// only read it. Data shared between goroutines is in shared, which has its own
// locks.
type Run struct {
	plan *Plan
	set  *Settings
	ctx  context.Context

	nest nest // where the run takes place: at the top level, or inside a task of another run

	state       // field values, and the undo list of the step
	schedule    // the nodes that run next, and the step number
	streams     // the receivers of events
	persistence // the thread that the run is saved on
	*questions  // pending interrupts and their answers; noQuestions before a checkpoint is loaded

	journal journal                     // the writes of a subgraph run, for the parent graph
	calls   atomic.Pointer[callResults] // recorded results of this step's calls
	taken   *takenOver                  // taken by an edit from an unfinished step; usually nil
	shared  *shared                     // shared by all runs inside the same top-level run
	exited  error                       // set if user code ended the goroutine of the loop
}

// newRun returns a run that has not started. sc is the attempt that contains the
// run, or nil.
func newRun(ctx context.Context, p *Plan, set *Settings, sc *scope) *Run {
	r := &Run{}
	r.init(ctx, p, set, sc)
	return r
}

func (r *Run) init(ctx context.Context, p *Plan, set *Settings, sc *scope) {
	r.plan, r.set, r.ctx = p, set, ctx
	r.ctl, r.nextCtl = &r.schedule.space[0], &r.schedule.space[1]
	r.questions = noQuestions
	if sc != nil {
		r.shared = sc.task.run.shared
	} else {
		r.shared = &shared{}
	}
}

// shared holds the data shared by a top-level run and its subgraph runs. Each part
// has its own lock.
type shared struct {
	id       runID
	messages messages
	flights  flights
	nested   nestedRuns
	saver    saverState
	size     sizeBudget
}

// begin prepares a run for its first step with nodes: it loads the thread, applies
// the input, and determines the nodes that run first.
func (r *Run) begin(in Input) error {
	p, ctx, set := r.plan, r.ctx, r.set
	r.sinks, r.source = set.Sink, checkpoint.Loop
	if sc := nestedScope(ctx, set); sc != nil {
		if err := sc.task.anyFault(); err != nil {
			return err
		}
		if pause := sc.stop(); pause != nil {
			return pause
		}
		if sc.Err() != nil { // ctx can outlive the attempt
			return canceled(sc, p.name, r.step)
		}
		r.nestIn(sc)
	}
	if r.sinks != nil {
		r.modes = r.sinks.all
	}
	if set.StepLimit == 0 {
		set.StepLimit = DefaultStepLimit
	}
	if set.StepLimit < 0 {
		limit := set.StepLimit
		if limit == ZeroStepLimit {
			limit = 0
		}
		return fmt.Errorf("graph %q: invalid StepLimit %d: want 1 or more", p.name, limit)
	}
	if set.MaxConcurrency < 0 {
		return fmt.Errorf("graph %q: invalid MaxConcurrency %d: want 1 or more, or 0 for no limit", p.name, set.MaxConcurrency)
	}
	if err := p.readContext(r.set); err != nil {
		return err
	}
	if err := r.checkBreakpoints(); err != nil {
		return err
	}
	if r.parent() == nil && set.NS != "" && !in.Continue && in.Resume == nil {
		return p.errInside(set)
	}
	if ctx.Err() != nil {
		return canceled(ctx, p.name, r.step)
	}
	r.joinMemory()
	r.state.allocate(p)
	r.reset()
	if r.perThread() {
		if err := r.beginPerThread(); err != nil {
			return err
		}
	}
	if r.parent() != nil && in.inherit == nil && r.saving() && r.retried() {
		r.noteInput(in)
	}
	fresh := !in.Continue && in.Resume == nil && r.parent() == nil && set.At.IsZero() && set.Durability == Sync
	if fresh && r.saving() && set.HeadsOf != nil && r.useCachedHead() {
		r.fromCachedHead = true
	} else if err := r.loadOrFork(in); err != nil {
		if r.parent() != nil { // including unreadable saved data
			err = r.readFault(err)
		}
		return err
	}
	if err := r.openMemory(); err != nil {
		return err
	}
	r.stop = r.step + set.StepLimit + 1
	r.emitGraphStart(in)
	return r.accept(in)
}

// reset sets the state to that of a new thread.
func (r *Run) reset() {
	r.state.reset(r.plan)
	r.schedule.reset(r.plan)
	if r.parent() == nil {
		r.shared.size.left.Store(r.set.SizeWarning / 2)
	}
	r.head, r.before, r.tip = checkpoint.ID{}, checkpoint.ID{}, checkpoint.ID{}
	r.children = nil
	r.weights = nil
}

// seed returns the text that task IDs are derived from. It is the same for the same
// checkpoint.
func (r *Run) seed() string {
	if r.ctl.seed != "" {
		return r.ctl.seed
	}
	if !r.head.IsZero() {
		return r.head.String()
	}
	if r.parent() != nil { // this run is not saved, but the task that contains it may be
		return r.parent().ID()
	}
	return r.id()
}

// id returns the run ID.
func (r *Run) id() string {
	if r.set.RunID != "" {
		return r.set.RunID
	}
	if up := r.parent(); up != nil {
		return up.run.id()
	}
	return r.shared.id.get()
}

// runID is the generated ID of a run without a given ID.
type runID struct {
	once sync.Once
	text string
}

func (i *runID) get() string {
	i.once.Do(func() { i.text = randomID() })
	return i.text
}

// drive runs the graph to its end.
func (r *Run) drive() error {
	err := r.loop()
	if err == nil && r.parent() != nil {
		r.parent().addChildHeads(r.childHeads())
		if r.owned() != "" && !r.head.IsZero() {
			r.parent().addChildHeads(map[string]checkpoint.ID{r.ns(): r.head})
		}
	}
	return err
}

// loop runs steps until no node is scheduled.
func (r *Run) loop() error {
	for {
		if r.modes&ModeCheckpoints != 0 {
			r.emitCheckpoint(r.nextNames())
		}
		if r.step > r.stop {
			return &StepLimitError{Graph: r.plan.name, Limit: r.set.StepLimit, Next: r.nextNames()}
		}
		if r.ctl.idle() {
			return nil
		}
		if r.ctx.Err() != nil {
			return canceled(r.ctx, r.plan.name, r.step)
		}
		if r.draining() {
			return fmt.Errorf("graph %q: %w", r.plan.name, ErrDrained)
		}
		tasks, err := r.prepare()
		if err != nil {
			return err
		}
		if at := r.breakpoint(r.set.Before, tasks); at != nil && !r.resumed {
			return r.stopAt(at, nil)
		}
		r.resumed = false
		if err := r.executeAll(tasks); err != nil {
			return err
		}
		if r.within().late() { // abandoned: another attempt may be running
			return canceled(r.ctx, r.plan.name, r.step)
		}
		if err := r.settle(tasks); err != nil {
			return err
		}
		if at := r.breakpoint(r.set.After, tasks); at != nil {
			return r.stopAt(nil, at)
		}
	}
}

func (r *Run) draining() bool {
	select {
	case <-r.set.Drain: // a nil channel is never ready
		return true
	default:
		return false
	}
}

func (r *Run) nextNames() []string {
	var names []string
	for _, s := range r.ctl.sends {
		names = append(names, r.plan.nodes[s.node].savedName())
	}
	for _, id := range r.ctl.armed {
		names = append(names, r.plan.nodes[id].savedName())
	}
	return names
}

// output returns a pointer to a new value of the graph's output type.
func (r *Run) output() any {
	return r.plan.out.fresh(r.slots, r.plan.schema.words, r.plan.output)
}

// Invoke runs the graph to its end and returns a pointer to its output. If it also
// returns an error, the output is the state so far.
func (p *Plan) Invoke(ctx context.Context, in Input, set Settings) (out any, err error) {
	p.Start(ctx, in, set, func(o any, e error) { out, err = o, e })
	return out, err
}

// Start is like Invoke, but passes the result to end. It calls end even if a node
// ends the goroutine and Start therefore never returns.
func (p *Plan) Start(ctx context.Context, in Input, set Settings, end func(out any, err error)) {
	if ctx == nil {
		end(nil, fmt.Errorf("graph %q: %w", p.name, ErrNilContext))
		return
	}
	sc := nestedScope(ctx, &set)
	r := newRun(ctx, p, &set, sc)
	r.startTrace(&in, sc)
	var later deferred
	returned := false
	finish := func(err error) {
		if later != nil {
			if closeErr := later.close(err != nil); closeErr != nil {
				err = joinErrors(err, asFault(fmt.Errorf("graph %q: save thread %q: %w", p.name, set.Thread, closeErr)))
			}
		}
		r.endPerThread()
		r.releaseSaver()
		err = r.located(err)
		r.tellWaits(err)
		if sc != nil && treadletype.IsPause(err) {
			sc.stopAt(err)
		}
		if r.slots == nil {
			r.slots = make([]slot, len(p.schema.channels))
		}
		r.emitGraphEnd(err)
		r.endTrace(err)
		returned = true
		switch {
		case !in.AsRecord:
			end(r.output(), err)
		case set.NoOutput:
			end(nil, err)
		default:
			end(p.schema.record(r.slots, p.output), err)
		}
	}
	defer func() {
		if !returned {
			finish(r.unreturned(recover()))
		}
	}()
	if set.Durability != Sync && set.Saver != nil && set.Thread != "" && sc == nil {
		var err error
		if later, err = durable(r); err != nil {
			finish(err)
			return
		}
		set.Saver = later
	}
	err := r.begin(in)
	if err == nil {
		err = r.drive()
	}
	if err == nil && later == nil {
		r.cacheHead()
	}
	finish(err)
}
