package pregel

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/caught"
)

// A keeper stores the results of the finished tasks of a step while others of
// it still run, so that a process that dies then has not done them in vain.
//
// It stores on a goroutine of its own, all that has finished so far at once,
// and only what is worth it: the commit of the step stores everything anyway,
// so a step that is over in no time, or whose tasks take less time than storing
// their results would, is not written twice.
type resultWriter struct {
	run  *Run
	work sync.WaitGroup // the timer, set or at work

	mu    sync.Mutex
	left  int         // tasks that have not ended
	done  []*Task     // results that are not stored
	since time.Time   // the oldest of them
	timer *time.Timer // set or at work; nil while there are none
	off   bool        // it could not store; the end of the step has to
}

// What has finished is stored when it has been there for a moment, and for
// longer the more there is of it.
const (
	writeDelay     = time.Millisecond
	writeDelayEach = 20 * time.Microsecond // per result: several times what SQLite takes
)

// resultWriter is one for the tasks of a step, or nil if none is called for: what is
// stored later by choice is stored later.
func (r *Run) newResultWriter(tasks []*Task) *resultWriter {
	if _, later := r.set.Saver.(deferred); later || !r.saving() {
		return nil
	}
	return &resultWriter{run: r, left: len(tasks)}
}

// ended notes that a task is over.
func (w *resultWriter) ended(t *Task) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left--
	if t.err != nil || t.restored || w.left == 0 || w.off {
		return
	}
	if len(w.done) == 0 {
		w.since = time.Now()
	}
	w.done = append(w.done, t)
	if w.timer == nil {
		w.set(writeDelay)
	}
}

// set has the timer go off. The lock is held.
func (w *resultWriter) set(wait time.Duration) {
	w.work.Add(1)
	w.timer = time.AfterFunc(wait, func() {
		defer w.work.Done()
		w.store()
	})
}

// store stores what there is, if it is time.
func (w *resultWriter) store() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 {
		return
	}
	worth := max(writeDelay, time.Duration(len(w.done))*writeDelayEach)
	if wait := worth - time.Since(w.since); wait > 0 {
		w.set(wait)
		return
	}
	batch := w.done
	w.done = nil
	if err := w.unlocked(batch); err != nil {
		w.run.warnUnstored(err)
		return
	}
	w.timer = nil
	if len(w.done) > 0 && w.left > 0 {
		w.set(writeDelay)
	}
}

// unlocked stores results while the lock, which is held, is not: tasks must not
// wait for the saver. What a user's code does there ends nothing else.
func (w *resultWriter) unlocked(batch []*Task) (err error) {
	err = errNotStored // for as long as it has not returned
	w.mu.Unlock()
	defer func() {
		p := recover()
		w.mu.Lock()
		if p != nil {
			err = caught.New("", p)
		}
		w.off = w.off || err != nil
	}()
	return w.run.putFinished(batch)
}

var errNotStored = errors.New("not stored")

// close comes when all tasks have ended. It waits for what is on its way to the
// saver: the step's own put must come after it.
func (w *resultWriter) close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.left = 0
	if w.timer != nil && w.timer.Stop() {
		w.work.Done()
	}
	w.mu.Unlock()
	w.work.Wait()
}

// putFinished stores the results of finished tasks.
func (r *Run) putFinished(tasks []*Task) error {
	if r.within().late() { // left behind: another attempt may be at work
		return nil
	}
	ws := make([]checkpoint.Write, 0, len(tasks))
	for _, t := range tasks {
		if raw, err := t.encodeResult(true); err == nil { // else the step's put fails, and says so
			ws = append(ws, checkpoint.Write{Task: t.ID(), Kind: checkpoint.Done, Data: raw})
		}
	}
	if err := r.putWrites(ws); err != nil {
		return err
	}
	for _, t := range tasks {
		t.stored = true
	}
	return nil
}

// putWrites records what became of tasks of this step, even if the run is
// cancelled meanwhile.
func (r *Run) putWrites(ws []checkpoint.Write) error {
	if len(ws) == 0 {
		return nil
	}
	for i := range ws {
		ws[i].RunID = r.set.RunID
	}
	if err := r.saveWrites(r.set.Saver, r.key(), ws); err != nil {
		return fmt.Errorf("graph %q: store what the tasks of thread %q did: %w", r.plan.name, r.set.Thread, err)
	}
	r.grewByWrites(ws)
	return nil
}

// warnUnstored tells the log: the run goes on, and a crash would cost more.
func (r *Run) warnUnstored(err error) {
	if r.set.Logger != nil {
		r.set.Logger.Warn("treadle: the results of finished tasks could not be stored while others run",
			"graph", r.plan.name, "thread", r.set.Thread, "step", r.step, "error", err)
	}
}

// voided replaces a result that is void. A saver has no way to remove one.
var voided = []byte("null")

// voidResults makes the stored results of a step void that cannot be committed:
// each task has succeeded and together they do not fit, so with these results
// the step would fail for ever.
func (r *Run) voidResults(tasks []*Task, failure error) error {
	if !r.saving() {
		return failure
	}
	var ws []checkpoint.Write
	for _, t := range tasks {
		if t.restored || t.stored {
			ws = append(ws, checkpoint.Write{Task: t.ID(), Kind: checkpoint.Done, Data: voided})
		}
	}
	return joinErrors(failure, r.saverFault(r.putWrites(ws)))
}

func isVoided(w checkpoint.Write) bool {
	return w.Kind == checkpoint.Done && bytes.Equal(w.Data, voided)
}
