package sqlite

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// A thread is often read by the process that has just written to it: its run was
// interrupted and is resumed with the answer. The cached head is then the same as in the
// file, unless something has changed since, in this process or another.

// A sight identifies a state of the file with respect to the heads of lines: if two are
// equal, all changes between them were made by Put, PutAll, and PutWrites of this
// process.
type sight struct {
	version int64 // see database.Conn.Look
	edits   int64 // number of other writes by this process
}

// sight returns the state that the writer's connection saw at its last look. Data that is
// cached together with this state is valid as long as a later look yields the same state.
func (db *DB) sight(c *database.Conn) sight { return sight{c.Version, db.conn.Edits} }

// A pendingRow is a pending write in its stored form.
type pendingRow struct {
	task       string
	kind, data []byte
}

// keptPendingMost limits the size in bytes of a head's cached pending writes.
const keptPendingMost = 4 << 10

// keepWrites adds or replaces cached pending writes, like addPending. If the writes
// include results, caching ends: there may be many results, and those of a step that
// continues are not read.
func (h *head) keepWrites(writes []checkpoint.Write) {
	if !h.kept || len(writes) == 0 {
		return
	}
	const least = 64 // overhead of a row in memory
	size := len(h.pending) * least
	for i := range h.pending {
		size += len(h.pending[i].data)
	}
	for i := range writes {
		w := &writes[i]
		size += least + len(w.Data)
		if w.Kind == checkpoint.Done || size > keptPendingMost {
			h.kept, h.pending = false, nil
			return
		}
		kind, data := saved.WriteRow(w)
		row := pendingRow{w.Task, kind, bytes.Clone(data)}
		same := func(w pendingRow) bool { return w.task == row.task && bytes.Equal(w.kind, row.kind) }
		if i := slices.IndexFunc(h.pending, same); i >= 0 {
			h.pending[i] = row
		} else {
			h.pending = append(h.pending, row)
		}
	}
}

// newHead returns the head of a line in a new thread, if the thread was looked up before
// and cannot have been created since. Otherwise it returns nil.
func (db *DB) newHead(c *database.Conn, name lineName) *head {
	then, ok := db.known.absent.Get(name.thread)
	if !ok {
		return nil
	}
	db.known.absent.Delete(name.thread) // about to be created
	if then != db.sight(c) {
		return nil
	}
	return &head{next: 1}
}

// getKept is like Get, but for a cached head, whose rows it does not read. It returns nil
// if the rows must be read.
func (db *DB) getKept(ctx context.Context, c *database.Conn, key checkpoint.Key) (cp *checkpoint.Checkpoint, err error) {
	if !c.Writes {
		return nil, nil
	}
	h, ok := db.known.heads.Get(lineName{key.Thread, key.Namespace})
	if !ok || h.record == nil || !h.kept || !key.ID.IsZero() && key.ID != h.id {
		return nil, nil
	}
	// The statement stays open until the rest is read, so everything comes from the same
	// snapshot: see withThread.
	err = c.Each("PRAGMA data_version", nil, func(func(...any) error) error {
		c.Look()
		if h.as != db.sight(c) {
			return io.EOF
		}
		m, err := parseManifest(bytes.Clone(h.record), h.id) // the caller may modify the result
		if err != nil {
			return err
		}
		rd := db.reading(c, h, key.Thread, key.Namespace)
		rd.kept, rd.runs[h.run.number] = true, h.run
		if cp, err = rd.checkpoint(ctx, &stored{keyOf(h.line, h.at), h.id, h.run.number, m}); err != nil {
			return err
		}
		return io.EOF
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return cp, nil
}
