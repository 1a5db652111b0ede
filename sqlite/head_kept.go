package sqlite

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	modernc "modernc.org/sqlite"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// A thread is often read by the process that has just written to it: its run has asked
// something, and is continued with the answer. What is known of its head then is what the
// file has, unless something has changed since, here or in another process.

// sight is a state of the file, as far as the heads of lines are concerned: if two are
// equal, nothing has changed between them but by Put, PutAll and PutWrites of this process.
type sight struct {
	version int64 // see look
	edits   int64 // how often this process has written in other ways
}

// look changes the version if other connections have written to the file since the last look
// or the last commit of this one. SQLite notices that when a transaction or a statement
// begins, so a look is for these.
func (c *conn) look() {
	data, err := c.dataVersion()
	if err != nil || data != c.data {
		c.version++
	}
	c.data = data
}

// dataVersion is a number that every commit changes, of this connection too. (PRAGMA
// data_version leaves these out, but takes as long as a statement.)
func (c *conn) dataVersion() (uint32, error) {
	return c.raw.(modernc.FileControl).FileControlDataVersion("main")
}

// sight is the state that the writer's connection saw when it last looked. Something that is
// read or written now and noted with it still holds later, if a look then gives the same.
func (db *DB) sight(c *conn) sight { return sight{c.version, db.known.edits} }

// pendingRow is a pending write as it is stored.
type pendingRow struct {
	task       string
	kind, data []byte
}

// keptPendingMost bounds the pending writes of a head that are kept.
const keptPendingMost = 4 << 10

// keepWrites adds pending writes, or replaces them, as addPending does. Results are not
// kept: there may be many of them, and those of a step that goes on are not read.
func (h *head) keepWrites(writes []checkpoint.Write) {
	if !h.kept || len(writes) == 0 {
		return
	}
	const least = 64 // of a row in memory
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

// newHead is the head of a line of a new thread, if the thread was looked for and nobody can
// have made it since; otherwise it is nil.
func (db *DB) newHead(c *conn, name lineName) *head {
	then, ok := db.known.absent.Get(name.thread)
	if !ok {
		return nil
	}
	db.known.absent.Delete(name.thread) // it is made now
	if then != db.sight(c) {
		return nil
	}
	return &head{next: 1}
}

// getKept is Get of a head that is known, without reading its rows. It returns nil if they
// have to be read.
func (db *DB) getKept(ctx context.Context, c *conn, key checkpoint.Key) (cp *checkpoint.Checkpoint, err error) {
	if !c.writes {
		return nil, nil
	}
	h, ok := db.known.heads.Get(lineName{key.Thread, key.Namespace})
	if !ok || h.record == nil || !h.kept || !key.ID.IsZero() && key.ID != h.id {
		return nil, nil
	}
	// The statement is open until the rest is read, which is then from the same state: see
	// withThread.
	err = c.each("PRAGMA data_version", nil, func(func(...any) error) error {
		c.look()
		if h.as != db.sight(c) {
			return io.EOF
		}
		m, err := parseManifest(bytes.Clone(h.record), h.id) // the caller may change what it gets
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
