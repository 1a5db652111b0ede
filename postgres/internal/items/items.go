// Package items stores the items of stores in a Postgres schema. It implements
// [store.Backend], whose suite is package storetest.
package items

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/store"
)

// A Backend stores the items of a schema's stores.
type Backend struct {
	db       *database.DB
	together together
	news     saved.News
	stamps   stamps
	server   facts
	near     nearness
	lists    keptLists
	few      *int // replaces fewVectors in tests
}

var _ store.Counter = (*Backend)(nil)

// New returns a backend for the schema of db.
func New(db *database.DB) *Backend { return &Backend{db: db} }

// lock locks the row that all writers update.
const lock = "SELECT FROM {schema}.store_state FOR UPDATE"

// Do implements [store.Backend]. Reads that extend the lifetime of items read first, then
// write in a separate transaction.
func (s *Backend) Do(ctx context.Context, b *store.Batch) (*store.Results, error) {
	p, err := s.prepare(ctx, b)
	if err != nil {
		return nil, err
	}
	release, err := s.hold(ctx, p)
	if err != nil {
		return nil, err
	}
	defer release()
	if len(b.Writes) > 0 {
		return s.change(ctx, p)
	}
	var out *store.Results
	var refresh []refresh
	err = s.db.Read(ctx, func(c *pgx.Conn) error {
		return consistently(ctx, c, b, func(q database.Querier) (err error) {
			l := newLook(ctx, q, p)
			out, err = l.all()
			refresh = l.refresh
			return err
		})
	})
	if err != nil || len(refresh) == 0 {
		return out, err
	}
	kept := false
	_, err = s.db.Repeat(ctx, func(c *pgx.Conn) (err error) {
		kept, err = s.extend(ctx, c, refresh)
		return err
	})
	if err != nil || kept {
		return out, err
	}
	return s.change(ctx, p) // an item has expired in between: repeat everything in one transaction
}

// consistently calls do so that all its reads see one snapshot.
func consistently(ctx context.Context, c *pgx.Conn, b *store.Batch, do func(database.Querier) error) error {
	if len(b.Gets) == 1 && len(b.Searches)+len(b.Namespaces) == 0 && b.Until == 0 {
		return do(c) // a single statement
	}
	return database.Snapshot(ctx, c, do)
}

// change executes a batch that writes.
func (s *Backend) change(ctx context.Context, p *prepared) (out *store.Results, err error) {
	switch {
	case p.reads():
		out, err = s.changeAfterReads(ctx, p)
	case p.conditional():
		out = &store.Results{}
		out.Writes, err = s.writeAlone(ctx, p)
	default:
		out = &store.Results{}
		out.Writes, err = s.together.write(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	s.news.Tell()
	return out, nil
}

// changeAfterReads executes a batch whose reads must see the state that its writes
// change.
func (s *Backend) changeAfterReads(ctx context.Context, p *prepared) (out *store.Results, err error) {
	err = s.db.Write(ctx, func(c *pgx.Conn) error {
		return database.InTx(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, s.db.In(lock)); err != nil {
				return err
			}
			l := newLook(ctx, tx, p)
			if out, err = l.all(); err != nil {
				return err
			}
			if _, err := s.extend(ctx, tx, l.refresh); err != nil {
				return err
			}
			records, err := s.writeAll(ctx, tx, p)
			if err == nil {
				out.Writes = records[0]
			}
			return err
		})
	})
	return out, err
}

// Count implements [store.Counter].
func (s *Backend) Count(ctx context.Context, prefix store.Namespace) (items, changes int, err error) {
	from, to := saved.Span(prefix.Encode())
	err = s.db.Read(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, s.db.In(`SELECT count(*), coalesce(sum(n), 0)::bigint FROM (SELECT count(*) AS n FROM {schema}.store_record
			WHERE name >= $1 AND name < $2 AND octet_length(key) > 0 GROUP BY name, key) AS items`), from, to).Scan(&items, &changes)
	})
	return items, changes, err
}

// History implements [store.Backend].
func (s *Backend) History(ctx context.Context, n store.Namespace, key string) (all []*store.Record, err error) {
	err = s.db.Read(ctx, func(c *pgx.Conn) (err error) {
		all, err = records(ctx, c, s.db.In(getFrom+" ORDER BY r.seq DESC"), database.Bytea(n.Encode()), database.Bytea(key))
		return err
	})
	return all, err
}

// Changes implements [store.Backend]. Records become visible in the order of their
// numbers, so no record up to the last visible number is missing.
func (s *Backend) Changes(ctx context.Context, prefix store.Namespace, after int64, limit int) (all []*store.Record, seq int64, err error) {
	encoded := prefix.Encode()
	from, to := saved.Span(encoded)
	err = s.db.Read(ctx, func(c *pgx.Conn) error {
		all = nil
		return database.Snapshot(ctx, c, func(q database.Querier) (err error) {
			var compacted int64
			if err := q.QueryRow(ctx, s.db.In("SELECT seq, compacted FROM {schema}.store_state")).Scan(&seq, &compacted); err != nil || limit == 0 {
				return err
			}
			if after > 0 && after < compacted {
				return store.ErrCompacted
			}
			all, err = records(ctx, q, s.db.In("SELECT "+recordColumns+" FROM "+recordTables+
				` WHERE r.seq > $1 AND (r.name >= $2 AND r.name < $3 OR octet_length(r.key) = 0 AND substring($4::bytea, 1, octet_length(r.name)) = r.name)
				ORDER BY r.seq LIMIT $5`), after, from, to, database.Bytea(encoded), limit)
			return err
		})
	})
	if err != nil {
		return nil, 0, err
	}
	if limit > 0 && len(all) == limit {
		seq = all[limit-1].Seq
	}
	return all, seq, nil
}

const (
	// Waiters poll for writes by other processes, first after pollFirst and then at
	// growing intervals up to pollLast.
	pollFirst = 20 * time.Millisecond
	pollLast  = 500 * time.Millisecond
)

// Wait implements [store.Backend].
func (s *Backend) Wait(ctx context.Context, seq int64) error {
	every := pollFirst
	poll := time.NewTimer(every)
	defer poll.Stop()
	for {
		told := s.news.Next()
		var last int64
		err := s.db.Read(ctx, func(c *pgx.Conn) error {
			return c.QueryRow(ctx, s.db.In("SELECT seq FROM {schema}.store_state")).Scan(&last)
		})
		if err != nil || last > seq {
			return err
		}
		poll.Reset(every)
		every = min(2*every, pollLast)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.db.Done():
			return database.ErrClosed
		case <-told:
		case <-poll.C:
		}
	}
}

// Stale implements [store.Backend].
func (s *Backend) Stale(ctx context.Context, stamp string, after int64, limit int) (all []*store.Record, err error) {
	err = s.db.Read(ctx, func(c *pgx.Conn) (err error) {
		all, err = records(ctx, c, s.db.In("SELECT "+recordColumns+" FROM "+recordTables+
			` WHERE r.stamp IN (SELECT id FROM {schema}.store_stamp WHERE text <> $1) AND r.seq > $2 ORDER BY r.seq LIMIT $3`), database.Bytea(stamp), after, limit)
		return err
	})
	return all, err
}

// Stamps implements [store.Backend].
func (s *Backend) Stamps(ctx context.Context) (stamps []string, err error) {
	err = s.db.Read(ctx, func(c *pgx.Conn) error {
		stamps = nil
		var text []byte
		return database.Each(ctx, c, s.db.In("SELECT t.text FROM {schema}.store_stamp t WHERE EXISTS (SELECT 1 FROM {schema}.store_record r WHERE r.stamp = t.id)"),
			nil, []any{&text}, func() error {
				stamps = append(stamps, string(text))
				return nil
			})
	})
	return stamps, err
}
