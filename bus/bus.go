package bus

import (
	"context"
	"errors"
	"iter"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// ErrClosed is returned when the bus has been closed.
var ErrClosed = errors.New("bus: closed")

// A Bus connects the processes of a server. It is safe for concurrent use.
type Bus interface {
	// Signal sends a short payload to the listeners of a topic in all processes. It does not
	// wait for the listeners. A signal may be lost or delivered twice.
	Signal(ctx context.Context, topic string, payload []byte) error
	// Listen calls fn for each signal of a topic that is sent after Listen returns, one call at
	// a time, until stop is called. Other processes may learn of a new listener slightly later;
	// signals that they send before then are lost. No call of fn starts after stop has
	// returned.
	Listen(topic string, fn func(payload []byte)) (stop func(), err error)
	// Log returns the log of events, or nil if events must be stored in the ledger.
	Log() Log
	Close() error
}

// A Log stores the events of threads for a limited time (10 minutes by default).
type Log interface {
	// Append adds events to the end of their thread's log. Appending the same events again
	// (same thread, run, First, and Last) has no effect.
	Append(ctx context.Context, e *ledger.Events) error
	// Read yields the events of a thread whose Last is greater than after: the stored events,
	// in the order of First, and if live is set also new events, until ctx ends. It skips
	// events whose Last is not greater than the Last of events already yielded; they come from
	// a process that has lost its run.
	Read(ctx context.Context, thread uuid.UUID, after uint64, live bool) iter.Seq2[*ledger.Events, error]
	// Drop removes the events of a thread.
	Drop(ctx context.Context, thread uuid.UUID) error
}
