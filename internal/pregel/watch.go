package pregel

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
)

// watchers are told of threads that this process has made wait or has sent a signal
// to, so that they need not look for them. They belong to the process, not to a graph:
// a program may run a thread with one graph and wake it with another of the same name.
var watchers = watching{all: map[int]func(checkpoint.Saver, string){}}

type watching struct {
	mu   sync.Mutex
	next int
	all  map[int]func(checkpoint.Saver, string)
}

// Watch calls told with the saver and the name of each thread that begins to wait, or
// gets a signal, in this process. told must return at once.
func Watch(told func(s checkpoint.Saver, thread string)) (stop func()) {
	w := &watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.next
	w.next++
	w.all[n] = told
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.all, n)
	}
}

func (w *watching) tell(s checkpoint.Saver, thread string) {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.all))
	w.mu.Unlock()
	for _, told := range all {
		told(s, thread)
	}
}

// tellWaits tells the watchers of a run that has ended with err, if its thread goes
// on by itself.
func (r *Run) tellWaits(err error) {
	stop, ok := errors.AsType[*InterruptError](err)
	if !ok || r.parent() != nil {
		return
	}
	if slices.ContainsFunc(stop.Pauses, func(p Pause) bool { return !p.Due.IsZero() || p.Kind == SignalPause }) {
		watchers.tell(undeferred(r.set.Saver), r.set.Thread)
	}
}
