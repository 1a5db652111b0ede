package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

// The file's user_version is how many of these it has seen, in the order of
// their names. One that was released is never changed: a file may have seen it.
//
//go:embed migrations/*.sql
var migrations embed.FS

// applicationID in a file's header says that the file is ours.
const applicationID = 0x7472646c

// summedVersion is the one from which on rows have checksums.
const summedVersion = 3

// leavesVersion is the one from which on the index of words has the values of items.
const leavesVersion = 5

func migrationNames() ([]string, error) { return fs.Glob(migrations, "migrations/*.sql") }

// isCurrent reports whether the file is up to date, and refuses one that cannot
// be brought there. It needs no lock, so it can be done while somebody writes.
func (c *conn) isCurrent() (current bool, err error) {
	err = c.patiently(context.Background(), func() error {
		if _, err := c.exec("BEGIN"); err != nil {
			return err
		}
		current, err = c.checkVersion()
		return errors.Join(err, c.rollback())
	})
	return current, err
}

// migrate brings the file up to date. Processes that open it at the same time
// do so one after another.
func (c *conn) migrate() error {
	if err := c.begin(context.Background()); err != nil {
		return err
	}
	if err := c.migrateLocked(); err != nil {
		return errors.Join(err, c.rollback())
	}
	_, err := c.exec("COMMIT")
	return err
}

func (c *conn) migrateLocked() error {
	// Another process may have done it before we had the lock.
	if current, err := c.checkVersion(); current || err != nil {
		return err
	}
	names, err := migrationNames()
	if err != nil {
		return err
	}
	var version int
	if _, err := c.row("PRAGMA user_version", nil, &version); err != nil {
		return err
	}
	for i, name := range names {
		if i < version {
			continue
		}
		script, err := migrations.ReadFile(name)
		if err != nil {
			return err
		}
		if err := c.script(string(script)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if i+1 == summedVersion {
			if err := c.sumOldRows(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		if i+1 == leavesVersion {
			if err := c.indexOldLeaves(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	// These cannot be given as arguments, and they are part of the transaction.
	for _, q := range []string{fmt.Sprintf("PRAGMA application_id=%d", applicationID), fmt.Sprintf("PRAGMA user_version=%d", len(names))} {
		if err := c.script(q); err != nil {
			return err
		}
	}
	return nil
}

// checkVersion reports whether the file is up to date, and refuses one that is
// of a later version of this package or not ours.
func (c *conn) checkVersion() (current bool, err error) {
	names, err := migrationNames()
	if err != nil {
		return false, err
	}
	latest := len(names)
	var version, id, tables int
	if _, err := c.row("PRAGMA user_version", nil, &version); err != nil {
		return false, err
	}
	if _, err := c.row("PRAGMA application_id", nil, &id); err != nil {
		return false, err
	}
	if _, err := c.row("SELECT count(*) FROM sqlite_schema", nil, &tables); err != nil {
		return false, err
	}
	switch {
	case id != applicationID && (id != 0 || version != 0 || tables != 0):
		return false, errors.New("it is the database of another application")
	case version > latest:
		return false, fmt.Errorf("the file has version %d and this program knows versions up to %d: it was written by a later release", version, latest)
	}
	return version == latest, nil
}
