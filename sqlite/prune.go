package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// Removing checkpoints from a line takes two steps: it deletes the rows and their pending
// writes, then the chunks that no remaining row refers to. The remaining records are not
// rewritten, even if the parent they name is gone.

// Prune implements [checkpoint.Pruner].
func (db *DB) Prune(ctx context.Context, thread string, keep checkpoint.Retention) (removed int, err error) {
	err = db.conn.Erase(ctx, func(c *database.Conn) error {
		removed = 0
		_, lines, err := linesOf(c, thread)
		if err != nil {
			return err
		}
		oldest := time.Now().Add(-keep.MaxAge)
		for _, l := range lines {
			all, err := placesOf(c, l.id)
			if err != nil {
				return err
			}
			interrupted := map[int64]bool{}
			if keep.KeepInterrupted {
				if interrupted, err = interruptedIn(c, l.id); err != nil {
					return err
				}
			}
			n, err := remove(c, l.id, all, func(i int, p place) bool {
				return p.id != l.head &&
					len(all)-i > keep.KeepLast &&
					(keep.MaxAge == 0 || p.id.Time().Before(oldest)) &&
					!interrupted[p.key]
			})
			if err != nil {
				return err
			}
			removed += n
		}
		return nil
	}, func() bool { return removed > 0 })
	if err != nil {
		return 0, inThread(thread, err)
	}
	return removed, nil
}

// DeleteRuns implements [checkpoint.RunDeleter].
func (db *DB) DeleteRuns(ctx context.Context, thread string, runs []string) (removed int, err error) {
	err = db.conn.Erase(ctx, func(c *database.Conn) error {
		removed = 0
		_, lines, err := linesOf(c, thread)
		if errors.Is(err, checkpoint.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, l := range lines {
			if err := deleteWritesOf(c, l.id, runs); err != nil {
				return err
			}
			numbers, err := runsNamed(c, l.id, runs)
			if err != nil {
				return err
			}
			n, err := deleteRuns(c, thread, l.id, numbers)
			if err != nil {
				return err
			}
			removed += n
		}
		// The cache must not keep heads that moved back. Their current state is in the
		// file, and other processes detect the change by the line's rev.
		db.known.heads.Clear()
		return nil
	}, func() bool { return true }) // pending writes may have been removed too
	if err != nil {
		return 0, inThread(thread, err)
	}
	return removed, nil
}

// runsNamed returns the numbers of the named runs in a line.
func runsNamed(c *database.Conn, line int64, names []string) (numbers []int64, err error) {
	for _, name := range names {
		err := c.Each("SELECT run FROM run WHERE line=? AND name=?", []any{line, packName(name)}, func(scan func(...any) error) error {
			var number int64
			err := scan(&number)
			numbers = append(numbers, number)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return numbers, nil
}

// deleteWritesOf removes the pending writes that the given runs recorded in a line.
func deleteWritesOf(c *database.Conn, line int64, runs []string) error {
	type row struct {
		key        int64
		task, kind []byte
	}
	var gone []row
	err := c.Each("SELECT checkpoint, task, kind, data FROM pending WHERE checkpoint>? AND checkpoint<=?", []any{keyOf(line, 0), keyOf(line, maxOrdinal)}, func(scan func(...any) error) error {
		var r row
		var data []byte
		if err := scan(&r.key, &r.task, &r.kind, &data); err != nil {
			return err
		}
		if run := saved.ParseWrite("", r.kind, data).RunID; run != "" && slices.Contains(runs, run) {
			gone = append(gone, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range gone {
		if _, err := c.Change("DELETE FROM pending WHERE checkpoint=? AND task=? AND kind=?", r.key, r.task, r.kind); err != nil {
			return err
		}
	}
	return nil
}

// deleteRuns removes the checkpoints of the given runs from a line. It also removes the
// line and its thread if they are empty afterward.
func deleteRuns(c *database.Conn, thread string, line int64, runs []int64) (removed int, err error) {
	all, err := placesOf(c, line)
	if err != nil {
		return 0, err
	}
	removed, err = remove(c, line, all, func(_ int, p place) bool { return slices.Contains(runs, p.run) })
	if err != nil || removed == 0 {
		return 0, err
	}
	if removed < len(all) {
		// The new head must not extend its chains, because later chunks may be part of a
		// packed row. Incrementing rev prevents that, even for processes that have cached
		// it as a head. The line is marked open so that any results of the new head are
		// consumed.
		_, err := c.Change(`UPDATE line SET head=c.id, at=c.key&0xffffffff, rev=rev+1, open=1
			FROM (SELECT key, id FROM checkpoint WHERE key>?2 AND key<=?3 ORDER BY key DESC LIMIT 1) AS c
			WHERE line.id=?1 AND line.head<>c.id`, line, keyOf(line, 0), keyOf(line, maxOrdinal))
		if err != nil {
			return 0, err
		}
		return removed, updateLineSum(c, line)
	}
	if err := deleteLine(c, line); err != nil {
		return 0, err
	}
	var id int64
	last, err := c.Row("SELECT id FROM thread WHERE name=? AND fence=0 AND NOT EXISTS (SELECT 1 FROM line WHERE thread=thread.id)", []any{[]byte(thread)}, &id)
	if err == nil && last {
		err = deleteThreadRow(c, thread)
	}
	return removed, err
}

// A lineRow is a line to be pruned, copied, or deleted.
type lineRow struct {
	id   int64
	path string
	head checkpoint.ID
}

// linesOf returns the lines of a thread. It returns ErrNotFound if the thread does not
// exist.
func linesOf(c *database.Conn, thread string) (tid int64, lines []lineRow, err error) {
	tid, _, err = threadRow(c, thread)
	if err != nil {
		return 0, nil, err
	}
	if tid == 0 {
		return 0, nil, fmt.Errorf("%w: thread %q", checkpoint.ErrNotFound, thread)
	}
	lines, err = linesIn(c, tid)
	if err == nil && !slices.ContainsFunc(lines, func(l lineRow) bool { return l.path == "" }) {
		err = c.Absent(lineHash(tid, ""), "root namespace")
	}
	return tid, lines, err
}

func linesIn(c *database.Conn, tid int64) (lines []lineRow, err error) {
	err = c.Each("SELECT id, path, head FROM line WHERE thread=? ORDER BY path", []any{tid}, func(scan func(...any) error) error {
		var l lineRow
		var head []byte
		if err := scan(&l.id, &l.path, &head); err != nil {
			return err
		}
		copy(l.head[:], head)
		lines = append(lines, l)
		return nil
	})
	return lines, err
}

// A place locates a checkpoint.
type place struct {
	key int64
	id  checkpoint.ID
	run int64
}

// placesOf returns the places of a line's checkpoints, oldest first.
func placesOf(c *database.Conn, line int64) (all []place, err error) {
	err = c.Each("SELECT key, id, run FROM checkpoint WHERE key>? AND key<=? ORDER BY key", []any{keyOf(line, 0), keyOf(line, maxOrdinal)}, func(scan func(...any) error) error {
		var p place
		var id []byte
		if err := scan(&p.key, &id, &p.run); err != nil {
			return err
		}
		copy(p.id[:], id)
		all = append(all, p)
		return nil
	})
	return all, err
}

// interruptedIn returns the checkpoints of a line that have a pending or answered
// interrupt.
func interruptedIn(c *database.Conn, line int64) (map[int64]bool, error) {
	out := map[int64]bool{}
	err := c.Each("SELECT checkpoint, kind FROM pending WHERE checkpoint>? AND checkpoint<=?",
		[]any{keyOf(line, 0), keyOf(line, maxOrdinal)}, func(scan func(...any) error) error {
			var key int64
			var kind []byte
			err := scan(&key, &kind)
			if of := saved.ParseWrite("", kind, nil).Kind; of == checkpoint.Paused || of == checkpoint.Answers {
				out[key] = true
			}
			return err
		})
	return out, err
}

// remove deletes the checkpoints of a line that gone selects, and all data that is no
// longer needed.
func remove(c *database.Conn, line int64, all []place, gone func(i int, p place) bool) (removed int, err error) {
	// Afterward, the line's count is set to the remaining checkpoints, so this is the
	// last chance to detect missing ones.
	h, err := verifyLine(c, line)
	if err != nil {
		return 0, err
	}
	if int64(len(all)) != h.count {
		return 0, missingCheckpoints(int64(len(all)), h)
	}
	for i := 0; i < len(all); i++ {
		if !gone(i, all[i]) {
			continue
		}
		first := i
		for i+1 < len(all) && gone(i+1, all[i+1]) {
			i++
		}
		removed += i + 1 - first
		for _, q := range []string{
			"DELETE FROM checkpoint WHERE key BETWEEN ? AND ?",
			"DELETE FROM pending WHERE checkpoint BETWEEN ? AND ?",
		} {
			if _, err := c.Change(q, all[first].key, all[i].key); err != nil {
				return 0, err
			}
		}
	}
	if removed == 0 {
		return 0, nil
	}
	if err := collectChunks(c, line); err != nil {
		return 0, err
	}
	return removed, collectRuns(c, line)
}

// liveChunks returns the chains that the line's checkpoints refer to, each with its last
// used chunk.
func liveChunks(c *database.Conn, line int64) (map[int64]int64, error) {
	var all []*manifest
	err := c.Each("SELECT "+storedColumns+" FROM checkpoint WHERE key>? AND key<=?", []any{keyOf(line, 0), keyOf(line, maxOrdinal)}, func(scan func(...any) error) error {
		r, err := scanStored(scan)
		if err != nil {
			return err
		}
		all = append(all, r.m)
		return nil
	})
	if err != nil {
		return nil, err
	}
	live := map[int64]int64{}
	l := newLoader(c, line)
	for _, m := range all {
		if m.echo != nil {
			live[m.echo.Chain] = max(live[m.echo.Chain], m.echo.Hi)
		}
		if m.based {
			live[m.base] = max(live[m.base], 0)
		}
		if _, err := m.resolve(l); err != nil {
			return nil, err
		}
		for i := range m.slots {
			m.slots[i].Need(live)
		}
	}
	return live, nil
}

// collectChunks removes the chunks of a line that no checkpoint refers to. If a chain is
// still in use, only the rows after its last used chunk are removed.
func collectChunks(c *database.Conn, line int64) error {
	live, err := liveChunks(c, line)
	if err != nil {
		return err
	}
	type row struct{ chain, seq int64 }
	var dead []row // the first dead row of each chain that has one
	err = c.Each("SELECT chain, seq FROM chunk WHERE line=? ORDER BY chain, seq", []any{line}, func(scan func(...any) error) error {
		var r row
		if err := scan(&r.chain, &r.seq); err != nil {
			return err
		}
		if hi, ok := live[r.chain]; ok && r.seq <= hi || len(dead) > 0 && dead[len(dead)-1].chain == r.chain {
			return nil
		}
		dead = append(dead, r)
		return nil
	})
	if err != nil {
		return err
	}
	for _, r := range dead {
		if _, err := c.Change("DELETE FROM chunk WHERE line=? AND chain=? AND seq>=?", line, r.chain, r.seq); err != nil {
			return err
		}
	}
	_, err = c.Change(`UPDATE line SET
		(count,bytes)=(SELECT count(*), coalesce(sum(length(record)),0) FROM checkpoint WHERE key>?2 AND key<=?3)
		WHERE id=?1`, line, keyOf(line, 0), keyOf(line, maxOrdinal))
	if err != nil {
		return err
	}
	_, err = c.Change("UPDATE line SET bytes=bytes+(SELECT coalesce(sum(length(data)),0) FROM chunk WHERE line=?1) WHERE id=?1", line)
	if err != nil {
		return err
	}
	return updateLineSum(c, line)
}

// collectRuns removes the runs of a line that have no checkpoints.
func collectRuns(c *database.Conn, line int64) error {
	_, err := c.Change("DELETE FROM run WHERE line=? AND run NOT IN (SELECT run FROM checkpoint WHERE key>? AND key<=?)", line, keyOf(line, 0), keyOf(line, maxOrdinal))
	return err
}

// deleteLine removes a line and all its data.
func deleteLine(c *database.Conn, line int64) error {
	var thread int64
	var path string
	if _, err := c.Row("SELECT thread, path FROM line WHERE id=?", []any{line}, &thread, &path); err != nil {
		return err
	}
	if err := c.RemoveWitness(lineHash(thread, path)); err != nil {
		return err
	}
	for _, q := range []string{
		"DELETE FROM checkpoint WHERE key>? AND key<=?",
		"DELETE FROM pending WHERE checkpoint>? AND checkpoint<=?",
	} {
		if _, err := c.Change(q, keyOf(line, 0), keyOf(line, maxOrdinal)); err != nil {
			return err
		}
	}
	for _, q := range []string{
		"DELETE FROM chunk WHERE line=?",
		"DELETE FROM run WHERE line=?",
		"DELETE FROM line WHERE id=?",
	} {
		if _, err := c.Change(q, line); err != nil {
			return err
		}
	}
	return nil
}
