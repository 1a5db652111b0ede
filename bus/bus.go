package bus

import (
	"context"
	"errors"
	"iter"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// ErrClosed says that the bus was closed.
var ErrClosed = errors.New("the bus is closed")

// Bus connects the processes of a server. Its methods may be called concurrently.
type Bus interface {
	// Signal tells the listeners of a topic, in all processes, something short. It may be lost and may come twice.
	// It does not wait for the listeners.
	Signal(ctx context.Context, topic string, payload []byte) error
	// Listen calls fn, one call at a time, for each signal of a topic that is sent after Listen has returned,
	// until stop is called. Other processes may learn a little later that the topic is listened to; what they signal until
	// then is lost. No call of fn begins after stop has returned.
	Listen(topic string, fn func(payload []byte)) (stop func(), err error)
	// Log is the log of events, or nil if the ledger is to keep them.
	Log() Log
	Close() error
}

// Log keeps events of threads for a while (10 minutes by default).
type Log interface {
	// Append adds events at the end of their thread's log. The same events again (same thread, run, First and Last) change nothing.
	Append(ctx context.Context, e *ledger.Events) error
	// Read yields the events of a thread whose Last is greater than after: those that are kept, in the order of First, and with
	// live those to come, until ctx ends. Events whose Last is not greater than that of events that were yielded before are left
	// out: they come from a process that has lost its run.
	Read(ctx context.Context, thread uuid.UUID, after uint64, live bool) iter.Seq2[*ledger.Events, error]
	// Drop removes the events of a thread.
	Drop(ctx context.Context, thread uuid.UUID) error
}
