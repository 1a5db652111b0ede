package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"
)

// runDoc is the document in a run's row. See Run.encode.
type runDoc struct {
	*Run
	Kwargs    *struct{} `json:"kwargs,omitempty"` // never set: Kwargs are the row's body
	Graph     string    `json:"graph,omitempty"`
	Temporary bool      `json:"temporary,omitempty"`
	Resumable bool      `json:"resumable,omitempty"`
	Due       time.Time `json:"due,omitzero"`
	Started   time.Time `json:"started,omitzero"`
	Ended     time.Time `json:"ended,omitzero"`
	Worker    uuid.UUID `json:"worker,omitzero"`
	Attempt   int       `json:"attempt,omitempty"`
	Order     Action    `json:"order,omitempty"`
	Head      string    `json:"head,omitempty"`
	Failure   *Failure  `json:"failure,omitempty"`
	Key       string    `json:"key,omitempty"`
	Webhook   string    `json:"webhook,omitempty"`
	Revision  int       `json:"revision,omitempty"` // of a temporary run; see Thread
	Priority  int       `json:"priority,omitempty"` // of a temporary run
	Task      uuid.UUID `json:"task,omitzero"`
	Waits     bool      `json:"waits,omitempty"`
}

func decodeRun(r *Row) (*Run, error) {
	d := runDoc{Run: &Run{}}
	if err := json.Unmarshal(r.Doc, &d); err != nil {
		return nil, fmt.Errorf("ledger: decode run %s: %w", r.ID, err)
	}
	run := d.Run
	run.Graph, run.Temporary, run.Resumable = d.Graph, d.Temporary, d.Resumable
	run.Due, run.Started, run.Ended = d.Due, d.Started, d.Ended
	run.Worker, run.Attempt, run.Order = d.Worker, d.Attempt, d.Order
	run.Head = d.Head
	run.Failure = d.Failure
	run.Key = d.Key
	run.Webhook = d.Webhook
	run.revision, run.priority = d.Revision, d.Priority
	run.Task, run.Waits = d.Task, d.Waits
	run.Kwargs = r.Body
	return run, nil
}

// temporaryRuns is the parent of the rows of temporary runs with priority 0, so that a query
// can find them by due time, like the runs of a thread.
var temporaryRuns = uuid.NewSHA1(uuid.Nil, []byte("treadle: temporary runs"))

func keyTerm(key string) uint64 { return term("key", key) }

// putRun stores a run. If its Kwargs are nil, the stored Kwargs are kept.
func putRun(tx Tx, run *Run) error {
	doc, err := run.encode()
	if err != nil {
		return fmt.Errorf("ledger: encode run %s: %w", run.ID, err)
	}
	run.doc = doc
	r := &Row{
		Kind: Runs, ID: run.ID, Parent: run.Thread, Worker: run.Worker, Open: run.open(),
		Created: run.Created, Doc: doc, Body: run.Kwargs,
	}
	if run.Temporary {
		r.Parent = at(temporaryRuns, run.priority)
	}
	if run.Status == Pending {
		r.Due = run.Due
	}
	if run.Key != "" {
		r.Terms = append(r.Terms, keyTerm(run.Key))
	}
	if run.Task != uuid.Nil {
		r.Terms = append(r.Terms, taskTerm(run.Task))
	}
	if !run.Temporary {
		r.Terms = append(r.Terms, run.searchTerms()...)
	}
	return tx.Put(r)
}

func (r *Run) open() bool { return r.Status == Pending || r.Status == Running }

// lock returns the ID of the lock that changes to the run must hold.
func (r *Run) lock() uuid.UUID {
	if r.Temporary {
		return r.ID
	}
	return r.Thread
}

// Run returns a run with its Kwargs. A zero thread means any thread. The filter applies to the
// metadata of the run's thread, or of the run itself if it is temporary. Run returns
// ErrNotFound if the run does not exist or the filter rejects it.
func (l *Ledger) Run(ctx context.Context, thread, id uuid.UUID, f *Filter) (*Run, error) {
	r, err := l.b.Get(ctx, Runs, id)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, notFound("run", id)
	}
	run, err := decodeRun(r)
	if err != nil {
		return nil, err
	}
	if thread != uuid.Nil && run.Thread != thread {
		return nil, notFound("run", id)
	}
	ok, err := l.seesRun(ctx, run, f)
	if err == nil && !ok {
		err = notFound("run", id)
	}
	if err != nil {
		return nil, err
	}
	return run, nil
}

// seesRun reports whether the filter accepts a run.
func (l *Ledger) seesRun(ctx context.Context, run *Run, f *Filter) (bool, error) {
	switch {
	case f.empty():
		return true, nil
	case run.Temporary:
		return f.Match(run.Metadata), nil
	}
	_, err := l.Thread(ctx, run.Thread, f)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Runs returns runs of a thread with their Kwargs, newest first unless p is ascending. An empty
// status means all runs.
func (l *Ledger) Runs(ctx context.Context, thread uuid.UUID, f *Filter, status RunStatus, p Page) ([]*Run, error) {
	if p.SortBy != "" && p.SortBy != "created_at" {
		return nil, fmt.Errorf("ledger: cannot sort runs by %q", p.SortBy)
	}
	if _, err := l.Thread(ctx, thread, f); err != nil {
		return nil, err
	}
	q := &Query{Kind: Runs, Parent: thread, Open: status == Pending || status == Running}
	if p.Ascending {
		q.Order = OldestFirst
	}
	if status == "" && p.Offset <= 0 {
		q.Limit, q.Bodies = p.Limit, true
		return l.findRuns(ctx, q)
	}
	// Kwargs may be large, so read them only for the runs on the page.
	var ids []uuid.UUID
	n := 0
	for r, err := range l.b.Find(ctx, q) {
		if err != nil {
			return nil, err
		}
		if status != "" {
			run, err := decodeRun(r)
			if err != nil {
				return nil, err
			}
			if run.Status != status {
				continue
			}
		}
		if p.has(n) {
			ids = append(ids, r.ID)
		}
		n++
		if p.Limit > 0 && len(ids) == p.Limit {
			break
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return l.findRuns(ctx, &Query{Kind: Runs, IDs: ids, Order: q.Order, Bodies: true})
}

func (l *Ledger) findRuns(ctx context.Context, q *Query) ([]*Run, error) {
	var runs []*Run
	for r, err := range l.b.Find(ctx, q) {
		if err != nil {
			return nil, err
		}
		run, err := decodeRun(r)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// OpenRuns yields all pending and running runs, newest first, without their Kwargs.
func (l *Ledger) OpenRuns(ctx context.Context, f *Filter) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		for r, err := range l.b.Find(ctx, &Query{Kind: Runs, Open: true}) {
			var run *Run
			if err == nil {
				run, err = decodeRun(r)
			}
			ok := true
			if err == nil {
				ok, err = l.seesRun(ctx, run, f)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if ok && !yield(run, nil) {
				return
			}
		}
	}
}

// changeRun calls change in a transaction that holds the lock of a run, with the run and its
// thread, which is nil for a temporary run. It returns ErrNotFound if the run does not exist.
// It sets the first ID of the hint to the ID of the run.
func (l *Ledger) changeRun(ctx context.Context, lock, id uuid.UUID, h hint, change func(Tx, *Run, *threadDoc) error) error {
	h[0] = id
	return l.update(ctx, lock, h, func(tx Tx) error {
		run, thread, err := l.runAndThread(tx, id)
		if err != nil {
			return err
		}
		return change(tx, run, thread)
	})
}

func (l *Ledger) runAndThread(tx Tx, id uuid.UUID) (*Run, *threadDoc, error) {
	return l.heldAndThread(tx, &Run{ID: id})
}

// heldAndThread is like runAndThread, for a run that a worker holds. It does not decode a row
// whose document equals the last one that this process put.
func (l *Ledger) heldAndThread(tx Tx, held *Run) (*Run, *threadDoc, error) {
	r, err := tx.Get(Runs, held.ID)
	if err != nil {
		return nil, nil, err
	}
	if r == nil {
		return nil, nil, notFound("run", held.ID)
	}
	var run *Run
	if held.doc != nil && bytes.Equal(r.Doc, held.doc) {
		c := *held
		c.Kwargs = r.Body
		c.Epoch = 0
		c.Seq = 0
		c.V2 = false
		run = &c
	} else if run, err = decodeRun(r); err != nil {
		return nil, nil, err
	}
	if run.Temporary {
		return run, nil, nil
	}
	if r, err = tx.Get(Threads, run.Thread); err != nil {
		return nil, nil, err
	}
	if r == nil {
		return nil, nil, notFound("thread", run.Thread)
	}
	if was := l.threads.get(run.Thread); was.is(r) {
		return run, was.copy(), nil
	}
	thread, err := decodeThread(r)
	return run, thread, err
}

// waiting updates First and Waiting after a change to the pending runs of a thread.
func (d *threadDoc) waiting(tx Tx) error {
	d.First, d.Waiting = time.Time{}, ""
	if d.Pending == 0 {
		return nil
	}
	rows, err := tx.Find(&Query{Kind: Runs, Parent: d.ID, Order: DueFirst, Limit: 1})
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return fmt.Errorf("ledger: thread %s has no pending runs, want %d", d.ID, d.Pending)
	}
	run, err := decodeRun(rows[0])
	if err != nil {
		return err
	}
	d.First, d.Waiting = run.Due, run.Graph
	return nil
}

// revisionOf returns a pointer to the revision that a worker needs for a run. It is stored in
// the run's thread, or in the run itself if it is temporary.
func revisionOf(r *Run, thread *threadDoc) *int {
	if thread != nil {
		return &thread.Thread.Revision
	}
	return &r.revision
}

// start assigns a pending run to a worker of this process. A run of another task than the one that
// the thread waits for ends the latter.
func (l *Ledger) start(tx Tx, r *Run, worker uuid.UUID, thread *threadDoc) error {
	now := tx.Now()
	needed := revisionOf(r, thread)
	*needed = max(*needed, l.o.Revision)
	r.Status, r.Worker, r.Updated = Running, worker, now
	r.Attempt++
	if r.Started.IsZero() {
		r.Started = now
	}
	r.place(thread)
	if thread == nil || thread.Thread.Task == uuid.Nil {
		return nil
	}
	if thread.Thread.Task != r.First() {
		return l.stopWaiting(tx, thread)
	}
	thread.Thread.Task = uuid.Nil
	return nil
}

// place copies to the run the fields of its thread that the worker needs.
func (r *Run) place(thread *threadDoc) {
	if thread != nil {
		r.Epoch, r.Seq, r.V2 = thread.Thread.Epoch, thread.Thread.Seq, thread.Thread.V2
		return
	}
	// Sequence numbers of a temporary run increase with each attempt.
	r.Epoch, r.Seq = uint64(max(r.Attempt-1, 0)), 0
}

// Claim assigns up to n due runs to a worker: temporary runs, and the first run of each thread
// without a running one. It skips runs whose graph is not in graphs, unless graphs is nil, and
// runs that need a later revision. With Options.Priorities, runs with a lower priority number
// come first. A claimed run that was started before may already have an Order. Claim returns
// ErrNoLease if the worker has no lease.
func (l *Ledger) Claim(ctx context.Context, worker uuid.UUID, graphs []string, n int) ([]*Run, error) {
	now, err := l.leased(ctx, worker)
	if err != nil || n <= 0 {
		return nil, err
	}
	var claimed []*Run
	for c, err := range l.candidates(ctx, now, graphs, n) {
		var run *Run
		switch {
		case err != nil:
		case c.temporary:
			run, err = l.claimTemporary(ctx, c.id, worker)
		default:
			run, err = l.claimOf(ctx, c.id, worker, graphs)
		}
		if err != nil {
			return claimed, err
		}
		if run != nil {
			claimed = append(claimed, run)
		}
		if len(claimed) == n {
			break
		}
	}
	return claimed, nil
}

// candidate is a thread with a run that may start, or a temporary run.
type candidate struct {
	id        uuid.UUID
	temporary bool
}

// lookEvery is the interval at which a ledger without Options.Priorities searches for temporary
// runs to which another ledger has given a priority.
const lookEvery = 10 * time.Second

// nonzero lists the priorities other than the default.
var nonzero = []int{-5, -4, -3, -2, -1, 1, 2, 3, 4, 5}

// candidates yields the threads and runs that may be claimed, in order. It stops after an
// error.
func (l *Ledger) candidates(ctx context.Context, now time.Time, graphs []string, n int) iter.Seq2[candidate, error] {
	return func(yield func(candidate, error) bool) {
		more := true
		each := func(temporary bool, ids iter.Seq2[uuid.UUID, error]) {
			if !more {
				return
			}
			for id, err := range ids {
				more = yield(candidate{id, temporary}, err) && err == nil
				if !more {
					return
				}
			}
		}
		if l.o.Priorities {
			for p := MinPriority; p <= MaxPriority; p++ {
				each(false, l.claimableAt(ctx, now, p, graphs, n))
				each(true, l.claimableTemporary(ctx, now, p, graphs))
			}
			return
		}
		each(false, l.claimable(ctx, now, graphs, n))
		each(true, l.claimableTemporary(ctx, now, 0, graphs))
		if last := l.looked.Load(); !more || now.UnixMicro()-last < lookEvery.Microseconds() || !l.looked.CompareAndSwap(last, now.UnixMicro()) {
			return
		}
		for _, p := range nonzero {
			each(true, l.claimableTemporary(ctx, now, p, graphs))
		}
	}
}

// temporaries returns queries for the temporary runs of every priority in use.
func (l *Ledger) temporaries() (all []*Query) {
	for p := MinPriority; p <= MaxPriority; p++ {
		if p == 0 || l.o.Priorities {
			all = append(all, &Query{Kind: Runs, Parent: at(temporaryRuns, p)})
		}
	}
	return all
}

// claimableTemporary yields the due temporary runs of a priority that this process may execute.
func (l *Ledger) claimableTemporary(ctx context.Context, now time.Time, priority int, graphs []string) iter.Seq2[uuid.UUID, error] {
	return func(yield func(uuid.UUID, error) bool) {
		for r, err := range l.b.Find(ctx, &Query{Kind: Runs, Parent: at(temporaryRuns, priority), DueBy: now, Order: DueFirst}) {
			var run *Run
			if err == nil {
				run, err = decodeRun(r)
			}
			if err != nil {
				yield(uuid.Nil, err)
				return
			}
			if served(graphs, run.Graph) && run.revision <= l.o.Revision && !yield(run.ID, nil) {
				return
			}
		}
	}
}

// claimableAt yields threads of a priority with a due run that this process may execute, in the
// order in which they became due: up to n per graph, or all if graphs is nil.
func (l *Ledger) claimableAt(ctx context.Context, now time.Time, priority int, graphs []string, n int) iter.Seq2[uuid.UUID, error] {
	return func(yield func(uuid.UUID, error) bool) {
		var first []*Row
		var err error
		if graphs != nil {
			first, err = l.firstOf(ctx, now, priority, graphs, n)
		} else {
			first, err = l.allAt(ctx, now, priority)
		}
		if err != nil {
			yield(uuid.Nil, err)
			return
		}
		for _, r := range first {
			if !yield(r.ID, nil) {
				return
			}
		}
	}
}

// allAt returns the threads of a priority with a due run, of any graph, in the order in which
// they became due.
func (l *Ledger) allAt(ctx context.Context, now time.Time, priority int) (all []*Row, err error) {
	for r, err := range l.b.Find(ctx, &Query{Kind: Threads, Open: true, DueBy: now, Order: DueFirst}) {
		var d *threadDoc
		if err == nil {
			d, err = decodeThread(r)
		}
		if err != nil {
			return nil, err
		}
		if d.priority() == priority && l.mayClaim(d, nil) {
			all = append(all, r)
		}
	}
	return all, nil
}

// firstOf returns up to n threads per graph, of a priority, with a due run that this process
// may execute, in the order in which they became due.
func (l *Ledger) firstOf(ctx context.Context, now time.Time, priority int, graphs []string, n int) (first []*Row, err error) {
	for _, g := range graphs {
		found := 0
		for r, err := range l.dueThreads(ctx, now, waitingThreads(g, priority), graphs) {
			if err != nil {
				return nil, err
			}
			if r != nil {
				first = append(first, r)
				found++
			}
			if found == n {
				break
			}
		}
	}
	slices.SortFunc(first, func(a, b *Row) int { return a.Due.Compare(b.Due) })
	return first, nil
}

// passedOver is the number of threads that this process may not execute that claimable reads
// before it queries each graph separately.
const passedOver = 100

// claimable yields threads with a due run that this process may execute, in the order in which
// they became due. If many threads that it may not execute come first, claimable yields up to n
// threads per graph and priority instead.
func (l *Ledger) claimable(ctx context.Context, now time.Time, graphs []string, n int) iter.Seq2[uuid.UUID, error] {
	return func(yield func(uuid.UUID, error) bool) {
		others := 0
		for r, err := range l.dueThreads(ctx, now, uuid.Nil, graphs) {
			if err != nil {
				yield(uuid.Nil, err)
				return
			}
			if r != nil && !yield(r.ID, nil) {
				return
			}
			if r == nil {
				others++
			}
			if others == passedOver && graphs != nil {
				break
			}
		}
		if others < passedOver || graphs == nil {
			return
		}
		for _, p := range append([]int{0}, nonzero...) {
			first, err := l.firstOf(ctx, now, p, graphs, n)
			if err != nil {
				yield(uuid.Nil, err)
				return
			}
			for _, r := range first {
				if !yield(r.ID, nil) {
					return
				}
			}
		}
	}
}

// dueThreads yields the rows of threads with a due run, and nil in place of each thread that
// this process may not execute. It stops after an error.
func (l *Ledger) dueThreads(ctx context.Context, now time.Time, parent uuid.UUID, graphs []string) iter.Seq2[*Row, error] {
	return func(yield func(*Row, error) bool) {
		for r, err := range l.b.Find(ctx, &Query{Kind: Threads, Parent: parent, Open: true, DueBy: now, Order: DueFirst}) {
			var d *threadDoc
			if err == nil {
				d, err = decodeThread(r)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !l.mayClaim(d, graphs) {
				r = nil
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func served(graphs []string, graph string) bool {
	return graphs == nil || slices.Contains(graphs, graph)
}

// mayClaim reports whether this process may execute the next run of a thread.
func (l *Ledger) mayClaim(d *threadDoc, graphs []string) bool {
	return served(graphs, d.Waiting) && d.Thread.Revision <= l.o.Revision
}

// claimOf claims the next run of a thread. It returns nil if no run can be claimed any longer.
func (l *Ledger) claimOf(ctx context.Context, thread, worker uuid.UUID, graphs []string) (*Run, error) {
	var run *Run
	_, err := l.updateThread(ctx, thread, nil, hint{worker}, func(tx Tx, d *threadDoc) (err error) {
		run, err = l.claimNext(tx, d, worker, graphs)
		if err != nil || run == nil {
			return err
		}
		return d.put(tx)
	})
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return run, err
}

// claimNext assigns the next run of a thread to a worker, if the run may start and the worker
// has a lease; otherwise, it returns nil. It changes the thread but does not put it.
func (l *Ledger) claimNext(tx Tx, d *threadDoc, worker uuid.UUID, graphs []string) (*Run, error) {
	if d.Running != uuid.Nil || d.Pending == 0 || d.First.After(tx.Now()) || !l.mayClaim(d, graphs) {
		return nil, nil
	}
	if ok, err := hasLease(tx, worker); !ok || err != nil {
		return nil, err
	}
	rows, err := tx.Find(&Query{Kind: Runs, Parent: d.ID, Order: DueFirst, Limit: 1, Bodies: true})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	run, err := decodeRun(rows[0])
	if err != nil {
		return nil, err
	}
	if err := l.start(tx, run, worker, d); err != nil {
		return nil, err
	}
	stored := *run
	stored.Kwargs = nil // already stored
	if err := putRun(tx, &stored); err != nil {
		return nil, err
	}
	run.doc = stored.doc
	d.Running = run.ID
	d.Pending--
	return run, d.waiting(tx)
}

func (l *Ledger) claimTemporary(ctx context.Context, id, worker uuid.UUID) (*Run, error) {
	var run *Run
	err := l.update(ctx, id, hint{worker}, func(tx Tx) error {
		run = nil
		rows, err := tx.Find(&Query{Kind: Runs, IDs: []uuid.UUID{id}, Bodies: true})
		if err != nil || len(rows) == 0 {
			return err
		}
		r, err := decodeRun(rows[0])
		if err != nil || r.Status != Pending || r.Due.After(tx.Now()) || r.revision > l.o.Revision {
			return err
		}
		if ok, err := hasLease(tx, worker); !ok || err != nil {
			return err
		}
		if err := l.start(tx, r, worker, nil); err != nil {
			return err
		}
		stored := *r
		stored.Kwargs = nil
		if err := putRun(tx, &stored); err != nil {
			return err
		}
		r.doc = stored.doc
		run = r
		return nil
	})
	return run, err
}

// NextDue returns the time at which the next pending run, thread wake-up, cron, or webhook is
// due, or zero if there is none.
func (l *Ledger) NextDue(ctx context.Context) (time.Time, error) {
	var next time.Time
	for _, q := range append(l.temporaries(), &Query{Kind: Threads, Open: true}, &Query{Kind: Crons}, &Query{Kind: Hooks}, &Query{Kind: Wakes}) {
		q.Order, q.Limit = DueFirst, 1
		for r, err := range l.b.Find(ctx, q) {
			if err != nil {
				return time.Time{}, err
			}
			if next.IsZero() || r.Due.Before(next) {
				next = r.Due
			}
		}
	}
	return next, nil
}

// DeleteRun deletes a run and its events, if the run has ended or never started. Otherwise, it
// orders a rollback and returns the run, like [Ledger.Cancel]; the run's worker then deletes
// it.
func (l *Ledger) DeleteRun(ctx context.Context, thread, id uuid.UUID, f *Filter) (*Run, error) {
	seen, err := l.Run(ctx, thread, id, f)
	if err != nil {
		return nil, err
	}
	var run *Run
	var mark *textMark
	deleted := false
	err = l.changeRun(ctx, seen.lock(), id, hint{}, func(tx Tx, r *Run, d *threadDoc) error {
		run = r
		if r.open() {
			deleted, err = l.cancelRun(tx, r, d, RollbackRun)
			if err != nil || d == nil {
				return err
			}
			return d.put(tx)
		}
		deleted = true
		if d != nil {
			mark, err = l.markText(tx, d.ID)
		}
		return cmp.Or(err, tx.Delete(Runs, id), dropHooks(tx, id, d), dropSpans(tx, r))
	})
	if err == nil && deleted && !run.Temporary {
		l.textChanged(run.Thread, mark)
	}
	if err == nil && deleted {
		err = l.b.DropEvents(ctx, run.Thread, id)
	}
	if err != nil {
		return nil, err
	}
	return run, nil
}
