package ledger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// ThreadQuery selects threads.
type ThreadQuery struct {
	Filter
	IDs    []uuid.UUID
	Status ThreadStatus
	// Match is called for each thread that meets the other conditions, ordered by creation time;
	// nil accepts all.
	Match func(*Thread) (bool, error)
	Page
}

// threadDoc is the document in a thread's row.
type threadDoc struct {
	*Thread
	Epoch uint64 `json:"epoch,omitempty"`
	Seq   uint64 `json:"seq,omitempty"`
	V2    bool   `json:"v2,omitempty"`
	Small Object `json:"small,omitempty"`

	Revision int `json:"revision,omitempty"`

	Wake    time.Time `json:"wake,omitzero"`
	Signals []string  `json:"signals,omitempty"`
	// Came lists the signals that arrived while a run was open. The run may have checked for
	// them before they arrived.
	Came []string `json:"came,omitempty"`
	// Asked is the Wake that the last run requested. Queued is the due time of the thread's row
	// of kind Wakes.
	Asked  time.Time `json:"asked,omitzero"`
	Queued time.Time `json:"queued,omitzero"`

	// Rest is the thread's status while no run is open.
	Rest ThreadStatus `json:"rest,omitempty"`
	// Running is the ID of the running run.
	Running uuid.UUID `json:"running,omitzero"`
	// Pending is the number of pending runs.
	Pending int `json:"pending,omitempty"`
	// First is the due time of the first pending run, and Waiting its graph.
	First   time.Time `json:"first,omitzero"`
	Waiting string    `json:"waiting,omitempty"`

	Priority *int `json:"priority,omitempty"`

	Pushes json.RawMessage `json:"pushes,omitempty"`
	Task   uuid.UUID       `json:"task,omitzero"`

	doc []byte // the row's document, if the ledger has put this thread
}

func decodeThread(r *Row) (*threadDoc, error) {
	d := &threadDoc{Thread: &Thread{}}
	if err := json.Unmarshal(r.Doc, d); err != nil {
		return nil, fmt.Errorf("ledger: decode thread %s: %w", r.ID, err)
	}
	t := d.Thread
	t.Epoch = d.Epoch
	t.Seq = d.Seq
	t.V2 = d.V2
	t.Small = d.Small
	t.Revision = d.Revision
	t.Wake = d.Wake
	t.Signals = d.Signals
	t.Priority = d.Priority
	t.Pushes = d.Pushes
	t.Task = d.Task
	return d, nil
}

// is reports whether the row contains the thread as it was put. It returns false if d is nil.
func (d *threadDoc) is(r *Row) bool { return d != nil && bytes.Equal(r.Doc, d.doc) }

// putThread stores and caches the thread, which must not be modified afterward. If the
// transaction fails, the cached thread matches no row.
func (l *Ledger) putThread(tx Tx, d *threadDoc) error {
	err := d.put(tx)
	if err == nil {
		l.threads.put(d.ID, d, len(d.doc))
	}
	return err
}

// copy returns a copy to modify. The values that it refers to are shared, and must be replaced,
// not modified.
func (d *threadDoc) copy() *threadDoc {
	t, c := *d.Thread, *d
	c.Thread = &t
	return &c
}

func (d *threadDoc) open() bool { return d.Running != uuid.Nil || d.Pending > 0 }

// due returns when the thread next needs processing. If no run is running, that is when its
// first pending run can start; if no run is open, that is when its TTL expires.
func (d *threadDoc) due() time.Time {
	switch {
	case d.Running != uuid.Nil:
	case d.Pending > 0:
		return d.First
	case d.TTL != nil:
		return d.TTL.Expires
	}
	return time.Time{}
}

func statusTerm(s ThreadStatus) uint64 { return term("status", string(s)) }

// put stores the thread with the status that results from its runs.
func (d *threadDoc) put(tx Tx) error {
	t := d.Thread
	d.Epoch = t.Epoch
	d.Seq = t.Seq
	d.V2 = t.V2
	d.Small = t.Small
	d.Revision = t.Revision
	t.Wake = ceil(t.Wake)
	d.Wake = t.Wake
	d.Signals = t.Signals
	d.Priority = t.Priority
	d.Pushes = t.Pushes
	d.Task = t.Task
	if err := d.queue(tx); err != nil {
		return err
	}
	t.Status = d.Rest
	if d.open() {
		t.Status = Busy
	}
	doc, err := d.encode()
	if err != nil {
		return fmt.Errorf("ledger: encode thread %s: %w", d.ID, err)
	}
	d.doc = doc
	var terms []uint64
	// Most threads are idle, and queries find busy threads by Open. Without terms for these two
	// statuses, a successful run changes no terms.
	if t.Status == Interrupted || t.Status == Failed {
		terms = append(terms, statusTerm(t.Status))
	}
	r := &Row{
		Kind: Threads, ID: d.ID, Open: d.open(), Due: d.due(), Created: d.Created, Doc: doc,
		Terms: metadataTerms(terms, d.Metadata),
	}
	switch {
	case r.Due.IsZero():
	case r.Open:
		r.Parent = waitingThreads(d.Waiting, d.priority())
	default:
		r.Parent = expiringThreads
	}
	return tx.Put(r)
}

// priority returns the priority of the thread's runs.
func (d *threadDoc) priority() int {
	if d.Thread.Priority == nil {
		return 0
	}
	return *d.Thread.Priority
}

// waitingThreads returns the parent of the rows of threads of a priority whose next run is of
// the given graph and may be claimed. It lets queries find these threads without reading
// threads that wait for other graphs or at other priorities.
func waitingThreads(graph string, priority int) uuid.UUID {
	return at(uuid.NewSHA1(uuid.Nil, []byte("treadle: threads that wait for "+graph)), priority)
}

// at returns the parent of rows of a priority, given the parent of rows of priority 0.
func at(parent uuid.UUID, priority int) uuid.UUID {
	if priority == 0 {
		return parent
	}
	return uuid.NewSHA1(parent, strconv.AppendInt(nil, int64(priority), 10))
}

// expiringThreads is the parent of the rows of threads that have a TTL and no open run. It lets
// queries find expired threads without reading threads with due runs.
var expiringThreads = uuid.NewSHA1(uuid.Nil, []byte("treadle: expiring threads"))

// touch sets the time of the last change and restarts the TTL.
func (d *threadDoc) touch(now time.Time) {
	d.Updated = now
	if d.TTL != nil {
		ttl := *d.TTL
		ttl.Expires = micros(now.Add(time.Duration(ttl.Minutes * float64(time.Minute))))
		d.TTL = &ttl
	}
}

// newThread returns the initial document of a thread.
func newThread(t *Thread, now time.Time) *threadDoc {
	made := *t
	made.Created = now
	made.StateUpdated = now
	if made.Interrupts == nil {
		made.Interrupts = noObject
	}
	d := &threadDoc{Thread: &made, Rest: cmp.Or(t.Status, Idle)}
	if d.Rest == Busy {
		d.Rest = Idle
	}
	made.Status = d.Rest
	d.touch(now)
	return d
}

// temporaryMark is the prefix of the thread IDs of temporary runs.
var temporaryMark = []byte{0x7e, 0x3a, 0xd1, 0xe0}

// NewTemporaryThread returns a thread ID for a temporary run. Events are found by thread ID, so
// no thread may share its ID with a temporary run: [Ledger.CreateThread] and [Ledger.CreateRun]
// return ErrExists for a thread with such an ID.
func NewTemporaryThread() (uuid.UUID, error) {
	id, err := uuid.NewRandom()
	copy(id[:], temporaryMark)
	id[6] = id[6]&0x0f | 0x80 // version 8: custom
	return id, err
}

// isTemporaryThread reports whether id could be a result of NewTemporaryThread.
func isTemporaryThread(id uuid.UUID) bool {
	return bytes.HasPrefix(id[:], temporaryMark) && id.Version() == 8
}

// CreateThread stores a thread and sets its times, and its ID if it is zero. It returns
// ErrExists if the ID is taken or reserved for temporary runs.
func (l *Ledger) CreateThread(ctx context.Context, t *Thread) error {
	id := t.ID
	if id == uuid.Nil {
		var err error
		if id, err = newID(); err != nil {
			return err
		}
	}
	if isTemporaryThread(id) {
		return exists("thread", id)
	}
	var d *threadDoc
	var mark *textMark
	err := l.b.Update(ctx, id, func(tx Tx) (err error) {
		if r, err := tx.Get(Threads, id); r != nil || err != nil {
			return cmp.Or(err, exists("thread", id))
		}
		d = newThread(t, tx.Now())
		d.ID = id
		mark, err = l.markText(tx, id)
		return cmp.Or(err, d.put(tx))
	})
	if err == nil {
		*t = *d.Thread
		l.textChanged(id, mark)
	}
	return err
}

// Thread returns a thread. It returns ErrNotFound if the thread does not exist or the filter
// rejects it.
func (l *Ledger) Thread(ctx context.Context, id uuid.UUID, f *Filter) (*Thread, error) {
	r, err := l.b.Get(ctx, Threads, id)
	if err != nil {
		return nil, err
	}
	d, err := seenThread(r, id, f)
	if err != nil {
		return nil, err
	}
	return d.Thread, nil
}

// seenThread decodes a row. It returns ErrNotFound if the row is nil or the filter rejects it.
func seenThread(r *Row, id uuid.UUID, f *Filter) (*threadDoc, error) {
	if r == nil {
		return nil, notFound("thread", id)
	}
	d, err := decodeThread(r)
	if err != nil {
		return nil, err
	}
	if !f.Match(d.Metadata) {
		return nil, notFound("thread", id)
	}
	return d, nil
}

// Threads returns a page of the matching threads, and the number of all matches.
func (l *Ledger) Threads(ctx context.Context, q *ThreadQuery) (page []*Thread, total int, err error) {
	if q.IDs != nil && len(q.IDs) == 0 {
		return nil, 0, nil
	}
	s := &listing[*Thread]{
		query:  Query{Kind: Threads, IDs: q.IDs, Open: q.Status == Busy},
		filter: &q.Filter,
		plain:  q.Filter.empty() && q.Match == nil && (q.Status == "" || q.Status == Busy),
		decode: func(r *Row) (*Thread, error) {
			d, err := decodeThread(r)
			if err != nil {
				return nil, err
			}
			return d.Thread, nil
		},
		match: func(t *Thread) (bool, error) {
			if q.Status != "" && t.Status != q.Status || !q.Filter.Match(t.Metadata) {
				return false, nil
			}
			if q.Match == nil {
				return true, nil
			}
			return q.Match(t)
		},
		id: func(t *Thread) uuid.UUID { return t.ID },
		fields: map[string]func(a, b *Thread) int{
			"thread_id":        func(a, b *Thread) int { return compareIDs(a.ID, b.ID) },
			"status":           func(a, b *Thread) int { return strings.Compare(string(a.Status), string(b.Status)) },
			"updated_at":       func(a, b *Thread) int { return a.Updated.Compare(b.Updated) },
			"state_updated_at": func(a, b *Thread) int { return a.StateUpdated.Compare(b.StateUpdated) },
		},
	}
	if q.Status == Interrupted || q.Status == Failed {
		s.query.Terms = []uint64{statusTerm(q.Status)}
	}
	return list(ctx, l.b, s, q.Page)
}

// updateThread calls change with a thread in a transaction. change must put the thread.
func (l *Ledger) updateThread(ctx context.Context, id uuid.UUID, f *Filter, h hint, change func(Tx, *threadDoc) error) (*threadDoc, error) {
	var d *threadDoc
	err := l.update(ctx, id, h, func(tx Tx) error {
		r, err := tx.Get(Threads, id)
		if err != nil {
			return err
		}
		if d, err = seenThread(r, id, f); err != nil {
			return err
		}
		return change(tx, d)
	})
	return d, err
}

// PatchThread calls change with a copy of the thread and stores the result. If idle is set, it
// returns ErrBusy if the thread has an open run. A thread with open runs stays busy; the status
// that change sets applies after they end. change may be called more than once.
func (l *Ledger) PatchThread(ctx context.Context, id uuid.UUID, f *Filter, idle bool, change func(*Thread) error) (*Thread, error) {
	var mark *textMark
	d, err := l.updateThread(ctx, id, f, hint{}, func(tx Tx, d *threadDoc) (err error) {
		if idle && d.open() {
			return fmt.Errorf("%w: %s", ErrBusy, id)
		}
		created := d.Created
		if err := change(d.Thread); err != nil {
			return err
		}
		d.ID, d.Created, d.StateUpdated = id, created, micros(d.StateUpdated)
		if d.Status != Busy {
			d.Rest = d.Status
		}
		if d.Interrupts == nil {
			d.Interrupts = noObject
		}
		if !waits(d.Interrupts) {
			if err := l.stopWaiting(tx, d); err != nil {
				return err
			}
		}
		d.Thread.Revision = max(d.Thread.Revision, l.o.Revision)
		d.touch(tx.Now())
		mark, err = l.markText(tx, id)
		return cmp.Or(err, d.put(tx))
	})
	if err != nil {
		return nil, err
	}
	l.textChanged(id, mark)
	return d.Thread, nil
}

// DeleteThread deletes a thread with its runs, spans, crons, webhooks, events, and words. It returns the runs
// that were open, so that the caller can notify their workers.
func (l *Ledger) DeleteThread(ctx context.Context, id uuid.UUID, f *Filter) (open []*Run, err error) {
	_, err = l.updateThread(ctx, id, f, hint{}, func(tx Tx, d *threadDoc) error {
		open = nil
		l.threads.forget(id)
		rows, err := tx.Find(&Query{Kind: Runs, Parent: id})
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.Open {
				run, err := decodeRun(r)
				if err != nil {
					return err
				}
				open = append(open, run)
			}
			if err := tx.Delete(Runs, r.ID); err != nil {
				return err
			}
			if err := dropHooks(tx, r.ID, d); err != nil {
				return err
			}
		}
		if err := deleteAll(tx, &Query{Kind: Crons, Parent: id}); err != nil {
			return err
		}
		if err := deleteAll(tx, &Query{Kind: Spans, Parent: id}); err != nil {
			return err
		}
		for _, kind := range []Kind{Wakes, Texts, Unindexed} {
			if err := tx.Delete(kind, id); err != nil {
				return err
			}
		}
		return tx.Delete(Threads, id)
	})
	if err != nil {
		return nil, err
	}
	return open, l.b.DropEvents(ctx, id, uuid.Nil)
}

// Expired returns threads whose TTL has expired and that have no open run.
func (l *Ledger) Expired(ctx context.Context, limit int) ([]*Thread, error) {
	now, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	var expired []*Thread
	for r, err := range l.b.Find(ctx, &Query{Kind: Threads, Parent: expiringThreads, DueBy: now, Order: DueFirst, Limit: limit}) {
		if err != nil {
			return nil, err
		}
		d, err := decodeThread(r)
		if err != nil {
			return nil, err
		}
		expired = append(expired, d.Thread)
	}
	return expired, nil
}
