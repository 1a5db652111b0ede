// Package items stores the items of stores in an SQLite file. It implements
// [store.Backend], whose suite is package storetest.
package items

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/store"
)

// A Backend stores the items of a file's stores.
type Backend struct {
	db       *database.DB
	news     saved.News
	near     nearness
	lists    seqLists
	kept     keptItems
	vectors  keptVectors
	fields   keptFields
	narrowed narrowings
	limits   limits
	stamps   saved.Memo[string, int64] // IDs of stamps, for the holder of the writer's connection
}

// limits contains the thresholds for using indexes. Tests lower them so that a few items
// suffice.
type limits struct {
	few      int           // maximum number of items in scope that are scanned for words
	behind   int           // maximum number of vectors that the vector index may lack, or contain although they were removed
	page     int           // number of vectors added to the index at a time, while searches wait
	quiet    time.Duration // time after which building the index is logged
	compared int           // number of candidates that a search compares
	rare     int           // maximum number of items passing a filter that are examined one by one
}

var usualLimits = limits{few: 1000, behind: 64, page: 1024, quiet: 2 * time.Second, compared: 400, rare: 1000}

// New returns a backend for the stores in db.
func New(db *database.DB) *Backend {
	return &Backend{
		db:      db,
		near:    nearness{busy: make(chan struct{}, 1)},
		lists:   seqLists{most: listBytes},
		kept:    keptItems{most: keptBytes},
		vectors: keptVectors{byID: saved.Generations[int64, keptVector]{Most: vectorBytes}},
		fields:  keptFields{most: fieldBytes},
		limits:  usualLimits,
	}
}

var _ store.Counter = (*Backend)(nil)

// Forget clears the caches that a rollback may have made invalid.
func (s *Backend) Forget() { s.stamps.Clear() }

// Do implements [store.Backend]. Reads that extend the lifetime of items read first, then
// take the write lock.
func (s *Backend) Do(ctx context.Context, b *store.Batch) (*store.Results, error) {
	indexes, err := s.hold(ctx, b)
	if err != nil {
		return nil, err
	}
	defer indexes.release()
	if len(b.Writes) > 0 {
		return s.change(ctx, b, indexes)
	}
	var out *store.Results
	var refresh []refresh
	read := s.db.Read
	if len(b.Searches)+len(b.Namespaces) == 0 && b.Until == 0 {
		// Usage counts of memories are read and written repeatedly.
		read = s.db.ReadWarm
		if len(b.Gets) == 1 {
			read = s.db.ReadOnce
		}
	}
	err = read(ctx, func(c *database.Conn) (err error) {
		l := s.look(ctx, c, b, indexes)
		out, err = l.all()
		refresh = l.refresh
		return err
	})
	if err != nil || len(refresh) == 0 {
		return out, err
	}
	kept := false
	err = s.db.WriteKeeping(ctx, func(c *database.Conn) (err error) {
		kept, err = extend(c, refresh)
		return err
	})
	if err != nil || kept {
		return out, err
	}
	return s.change(ctx, b, indexes) // an item has expired in between: repeat everything in one transaction
}

// change executes a batch that writes.
func (s *Backend) change(ctx context.Context, b *store.Batch, indexes *indexes) (*store.Results, error) {
	var out *store.Results
	indexes.tentative = true
	forgets := slices.ContainsFunc(b.Writes, func(w store.Write) bool { return w.Kind == store.Forgotten })
	err := s.db.EraseKeeping(ctx, func(c *database.Conn) (err error) {
		l := s.look(ctx, c, b, indexes)
		if out, err = l.all(); err != nil {
			return err
		}
		out.Writes, err = s.writeAll(c, b, l.refresh)
		return err
	}, func() bool { return forgets })
	if err != nil {
		return nil, err
	}
	s.news.Tell()
	return out, nil
}

// Count implements [store.Counter]. In a damaged namespace, it counts only the rows that
// can be found.
func (s *Backend) Count(ctx context.Context, prefix store.Namespace) (items, changes int, err error) {
	from, to := saved.Span(prefix.Encode())
	err = s.db.Read(ctx, func(c *database.Conn) error {
		_, err := c.Row(`SELECT count(*), coalesce(sum(n),0) FROM (SELECT count(*) AS n FROM store_record
			WHERE space IN (SELECT id FROM store_space WHERE name>=? AND name<?) AND key<>x'' GROUP BY space, key)`, []any{from, to}, &items, &changes)
		return err
	})
	return items, changes, err
}

// History implements [store.Backend].
func (s *Backend) History(ctx context.Context, n store.Namespace, key string) (records []*store.Record, err error) {
	err = s.db.Read(ctx, func(c *database.Conn) (err error) {
		records, err = readRecords(c, getFrom+" ORDER BY r.seq DESC", []byte(key), []byte(n.Encode()))
		if err == nil && len(records) == 0 {
			err = noItem(c, n, key)
		}
		return err
	})
	return records, err
}

// Changes implements [store.Backend]. There is one writer at a time, so records become
// visible in the order of their numbers.
func (s *Backend) Changes(ctx context.Context, prefix store.Namespace, after int64, limit int) (records []*store.Record, seq int64, err error) {
	name := prefix.Encode()
	from, to := saved.Span(name)
	err = s.db.Read(ctx, func(c *database.Conn) (err error) {
		if seq, err = lastSeq(c); err != nil || limit == 0 {
			return err
		}
		if err := knows(c, name); err != nil {
			return err
		}
		_, compacted, err := storeState(c)
		if err != nil {
			return err
		}
		if after > 0 && after < compacted {
			return store.ErrCompacted
		}
		records, err = readRecords(c, "SELECT "+recordColumns+" FROM store_record r LEFT JOIN store_space s ON s.id=r.space LEFT JOIN store_life l ON l.seq=r.seq"+
			` WHERE r.seq>? AND (s.id IS NULL OR typeof(s.name)<>'blob' OR s.name>=? AND s.name<? OR r.key=x'' AND substr(?,1,length(s.name))=s.name)
			ORDER BY r.seq LIMIT ?+0`, after, from, to, []byte(name), limit)
		if len(records) == limit {
			seq = records[limit-1].Seq
		}
		return err
	})
	return records, seq, err
}

// knows returns an error if a namespace that should exist is missing.
func knows(c *database.Conn, name string) error {
	_, err := spaceID(c, name)
	return err
}

// lastSeq returns the greatest number ever assigned to a record.
func lastSeq(c *database.Conn) (seq int64, err error) {
	var last int64
	_, err = c.Row("SELECT (SELECT seq FROM sqlite_sequence WHERE name='store_record'), (SELECT max(seq) FROM store_record)", nil, &seq, &last)
	if err == nil && last > seq {
		err = fmt.Errorf("%w: store record %d exceeds the last assigned number %d", database.ErrDamaged, last, seq)
	}
	return seq, err
}

// pollEvery is the interval at which a waiter polls for writes by other processes.
// Polling takes a few microseconds.
const pollEvery = 50 * time.Millisecond

// Wait implements [store.Backend].
func (s *Backend) Wait(ctx context.Context, seq int64) error {
	var poll *time.Timer
	for {
		told := s.news.Next()
		var last int64
		err := s.db.Read(ctx, func(c *database.Conn) (err error) {
			last, err = lastSeq(c)
			return err
		})
		if err != nil || last > seq {
			return err
		}
		if poll == nil {
			poll = time.NewTimer(pollEvery)
			defer poll.Stop()
		} else {
			poll.Reset(pollEvery)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.db.Closing:
			return database.ErrClosed
		case <-told:
		case <-poll.C:
		}
	}
}

// Stale implements [store.Backend].
func (s *Backend) Stale(ctx context.Context, stamp string, after int64, limit int) (records []*store.Record, err error) {
	err = s.db.Read(ctx, func(c *database.Conn) (err error) {
		records, err = readRecords(c, "SELECT "+recordColumns+" FROM "+recordTables+
			` WHERE r.seq IN (SELECT seq FROM store_record WHERE stamp IN (SELECT id FROM store_stamp WHERE text<>?) AND seq>? ORDER BY seq LIMIT ?+0)
			ORDER BY r.seq`, []byte(stamp), after, limit)
		return err
	})
	return records, err
}

// Stamps implements [store.Backend].
func (s *Backend) Stamps(ctx context.Context) (stamps []string, err error) {
	err = s.db.Read(ctx, func(c *database.Conn) error {
		stamps = nil
		return c.Each("SELECT text FROM store_stamp t WHERE EXISTS (SELECT 1 FROM store_record WHERE stamp=t.id)", nil, func(scan func(...any) error) error {
			var text []byte
			err := scan(&text)
			stamps = append(stamps, string(text))
			return err
		})
	})
	return stamps, err
}
