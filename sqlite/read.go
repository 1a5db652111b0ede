package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// Get implements [checkpoint.Saver].
func (db *DB) Get(ctx context.Context, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	var cp *checkpoint.Checkpoint
	err := db.conn.ReadWarmOnce(ctx, func(c *database.Conn) (err error) { // a single statement: see withThread
		if cp, err = db.getKept(ctx, c, key); cp != nil || err != nil {
			return err
		}
		return withThread(c, key.Thread, func(thread int64, epoch uint64) (err error) {
			if thread == 0 && c.Writes {
				db.known.absent.Set(key.Thread, db.sight(c))
			}
			cp, err = db.get(ctx, c, thread, epoch, key)
			return err
		})
	})
	if err != nil {
		return nil, inThread(key.Thread, err)
	}
	return cp, nil
}

// get is like Get, but for a thread whose row has been read and is still open: see
// withThread.
func (db *DB) get(ctx context.Context, c *database.Conn, thread int64, epoch uint64, key checkpoint.Key) (*checkpoint.Checkpoint, error) {
	h, err := loadLine(c, thread, epoch, key.Namespace)
	if err != nil {
		return nil, err
	}
	id := key.ID
	if id.IsZero() {
		id = h.id
	}
	r, err := find(c, h, id)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, saved.NotFound(key)
	}
	return db.reading(c, h, key.Thread, key.Namespace).checkpoint(ctx, r)
}

// A reading builds checkpoints from the rows of one line, in one transaction.
type reading struct {
	db     *DB
	c      *database.Conn
	h      *head
	key    checkpoint.Key
	loader *loader
	runs   map[int64]run
	kept   bool // the cached head is current
}

func (db *DB) reading(c *database.Conn, h *head, thread, namespace string) *reading {
	return &reading{
		db:     db,
		c:      c,
		h:      h,
		key:    checkpoint.Key{Thread: thread, Namespace: namespace},
		loader: newLoader(c, h.line),
		runs:   map[int64]run{},
	}
}

// run reads each run once; its metadata is shared.
func (rd *reading) run(number int64) (run, error) {
	if r, ok := rd.runs[number]; ok {
		return r, nil
	}
	r, err := runRow(rd.c, rd.h.line, number)
	rd.runs[number] = r
	return r, err
}

// metadata returns the metadata of a row or, if shared, of its run.
func (rd *reading) metadata(r *stored) (json.RawMessage, error) {
	if !r.m.shared {
		return r.m.metadata, nil
	}
	of, err := rd.run(r.run)
	return bytes.Clone(of.metadata), err
}

// checkpoint builds the checkpoint of a row, reading everything the row refers to.
func (rd *reading) checkpoint(ctx context.Context, r *stored) (*checkpoint.Checkpoint, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	of, err := rd.run(r.run)
	if err != nil {
		return nil, err
	}
	cp := &checkpoint.Checkpoint{
		Key:     rd.key,
		Parent:  r.m.Parent,
		Step:    r.m.Step,
		Source:  r.m.Source,
		RunID:   of.name,
		Control: r.m.control,
		Values:  make(map[string]checkpoint.Value, len(r.m.slots)),
	}
	cp.ID = r.id
	if r.m.echo != nil {
		if cp.Control, err = rd.loader.echoed(r.m); err != nil {
			return nil, fmt.Errorf("control of checkpoint %s: %w", r.id, err)
		}
	}
	if _, err := r.m.resolve(rd.loader); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", r.id, err)
	}
	if cp.Metadata, err = rd.metadata(r); err != nil {
		return nil, err
	}
	names, err := rd.db.shapeNames(rd.c, r.m.Shape)
	if err != nil {
		return nil, err
	}
	if len(names) != len(r.m.slots) {
		return nil, fmt.Errorf("%w: checkpoint %s has %d channels, its shape has %d", ErrDamaged, r.id, len(r.m.slots), len(names))
	}
	for i := range r.m.slots {
		s := &r.m.slots[i]
		if s.Kind == saved.None {
			continue
		}
		v, err := rd.loader.value(s)
		if err != nil {
			return nil, fmt.Errorf("channel %q of checkpoint %s: %w", names[i], r.id, err)
		}
		cp.Values[names[i]] = v
	}
	cp.Pending, err = rd.pending(r)
	return cp, err
}

// pending reads the pending writes of a checkpoint.
func (rd *reading) pending(r *stored) (all []checkpoint.Write, err error) {
	if rd.kept {
		for _, w := range rd.h.pending {
			all = append(all, saved.ParseWrite(w.task, w.kind, bytes.Clone(w.data)))
		}
		return saved.Latest(all), nil
	}
	err = rd.c.Each("SELECT task, kind, data, sum FROM pending WHERE checkpoint=? ORDER BY seq", []any{r.key},
		func(scan func(...any) error) error {
			var task string
			var kind, data []byte
			var sum int64
			if err := scan(&task, &kind, &data, &sum); err != nil {
				return err
			}
			all = append(all, saved.ParseWrite(task, kind, data))
			if !database.Intact(sum, pendingSum(r.key, task, kind, data)) {
				return database.Changed("pending write of task %q at checkpoint %s", task, r.id)
			}
			return nil
		})
	return saved.Latest(all), err
}

const (
	// listPage is the number of checkpoints read at a time: a caller must not hold a
	// connection while it processes them, and may stop after the first.
	listPage = 16
	// scanPage is the number of rows examined at a time when filtering by metadata.
	scanPage = 64
)

// List implements [checkpoint.Saver].
func (db *DB) List(ctx context.Context, q checkpoint.Query) iter.Seq2[*checkpoint.Checkpoint, error] {
	return func(yield func(*checkpoint.Checkpoint, error) bool) {
		want, err := saved.NewFilter(q.Metadata)
		if err != nil {
			yield(nil, err)
			return
		}
		left := q.Limit
		for end, more := int64(0), true; more; {
			size := listPage
			if left > 0 {
				size = min(size, left)
			}
			var page []*checkpoint.Checkpoint
			err := db.conn.Read(ctx, func(c *database.Conn) (err error) {
				page, end, more, err = db.page(ctx, c, q, want, end, size)
				return err
			})
			if err != nil {
				yield(nil, inThread(q.Thread, err))
				return
			}
			for _, cp := range page {
				if !yield(cp, nil) {
					return
				}
			}
			left -= len(page)
			if q.Limit > 0 && left == 0 {
				return
			}
		}
	}
}

// page reads up to size checkpoints with keys less than end, where 0 means the start of
// the query. It returns the end of the next page and whether there may be one. Keys are
// never reused, so a key means the same in every transaction.
func (db *DB) page(ctx context.Context, c *database.Conn, q checkpoint.Query, want saved.Filter, end int64, size int) (page []*checkpoint.Checkpoint, next int64, more bool, err error) {
	h, err := loadHead(c, lineName{q.Thread, q.Namespace})
	if err != nil || h.line == 0 {
		return nil, 0, false, err
	}
	above := end // a row is expected directly below this key; 0: anywhere
	if end == 0 {
		end = keyOf(h.line, h.last+1)
		above = keyOf(h.line, h.at+1)
		if !q.Before.IsZero() && bytes.Compare(q.Before[:], h.id[:]) <= 0 {
			if above, err = locate(c, h, q.Before); err != nil {
				return nil, 0, false, err
			}
			if end, err = search(c, h, q.Before); err != nil {
				return nil, 0, false, err
			}
		}
	}
	limit := size
	if len(want) > 0 {
		limit = scanPage
	}
	var rows []*stored
	gap := false
	err = c.Each("SELECT "+storedColumns+" FROM checkpoint WHERE key>? AND key<? ORDER BY key DESC LIMIT ?+0", []any{keyOf(h.line, 0), end, limit},
		func(scan func(...any) error) error {
			r, err := scanStored(scan)
			if err != nil {
				return err
			}
			if above != 0 && r.key >= above {
				return fmt.Errorf("%w: checkpoint %s out of order", ErrDamaged, r.id)
			}
			gap = gap || above != 0 && r.key != above-1
			above = r.key
			rows = append(rows, r)
			return nil
		})
	if err != nil {
		return nil, 0, false, err
	}
	gap = gap || len(rows) < limit && above != 0 && above != keyOf(h.line, 1)
	if gap {
		from := keyOf(h.line, 1)
		if len(rows) == limit {
			from = above
		}
		if err := checkTally(c, h, from, end, len(rows)); err != nil {
			return nil, 0, false, err
		}
	}
	rd := db.reading(c, h, q.Thread, q.Namespace)
	rd.loader.shared = true
	next, more = end, len(rows) == limit
	for _, r := range rows {
		if len(page) == size {
			return page, next, true, nil
		}
		next = r.key
		if len(want) > 0 {
			metadata, err := rd.metadata(r)
			if err != nil {
				return nil, 0, false, err
			}
			if !want.Matches(metadata) {
				continue
			}
		}
		cp, err := rd.checkpoint(ctx, r)
		if err != nil {
			return nil, 0, false, err
		}
		page = append(page, cp)
	}
	return page, next, more, nil
}
