package ledger

import (
	"context"
	"math"
	"time"
)

// Queue is how much work a server has.
type Queue struct {
	Pending, Running int
	// Wait is how long the first run has been due that a worker could begin: one that
	// waits for another run of its thread does not count. Zero if there is none.
	Wait time.Duration
}

// Queue counts the open runs.
func (l *Ledger) Queue(ctx context.Context) (*Queue, error) {
	now, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	open, err := l.count(ctx, &Query{Kind: Runs, Open: true})
	if err != nil {
		return nil, err
	}
	// Pending runs have a due time, others have none.
	pending, err := l.count(ctx, &Query{Kind: Runs, Open: true, DueBy: time.UnixMicro(math.MaxInt64)})
	if err != nil {
		return nil, err
	}
	q := &Queue{Pending: pending, Running: max(open-pending, 0)}
	for _, first := range []*Query{
		{Kind: Threads, Open: true, DueBy: now, Order: DueFirst, Limit: 1},
		{Kind: Runs, Parent: temporaryRuns, DueBy: now, Order: DueFirst, Limit: 1},
	} {
		for r, err := range l.b.Find(ctx, first) {
			if err != nil {
				return nil, err
			}
			q.Wait = max(q.Wait, now.Sub(r.Due))
		}
	}
	return q, nil
}

// count is how many rows a query selects.
func (l *Ledger) count(ctx context.Context, q *Query) (n int, err error) {
	if c, ok := l.b.(Counter); ok {
		return c.Count(ctx, q)
	}
	for _, err := range l.b.Find(ctx, q) {
		if err != nil {
			return 0, err
		}
		n++
	}
	return n, nil
}
