package deep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/inside"
	"github.com/treadle-go/treadle/internal/pregel"
)

// TaskState is the state of the thread of a task of [Local].
type TaskState struct {
	Job     Job     `json:"job"`
	Outcome Outcome `json:"outcome"`
}

// Local runs background tasks in this process; see [NewLocal].
type Local struct {
	graph  *treadle.Graph[TaskState, TaskState]
	saver  checkpoint.Saver
	logger *slog.Logger

	mu      sync.Mutex
	parent  treadle.AnyGraph
	running map[string]*localRun
	wake    chan struct{}
}

// localRun is a run of a task, or a change of its job, in progress: there is at most one.
type localRun struct {
	of     *Local
	id     string
	job    Job // that it works on; guarded by Local.mu
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
}

// NewLocal returns a [Background] whose tasks are threads of opts.Saver, named by the task
// IDs. A process that is killed loses no task: [Local.Serve] continues them. A question of a
// task is answered with [Local.Resume].
func NewLocal(name string, worker Runner, opts *treadle.Options) (*Local, error) {
	switch {
	case worker == nil:
		return nil, errors.New("deep: background agent: nil worker")
	case opts == nil || opts.Saver == nil:
		return nil, fmt.Errorf("deep: background agent %s: %w", name, treadle.ErrNoSaver)
	}
	if _, ok := opts.Saver.(checkpoint.ThreadLister); !ok {
		return nil, fmt.Errorf("deep: background agent %s: saver %T cannot list threads: it must implement checkpoint.ThreadLister", name, opts.Saver)
	}
	l := &Local{saver: opts.Saver, logger: cmp.Or(opts.Logger, slog.Default()), running: map[string]*localRun{}, wake: make(chan struct{}, 1)}
	b := treadle.New[TaskState](name)
	// The outcome is saved before the signal is sent, so that a parent that has lost the signal
	// finds it. The thread stays unfinished until the parent has received the signal.
	work := treadle.AddNode(b, "work", func(ctx context.Context, in struct{ Job Job }) (out struct{ Outcome Outcome }, err error) {
		err = l.exclusive(ctx, in.Job.ID, func(ctx context.Context) error {
			l.working(in.Job)
			out.Outcome, err = work(ctx, worker, in.Job)
			return err
		})
		return out, err
	})
	signal := treadle.AddNode(b, "signal", func(ctx context.Context, in TaskState) (struct{}, error) {
		return struct{}{}, l.exclusive(ctx, in.Job.ID, func(ctx context.Context) error { return l.signal(ctx, in) })
	})
	b.Edge(treadle.Start, work)
	b.Edge(work, signal)
	var err error
	l.graph, err = b.Compile(opts)
	return l, err
}

// Graph returns the graph of the tasks, for a server or for [treadle.Wake].
func (l *Local) Graph() *treadle.Graph[TaskState, TaskState] { return l.graph }

// Thread returns the thread of a task. While this process serves the task, use [Local.Resume]
// instead of its Resume.
func (l *Local) Thread(id string) *treadle.Thread[TaskState, TaskState] { return l.graph.Thread(id) }

// work does a job.
func work(ctx context.Context, worker Runner, job Job) (Outcome, error) {
	o := Outcome{ID: job.ID, Round: job.Round, Status: TaskCanceled}
	if job.Canceled {
		return o, nil
	}
	out, err := worker.Run(ctx, Ask(job.Text))
	if final := treadle.Propagate(ctx, err); final != nil {
		return o, final
	}
	if o.Status, o.Result = TaskSuccess, report(out); err != nil {
		o.Status, o.Result = TaskError, err.Error()
	}
	return o, nil
}

// signal reports the outcome of a task to its parent.
func (l *Local) signal(ctx context.Context, s TaskState) error {
	if s.Outcome.Status == TaskCanceled {
		return nil
	}
	_, err := treadle.Do(ctx, "signal parent", func(ctx context.Context) (struct{}, error) {
		l.mu.Lock()
		parent := l.parent
		l.mu.Unlock()
		if parent == nil {
			return struct{}{}, errors.New("deep: background agent is not served: call Local.Serve with the parent's graph")
		}
		g := inside.Graph(parent).(*treadle.Graph[pregel.Input, *pregel.Record])
		err := g.Thread(s.Job.Parent).Signal(ctx, BackgroundSignal, s.Outcome)
		if errors.Is(err, checkpoint.ErrNotFound) {
			err = nil // the parent's thread was deleted
		}
		return struct{}{}, err
	})
	return err
}

// Start implements [Background].
func (l *Local) Start(ctx context.Context, job Job) error {
	return l.change(ctx, job.ID, func(s *TaskState) (*TaskState, error) {
		if s != nil {
			return nil, nil
		}
		return &TaskState{Job: job}, nil
	})
}

// Restart implements [Background].
func (l *Local) Restart(ctx context.Context, job Job) error {
	return l.change(ctx, job.ID, func(s *TaskState) (*TaskState, error) {
		switch {
		case s == nil:
			return nil, notFound(job.ID)
		case s.Job == job:
			return nil, nil
		case s.Job.Round >= job.Round:
			return nil, fmt.Errorf("%w: task %s is at round %d", ErrRestarted, job.ID, s.Job.Round)
		}
		return &TaskState{Job: job}, nil
	})
}

// Cancel implements [Background].
func (l *Local) Cancel(ctx context.Context, id string) error {
	return l.change(ctx, id, func(s *TaskState) (*TaskState, error) {
		switch {
		case s == nil:
			return nil, notFound(id)
		case s.Job.Canceled:
			return nil, nil
		}
		s.Job.Canceled = true
		s.Outcome = Outcome{ID: id, Round: s.Job.Round, Status: TaskCanceled}
		return s, nil
	})
}

func notFound(id string) error {
	return fmt.Errorf("deep: background task %s: %w", id, checkpoint.ErrNotFound)
}

// change saves the state that fn returns for the current state of a task, which is nil if the
// task does not exist. If fn returns nil, nothing changes. Otherwise the run of the task in
// this process is stopped first. Afterward Serve looks at the task, in any case: the response to
// an earlier call may have been lost, and a stopped run continues after an error.
func (l *Local) change(ctx context.Context, id string, fn func(*TaskState) (*TaskState, error)) error {
	defer l.poke()
	next := func() (*TaskState, error) {
		s, _, err := l.state(ctx, id)
		if err != nil {
			return nil, err
		}
		return fn(s)
	}
	if s, err := next(); s == nil || err != nil {
		return err
	}
	run, err := l.take(ctx, id, true)
	if err != nil {
		return err
	}
	defer l.end(id, run)
	for {
		s, err := next()
		if s == nil || err != nil {
			return err
		}
		_, err = l.Thread(id).Update(ctx, *s, treadle.AsNode(treadle.Start))
		if !errors.Is(err, checkpoint.ErrConflict) || ctx.Err() != nil { // else another process runs the task
			return err
		}
	}
}

// state returns the state of a task, or nil if it does not exist.
func (l *Local) state(ctx context.Context, id string) (*TaskState, *treadle.Snapshot, error) {
	snap, err := l.Thread(id).State(ctx)
	if err != nil || snap.ID.IsZero() {
		return nil, snap, err
	}
	s := &TaskState{}
	err = snap.Read(s)
	return s, snap, err
}

// Resume answers the question of a task, or several with [treadle.Answers], and runs the task
// until it ends, like [treadle.Thread.Resume]. Use it when [Local.Check] reports [TaskWaiting]:
// a person answers a task, because its parent cannot. Call it in the process that serves the
// tasks. If another run of the task is in progress there, Resume waits for it to end first, and
// Serve does not run the task while Resume does. If ctx is canceled after the answer was saved,
// Serve continues the task.
func (l *Local) Resume(ctx context.Context, id string, answer any) error {
	defer l.poke()
	run, err := l.take(ctx, id, false)
	if err != nil {
		return err
	}
	defer l.end(id, run)
	_, err = l.Thread(id).Resume(run.ctx, answer)
	return err
}

// poke makes Serve look for tasks.
func (l *Local) poke() {
	select {
	case l.wake <- struct{}{}:
	default: // Serve has not seen the previous one yet
	}
}

// take registers a run of a task once there is no other in this process. With stop, it
// cancels the other run.
func (l *Local) take(ctx context.Context, id string, stop bool) (*localRun, error) {
	for {
		run := l.begin(ctx, id)
		if run != nil {
			return run, nil
		}
		l.mu.Lock()
		other := l.running[id]
		l.mu.Unlock()
		if other == nil {
			continue
		}
		if stop {
			other.cancel()
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

type localRunKey struct{}

// exclusive calls fn unless the node that it belongs to runs twice: a caller may continue the
// thread of a task while Serve runs it.
func (l *Local) exclusive(ctx context.Context, id string, fn func(context.Context) error) error {
	if run, _ := ctx.Value(localRunKey{}).(*localRun); run != nil && run.of == l && run.id == id {
		return fn(ctx)
	}
	run := l.begin(ctx, id)
	if run == nil {
		return fmt.Errorf("deep: background task %s is already running in this process: answer it with Local.Resume", id)
	}
	err := fn(run.ctx)
	l.end(id, run)
	if err != nil && !treadle.IsPause(err) {
		l.poke() // the caller may not continue the task
	}
	return err
}

// Check implements [Background].
func (l *Local) Check(ctx context.Context, id string) (Outcome, error) {
	s, snap, err := l.state(ctx, id)
	if err != nil {
		return Outcome{ID: id}, err
	}
	if s == nil {
		return Outcome{ID: id}, notFound(id)
	}
	o := s.Outcome
	if o.Status == "" {
		o = Outcome{ID: id, Round: s.Job.Round, Status: TaskRunning}
	}
	for _, p := range snap.Pauses {
		o.Status = TaskWaiting
		o.Questions = append(o.Questions, p.Value)
	}
	o.Text = s.Job.Text
	return o, nil
}

// The waits between two attempts after a failure.
const (
	retryFirst = time.Second
	retryLast  = time.Minute
)

// The intervals between two looks for tasks of other processes. They grow while there are
// none, and they are long compared with the duration of a look.
const (
	lookFirst = 5 * time.Second
	lookIdle  = time.Minute
	lookOwn   = 24 * time.Hour // if the saver belongs to this process
	lookTimes = 50
	lookMax   = 10 * time.Minute // unless there are no other processes
)

// Serve runs the tasks, those of earlier processes first, and continues the threads of
// parent when they end. It returns nil when ctx has ended and all runs that it started have
// ended. Like [treadle.Wake], it does not continue a parent that was working, not waiting, when
// its process died: do that first, with parent.Unfinished.
//
// Only one process may serve the tasks of a saver. It looks for tasks that other processes have
// started, updated, or canceled at intervals from a few seconds to a minute.
//
// If the database is unavailable, Serve logs the error with the Logger of the options and
// retries with backoff.
func (l *Local) Serve(ctx context.Context, parent treadle.AnyGraph) error {
	if v := reflect.ValueOf(parent); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return errors.New("deep: serve background agent: nil parent")
	}
	l.mu.Lock()
	l.parent = parent
	l.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var runs sync.WaitGroup
	defer runs.Wait()
	var woken error
	runs.Go(func() {
		if woken = treadle.Wake(ctx, parent); woken != nil {
			cancel()
		}
	})
	retry, pause, idle := retryFirst, lookFirst, lookIdle
	if _, own := l.saver.(*checkpoint.Memory); own {
		idle = lookOwn
	}
	for {
		began := time.Now()
		found, err := l.serveAll(ctx, &runs)
		var again time.Duration // until the next look
		switch {
		case err != nil:
			if ctx.Err() == nil {
				l.logger.WarnContext(ctx, "failed to list background tasks, retrying", "error", err)
			}
			again, retry = retry, min(2*retry, retryLast)
		case found:
			pause = lookFirst
			fallthrough
		default:
			again, pause, retry = max(pause, min(lookTimes*time.Since(began), lookMax)), min(2*pause, idle), retryFirst
		}
		select {
		case <-l.wake:
		case <-time.After(again):
		case <-ctx.Done():
			cancel()
			runs.Wait()
			return woken
		}
	}
}

// serveAll starts to run the tasks that nothing runs, and reports whether there are any.
func (l *Local) serveAll(ctx context.Context, runs *sync.WaitGroup) (found bool, err error) {
	for thread, err := range l.graph.Unfinished(ctx) {
		if err != nil {
			return found, err
		}
		run := l.begin(ctx, thread.ID())
		if run == nil {
			if err := l.stopReplaced(ctx, thread.ID(), runs); err != nil {
				return found, err
			}
			continue
		}
		found = true
		runs.Go(func() { l.proceed(ctx, thread, run) })
	}
	return found, nil
}

// working notes the job of a run.
func (l *Local) working(job Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if run := l.running[job.ID]; run != nil {
		run.job = job
	}
}

// stopReplaced stops the run of a task if another process has replaced its job.
func (l *Local) stopReplaced(ctx context.Context, id string, runs *sync.WaitGroup) error {
	l.mu.Lock()
	run := l.running[id]
	var job Job
	if run != nil {
		job = run.job
	}
	l.mu.Unlock()
	if job == (Job{}) {
		return nil
	}
	s, _, err := l.state(ctx, id)
	if s == nil || err != nil || s.Job == job {
		return err
	}
	run.cancel()
	runs.Go(func() {
		<-run.done
		l.poke()
	})
	return nil
}

// begin registers a run, or returns nil if there is one already.
func (l *Local) begin(ctx context.Context, id string) *localRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[id] != nil {
		return nil
	}
	run := &localRun{of: l, id: id, done: make(chan struct{})}
	run.ctx, run.cancel = context.WithCancel(context.WithValue(ctx, localRunKey{}, run))
	l.running[id] = run
	return run
}

func (l *Local) end(id string, run *localRun) {
	l.mu.Lock()
	delete(l.running, id)
	l.mu.Unlock()
	run.cancel()
	close(run.done)
}

// proceed continues a task until it ends, waits, or is stopped. A failure of the task is its
// outcome, so any error is a failure to save or to signal, after which the task still runs.
func (l *Local) proceed(ctx context.Context, thread *treadle.Thread[TaskState, TaskState], run *localRun) {
	defer l.end(thread.ID(), run)
	for wait := retryFirst; ; wait = min(2*wait, retryLast) {
		_, err := thread.Continue(run.ctx)
		deleted := errors.Is(err, treadle.ErrNothingToContinue)
		if err == nil || treadle.IsPause(err) || run.ctx.Err() != nil || deleted {
			return
		}
		l.logger.ErrorContext(ctx, "background task failed, retrying", "thread", thread.ID(), "error", err)
		select {
		case <-time.After(wait):
		case <-run.ctx.Done():
			return
		}
	}
}
