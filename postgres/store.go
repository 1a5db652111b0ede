package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/store"
)

// Store returns a store in the same schema. It is closed with the DB. All stores of a
// schema, in this process or others, share their items.
//
// If the database has the pgvector extension (0.8 or later), semantic search uses it.
// Otherwise, the first semantic search among more than a few thousand items reads all
// vectors and builds an in-memory index of about 100 bytes per vector; the vectors
// themselves stay in the database. Each search adds the vectors that other processes have
// written since. The Logger receives one message about the index.
//
// Keyword search caches up to 32 MB: the item numbers for words that occur in 2,000 items
// or more.
//
// Writes to a store commit one after another, so watchers miss no change.
func (db *DB) Store(opts *store.Options) (*store.Store, error) { return store.New(&db.backend, opts) }

// A backend stores the items of a schema's stores.
type backend struct {
	db       *DB
	together together
	news     saved.News
	stamps   stamps
	server   facts
	near     nearness
	lists    keptLists
	few      *int // replaces fewVectors in tests
}

var _ store.Counter = (*backend)(nil)

// in inserts the schema into a statement.
func (s *backend) in(query string) string { return strings.ReplaceAll(query, "{schema}", s.db.quoted) }

// lock locks the row that all writers update.
const lock = "SELECT FROM {schema}.store_state FOR UPDATE"

// Do implements [store.Backend]. Reads that extend the lifetime of items read first, then
// write in a separate transaction.
func (s *backend) Do(ctx context.Context, b *store.Batch) (*store.Results, error) {
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
	err = s.db.read(ctx, func(c *pgx.Conn) error {
		return snapshot(ctx, c, b, func(q querier) (err error) {
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
	_, err = s.db.repeat(ctx, func(c *pgx.Conn) (err error) {
		kept, err = s.extend(ctx, c, refresh)
		return err
	})
	if err != nil || kept {
		return out, err
	}
	return s.change(ctx, p) // an item has expired in between: repeat everything in one transaction
}

// snapshot calls do so that all its reads see one snapshot.
func snapshot(ctx context.Context, c *pgx.Conn, b *store.Batch, do func(querier) error) error {
	if len(b.Gets) == 1 && len(b.Searches)+len(b.Namespaces) == 0 && b.Until == 0 {
		return do(c) // a single statement
	}
	return frozen(ctx, c, do)
}

// frozen calls do in a read-only transaction that sees one snapshot.
func frozen(ctx context.Context, c *pgx.Conn, do func(querier) error) error {
	return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error { return do(tx) })
}

// change executes a batch that writes.
func (s *backend) change(ctx context.Context, p *prepared) (out *store.Results, err error) {
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
func (s *backend) changeAfterReads(ctx context.Context, p *prepared) (out *store.Results, err error) {
	err = s.db.write(ctx, func(c *pgx.Conn) error {
		return inTx(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, s.in(lock)); err != nil {
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
func (s *backend) Count(ctx context.Context, prefix store.Namespace) (items, changes int, err error) {
	from, to := saved.Span(prefix.Encode())
	err = s.db.read(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, s.in(`SELECT count(*), coalesce(sum(n), 0)::bigint FROM (SELECT count(*) AS n FROM {schema}.store_record
			WHERE name >= $1 AND name < $2 AND octet_length(key) > 0 GROUP BY name, key) AS items`), from, to).Scan(&items, &changes)
	})
	return items, changes, err
}

// History implements [store.Backend].
func (s *backend) History(ctx context.Context, n store.Namespace, key string) (all []*store.Record, err error) {
	err = s.db.read(ctx, func(c *pgx.Conn) (err error) {
		all, err = records(ctx, c, s.in(getFrom+" ORDER BY r.seq DESC"), name(n.Encode()), name(key))
		return err
	})
	return all, err
}

// Changes implements [store.Backend]. Records become visible in the order of their
// numbers, so no record up to the last visible number is missing.
func (s *backend) Changes(ctx context.Context, prefix store.Namespace, after int64, limit int) (all []*store.Record, seq int64, err error) {
	encoded := prefix.Encode()
	from, to := saved.Span(encoded)
	err = s.db.read(ctx, func(c *pgx.Conn) error {
		all = nil
		return frozen(ctx, c, func(q querier) (err error) {
			var compacted int64
			if err := q.QueryRow(ctx, s.in("SELECT seq, compacted FROM {schema}.store_state")).Scan(&seq, &compacted); err != nil || limit == 0 {
				return err
			}
			if after > 0 && after < compacted {
				return store.ErrCompacted
			}
			all, err = records(ctx, q, s.in("SELECT "+recordColumns+" FROM "+recordTables+
				` WHERE r.seq > $1 AND (r.name >= $2 AND r.name < $3 OR octet_length(r.key) = 0 AND substring($4::bytea, 1, octet_length(r.name)) = r.name)
				ORDER BY r.seq LIMIT $5`), after, from, to, name(encoded), limit)
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
func (s *backend) Wait(ctx context.Context, seq int64) error {
	every := pollFirst
	poll := time.NewTimer(every)
	defer poll.Stop()
	for {
		told := s.news.Next()
		var last int64
		err := s.db.read(ctx, func(c *pgx.Conn) error {
			return c.QueryRow(ctx, s.in("SELECT seq FROM {schema}.store_state")).Scan(&last)
		})
		if err != nil || last > seq {
			return err
		}
		poll.Reset(every)
		every = min(2*every, pollLast)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.db.closing:
			return ErrClosed
		case <-told:
		case <-poll.C:
		}
	}
}

// Stale implements [store.Backend].
func (s *backend) Stale(ctx context.Context, stamp string, after int64, limit int) (all []*store.Record, err error) {
	err = s.db.read(ctx, func(c *pgx.Conn) (err error) {
		all, err = records(ctx, c, s.in("SELECT "+recordColumns+" FROM "+recordTables+
			` WHERE r.stamp IN (SELECT id FROM {schema}.store_stamp WHERE text <> $1) AND r.seq > $2 ORDER BY r.seq LIMIT $3`), name(stamp), after, limit)
		return err
	})
	return all, err
}
