package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

// NewRun describes a run to create.
type NewRun struct {
	// Run provides the ID, Thread, Assistant, Graph, Metadata, Kwargs, Strategy, Temporary,
	// Resumable, Due, Key, Webhook, and Task. A zero ID is replaced by a new ID, and a zero or past
	// Due by the creation time.
	*Run
	// Continues means that the run has no input of its own: if the thread waits, the run belongs
	// to the waiting task, and takes the values of the metadata keys in Inherit from it.
	Continues bool
	Inherit   []string
	// Pushes returns the new Pushes of the thread; nil leaves them unchanged. It is called in the
	// transaction that creates the run, before anything is written. If it fails, CreateRun
	// returns its error. A run that is not part of an earlier task removes the Pushes of a
	// thread without an open or waiting task.
	Pushes func(*Thread) (json.RawMessage, error)
	// As is the assistant, if it is from Recall. CreateRun returns ErrStale if it has changed
	// since; nil means no check.
	As             *Assistant
	Create         *Thread   // the thread to create if it does not exist; nil means ErrNotFound
	Filter         *Filter   // applies to an existing thread
	ThreadMetadata Object    // merged into the thread's metadata
	Priority       *int      // of a temporary run, or of the thread if it has none yet; nil leaves it unchanged
	Worker         uuid.UUID // the process that claims the run if it can start immediately; zero means none
}

// Created is the result of [Ledger.CreateRun].
type Created struct {
	Run     *Run   // as stored, Pending or Running, with its Kwargs
	Claimed bool   // by NewRun.Worker
	Old     bool   // a run with this Key or ID already existed; nothing was created
	Ordered []*Run // started runs that were ordered to end; their workers need a signal
	Ended   []*Run // pending runs that were canceled (Interrupt) or deleted (Rollback)
}

// CreateRun stores a run and applies its strategy to the other runs of its thread. If it fails
// with ErrBusy, ErrExists, ErrFull, ErrNotFound, or ErrStale, nothing has changed.
//
// CreateRun assigns the run to n.Worker if the worker has a lease, the run is due, and the
// thread has no other open run and does not need a later revision. If a run with the same Key
// is stored, in the same thread or temporary like this one, CreateRun returns that run instead.
func (l *Ledger) CreateRun(ctx context.Context, n *NewRun) (*Created, error) {
	n, err := checked(n)
	if err != nil {
		return nil, err
	}
	lock := n.Run.lock()
	if n.Temporary && n.Key != "" {
		// Two creates with the same key must share a lock. No other caller can use the new
		// run's own lock yet.
		lock = uuid.NewSHA1(temporaryRuns, []byte(n.Key))
	}
	var c *Created
	h := hint{n.ID, n.Worker}
	if n.As != nil {
		h[2] = n.As.ID
	}
	err = l.update(ctx, lock, h, func(tx Tx) (err error) {
		c, err = l.createRun(tx, n)
		return err
	})
	if err != nil {
		if errors.Is(err, ErrStale) {
			l.assistants.forget(n.As.ID)
		}
		return nil, err
	}
	return c, nil
}

// checked validates n and returns a copy with defaults filled in.
func checked(n *NewRun) (*NewRun, error) {
	made, run := *n, *n.Run
	made.Run = &run
	if run.ID == uuid.Nil {
		id, err := newID()
		if err != nil {
			return nil, err
		}
		run.ID = id
	}
	switch run.Strategy {
	case Reject, Enqueue, Interrupt, Rollback:
	case "":
		run.Strategy = Enqueue
	default:
		return nil, fmt.Errorf("ledger: unknown multitask strategy %q", run.Strategy)
	}
	if run.Thread == uuid.Nil && !run.Temporary {
		return nil, errors.New("ledger: run without a thread must be temporary")
	}
	if p := n.Priority; p != nil && (*p < MinPriority || *p > MaxPriority) {
		return nil, fmt.Errorf("ledger: priority %d out of range %d to %d", *p, MinPriority, MaxPriority)
	}
	run.Status = Pending
	run.Worker = uuid.Nil
	run.Attempt = 0
	run.Order = NoAction
	run.Head = ""
	run.Failure = nil
	run.Waits = false
	run.revision = 0
	run.priority = 0
	if run.Temporary && n.Priority != nil {
		run.priority = *n.Priority
	}
	if run.Kwargs == nil {
		run.Kwargs = noObject
	}
	return &made, nil
}

// createRun creates a run in a transaction. It writes nothing until no check can reject the
// run.
func (l *Ledger) createRun(tx Tx, n *NewRun) (*Created, error) {
	if old, err := l.oldRun(tx, n); old != nil || err != nil {
		return old, err
	}
	if n.As != nil {
		if err := unchanged(tx, n.As); err != nil {
			return nil, err
		}
	}
	now := tx.Now()
	run := *n.Run
	c := &Created{Run: &run}
	run.Created, run.Updated, run.Due = now, now, micros(run.Due)
	if run.Due.Before(now) {
		run.Due = now
	}
	var d *threadDoc
	if !run.Temporary {
		var err error
		if d, err = l.threadFor(tx, n); err != nil {
			return nil, err
		}
		if n.Continues {
			if err := inherit(tx, d, &run, n.Inherit); err != nil {
				return nil, err
			}
		}
		if err := setPushes(n, &run, d); err != nil {
			return nil, err
		}
		if err := l.applyStrategy(tx, d, &run, c); err != nil {
			return nil, err
		}
		if d.Thread.Priority == nil {
			d.Thread.Priority = n.Priority
		}
		d.Metadata = d.Metadata.merged(n.ThreadMetadata)
		d.touch(now)
	}
	needed := revisionOf(&run, d)
	if n.Worker != uuid.Nil && !run.Due.After(now) && (d == nil || !d.open()) && *needed <= l.o.Revision {
		ok, err := hasLease(tx, n.Worker)
		if err != nil {
			return nil, err
		}
		if ok {
			c.Claimed = true
			if err := l.start(tx, &run, n.Worker, d); err != nil {
				return nil, err
			}
		}
	}
	*needed = max(*needed, l.o.Revision)
	if err := putRun(tx, &run); err != nil || d == nil {
		return c, err
	}
	if c.Claimed {
		d.Running = run.ID
	} else {
		d.Pending++
		if d.Pending == 1 || run.Due.Before(d.First) {
			d.First, d.Waiting = run.Due, run.Graph
		}
	}
	return c, l.putThread(tx, d)
}

// oldRun returns the run created by an earlier call with the same ID or key, or nil.
func (l *Ledger) oldRun(tx Tx, n *NewRun) (*Created, error) {
	r, err := tx.Get(Runs, n.ID)
	if err != nil {
		return nil, err
	}
	q := &Query{Kind: Runs, Bodies: true}
	switch {
	case r != nil:
		q.IDs = []uuid.UUID{n.ID}
	case n.Key == "":
		return nil, nil
	default:
		q.Terms = []uint64{keyTerm(n.Key)}
		if !n.Temporary { // the parent of a temporary run depends on its priority
			q.Parent = n.Thread
		}
	}
	rows, err := tx.Find(q)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		run, err := decodeRun(r)
		if err != nil {
			return nil, err
		}
		if run.ID != n.ID && run.Key != n.Key {
			continue // another key with the same hash
		}
		ok, err := l.mayHave(tx, n, run)
		if err != nil {
			return nil, err
		}
		if ok {
			return &Created{Run: run, Old: true}, nil
		}
		if run.ID == n.ID {
			return nil, exists("run", n.ID)
		}
	}
	return nil, nil
}

// mayHave reports whether a stored run may be returned instead of a new one.
func (l *Ledger) mayHave(tx Tx, n *NewRun, run *Run) (bool, error) {
	switch {
	case run.Temporary != n.Temporary:
		return false, nil
	case run.Temporary:
		return n.Filter.Match(run.Metadata), nil
	case run.Thread != n.Thread:
		return false, nil
	}
	_, err := l.threadFor(tx, n)
	return err == nil, err
}

// threadFor returns the thread of a new run. It creates the thread if necessary, but does not
// put it.
func (l *Ledger) threadFor(tx Tx, n *NewRun) (*threadDoc, error) {
	r, err := tx.Get(Threads, n.Thread)
	if err != nil {
		return nil, err
	}
	if r == nil && n.Create != nil {
		if isTemporaryThread(n.Thread) {
			return nil, exists("thread", n.Thread)
		}
		d := newThread(n.Create, tx.Now())
		d.ID = n.Thread
		return d, nil
	}
	if was := l.threads.get(n.Thread); r != nil && was.is(r) && n.Filter.Match(was.Metadata) {
		return was.copy(), nil
	}
	return seenThread(r, n.Thread, n.Filter)
}

// applyStrategy applies the run's strategy to the other runs of the thread.
func (l *Ledger) applyStrategy(tx Tx, d *threadDoc, run *Run, c *Created) error {
	if !d.open() {
		return nil
	}
	action := CancelRun
	switch run.Strategy {
	case Reject:
		return fmt.Errorf("%w: %s", ErrBusy, d.ID)
	case Enqueue:
		if d.Pending >= l.o.MaxPending {
			return fmt.Errorf("%w: %d pending on %s", ErrFull, d.Pending, d.ID)
		}
		return nil
	case Rollback:
		action = RollbackRun
	}
	rows, err := tx.Find(&Query{Kind: Runs, Parent: d.ID, Open: true, Order: OldestFirst})
	if err != nil {
		return err
	}
	for _, r := range rows {
		other, err := decodeRun(r)
		if err != nil {
			return err
		}
		ended, err := l.cancelRun(tx, other, d, action)
		if err != nil {
			return err
		}
		if ended {
			c.Ended = append(c.Ended, other)
		} else {
			c.Ordered = append(c.Ordered, other)
		}
	}
	return nil
}
