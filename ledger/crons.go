package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// CronQuery selects crons.
type CronQuery struct {
	Filter
	Assistant, Thread uuid.UUID // zero means any
	Enabled           *bool     // nil means both
	Page
}

// cronDoc is the document in a cron's row.
type cronDoc struct {
	*Cron
	Creator json.RawMessage `json:"creator,omitempty"`
}

func decodeCron(r *Row) (*Cron, error) {
	d := cronDoc{Cron: &Cron{}}
	if err := json.Unmarshal(r.Doc, &d); err != nil {
		return nil, fmt.Errorf("ledger: decode cron %s: %w", r.ID, err)
	}
	d.Cron.Creator = d.Creator
	return d.Cron, nil
}

func putCron(tx Tx, c *Cron) error {
	c.Next, c.End = microsOf(c.Next), microsOf(c.End)
	doc, err := json.Marshal(cronDoc{c, c.Creator})
	if err != nil {
		return fmt.Errorf("ledger: encode cron %s: %w", c.ID, err)
	}
	r := &Row{
		Kind: Crons, ID: c.ID, Created: c.Created, Doc: doc,
		Terms: metadataTerms([]uint64{assistantTerm(c.Assistant)}, c.Metadata),
	}
	if c.Thread != nil {
		r.Parent = *c.Thread
	}
	if c.Next != nil && c.Enabled {
		r.Due = *c.Next
	}
	return tx.Put(r)
}

func microsOf(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	m := micros(*t)
	return &m
}

// CreateCron stores a cron and sets its times, and its ID if it is zero. It returns ErrExists
// if the ID is taken.
func (l *Ledger) CreateCron(ctx context.Context, c *Cron) error {
	made := *c
	if made.ID == uuid.Nil {
		id, err := newID()
		if err != nil {
			return err
		}
		made.ID = id
	}
	err := l.b.Update(ctx, made.ID, func(tx Tx) error {
		if r, err := tx.Get(Crons, made.ID); r != nil || err != nil {
			return cmp.Or(err, exists("cron", made.ID))
		}
		made.Created, made.Updated = tx.Now(), tx.Now()
		return putCron(tx, &made)
	})
	if err == nil {
		*c = made
	}
	return err
}

// seenCron decodes a row. It returns ErrNotFound if the row is nil or the filter rejects it.
func seenCron(r *Row, id uuid.UUID, f *Filter) (*Cron, error) {
	if r == nil {
		return nil, notFound("cron", id)
	}
	c, err := decodeCron(r)
	if err != nil {
		return nil, err
	}
	if !f.Match(c.Metadata) {
		return nil, notFound("cron", id)
	}
	return c, nil
}

// Cron returns a cron. It returns ErrNotFound if the cron does not exist or the filter rejects
// it.
func (l *Ledger) Cron(ctx context.Context, id uuid.UUID, f *Filter) (*Cron, error) {
	r, err := l.b.Get(ctx, Crons, id)
	if err != nil {
		return nil, err
	}
	return seenCron(r, id, f)
}

// Crons returns a page of the matching crons, and the number of all matches.
func (l *Ledger) Crons(ctx context.Context, q *CronQuery) (page []*Cron, total int, err error) {
	s := &listing[*Cron]{
		query:  Query{Kind: Crons, Parent: q.Thread},
		filter: &q.Filter,
		decode: decodeCron,
		match: func(c *Cron) (bool, error) {
			return (q.Assistant == uuid.Nil || c.Assistant == q.Assistant) &&
				(q.Enabled == nil || c.Enabled == *q.Enabled) && q.Match(c.Metadata), nil
		},
		id: func(c *Cron) uuid.UUID { return c.ID },
		fields: map[string]func(a, b *Cron) int{
			"cron_id":       func(a, b *Cron) int { return compareIDs(a.ID, b.ID) },
			"assistant_id":  func(a, b *Cron) int { return compareIDs(a.Assistant, b.Assistant) },
			"thread_id":     func(a, b *Cron) int { return compareIDs(a.threadID(), b.threadID()) },
			"next_run_date": func(a, b *Cron) int { return compareTimes(a.Next, b.Next) },
			"end_time":      func(a, b *Cron) int { return compareTimes(a.End, b.End) },
			"updated_at":    func(a, b *Cron) int { return a.Updated.Compare(b.Updated) },
		},
	}
	if q.Assistant != uuid.Nil {
		s.query.Terms = []uint64{assistantTerm(q.Assistant)}
	}
	return list(ctx, l.b, s, q.Page)
}

func (c *Cron) threadID() uuid.UUID {
	if c.Thread == nil {
		return uuid.Nil
	}
	return *c.Thread
}

// PatchCron calls change with a copy of the cron and stores the result. change may be
// called more than once.
func (l *Ledger) PatchCron(ctx context.Context, id uuid.UUID, f *Filter, change func(*Cron) error) (*Cron, error) {
	var c *Cron
	err := l.b.Update(ctx, id, func(tx Tx) error {
		r, err := tx.Get(Crons, id)
		if err != nil {
			return err
		}
		if c, err = seenCron(r, id, f); err != nil {
			return err
		}
		created := c.Created
		if err := change(c); err != nil {
			return err
		}
		c.ID, c.Created, c.Updated = id, created, tx.Now()
		return putCron(tx, c)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// DeleteCron deletes a cron. It keeps the cron's runs.
func (l *Ledger) DeleteCron(ctx context.Context, id uuid.UUID, f *Filter) error {
	return l.b.Update(ctx, id, func(tx Tx) error {
		r, err := tx.Get(Crons, id)
		if err != nil {
			return err
		}
		if _, err := seenCron(r, id, f); err != nil {
			return err
		}
		return tx.Delete(Crons, id)
	})
}

// DueCrons returns at most limit crons whose Next is not after the current time, earliest
// first. It omits crons for which skip returns true; a nil skip omits none.
func (l *Ledger) DueCrons(ctx context.Context, limit int, skip func(uuid.UUID) bool) ([]*Cron, error) {
	now, err := l.now(ctx)
	if err != nil {
		return nil, err
	}
	var due []*Cron
	for r, err := range l.b.Find(ctx, &Query{Kind: Crons, DueBy: now, Order: DueFirst}) {
		if err != nil {
			return nil, err
		}
		if skip != nil && skip(r.ID) {
			continue
		}
		c, err := decodeCron(r)
		if err != nil {
			return nil, err
		}
		if due = append(due, c); len(due) == limit {
			break
		}
	}
	return due, nil
}

// Tick moves a cron from the time at to the time next and creates a run, in one transaction. A
// nil n creates no run. ok is false, and nothing changes, if the cron is no longer at that time
// because another process has moved it. A rejected run (ErrBusy, ErrExists, ErrFull,
// ErrNotFound, or ErrStale) does not stop the cron: Tick moves it and returns true with the
// error.
func (l *Ledger) Tick(ctx context.Context, id uuid.UUID, at time.Time, next *time.Time, n *NewRun) (created *Created, ok bool, err error) {
	lock := id
	if n != nil {
		if n, err = checked(n); err != nil {
			return nil, false, err
		}
		// With Create, the thread is new, so no other transaction can be using it.
		if !n.Temporary && n.Create == nil {
			lock = n.Thread
		}
	}
	var no error
	err = l.b.Update(ctx, lock, func(tx Tx) error {
		created, ok, no = nil, false, nil
		r, err := tx.Get(Crons, id)
		if err != nil || r == nil {
			return err
		}
		c, err := decodeCron(r)
		if err != nil || c.Next == nil || !c.Next.Equal(micros(at)) {
			return err
		}
		if n != nil {
			if created, no = l.createRun(tx, n); no != nil && !rejects(no) {
				return no
			}
		}
		ok = true
		c.Next = next
		return putCron(tx, c)
	})
	if err == nil {
		err = no
	}
	return created, ok, err
}
