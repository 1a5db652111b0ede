// Package checkpoint defines how the state of a graph is saved between steps.
//
// After each step, the engine saves one checkpoint, which records the changed channels
// and the nodes that run next. A [Saver] saves checkpoints; [NewMemory] returns a saver
// that keeps them in memory. A saver sees only encoded values. It does not depend on the
// graph's types, and it never constructs values of types named in stored data.
//
// A thread is a sequence of checkpoints, and its newest checkpoint is the head. Each put
// names the head that its writer has seen. If another writer has saved a checkpoint
// since then, the put fails with [ErrConflict] and writes nothing. Of two writers that
// start from the same head, only one succeeds.
package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"
)

// Errors returned by every Saver.
var (
	// ErrNotFound is returned when the thread or checkpoint does not exist.
	ErrNotFound = errors.New("checkpoint: not found")
	// ErrConflict is returned when the thread's head is not the head that the put
	// names.
	ErrConflict = errors.New("checkpoint: thread head moved by another writer")
	// ErrFenced is returned when the writer's lease on the thread has expired; see
	// [Fencer].
	ErrFenced = errors.New("checkpoint: writer's lease on the thread has expired")
	// ErrUnavailable is returned when the database is temporarily unable to serve the
	// call: it is unreachable, its disk is full, or the connection broke before it
	// confirmed a write. The same call may succeed later, or in another process. The
	// error for a full disk also matches [syscall.ENOSPC].
	ErrUnavailable = errors.New("checkpoint: database unavailable")
)

// Source identifies the operation that created a checkpoint.
type Source string

// The sources of a checkpoint.
const (
	Input  Source = "input"  // a run received input
	Loop   Source = "loop"   // a step ended
	Update Source = "update" // the state was edited
	Fork   Source = "fork"   // a run continued from an older checkpoint
)

// Key identifies a checkpoint. A zero ID means the head of the namespace; the empty
// Namespace belongs to the root graph.
type Key struct {
	Thread    string
	Namespace string
	ID        ID
}

// A Change describes how a step changed one channel: a new value (Data), elements
// dropped from the end of a list and then appended (Drop and Items), or a cleared
// channel (Clear).
type Change struct {
	Channel string
	Version uint64
	Data    []byte   // the new value, if not nil
	Drop    int      // for a list: the number of elements dropped
	Items   [][]byte // for a list: the elements then appended
	List    bool     // Drop and Items apply instead of Data
	Clear   bool     // the channel is now empty
}

// Put is a checkpoint to save.
type Put struct {
	Key             // the new checkpoint
	Parent   ID     // the preceding checkpoint; zero for the first
	Head     ID     // the head that the writer saw; differs from Parent on a fork
	Fence    uint64 // the writer's lease epoch; Put returns ErrFenced if it is stale; see [Fencer]
	Step     int    // -1 for the first input
	Source   Source // the operation that created it
	RunID    string
	Metadata json.RawMessage
	Changes  []Change
	Control  []byte  // which nodes run next, in the engine's encoding
	Pending  []Write // the pending writes that the checkpoint starts with
}

// Value is the saved value of a channel: Data, or the elements of a list.
type Value struct {
	Version uint64
	Data    []byte
	Items   [][]byte
	List    bool
}

// A Write is a pending write: the result, error, interrupts, or answers of one task of
// an unfinished step.
type Write struct {
	Task  string // the task's ID
	Kind  WriteKind
	Data  []byte
	RunID string // the run that recorded it, if known
}

// WriteKind is the kind of a Write. A task has at most one Write of each kind; a later
// one replaces it. If the earlier Write belongs to another run, it is hidden instead,
// and becomes visible again when the later run is deleted; see [RunDeleter].
type WriteKind string

// The kinds of pending writes. Writes of kind Done are removed when a child of their
// checkpoint is saved; the others remain as history.
const (
	Done    WriteKind = "done"      // the task's result
	Failed  WriteKind = "error"     // the error that ended the task
	Paused  WriteKind = "interrupt" // the task's interrupts; the checkpoint then counts as interrupted
	Answers WriteKind = "resume"    // the answers to the interrupts
)

// Checkpoint is a saved checkpoint, as returned by Get and List.
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

// Time returns the time when the checkpoint was created.
func (c *Checkpoint) Time() time.Time { return c.ID.Time() }

// Query selects checkpoints of one thread.
type Query struct {
	Thread    string
	Namespace string
	Before    ID  // only smaller IDs
	Limit     int // 0 means all
	// Metadata selects the checkpoints whose metadata contains these top-level keys and
	// values, compared as JSON. If a value cannot be encoded as JSON, List yields an error
	// that names its key.
	Metadata map[string]any
}

// A Saver saves the checkpoints of many threads. It must be safe for concurrent use.
type Saver interface {
	// Put saves a checkpoint and makes it the head of its namespace. It returns
	// ErrConflict if the head is not p.Head or p.ID does not follow it, and ErrNotFound
	// if the parent does not exist. If Put fails, it saves nothing. The saver may keep
	// the slices of p, so the caller must not modify them afterward.
	Put(ctx context.Context, p *Put) error
	// PutWrites saves pending writes of tasks that run from the checkpoint at. A write
	// replaces an earlier write of the same task and kind.
	PutWrites(ctx context.Context, at Key, fence uint64, writes []Write) error
	// Get returns a checkpoint, or the head if key.ID is zero. It returns ErrNotFound
	// if the checkpoint does not exist. The caller may modify the checkpoints that Get
	// and List return.
	Get(ctx context.Context, key Key) (*Checkpoint, error)
	// List yields the checkpoints of a namespace, newest first.
	List(ctx context.Context, q Query) iter.Seq2[*Checkpoint, error]
	// DeleteThread deletes a thread and all its namespaces.
	DeleteThread(ctx context.Context, thread string) error
}

// Optional interfaces of savers. Every saver in this module implements all of them
// except Batcher.
type (
	// A Pruner removes old checkpoints. It keeps the head of every namespace and leaves
	// the remaining checkpoints unchanged. It returns ErrNotFound if the thread does
	// not exist.
	Pruner interface {
		Prune(ctx context.Context, thread string, keep Retention) (removed int, err error)
	}
	// A Copier copies a thread with its checkpoints, namespaces, and pending writes,
	// preserving IDs and order. It returns ErrNotFound if the source does not exist,
	// and ErrConflict if the target exists or is the source.
	Copier interface {
		CopyThread(ctx context.Context, from, to string) error
	}
	// A RunDeleter removes the given runs from a thread, in all its namespaces: the
	// checkpoints that the runs created, and the writes, such as answers, that they
	// added to checkpoints of other runs. Writes hidden by the removed writes become
	// visible again. If the head of a namespace is removed, its newest remaining
	// checkpoint becomes the head. Copies of the thread are not changed. Deleting runs
	// of a missing thread is not an error.
	//
	// If the runs are the last ones of the thread, DeleteRuns restores the thread's
	// state from before the runs, with one exception: task results (Done) that the runs
	// consumed are lost. These tasks run again, with the same idempotency keys.
	RunDeleter interface {
		DeleteRuns(ctx context.Context, thread string, runs []string) (removed int, err error)
	}
	// A Sizer returns the size of a thread in bytes, or ErrNotFound if the thread does
	// not exist. Data that several checkpoints share counts once.
	Sizer interface {
		Size(ctx context.Context, thread string) (int64, error)
	}
	// A ThreadLister yields all threads, ordered by name.
	ThreadLister interface {
		Threads(ctx context.Context) iter.Seq2[Thread, error]
	}
	// A Fencer sets the lease epoch of a thread. Puts and writes with an older epoch in
	// their Fence, or with none, then fail with ErrFenced. Fence returns ErrFenced
	// unless epoch exceeds the current epoch. A put or write with a greater epoch also
	// sets it, unless it fails. Fence can precede the first put of a thread.
	Fencer interface {
		Fence(ctx context.Context, thread string, epoch uint64) error
	}
	// A Scrubber ensures that the database files no longer contain previously deleted
	// data, even in their unused parts. The documentation of each saver describes what
	// that covers. Scrub returns an error if it cannot finish now, for example because
	// a reader still uses an older state or a privilege is missing. The data then
	// remains deleted, and Scrub can be called again.
	Scrubber interface {
		Scrub(ctx context.Context) error
	}
	// A Batcher saves several checkpoints of one namespace in one transaction. The Head
	// of each put is the ID of the put before it. PutAll is equivalent to calling Put
	// for each, but if one fails, none is saved. The SQLite saver implements it.
	Batcher interface {
		PutAll(ctx context.Context, puts []*Put) error
	}
)

// Retention selects the checkpoints that Prune keeps: the heads, and every checkpoint
// that matches at least one rule.
type Retention struct {
	KeepLast        int           // the newest n checkpoints of each namespace
	MaxAge          time.Duration // checkpoints younger than this; 0 means none
	KeepInterrupted bool          // checkpoints with a pending or answered interrupt
}

// Thread describes a thread; see [ThreadLister].
type Thread struct {
	Name        string
	Head        ID // of the root namespace
	Checkpoints int
	Bytes       int64
}

// A Cache stores node results across runs and threads.
type Cache interface {
	// Get returns the value at (space, key) and reports whether it exists and has not
	// expired. Get and Set copy the value, so the caller may modify it.
	Get(ctx context.Context, space, key string) ([]byte, bool, error)
	// Set stores a value for the given time; 0 means forever.
	Set(ctx context.Context, space, key string, value []byte, ttl time.Duration) error
	// Clear removes the named spaces, or all spaces if none is named.
	Clear(ctx context.Context, spaces ...string) error
}

// A Cacher is a Saver that also provides a cache.
type Cacher interface {
	// Cache returns the same Cache each time.
	Cache() Cache
}
