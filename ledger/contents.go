package ledger

import (
	"context"

	"github.com/google/uuid"
)

// Contents counts the data of a thread that [Ledger.DeleteThread] deletes with it.
type Contents struct {
	Runs, Spans, Crons, Webhooks, Events int
}

// Contents counts the data of a thread. Events may exist without their thread if a process
// ended while it deleted the thread.
func (l *Ledger) Contents(ctx context.Context, thread uuid.UUID) (Contents, error) {
	var c Contents
	for r, err := range l.b.Find(ctx, &Query{Kind: Runs, Parent: thread}) {
		if err != nil {
			return c, err
		}
		c.Runs++
		for _, err := range l.b.Find(ctx, &Query{Kind: Hooks, Parent: r.ID}) {
			if err != nil {
				return c, err
			}
			c.Webhooks++
		}
	}
	for _, err := range l.b.Find(ctx, &Query{Kind: Crons, Parent: thread}) {
		if err != nil {
			return c, err
		}
		c.Crons++
	}
	for _, err := range l.b.Find(ctx, &Query{Kind: Spans, Parent: thread}) {
		if err != nil {
			return c, err
		}
		c.Spans++
	}
	for e, err := range l.b.Events(ctx, thread, uuid.Nil, 0) {
		if err != nil {
			return c, err
		}
		c.Events += int(e.Last - e.First + 1)
	}
	return c, nil
}
