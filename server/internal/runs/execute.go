package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/dynamic"
	"github.com/treadle-go/treadle/internal/delay"
	"github.com/treadle-go/treadle/internal/observe"
	"github.com/treadle-go/treadle/internal/pregel"
	"github.com/treadle-go/treadle/ledger"
)

// errTimeout is the cause of a run's canceled context if the run took too long.
var errTimeout = errors.New("run exceeded the time limit of the server")

// execute runs a run to its end. It returns the next run of the thread if this process has
// claimed it.
func (r *Runner) execute(ctx context.Context, x *execution, feed *Feed) (next *ledger.Run) {
	run := x.run
	defer func() { r.feeds.release(feed, false) }()
	// Wait for an edit that started before the run was created, and for the previous run.
	r.edits.lock(run.Thread)()
	var k Kwargs
	err := json.Unmarshal(run.Kwargs, &k)
	k.V2 = !run.Temporary && (k.V2 || run.V2 || feed.watched())
	if err == nil {
		err = r.fence(x)
	}
	feed, before := r.catchUp(ctx, run, feed)
	feed.startAt(max(run.Seq, run.Epoch<<epochBits))
	// A client that reads a run that is not temporary, or that another process created, may be
	// connected to another process.
	shared := r.o.Bus != nil && (!run.Temporary || !x.fresh)
	l := &log{
		runner: r,
		feed:   feed,
		run:    run,
		keep:   run.Resumable || k.V2 || shared,
		before: before,
		first:  !executedBefore(run),
		memory: &pregel.Memory{Heads: r.heads},
	}
	l.unread = x.unread && !run.Resumable && !k.V2
	if r.o.Bus != nil {
		l.bound = (run.Epoch + 1) << epochBits
	}
	rec := newRecorder(run, &k, run.Graph, l)
	var th *dynamic.Thread
	if err == nil {
		ctx, cancel := context.WithTimeoutCause(r.traced(ctx, run, &k), r.o.MaxTime, errTimeout)
		ctx, ended := r.observed(ctx, run)
		th, err = r.thread(run, &k, l)
		if err == nil {
			err = r.stream(pregel.WithMemory(ctx, l.memory), th, x, &k, rec)
		}
		if ctx.Err() != nil && err != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		cancel()
		ended()
	}
	return r.end(x, th, rec, l, err)
}

// executedBefore reports whether the run may have been executed before, and may have stored
// events: by a process that is gone, or by one that gave it back.
func executedBefore(run *ledger.Run) bool {
	return run.Attempt > 1 || !run.Updated.Equal(run.Started)
}

// fence makes the saver reject writes by the process that executed the run before. A canceled
// run needs the fence too, because that process may be suspended and later continue the run.
func (r *Runner) fence(x *execution) error {
	run := x.run
	if x.fresh || run.Temporary || run.Attempt <= 1 {
		return nil
	}
	return r.insist("fence thread", run.ID, func(ctx context.Context) error {
		err := r.saver.Fence(ctx, run.Thread.String(), run.Epoch)
		if errors.Is(err, checkpoint.ErrFenced) {
			return nil // by this process, or by the next one, which rejects the run's writes
		}
		return err
	})
}

// traced returns the context of a run: the process's context, as part of the trace of the
// request that created the run, in whichever process that was.
func (r *Runner) traced(ctx context.Context, run *ledger.Run, k *Kwargs) context.Context {
	if r.o.Context == nil {
		return ctx
	}
	ctx = r.o.Context(ctx, k)
	t := observe.TracerOf(ctx)
	if t == nil {
		return ctx
	}
	ctx = t.Extract(ctx, k.Trace)
	due := run.Created
	if run.Due.After(due) {
		due = run.Due
	}
	return observe.WithServed(ctx, observe.Served{Waited: max(time.Since(due), 0), Attempt: run.Attempt})
}

// observed returns the context of a run whose calls are recorded as spans, and a function to call
// before the run ends in the ledger, which stores the spans. The row of a temporary run is deleted
// when the run ends, so such a run has no spans.
func (r *Runner) observed(ctx context.Context, run *ledger.Run) (observed context.Context, ended func()) {
	if r.spans == nil || run.Temporary {
		return ctx, func() {}
	}
	ctx, calls := r.spans.Start(ctx, run)
	return ctx, calls.End
}

// epochBits is the number of bits for the entry numbers within an epoch of a thread. Numbers
// stay below 2⁵³, the limit of exact integers in JavaScript, for 2²⁵ epochs.
const epochBits = 28

// thread opens the run's thread. A temporary run gets its own saver in memory, so that
// interrupts, subgraphs, and streams work the same.
func (r *Runner) thread(run *ledger.Run, k *Kwargs, l *log) (*dynamic.Thread, error) {
	g := r.graphs[run.Graph]
	if g == nil {
		return nil, fmt.Errorf("graph %q is not served", run.Graph)
	}
	host := dynamic.Host{Saver: r.saver, Store: r.store, Fence: run.Epoch, Config: k.Config, AnyGraph: true, NoOutput: true}
	if l.keep && !l.unread {
		host.Recorded = l.settle
	}
	if run.Temporary {
		host.Saver, host.Scratch, host.Fence = checkpoint.NewMemory(), true, 0
	}
	opts := append(k.options(run, g), host.Option(), treadle.Drain(r.drain))
	return dynamic.Open(g, run.Thread.String(), opts...), nil
}

// stream runs the graph and records its events.
func (r *Runner) stream(ctx context.Context, th *dynamic.Thread, x *execution, k *Kwargs, rec *recorder) error {
	run, again := x.run, false
	if !x.fresh && !run.Temporary {
		snap, err := th.State(ctx)
		if err != nil {
			return err
		}
		again = snap.RunID == run.ID.String()
		if again && len(snap.Next) == 0 && len(snap.Pauses) == 0 {
			// All steps are saved, but the event with the final state may not be.
			rec.event(treadle.Values{State: snap.State})
			return nil
		}
	}
	events, err := r.events(ctx, th, run, k, again)
	if err != nil {
		return err
	}
	for ev, err := range events {
		if err != nil {
			return err
		}
		rec.event(ev)
	}
	return nil
}

// events starts the graph and returns its stream. again means that the run has already saved
// steps and continues from them.
func (r *Runner) events(ctx context.Context, th *dynamic.Thread, run *ledger.Run, k *Kwargs, again bool) (iter.Seq2[treadle.Event, error], error) {
	opts := []treadle.StreamOption{treadle.Modes(k.engineModes())}
	if k.Subgraphs || k.V2 {
		opts = append(opts, treadle.Subgraphs())
	}
	if again {
		return th.StreamJSON(ctx, nil, opts...), nil
	}
	latest := th
	th, err := At(th, k.Configurable())
	if err != nil {
		return nil, err
	}
	if present(k.Command) {
		if k.Strict {
			if err := strictResume(ctx, latest, th, k); err != nil {
				return nil, err
			}
		}
		command, err := r.command(ctx, th, k.Command)
		if err != nil {
			return nil, err
		}
		if command == nil { // the answered interrupts are not pending, so nothing changes
			return th.StreamJSON(ctx, nil, opts...), nil
		}
		return th.CommandJSON(ctx, command, opts...), nil
	}
	if !present(k.Input) {
		return th.StreamJSON(ctx, nil, opts...), nil
	}
	return th.StreamJSON(ctx, r.graphs[run.Graph].knownFields(k.Input, false), opts...), nil
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// command removes answers to interrupts that are not pending, as LangGraph does. It returns nil
// if nothing is left.
func (r *Runner) command(ctx context.Context, th *dynamic.Thread, raw json.RawMessage) (json.RawMessage, error) {
	var c map[string]json.RawMessage
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	for key, v := range c {
		if !present(v) {
			delete(c, key)
		}
	}
	delete(c, "interruptEvent") // CopilotKit adds the interrupt that it resumes
	var byID map[string]json.RawMessage
	if resume, ok := c["resume"]; ok && json.Unmarshal(resume, &byID) == nil && areIDs(byID) {
		snap, err := th.State(ctx)
		if err != nil {
			return nil, err
		}
		open := map[string]bool{}
		for _, p := range snap.Pauses {
			open[p.ID] = true
		}
		for id := range byID {
			if !open[id] {
				delete(byID, id)
			}
		}
		c["resume"] = jsonOf(byID)
		if len(byID) == 0 {
			delete(c, "resume")
		}
	}
	if len(c) == 0 {
		return nil, nil
	}
	return jsonOf(c), nil
}

// areIDs reports whether all keys have the form of interrupt IDs.
func areIDs(m map[string]json.RawMessage) bool {
	for k := range m {
		if len(k) != 32 {
			return false
		}
		for _, c := range k {
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return len(m) > 0
}

// end ends a run in the ledger and then for its readers, so that a client that reads the thread
// after the stream never sees it busy. It returns the next run of the thread if this process has
// claimed it.
func (r *Runner) end(x *execution, th *dynamic.Thread, rec *recorder, l *log, err error) *ledger.Run {
	run := x.run
	r.mu.Lock()
	order := x.order
	r.mu.Unlock()
	dropped := l.end()
	if dropped && order == ledger.NoAction && !errors.Is(err, checkpoint.ErrFenced) {
		err = fmt.Errorf("events of the run are not stored: %w", checkpoint.ErrUnavailable)
	}
	x.waits = true // unless the ledger reports that no run waits
	if r.leave(run, l, order, err) {
		return nil
	}
	e, shown := r.outcome(run, order, err)
	if r.settle(e, th, rec, err != nil) != nil {
		r.lost(l)
		return nil
	}
	pushed := r.addHooks(e, shown, rec)
	if shown.Failed {
		rec.frame("error", nil, jsonOf(map[string]string{"error": shown.Class, "message": shown.Message}))
	}
	shown.Status = string(e.Status)
	// The thread's next run may start as soon as this one has ended in the ledger. Its entries
	// must come after the entries below.
	defer r.edits.lock(run.Thread)()
	e.Seq = lastEntry(shown, rec, l, err)
	next, finishErr := r.finish(e)
	if finishErr != nil {
		r.lost(l)
		return nil
	}
	x.waits = e.Left > 0
	if r.o.Ended != nil {
		r.o.Ended(run, e.Status)
	}
	if shown.Failed {
		r.logFailure(run, err)
	}
	l.last = l.keep && r.o.Bus != nil
	if rec.v2 != nil {
		rec.v2.end(shown, e.Status == ledger.RunCanceled || isPause(err))
	}
	rec.finish(shown)
	l.finish()
	if e.Hook != nil || *pushed || !e.Wake.IsZero() || len(e.Signals) > 0 {
		r.Wake()
	}
	return next
}

func isPause(err error) bool {
	_, paused := errors.AsType[*treadle.InterruptError](err)
	return paused
}

// leave leaves a run that did not end to this process or another one, which resumes it. It
// returns false if the run ended.
func (r *Runner) leave(run *ledger.Run, l *log, order ledger.Action, err error) bool {
	switch {
	case err == nil || errors.Is(err, treadle.ErrNothingToResume):
		return false
	case isPause(err):
		return false
	case errors.Is(err, checkpoint.ErrFenced):
		r.lost(l)
	case errors.Is(err, errUnsettled):
		r.release(run, l)
	case order != ledger.NoAction:
		return false
	case errors.Is(err, treadle.ErrDrained), errors.Is(err, errLease):
		r.release(run, l)
	case r.mayResume(run, err):
		r.trouble.note(err)
		// Delay the release, so that a run whose steps do not fit on a full disk does not retry
		// in a tight loop.
		_ = delay.For(context.Background(), min(max(time.Since(run.Started)/10, releaseMin), releaseMax))
		r.release(run, l)
	default:
		return false
	}
	return true
}

// outcome returns the end of a run for the ledger and for the run's readers.
func (r *Runner) outcome(run *ledger.Run, order ledger.Action, err error) (*ledger.End, *End) {
	e := &ledger.End{
		Run:        run,
		Worker:     r.worker,
		Status:     ledger.Success,
		Claim:      !r.Draining(),
		Interrupts: json.RawMessage("{}"),
	}
	shown := &End{}
	pause, paused := errors.AsType[*treadle.InterruptError](err)
	switch {
	case err == nil || errors.Is(err, treadle.ErrNothingToResume):
	case paused:
		shown.Paused = len(pause.Pauses) > 0
		e.Next = true
	case order != ledger.NoAction:
		canceled(e, order)
		return e, shown
	case errors.Is(err, errTimeout):
		e.Status = ledger.TimedOut
		e.Failure = &ledger.Failure{Class: "TimeoutError", Message: fmt.Sprintf("the run took longer than %s", r.o.MaxTime)}
	default:
		class, message := failure(err)
		e.Status = ledger.Error
		e.Failure = &ledger.Failure{Class: class, Message: message}
	}
	if e.Failure != nil {
		shown.Failed, shown.Class, shown.Message = true, e.Failure.Class, e.Failure.Message
	}
	return e, shown
}

// addHooks adds the functions that create the run's webhooks. When the ledger has ended the run,
// the result reports whether the thread has push notifications.
func (r *Runner) addHooks(e *ledger.End, shown *End, rec *recorder) *bool {
	run := e.Run
	if run.Webhook != "" {
		e.Hook = func(stored *ledger.Run) *ledger.Hook { return hook(stored, run.Kwargs, e, rec) }
	}
	pushed := new(bool)
	if r.o.Pushes != nil {
		e.Pushes = func(t *ledger.Thread) func(*ledger.Thread) []*ledger.Hook {
			*pushed = true
			return r.o.Pushes(&Pushed{Run: run, Thread: t, End: shown, Values: rec.state, Interrupts: e.Interrupts})
		}
	}
	return pushed
}

// lastEntry stores the run's entries so far and returns the sequence number of its last entry.
func lastEntry(shown *End, rec *recorder, l *log, err error) uint64 {
	endings := uint64(1)
	if rec.v2 != nil {
		var broken error
		if shown.Failed {
			broken = err
		}
		rec.v2.settle(broken)
		endings += rec.v2.endings(shown)
	}
	// When the run has ended, readers in other processes treat the stored entries as complete.
	// Entries that cannot be stored for a long time are left to log.finish. So are entries that
	// are probably never read: they are stored together with the last one.
	if !l.unread {
		_ = l.settle()
	}
	return l.feed.last() + endings
}

// logFailure logs the failure of a node. Clients get neither the name of the node nor the stack
// of a panic. They get the whole text of all other failures, such as an invalid input.
func (r *Runner) logFailure(run *ledger.Run, err error) {
	node, ok := errors.AsType[*treadle.NodeError](err)
	switch {
	case !ok:
	case node.Stack != nil:
		r.logger.Error("run panicked", "run", run.ID, "thread", run.Thread, "error", err, "stack", string(node.Stack))
	default:
		r.logger.Warn("run failed", "run", run.ID, "thread", run.Thread, "error", err)
	}
}

// mayResume reports whether a failed run resumes when the database is available again. If a
// node's own database is unavailable, the node could fail forever, so such a run is subject to
// the usual time limit.
func (r *Runner) mayResume(run *ledger.Run, err error) bool {
	_, node := errors.AsType[*treadle.NodeError](err)
	return errors.Is(err, checkpoint.ErrUnavailable) && (!node || time.Since(run.Started) < r.o.MaxTime)
}

// errUnsettled is returned when the process stops before the database has saved a record
// without which the run cannot end. The lease expires after the process ends, and another
// process takes over the run.
var errUnsettled = errors.New("server stopped before the database was available")

// attemptTime is the timeout of each attempt of insist.
const attemptTime = 30 * time.Second

// insist calls save until it succeeds or fails for a reason other than an unavailable database.
// Until then, the run stays with this process: as long as the process renews its lease, no
// other process ends the run. insist returns an error that matches errUnsettled if the process
// stops first. id identifies the run or thread in log messages.
func (r *Runner) insist(what string, id uuid.UUID, save func(context.Context) error) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), attemptTime)
		err := save(ctx)
		timedOut := ctx.Err() != nil
		cancel()
		if err == nil || !timedOut && !errors.Is(err, checkpoint.ErrUnavailable) {
			return err
		}
		r.trouble.note(err)
		r.logger.WarnContext(ctx, "database unavailable, retrying", "operation", what, "id", id, "error", err)
		if r.Draining() && pause > time.Second {
			return fmt.Errorf("%s: %w: %w", what, errUnsettled, err)
		}
		_ = delay.For(context.Background(), pause)
	}
}

// settle saves and reads everything that the end of a run depends on. It retries each part
// while the database is unavailable, because otherwise a rollback, an interrupt, or a wake-up
// would be lost. It fails only if the process stops first.
func (r *Runner) settle(e *ledger.End, th *dynamic.Thread, rec *recorder, failed bool) error {
	run := e.Run
	if run.Temporary {
		return nil
	}
	if e.Delete {
		err := r.insist("roll back run", run.ID, func(ctx context.Context) error {
			_, err := r.saver.DeleteRuns(ctx, run.Thread.String(), []string{run.ID.String()})
			return err
		})
		if errors.Is(err, errUnsettled) {
			return err
		}
		if err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			r.logger.Error("failed to roll back run", "run", run.ID, "error", err)
		}
	}
	if th == nil {
		return nil
	}
	err := r.insist("read state", run.ID, func(ctx context.Context) error { return r.describe(ctx, e, th, rec, failed) })
	if errors.Is(err, errUnsettled) {
		return err
	}
	if err != nil { // the state is damaged, or belongs to another program
		r.logger.Warn("failed to read the state of an ended run: its interrupts and wake-up are unknown", "run", run.ID, "error", err)
	}
	return nil
}

// finish saves the end of a run. It retries after any error, because the run has ended and no
// other process can record that. It returns ledger.ErrLost if another process has taken over
// the run, or an error that matches errUnsettled if this process stops first.
func (r *Runner) finish(e *ledger.End) (next *ledger.Run, err error) {
	err = r.insist("save end", e.Run.ID, func(ctx context.Context) (err error) {
		if next, err = r.ledger.Finish(ctx, e); err != nil && !errors.Is(err, ledger.ErrLost) {
			err = fmt.Errorf("%w: %w", checkpoint.ErrUnavailable, err)
		}
		return err
	})
	if err == nil && e.Status == ledger.Success {
		r.trouble.clear()
	}
	return next, err
}

// canceled sets the end of a canceled run.
func canceled(e *ledger.End, order ledger.Action) {
	e.Status, e.Next = ledger.RunCanceled, true
	e.Failure = &ledger.Failure{Class: "UserInterrupt", Message: "interrupt requested via the API"}
	if order == ledger.RollbackRun {
		e.Delete, e.Next = true, false
		e.Failure = &ledger.Failure{Class: "UserRollback", Message: "rollback requested via the API"}
	}
}

// lost ends a run in this process after another process has taken it over, or will.
func (r *Runner) lost(l *log) {
	l.flush()
	if r.o.Bus == nil { // otherwise, readers follow the other process
		l.feed.append(&Entry{Run: l.run.ID, Time: time.Now(), End: &End{Lost: true}})
	}
}

// release returns a run to the queue, for this process or another one. If this process keeps
// running, the readers of the run stay connected and see it resume.
func (r *Runner) release(run *ledger.Run, l *log) {
	l.flush()
	err := r.insist("give back run", run.ID, func(ctx context.Context) error {
		err := r.ledger.Release(ctx, r.worker, run, l.feed.last())
		if err != nil && !errors.Is(err, ledger.ErrLost) && !errors.Is(err, ledger.ErrNotFound) {
			err = fmt.Errorf("%w: %w", checkpoint.ErrUnavailable, err)
		}
		return err
	})
	r.announce()
	if err == nil && !r.Draining() {
		l.flush()
		return
	}
	r.lost(l)
}

// The bounds of the delay before a run whose step could not be saved is released. The delay
// grows with the age of the run.
const (
	releaseMin = 250 * time.Millisecond
	releaseMax = 5 * time.Second
)

// Draining reports whether the runner is being stopped.
func (r *Runner) Draining() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining
}

// describe sets the fields of e that describe the thread: short values for searching and,
// unless the run has simply succeeded, its interrupts and wake-up time.
func (r *Runner) describe(ctx context.Context, e *ledger.End, th *dynamic.Thread, rec *recorder, failed bool) error {
	if rec.answer != nil {
		e.Small = Small(rec.answer.State)
	}
	if !failed && rec.answer != nil {
		return nil
	}
	snap, err := th.State(ctx)
	if err != nil {
		return err
	}
	wake, signals, err := r.Waits(ctx, e.Run.Thread)
	if err != nil {
		return err
	}
	e.Head, e.Small = snap.ID.String(), Small(snap.State)
	e.Next = e.Next && len(snap.Next) > 0 || len(snap.Pauses) > 0
	e.Interrupts, e.Wake, e.Signals = Interrupts(snap), wake, signals
	return nil
}

// Interrupts returns the pending interrupts of a state, and the other conditions that it waits
// for, by task ID.
func Interrupts(snap *treadle.Snapshot) json.RawMessage {
	type question struct {
		ID     string            `json:"id"`
		Value  json.RawMessage   `json:"value"`
		Schema json.RawMessage   `json:"response_schema,omitempty"`
		Kind   treadle.PauseKind `json:"kind,omitempty"`
		Key    string            `json:"key,omitempty"` // of a question
		Due    time.Time         `json:"due,omitzero"`
	}
	byTask := map[string][]question{}
	for _, t := range snap.Tasks {
		for _, p := range t.Pauses {
			q := question{ID: p.ID, Value: p.Value, Kind: p.Kind, Due: p.Due}
			if p.Kind == treadle.QuestionPause {
				q.Schema, q.Key = p.Schema, p.Key
			}
			byTask[t.ID] = append(byTask[t.ID], q)
		}
	}
	return jsonOf(byTask)
}

// The limits of the values that the ledger stores of a state.
const (
	smallValue = 256
	smallTotal = 4 << 10
)

// Small returns the short values of a state, for searching threads. It omits lists, because
// they grow with every turn.
func Small(rec treadle.Record) ledger.Object {
	out, total := ledger.Object{}, 0
	for _, name := range rec.Names() {
		v, ok := rec.Get(name)
		if !ok || isList(v) {
			continue
		}
		raw, err := json.Marshal(v)
		if err != nil || len(raw) > smallValue || total+len(raw)+len(name) > smallTotal {
			continue
		}
		total += len(raw) + len(name)
		out[name] = json.RawMessage(raw)
	}
	return out
}

func isList(v any) bool {
	if v == nil {
		return false
	}
	k := reflect.TypeOf(v).Kind()
	return k == reflect.Slice || k == reflect.Array
}

// finish records the last entry of the run. Its data is the final state, for a client that
// waits for the end of the run, or the error.
func (r *recorder) finish(end *End) {
	entry := &Entry{Run: r.run.ID, End: end}
	switch {
	case end.Failed:
		entry.data = jsonOf(map[string]any{"__error__": map[string]string{"error": end.Class, "message": end.Message}})
	case r.values != nil:
		entry.make = r.values // same as in the stream
	case r.answer != nil:
		ev := *r.answer
		entry.make = func() (json.RawMessage, error) {
			_, _, data, err := dynamic.Wire{}.Frame(ev)
			return data, err
		}
	}
	r.log.add(entry)
}
