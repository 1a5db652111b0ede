package ledger

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"
)

// Kind is a kind of rows.
type Kind uint8

// The kinds of rows. The numbers are stored.
const (
	Assistants Kind = 1
	Versions   Kind = 2 // of assistants; their parent
	Threads    Kind = 3
	Runs       Kind = 4 // of threads; their parent
	Crons      Kind = 5
	Hooks      Kind = 6 // webhooks to be sent; their parent is the run
	Workers    Kind = 7 // processes that execute runs
	Wakes      Kind = 8 // threads that go on by themselves; each has the id of its thread
)

// Row is what a backend stores. What Doc and Body hold is the ledger's business; the
// other columns are what rows are found by.
type Row struct {
	Kind    Kind
	ID      uuid.UUID
	Parent  uuid.UUID // zero if it has none
	Worker  uuid.UUID // of a run: the process that executes it; zero if none does
	Open    bool      // of a run: it has not ended; of a thread: it has such a run; of a worker: it attends
	Due     time.Time // when something is to be done with it; zero for never
	Created time.Time // in microseconds, as Due is
	Terms   []uint64  // what a query can select by; in no order, none twice
	Doc     []byte
	Body    []byte // the part that is large and rarely read
}

// Memory is the memory limit of a server, which its caches share.
type Memory interface {
	Limit() int64 // in bytes
}

// A MemorySharer is a Backend whose database keeps what it has read or written in memory, and
// can do so within the limit of a server. A server calls ShareMemory once, before all else.
type MemorySharer interface {
	ShareMemory(m Memory)
}

// Query selects rows of one kind. A row has to fulfil all conditions that are set.
type Query struct {
	Kind   Kind
	Parent uuid.UUID   // with this parent
	Worker uuid.UUID   // with this worker
	Open   bool        // that are open
	DueBy  time.Time   // due at this time or before it
	IDs    []uuid.UUID // with one of these ids; nil means any
	Terms  []uint64    // with all of these terms
	Order  Order
	Limit  int  // at most so many; 0 means all
	Bodies bool // with their Body, which is nil otherwise
}

// Order is the order of the rows of a query. Ties are in the order of ids.
type Order uint8

// The orders.
const (
	NewestFirst Order = iota // by Created, and by id from the greatest down
	OldestFirst
	DueFirst // by Due; rows that are never due are left out
)

// Backend stores the rows and events of a server. All methods may be called
// concurrently. Package ledgertest has the suite that defines one.
type Backend interface {
	// Update calls fn in a transaction. Two transactions with the same lock run
	// one after the other, in the whole of all processes; those with different locks
	// may run at the same time, and may fail with an error of the database
	// if they change the same rows. What fn has put and deleted is committed if it
	// returns nil, and nothing of it otherwise. fn may be called again after a
	// transaction that came to nothing, so it must not change anything else.
	Update(ctx context.Context, lock uuid.UUID, fn func(Tx) error) error
	// Get returns a row with its body, or nil if there is none.
	Get(ctx context.Context, kind Kind, id uuid.UUID) (*Row, error)
	// Find yields rows, each as it is at some moment after the call. The caller may
	// use the backend, transactions included, while it goes through them.
	Find(ctx context.Context, q *Query) iter.Seq2[*Row, error]

	// Append stores events. Those of a run do not overlap, and come in order.
	Append(ctx context.Context, e *Events) error
	// Events yields the stored events of a thread, or of one of its runs if run is
	// not zero, whose Last is greater than after, in the order of First.
	Events(ctx context.Context, thread, run uuid.UUID, after uint64) iter.Seq2[*Events, error]
	// DropEvents removes the events of a thread, or of one of its runs if run is not
	// zero.
	DropEvents(ctx context.Context, thread, run uuid.UUID) error
	// TrimEvents removes events that were appended before a time, at most limit
	// of them if that is not 0, and returns how many it removed.
	TrimEvents(ctx context.Context, before time.Time, limit int) (int, error)
}

// Preloader is a Backend that saves time if it knows which rows a transaction reads.
type Preloader interface {
	Backend
	// Preload is Update for an fn that most likely gets rows with these ids, besides those
	// with the id of the lock. Ids may be zero.
	Preload(ctx context.Context, lock uuid.UUID, ids []uuid.UUID, fn func(Tx) error) error
}

// Counter is a Backend that counts rows faster than they are read.
type Counter interface {
	Backend
	// Count is how many rows a query without a limit selects.
	Count(ctx context.Context, q *Query) (int, error)
}

// Witness is a Backend that notices the end of a process sooner than its lease does.
type Witness interface {
	Backend
	// Attend makes known that a worker lives, until ctx ends or the process or its
	// connection to the database ends. It returns when that is known, and makes it known
	// again if the connection breaks.
	Attend(ctx context.Context, worker uuid.UUID) error
	// Gone returns those of workers that do not attend. It may leave some out while it
	// cannot tell.
	Gone(ctx context.Context, workers []uuid.UUID) ([]uuid.UUID, error)
}

// Tx is a transaction. It sees the rows as they were when it began, and its own puts
// and deletes.
type Tx interface {
	// Now is the time by the database's clock, the same in all of the transaction.
	Now() time.Time
	// Get returns a row without its body, or nil if there is none.
	Get(kind Kind, id uuid.UUID) (*Row, error)
	Find(q *Query) ([]*Row, error)
	// Put inserts a row or replaces the one of its kind and id. A nil Body leaves
	// the body of a row that is replaced as it is. Created stays what it was first.
	Put(r *Row) error
	Delete(kind Kind, id uuid.UUID) error
}

// Events are events of one run that are stored together. What Data holds is the
// writer's business.
type Events struct {
	Thread, Run uuid.UUID
	First, Last uint64 // sequence numbers of the thread
	Data        []byte
}
