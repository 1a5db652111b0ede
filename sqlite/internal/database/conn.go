package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	modernc "modernc.org/sqlite"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/delay"
)

// A Conn is a connection with its prepared statements. Only one goroutine may use it at a
// time. There are few connections, they live as long as the database, and each statement
// runs many times, so the pool of database/sql would add nothing.
//
// Statements run without the caller's context, because the driver abandons an interrupted
// connection. Callers check their contexts while they wait for a connection and between
// statements.
type Conn struct {
	connector driver.Connector
	setup     []string
	raw       driver.Conn // nil until first needed
	stmts     map[string]*stmt
	args      []driver.NamedValue // arguments of the running statement
	Dirty     bool                // something was written since this was last set to false
	Writes    bool                // this is the writer's connection; the fields below are for it only
	Version   int64               // see Look
	data      uint32              // SQLite's data version of the state that Version refers to
}

type stmt struct {
	driver.Stmt
	row []driver.Value
}

// Ready opens the connection if it is not open.
func (c *Conn) Ready() (err error) {
	if c.raw != nil {
		return nil
	}
	if c.raw, err = c.connector.Connect(context.Background()); err != nil {
		return err
	}
	c.stmts = map[string]*stmt{}
	for _, q := range c.setup {
		if err := c.Script(q); err != nil {
			return errors.Join(err, c.close())
		}
	}
	return nil
}

func (c *Conn) close() error {
	if c.raw == nil {
		return nil
	}
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	errs = append(errs, c.raw.Close())
	c.raw, c.stmts = nil, nil
	return errors.Join(errs...)
}

// Script runs statements that have no arguments and run only once.
func (c *Conn) Script(text string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

// walMode switches the file to WAL mode, which is persistent. Two processes that create
// the file at the same time briefly block each other.
func (c *Conn) walMode() error {
	return c.patiently(context.Background(), func() error {
		var mode string
		if _, err := c.Row("PRAGMA journal_mode=WAL", nil, &mode); err != nil {
			return err
		}
		if !strings.EqualFold(mode, "wal") {
			return fmt.Errorf("file system lacks the shared memory that WAL requires: journal mode is %q", mode)
		}
		return nil
	})
}

// patiently retries try while another process holds the lock, until the context ends.
// SQLite waits for up to lockTry in each attempt.
func (c *Conn) patiently(ctx context.Context, try func() error) error {
	if err := try(); !isBusy(err) { // the usual case
		return err
	}
	for start := time.Now(); ; {
		begun := time.Now()
		err := try()
		if !isBusy(err) {
			return err
		}
		if time.Since(start) > lockWait {
			return fmt.Errorf("sqlite: file locked by another process for %s: %w", lockWait, err)
		}
		// SQLite does not wait for some locks.
		if delay.For(ctx, max(0, lockTry/10-time.Since(begun))) != nil {
			return fmt.Errorf("sqlite: file locked by another process: %w: %w", context.Cause(ctx), err)
		}
	}
}

// isBusy reports whether err means that another connection holds the lock.
func isBusy(err error) bool {
	k := code(err)
	return k == codeBusy || k == codeLocked
}

func (c *Conn) prepare(query string) (*stmt, error) {
	if s := c.stmts[query]; s != nil {
		return s, nil
	}
	raw, err := c.raw.(driver.ConnPrepareContext).PrepareContext(context.Background(), query)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, query)
	}
	s := &stmt{Stmt: raw}
	c.stmts[query] = s
	return s, nil
}

// bind converts arguments to the driver's form.
func (c *Conn) bind(args []any) []driver.NamedValue {
	c.args = c.args[:0]
	for i, a := range args {
		if n, ok := a.(int); ok {
			a = int64(n)
		}
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return c.args
}

func (c *Conn) run(query string, args []any) (driver.Result, error) {
	s, err := c.prepare(query)
	if err != nil {
		return nil, err
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(context.Background(), c.bind(args))
}

// Exec runs a statement and returns the number of changed rows.
func (c *Conn) Exec(query string, args ...any) (int64, error) {
	res, err := c.run(query, args)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Change is like Exec, but for statements that write.
func (c *Conn) Change(query string, args ...any) (int64, error) {
	n, err := c.Exec(query, args...)
	if n > 0 || err != nil {
		c.Dirty = true
	}
	return n, err
}

// Insert is like Change, but returns the ID of the inserted row.
func (c *Conn) Insert(query string, args ...any) (int64, error) {
	c.Dirty = true
	res, err := c.run(query, args)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// Row scans the first row of a query and reports whether it exists.
func (c *Conn) Row(query string, args []any, dest ...any) (found bool, err error) {
	err = c.Each(query, args, func(scan func(...any) error) error {
		found = true
		if err := scan(dest...); err != nil {
			return err
		}
		return io.EOF
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return found && err == nil, err
}

// Each calls do for every row of a query and stops at the first error; do must not run
// the same query. The caller owns the scanned bytes.
func (c *Conn) Each(query string, args []any, do func(scan func(...any) error) error) (err error) {
	s, err := c.prepare(query)
	if err != nil {
		return err
	}
	rows, err := s.Stmt.(driver.StmtQueryContext).QueryContext(context.Background(), c.bind(args))
	if err != nil {
		return err
	}
	defer func() {
		e := rows.Close()
		if err == nil {
			err = e
		}
	}()
	if s.row == nil {
		s.row = make([]driver.Value, len(rows.Columns()))
	}
	scan := func(dest ...any) error {
		for i, d := range dest {
			if err := assign(d, s.row[i]); err != nil {
				return fmt.Errorf("%w: column %d of %s: %w", ErrDamaged, i, query, err)
			}
		}
		return nil
	}
	for {
		switch err := rows.Next(s.row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := do(scan); err != nil {
			return err
		}
	}
}

// assign stores a database value in the variable that dest points to. NULL becomes the
// zero value.
func assign(dest any, v driver.Value) error {
	number, isNumber := v.(int64)
	raw, isBytes := v.([]byte)
	text, isText := v.(string)
	ok := v == nil
	switch d := dest.(type) {
	case *int64:
		*d, ok = number, ok || isNumber
	case *uint64:
		*d, ok = uint64(number), ok || isNumber
	case *int:
		*d, ok = int(number), ok || isNumber
	case *bool:
		*d, ok = number != 0, ok || isNumber
	case *[]byte:
		*d, ok = raw, ok || isBytes
	case *checkpoint.ID:
		ok = ok || isBytes && len(raw) == len(d)
		copy(d[:], raw)
	case *checkpoint.WriteKind:
		*d, ok = checkpoint.WriteKind(raw), ok || isBytes
	case *string:
		*d, ok = text+string(raw), ok || isBytes || isText
	default:
		return fmt.Errorf("cannot scan into %T", dest)
	}
	if !ok {
		return fmt.Errorf("cannot scan %T into %T", v, dest)
	}
	return nil
}

// Look increments the version if other connections have written to the file since the
// last Look or this connection's last commit. SQLite notices such writes when a
// transaction or statement begins, so Look must be called after that.
func (c *Conn) Look() {
	data, err := c.dataVersion()
	if err != nil || data != c.data {
		c.Version++
	}
	c.data = data
}

// dataVersion returns a number that changes with every commit, including this
// connection's. (PRAGMA data_version ignores this connection's commits, but takes as long
// as a statement.)
func (c *Conn) dataVersion() (uint32, error) {
	return c.raw.(modernc.FileControl).FileControlDataVersion("main")
}
