package items

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/store"
)

// together groups concurrent writes into shared transactions. Writers run one after
// another, and each would have to wait until the previous one's data is on disk. Writers
// that arrive during a transaction therefore share the next one: the first of them leads,
// sends the writes of all, and passes the lead to the first writer that has arrived
// since.
type together struct {
	mu      sync.Mutex
	busy    bool // whether a writer leads
	waiting []*writer
}

// A writer waits to lead or for the result of its batch.
type writer struct {
	ctx  context.Context
	p    *prepared
	lead chan bool // receives one value: whether it leads

	records []*store.Record
	err     error
	alone   bool // the shared transaction failed, perhaps because of another writer
}

// mostTogether is the maximum number of writers that share a transaction.
const mostTogether = 64

// write executes the writes of a batch without reads or conditions. Conditions are
// excluded because one failed condition would fail the whole transaction.
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

// join waits until w leads or its batch has finished.
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
	return <-w.lead, nil // already being sent; the transaction is canceled with the context
}

// leadFrom sends the writes of w and of the waiting writers.
func (t *together) leadFrom(w *writer) {
	t.mu.Lock()
	n := min(len(t.waiting), mostTogether-1)
	if w.ctx.Err() != nil {
		n = 0 // do not cancel other writers
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

// send executes the writes of several batches in one transaction.
func (s *Backend) send(all []*writer) {
	first := all[0]
	if len(all) == 1 {
		first.records, first.err = s.writeAlone(first.ctx, first.p)
		return
	}
	// When the context of any writer ends, the transaction is canceled, and the others
	// write alone.
	ctx, cancel := context.WithCancel(context.WithoutCancel(first.ctx))
	defer cancel()
	batches := make([]*prepared, len(all))
	for i, w := range all {
		batches[i] = w.p
		defer context.AfterFunc(w.ctx, cancel)()
	}
	var records [][]*store.Record
	err := s.db.Write(ctx, func(c *pgx.Conn) (err error) {
		records, err = s.writeAll(ctx, c, batches...)
		return err
	})
	for i, w := range all {
		switch {
		case err == nil:
			w.records = records[i]
		case errors.Is(err, database.ErrOutcomeUnknown):
			w.err = err
		default:
			w.alone = true
		}
	}
}

func (s *Backend) writeAlone(ctx context.Context, p *prepared) ([]*store.Record, error) {
	var records [][]*store.Record
	err := s.db.Write(ctx, func(c *pgx.Conn) (err error) {
		records, err = s.writeAll(ctx, c, p) // one round trip in one transaction
		return err
	})
	if err != nil {
		return nil, err
	}
	return records[0], nil
}
