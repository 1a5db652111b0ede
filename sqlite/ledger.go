package sqlite

import (
	"context"
	_ "embed"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
)

// Ledger returns the backend of a server's ledger in the same file. It is closed with the
// DB. Several processes can use it at the same time.
func (db *DB) Ledger() ledger.Backend { return &ledgerBackend{db} }

// A ledgerBackend stores the rows and events of a server. SQLite allows one writer, so
// all transactions run one after another, regardless of their locks.
type ledgerBackend struct{ db *DB }

var _ ledger.Backend = (*ledgerBackend)(nil)

//go:embed ledger.sql
var ledgerTables string

// ready creates the ledger's tables if they do not exist. Every method calls it first.
func (b *ledgerBackend) ready(ctx context.Context) error {
	if b.db.hasLedger.Load() {
		return nil
	}
	err := b.db.writeKeeping(ctx, func(c *conn) error {
		if has, err := c.hasLedger(); has || err != nil {
			return err
		}
		c.dirty = true
		return c.script(ledgerTables)
	})
	if err == nil {
		b.db.hasLedger.Store(true)
	}
	return err
}

// hasLedger reports whether the file has any ledger table. If it has one, it should have
// all: a missing table must not be replaced by an empty one.
func (c *conn) hasLedger() (bool, error) {
	var name string
	return c.row("SELECT name FROM sqlite_schema WHERE name GLOB 'server_*' LIMIT 1", nil, &name)
}

// Update implements [ledger.Backend]. It is a job in the queue (commit.go), so the
// transactions of many callers share a commit.
func (b *ledgerBackend) Update(ctx context.Context, _ uuid.UUID, fn func(ledger.Tx) error) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	erased := false
	return b.db.eraseKeeping(ctx, func(c *conn) error {
		tx := &ledgerTx{c: c, now: time.UnixMicro(time.Now().UnixMicro()).UTC()}
		err := fn(tx)
		erased = tx.erased
		return err
	}, func() bool { return erased })
}

// Get implements [ledger.Backend].
func (b *ledgerBackend) Get(ctx context.Context, kind ledger.Kind, id uuid.UUID) (row *ledger.Row, err error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	err = b.db.readOnce(ctx, func(c *conn) error {
		r, err := c.ledgerRow(kind, id, true)
		if r != nil {
			row = &r.Row
		}
		return err
	})
	return row, err
}

// A ledgerTx is a transaction on the writer's connection.
type ledgerTx struct {
	c      *conn
	now    time.Time
	erased bool // deleted data must be erased permanently
}

// Now implements [ledger.Tx].
func (tx *ledgerTx) Now() time.Time { return tx.now }

// Get implements [ledger.Tx].
func (tx *ledgerTx) Get(kind ledger.Kind, id uuid.UUID) (*ledger.Row, error) {
	r, err := tx.c.keptRow(ledgerKey{kind, id})
	if r == nil || err != nil {
		return nil, err
	}
	row := r.Row // the caller may modify the row
	return &row, nil
}

// Find implements [ledger.Tx].
func (tx *ledgerTx) Find(q *ledger.Query) ([]*ledger.Row, error) {
	tx.c.checkKept()
	f, err := tx.c.newLedgerFind(q)
	if err != nil {
		return nil, err
	}
	var rows []*ledger.Row
	for !f.done {
		found, err := f.next(tx.c, maxLedgerRows)
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			tx.c.ledger.keep(r) // it will most likely be put next
			rows = append(rows, &r.Row)
		}
	}
	return rows, nil
}

// Put implements [ledger.Tx].
func (tx *ledgerTx) Put(r *ledger.Row) error {
	put := &ledgerRow{Row: *r}
	put.terms = packTerms(r.Terms)
	if put.Doc == nil {
		put.Doc = []byte{}
	}
	if err := tx.c.putLedgerRow(put); err != nil {
		return err
	}
	if r.Body != nil {
		if _, err := tx.c.change("INSERT OR REPLACE INTO server_body(row,body,sum) VALUES(?,?,?)", put.seq, r.Body, serverBodySum(put.seq, r.Body)); err != nil {
			return err
		}
	}
	tx.c.ledger.keep(put)
	return nil
}

// Delete implements [ledger.Tx].
func (tx *ledgerTx) Delete(kind ledger.Kind, id uuid.UUID) error {
	k := ledgerKey{kind, id}
	old, err := tx.c.keptRow(k)
	if err != nil || old == nil {
		return err
	}
	for _, q := range []string{"DELETE FROM server_row WHERE seq=?", "DELETE FROM server_body WHERE row=?"} {
		if _, err := tx.c.change(q, old.seq); err != nil {
			return err
		}
	}
	tx.c.ledger.rows.Delete(k)
	switch kind {
	case ledger.Assistants, ledger.Threads, ledger.Crons: // the other kinds expire by themselves
		tx.erased = true
	}
	return tx.c.changeTerms(&old.Row, old.Terms, nil)
}
