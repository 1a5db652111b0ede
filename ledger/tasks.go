package ledger

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/google/uuid"
)

// First returns the ID of the first run of the run's task.
func (r *Run) First() uuid.UUID {
	if r.Task != uuid.Nil {
		return r.Task
	}
	return r.ID
}

func taskTerm(first uuid.UUID) uint64 { return term("task", first.String()) }

// waits reports whether a thread with these interrupts waits for something.
func waits(interrupts json.RawMessage) bool {
	return len(interrupts) > 0 && string(interrupts) != string(noObject)
}

// taskEnded stores the webhooks about a task that ended otherwise than by Finish, given one of its runs.
func (l *Ledger) taskEnded(tx Tx, run *Run, d *threadDoc) error {
	if l.o.TaskEnded == nil || d == nil || len(d.Thread.Pushes) == 0 {
		return nil
	}
	for _, h := range l.o.TaskEnded(run, d.Thread) {
		if err := putHook(tx, h, run.ID); err != nil {
			return err
		}
	}
	return nil
}

// stopWaiting ends the task that a thread waits for, if any.
func (l *Ledger) stopWaiting(tx Tx, d *threadDoc) error {
	task := d.Thread.Task
	d.Thread.Task = uuid.Nil
	if task == uuid.Nil || l.o.TaskEnded == nil || len(d.Thread.Pushes) == 0 {
		return nil
	}
	r, err := tx.Get(Runs, task)
	if err != nil || r == nil {
		return err
	}
	first, err := decodeRun(r)
	if err != nil {
		return err
	}
	return l.taskEnded(tx, first, d)
}

// noPushes replaces the Pushes of a thread that has had some, whose webhooks may still be due.
var noPushes = json.RawMessage("[]")

// setPushes sets the Pushes of the thread of a new run. A run that starts something new on a thread
// without an open or waiting task removes what earlier tasks have left.
func setPushes(n *NewRun, run *Run, d *threadDoc) (err error) {
	if t := d.Thread; len(t.Pushes) > len(noPushes) && !d.open() && t.Task == uuid.Nil && run.Task == uuid.Nil {
		t.Pushes = noPushes
	}
	if n.Pushes != nil {
		d.Thread.Pushes, err = n.Pushes(d.Thread)
	}
	return err
}

// inherit adds a new run to the task that its thread waits for, if any.
func inherit(tx Tx, d *threadDoc, run *Run, keys []string) error {
	task := d.Thread.Task
	if task == uuid.Nil || run.Task != uuid.Nil {
		return nil
	}
	run.Task = task
	r, err := tx.Get(Runs, task)
	if err != nil || r == nil {
		return err
	}
	first, err := decodeRun(r)
	if err != nil {
		return err
	}
	run.Metadata = maps.Clone(run.Metadata)
	for _, key := range keys {
		if v, ok := first.Metadata[key]; ok {
			run.Metadata[key] = v
		}
	}
	return nil
}

// A Task is a sequence of runs of a thread, in which each run resumes or continues the run before it.
type Task struct {
	First, Last *Run // without their Kwargs; First is nil if it was deleted
	Latest      bool // Last is the latest run of the thread
}

// RunWithKey returns the run of a thread that was created with an idempotency key, without its Kwargs. It
// returns ErrNotFound if the thread has none.
func (l *Ledger) RunWithKey(ctx context.Context, thread uuid.UUID, key string) (*Run, error) {
	for r, err := range l.b.Find(ctx, &Query{Kind: Runs, Parent: thread, Terms: []uint64{keyTerm(key)}}) {
		if err != nil {
			return nil, err
		}
		run, err := decodeRun(r)
		if err != nil {
			return nil, err
		}
		if run.Key == key { // otherwise, another key with the same hash
			return run, nil
		}
	}
	return nil, notFound("run with key", thread)
}

// Task returns a task, given the ID of its first run. It returns ErrNotFound if no run of the task
// exists.
func (l *Ledger) Task(ctx context.Context, thread, first uuid.UUID) (*Task, error) {
	t := &Task{}
	r, err := l.b.Get(ctx, Runs, first)
	if err != nil {
		return nil, err
	}
	if r != nil {
		if t.First, err = decodeRun(r); err != nil {
			return nil, err
		}
		t.First.Kwargs = nil
		if t.First.Thread != thread || t.First.Temporary || t.First.Task != uuid.Nil {
			return nil, notFound("task", first)
		}
		t.Last = t.First
	}
	for r, err := range l.b.Find(ctx, &Query{Kind: Runs, Parent: thread, Terms: []uint64{taskTerm(first)}}) {
		if err != nil {
			return nil, err
		}
		run, err := decodeRun(r)
		if err != nil {
			return nil, err
		}
		if run.Task == first { // otherwise, another task with the same hash
			t.Last = run
			break
		}
	}
	if t.Last == nil {
		return nil, notFound("task", first)
	}
	for r, err := range l.b.Find(ctx, &Query{Kind: Runs, Parent: thread, Limit: 1}) {
		if err != nil {
			return nil, err
		}
		t.Latest = r.ID == t.Last.ID
	}
	return t, nil
}
