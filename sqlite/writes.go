package sqlite

import (
	"context"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/saved"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// PutWrites implements [checkpoint.Saver].
func (db *DB) PutWrites(ctx context.Context, at checkpoint.Key, fence uint64, writes []checkpoint.Write) error {
	name := lineName{at.Thread, at.Namespace}
	err := db.conn.WriteKeeping(ctx, func(c *database.Conn) error {
		h, key, err := db.addWrites(c, name, at, fence, writes)
		if err != nil {
			return err
		}
		if key == keyOf(h.line, h.at) && !h.open && saved.HasResults(writes) {
			opened := *h
			opened.open = true
			if _, err := c.Change("UPDATE line SET open=1, sum=(sum+?)&0x7fffffff WHERE id=?", opened.sum()-h.sum(), h.line); err != nil {
				return err
			}
			if known, ok := db.known.heads.Get(name); ok {
				known.open = true
			}
		}
		if fence > h.epoch {
			return db.setEpoch(c, at.Thread, h.epoch, fence)
		}
		return nil
	})
	return inThread(at.Thread, err)
}

// addWrites adds writes and returns the head of the line and the key of the checkpoint
// that the writes belong to. Most writes belong to the head, which is usually cached, so
// nothing is read.
func (db *DB) addWrites(c *database.Conn, name lineName, at checkpoint.Key, fence uint64, writes []checkpoint.Write) (*head, int64, error) {
	known, ok := db.known.heads.Get(name)
	if ok && known.as == db.sight(c) && known.epoch == fence && (at.ID.IsZero() || at.ID == known.id) {
		key := keyOf(known.line, known.at)
		last, err := addPending(c, key, known.written, writes)
		known.written = last
		known.keepWrites(writes)
		db.known.heads.Set(name, known, known.size())
		return known, key, err
	}
	h, key, err := writesAt(c, name, at, fence)
	if err != nil {
		return nil, 0, err
	}
	var last int64
	if _, err := c.Row("SELECT max(seq) FROM pending WHERE checkpoint=?", []any{key}, &last); err != nil {
		return nil, 0, err
	}
	if last, err = addPending(c, key, last, writes); err != nil {
		return nil, 0, err
	}
	if ok {
		known.as = sight{} // the head may be outdated
		if known.id == h.id && known.rev == h.rev && known.epoch == h.epoch && known.open == h.open && key == keyOf(h.line, h.at) {
			known.as, known.written, known.kept = db.sight(c), last, false
		}
	}
	return h, key, nil
}

// writesAt reads the head of the line and finds the checkpoint that writes belong to.
func writesAt(c *database.Conn, name lineName, at checkpoint.Key, fence uint64) (*head, int64, error) {
	h, err := loadHead(c, name)
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
	key, err := locate(c, h, id)
	if err == nil && key == 0 {
		err = saved.NoCheckpoint(at)
	}
	return h, key, err
}

// addPending adds writes to a checkpoint whose last write has the number last. A write
// with the same task and kind as an existing one replaces it and keeps its place. It
// returns the new last number.
func addPending(c *database.Conn, key, last int64, writes []checkpoint.Write) (int64, error) {
	for i := range writes {
		w := &writes[i]
		kind, data := saved.WriteRow(w)
		_, err := c.Change("INSERT INTO pending(checkpoint,task,kind,seq,data,sum) VALUES(?,?,?,?,?,?) ON CONFLICT(checkpoint,task,kind) DO UPDATE SET data=excluded.data, sum=excluded.sum",
			key, []byte(w.Task), kind, last+1, data, pendingSum(key, w.Task, kind, data))
		if err != nil {
			return last, err
		}
		last++
	}
	return last, nil
}
