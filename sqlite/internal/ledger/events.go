package ledger

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// Append implements [ledger.Backend].
func (b *Backend) Append(ctx context.Context, e *ledger.Events) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	data := e.Data
	if data == nil {
		data = []byte{}
	}
	return b.db.WriteKeeping(ctx, func(c *database.Conn) error {
		_, err := c.Change("INSERT INTO server_event(thread,run,first,last,created,data,sum) VALUES(?,?,?,?,?,?,?)",
			e.Thread[:], e.Run[:], int64(e.First), int64(e.Last), time.Now().UnixMicro(), data, eventSum(e))
		return err
	})
}

func eventSum(e *ledger.Events) int64 {
	return saved.Sum(24).Bytes(e.Thread[:]).Bytes(e.Run[:]).Int(int64(e.First)).Int(int64(e.Last)).Bytes(e.Data).Value()
}

// Events implements [ledger.Backend]. Overlapping events start with the same number, so
// ordering events by their end also orders them by their start.
func (b *Backend) Events(ctx context.Context, thread, run uuid.UUID, after uint64) iter.Seq2[*ledger.Events, error] {
	return func(yield func(*ledger.Events, error) bool) {
		if err := b.ready(ctx); err != nil {
			yield(nil, err)
			return
		}
		query, args := "SELECT thread, run, first, last, data, sum FROM server_event INDEXED BY server_event_thread WHERE thread=?", []any{thread[:]}
		if run != uuid.Nil {
			query, args = query+" AND run=?", append(args, run[:])
		}
		query += " AND last>? ORDER BY last LIMIT ?+0"
		for {
			var found []*ledger.Events
			err := b.db.ReadOnce(ctx, func(c *database.Conn) error {
				found = nil
				return c.Each(query, append(slices.Clip(args), int64(after), int64(bodiesPage)), func(scan func(...any) error) error {
					e, err := scanEvents(scan)
					found = append(found, e)
					return err
				})
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range found {
				if !yield(e, nil) {
					return
				}
				after = e.Last
			}
			if len(found) < bodiesPage {
				return
			}
		}
	}
}

func scanEvents(scan func(...any) error) (*ledger.Events, error) {
	e := &ledger.Events{}
	var thread, run []byte
	var sum int64
	if err := scan(&thread, &run, &e.First, &e.Last, &e.Data, &sum); err != nil {
		return nil, err
	}
	if !copyID(&e.Thread, thread) || !copyID(&e.Run, run) || sum != eventSum(e) {
		return nil, database.Changed("events %d to %d of thread %x", e.First, e.Last, thread)
	}
	return e, nil
}

// DropEvents implements [ledger.Backend].
func (b *Backend) DropEvents(ctx context.Context, thread, run uuid.UUID) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	var n int64
	return b.db.EraseKeeping(ctx, func(c *database.Conn) (err error) {
		if run == uuid.Nil {
			n, err = c.Change("DELETE FROM server_event WHERE thread=?", thread[:])
		} else {
			n, err = c.Change("DELETE FROM server_event WHERE thread=? AND run=?", thread[:], run[:])
		}
		return err
	}, func() bool { return n > 0 })
}

// TrimEvents implements [ledger.Backend].
func (b *Backend) TrimEvents(ctx context.Context, before time.Time, limit int) (int, error) {
	if err := b.ready(ctx); err != nil {
		return 0, err
	}
	if limit <= 0 {
		limit = -1 // no limit
	}
	var n int64
	err := b.db.WriteKeeping(ctx, func(c *database.Conn) (err error) {
		n, err = c.Change("DELETE FROM server_event WHERE seq IN (SELECT seq FROM server_event WHERE created<? ORDER BY created LIMIT ?+0)", before.UnixMicro(), limit)
		return err
	})
	return int(n), err
}
