package sqlite

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

// The file's user_version is the number of these scripts that have been applied, in the
// order of their names. A released script is never changed, because files may depend on
// it.
//
//go:embed migrations/*.sql
var migrations embed.FS

// applicationID identifies the file as ours in its header.
const applicationID = 0x7472646c

// summedVersion is the first file version whose rows have checksums.
const summedVersion = 3

// leavesVersion is the first file version whose word index includes item values.
const leavesVersion = 5

func migrationNames() ([]string, error) { return fs.Glob(migrations, "migrations/*.sql") }

// isCurrent reports whether the file is up to date. It returns an error if the file
// cannot be migrated. It takes no lock, so it works while another process writes.
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

// migrate updates the file to the latest version. Processes that open it at the same time
// migrate one after another.
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
	// Another process may have migrated the file before this one got the lock.
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
	// These pragmas do not accept arguments. They are part of the transaction.
	for _, q := range []string{fmt.Sprintf("PRAGMA application_id=%d", applicationID), fmt.Sprintf("PRAGMA user_version=%d", len(names))} {
		if err := c.script(q); err != nil {
			return err
		}
	}
	return nil
}

// checkVersion reports whether the file is up to date. It returns an error if the file
// was written by a later release or by another application.
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
