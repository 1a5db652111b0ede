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
type keeper struct {
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
	keepMoment = time.Millisecond
	keepWorth  = 20 * time.Microsecond // per result: several times what SQLite takes
)

// keeper is one for the tasks of a step, or nil if none is called for: what is
// stored later by choice is stored later.
func (r *Run) keeper(tasks []*Task) *keeper {
	if _, later := r.set.Saver.(deferred); later || !r.saving() {
		return nil
	}
	return &keeper{run: r, left: len(tasks)}
}

// ended notes that a task is over.
func (k *keeper) ended(t *Task) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.left--
	if t.err != nil || t.kept || k.left == 0 || k.off {
		return
	}
	if len(k.done) == 0 {
		k.since = time.Now()
	}
	k.done = append(k.done, t)
	if k.timer == nil {
		k.set(keepMoment)
	}
}

// set has the timer go off. The lock is held.
func (k *keeper) set(wait time.Duration) {
	k.work.Add(1)
	k.timer = time.AfterFunc(wait, func() {
		defer k.work.Done()
		k.store()
	})
}

// store stores what there is, if it is time.
func (k *keeper) store() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == 0 {
		return
	}
	worth := max(keepMoment, time.Duration(len(k.done))*keepWorth)
	if wait := worth - time.Since(k.since); wait > 0 {
		k.set(wait)
		return
	}
	batch := k.done
	k.done = nil
	if err := k.unlocked(batch); err != nil {
		k.run.warnUnstored(err)
		return
	}
	k.timer = nil
	if len(k.done) > 0 && k.left > 0 {
		k.set(keepMoment)
	}
}

// unlocked stores results while the lock, which is held, is not: tasks must not
// wait for the saver. What a user's code does there ends nothing else.
func (k *keeper) unlocked(batch []*Task) (err error) {
	err = errKeeping // for as long as it has not returned
	k.mu.Unlock()
	defer func() {
		p := recover()
		k.mu.Lock()
		if p != nil {
			err = caught.New("", p)
		}
		k.off = k.off || err != nil
	}()
	return k.run.keepDone(batch)
}

var errKeeping = errors.New("not stored")

// close comes when all tasks have ended. It waits for what is on its way to the
// saver: the step's own put must come after it.
func (k *keeper) close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	k.left = 0
	if k.timer != nil && k.timer.Stop() {
		k.work.Done()
	}
	k.mu.Unlock()
	k.work.Wait()
}

// keepDone stores the results of finished tasks.
func (r *Run) keepDone(tasks []*Task) error {
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

// withdrawn replaces a result that is void. A saver has no way to remove one.
var withdrawn = []byte("null")

// withdraw makes the stored results of a step void that cannot be committed:
// each task has succeeded and together they do not fit, so with these results
// the step would fail for ever.
func (r *Run) withdraw(tasks []*Task, failure error) error {
	if !r.saving() {
		return failure
	}
	var ws []checkpoint.Write
	for _, t := range tasks {
		if t.kept || t.stored {
			ws = append(ws, checkpoint.Write{Task: t.ID(), Kind: checkpoint.Done, Data: withdrawn})
		}
	}
	return joinErrors(failure, r.faulted(r.putWrites(ws)))
}

func isWithdrawn(w checkpoint.Write) bool {
	return w.Kind == checkpoint.Done && bytes.Equal(w.Data, withdrawn)
}
