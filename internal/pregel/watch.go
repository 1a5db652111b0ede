package pregel

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/treadle-go/treadle/checkpoint"
)

// watchers holds callbacks that are notified when this process makes a thread wait
// or sends it a signal, so that they need not poll. They belong to the process, not
// to a graph: a program may run a thread with one graph and wake it with another
// graph of the same name.
var watchers = watching{all: map[int]func(checkpoint.Saver, string){}}

type watching struct {
	mu   sync.Mutex
	next int
	all  map[int]func(checkpoint.Saver, string)
}

// Watch calls told with the saver and the ID of each thread that starts to wait or
// receives a signal in this process. told must return immediately.
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

// tellWaits notifies the watchers after a run that ended with err, if its thread
// will continue by itself.
func (r *Run) tellWaits(err error) {
	stop, ok := errors.AsType[*InterruptError](err)
	if !ok || r.parent() != nil {
		return
	}
	if slices.ContainsFunc(stop.Pauses, func(p Pause) bool { return !p.Due.IsZero() || p.Kind == SignalPause }) {
		watchers.tell(undeferred(r.set.Saver), r.set.Thread)
	}
}
