package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/store"
)

// Writers come one after another, and each would wait until the disk has the
// one before it. So those who come while a transaction is under way go together
// in the next one: the first of them leads, sends what all of them write, and
// hands over to the first of those who have come since.
type together struct {
	mu      sync.Mutex
	busy    bool // somebody leads
	waiting []*writer
}

// A writer waits for its turn: to lead, or to hear what came of its batch.
type writer struct {
	ctx  context.Context
	p    *prepared
	lead chan bool // one value: whether it leads

	records []*store.Record
	err     error
	alone   bool // what went together failed, perhaps because of another
}

// mostTogether bounds how many go together.
const mostTogether = 64

// write does the writes of a batch that reads nothing and sets no conditions:
// one that fails would be a failure of all.
func (t *together) write(ctx context.Context, p *prepared) ([]*store.Record, error) {
	w := &writer{ctx: ctx, p: p, lead: make(chan bool, 1)}
	lead, err := t.join(w)
	if err != nil {
		return nil, err
	}
	if lead {
		t.leadFrom(w)
	}
	if w.alone {
		return p.backend.writeAlone(ctx, p)
	}
	return w.records, w.err
}

// join waits until w leads, or until its batch is done.
func (t *together) join(w *writer) (lead bool, err error) {
	t.mu.Lock()
	if !t.busy {
		t.busy = true
		t.mu.Unlock()
		return true, nil
	}
	t.waiting = append(t.waiting, w)
	t.mu.Unlock()
	select {
	case lead = <-w.lead:
		return lead, nil
	case <-w.ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(t.waiting, w)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i >= 0 {
		return false, w.ctx.Err()
	}
	return <-w.lead, nil // too late to go: what is sent ends with the context
}

// leadFrom sends what w and those who wait write.
func (t *together) leadFrom(w *writer) {
	t.mu.Lock()
	n := min(len(t.waiting), mostTogether-1)
	if w.ctx.Err() != nil {
		n = 0 // it takes nobody with it
	}
	all := append([]*writer{w}, t.waiting[:n]...)
	t.waiting = slices.Delete(t.waiting, 0, n)
	t.mu.Unlock()
	w.p.backend.send(all)
	t.mu.Lock()
	if len(t.waiting) > 0 {
		t.waiting[0].lead <- true
		t.waiting = slices.Delete(t.waiting, 0, 1)
	} else {
		t.busy = false
	}
	t.mu.Unlock()
	for _, other := range all[1:] {
		other.lead <- false
	}
}

// send does the writes of several batches in one transaction.
func (s *backend) send(all []*writer) {
	first := all[0]
	if len(all) == 1 {
		first.records, first.err = s.writeAlone(first.ctx, first.p)
		return
	}
	// Nobody waits longer than its own context says; the others then go alone.
	ctx, cancel := context.WithCancel(context.WithoutCancel(first.ctx))
	defer cancel()
	batches := make([]*prepared, len(all))
	for i, w := range all {
		batches[i] = w.p
		defer context.AfterFunc(w.ctx, cancel)()
	}
	var records [][]*store.Record
	err := s.db.write(ctx, func(c *pgx.Conn) (err error) {
		records, err = s.writeAll(ctx, c, batches...)
		return err
	})
	for i, w := range all {
		switch {
		case err == nil:
			w.records = records[i]
		case errors.Is(err, ErrOutcomeUnknown):
			w.err = err
		default:
			w.alone = true
		}
	}
}

func (s *backend) writeAlone(ctx context.Context, p *prepared) ([]*store.Record, error) {
	var records [][]*store.Record
	err := s.db.write(ctx, func(c *pgx.Conn) (err error) {
		records, err = s.writeAll(ctx, c, p) // one round trip, which is a transaction
		return err
	})
	if err != nil {
		return nil, err
	}
	return records[0], nil
}
