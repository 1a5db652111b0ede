package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// hookLease is the time that a process has to send a webhook before other processes retry.
const hookLease = 30 * time.Second

// hookDoc is the document in a webhook's row. The request body is the row's Body.
type hookDoc struct {
	URL     string            `json:"url"`
	Header  map[string]string `json:"header,omitempty"`
	Push    bool              `json:"push,omitempty"`
	Attempt int               `json:"attempt,omitempty"`
}

func decodeHook(r *Row) (*Hook, error) {
	var d hookDoc
	if err := json.Unmarshal(r.Doc, &d); err != nil {
		return nil, fmt.Errorf("ledger: decode webhook of run %s: %w", r.ID, err)
	}
	return &Hook{ID: r.ID, Run: r.Parent, URL: d.URL, Header: d.Header, Push: d.Push, Body: r.Body, Attempt: d.Attempt, Due: r.Due}, nil
}

// putHook stores a webhook of a run.
func putHook(tx Tx, h *Hook, run uuid.UUID) error {
	doc, err := json.Marshal(hookDoc{URL: h.URL, Header: h.Header, Push: h.Push, Attempt: h.Attempt})
	if err != nil {
		return fmt.Errorf("ledger: encode webhook of run %s: %w", run, err)
	}
	due := micros(h.Due)
	if due.IsZero() {
		due = tx.Now()
	}
	id := h.ID
	if id == uuid.Nil {
		id = run
	}
	return tx.Put(&Row{Kind: Hooks, ID: id, Parent: run, Due: due, Created: tx.Now(), Doc: doc, Body: h.Body})
}

// dropHooks deletes the webhooks of a run. d is nil if the run is temporary.
func dropHooks(tx Tx, run uuid.UUID, d *threadDoc) error {
	if d == nil || len(d.Thread.Pushes) == 0 {
		return tx.Delete(Hooks, run)
	}
	return deleteAll(tx, &Query{Kind: Hooks, Parent: run})
}

// DueHooks returns at most limit webhooks to send now, earliest first. It counts an attempt for each, and no
// other call returns the same webhook for 30 seconds. It omits webhooks for whose URL skip
// returns true; a nil skip omits none.
func (l *Ledger) DueHooks(ctx context.Context, limit int, skip func(url string) bool) ([]*Hook, error) {
	now, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	q := &Query{Kind: Hooks, DueBy: now, Order: DueFirst}
	if skip == nil {
		q.Limit = limit
	}
	for r, err := range l.b.Find(ctx, q) {
		if err != nil {
			return nil, err
		}
		if skip != nil {
			h, err := decodeHook(r)
			if err != nil {
				return nil, err
			}
			if skip(h.URL) {
				continue
			}
		}
		if ids = append(ids, r.ID); len(ids) == limit {
			break
		}
	}
	var due []*Hook
	for _, id := range ids {
		var h *Hook
		err := l.b.Update(ctx, id, func(tx Tx) error {
			h = nil
			rows, err := tx.Find(&Query{Kind: Hooks, IDs: []uuid.UUID{id}, DueBy: tx.Now(), Bodies: true})
			if err != nil || len(rows) == 0 {
				return err
			}
			if h, err = decodeHook(rows[0]); err != nil {
				return err
			}
			h.Attempt++
			h.Due = tx.Now().Add(hookLease)
			stored := *h
			stored.Body = nil // already stored
			return putHook(tx, &stored, h.Run)
		})
		if err != nil {
			return due, err
		}
		if h != nil {
			due = append(due, h)
		}
	}
	return due, nil
}

// HookDone removes a webhook, or schedules it for retry if retry is not zero.
func (l *Ledger) HookDone(ctx context.Context, id uuid.UUID, retry time.Time) error {
	return l.b.Update(ctx, id, func(tx Tx) error {
		if retry.IsZero() {
			return tx.Delete(Hooks, id)
		}
		r, err := tx.Get(Hooks, id)
		if err != nil || r == nil {
			return err
		}
		r.Due = micros(retry)
		return tx.Put(r)
	})
}
