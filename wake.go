package treadle

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/pregel"
)

// Wake continues the threads of the graphs when their wait ends: when a sleep
// ends, a deadline passes, or the signal that a thread waits for arrives. It is intended for
// programs without a server; a server does the same. Wake returns nil when ctx has
// ended and the runs that it started have ended.
//
// Wake learns at once of threads that start to wait, or receive a signal, in this process.
// It finds the other threads by scanning the saver, at intervals from a few seconds to a
// minute. No other process can change a
// [checkpoint.Memory], so Wake scans it once a day, and virtual time, as in package
// testing/synctest, passes at no cost. A failed run is logged with
// [Options].Logger. If the failure is saved, the thread stays failed until a caller
// continues it; otherwise, for example if the database was unavailable, Wake retries with
// backoff. Waking a thread resumes it without an answer, so the node runs again from the
// top, with a context derived from ctx.
//
// Wake does not continue threads that were running when their process died, because they wait
// for nothing; see [Graph.Unfinished]. If two processes call Wake on one database,
// both continue a thread, and one of them gets checkpoint.ErrConflict after its node
// may have run. For several processes, use the server.
func Wake(ctx context.Context, graphs ...AnyGraph) error {
	if ctx == nil {
		return fmt.Errorf("wake: %w", pregel.ErrNilContext)
	}
	w := &waker{poked: make(chan struct{}, 1), ended: make(chan ended)}
	if err := w.add(ctx, graphs); err != nil {
		return fmt.Errorf("wake: %w", err)
	}
	defer w.watch()()
	w.loop(ctx)
	return nil
}

// wakeConcurrency is the maximum number of threads that Wake runs concurrently.
const wakeConcurrency = 64

// The intervals between two scans of the savers. They grow while scans find no
// changes, and they are long compared with the duration of a scan.
const (
	wakeScan      = 5 * time.Second
	wakeScanIdle  = time.Minute
	wakeScanOwn   = 24 * time.Hour // if all savers belong to this process
	wakeScanMax   = 10 * time.Minute
	wakeScanTimes = 50
)

// The limits of the backoff for a thread that could not be continued.
const (
	wakeRetry    = time.Second
	wakeRetryMax = 10 * time.Minute
)

// waker is the state of Wake. It belongs to one goroutine, except for pokes.
type waker struct {
	sources []*wakeSource
	queue   wakeQueue
	runs    int // that have not ended
	ended   chan ended

	poked chan struct{} // contains an element if pokes is not empty
	mu    sync.Mutex
	pokes []poke
}

// wakeSource is a saver and the graphs whose threads it contains.
type wakeSource struct {
	saver   checkpoint.Saver
	list    checkpoint.ThreadLister
	graphs  []*core
	threads map[string]*sleeper
	round   int // number of scans
}

// sleeper is the state of a thread in Wake.
type sleeper struct {
	of      *wakeSource
	name    string
	graph   *core
	due     time.Time // zero if it is not queued
	at      int       // its index in the queue
	woken   time.Time // the due time of its last run
	retry   time.Duration
	notYet  time.Time // the earliest time of the next attempt
	running bool

	seen  checkpoint.Thread // its listing when it was last read
	moves bool              // it has nodes to run and waits for nothing, so it may start to wait at any time
	round int
}

type poke struct {
	saver  checkpoint.Saver
	thread string
}

type ended struct {
	thread *sleeper
	err    error
}

func (w *waker) add(ctx context.Context, graphs []AnyGraph) error {
	if len(graphs) == 0 {
		return errors.New("no graphs: pass the graphs whose threads to wake")
	}
	for i, g := range graphs {
		if g == nil || isNilPointer(g) || g.graph().plan == nil {
			return fmt.Errorf("graph %d of %d is nil", i+1, len(graphs))
		}
		c := g.graph()
		saver, list, err := c.lister(ctx)
		if err != nil {
			return fmt.Errorf("graph %q: %w", g.Name(), err)
		}
		s := w.sourceOf(saver)
		if s == nil {
			s = &wakeSource{saver: saver, list: list, threads: map[string]*sleeper{}}
			w.sources = append(w.sources, s)
		}
		for _, o := range s.graphs {
			if o.plan.Owns(c.Name()) || c.plan.Owns(o.Name()) {
				return fmt.Errorf("two graphs of one saver are named %q: a thread would belong to both", c.Name())
			}
		}
		s.graphs = append(s.graphs, c)
	}
	return nil
}

// sourceOf returns the source with a saver, or nil.
func (w *waker) sourceOf(saver checkpoint.Saver) *wakeSource {
	for _, s := range w.sources {
		if reflect.TypeOf(saver).Comparable() && s.saver == saver {
			return s
		}
	}
	return nil
}

// watch subscribes to threads that start to wait in this process.
func (w *waker) watch() (stop func()) {
	return pregel.Watch(func(saver checkpoint.Saver, thread string) {
		w.mu.Lock()
		w.pokes = append(w.pokes, poke{saver, thread})
		w.mu.Unlock()
		select {
		case w.poked <- struct{}{}:
		default:
		}
	})
}

// loop wakes threads until ctx ends.
func (w *waker) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	scanAt, pause, idle := time.Now(), wakeScan, w.idle()
	for ctx.Err() == nil {
		now := time.Now()
		if !now.Before(scanAt) {
			pause = min(2*pause, idle)
			if w.scan(ctx) {
				pause = wakeScan
			}
			took := time.Since(now)
			scanAt = time.Now().Add(max(min(wakeScanTimes*took, wakeScanMax), pause))
		}
		w.wakeDue(ctx)
		next := scanAt
		if len(w.queue) > 0 && w.queue[0].due.Before(next) && w.runs < wakeConcurrency {
			next = w.queue[0].due
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-w.poked:
			w.lookAtPoked(ctx)
		case e := <-w.ended:
			w.end(ctx, e)
		}
	}
	for w.runs > 0 {
		w.end(ctx, <-w.ended)
	}
}

// idle returns the longest interval between scans.
func (w *waker) idle() time.Duration {
	for _, s := range w.sources {
		if _, own := s.saver.(*checkpoint.Memory); !own {
			return wakeScanIdle
		}
	}
	return wakeScanOwn
}

func (w *waker) lookAtPoked(ctx context.Context) {
	w.mu.Lock()
	pokes := w.pokes
	w.pokes = nil
	w.mu.Unlock()
	for _, p := range pokes {
		s := w.sourceOf(p.saver)
		if s == nil && len(w.sources) == 1 && !reflect.TypeOf(p.saver).Comparable() {
			s = w.sources[0]
		}
		if s != nil {
			w.look(ctx, s, checkpoint.Thread{Name: p.thread})
		}
	}
}

// scan reads all threads that may have changed since the last scan, and reports
// whether there were any.
func (w *waker) scan(ctx context.Context) (changed bool) {
	for _, s := range w.sources {
		s.round++
		for info, err := range s.list.Threads(ctx) {
			if err != nil {
				if ctx.Err() == nil {
					s.graphs[0].base.Logger.WarnContext(ctx, "treadle: wake: failed to list threads", "graph", s.graphs[0].Name(), "error", err)
				}
				s.round-- // so that no thread counts as deleted
				break
			}
			t := s.threads[info.Name]
			if t == nil || t.moves || t.seen != info {
				changed = true
				t = w.look(ctx, s, info)
			}
			t.round = s.round
			if ctx.Err() != nil {
				return changed
			}
		}
		for name, t := range s.threads {
			if t.round < s.round && !t.running {
				w.unqueue(t)
				delete(s.threads, name)
			}
		}
	}
	return changed
}

// look reads what a thread waits for. A running thread is read when its run ends.
func (w *waker) look(ctx context.Context, s *wakeSource, info checkpoint.Thread) *sleeper {
	t := s.threads[info.Name]
	if t == nil {
		t = &sleeper{of: s, name: info.Name, round: s.round}
		s.threads[info.Name] = t
	}
	if t.running {
		return t
	}
	t.seen = info
	found, err := pregel.WaitingOf(ctx, s.saver, info.Name)
	if err != nil {
		w.failed(ctx, t, err)
		return t
	}
	w.unqueue(t)
	t.graph, t.moves = nil, false
	if found == nil {
		return t
	}
	for _, g := range s.graphs {
		if g.plan.Owns(found.Graph) && (found.Graph != "" || len(s.graphs) == 1) {
			t.graph = g
		}
	}
	t.moves = (found.Left || t.graph != nil && found.LeftOf(t.graph.plan)) && !found.Paused && !found.Failed
	if t.graph != nil && !found.Due.IsZero() {
		w.enqueue(t, found.Due)
	}
	return t
}

func (w *waker) enqueue(t *sleeper, due time.Time) {
	w.unqueue(t)
	t.due = due
	if due.Before(t.notYet) {
		t.due = t.notYet
	}
	heap.Push(&w.queue, t)
}

func (w *waker) unqueue(t *sleeper) {
	if !t.due.IsZero() {
		heap.Remove(&w.queue, t.at)
		t.due = time.Time{}
	}
}

// failed logs a thread's error and schedules another attempt.
func (w *waker) failed(ctx context.Context, t *sleeper, err error) {
	if ctx.Err() != nil {
		return
	}
	t.log(ctx, err)
	t.wait()
	w.enqueue(t, t.notYet)
}

// wait doubles the thread's backoff.
func (t *sleeper) wait() {
	t.retry = min(max(2*t.retry, wakeRetry), wakeRetryMax)
	t.notYet = time.Now().Add(t.retry)
}

func (t *sleeper) log(ctx context.Context, err error) {
	g := t.graph
	if g == nil {
		g = t.of.graphs[0]
	}
	g.base.Logger.WarnContext(ctx, "treadle: wake: failed to continue thread", "graph", g.Name(), "thread", t.name, "error", err)
}

// wakeDue starts the runs of due threads. It reads each thread again first, because
// another caller may have continued it.
func (w *waker) wakeDue(ctx context.Context) {
	for len(w.queue) > 0 && w.runs < wakeConcurrency && !time.Now().Before(w.queue[0].due) {
		t := w.queue[0]
		w.unqueue(t)
		w.look(ctx, t.of, t.seen)
		if t.due.IsZero() || time.Now().Before(t.due) || t.graph == nil {
			continue
		}
		t.woken = t.due
		w.unqueue(t)
		t.running = true
		w.runs++
		go t.run(ctx, w.ended)
	}
}

// run continues the thread.
func (t *sleeper) run(ctx context.Context, end chan<- ended) {
	h := t.graph.handle(t.name, nil)
	h.core.plan.Start(ctx, pregel.Input{Continue: true}, h.core.settings(), func(_ any, err error) { end <- ended{t, err} })
}

// end handles the end of a run and determines when the thread continues.
func (w *waker) end(ctx context.Context, e ended) {
	w.runs--
	t := e.thread
	t.running = false
	if ctx.Err() != nil {
		return
	}
	if _, paused := errors.AsType[*InterruptError](e.err); e.err != nil && !paused {
		t.log(ctx, e.err)
		t.wait()
	}
	w.look(ctx, t.of, checkpoint.Thread{Name: t.name})
	switch {
	case t.due.IsZero():
		t.retry, t.notYet = 0, time.Time{}
	case e.err != nil && t.due.Equal(t.woken): // the run did not get past the wait
		t.wait()
		w.enqueue(t, t.due)
	}
}

// wakeQueue is a heap of threads, ordered by due time.
type wakeQueue []*sleeper

func (q wakeQueue) Len() int           { return len(q) }
func (q wakeQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }
func (q wakeQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push implements [heap.Interface].
func (q *wakeQueue) Push(x any) {
	t := x.(*sleeper)
	t.at = len(*q)
	*q = append(*q, t)
}

// Pop implements [heap.Interface].
func (q *wakeQueue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return t
}
