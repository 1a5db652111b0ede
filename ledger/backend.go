package ledger

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/google/uuid"
)

// Kind is the kind of a row.
type Kind uint8

// The kinds of rows. These numbers are stored and must not change.
const (
	Assistants Kind = 1
	Versions   Kind = 2 // versions of assistants; the parent is the assistant
	Threads    Kind = 3
	Runs       Kind = 4 // the parent is the thread
	Crons      Kind = 5
	Hooks      Kind = 6 // pending webhooks; the parent is the run
	Workers    Kind = 7 // processes that execute runs
	Wakes      Kind = 8 // threads that continue by themselves; the ID is the ID of the thread
	// Rows of the following kinds are numerous and derived from others.
	Spans     Kind = 9  // model and tool calls; the parent is the thread
	Texts     Kind = 10 // words of threads, as terms; the ID is the ID of the thread
	Unindexed Kind = 11 // threads whose Texts are out of date; the ID is the ID of the thread
)

// A Row is the unit of storage of a backend. Backends do not interpret Doc and Body; queries
// select rows by the other fields.
type Row struct {
	Kind    Kind
	ID      uuid.UUID
	Parent  uuid.UUID // zero if the row has no parent
	Worker  uuid.UUID // of a run: the process that executes it; zero if none
	Open    bool      // of a run: it has not ended; of a thread: it has such a run; of a worker: it attends
	Due     time.Time // when the row next needs processing; zero means never
	Created time.Time // in microseconds, like Due
	Terms   []uint64  // values that queries can select by; unordered, without duplicates
	Doc     []byte
	Body    []byte // the large, rarely read part
}

// Memory is the memory limit that the caches of a server share.
type Memory interface {
	Limit() int64 // in bytes
}

// A MemorySharer is a Backend whose database caches what it reads and writes, and can do so
// within the memory limit of a server. The server calls ShareMemory once, before any other
// method.
type MemorySharer interface {
	ShareMemory(m Memory)
}

// A Query selects rows of one kind. A row must meet all conditions that are set.
type Query struct {
	Kind   Kind
	Parent uuid.UUID   // rows with this parent
	Worker uuid.UUID   // rows with this worker
	Open   bool        // rows that are open
	DueBy  time.Time   // rows due at or before this time
	IDs    []uuid.UUID // rows with one of these IDs; nil means any
	Terms  []uint64    // rows with all of these terms
	Order  Order
	After  *Position // rows that come after this position in the query's order; nil means all
	Limit  int       // the maximum number of rows; 0 means no limit
	Bodies bool      // include Body, which is nil otherwise
}

// Compare compares two rows in the order of the query.
func (q *Query) Compare(a, b *Row) int {
	switch q.Order {
	case DueFirst:
		return cmp.Or(a.Due.Compare(b.Due), compareIDs(a.ID, b.ID))
	case OldestFirst:
		return cmp.Or(a.Created.Compare(b.Created), compareIDs(a.ID, b.ID))
	default:
		return cmp.Or(b.Created.Compare(a.Created), compareIDs(b.ID, a.ID))
	}
}

// Follows reports whether a row comes after q.After, or q.After is nil.
func (q *Query) Follows(r *Row) bool {
	if q.After == nil {
		return true
	}
	at := micros(q.After.At)
	return q.Compare(r, &Row{ID: q.After.ID, Created: at, Due: at}) > 0
}

// A Position is a place in the order of a query. A row at that place need not exist.
type Position struct {
	At time.Time // the row's Created, or its Due if the order is DueFirst; in microseconds
	ID uuid.UUID
}

// Order is the order of the rows that a query returns. Ties are ordered by ID.
type Order uint8

// The possible orders.
const (
	NewestFirst Order = iota // by Created and ID, both descending
	OldestFirst
	DueFirst // by Due; omits rows that are never due
)

// A Backend stores the rows and events of a server. It is safe for concurrent use. Package
// ledgertest provides a test suite for backends.
type Backend interface {
	// Update calls fn in a transaction. Transactions with the same lock run one after the
	// other, across all processes. Transactions with different locks may run concurrently, and
	// may fail with a database error if they change the same rows. If fn returns nil, its puts
	// and deletes are committed; otherwise, they are discarded. Update may call fn again after
	// a transaction that did not commit, so fn must have no other side effects.
	Update(ctx context.Context, lock uuid.UUID, fn func(Tx) error) error
	// Get returns a row with its body, or nil if it does not exist.
	Get(ctx context.Context, kind Kind, id uuid.UUID) (*Row, error)
	// Find yields the selected rows, each as of some time after the call. The caller may use
	// the backend, including transactions, during the iteration.
	Find(ctx context.Context, q *Query) iter.Seq2[*Row, error]

	// Append stores events. The events of a run are appended in order. They overlap only if a
	// call seemed to fail and its events were appended again, together with later ones.
	Append(ctx context.Context, e *Events) error
	// Events yields the stored events whose Last is greater than after, in the order of First.
	// They are the events of a thread, or of one of its runs if run is not zero.
	Events(ctx context.Context, thread, run uuid.UUID, after uint64) iter.Seq2[*Events, error]
	// DropEvents removes the events of a thread, or of one of its runs if run is not zero.
	DropEvents(ctx context.Context, thread, run uuid.UUID) error
	// TrimEvents removes events appended before a time and returns the number removed. It
	// removes at most limit events; 0 means no limit.
	TrimEvents(ctx context.Context, before time.Time, limit int) (int, error)
}

// A Preloader is a Backend that is faster if it receives in advance the IDs of the rows that a
// transaction reads.
type Preloader interface {
	Backend
	// Preload is like Update, for an fn that is likely to get rows with these IDs in addition
	// to the rows whose ID is lock. An ID may be zero.
	Preload(ctx context.Context, lock uuid.UUID, ids []uuid.UUID, fn func(Tx) error) error
}

// A Counter is a Backend that can count rows without reading them.
type Counter interface {
	Backend
	// Count returns the number of rows that q selects. q has no limit.
	Count(ctx context.Context, q *Query) (int, error)
}

// A Witness is a Backend that can detect the death of a process before its lease expires.
type Witness interface {
	Backend
	// Attend announces that a worker is alive, until ctx ends, or until the process or its
	// database connection ends. It returns after the announcement, and repeats the announcement
	// if the connection breaks.
	Attend(ctx context.Context, worker uuid.UUID) error
	// Gone returns the members of workers that do not attend. It may omit workers while their
	// status is uncertain.
	Gone(ctx context.Context, workers []uuid.UUID) ([]uuid.UUID, error)
}

// Tx is a transaction. It sees the rows as of its start, and its own puts and deletes.
type Tx interface {
	// Now returns the time of the database's clock. It is constant within the transaction.
	Now() time.Time
	// Get returns a row without its body, or nil if it does not exist.
	Get(kind Kind, id uuid.UUID) (*Row, error)
	Find(q *Query) ([]*Row, error)
	// Put inserts r, replacing any row with the same kind and ID. When it replaces a row, it
	// keeps that row's Created and, if r.Body is nil, its Body.
	Put(r *Row) error
	Delete(kind Kind, id uuid.UUID) error
}

// Events holds events of one run that are stored together. Their writer defines the format of
// Data.
type Events struct {
	Thread, Run uuid.UUID
	First, Last uint64 // sequence numbers within the thread
	Data        []byte
}
