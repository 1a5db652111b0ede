package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/postgres/internal/database"
)

// Reading a checkpoint takes two queries, and no connection is held between them. The
// first reads the checkpoint's row and its pending writes in one snapshot, and the second
// reads the chunks, which never change. If chunks are missing, the checkpoint has been
// removed, and the first query runs again.

// A row is a line and one of its checkpoints.
type row struct {
	line  head // without run and manifest
	found bool
	cp    stored
	have  saved.Chains // chunks that were read with the row
}

// A stored is a checkpoint's row.
type stored struct {
	id       checkpoint.ID
	run      run
	m        *manifest
	control  []byte
	echo     []byte // replaces the control
	metadata []byte
	pending  []checkpoint.Write
}

// columns holds the columns of stored as scanned.
type columns struct {
	id               pgtype.UUID
	run              *int64
	runName, runMeta []byte
	base             *int64
	record           []byte
	control, echo    []byte
	metadata         []byte
	task, kind, data [][]byte
}

func (c *columns) dest() []any {
	return []any{&c.id, &c.run, &c.runName, &c.runMeta, &c.base, &c.record, &c.control, &c.echo, &c.metadata, &c.task, &c.kind, &c.data}
}

// stored converts the columns to a row. The chunk of the row's base must be in have.
func (c *columns) stored(have saved.Chains) (s stored, err error) {
	s.id = c.id.Bytes
	s.control = c.control
	s.echo = c.echo
	s.metadata = c.metadata
	if c.run != nil {
		s.run = run{id: *c.run, name: string(c.runName), metadata: c.runMeta, known: true}
		if c.runName == nil {
			return s, fmt.Errorf("%w: missing run %d of checkpoint %s", ErrDamaged, *c.run, s.id)
		}
	}
	if s.metadata == nil {
		s.metadata = bytes.Clone(s.run.metadata)
	}
	for i := range c.task {
		s.pending = append(s.pending, saved.ParseWrite(string(c.task[i]), c.kind[i], c.data[i]))
	}
	s.pending = saved.Latest(s.pending)
	var on *base
	if c.base != nil {
		if len(have[*c.base]) == 0 {
			return s, fmt.Errorf("%w: base of checkpoint %s", errMissing, s.id)
		}
		if on, err = parseBase(*c.base, have[*c.base][0]); err != nil {
			return s, err
		}
	}
	s.m, err = parseManifest(c.record, s.id, on)
	return s, err
}

// need adds the chunks that the row refers to.
func (s *stored) need(want map[int64]int64) error {
	s.m.need(want)
	return needEcho(s.echo, want)
}

func needEcho(echo []byte, want map[int64]int64) error {
	if echo == nil {
		return nil
	}
	at, _, err := echoed(echo)
	want[at.Chain] = max(want[at.Chain], at.Hi)
	return err
}

// readRow reads a line and one of its checkpoints: the head if key has no ID. Anything
// missing is zero.
func (db *DB) readRow(ctx context.Context, key checkpoint.Key) (*row, error) {
	var thread, epoch, line, rev, next *int64
	var headID pgtype.UUID
	var cols columns
	var baseData []byte
	err := db.conn.Read(ctx, func(c *pgx.Conn) error {
		dest := append([]any{&thread, &epoch, &line, &headID, &rev, &next}, cols.dest()...)
		return c.QueryRow(ctx, db.sql.read, database.Bytea(key.Thread), database.Bytea(key.Namespace), uuidOr(key.ID)).Scan(append(dest, &baseData)...)
	})
	r := &row{have: saved.Chains{}}
	if err != nil || thread == nil {
		return r, err
	}
	r.line.thread, r.line.epoch = *thread, uint64(*epoch)
	if line == nil {
		return r, nil
	}
	r.line.line = *line
	r.line.id = headID.Bytes
	r.line.rev = uint64(*rev)
	r.line.next = *next
	if !cols.id.Valid {
		return r, nil
	}
	r.found = true
	if baseData != nil {
		one, ok := saved.ParseChunk(baseData)
		if !ok {
			return r, fmt.Errorf("%w: unreadable chain %d", ErrDamaged, *cols.base)
		}
		r.have[*cols.base] = []saved.Chunk{one}
	}
	if r.cp, err = cols.stored(r.have); err != nil {
		return r, damaged(cols.id.Bytes, err)
	}
	return r, nil
}

// Get implements [checkpoint.Saver].
func (db *DB) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	for try := 1; ; try++ {
		r, err := db.readRow(ctx, key)
		if err != nil {
			return nil, err
		}
		if !r.found {
			if err := db.complete(ctx, key.Thread, r.line.line); err != nil {
				return nil, err
			}
			return nil, saved.NotFound(key)
		}
		want := map[int64]int64{}
		if err := r.cp.need(want); err != nil {
			return nil, err
		}
		err = db.fetch(ctx, r.line.line, want, r.have)
		if errors.Is(err, errMissing) && try < database.Tries {
			continue
		}
		if err != nil {
			return nil, damaged(r.cp.id, err)
		}
		cp, names, err := db.checkpoint(ctx, checkpoint.Key{Thread: key.Thread, Namespace: key.Namespace}, &r.cp, r.have, false)
		if err != nil {
			return nil, err
		}
		if r.cp.id == r.line.id {
			// A caller that reads the head will most likely put its next checkpoint after
			// it.
			h := r.line
			h.run, h.names, h.m = r.cp.run, names, r.cp.m
			if worthEcho(r.cp.control) {
				h.control = bytes.Clone(r.cp.control)
			}
			db.known.heads.Set(lineName{key.Thread, key.Namespace}, &h, h.size())
		}
		return cp, nil
	}
}

// complete returns ErrDamaged if checkpoints of a line are missing: the line's row
// records their number and the latest. A missing line is complete.
func (db *DB) complete(ctx context.Context, thread string, line int64) error {
	if line == 0 {
		return nil
	}
	var want, have int64
	var head bool
	err := db.conn.Read(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, db.sql.tally, line).Scan(&want, &have, &head)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil // the line was deleted
	case err != nil:
		return err
	case want != have || !head:
		return fmt.Errorf("%w: thread %q has %d of %d checkpoints (head present: %v)", ErrDamaged, thread, have, want, head)
	}
	return nil
}

// damaged adds ErrDamaged to a missing-chunk error that has persisted.
func damaged(id checkpoint.ID, err error) error {
	if errors.Is(err, errMissing) {
		return fmt.Errorf("%w: checkpoint %s: %w", ErrDamaged, id, err)
	}
	return err
}

// checkpoint builds a checkpoint from a row and its chunks.
func (db *DB) checkpoint(ctx context.Context, key checkpoint.Key, s *stored, have saved.Chains, own bool) (*checkpoint.Checkpoint, []string, error) {
	cp := &checkpoint.Checkpoint{
		Key:      key,
		Parent:   s.m.Parent,
		Step:     s.m.Step,
		Source:   s.m.Source,
		RunID:    s.run.name,
		Control:  s.control,
		Metadata: s.metadata,
		Pending:  s.pending,
		Values:   make(map[string]checkpoint.Value, len(s.m.slots)),
	}
	cp.ID = s.id
	if s.echo != nil {
		var err error
		if cp.Control, err = controlOf(s.echo, have); err != nil {
			return nil, nil, fmt.Errorf("control of checkpoint %s in thread %q: %w", s.id, key.Thread, err)
		}
	}
	names, err := db.namesOf(ctx, s.m.Shape)
	if err != nil {
		return nil, nil, err
	}
	if len(names) != len(s.m.slots) {
		return nil, nil, fmt.Errorf("%w: checkpoint %s has %d channels, its shape %d", ErrDamaged, s.id, len(s.m.slots), len(names))
	}
	for i := range s.m.slots {
		slot := &s.m.slots[i]
		if slot.Kind == saved.None {
			continue
		}
		// Small values are part of the manifest, which may be cached.
		v, err := have.Value(slot, own || slot.Kind == saved.Small)
		if err != nil {
			return nil, nil, fmt.Errorf("channel %q of checkpoint %s in thread %q: %w: %w", names[i], s.id, key.Thread, ErrDamaged, err)
		}
		cp.Values[names[i]] = v
	}
	return cp, names, nil
}

const (
	// The first page of a list is small, because the caller may need no more. Later pages
	// grow.
	firstPage = 16
	lastPage  = 256
	// scanPage is the number of rows examined per query when filtering by metadata.
	scanPage = 256
)

// List implements [checkpoint.Saver]. It does not hold a connection between pages.
func (db *DB) List(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	return func(yield func(*checkpoint.Checkpoint, error) bool) {
		want, err := saved.NewFilter(q.Metadata)
		if err != nil {
			yield(nil, err)
			return
		}
		l := &listing{db: db, key: checkpoint.Key{Thread: q.Thread, Namespace: q.Namespace}, want: want, before: q.Before, have: saved.Chains{}}
		if found, err := l.find(ctx); err != nil || !found {
			if err != nil {
				yield(nil, err)
			}
			return
		}
		left := q.Limit
		for size := firstPage; !l.done; size = min(2*size, lastPage) {
			if q.Limit > 0 {
				size = min(size, left)
			}
			page, err := l.page(ctx, size)
			for i := range page {
				cp, _, e := db.checkpoint(ctx, l.key, &page[i], l.have, true)
				if e != nil {
					yield(nil, e)
					return
				}
				if !yield(cp, nil) {
					return
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			l.seen += len(page)
			left -= len(page)
			if q.Limit > 0 && left <= 0 {
				return
			}
		}
		// A caller that reads to the end gets an error if checkpoints are missing. The
		// check is a separate query, so concurrent puts and removals do not affect it.
		if len(want) > 0 || !q.Before.IsZero() || int64(l.seen) != l.count {
			if err := db.complete(ctx, q.Thread, l.line); err != nil {
				yield(nil, err)
			}
		}
	}
}

// A listing is a list operation in progress.
type listing struct {
	db           *DB
	key          checkpoint.Key
	want         saved.Filter
	thread, line int64
	before       checkpoint.ID // upper bound of the next page
	done         bool          // there is no next page
	count        int64         // total number of checkpoints
	seen         int           // number of checkpoints read so far
	have         saved.Chains  // shared, because older checkpoints use the same chunks as newer ones
}

func (l *listing) find(ctx context.Context) (bool, error) {
	err := l.db.conn.Read(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, l.db.sql.line, database.Bytea(l.key.Thread), database.Bytea(l.key.Namespace)).Scan(&l.thread, &l.line, &l.count)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// end returns the upper bound of the next page. The default is the greatest UUID, which
// is never generated as an ID.
func (l *listing) end() pgtype.UUID {
	if l.before.IsZero() {
		return pgtype.UUID{Bytes: [16]byte(bytes.Repeat([]byte{0xff}, 16)), Valid: true}
	}
	return uuid(l.before)
}

// page reads up to size checkpoints and the chunks they refer to.
func (l *listing) page(ctx context.Context, size int) ([]stored, error) {
	for try := 1; ; try++ {
		before, done := l.before, l.done
		page, err := l.rows(ctx, size)
		switch {
		case err == nil:
			return page, nil
		case !errors.Is(err, errMissing):
			return nil, err
		case try == database.Tries:
			return nil, fmt.Errorf("%w: list of thread %q: %w", ErrDamaged, l.key.Thread, err)
		}
		l.before, l.done = before, done
	}
}

func (l *listing) rows(ctx context.Context, size int) (page []stored, err error) {
	if len(l.want) == 0 {
		page, err = l.query(ctx, l.db.sql.listRange, l.end(), size)
		if err != nil {
			return nil, err
		}
		l.done = len(page) < size
		if len(page) > 0 {
			l.before = page[len(page)-1].id
		}
		return page, nil
	}
	ids, err := l.matching(ctx, size)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	return l.query(ctx, l.db.sql.listIDs, ids)
}

func (l *listing) query(ctx context.Context, query string, args ...any) ([]stored, error) {
	var all []columns
	bases := map[int64]int64{}
	err := l.db.conn.Read(ctx, func(c *pgx.Conn) error {
		all = all[:0]
		rows, err := c.Query(ctx, query, append([]any{l.line, l.thread}, args...)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var cols columns
			if err := rows.Scan(cols.dest()...); err != nil {
				return err
			}
			all = append(all, cols)
			if cols.base != nil {
				bases[*cols.base] = 0
			}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	if err := l.db.fetch(ctx, l.line, bases, l.have); err != nil {
		return nil, err
	}
	page, want := make([]stored, len(all)), map[int64]int64{}
	for i := range all {
		if page[i], err = all[i].stored(l.have); err != nil {
			return nil, err
		}
		if err := page[i].need(want); err != nil {
			return nil, err
		}
	}
	return page, l.db.fetch(ctx, l.line, want, l.have)
}

// matching scans the metadata for up to size matching IDs.
func (l *listing) matching(ctx context.Context, size int) (ids []pgtype.UUID, err error) {
	for len(ids) < size && !l.done {
		type found struct {
			id       pgtype.UUID
			metadata []byte
		}
		var page []found
		err := l.db.conn.Read(ctx, func(c *pgx.Conn) error {
			page = page[:0]
			rows, err := c.Query(ctx, l.db.sql.metadata, l.line, l.thread, l.end(), scanPage)
			if err != nil {
				return err
			}
			var f found
			_, err = pgx.ForEachRow(rows, []any{&f.id, &f.metadata}, func() error {
				page = append(page, f)
				f.metadata = nil
				return nil
			})
			return err
		})
		if err != nil {
			return nil, err
		}
		l.done = len(page) < scanPage
		for i, f := range page {
			l.before = f.id.Bytes
			if l.want.Matches(f.metadata) {
				if ids = append(ids, f.id); len(ids) == size {
					l.done = l.done && i == len(page)-1
					break
				}
			}
		}
	}
	return ids, nil
}
