package sqlite

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/treadle-go/treadle/checkpoint"
)

// DeleteThread implements [checkpoint.Saver].
func (db *DB) DeleteThread(ctx context.Context, thread string) error {
	return db.write(ctx, func(c *conn) error {
		tid, lines, err := c.linesOf(thread)
		if errors.Is(err, checkpoint.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, l := range lines {
			if err := c.deleteLine(l.id); err != nil {
				return err
			}
		}
		_, err = c.change("DELETE FROM thread WHERE id=?", tid)
		return err
	})
}

// CopyThread implements [checkpoint.Copier]. References are relative to a line,
// so the copy's rows are those of the original. Its epoch begins at 0.
func (db *DB) CopyThread(ctx context.Context, from, to string) error {
	return db.write(ctx, func(c *conn) error {
		_, lines, err := c.linesOf(from)
		if err != nil {
			return err
		}
		var there int64
		ok, err := c.row("SELECT id FROM thread WHERE name=?", []any{[]byte(to)}, &there)
		if err != nil {
			return err
		}
		if ok {
			return fmt.Errorf("%w: thread %q exists", checkpoint.ErrConflict, to)
		}
		dst, err := c.makeThread(to, 0)
		if err != nil {
			return err
		}
		for _, l := range lines {
			line, err := c.insert("INSERT INTO line(thread,path,head,at,last,next,rev,open,checkpoints,bytes) SELECT ?,path,head,at,last,next,rev,open,checkpoints,bytes FROM line WHERE id=?", dst, l.id)
			if err != nil {
				return err
			}
			for _, q := range []string{
				"INSERT INTO checkpoint(key,id,run,record) SELECT key+?,id,run,record FROM checkpoint WHERE key>? AND key<=? ORDER BY key",
				"INSERT INTO pending(checkpoint,task,kind,data) SELECT checkpoint+?,task,kind,data FROM pending WHERE checkpoint>? AND checkpoint<=? ORDER BY rowid",
			} {
				if _, err := c.change(q, keyOf(line-l.id, 0), keyOf(l.id, 0), keyOf(l.id, maxOrdinal)); err != nil {
					return err
				}
			}
			for _, q := range []string{
				"INSERT INTO chunk(line,chain,seq,n,data) SELECT ?,chain,seq,n,data FROM chunk WHERE line=? ORDER BY chain, seq",
				"INSERT INTO run(line,run,name,metadata) SELECT ?,run,name,metadata FROM run WHERE line=?",
			} {
				if _, err := c.change(q, line, l.id); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Fence implements [checkpoint.Fencer].
func (db *DB) Fence(ctx context.Context, thread string, epoch uint64) error {
	return db.write(ctx, func(c *conn) error {
		var tid, present int64
		ok, err := c.row("SELECT id, epoch FROM thread WHERE name=?", []any{[]byte(thread)}, &tid, &present)
		if err != nil {
			return err
		}
		if epoch <= uint64(present) {
			return fmt.Errorf("%w: thread %q is at epoch %d, not below %d", checkpoint.ErrFenced, thread, uint64(present), epoch)
		}
		if !ok {
			_, err = c.makeThread(thread, epoch)
			return err
		}
		return c.setEpoch(tid, epoch)
	})
}

// Size implements [checkpoint.Sizer]: the bytes of all records, chunks and
// pending writes. What the file needs to find them comes on top.
func (db *DB) Size(ctx context.Context, thread string) (n int64, err error) {
	err = db.read(ctx, func(c *conn) error {
		var tid int64
		ok, err := c.row("SELECT id FROM thread WHERE name=?", []any{[]byte(thread)}, &tid)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, thread)
		}
		_, err = c.row("SELECT coalesce(sum(bytes+"+pendingBytes+"),0) FROM line l WHERE thread=?", []any{tid}, &n)
		return err
	})
	return n, err
}

// pendingBytes are those of a line l. They come and go with every step that
// fails and are few, so they are summed when asked for.
const pendingBytes = "(SELECT coalesce(sum(length(data)),0) FROM pending WHERE checkpoint>l.id<<32 AND checkpoint<(l.id+1)<<32)"

// threadPage is how many threads are read at a time.
const threadPage = 256

// Threads implements [checkpoint.ThreadLister].
func (db *DB) Threads(ctx context.Context) iter.Seq2[checkpoint.Thread, error] {
	return func(yield func(checkpoint.Thread, error) bool) {
		after := []byte{}
		query := "SELECT id, name FROM thread WHERE name>=? ORDER BY name LIMIT ?" // there may be one without a name
		for {
			var page []checkpoint.Thread
			err := db.read(ctx, func(c *conn) (err error) {
				page, err = c.threads(query, after)
				return err
			})
			if err != nil {
				yield(checkpoint.Thread{}, err)
				return
			}
			for _, t := range page {
				if !yield(t, nil) {
					return
				}
			}
			if len(page) < threadPage {
				return
			}
			after = []byte(page[len(page)-1].Name)
			query = "SELECT id, name FROM thread WHERE name>? ORDER BY name LIMIT ?"
		}
	}
}

// threads reads a page of threads.
func (c *conn) threads(query string, after []byte) (page []checkpoint.Thread, err error) {
	var tids []int64
	err = c.each(query, []any{after, threadPage}, func(scan func(...any) error) error {
		var t checkpoint.Thread
		var tid int64
		err := scan(&tid, &t.Name)
		tids, page = append(tids, tid), append(page, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, tid := range tids {
		t := &page[i]
		err := c.each("SELECT path, head, checkpoints, bytes+"+pendingBytes+" FROM line l WHERE thread=?", []any{tid}, func(scan func(...any) error) error {
			var path, head []byte
			var checkpoints int
			var bytes int64
			if err := scan(&path, &head, &checkpoints, &bytes); err != nil {
				return err
			}
			if len(path) == 0 {
				copy(t.Head[:], head)
			}
			t.Checkpoints += checkpoints
			t.Bytes += bytes
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return page, nil
}
