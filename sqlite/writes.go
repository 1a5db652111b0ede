package sqlite

import (
	"cmp"
	"context"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// PutWrites implements [checkpoint.Saver].
func (db *DB) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, writes []checkpoint.Write) error {
	name := lineName{at.Thread, at.Namespace}
	err := db.writeKeeping(ctx, func(c *conn) error {
		h, key, err := db.addWrites(c, name, at, fence, writes)
		if err != nil {
			return err
		}
		if known, ok := db.known.heads.Get(name); ok {
			if known == h {
				h.keepWrites(writes)
			} else {
				known.as = sight{} // maybe it is behind the times
			}
		}
		if key == keyOf(h.line, h.at) && !h.open && saved.HasResults(writes) {
			opened := *h
			opened.open = true
			if _, err := c.change("UPDATE line SET open=1, sum=(sum+?)&0x7fffffff WHERE id=?", opened.sum()-h.sum(), h.line); err != nil {
				return err
			}
			if known, ok := db.known.heads.Get(name); ok {
				known.open = true
			}
		}
		if fence > h.epoch {
			return db.setEpoch(c, h.thread, h.epoch, fence)
		}
		return nil
	})
	return inThread(at.Thread, err)
}

// addWrites adds writes and returns the head of the line and the key of the checkpoint
// that they are for. Most are for the head, which is remembered: then the first write
// is stored on the condition that it still is the head, unless that is known (addNew).
func (db *DB) addWrites(c *conn, name lineName, at checkpoint.Key, fence uint64, writes []checkpoint.Write) (*head, int64, error) {
	if h, ok := db.known.heads.Get(name); ok && h.epoch == fence && (at.ID.IsZero() || at.ID == h.id) && len(writes) > 0 {
		key := keyOf(h.line, h.at)
		if len(writes) == 1 {
			if ok, err := db.addNew(c, h, key, &writes[0]); ok || err != nil {
				return h, key, err
			}
		}
		if n, err := c.addPending(key, &writes[0], h); n > 0 || err != nil {
			return h, key, cmp.Or(err, c.addAllPending(key, writes[1:]))
		}
	}
	h, key, err := c.writesAt(name, at, fence)
	if err != nil {
		return nil, 0, err
	}
	return h, key, c.addAllPending(key, writes)
}

// addNew adds a write to a head that is as it is known, so that no condition has to be looked
// up, and reports whether it is and has no write that this one replaces.
func (db *DB) addNew(c *conn, h *head, key int64, w *checkpoint.Write) (bool, error) {
	kind, data := saved.WriteRow(w)
	if h.as == (sight{}) || h.find(w.Task, kind) >= 0 {
		return false, nil
	}
	if err := c.look(); err != nil || h.as != db.sight(c) {
		return false, err
	}
	_, err := c.change("INSERT INTO pending(checkpoint,task,kind,data,sum) VALUES(?,?,?,?,?)", key, []byte(w.Task), kind, data, pendingSum(key, w.Task, kind, data))
	return err == nil, err
}

// writesAt reads the head of the line and finds the checkpoint that writes are for.
func (c *conn) writesAt(name lineName, at checkpoint.Key, fence uint64) (*head, int64, error) {
	h, err := c.loadHead(name)
	if err != nil {
		return nil, 0, err
	}
	if fence < h.epoch {
		return nil, 0, saved.Fenced(at.Thread, h.epoch, fence)
	}
	id := at.ID
	if id.IsZero() {
		id = h.id
	}
	key, err := c.locate(h, id)
	if err == nil && key == 0 {
		err = saved.NoCheckpoint(at)
	}
	return h, key, err
}

// addAllPending adds writes to a checkpoint or replaces them.
func (c *conn) addAllPending(key int64, writes []checkpoint.Write) error {
	for i := range writes {
		if _, err := c.addPending(key, &writes[i], nil); err != nil {
			return err
		}
	}
	return nil
}

// addPending adds a write to a checkpoint or replaces it; with h, only if the file has
// that head. It returns how many were written. An upsert keeps the rowid, and with it
// the order.
func (c *conn) addPending(key int64, w *checkpoint.Write, h *head) (int64, error) {
	const (
		insert  = "INSERT INTO pending(checkpoint,task,kind,data,sum) SELECT ?,?,?,?,? WHERE "
		replace = " ON CONFLICT(checkpoint,task,kind) DO UPDATE SET data=excluded.data, sum=excluded.sum"
	)
	kind, data := saved.WriteRow(w)
	sum := pendingSum(key, w.Task, kind, data)
	if h == nil {
		return c.change(insert+"true"+replace, key, []byte(w.Task), kind, data, sum)
	}
	return c.change(insert+"EXISTS (SELECT 1 FROM line WHERE id=? AND head=? AND rev=? AND open=? AND (SELECT fence FROM thread WHERE id=?)=?)"+replace,
		key, []byte(w.Task), kind, data, sum, h.line, h.id[:], int64(h.rev), h.open, h.thread, int64(h.epoch))
}
