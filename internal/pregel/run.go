package pregel

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/treadle-go/treadle/checkpoint"
)

// Run is a graph being run. Everything in it belongs to the goroutine that
// runs the loop; tasks see it read-only.
type Run struct {
	plan   *Plan
	set    *Settings
	ctx    context.Context
	parent *Task  // the task this run is nested in
	within *scope // and the attempt of it
	place  place
	sinks  *Sink
	modes  Mode // what any sink wants

	slots     []slot
	ver       uint64
	views     []view
	ctl       *control
	nextCtl   *control // memory for the one after it
	step      int
	stop      int
	marks     []uint64        // per node: the version in which it was armed; see arm
	one       [1]*Task        // the tasks of a step with one
	oneSpace  [1]outcomeSpace // and what it writes, if nothing keeps that beyond the step
	undo      []undoEntry
	recent    []undoEntry // what the commit of version recentVer changed
	recentVer uint64

	// Nested graphs hand up what they wrote, so they remember it.
	journal bool
	log     []write
	wrote   bits
	space   runSpace
	logged  int // how much of the log is stored
	// Of the log of the checkpoint it goes on from:
	logItems int // how long it is as stored
	logDrop  int // how much of that the next put drops

	// With a saver.
	head   checkpoint.ID
	before checkpoint.ID     // the head's parent
	tip    checkpoint.ID     // the namespace's head, which differs from head on a fork
	last   []string          // the nodes of the last step
	source checkpoint.Source // of the checkpoints it makes
	meta   json.RawMessage

	untilAsk atomic.Int64 // of the outermost run: how much to store until the thread's size is asked for

	saved map[string][]byte // results of tasks that finished before a failure, by task id

	failures map[string]error // of tasks whose error handler has yet to answer, by task id

	seedOnce sync.Once
	seedID   string

	calls atomic.Pointer[callResults] // of tasks that nodes of this step called

	flightMu sync.Mutex
	flights  map[flightKey]*flight // of the outermost run: cached tasks at work

	// Questions and answers; answers are the outermost run's.
	open      []Pause
	answered  []Pause                      // whose tasks have not come to their end
	owner     map[string]string            // question id → task of this run
	answers   map[string]answer            // by question id
	answersOf map[string]map[string]answer // by task
	resumed   bool                         // it goes on from a checkpoint
	forked    bool                         // from one that is not the head
	recalled  bool                         // from a head that was kept in the process

	abandoned []TaskInfo // what an input has put an end to, until that is told

	pending  []checkpoint.Write       // of the loaded checkpoint
	merged   []undoEntry              // what an edit took over from a step that it ends
	ended    []*Task                  // and the tasks that wrote it
	children map[string]checkpoint.ID // heads of the nested runs that last as long as the thread
	childMu  sync.Mutex               // guards children
	ownerWas string                   // of a lasting nested run that is edited: the task it ran for
	madeBy   string                   // the name of the graph that made the loaded checkpoint
	ofWas    checkpoint.ID            // of a nested run that is edited: the checkpoint around it
	results  json.RawMessage          // who wrote what in the step that is to be stored; see attribute
	taken    []*Task                  // finished tasks whose results an edit took over

	span *span
	msgs messages // of the outermost run

	otherInput bool                  // of a nested run: the attempt before this one gave another
	inputMu    sync.Mutex            // guards given and lasting
	given      map[string][32]byte   // of the outermost run: digests of the inputs of nested runs that may be tried again
	lasting    map[string]lastingUse // of the outermost run: by namespace

	patience patience
	gone     error // a function of the user's has ended the goroutine of the loop
}

// begin prepares a run up to its first step with nodes: it loads the thread,
// applies the input and finds out what is first.
func (r *Run) begin(in Input) error {
	p, ctx, set := r.plan, r.ctx, r.set
	r.sinks, r.source = set.Sink, checkpoint.Loop
	// A run on a thread of its own is a run of its own, wherever it starts.
	if sc := scopeOf(ctx); sc != nil && set.Thread == "" {
		if err := sc.task.broken(); err != nil {
			return err
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
		return fmt.Errorf("graph %q: step limit below 1: a run needs at least one step", p.name)
	}
	if set.MaxConcurrency < 0 {
		return fmt.Errorf("graph %q: max concurrency %d: want 0 or more", p.name, set.MaxConcurrency)
	}
	if err := p.readContext(r.set); err != nil {
		return err
	}
	if err := r.checkBreakpoints(); err != nil {
		return err
	}
	if r.parent == nil && set.NS != "" && !in.Continue && in.Resume == nil {
		return p.errInside(set)
	}
	if ctx.Err() != nil {
		return cancelled(ctx, p.name, r.step)
	}
	r.allocate()
	r.reset()
	if r.lasts() {
		if err := r.occupy(); err != nil {
			return err
		}
	}
	if r.parent != nil && in.inherit == nil && r.saving() && r.retried() {
		r.noteInput(in)
	}
	fresh := !in.Continue && in.Resume == nil && r.parent == nil && set.At.IsZero() && set.Durability == Sync
	if fresh && r.saving() && set.HeadsOf != nil && r.recall() {
		r.recalled = true
	} else if err := r.loadOrFork(in); err != nil {
		if r.parent != nil { // also if what is stored cannot be read
			err = r.unread(err)
		}
		return err
	}
	r.stop = r.step + set.StepLimit + 1
	r.emitGraphStart(in)
	return r.accept(in)
}

// allocate makes what a run needs one of for each field and view. Small graphs
// find room in the run itself.
func (r *Run) allocate() {
	r.slots = make([]slot, len(r.plan.schema.channels))
	if r.views = r.space.views[:]; len(r.plan.views) > len(r.views) {
		r.views = make([]view, len(r.plan.views))
	}
	if r.wrote = r.space.wrote[:]; len(r.slots) > 64 {
		r.wrote = newBits(len(r.slots))
	}
}

// runSpace is memory for the slices of a run of a small graph.
type runSpace struct {
	views [1]view
	wrote [1]uint64
	armed [2][4]int32
	ctl   [2]control
}

// reset is the state of a thread on which nothing has happened.
func (r *Run) reset() {
	for i, c := range r.plan.schema.channels {
		r.slots[i] = c.reset()
	}
	r.ctl, r.nextCtl = &r.space.ctl[0], &r.space.ctl[1]
	*r.ctl = control{armed: r.space.armed[0][:0], spare: r.space.armed[1][:0]}
	if len(r.plan.joins) > 0 {
		r.ctl.joins = make([]bits, len(r.plan.joins))
		for i, j := range r.plan.joins {
			r.ctl.joins[i] = newBits(len(j.sources))
		}
	}
	r.ver, r.step = 0, -1
	r.untilAsk.Store(r.set.SizeWarning / 2)
	r.head, r.before, r.tip = checkpoint.ID{}, checkpoint.ID{}, checkpoint.ID{}
	r.children = nil
}

// seed makes task ids stable: the same checkpoint gives the same ids.
func (r *Run) seed() string {
	if r.ctl.seed != "" {
		return r.ctl.seed
	}
	if !r.head.IsZero() {
		return r.head.String()
	}
	if r.parent != nil { // not stored, but the task around it may be
		return r.parent.ID()
	}
	return r.id()
}

// id names the run.
func (r *Run) id() string {
	if r.set.RunID != "" {
		return r.set.RunID
	}
	if r.parent != nil {
		return r.parent.run.id()
	}
	r.seedOnce.Do(func() {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
		r.seedID = checkpoint.ID(b).String()
	})
	return r.seedID
}

// drive runs the graph to its end.
func (r *Run) drive() error {
	err := r.loop()
	if err == nil && r.parent != nil {
		r.parent.adopt(r.heads())
		if r.owned() != "" && !r.head.IsZero() {
			r.parent.adopt(map[string]checkpoint.ID{r.ns(): r.head})
		}
	}
	return err
}

// loop runs steps until nothing is left to do.
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
			return cancelled(r.ctx, r.plan.name, r.step)
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
		if r.within.late() { // left behind: another attempt may be at work
			return cancelled(r.ctx, r.plan.name, r.step)
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
	case <-r.set.Drain: // a nil channel never is ready
		return true
	default:
		return false
	}
}

func (r *Run) nextNames() []string {
	var names []string
	for _, s := range r.ctl.sends {
		names = append(names, r.plan.nodes[s.node].Name)
	}
	for _, id := range r.ctl.armed {
		names = append(names, r.plan.nodes[id].Name)
	}
	return names
}

// output is a pointer to a new value of the graph's output type.
func (r *Run) output() any {
	return r.plan.out.fresh(r.slots, r.plan.schema.words, r.plan.output)
}

// Invoke runs the graph to its end and returns a pointer to its output, which
// is the output so far if there is an error.
func (p *Plan) Invoke(ctx context.Context, in Input, set Settings) (out any, err error) {
	p.Start(ctx, in, set, func(o any, e error) { out, err = o, e })
	return out, err
}

// Start is Invoke for a goroutine that others wait for: end is called with how
// the run ended, also if a node ends the goroutine, with which Start does not
// return.
func (p *Plan) Start(ctx context.Context, in Input, set Settings, end func(out any, err error)) {
	if ctx == nil {
		end(nil, fmt.Errorf("graph %q: %w", p.name, ErrNilContext))
		return
	}
	r := &Run{plan: p, set: &set, ctx: ctx}
	var later deferred
	returned := false
	finish := func(err error) {
		if later != nil {
			if closeErr := later.close(err != nil); closeErr != nil {
				err = joinErrors(err, asFault(fmt.Errorf("graph %q: store thread %q: %w", p.name, set.Thread, closeErr)))
			}
		}
		r.vacate()
		r.unwatch()
		err = r.located(err)
		if r.slots == nil {
			r.slots = make([]slot, len(p.schema.channels))
		}
		r.emitGraphEnd(err)
		returned = true
		if in.AsRecord {
			end(p.schema.record(r.slots, p.output), err)
			return
		}
		end(r.output(), err)
	}
	defer func() {
		if !returned {
			finish(r.unreturned(recover()))
		}
	}()
	if nested := scopeOf(ctx) != nil && set.Thread == ""; set.Durability != Sync && set.Saver != nil && set.Thread != "" && !nested {
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
		r.retain()
	}
	finish(err)
}

// InvokeRecord is Invoke with the output as a Record.
func (p *Plan) InvokeRecord(ctx context.Context, in Input, set Settings) (*Record, error) {
	in.AsRecord = true
	out, err := p.Invoke(ctx, in, set)
	rec, ok := out.(*Record)
	if !ok { // it could not begin
		rec = &Record{schema: p.schema}
	}
	return rec, err
}
