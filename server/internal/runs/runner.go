package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/bus"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/server/internal/spans"
	"github.com/treadle-go/treadle/store"
)

// ErrStopped is returned when the runner shuts down while a caller waits for a run.
var ErrStopped = errors.New("server is shutting down")

// Saver is the interface of the savers that a Runner supports.
type Saver interface {
	checkpoint.Saver
	checkpoint.Fencer
	checkpoint.RunDeleter
	checkpoint.Copier
	checkpoint.Pruner
	checkpoint.Sizer
}

// Options configures [New].
type Options struct {
	Ledger  *ledger.Ledger
	Saver   Saver
	Store   *store.Store
	Graphs  []treadle.AnyGraph
	Logger  *slog.Logger
	Name    string        // describes this process to people
	Workers int           // maximum number of concurrent runs; 0 means 256, negative means none
	MaxTime time.Duration // maximum duration of a run; 0 means one hour
	// Alone means that no other process uses the ledger, so all other workers are dead and
	// their runs are taken over immediately.
	Alone bool
	// SweepEvery is the interval at which expired threads are removed, at most SweepLimit at a
	// time. SweepStore is the interval at which expired store items are removed. 0 means one
	// minute, 100, and 5 minutes, respectively.
	SweepEvery, SweepStore time.Duration
	SweepLimit             int
	// Bus connects the processes that use the ledger; nil means that there is only this one.
	Bus bus.Bus
	// Memory is the memory budget of the runner; nil means 128 MiB.
	Memory *budget.Budget
	// Claims lists the graphs whose runs this process executes; nil means all.
	Claims []string
	// Context, if not nil, derives the context of each run.
	Context func(context.Context, *Kwargs) context.Context
	// Send delivers a webhook. If it returns an error, the delivery is retried. nil means that
	// no webhooks are sent.
	Send func(ctx context.Context, h *ledger.Hook) error
	// Pushes prepares the webhooks that an ended run of a thread with ledger.Thread.Pushes sends
	// in addition, and returns a function that returns them for the thread as stored. The function
	// must be fast, because it is called in a transaction. Pushes may be nil.
	Pushes func(p *Pushed) func(*ledger.Thread) []*ledger.Hook
	// Ended is called for each run that this process has ended; it may be nil.
	Ended func(run *ledger.Run, status ledger.RunStatus)
	// Spans configures the recording of calls; nil means that none are recorded. The runner sets
	// the fields Ledger, Logger, and Failure.
	Spans *spans.Options
	// Texts configures the index of the texts of threads; nil means that there is none. Its
	// method Changed is the ledger's Options.TextChanged.
	Texts *Texts
	// Ready is called with the runner before it looks for work, and therefore before it calls any other
	// function of these options; it may be nil.
	Ready func(*Runner)
	// Cron builds the run of a due cron. nil means that this process ignores crons.
	Cron func(ctx context.Context, c *ledger.Cron, at time.Time) (*ledger.NewRun, error)
}

// Pushed is the end of a run of a thread that has ledger.Thread.Pushes.
type Pushed struct {
	Run        *ledger.Run // as claimed
	Thread     *ledger.Thread
	End        *End
	Values     func() (json.RawMessage, error)
	Interrupts json.RawMessage // as in ledger.Thread
}

// ownMemory is the memory limit in bytes if Options.Memory is nil.
const ownMemory = 128 << 20

// A Runner executes the runs of one process.
type Runner struct {
	ledger *ledger.Ledger
	saver  Saver
	store  *store.Store
	graphs map[string]*graph
	names  []string
	claims []string // graphs whose runs this process executes
	logger *slog.Logger
	o      Options

	worker uuid.UUID
	memory *budget.Budget
	heads  *pregel.Heads
	unkept *budget.Account // events that are not stored yet
	feeds  feeds
	edits  edits
	waker  *waker          // wakes threads
	ticker *waker          // creates the runs of crons
	spans  *spans.Recorder // nil if calls are not recorded

	deliveries deliveries

	mu      sync.Mutex
	active  map[uuid.UUID]*execution
	slots   int                 // total
	free    int                 // slots that are free
	taken   map[ticket]struct{} // slots of calls that may claim a run, until the run is in active
	tickets ticket              // the last ticket
	// orphans contains the runs that the ledger assigns to this process but that are not in
	// active, with the last ticket at that time; see orphaned.
	orphans  map[uuid.UUID]ticket
	draining bool
	drain    chan struct{} // closed when runs must end after their current step
	stopped  chan struct{} // closed when no more runs are executed and readers must leave
	wake     chan struct{} // receives when there may be work to claim
	loops    sync.WaitGroup
	runs     sync.WaitGroup
	hands    hands           // execute the runs
	ctx      context.Context // ends when the loops must end
	stopLoop context.CancelFunc
	calm     time.Time // runs of other processes are not taken over before this time; used only by keepLease
	trouble  trouble
}

// execution is a run that this process executes.
type execution struct {
	run    *ledger.Run
	fresh  bool // the run was never started before
	unread bool // the client that created the run does not read its stream
	cancel context.CancelCauseFunc
	order  ledger.Action // the order that the run received
	waits  bool          // other runs of the thread wait for its end
}

// New starts a runner, which immediately looks for work.
func New(o Options) (*Runner, error) {
	r := &Runner{
		ledger:  o.Ledger,
		saver:   o.Saver,
		store:   o.Store,
		logger:  o.Logger,
		o:       o,
		graphs:  map[string]*graph{},
		worker:  uuid.Must(uuid.NewV7()),
		active:  map[uuid.UUID]*execution{},
		taken:   map[ticket]struct{}{},
		free:    o.Workers,
		drain:   make(chan struct{}),
		stopped: make(chan struct{}),
		wake:    make(chan struct{}, 1),
		waker:   newWaker(),
		ticker:  newWaker(),
	}
	if r.free == 0 {
		r.free = 256
	}
	r.free = max(r.free, 0)
	r.slots = r.free
	if r.o.MaxTime == 0 {
		r.o.MaxTime = time.Hour
	}
	r.o.SweepEvery = cmp.Or(o.SweepEvery, time.Minute)
	r.o.SweepStore = cmp.Or(o.SweepStore, 5*time.Minute)
	r.o.SweepLimit = cmp.Or(o.SweepLimit, 100)
	r.memory = o.Memory
	if r.memory == nil {
		r.memory = budget.New(ownMemory)
	}
	r.heads, r.unkept = pregel.NewHeads(r.memory), r.memory.Account("events")
	r.feeds.limit(r.memory)
	if r.logger == nil {
		r.logger = slog.Default()
	}
	for _, g := range o.Graphs {
		if r.graphs[g.Name()] != nil {
			return nil, fmt.Errorf("two graphs have the name %q", g.Name())
		}
		known, err := newGraph(g)
		if err != nil {
			return nil, err
		}
		r.graphs[g.Name()] = known
		r.names = append(r.names, g.Name())
	}
	r.claims = o.Claims
	if r.claims == nil {
		r.claims = r.names
	}
	if o.Spans != nil {
		s := *o.Spans
		s.Ledger, s.Logger, s.Failure = r.ledger, r.logger, failure
		r.spans = spans.New(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.ctx, r.stopLoop = ctx, cancel
	if Observe != nil {
		Observe(r)
	}
	if o.Ready != nil {
		o.Ready(r)
	}
	if err := r.join(ctx); err != nil {
		cancel()
		r.closeSpans(ctx)
		return nil, err
	}
	r.loops.Go(func() { r.keepLease(ctx) })
	r.loops.Go(func() { r.findWork(ctx) })
	r.loops.Go(func() { r.cleanUp(ctx) })
	r.loops.Go(func() { r.waker.run(ctx, r.wakeSome, r.Wake) }) // findWork then computes the next due time
	if o.Cron != nil {
		r.loops.Go(func() { r.ticker.run(ctx, r.tickSome, r.Wake) })
	}
	if o.Texts != nil {
		r.loops.Go(func() { r.indexTexts(ctx) })
	}
	if o.Bus != nil {
		r.loops.Go(func() { r.attend(r.ctx) })
	}
	return r, nil
}

// join registers this process in the ledger and on the bus.
func (r *Runner) join(ctx context.Context) error {
	if _, err := r.ledger.Beat(ctx, r.worker, r.o.Name); err != nil {
		return err
	}
	if r.o.Alone {
		if err := r.ledger.LeaveOthers(ctx, r.worker); err != nil {
			return err
		}
		r.takeOver(ctx)
	}
	return r.listen(ctx)
}

// closeSpans stores the remaining spans.
func (r *Runner) closeSpans(ctx context.Context) {
	if r.spans != nil {
		r.spans.Close(ctx)
	}
}

// Graphs returns the names of the runner's graphs, in the order of Options.Graphs.
func (r *Runner) Graphs() []string { return slices.Clone(r.names) }

// Graph returns the graph with a name, or nil.
func (r *Runner) Graph(name string) treadle.AnyGraph {
	if g := r.graphs[name]; g != nil {
		return g.AnyGraph
	}
	return nil
}

// Thread opens a thread for reading and editing. Its fence is the epoch of the thread's row.
func (r *Runner) Thread(t *ledger.Thread, config map[string]any) (*dynamic.Thread, error) {
	g := r.graphs[t.Graph()]
	if g == nil {
		return nil, fmt.Errorf("thread %s: graph %q is not served", t.ID, t.Graph())
	}
	host := dynamic.Host{Saver: r.saver, Store: r.store, Fence: t.Epoch, Config: config, AnyGraph: true}
	return dynamic.Open(g, t.ID.String(), host.Option(), treadle.Metadata(map[string]any{"graph_id": t.Graph()})), nil
}

// Update returns a client's values for a thread's state, without fields that the state does not
// declare.
func (r *Runner) Update(graph string, values []byte) []byte {
	if g := r.graphs[graph]; g != nil {
		return g.knownFields(values, true)
	}
	return values
}

// Create creates a run. If this process has a free slot and the run can start immediately,
// Create starts it. waits means that the caller waits for the end of the run and does not read
// its stream.
func (r *Runner) Create(ctx context.Context, n *ledger.NewRun, waits bool) (*ledger.Created, error) {
	var slot ticket
	if slices.Contains(r.claims, n.Graph) {
		slot = r.take()
	}
	if slot != 0 {
		n.Worker = r.worker
	}
	made, err := r.ledger.CreateRun(ctx, n)
	if err != nil || !made.Claimed {
		r.giveBack(slot)
		if err != nil {
			return nil, err
		}
	}
	for _, other := range made.Ordered {
		r.tell(other.ID, other.Order)
	}
	for _, other := range made.Ended {
		r.ended(other)
	}
	if made.Claimed {
		r.start(&execution{run: made.Run, fresh: true, unread: waits}, slot)
	} else if !made.Old {
		r.announce()
	}
	return made, nil
}

// A ticket is a slot taken for a run that a call may claim. Tickets increase, so reconcile can
// determine whether a call in progress may have claimed a run.
type ticket uint64

// take takes a slot. It returns 0 if none is free or the runner is draining. The caller must
// pass the ticket to start or giveBack.
func (r *Runner) take() ticket { return r.takeLeaving(0) }

// takeLeaving is like take, but leaves some slots free.
func (r *Runner) takeLeaving(spare int) ticket {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.free <= spare || r.draining {
		return 0
	}
	r.free--
	r.tickets++
	r.taken[r.tickets] = struct{}{}
	return r.tickets
}

// giveBack returns a slot in which no run was started. A zero ticket is ignored.
func (r *Runner) giveBack(t ticket) {
	if t == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.taken, t)
	r.free++
}

// Wake makes the runner look for work.
func (r *Runner) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// start executes a run that this process has claimed, in the slot of the ticket.
func (r *Runner) start(x *execution, t ticket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.taken, t)
	r.launch(x)
}

// launch executes a run for which a slot is taken. The caller holds r.mu.
func (r *Runner) launch(x *execution) {
	run := x.run
	ctx, cancel := context.WithCancelCause(context.Background())
	x.cancel, x.order = cancel, run.Order
	r.active[run.ID] = x
	delete(r.orphans, run.ID)
	if x.order != ledger.NoAction { // it was started elsewhere and canceled since
		cancel(errOrdered)
	}
	feed := r.feeds.use(run.Thread)
	r.runs.Add(1)
	r.hands.do(func() {
		defer r.runs.Done()
		next := r.execute(ctx, x, feed)
		cancel(nil)
		r.ran(x, next)
	})
}

// ran replaces an execution with the next run of its thread, or frees its slot.
func (r *Runner) ran(x *execution, next *ledger.Run) {
	r.mu.Lock()
	if r.active[x.run.ID] == x { // otherwise, the run was released, and this process has claimed it again
		delete(r.active, x.run.ID)
	}
	full := r.free == 0
	if next != nil {
		r.launch(&execution{run: next})
	} else {
		r.free++
	}
	r.mu.Unlock()
	// Looking for work takes several queries, so do it only if there may be some. Pending runs
	// of the thread may be for other processes, because they need another graph or a later
	// revision.
	switch {
	case next != nil:
	case x.waits:
		r.announce()
	case full:
		r.Wake()
	}
}

// order orders a run to end. It reports whether this process executes the run.
func (r *Runner) order(id uuid.UUID, a ledger.Action) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.active[id]
	if x == nil {
		return false
	}
	if x.order != ledger.RollbackRun { // a rollback cannot be revoked
		x.order = a
	}
	x.cancel(errOrdered)
	return true
}

// errOrdered is the cause of a canceled run's context.
var errOrdered = errors.New("run canceled")

// Cancel cancels runs. It returns those that had started; the others have ended.
func (r *Runner) Cancel(ctx context.Context, thread uuid.UUID, ids []uuid.UUID, a ledger.Action, f *ledger.Filter) ([]*ledger.Run, error) {
	running, ended, err := r.ledger.Cancel(ctx, thread, ids, a, f)
	if err != nil {
		return nil, err
	}
	for _, run := range ended {
		r.ended(run)
	}
	for _, run := range running {
		r.tell(run.ID, a)
	}
	return running, nil
}

// ended notifies readers of the end of a run that no execution has recorded, such as a run that
// was canceled before it started.
func (r *Runner) ended(run *ledger.Run) {
	feed := r.feeds.use(run.Thread)
	feed.append(&Entry{Run: run.ID, Time: time.Now(), End: &End{Status: string(ledger.RunCanceled)}})
	r.feeds.release(feed, false)
	r.Wake()
}

// Wait waits until a run has ended, in any process. It returns ErrStopped if this process stops
// first.
func (r *Runner) Wait(ctx context.Context, run *ledger.Run) (*End, error) {
	e, err := r.End(ctx, run, false)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return &End{Status: string(run.Status)}, nil
	case e.End.Lost:
		return nil, ErrStopped
	}
	return e.End, nil
}

// Drain stops the runner. It starts no more runs, and running ones end after their current step
// and are left to other processes. When ctx ends, remaining runs are canceled. Drain returns
// when nothing is running.
func (r *Runner) Drain(ctx context.Context) error {
	r.mu.Lock()
	if !r.draining {
		r.draining = true
		close(r.drain)
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() { r.runs.Wait(); close(done) }()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		r.mu.Lock()
		for _, x := range r.active {
			x.cancel(treadle.ErrDrained)
		}
		r.mu.Unlock()
		<-done
	}
	r.stopLoop()
	r.loops.Wait()
	r.hands.stop()
	r.mu.Lock()
	select {
	case <-r.stopped:
	default:
		close(r.stopped)
		defer r.closeSpans(context.WithoutCancel(ctx))
	}
	r.mu.Unlock()
	leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, r.ledger.Leave(leave, r.worker))
}

// isStopped reports whether the runner has stopped executing runs.
func (r *Runner) isStopped() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}

// Slots returns the maximum number of runs that this process executes at the same time.
func (r *Runner) Slots() int { return r.slots }

// Active returns the number of runs that this process executes.
func (r *Runner) Active() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.active)
}
