package pregel

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/store"
)

// DefaultStepLimit is how many steps a run may take if nobody says otherwise.
const DefaultStepLimit = 25

// Settings are what one run is given beside its input.
type Settings struct {
	StepLimit      int
	MaxConcurrency int // 0: no bound
	Context        any // the user's run-scoped value
	Tags           []string
	Metadata       map[string]any
	RunID          string
	Thread         string
	NS             string           // the nested graph that is looked at, edited or gone back to
	Saver          checkpoint.Saver // used with a Thread only
	Sizer          checkpoint.Sizer // the saver, if the size of threads is watched
	SizeWarning    int64            // and from how many bytes on
	HeadsOf        checkpoint.Saver // the saver whose heads are kept in the process; nil: none
	Cache          checkpoint.Cache
	Store          *store.Store
	Codecs         Codecs // how values are stored
	Check          bool   // nodes must not change what they are given
	Logger         *slog.Logger
	Drain          <-chan struct{} // closed: end after the step under way
	Before, After  []string        // nodes with a breakpoint; "*" is all
	Fence          uint64          // the lease epoch that stores carry
	At             checkpoint.ID   // the checkpoint to start from; zero: the head
	Durability     Durability
	Keep           Keep          // how a nested run is stored
	StepTimeout    time.Duration // of a whole step; 0: none
	Sink           *Sink
}

// Input is what starts a run.
type Input struct {
	Value    any             // of the graph's input type
	JSON     json.RawMessage // or the same as JSON
	Continue bool            // or nothing: go on from the checkpoint
	AsRecord bool            // the output is wanted as a *Record
	Resume   *Resume         // or answers: go on with them
	Also     any             // an update to make before going on

	inherit []write // or what a parent shares
}

// Run is a graph being run. Everything in it belongs to the goroutine that
// runs the loop; tasks see it read-only.
type Run struct {
	plan   *Plan
	set    *Settings
	ctx    context.Context
	parent *Task  // the task this run is nested in
	within *scope // and the attempt of it
	ns     string
	path   []string // ns, split
	sinks  *Sink
	modes  Mode // what any sink wants

	slots []slot
	ver   uint64
	views []view
	ctl   control
	step  int
	stop  int
	marks []uint64 // per node: the version in which it was armed
	one   [1]*Task // the tasks of a step with one
	undo  []undoEntry

	// Nested graphs hand up what they wrote, so they remember it.
	journal bool
	log     []write
	wrote   []bool
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

	callMu        sync.Mutex
	recordedCalls map[string][]byte // results of tasks that nodes of this step called, by id

	// Questions and answers; answers are the outermost run's.
	open      []Pause
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
	ofWas    checkpoint.ID            // of a nested run that is edited: the checkpoint around it
	results  json.RawMessage          // who wrote what in the step that is to be stored; see attribute
	taken    []*Task                  // finished tasks whose results an edit took over

	span *span
	msgs messages // of the outermost run
}

type undoEntry struct {
	ch    *channel
	was   slot
	whole bool // store the value as a whole, whatever the step did to it
}

// begin prepares a run up to its first step with nodes: it loads the thread,
// applies the input and finds out what is first.
func (p *Plan) begin(ctx context.Context, in Input, set *Settings) (r *Run, err error) {
	r = &Run{plan: p, set: set, ctx: ctx, sinks: set.Sink, source: checkpoint.Loop}
	// A run on a thread of its own is a run of its own, wherever it starts.
	if sc := scopeOf(ctx); sc != nil && set.Thread == "" {
		r.nestIn(sc)
		set = r.set // which has the rest from the run around it
	}
	if r.sinks != nil {
		r.modes = r.sinks.all
	}
	if set.StepLimit == 0 {
		set.StepLimit = DefaultStepLimit
	}
	if set.StepLimit < 0 {
		return r, fmt.Errorf("graph %q: step limit below 1: a run needs at least one step", p.name)
	}
	if set.MaxConcurrency < 0 {
		return r, fmt.Errorf("graph %q: max concurrency %d: want 0 or more", p.name, set.MaxConcurrency)
	}
	if err := p.readContext(r.set); err != nil {
		return r, err
	}
	if err := r.checkBreakpoints(); err != nil {
		return r, err
	}
	if r.parent == nil && set.NS != "" && !in.Continue && in.Resume == nil {
		return r, p.errInside(set)
	}
	if ctx.Err() != nil {
		return r, cancelled(ctx, p.name, r.step)
	}
	r.slots = make([]slot, len(p.schema.channels))
	r.views = make([]view, len(p.views))
	r.marks = make([]uint64, len(p.nodes))
	r.wrote = make([]bool, len(p.schema.channels))
	r.reset()
	fresh := !in.Continue && in.Resume == nil && r.parent == nil && set.At.IsZero() && set.Durability == Sync
	if fresh && r.saving() && set.HeadsOf != nil && r.recall() {
		r.recalled = true
	} else if err := r.loadOrFork(in); err != nil {
		return r, err
	}
	r.stop = r.step + set.StepLimit + 1
	r.emitGraphStart(in)
	return r, r.accept(in)
}

// reset is the state of a thread on which nothing has happened.
func (r *Run) reset() {
	for i, c := range r.plan.schema.channels {
		r.slots[i] = c.reset()
	}
	r.ctl = control{}
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

// nestIn makes r a part of the run that sc belongs to.
func (r *Run) nestIn(sc *scope) {
	t := sc.task
	up := t.run
	r.parent, r.within = t, sc
	r.ns = t.namespace()
	defer func() { r.path = strings.Split(r.ns, "|") }()
	if n := t.nested.Add(1) - 1; n > 0 {
		r.ns += fmt.Sprintf("|%d", n)
	}
	set := *r.set
	if set.Context == nil {
		set.Context = up.set.Context
	}
	if set.MaxConcurrency == 0 {
		set.MaxConcurrency = up.set.MaxConcurrency
	}
	if set.StepLimit == 0 { // each graph counts its own steps
		set.StepLimit = up.set.StepLimit
	}
	set.Tags = slices.Concat(up.set.Tags, set.Tags)
	set.Metadata = merged(up.set.Metadata, set.Metadata)
	set.RunID = up.set.RunID
	set.Saver, set.Thread, set.At = up.set.Saver, up.set.Thread, checkpoint.ID{}
	switch set.Keep {
	case KeepNothing:
		set.Saver = nil
	case KeepThread:
		r.ns = stablePath(r.ns)
	}
	set.Codecs = up.set.Codecs // whoever reads the thread has these
	set.Sizer, set.SizeWarning = up.set.Sizer, up.set.SizeWarning
	if up.set.Cache != nil {
		set.Cache = up.set.Cache
	}
	if up.set.Store != nil {
		set.Store = up.set.Store
	}
	set.Check = set.Check || up.set.Check
	set.Logger = up.set.Logger
	set.Drain = up.set.Drain
	set.Fence = up.set.Fence
	r.set = &set
	r.sinks = r.sinks.under(up.sinks, r.ns)
	sc.alive(false)
}

func merged(a, b map[string]any) map[string]any {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := make(map[string]any, len(a)+len(b))
	for _, m := range []map[string]any{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
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

// accept applies the input as step START.
func (r *Run) accept(in Input) error {
	goesOn := in.Continue || in.Resume != nil || in.Also != nil || r.resumed
	if goesOn && len(r.ctl.gone) > 0 {
		return r.plan.gone(r.ctl.gone[0])
	}
	if goesOn && len(r.saved) > 0 && r.ctl.start == nil {
		if _, err := r.finished(); err != nil { // before anything is stored
			return err
		}
	}
	if in.Resume != nil || in.Also != nil {
		if err := r.amend(in); err != nil {
			return err
		}
	}
	if in.Continue || in.Resume != nil || r.resumed {
		in = Input{Continue: true}
		r.resumed = true
		if r.ver == 0 && r.ctl.start == nil {
			return fmt.Errorf("graph %q: %w", r.plan.name, ErrNothingToContinue)
		}
		if err := r.fork(); err != nil {
			return err
		}
		if r.ctl.start == nil {
			if r.modes&ModeValues != 0 {
				r.emitValues()
			}
			return nil
		}
	}
	var o outcome
	if err := r.readInput(in, &o); err != nil {
		return err
	}
	if !in.Continue {
		if err := r.takeInput(&o); err != nil {
			return err
		}
		r.emitAbandoned()
	}
	r.emitCheckpoint([]string{Start})
	r.ctl.start, r.abandoned = nil, nil
	t := &Task{run: r, node: startNode, step: r.step, index: -1}
	t.scope.Context, t.scope.task, t.scope.attempt = r.ctx, t, 1
	t.out = o
	if o.writes != nil && len(o.writes) <= len(o.buf) {
		t.out.writes = append(t.out.buf[:0], o.writes...)
	}
	t.spanInput()
	return r.settle([]*Task{t})
}

// takeInput stores an input on top of the thread. A head that was kept in the
// process may be out of date: then the thread is read and the input stored
// on top of what it really holds.
func (r *Run) takeInput(o *outcome) error {
	store := func() error {
		r.abandon()
		r.last = append(r.last[:0], Start)
		return r.putInput(o)
	}
	err := store()
	if r.recalled && errors.Is(err, checkpoint.ErrConflict) {
		r.forget()
		r.recalled = false
		r.reset()
		limit := r.stop - r.step
		if err := r.loadOrFork(Input{}); err != nil {
			return err
		}
		r.stop = r.step + limit
		err = store()
	}
	return err
}

// startNode is the pseudo node that the input belongs to.
var startNode = &node{NodeSpec: &NodeSpec{Name: Start}, id: -1}

// ErrNothingToContinue: there is no checkpoint to go on from.
var ErrNothingToContinue = errors.New("nothing to continue: the thread has no checkpoint; run it with an input first")

func (r *Run) readInput(in Input, o *outcome) error {
	p := r.plan
	switch {
	case in.inherit != nil:
		o.writes = in.inherit
		return nil
	case in.Continue:
		return r.decodeStart(o)
	case in.JSON != nil:
		return p.readJSON(in.JSON, o)
	}
	val := in.Value
	if p.inChecks {
		if err := validate(val); err != nil {
			return &ValidationError{Graph: p.name, What: "the input", Err: err}
		}
	}
	if err := p.in.collect(p.schema, o, val); err != nil {
		return err
	}
	o.targets = nil // an input has no say in where control goes
	return nil
}

// readJSON reads an input as an update by JSON names. Names that the input
// type lacks are dropped, as an input type is a filter; names that the graph
// lacks are errors.
func (p *Plan) readJSON(raw json.RawMessage, o *outcome) error {
	if p.schema.workflow {
		w, err := p.schema.decodeWrite(p.schema.byWire[Start], raw)
		o.add(w)
		return err
	}
	if err := p.schema.decodeUpdate(o, raw); err != nil {
		return err
	}
	if p.in.kind == updateStruct {
		o.writes = slices.DeleteFunc(o.writes, func(w write) bool {
			return !slices.ContainsFunc(p.in.fields, func(f writeField) bool { return f.ch == w.ch })
		})
	}
	return nil
}

func validate(v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = newPanicError("Validate: ", p)
		}
	}()
	type validator interface{ Validate() error }
	if c, ok := v.(validator); ok {
		return c.Validate()
	}
	if v == nil || !reflect.PointerTo(reflect.TypeOf(v)).Implements(validatorType) {
		return nil
	}
	p := reflect.New(reflect.TypeOf(v)) // the method may not change what others hold
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface().(validator).Validate()
}

// drive runs the graph to its end.
func (r *Run) drive() error {
	err := r.loop()
	if err == nil && r.parent != nil {
		r.parent.adopt(r.heads())
		if r.owned() != "" && !r.head.IsZero() {
			r.parent.adopt(map[string]checkpoint.ID{r.ns: r.head})
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

// ErrDrained: the run was asked to end early and did so between two steps.
var ErrDrained = errors.New("drained: the run ended early, after a finished step; continue it later")

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

// prepare makes the tasks of the step in commit order: nodes by name, then
// sends in the order they were sent.
func (r *Run) prepare() ([]*Task, error) {
	n := len(r.ctl.armed) + len(r.ctl.sends)
	block := make([]Task, n)
	tasks := r.one[:]
	if n != 1 {
		tasks = make([]*Task, n)
	}
	for i := range block {
		t := &block[i]
		t.run, t.step, t.index = r, r.step, -1
		tasks[i] = t
		if k := i - len(r.ctl.armed); k >= 0 {
			t.packet, t.index = &r.ctl.sends[k], k
			t.node = r.plan.nodes[t.packet.node]
			continue
		}
		t.node = r.plan.nodes[r.ctl.armed[i]]
		if t.node.sendOnly != "" {
			return nil, t.nodeError(&t.scope, &GotoError{Graph: r.plan.name, To: t.node.Name,
				Msg: fmt.Sprintf("takes %s, which only Send supplies, and was reached without one", t.node.sendOnly)})
		}
		switch n := t.node; {
		case n.view >= 0:
			t.in = r.sync(n.view)
		case n.nest != nil && (n.Handler != nil || n.Cache != nil):
			t.in = r.inherited(n)
		}
	}
	return tasks, nil
}

// sync brings a view up to date.
func (r *Run) sync(i int) any {
	return r.plan.views[i].sync(&r.views[i], r.slots, r.ver, r.plan.schema.words, r.plan.public)
}

// executeAll runs the tasks of a step: a single one on this goroutine, several
// on one goroutine each, bounded by MaxConcurrency. The first failure cancels
// the others; what finished before is kept for a continuation.
func (r *Run) executeAll(tasks []*Task) (err error) {
	if err := r.restore(tasks); err != nil {
		return err
	}
	r.announce(tasks)
	ctx := r.ctx
	if d := r.set.StepTimeout; d > 0 {
		late := &TimeoutError{Limit: d}
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, d, late)
		defer stop()
		defer func() {
			if err != nil && context.Cause(ctx) == late && !bubbles(err) {
				err = fmt.Errorf("graph %q: step %d %w", r.plan.name, r.step, late)
				for _, t := range tasks { // a command for the parent ends the graph anyway
					if up, ok := errors.AsType[*parentCommand](t.err); ok {
						err = up
					}
				}
			}
		}()
	}
	if len(tasks) == 1 {
		tasks[0].execute(ctx)
		return r.outcomeOf(tasks)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := len(tasks)
	if m := r.set.MaxConcurrency; m > 0 && m < workers {
		workers = m
	}
	keeper := r.keeper(tasks)
	one := func(t *Task) {
		defer keeper.ended(t)
		if ctx.Err() != nil && !t.cached {
			t.err = errNotStarted
			return
		}
		t.execute(ctx)
		if t.err == nil && !t.kept {
			t.route(ctx)
		}
		if t.err != nil && !bubbles(t.err) {
			t.first = ctx.Err() == nil
			cancel(fmt.Errorf("cancelled because %q failed: %w", t.Name(), context.Canceled))
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	work := func() {
		for i := next.Add(1) - 1; i < int64(len(tasks)); i = next.Add(1) - 1 {
			one(tasks[i])
		}
	}
	for range workers {
		wg.Go(work)
	}
	wg.Wait()
	keeper.close()
	return r.outcomeOf(tasks)
}

// errNotStarted marks tasks that a sibling's failure kept from starting.
var errNotStarted = fmt.Errorf("not started: %w", context.Canceled)

// outcomeOf decides how the step ended: the first failure in task order that
// is a node's own, not the echo of a cancellation; then a command for the
// parent graph.
func (r *Run) outcomeOf(tasks []*Task) error {
	var first, echo, up error
	paused := false
	for _, t := range tasks {
		_, asked := errors.AsType[*InterruptError](t.err)
		switch {
		case t.err == nil:
		case asked:
			paused = true
		case bubbles(t.err):
			if up == nil {
				up = t.err
			}
		case !t.first && (errors.Is(t.err, context.Canceled) || t.node.Handler != nil && len(tasks) > 1):
			// It was cancelled, or its handler was not asked because of that.
			if echo == nil {
				echo = t.err
			}
		case first == nil:
			first = t.err
		}
	}
	if paused && r.modes&ModeTasks != 0 {
		defer r.emitPaused(tasks) // after the questions themselves
	}
	switch {
	case r.ctx.Err() != nil && (first != nil || echo != nil):
		stopped := cancelled(r.ctx, r.plan.name, r.step)
		return joinErrors(stopped, first, r.keep(tasks))
	case first != nil:
		return joinErrors(first, r.keep(tasks))
	case echo != nil:
		return joinErrors(echo, r.keep(tasks))
	case paused:
		return r.interrupted(tasks)
	case errors.Is(up, ErrDrained):
		return joinErrors(up, r.keep(tasks))
	}
	return up
}

// joinErrors is errors.Join, but a lone error stays itself.
func joinErrors(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(e error) bool { return e == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// settle commits the writes of a finished step, finds what is next and stores
// the checkpoint. A failure leaves the state as it was before the step.
func (r *Run) settle(tasks []*Task) error {
	if err := r.commit(tasks); err != nil {
		r.rollback()
		return r.withdraw(tasks, err)
	}
	if len(tasks) == 1 {
		t := tasks[0]
		if w := t.after(); len(w.branches) > 0 && !t.out.handled && !t.kept {
			if err := t.branch(r.ctx, w, nil); err != nil {
				r.rollback()
				if t.node != startNode {
					t.err = err
					err = joinErrors(err, r.keep(tasks))
				}
				return err
			}
		}
	}
	next := control{joins: r.ctl.joins, waiting: r.ctl.waiting, armed: r.ctl.spare[:0], spare: r.ctl.armed}
	for _, ran := range [...][]*Task{r.ended, tasks} {
		for _, t := range ran {
			if err := r.advance(&next, t, t.after()); err != nil {
				r.rollback()
				return r.withdraw(tasks, err)
			}
		}
	}
	r.release(&next)
	r.ctl = next
	r.forgetCalls()
	r.remember(tasks)
	if r.saving() {
		r.last = r.last[:0]
		for _, t := range tasks {
			if n := len(r.last); n == 0 || r.last[n-1] != t.Name() {
				r.last = append(r.last, t.Name())
			}
		}
		r.unite()
		ran := tasks
		if r.taken != nil {
			ran = slices.Concat(r.taken, tasks)
		}
		err := r.attribute(ran)
		if err == nil {
			err = r.put(r.source)
		}
		if err != nil {
			r.rollback() // what is not stored has not happened
			return err
		}
	}
	if r.modes&ModeValues != 0 && r.changed() {
		r.emitValues()
	}
	r.undo = r.undo[:0] // the step is final
	r.step++
	return nil
}

// after is what follows the task.
func (t *Task) after() *wiring {
	if t.node == startNode {
		return &t.run.plan.start
	}
	return &t.node.wiring
}

// unite makes one change of what an edit took over and what it wrote itself.
func (r *Run) unite() {
	for _, m := range r.merged {
		m.whole = true
		if i := slices.IndexFunc(r.undo, func(u undoEntry) bool { return u.ch == m.ch }); i >= 0 {
			r.undo[i] = m
		} else {
			r.undo = append(r.undo, m)
		}
	}
	r.merged = nil
}

// commit folds the writes of all tasks into the slots, in task order.
func (r *Run) commit(tasks []*Task) (err error) {
	r.ver++
	r.undo = r.undo[:0]
	var at *Task
	defer func() {
		if p := recover(); p != nil {
			err = at.nodeError(&at.scope, newPanicError("reduce: ", p))
		}
	}()
	for _, t := range tasks {
		at = t
		for i := range t.out.writes {
			w := t.out.writes[i]
			s := &r.slots[w.ch.id]
			if s.ver != r.ver {
				r.undo = append(r.undo, undoEntry{ch: w.ch, was: *s})
			}
			if err := s.fold(w, r.ver, t.node.id, true); err != nil {
				return t.nodeError(&t.scope, r.conflict(err, w.ch, s, t))
			}
		}
	}
	for _, c := range r.plan.ephem {
		if s := &r.slots[c.id]; s.has && s.ver != r.ver {
			r.undo = append(r.undo, undoEntry{ch: c, was: *s})
			*s = slot{ver: r.ver}
		}
	}
	if at == nil {
		return nil // nobody wrote
	}
	return r.validate(at)
}

func (r *Run) conflict(err error, c *channel, s *slot, t *Task) error {
	if err != errTwoWriters && err != errTwoOverwrites {
		return err
	}
	first := Start
	if s.by >= 0 {
		first = r.plan.nodes[s.by].Name
	}
	return &ConflictError{Field: c.wire, Nodes: []string{first, t.Name()}, Overwrite: err == errTwoOverwrites}
}

// validate asks the types that have a Validate method about the new state.
func (r *Run) validate(at *Task) error {
	for _, u := range r.undo {
		if u.ch.checks && r.slots[u.ch.id].has {
			if err := validate(r.slots[u.ch.id].val); err != nil {
				return at.nodeError(&at.scope, &ValidationError{Graph: r.plan.name, What: "field " + u.ch.wire, Err: err})
			}
		}
	}
	if !r.plan.validate {
		return nil
	}
	state := reflect.ValueOf(r.plan.state.fresh(r.slots, r.plan.schema.words, r.plan.public)).Elem().Interface()
	if err := validate(state); err != nil {
		return at.nodeError(&at.scope, &ValidationError{Graph: r.plan.name, What: "the state", Err: err})
	}
	return nil
}

// rollback undoes the commit of a step that failed.
func (r *Run) rollback() {
	for _, u := range slices.Backward(r.undo) {
		r.slots[u.ch.id] = u.was
	}
	r.ver--
	r.undo = r.undo[:0]
	clear(r.views) // they may show what was undone
}

// remember notes what a nested graph's nodes wrote.
func (r *Run) remember(tasks []*Task) {
	if !r.journal || len(tasks) == 0 || tasks[0].node == startNode {
		return
	}
	for _, t := range tasks {
		for _, w := range t.out.writes {
			if w.ch.accumulates() || !r.wrote[w.ch.id] {
				r.log = append(r.log, w)
			}
			r.wrote[w.ch.id] = true
		}
	}
}

// changed reports whether the step wrote anything; a field that was cleared
// does not count.
func (r *Run) changed() bool {
	return slices.ContainsFunc(r.undo, func(u undoEntry) bool {
		return r.slots[u.ch.id].has && (!r.plan.schema.workflow || u.ch.wire == End)
	})
}

// touched reports whether values with these fields only are news: between
// steps they always are, after one if it wrote one of them.
func (r *Run) touched(keys []string) bool {
	return len(r.undo) == 0 || slices.ContainsFunc(r.undo, func(u undoEntry) bool {
		return r.slots[u.ch.id].has && slices.Contains(keys, u.ch.wire)
	})
}

// output is a pointer to a new value of the graph's output type.
func (r *Run) output() any {
	return r.plan.out.fresh(r.slots, r.plan.schema.words, r.plan.output)
}

// Invoke runs the graph to its end and returns a pointer to its output, which
// is the output so far if there is an error.
func (p *Plan) Invoke(ctx context.Context, in Input, set Settings) (out any, err error) {
	var later deferred
	if nested := scopeOf(ctx) != nil && set.Thread == ""; set.Durability != Sync && set.Saver != nil && set.Thread != "" && !nested {
		if later, err = durable(set.Saver, set.Durability); err != nil {
			return nil, err
		}
		set.Saver = later
	}
	r, err := p.begin(ctx, in, &set)
	if err == nil {
		err = r.drive()
	}
	if err == nil && later == nil {
		r.retain()
	}
	if later != nil {
		if closeErr := later.close(context.WithoutCancel(ctx), err != nil); closeErr != nil {
			err = joinErrors(err, fmt.Errorf("graph %q: store thread %q: %w", p.name, set.Thread, closeErr))
		}
	}
	if r.slots == nil {
		r.slots = make([]slot, len(p.schema.channels))
	}
	r.emitGraphEnd(err)
	if in.AsRecord {
		return p.schema.record(r.slots, p.output), err
	}
	return r.output(), err
}

// InvokeRecord is Invoke with the output as a Record.
func (p *Plan) InvokeRecord(ctx context.Context, in Input, set Settings) (*Record, error) {
	in.AsRecord = true
	out, err := p.Invoke(ctx, in, set)
	return out.(*Record), err
}
