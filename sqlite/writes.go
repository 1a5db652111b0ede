package sqlite

import (
	"context"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
)

// PutWrites implements [checkpoint.Saver].
func (db *DB) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, writes []checkpoint.Write) error {
	name := lineName{at.Thread, at.Namespace}
	err := db.write(ctx, func(c *conn) error {
		h, key, err := db.writesAt(c, name, at, fence)
		if err != nil {
			return err
		}
		if err := c.addPending(key, writes); err != nil {
			return err
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
			return c.setEpoch(h.thread, h.epoch, fence)
		}
		return nil
	})
	return inThread(at.Thread, err)
}

// writesAt returns the head of the line and the key of the checkpoint that
// writes are for. Most are for the head, which is remembered: then one look tells
// whether it still is the head.
func (db *DB) writesAt(c *conn, name lineName, at checkpoint.Key, fence uint64) (*head, int64, error) {
	if h, ok := db.known.heads.Get(name); ok && h.epoch == fence && (at.ID.IsZero() || at.ID == h.id) {
		if ok, err := c.holds(h); ok || err != nil {
			return h, keyOf(h.line, h.at), err
		}
	}
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

// addPending adds writes to a checkpoint or replaces them.
func (c *conn) addPending(key int64, writes []checkpoint.Write) error {
	for _, w := range writes {
		// An upsert keeps the rowid, and with it the order.
		kind, data := saved.WriteRow(&w)
		_, err := c.change(`INSERT INTO pending(checkpoint,task,kind,data,sum) VALUES(?,?,?,?,?)
			ON CONFLICT(checkpoint,task,kind) DO UPDATE SET data=excluded.data, sum=excluded.sum`, key, []byte(w.Task), kind, data, pendingSum(key, w.Task, kind, data))
		if err != nil {
			return err
		}
	}
	return nil
}
