// Package checkpoint stores the state of graphs between steps.
//
// After each step the engine stores one checkpoint: how the channels changed, and
// which nodes run next. A [Saver] stores checkpoints; [NewMemory] returns one that
// keeps them in memory. A saver sees encoded values only. It does not know the
// graph's types, and it never constructs values of types that stored data names.
//
// A thread is a sequence of checkpoints. The head is its newest checkpoint. A put
// names the head that its writer has seen. If another writer has stored a checkpoint
// since, the put fails with [ErrConflict] and nothing is written. So of two writers
// that start from one head, only one succeeds.
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"
)

// Errors of every Saver.
var (
	// ErrNotFound says that there is no such thread or checkpoint.
	ErrNotFound = errors.New("checkpoint: not found")
	// ErrConflict says that the thread's head is not the one that the put named.
	ErrConflict = errors.New("checkpoint: another writer has moved the thread's head")
	// ErrFenced says that the writer's lease on the thread is over; see [Fencer].
	ErrFenced = errors.New("checkpoint: the writer's lease on the thread is over")
	// ErrUnavailable is returned when the database cannot do its work right now: it cannot
	// be reached, its disk is full, or the connection broke before it confirmed a write.
	// The same call may succeed later, or in another process. The error of a full disk
	// also matches [syscall.ENOSPC].
	ErrUnavailable = errors.New("checkpoint: database unavailable")
)

// Source says what made a checkpoint.
type Source string

// The sources of a checkpoint.
const (
	Input  Source = "input"  // a run was given input
	Loop   Source = "loop"   // a super-step ended
	Update Source = "update" // somebody edited the state
	Fork   Source = "fork"   // a run went on from an older checkpoint
)

// Key names a checkpoint. A zero ID means the head of the namespace; the empty
// Namespace is the root graph's.
type Key struct {
	Thread    string
	Namespace string
	ID        ID
}

// A Change is the change of one channel in a step: a new value (Data), or for a list
// the elements that were dropped from its end and appended (Drop and Items), or that
// it was cleared.
type Change struct {
	Channel string
	Version uint64
	Data    []byte   // the new value, if not nil
	Drop    int      // for a list: how many elements were dropped
	Items   [][]byte // for a list: the elements that were appended then
	List    bool     // Drop and Items are used, not Data
	Clear   bool     // the channel is empty now
}

// Put is a checkpoint to be stored.
type Put struct {
	Key             // the new checkpoint
	Parent   ID     // the checkpoint it follows; zero for the first
	Head     ID     // the head that the writer saw; differs from Parent on a fork
	Fence    uint64 // the writer's lease epoch; a stale one is ErrFenced; see [Fencer]
	Step     int    // -1 for the first input
	Source   Source // what made it
	RunID    string
	Metadata json.RawMessage
	Changes  []Change
	Control  []byte  // which nodes run next, in the engine's encoding
	Pending  []Write // the pending writes that the checkpoint starts with
}

// Value is a stored channel: Data, or the elements of a list.
type Value struct {
	Version uint64
	Data    []byte
	Items   [][]byte
	List    bool
}

// A Write is a pending write: the result, error, questions or answers of one task of
// a step that has not ended yet.
type Write struct {
	Task  string // the task's id
	Kind  WriteKind
	Data  []byte
	RunID string // the run that recorded it, if it is known
}

// WriteKind is the kind of a Write. A task has at most one Write of a kind; a later
// one replaces it. A Write of another run is hidden instead, and visible again when
// the later run is deleted: see [RunDeleter].
type WriteKind string

// The kinds of pending writes. Those of kind Done are removed when a checkpoint is
// stored whose parent is theirs; the others stay as history.
const (
	Done    WriteKind = "done"      // the task's result
	Failed  WriteKind = "error"     // the error it ended with
	Paused  WriteKind = "interrupt" // the questions it asked; the checkpoint then counts as interrupted
	Answers WriteKind = "resume"    // the answers to them
)

// Checkpoint is a stored checkpoint, as Get and List return it.
type Checkpoint struct {
	Key
	Parent   ID
	Step     int
	Source   Source
	RunID    string
	Metadata json.RawMessage
	Values   map[string]Value
	Control  []byte
	Pending  []Write
}

// Time returns the time at which the checkpoint was made.
func (c *Checkpoint) Time() time.Time { return c.ID.Time() }

// Query selects checkpoints of one thread.
type Query struct {
	Thread    string
	Namespace string
	Before    ID             // only ids smaller than this
	Limit     int            // 0 means all
	Metadata  map[string]any // only where these top-level keys have these values
}

// A Saver stores the checkpoints of many threads. It must be safe for concurrent use.
type Saver interface {
	// Put stores a checkpoint and makes it the head of its namespace, or stores
	// nothing and fails. The error is ErrConflict if the head is not p.Head or p.ID
	// does not follow it, and ErrNotFound if the parent does not exist. The saver may
	// keep the slices of p, so they must not be changed afterwards.
	Put(ctx context.Context, p *Put) error
	// PutWrites stores writes of tasks that run from the checkpoint at. A write
	// replaces an earlier one of the same task and kind.
	PutWrites(ctx context.Context, at Key, fence uint64, writes []Write) error
	// Get returns a checkpoint, or the head if key.ID is zero, or ErrNotFound. The
	// caller may change the checkpoints that Get and List return.
	Get(ctx context.Context, key Key) (*Checkpoint, error)
	// List yields the checkpoints of a namespace, newest first.
	List(ctx context.Context, q Query) iter.Seq2[*Checkpoint, error]
	// DeleteThread removes a thread with all its namespaces.
	DeleteThread(ctx context.Context, thread string) error
}

// Optional interfaces of savers. All savers of this module implement all but Batcher.
type (
	// A Pruner removes old checkpoints. The head of every namespace stays. The
	// remaining checkpoints do not change.
	Pruner interface {
		Prune(ctx context.Context, thread string, keep Retention) (removed int, err error)
	}
	// A Copier copies a thread: checkpoints, namespaces, pending writes, ids
	// and order. The target must not exist.
	Copier interface {
		CopyThread(ctx context.Context, from, to string) error
	}
	// A RunDeleter removes the given runs from a thread, in all its namespaces: the
	// checkpoints that they made, and the writes that they added to checkpoints of
	// other runs, such as answers. Writes that these had hidden are visible again. If
	// the head of a namespace is removed, its newest remaining checkpoint becomes the
	// head. Copies of the thread are not changed. A thread that does not exist is not
	// an error.
	//
	// If the runs are the last ones of the thread, it is then as it was before them,
	// with one exception: results of tasks (Done) that the runs had consumed are lost.
	// These tasks run again, with the same idempotency keys.
	RunDeleter interface {
		DeleteRuns(ctx context.Context, thread string, runs []string) (removed int, err error)
	}
	// A Sizer returns how many bytes a thread takes.
	Sizer interface {
		Size(ctx context.Context, thread string) (int64, error)
	}
	// A ThreadLister yields all threads, in the order of their names.
	ThreadLister interface {
		Threads(ctx context.Context) iter.Seq2[Thread, error]
	}
	// A Fencer sets the lease epoch of a thread. Puts and writes with an older epoch
	// (their Fence) then fail with ErrFenced, and so do those without one. The new
	// epoch must be greater than the present one, or Fence fails with ErrFenced. A put
	// or write with a greater epoch sets it too.
	Fencer interface {
		Fence(ctx context.Context, thread string, epoch uint64) error
	}
	// A Scrubber makes sure that no file of its database has data that was deleted
	// before, not even in its unused parts. The documentation of a saver says what that
	// includes. If it cannot be done now, because somebody still reads an older state or
	// the right is missing, the error says so; the data stays deleted, and Scrub can be
	// called again.
	Scrubber interface {
		Scrub(ctx context.Context) error
	}
	// A Batcher stores several checkpoints of one namespace in one transaction. Each
	// names the one before as its Head. The result is that of as many calls of Put, but
	// if one fails, none is stored. SQLite's saver implements it.
	Batcher interface {
		PutAll(ctx context.Context, puts []*Put) error
	}
)

// Retention says which checkpoints Prune keeps: those to which at least one of the
// rules applies, and the heads.
type Retention struct {
	KeepLast        int           // the newest n of each namespace
	MaxAge          time.Duration // those younger than this; 0 means none
	KeepInterrupted bool          // those with an open or answered question
}

// Thread describes a thread; see [ThreadLister].
type Thread struct {
	Name        string
	Head        ID // of the root namespace
	Checkpoints int
	Bytes       int64
}

// A Cache stores results of nodes across runs and threads.
type Cache interface {
	// Get returns the value at (space, key) unless it is absent or expired. Get and
	// Set copy the value, so the caller may change it.
	Get(ctx context.Context, space, key string) ([]byte, bool, error)
	// Set stores a value for the given time; 0 means for ever.
	Set(ctx context.Context, space, key string, value []byte, ttl time.Duration) error
	// Clear removes the named spaces, or all if none is named.
	Clear(ctx context.Context, spaces ...string) error
}

// A Cacher is a Saver that also has a cache.
type Cacher interface {
	// Cache returns the same Cache each time.
	Cache() Cache
}
