// Package checkpoint stores what a graph knows between super-steps.
//
// After each super-step the engine puts one checkpoint: which channels changed
// and how, and what is to run next. A [Saver] keeps them; [NewMemory] is the
// one that lives in the process. A saver sees encoded values only, so it needs
// no knowledge of the graph's types and constructs nothing from stored names.
//
// A thread is a line of checkpoints with one head. Put names the head it saw;
// if another writer has moved it meanwhile, the put is refused with
// [ErrConflict] and nothing is written, so two writers can never both win.
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
	// ErrNotFound: there is no such thread or checkpoint.
	ErrNotFound = errors.New("checkpoint: not found")
	// ErrConflict: the thread's head is not the one the put named.
	ErrConflict = errors.New("checkpoint: another writer has moved the thread's head")
	// ErrFenced: the writer's lease on the thread is over; another has it now.
	ErrFenced = errors.New("checkpoint: the writer's lease on the thread is over")
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

// A Change is what a step did to one channel: it has a new value (Data), or its
// list lost Drop elements at the end and gained Items, or it was cleared.
type Change struct {
	Channel string
	Version uint64
	Data    []byte   // the new value, if not nil
	Drop    int      // for a list: how many elements went
	Items   [][]byte // for a list: what came after them
	List    bool     // Drop and Items count
	Clear   bool     // the channel is empty now
}

// Put is one super-step to be stored.
type Put struct {
	Key             // the new checkpoint
	Parent   ID     // the checkpoint it follows; zero for the first
	Head     ID     // the head the writer saw; differs from Parent on a fork
	Fence    uint64 // the writer's lease epoch; a stale one is ErrFenced; see [Fencer]
	Step     int    // -1 for the first input
	Source   Source // what made it
	RunID    string
	Metadata json.RawMessage
	Changes  []Change
	Control  []byte  // what is to run next; the engine's own encoding
	Pending  []Write // the pending writes that the checkpoint starts with
}

// Value is a stored channel: Data, or the elements of a list.
type Value struct {
	Version uint64
	Data    []byte
	Items   [][]byte
	List    bool
}

// A Write is the recorded result of one finished task of a step that did not
// complete, or what became of it otherwise.
type Write struct {
	Task  string // the task's id
	Kind  WriteKind
	Data  []byte
	RunID string // the run that recorded it, if it is known
}

// WriteKind says what a Write holds. One task has at most one Write of a kind; a
// later one replaces it. One that another run recorded it hides: see
// [RunDeleter].
type WriteKind string

// The kinds of pending writes. Those of kind Done are consumed by the next
// checkpoint that has theirs as its parent; the others stay as history.
const (
	Done    WriteKind = "done"      // the task's result
	Failed  WriteKind = "error"     // the error it ended with
	Paused  WriteKind = "interrupt" // the questions it asked; marks its checkpoint as interrupted
	Answers WriteKind = "resume"    // the answers it was given
)

// Checkpoint is what Get and List return.
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

// Time is when the checkpoint was made.
func (c *Checkpoint) Time() time.Time { return c.ID.Time() }

// Query selects checkpoints of one thread.
type Query struct {
	Thread    string
	Namespace string
	Before    ID             // only ids smaller than this
	Limit     int            // 0: all
	Metadata  map[string]any // only where these top-level keys have these values
}

// A Saver keeps the checkpoints of many threads. All methods may be called
// concurrently.
type Saver interface {
	// Put stores a checkpoint and moves the head of its namespace to it, or
	// stores nothing and fails: with ErrConflict if the head is not p.Head or
	// p.ID does not follow it, with ErrNotFound if the parent is not there. The
	// saver may keep the bytes that p holds, so they must not change any more.
	Put(ctx context.Context, p *Put) error
	// PutWrites records what became of tasks that ran from the checkpoint at.
	// A write replaces an earlier one of the same task and kind.
	PutWrites(ctx context.Context, at Key, fence uint64, writes []Write) error
	// Get returns a checkpoint, or the head if key.ID is zero, or ErrNotFound.
	// What Get and List return is the caller's own.
	Get(ctx context.Context, key Key) (*Checkpoint, error)
	// List yields the checkpoints of a namespace, newest first.
	List(ctx context.Context, q Query) iter.Seq2[*Checkpoint, error]
	// DeleteThread removes a thread with all its namespaces.
	DeleteThread(ctx context.Context, thread string) error
}

// What only some savers can do. Those of this module can do all of it.
type (
	// A Pruner removes old checkpoints. The head of every namespace stays, and
	// what stays is not changed by as much as a byte.
	Pruner interface {
		Prune(ctx context.Context, thread string, keep Retention) (removed int, err error)
	}
	// A Copier copies a thread: checkpoints, namespaces, pending writes, ids
	// and order. The target must not exist.
	Copier interface {
		CopyThread(ctx context.Context, from, to string) error
	}
	// A RunDeleter removes what the given runs did to a thread, in all its
	// namespaces: the checkpoints that they made, and what they recorded beside
	// checkpoints of other runs, such as answers. What such a write had hidden
	// shows again. A namespace whose head goes is left with its newest remaining
	// checkpoint as head. Copies of the thread, which have the same runs, stay as
	// they are. A thread that is not there has no runs.
	//
	// If these are the last runs of the thread, it is as it was before them, but
	// for results of tasks (Done) that they consumed: those tasks run again, with
	// the same idempotency keys.
	RunDeleter interface {
		DeleteRuns(ctx context.Context, thread string, runs []string) (removed int, err error)
	}
	// A Sizer knows how many bytes a thread takes.
	Sizer interface {
		Size(ctx context.Context, thread string) (int64, error)
	}
	// A ThreadLister yields the threads there are, by name.
	ThreadLister interface {
		Threads(ctx context.Context) iter.Seq2[Thread, error]
	}
	// A Fencer moves a thread's lease epoch forward, so that a writer with an
	// older one is refused. epoch must be greater than the present one, else
	// ErrFenced. A put or write with a newer fence moves it too. On a thread
	// that was fenced, a put without a fence is ErrFenced.
	Fencer interface {
		Fence(ctx context.Context, thread string, epoch uint64) error
	}
)

// Retention says what Prune keeps: a checkpoint stays if any of its rules
// holds. The zero Retention keeps the heads alone.
type Retention struct {
	KeepLast        int           // the newest n of each namespace
	MaxAge          time.Duration // those younger than this; 0: no rule
	KeepInterrupted bool          // those with an open or answered question
}

// Thread describes a thread to a ThreadLister's caller.
type Thread struct {
	Name        string
	Head        ID // of the root namespace
	Checkpoints int
	Bytes       int64
}

// A Cache keeps results of nodes across runs and threads.
type Cache interface {
	// Get returns the value at (space, key) unless it is absent or expired. It
	// is the caller's own, as Set's is the cache's: both are copied.
	Get(ctx context.Context, space, key string) ([]byte, bool, error)
	// Set stores a value; ttl 0 keeps it for ever.
	Set(ctx context.Context, space, key string, value []byte, ttl time.Duration) error
	// Clear forgets the named spaces, or everything if none is named.
	Clear(ctx context.Context, spaces ...string) error
}

// A Cacher is a Saver that can keep a cache as well.
type Cacher interface {
	// Cache returns the same Cache each time.
	Cache() Cache
}
