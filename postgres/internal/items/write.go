package items

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/store"
)

func unreadable(what string, err error) error {
	return fmt.Errorf("%w: unreadable store %s: %w", database.ErrDamaged, what, err)
}

// A sender is a connection or a transaction.
type sender interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// extend extends the lifetimes of records. The result kept is false if one of them has
// ended.
func (s *Backend) extend(ctx context.Context, to sender, all []refresh) (kept bool, err error) {
	if len(all) == 0 {
		return true, nil
	}
	expires := map[int64]int64{} // a batch may read a record twice
	for _, r := range all {
		expires[r.seq] = r.expires
	}
	seqs := slices.Sorted(maps.Keys(expires))
	times := make([]int64, len(seqs))
	for i, seq := range seqs {
		times[i] = expires[seq]
	}
	// Lock in order to avoid deadlocks.
	done, err := to.Exec(ctx, s.db.In(`WITH held AS (SELECT l.seq FROM {schema}.store_life l WHERE l.seq = ANY ($1) AND l.ended IS NULL ORDER BY l.seq FOR UPDATE)
		UPDATE {schema}.store_life l SET expires = t.expires FROM held, unnest($1::bigint[], $2::bigint[]) AS t(seq, expires) WHERE l.seq = held.seq AND t.seq = held.seq`), seqs, times)
	return err == nil && done.RowsAffected() == int64(len(seqs)), err
}

// stateConflict is the SQLSTATE that store_check raises.
const stateConflict = "TR002"

// writeAll executes the writes of batches, one after another, in one round trip. If to is
// a connection, this is one transaction.
func (s *Backend) writeAll(ctx context.Context, to sender, batches ...*prepared) ([][]*store.Record, error) {
	var calls pgx.Batch
	out := make([][]*store.Record, len(batches))
	for i, p := range batches {
		out[i] = s.queue(&calls, p)
	}
	err := to.SendBatch(ctx, &calls).Close()
	if database.State(err) == stateConflict {
		return nil, conflictError(err, batches[0].batch.Writes) // batches with conditions run alone
	}
	return out, err
}

// queue adds the calls that execute the writes of a batch. The returned records are
// filled in when the calls complete. Checks come before all writes.
func (s *Backend) queue(calls *pgx.Batch, p *prepared) []*store.Record {
	now := p.batch.Now
	for i := range p.batch.Writes {
		if w := &p.batch.Writes[i]; w.If != nil {
			calls.Queue(s.db.In("SELECT {schema}.store_check($1, $2, $3, $4, $5)"), database.Bytea(w.Namespace.Encode()), database.Bytea(w.Key), now.UnixMicro(), *w.If, i)
		}
	}
	records := make([]*store.Record, len(p.batch.Writes))
	for i := range p.batch.Writes {
		w := &p.batch.Writes[i]
		encoded := w.Namespace.Encode()
		if w.Kind == store.Forgotten && w.Key == "" {
			from, to := saved.Span(encoded)
			calls.Queue(s.db.In("SELECT {schema}.store_forget($1, $2)"), from, to)
		}
		x := indexOf(&w.Indexed, p.server)
		kind, at := w.Kind, now
		if w.Times != nil {
			kind, at = store.Put, w.Times.Updated // store_write would not end an item that is not live; queueRestore corrects the kind
		}
		calls.Queue(s.db.In("SELECT {schema}.store_write($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)"),
			database.Bytea(encoded), database.Bytea(w.Key), saved.ItemNumber(kind), at.UnixMicro(), w.TTL.Microseconds(), w.Keep,
			p.stamps[w.Indexed.Stamp], x.words, orNull(w.Indexed.Paths), x.terms, orNull(w.Meta), orNull(w.Value),
			x.tokens, p.doc(w.Value), x.fields, x.data, x.raw,
		).QueryRow(func(row pgx.Row) error {
			var made []int64
			if err := row.Scan(&made); err != nil || made == nil {
				return err
			}
			records[i] = recordOf(w, made[0], fromMicros(made[1]), now)
			return nil
		})
		if w.Times != nil {
			s.queueRestore(calls, w)
		}
	}
	return records
}

// queueRestore sets the original times and kind of the record that store_write has just
// created. The writer holds the store_state row, so the last number is the record's.
func (s *Backend) queueRestore(calls *pgx.Batch, w *store.Write) {
	const last = "(SELECT seq FROM {schema}.store_state)"
	var created int64
	if w.Kind == store.Put {
		created = w.Times.Created.UnixMicro()
	} else {
		calls.Queue(s.db.In("DELETE FROM {schema}.store_item WHERE seq = " + last))
		calls.Queue(s.db.In("INSERT INTO {schema}.store_life (seq, ended) VALUES ("+last+", $1)"), w.Times.Updated.UnixMicro())
	}
	calls.Queue(s.db.In("UPDATE {schema}.store_record SET kind = $1, created = $2 WHERE seq = "+last), saved.ItemNumber(w.Kind), created)
	if w.TTL > 0 {
		calls.Queue(s.db.In("UPDATE {schema}.store_life SET expires = $1 WHERE seq = "+last), w.Times.Expires.UnixMicro())
	}
}

// recordOf returns the record that a write created.
func recordOf(w *store.Write, seq int64, created, now time.Time) *store.Record {
	r := &store.Record{Seq: seq, Kind: w.Kind, Namespace: w.Namespace, Key: w.Key, Updated: now}
	if w.Kind == store.Put {
		r.Created = created
		r.TTL = w.TTL
		r.Value = w.Value
		r.Meta = w.Meta
		r.Paths = w.Indexed.Paths
		if w.TTL > 0 {
			r.Expires = now.Add(w.TTL)
		}
	}
	if t := w.Times; t != nil {
		r.Created, r.Updated, r.Expires = t.Created, t.Updated, t.Expires
	}
	return r
}

func conflictError(err error, writes []store.Write) error {
	var at int
	var have int64
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	if _, scan := fmt.Sscan(e.Detail, &at, &have); scan != nil || at >= len(writes) {
		return err
	}
	w := &writes[at]
	return &store.ConflictError{Namespace: w.Namespace, Key: w.Key, Want: *w.If, Have: have}
}

// orNull returns b as bytes, or nil, which is NULL, if b is empty.
func orNull[B ~[]byte | ~string](b B) []byte {
	if len(b) == 0 {
		return nil
	}
	return []byte(b)
}

// indexColumns holds the columns that searches use to find a record.
type indexColumns struct {
	words  int
	terms  []byte
	tokens [][]byte // NULL if empty
	fields [][]byte
	data   []float32
	raw    [][]byte // NULL if pgvector reads the vectors
}

func indexOf(x *store.Indexed, s *server) indexColumns {
	var c indexColumns
	c.terms, c.words = encodeTerms(x.Terms)
	for _, t := range x.Terms {
		c.tokens = append(c.tokens, []byte(t.Text))
	}
	for _, v := range x.Vectors {
		c.fields = append(c.fields, database.Bytea(v.Field))
		c.data = append(c.data, v.Data...)
		if s.vector == "" {
			c.raw = append(c.raw, rawVector(v.Data))
		}
	}
	return c
}

// sweepPage is the number of records that a sweep processes per transaction, while other
// writers wait.
const sweepPage = 512

// Sweep implements [store.Backend].
func (s *Backend) Sweep(ctx context.Context, sweep store.Sweep) (expired, dropped int, err error) {
	for more := true; more; {
		var done []int
		err = s.db.Write(ctx, func(c *pgx.Conn) error {
			return c.QueryRow(ctx, s.db.In("SELECT {schema}.store_expire($1, $2, $3)"), sweep.Now.UnixMicro(), sweep.Keep, sweepPage).Scan(&done)
		})
		if err != nil {
			return expired, dropped, err
		}
		expired, dropped, more = expired+done[0], dropped+done[1], done[0] == sweepPage
		if done[0] > 0 {
			s.news.Tell()
		}
	}
	if sweep.Before.IsZero() {
		return expired, dropped, nil
	}
	over, err := s.over(ctx, sweep)
	if err != nil {
		return expired, dropped, err
	}
	for page := range slices.Chunk(over, sweepPage) {
		var n int
		err := s.db.Write(ctx, func(c *pgx.Conn) error {
			return c.QueryRow(ctx, s.db.In("SELECT {schema}.store_age($1, $2)"), page, sweep.Before.UnixMicro()).Scan(&n)
		})
		if err != nil {
			return expired, dropped, err
		}
		dropped += n
	}
	return expired, dropped, nil
}

// over returns the records that ended before the sweep's bound. They are all selected
// before any is removed.
func (s *Backend) over(ctx context.Context, sweep store.Sweep) (seqs []int64, err error) {
	err = s.db.Read(ctx, func(c *pgx.Conn) error {
		seqs = nil
		var seq int64
		return database.Each(ctx, c, s.db.In("SELECT seq FROM {schema}.store_life WHERE ended < $1 ORDER BY seq"), []any{sweep.Before.UnixMicro()}, []any{&seq}, func() error {
			seqs = append(seqs, seq)
			return nil
		})
	})
	return seqs, err
}

// Reindex implements [store.Backend].
func (s *Backend) Reindex(ctx context.Context, by map[int64]store.Indexed) error {
	ids := map[string]*int32{}
	for _, x := range by {
		if err := s.stamp(ctx, ids, &x); err != nil {
			return err
		}
	}
	server, err := s.server.get(ctx, s)
	if err != nil {
		return err
	}
	_, err = s.db.Repeat(ctx, func(conn *pgx.Conn) error {
		var batch pgx.Batch // can be sent only once
		batch.Queue(s.db.In(lock))
		for _, seq := range slices.Sorted(maps.Keys(by)) {
			x := by[seq]
			c := indexOf(&x, server)
			batch.Queue(s.db.In("SELECT {schema}.store_reindex($1, $2, $3, $4, $5, $6, $7, $8, $9)"), seq, ids[x.Stamp], c.words, orNull(x.Paths), c.terms, c.tokens, c.fields, c.data, c.raw)
		}
		return conn.SendBatch(ctx, &batch).Close()
	})
	return err
}
