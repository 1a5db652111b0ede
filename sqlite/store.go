package sqlite

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/store"
)

// Store returns a store in the same file, which is closed with it. All stores of a
// file, in this process or others, share their items.
//
// The first search by meaning reads an index into memory, of about 100 bytes per vector;
// the vectors stay in the file, but up to 64 MB of those that were compared are kept in
// memory. Each search adds what other processes have written since. Searches by words
// keep lists of items by word, and the words of the items that they ranked, in memory,
// up to 32 MB each. So the first search for a frequent word takes longer than later
// ones.
func (db *DB) Store(opts *store.Options) (*store.Store, error) { return store.New(db.backend, opts) }

// backend keeps the items of a file's stores.
type backend struct {
	db       *DB
	news     saved.News
	near     nearness
	lists    seqLists
	kept     keptItems
	vectors  keptVectors
	narrowed narrowings
	limits   limits
}

// limits say from when on it is worth to have an index, and what it is worth.
// Tests set them so that a few items are enough.
type limits struct {
	few      int           // up to so many items in scope are looked through for words
	behind   int           // the index of vectors may lack so many, or have so many that are gone
	page     int           // so many are added to it in one go, while searches wait
	quiet    time.Duration // building it may take so long before the log hears of it
	compared int           // a search compares so many of the likely nearest
	rare     int           // up to so many items that pass a filter are looked at one by one
}

var usualLimits = limits{few: 1000, behind: 64, page: 1024, quiet: 2 * time.Second, compared: 400, rare: 1000}

func newBackend(db *DB) *backend {
	return &backend{db: db, near: nearness{busy: make(chan struct{}, 1)}, lists: seqLists{most: listBytes}, kept: keptItems{most: keptBytes}, vectors: keptVectors{byID: saved.Generations[int64, keptVector]{Most: vectorBytes}}, limits: usualLimits}
}

var _ store.Counter = (*backend)(nil)

// Do implements [store.Backend]. Reads that find items whose time is to be
// extended read first and take the write lock only then.
func (s *backend) Do(ctx context.Context, b *store.Batch) (*store.Results, error) {
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
	read := s.db.read
	if len(b.Searches)+len(b.Namespaces) == 0 && b.Until == 0 {
		// How often memories were used is read and written again and again.
		read = s.db.readWarm
		if len(b.Gets) == 1 {
			read = s.db.readOnce
		}
	}
	err = read(ctx, func(c *conn) (err error) {
		l := s.look(ctx, c, b, indexes)
		out, err = l.all()
		refresh = l.refresh
		return err
	})
	if err != nil || len(refresh) == 0 {
		return out, err
	}
	kept := false
	err = s.db.writeKeeping(ctx, func(c *conn) (err error) {
		kept, err = c.refresh(refresh)
		return err
	})
	if err != nil || kept {
		return out, err
	}
	return s.change(ctx, b, indexes) // an item has ended in between: once more, all in one
}

// change does a batch that writes.
func (s *backend) change(ctx context.Context, b *store.Batch, indexes *indexes) (*store.Results, error) {
	var out *store.Results
	indexes.tentative = true
	forgets := slices.ContainsFunc(b.Writes, func(w store.Write) bool { return w.Kind == store.Forgotten })
	err := s.db.eraseKeeping(ctx, func(c *conn) (err error) {
		l := s.look(ctx, c, b, indexes)
		if out, err = l.all(); err != nil {
			return err
		}
		out.Writes, err = s.db.writeAll(c, b, l.refresh)
		return err
	}, func() bool { return forgets })
	if err != nil {
		return nil, err
	}
	s.news.Tell()
	return out, nil
}

// Count implements [store.Counter]. Of a damaged namespace it counts what is found.
func (s *backend) Count(ctx context.Context, prefix store.Namespace) (items, changes int, err error) {
	from, to := saved.Span(prefix.Encode())
	err = s.db.read(ctx, func(c *conn) error {
		_, err := c.row(`SELECT count(*), coalesce(sum(n),0) FROM (SELECT count(*) AS n FROM store_record
			WHERE space IN (SELECT id FROM store_space WHERE name>=? AND name<?) AND key<>x'' GROUP BY space, key)`, []any{from, to}, &items, &changes)
		return err
	})
	return items, changes, err
}

// History implements [store.Backend].
func (s *backend) History(ctx context.Context, n store.Namespace, key string) (records []*store.Record, err error) {
	err = s.db.read(ctx, func(c *conn) (err error) {
		records, err = c.records(getFrom+" ORDER BY r.seq DESC", []byte(key), []byte(n.Encode()))
		if err == nil && len(records) == 0 {
			err = c.noItem(n, key)
		}
		return err
	})
	return records, err
}

// Changes implements [store.Backend]. There is one writer at a time, so records
// become visible in the order of their numbers.
func (s *backend) Changes(ctx context.Context, prefix store.Namespace, after int64, limit int) (records []*store.Record, seq int64, err error) {
	name := prefix.Encode()
	from, to := saved.Span(name)
	err = s.db.read(ctx, func(c *conn) (err error) {
		if seq, err = c.lastSeq(); err != nil || limit == 0 {
			return err
		}
		if err := c.knows(name); err != nil {
			return err
		}
		_, compacted, err := c.storeState()
		if err != nil {
			return err
		}
		if after > 0 && after < compacted {
			return store.ErrCompacted
		}
		records, err = c.records("SELECT "+recordColumns+" FROM store_record r LEFT JOIN store_space s ON s.id=r.space LEFT JOIN store_life l ON l.seq=r.seq"+
			` WHERE r.seq>? AND (s.id IS NULL OR typeof(s.name)<>'blob' OR s.name>=? AND s.name<? OR r.key=x'' AND substr(?,1,length(s.name))=s.name)
			ORDER BY r.seq LIMIT ?+0`, after, from, to, []byte(name), limit)
		if len(records) == limit {
			seq = records[limit-1].Seq
		}
		return err
	})
	return records, seq, err
}

// knows says whether a namespace is missing that should be there.
func (c *conn) knows(name string) error {
	_, err := c.spaceID(name)
	return err
}

// lastSeq is the greatest number that a record has ever had.
func (c *conn) lastSeq() (seq int64, err error) {
	var last int64
	_, err = c.row("SELECT (SELECT seq FROM sqlite_sequence WHERE name='store_record'), (SELECT max(seq) FROM store_record)", nil, &seq, &last)
	if err == nil && last > seq {
		err = fmt.Errorf("%w: the store has a record %d, and has given out numbers up to %d", ErrDamaged, last, seq)
	}
	return seq, err
}

// pollEvery is how often somebody who waits looks for what other processes have
// written. A look takes some microseconds.
const pollEvery = 50 * time.Millisecond

// Wait implements [store.Backend].
func (s *backend) Wait(ctx context.Context, seq int64) error {
	var poll *time.Timer
	for {
		told := s.news.Next()
		var last int64
		err := s.db.read(ctx, func(c *conn) (err error) {
			last, err = c.lastSeq()
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
		case <-s.db.closing:
			return ErrClosed
		case <-told:
		case <-poll.C:
		}
	}
}

// Stale implements [store.Backend].
func (s *backend) Stale(ctx context.Context, stamp string, after int64, limit int) (records []*store.Record, err error) {
	err = s.db.read(ctx, func(c *conn) (err error) {
		records, err = c.records("SELECT "+recordColumns+" FROM "+recordTables+
			` WHERE r.seq IN (SELECT seq FROM store_record WHERE stamp IN (SELECT id FROM store_stamp WHERE text<>?) AND seq>? ORDER BY seq LIMIT ?+0)
			ORDER BY r.seq`, []byte(stamp), after, limit)
		return err
	})
	return records, err
}
