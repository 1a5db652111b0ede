package ledger

import (
	"context"
	"math"
	"time"
)

// Queue describes the load of a server.
type Queue struct {
	Pending, Running int
	// Wait is the time since the oldest run that a worker could start became due. Runs that wait
	// for another run of their thread do not count. Zero means that no run is waiting.
	Wait time.Duration
}

// Queue counts the open runs and determines the longest wait.
func (l *Ledger) Queue(ctx context.Context) (*Queue, error) {
	now, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	q, err := l.openRuns(ctx)
	if err != nil {
		return nil, err
	}
	for _, first := range append(l.temporaries(), &Query{Kind: Threads, Open: true}) {
		first.DueBy, first.Order, first.Limit = now, DueFirst, 1
		for r, err := range l.b.Find(ctx, first) {
			if err != nil {
				return nil, err
			}
			q.Wait = max(q.Wait, now.Sub(r.Due))
		}
	}
	return q, nil
}

// openRuns counts the open runs. Only pending runs have a due time.
func (l *Ledger) openRuns(ctx context.Context) (*Queue, error) {
	q := &Queue{}
	all := &Query{Kind: Runs, Open: true}
	if c, ok := l.b.(Counter); ok {
		open, err := c.Count(ctx, all)
		if err != nil {
			return nil, err
		}
		all.DueBy = time.UnixMicro(math.MaxInt64)
		q.Pending, err = c.Count(ctx, all)
		q.Running = max(open-q.Pending, 0)
		return q, err
	}
	for r, err := range l.b.Find(ctx, all) {
		switch {
		case err != nil:
			return nil, err
		case r.Due.IsZero():
			q.Running++
		default:
			q.Pending++
		}
	}
	return q, nil
}
