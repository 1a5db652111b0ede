// Package ledger stores the rows and events of a server in an SQLite file. It implements
// [ledger.Backend], whose suite is package ledgertest.
package ledger

import (
	"context"
	_ "embed"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// A Backend stores the rows and events of a server. SQLite allows one writer, so
// all transactions run one after another, regardless of their locks.
type Backend struct {
	db     *database.DB
	exists atomic.Bool // the tables exist
	kept   keptRows
	share  func(*budget.Budget)
}

// New returns a backend for the ledger in db. It caches rows within memory until a server
// shares its own memory, which the backend then passes to share.
func New(db *database.DB, memory *budget.Budget, share func(*budget.Budget)) *Backend {
	return &Backend{db: db, share: share, kept: keptRows{rows: budget.NewCache[rowKey, *storedRow](memory, database.MemoryKind)}}
}

var _ ledger.Backend = (*Backend)(nil)

//go:embed ledger.sql
var tables string

// Forget clears the caches that a rollback may have made invalid.
func (b *Backend) Forget() { b.kept.forget() }

// ShareMemory implements [ledger.MemorySharer].
func (b *Backend) ShareMemory(m ledger.Memory) {
	shared := budget.Of(m)
	b.kept.rows.Move(shared, database.MemoryKind)
	b.share(shared)
}

// ready creates the ledger's tables if they do not exist. Every method calls it first.
func (b *Backend) ready(ctx context.Context) error {
	if b.exists.Load() {
		return nil
	}
	err := b.db.WriteKeeping(ctx, func(c *database.Conn) error {
		if has, err := hasTables(c); has || err != nil {
			return err
		}
		c.Dirty = true
		return c.Script(tables)
	})
	if err == nil {
		b.exists.Store(true)
	}
	return err
}

// hasTables reports whether the file has any ledger table. If it has one, it should have
// all: a missing table must not be replaced by an empty one.
func hasTables(c *database.Conn) (bool, error) {
	var name string
	return c.Row("SELECT name FROM sqlite_schema WHERE name GLOB 'server_*' LIMIT 1", nil, &name)
}

// Update implements [ledger.Backend]. It is a job in the queue of package database (see
// commit.go there), so the transactions of many callers share a commit.
func (b *Backend) Update(ctx context.Context, _ uuid.UUID, fn func(ledger.Tx) error) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	erased := false
	return b.db.EraseKeeping(ctx, func(c *database.Conn) error {
		tx := &transaction{b: b, c: c, now: time.UnixMicro(time.Now().UnixMicro()).UTC()}
		err := fn(tx)
		erased = tx.erased
		return err
	}, func() bool { return erased })
}

// Get implements [ledger.Backend].
func (b *Backend) Get(ctx context.Context, kind ledger.Kind, id uuid.UUID) (row *ledger.Row, err error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	err = b.db.ReadOnce(ctx, func(c *database.Conn) error {
		r, err := readRow(c, kind, id, true)
		if r != nil {
			row = &r.Row
		}
		return err
	})
	return row, err
}

// A transaction implements [ledger.Tx] on the writer's connection.
type transaction struct {
	b      *Backend
	c      *database.Conn
	now    time.Time
	erased bool // deleted data must be erased permanently
}

// Now implements [ledger.Tx].
func (tx *transaction) Now() time.Time { return tx.now }

// Get implements [ledger.Tx].
func (tx *transaction) Get(kind ledger.Kind, id uuid.UUID) (*ledger.Row, error) {
	r, err := tx.keptRow(rowKey{kind, id})
	if r == nil || err != nil {
		return nil, err
	}
	row := r.Row // the caller may modify the row
	return &row, nil
}

// Find implements [ledger.Tx].
func (tx *transaction) Find(q *ledger.Query) ([]*ledger.Row, error) {
	tx.checkKept()
	f, err := newFind(tx.c, q)
	if err != nil {
		return nil, err
	}
	var rows []*ledger.Row
	for !f.done {
		found, err := f.next(tx.c, maxRows)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			tx.b.kept.keep(r) // it will most likely be put next
			rows = append(rows, &r.Row)
		}
	}
	return rows, nil
}

// Put implements [ledger.Tx].
func (tx *transaction) Put(r *ledger.Row) error {
	put := &storedRow{Row: *r}
	put.terms = packTerms(r.Terms)
	if put.Doc == nil {
		put.Doc = []byte{}
	}
	if err := tx.putRow(put); err != nil {
		return err
	}
	if r.Body != nil {
		if _, err := tx.c.Change("INSERT OR REPLACE INTO server_body(row,body,sum) VALUES(?,?,?)", put.seq, r.Body, sumOfBody(put.seq, r.Body)); err != nil {
			return err
		}
	}
	tx.b.kept.keep(put)
	return nil
}

// Delete implements [ledger.Tx].
func (tx *transaction) Delete(kind ledger.Kind, id uuid.UUID) error {
	k := rowKey{kind, id}
	old, err := tx.keptRow(k)
	if err != nil || old == nil {
		return err
	}
	for _, q := range []string{"DELETE FROM server_row WHERE seq=?", "DELETE FROM server_body WHERE row=?"} {
		if _, err := tx.c.Change(q, old.seq); err != nil {
			return err
		}
	}
	tx.b.kept.rows.Delete(k)
	switch kind {
	case ledger.Assistants, ledger.Threads, ledger.Crons: // the other kinds expire by themselves
		tx.erased = true
	}
	return tx.changeTerms(&old.Row, old.terms, nil)
}
