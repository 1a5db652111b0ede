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

// A resultWriter saves the results of finished tasks while other tasks of the step
// are running, so that they are not lost if the process dies.
//
// It saves on a separate goroutine, all finished results together. The commit of
// the step saves all results anyway, so results are not written early if the step
// ends soon, or if the tasks take less time than saving their results would.
type resultWriter struct {
	run  *Run
	work sync.WaitGroup // the timer, while it is set or running

	mu    sync.Mutex
	left  int         // unfinished tasks
	done  []*Task     // unsaved results
	since time.Time   // when the oldest of them finished
	timer *time.Timer // nil unless set or running
	off   bool        // saving failed; the end of the step saves the results
}

// A result waits briefly before it is saved, and longer if there are many.
const (
	writeDelay     = time.Millisecond
	writeDelayEach = 20 * time.Microsecond // per result: several times what SQLite takes
)

// newResultWriter returns a writer for the tasks of a step. It returns nil without
// a saver, and under Async and Exit, which defer writes.
func (r *Run) newResultWriter(tasks []*Task) *resultWriter {
	if _, later := r.set.Saver.(deferred); later || !r.saving() {
		return nil
	}
	return &resultWriter{run: r, left: len(tasks)}
}

// ended records that a task has ended.
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

// set starts the timer. The caller must hold mu.
func (w *resultWriter) set(wait time.Duration) {
	w.work.Add(1)
	w.timer = time.AfterFunc(wait, func() {
		defer w.work.Done()
		w.store()
	})
}

// store saves the finished results if they have waited long enough.
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

// unlocked saves results with mu released, so that tasks do not wait for the saver.
// It returns a panic in user code as an error.
func (w *resultWriter) unlocked(batch []*Task) (err error) {
	err = errNotStored // unless the call returns
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

// close must be called after all tasks have ended. It waits for a save in progress,
// because the step's put must come after it.
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

// putFinished saves the results of finished tasks.
func (r *Run) putFinished(tasks []*Task) error {
	if r.within().late() { // abandoned: another attempt may be running
		return nil
	}
	ws := make([]checkpoint.Write, 0, len(tasks))
	for _, t := range tasks {
		if raw, err := t.encodeResult(true); err == nil { // otherwise the step's put fails with the error
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

// putWrites saves writes of this step's tasks, even if the run is canceled while it
// does so.
func (r *Run) putWrites(ws []checkpoint.Write) error {
	if len(ws) == 0 {
		return nil
	}
	for i := range ws {
		ws[i].RunID = r.set.RunID
	}
	if err := r.saveWrites(r.set.Saver, r.key(), ws); err != nil {
		return fmt.Errorf("graph %q: save task results of thread %q: %w", r.plan.name, r.set.Thread, err)
	}
	r.grewByWrites(ws)
	return nil
}

// warnUnstored logs that results could not be saved. The run continues; after a
// crash, the tasks run again.
func (r *Run) warnUnstored(err error) {
	if r.set.Logger != nil {
		r.set.Logger.Warn("treadle: failed to save results of finished tasks",
			"graph", r.plan.name, "thread", r.set.Thread, "step", r.step, "error", err)
	}
}

// voided replaces a saved result or failure that no longer applies, because a saver
// cannot remove it.
var voided = []byte("null")

// voidResults voids the saved results of a step that cannot be committed. Each task
// succeeded, but their results conflict, so the step would fail again whenever it
// used them.
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
	return (w.Kind == checkpoint.Done || w.Kind == checkpoint.Failed) && bytes.Equal(w.Data, voided)
}
