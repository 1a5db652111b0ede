package sqlite

import (
	"context"
	"fmt"
	"iter"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// DeleteThread implements [checkpoint.Saver]. It also deletes a damaged thread, to the
// extent that its rows can be found.
func (db *DB) DeleteThread(ctx context.Context, thread string) error {
	found := false
	return db.conn.Erase(ctx, func(c *database.Conn) error {
		var tid int64
		ok, err := c.Row("SELECT id FROM thread WHERE name=?", []any{[]byte(thread)}, &tid)
		if err != nil {
			return err
		}
		if !ok {
			return c.RemoveWitness(threadHash(thread))
		}
		found = true
		lines, err := linesIn(c, tid)
		if err != nil {
			return err
		}
		for _, l := range lines {
			if err := deleteLine(c, l.id); err != nil {
				return err
			}
		}
		return deleteThreadRow(c, thread)
	}, func() bool { return found })
}

func deleteThreadRow(c *database.Conn, name string) error {
	if _, err := c.Change("DELETE FROM thread WHERE name=?", []byte(name)); err != nil {
		return err
	}
	return c.RemoveWitness(threadHash(name))
}

// CopyThread implements [checkpoint.Copier]. References are relative to a line, so the
// rows are copied unchanged. The copy's epoch starts at 0.
func (db *DB) CopyThread(ctx context.Context, from, to string) error {
	err := db.conn.Write(ctx, func(c *database.Conn) error {
		src, lines, err := linesOf(c, from)
		if err != nil {
			return err
		}
		there, _, err := threadRow(c, to)
		if err != nil {
			return err
		}
		if there != 0 {
			return fmt.Errorf("%w: thread %q exists", checkpoint.ErrConflict, to)
		}
		dst, err := db.makeThread(c, to, 0)
		if err != nil {
			return err
		}
		if err := c.AddWitness(threadHash(to)); err != nil {
			return err
		}
		for _, l := range lines {
			line, err := db.newLine(c)
			if err != nil {
				return err
			}
			// Damaged rows stay damaged in the copy: each checksum is adjusted by the
			// difference between the locations.
			moved := saved.Place(line) - saved.Place(l.id)
			_, err = c.Change(`INSERT INTO line(id,thread,path,head,at,last,next,rev,open,count,bytes,sum)
				SELECT ?,?,path,head,at,last,next,rev,open,count,bytes,(sum+?)&0x7fffffff FROM line WHERE id=?`, line, dst, moved+3*(saved.Place(dst)-saved.Place(src)), l.id)
			if err != nil {
				return err
			}
			if err := c.AddWitness(lineHash(dst, l.path)); err != nil {
				return err
			}
			for _, q := range []string{
				"INSERT INTO checkpoint(key,id,run,record,sum) SELECT key+?,id,run,record,(sum+?)&0x7fffffff FROM checkpoint WHERE key>? AND key<=? ORDER BY key",
				"INSERT INTO pending(checkpoint,task,kind,seq,data,sum) SELECT checkpoint+?,task,kind,seq,data,(sum+?)&0x7fffffff FROM pending WHERE checkpoint>? AND checkpoint<=?",
			} {
				if _, err := c.Change(q, keyOf(line-l.id, 0), moved, keyOf(l.id, 0), keyOf(l.id, maxOrdinal)); err != nil {
					return err
				}
			}
			for _, q := range []string{
				"INSERT INTO chunk(line,chain,seq,n,data,sum) SELECT ?,chain,seq,n,data,(sum+?)&0x7fffffff FROM chunk WHERE line=? ORDER BY chain, seq",
				"INSERT INTO run(line,run,name,metadata,sum) SELECT ?,run,name,metadata,(sum+?)&0x7fffffff FROM run WHERE line=?",
			} {
				if _, err := c.Change(q, line, moved, l.id); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return inThread(from, err)
}

// Fence implements [checkpoint.Fencer].
func (db *DB) Fence(ctx context.Context, thread string, epoch uint64) error {
	err := db.conn.Write(ctx, func(c *database.Conn) error {
		tid, present, err := threadRow(c, thread)
		if err != nil {
			return err
		}
		if epoch <= present {
			return fmt.Errorf("%w: thread %q is at epoch %d, not below %d", checkpoint.ErrFenced, thread, present, epoch)
		}
		if tid == 0 {
			if _, err := db.makeThread(c, thread, epoch); err != nil {
				return err
			}
			return c.AddWitness(threadHash(thread))
		}
		return db.setEpoch(c, thread, present, epoch)
	})
	return inThread(thread, err)
}

// Size implements [checkpoint.Sizer]. It counts the bytes of all records, chunks, and
// pending writes, but not of indexes.
func (db *DB) Size(ctx context.Context, thread string) (n int64, err error) {
	err = db.conn.Read(ctx, func(c *database.Conn) error {
		tid, _, err := threadRow(c, thread)
		if err != nil {
			return err
		}
		if tid == 0 {
			return fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, thread)
		}
		var t checkpoint.Thread
		err = sumLines(c, tid, &t)
		n = t.Bytes
		return err
	})
	return n, inThread(thread, err)
}

// pendingBytes sums the pending writes of a line l. They are few and change with every
// failed step, so they are summed on demand.
const pendingBytes = "(SELECT coalesce(sum(length(data)),0) FROM pending WHERE checkpoint>l.id<<32 AND checkpoint<(l.id+1)<<32)"

// threadPage is the page size of Threads.
const threadPage = 256

// Threads implements [checkpoint.ThreadLister].
func (db *DB) Threads(ctx context.Context) iter.Seq2[checkpoint.Thread, error] {
	return func(yield func(checkpoint.Thread, error) bool) {
		after, first := []byte{}, true
		query := "SELECT id, name, fence, sum FROM thread WHERE name>=? ORDER BY name LIMIT ?+0" // a thread may have an empty name
		for {
			var page []checkpoint.Thread
			err := db.conn.Read(ctx, func(c *database.Conn) (err error) {
				if first {
					if err := complete(c); err != nil {
						return err
					}
				}
				page, err = threads(c, query, after)
				return err
			})
			first = false
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
			query = "SELECT id, name, fence, sum FROM thread WHERE name>? ORDER BY name LIMIT ?+0"
		}
	}
}

// threads reads a page of threads.
func threads(c *database.Conn, query string, after []byte) (page []checkpoint.Thread, err error) {
	var tids []int64
	err = c.Each(query, []any{after, threadPage}, func(scan func(...any) error) error {
		var t checkpoint.Thread
		var tid int64
		var epoch uint64
		var sum int64
		if err := scan(&tid, &t.Name, &epoch, &sum); err != nil {
			return err
		}
		tids, page = append(tids, tid), append(page, t)
		if !database.Intact(sum, threadSum(tid, t.Name, epoch)) {
			return inThread(t.Name, database.Changed("thread row"))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, tid := range tids {
		t := &page[i]
		if err := sumLines(c, tid, t); err != nil {
			return nil, inThread(t.Name, err)
		}
	}
	return page, nil
}

// sumLines adds up the counters of a thread's lines.
func sumLines(c *database.Conn, tid int64, t *checkpoint.Thread) error {
	return c.Each("SELECT "+lineColumns+", "+pendingBytes+" FROM line l WHERE l.thread=?", []any{tid}, func(scan func(...any) error) error {
		l := wholeLine{head: head{thread: tid}}
		var pending int64
		if err := scan(append(l.dest(), &pending)...); err != nil {
			return err
		}
		if l.path == "" {
			t.Head = l.id
		}
		t.Checkpoints += int(l.count)
		t.Bytes += l.size + pending
		return l.verify()
	})
}

// complete returns ErrDamaged if threads, lines, namespaces, or stamps are missing. It
// counts them in the same indexes that lookups use.
func complete(c *database.Conn) error {
	var have, want int64
	_, err := c.Row(`SELECT (SELECT count(*) FROM thread WHERE name>=x'')
		+(SELECT count(*) FROM thread t CROSS JOIN line l INDEXED BY sqlite_autoindex_line_1 ON l.thread=t.id)
		+(SELECT count(*) FROM store_space INDEXED BY sqlite_autoindex_store_space_1 WHERE name>=x'')+(SELECT count(*) FROM store_stamp), (SELECT count(*) FROM witness)`, nil, &have, &want)
	if err == nil && have != want {
		err = fmt.Errorf("%w: %d threads, lines, and store namespaces, want %d", ErrDamaged, have, want)
	}
	return err
}
