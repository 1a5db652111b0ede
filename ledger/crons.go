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
	Assistant, Thread uuid.UUID // zero for all
	Enabled           *bool     // nil for both
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

// CreateCron stores a cron and sets its times; without an id it gets one. A cron with
// its id is ErrExists.
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

// seenCron decodes a row that the filter lets through.
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

// Cron returns a cron.
func (l *Ledger) Cron(ctx context.Context, id uuid.UUID, f *Filter) (*Cron, error) {
	r, err := l.b.Get(ctx, Crons, id)
	if err != nil {
		return nil, err
	}
	return seenCron(r, id, f)
}

// Crons returns a page of the crons that match, and how many match in all.
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

// DeleteCron deletes a cron. Its runs stay.
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
// first. It leaves out crons that skip reports true for; nil skips none.
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

// Tick moves a cron from the time at to the time next and creates a run, in one
// transaction. ok is false if the cron is not at that time any more, since another
// process has moved it; nothing happens then. A run that is refused (ErrBusy, ErrFull,
// ErrNotFound) does not hold the cron up: it is moved, ok is true, and the refusal is
// the error. n may be nil for no run.
func (l *Ledger) Tick(ctx context.Context, id uuid.UUID, at time.Time, next *time.Time, n *NewRun) (created *Created, ok bool, err error) {
	lock := id
	if n != nil {
		if n, err = checked(n); err != nil {
			return nil, false, err
		}
		// The thread of a run that brings its own is new, and known to nobody else.
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
			if created, no = l.createRun(tx, n); no != nil && !refused(no) {
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
