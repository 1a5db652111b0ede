package deep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
)

// TaskState is the state of the thread of a task of [Local].
type TaskState struct {
	Job     Job     `json:"job"`
	Outcome Outcome `json:"outcome"`
}

// Local runs background tasks in this process; see [NewLocal].
type Local struct {
	graph  *treadle.Graph[TaskState, TaskState]
	logger *slog.Logger

	mu      sync.Mutex
	parent  *treadle.Graph[State, State]
	running map[string]*localRun
	wake    chan struct{}
}

// localRun is a run in progress.
type localRun struct {
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
}

// NewLocal returns a [Background] whose tasks are threads of opts.Saver, named by the task
// IDs. A process that is killed loses no task: [Local.Serve] continues them. A question of a
// task is answered on its thread; see [Local.Thread].
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
	l := &Local{logger: cmp.Or(opts.Logger, slog.Default()), running: map[string]*localRun{}, wake: make(chan struct{}, 1)}
	b := treadle.New[TaskState](name)
	work := treadle.AddNode(b, "work", func(ctx context.Context, in struct{ Job Job }) (struct{ Outcome Outcome }, error) {
		o, err := l.work(ctx, worker, in.Job)
		return struct{ Outcome Outcome }{o}, err
	})
	b.Edge(treadle.Start, work)
	var err error
	l.graph, err = b.Compile(opts)
	return l, err
}

// Graph returns the graph of the tasks, for a server or for [treadle.Wake].
func (l *Local) Graph() *treadle.Graph[TaskState, TaskState] { return l.graph }

// Thread returns the thread of a task.
func (l *Local) Thread(id string) *treadle.Thread[TaskState, TaskState] { return l.graph.Thread(id) }

// work runs the node of a task. The thread stays unfinished until the parent has
// received the signal, so a crash cannot lose it.
func (l *Local) work(ctx context.Context, worker Runner, job Job) (Outcome, error) {
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
	_, err = treadle.Do(ctx, "signal parent", func(ctx context.Context) (struct{}, error) {
		l.mu.Lock()
		parent := l.parent
		l.mu.Unlock()
		if parent == nil {
			return struct{}{}, errors.New("deep: background agent is not served: call Local.Serve with the parent's graph")
		}
		err := parent.Thread(job.Parent).Signal(ctx, BackgroundSignal, o)
		if errors.Is(err, checkpoint.ErrNotFound) {
			err = nil // the parent's thread was deleted
		}
		return struct{}{}, err
	})
	return o, err
}

// Start implements [Background].
func (l *Local) Start(ctx context.Context, job Job) error {
	defer l.poke() // also if the task exists: the response to an earlier Start may have been lost
	snap, err := l.Thread(job.ID).State(ctx)
	if err != nil || !snap.ID.IsZero() {
		return err
	}
	return l.input(ctx, job)
}

// input saves a job as the next input of its thread.
func (l *Local) input(ctx context.Context, job Job) error {
	_, err := l.Thread(job.ID).Update(ctx, struct{ Job Job }{job}, treadle.AsNode(treadle.InputNode))
	return err
}

// poke makes Serve look for tasks.
func (l *Local) poke() {
	select {
	case l.wake <- struct{}{}:
	default: // Serve has not seen the previous one yet
	}
}

// Restart implements [Background].
func (l *Local) Restart(ctx context.Context, job Job) error {
	defer l.poke() // also after an error: the job may be saved, or the stopped work remains
	if err := l.stop(ctx, job.ID); err != nil {
		return err
	}
	return l.input(ctx, job)
}

// Cancel implements [Background].
func (l *Local) Cancel(ctx context.Context, id string) error {
	return l.Restart(ctx, Job{ID: id, Canceled: true})
}

// stop ends the run of a task in this process.
func (l *Local) stop(ctx context.Context, id string) error {
	l.mu.Lock()
	run := l.running[id]
	l.mu.Unlock()
	if run == nil {
		return nil
	}
	run.cancel()
	select {
	case <-run.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Check implements [Background].
func (l *Local) Check(ctx context.Context, id string) (Outcome, error) {
	snap, err := l.Thread(id).State(ctx)
	o := Outcome{ID: id, Status: TaskRunning}
	switch {
	case err != nil:
		return o, err
	case snap.ID.IsZero():
		return o, fmt.Errorf("deep: background task %s: %w", id, checkpoint.ErrNotFound)
	case len(snap.Pauses) > 0:
		o.Status = TaskWaiting
		for _, p := range snap.Pauses {
			o.Questions = append(o.Questions, p.Value)
		}
		return o, nil
	case len(snap.Next) > 0:
		return o, nil
	}
	var s TaskState
	err = snap.Read(&s)
	return s.Outcome, err
}

// The waits between two attempts after a failure.
const (
	retryFirst = time.Second
	retryLast  = time.Minute
)

// Serve runs the tasks, those of earlier processes first, and continues the threads of
// parent when they end. It returns nil when ctx has ended and all runs that it started have
// ended. Only one process may serve the tasks of a saver. Like [treadle.Wake], it does not
// continue a parent that was working, not waiting, when its process died: do that first, with
// parent.Unfinished.
//
// If the database is unavailable, Serve logs the error with the Logger of the options and
// retries with backoff.
func (l *Local) Serve(ctx context.Context, parent *treadle.Graph[State, State]) error {
	if parent == nil {
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
	var again <-chan time.Time // when to look after a failure
	wait := retryFirst
	for {
		again = nil
		for thread, err := range l.graph.Unfinished(ctx) {
			if err != nil {
				if ctx.Err() == nil {
					l.logger.WarnContext(ctx, "failed to list background tasks, retrying", "error", err)
					again = time.After(wait)
				}
				break
			}
			if run := l.begin(ctx, thread.ID()); run != nil {
				runs.Go(func() { l.proceed(ctx, thread, run) })
			}
		}
		if wait = min(2*wait, retryLast); again == nil {
			wait = retryFirst
		}
		select {
		case <-l.wake:
		case <-again:
		case <-ctx.Done():
			cancel()
			runs.Wait()
			return woken
		}
	}
}

// begin registers a run, or returns nil if the task is already running.
func (l *Local) begin(ctx context.Context, id string) *localRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[id] != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	l.running[id] = &localRun{ctx, cancel, make(chan struct{})}
	return l.running[id]
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
