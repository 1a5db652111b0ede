package ledger

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	guuid "github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
)

const (
	// eventsPage is the number of events read before the connection is released.
	eventsPage = 64
	// trimPage is the number of events that one statement removes.
	trimPage = 1000
)

// Append implements [ledger.Backend]. If the connection breaks, the events are resent;
// appending is idempotent.
func (b *backend) Append(ctx context.Context, e *ledger.Events) error {
	data := e.Data
	if data == nil {
		data = []byte{}
	}
	_, err := b.db.Repeat(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, b.sql.addEvents, [16]byte(e.Thread), [16]byte(e.Run), int64(e.First), int64(e.Last), data)
		return err
	})
	return err
}

// lastID is the greatest ID.
var lastID = guuid.Max

// Events implements [ledger.Backend]. Overlapping events start with the same number, so
// ordering events by their end also orders them by their start.
func (b *backend) Events(ctx context.Context, thread, run guuid.UUID, after uint64) iter.Seq2[*ledger.Events, error] {
	return func(yield func(*ledger.Events, error) bool) {
		afterRun := lastID
		for {
			var found []*ledger.Events
			err := b.db.Read(ctx, func(c *pgx.Conn) (err error) {
				query, args := b.sql.events, []any{[16]byte(thread), int64(after), [16]byte(afterRun)}
				if run != guuid.Nil {
					query, args = b.sql.eventsOfRun, append(slices.Clip(args), [16]byte(run))
				}
				found, err = eventsOf(ctx, c, thread, query, args)
				return err
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range found {
				if !yield(e, nil) {
					return
				}
				after, afterRun = e.Last, e.Run
			}
			if len(found) < eventsPage {
				return
			}
		}
	}
}

func eventsOf(ctx context.Context, q database.Querier, thread guuid.UUID, query string, args []any) ([]*ledger.Events, error) {
	rows, err := q.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var found []*ledger.Events
	for rows.Next() {
		e := &ledger.Events{Thread: thread}
		var first, last int64
		if err := rows.Scan((*[16]byte)(&e.Run), &first, &last, &e.Data); err != nil {
			return nil, fmt.Errorf("%w: unreadable events of thread %s: %w", database.ErrDamaged, thread, err)
		}
		e.First, e.Last = uint64(first), uint64(last)
		found = append(found, e)
	}
	return found, rows.Err()
}

// DropEvents implements [ledger.Backend].
func (b *backend) DropEvents(ctx context.Context, thread, run guuid.UUID) error {
	_, err := b.db.Repeat(ctx, func(c *pgx.Conn) (err error) {
		if run == guuid.Nil {
			_, err = c.Exec(ctx, b.sql.dropEvents, [16]byte(thread))
		} else {
			_, err = c.Exec(ctx, b.sql.dropRun, [16]byte(thread), [16]byte(run))
		}
		return err
	})
	return err
}

// TrimEvents implements [ledger.Backend]. It removes events in batches to keep
// transactions short. The count may be too small if a connection breaks.
func (b *backend) TrimEvents(ctx context.Context, before time.Time, limit int) (n int, err error) {
	for {
		page := trimPage
		if limit > 0 {
			page = min(page, limit-n)
		}
		var removed int
		_, err := b.db.Repeat(ctx, func(c *pgx.Conn) error {
			tag, err := c.Exec(ctx, b.sql.trim, before.UnixMicro(), page)
			removed = int(tag.RowsAffected())
			return err
		})
		n += removed
		if err != nil || removed < page || n == limit {
			return n, err
		}
	}
}
