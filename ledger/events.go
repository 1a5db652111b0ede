package ledger

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"
)

// Append stores events of a run.
func (l *Ledger) Append(ctx context.Context, e *Events) error { return l.b.Append(ctx, e) }

// Events yields the stored events whose Last is greater than after, ordered by sequence number.
// They are the events of a thread, or of one of its runs if run is not zero.
func (l *Ledger) Events(ctx context.Context, thread, run uuid.UUID, after uint64) iter.Seq2[*Events, error] {
	return l.b.Events(ctx, thread, run, after)
}

// DropEvents removes the events of a thread.
func (l *Ledger) DropEvents(ctx context.Context, thread uuid.UUID) error {
	return l.b.DropEvents(ctx, thread, uuid.Nil)
}

// Sweep removes events older than keepEvents, at most limit of them, and the rows of workers
// that ended long ago. It returns the number of removed events and workers.
func (l *Ledger) Sweep(ctx context.Context, keepEvents time.Duration, limit int) (int, error) {
	now, err := l.now(ctx)
	if err != nil {
		return 0, err
	}
	workers, err := l.removeWorkers(ctx, now)
	if err != nil {
		return workers, err
	}
	n, err := l.b.TrimEvents(ctx, now.Add(-keepEvents), limit)
	return workers + n, err
}
