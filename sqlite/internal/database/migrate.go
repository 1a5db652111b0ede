package database

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
)

//go:embed schema.sql
var schema string

// migrations lists the scripts that create a file's tables and bring a file of an earlier
// release up to date. The file's user_version is the number of scripts that have been
// applied. To change the tables, append a script; a released script is never changed,
// because files depend on it.
var migrations = []string{schema}

// applicationID identifies the file as Treadle's in its header.
const applicationID = 0x7472646c

// isCurrent reports whether all scripts have been applied to the file. It returns an
// error if they cannot be applied. It takes no lock, so it works while another process
// writes.
func (c *Conn) isCurrent(scripts []string) (current bool, err error) {
	err = c.patiently(context.Background(), func() error {
		if _, err := c.Exec("BEGIN"); err != nil {
			return err
		}
		version, err := c.fileVersion(scripts)
		current = version == len(scripts)
		return errors.Join(err, c.Rollback())
	})
	return current, err
}

// migrate applies the missing scripts in one transaction. Processes that open the file at
// the same time migrate one after another.
func (c *Conn) migrate(scripts []string) error {
	if err := c.Begin(context.Background()); err != nil {
		return err
	}
	if err := c.migrateLocked(scripts); err != nil {
		return errors.Join(err, c.Rollback())
	}
	_, err := c.Exec("COMMIT")
	return err
}

func (c *Conn) migrateLocked(scripts []string) error {
	// Another process may have migrated the file before this one got the lock.
	version, err := c.fileVersion(scripts)
	if err != nil || version == len(scripts) {
		return err
	}
	for i, script := range scripts[version:] {
		if err := c.Script(script); err != nil {
			return fmt.Errorf("migrate to file version %d: %w", version+i+1, err)
		}
	}
	// These pragmas do not accept arguments. They are part of the transaction.
	return c.Script(fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", applicationID, len(scripts)))
}

// fileVersion returns the number of scripts that have been applied to the file: 0 if the
// file is new. It returns an error if the file was written by a later release or by
// another application.
func (c *Conn) fileVersion(scripts []string) (version int, err error) {
	var id, tables int
	if _, err := c.Row("PRAGMA user_version", nil, &version); err != nil {
		return 0, err
	}
	if _, err := c.Row("PRAGMA application_id", nil, &id); err != nil {
		return 0, err
	}
	if _, err := c.Row("SELECT count(*) FROM sqlite_schema", nil, &tables); err != nil {
		return 0, err
	}
	switch {
	case id == 0 && version == 0 && tables == 0:
		return 0, nil
	case id != applicationID:
		return 0, errors.New("database of another application")
	case version < 1:
		return 0, fmt.Errorf("%w: unknown file version %d", ErrDamaged, version)
	case version > len(scripts):
		return 0, fmt.Errorf("unsupported file version %d, want at most %d: written by a later release of Treadle", version, len(scripts))
	}
	return version, nil
}
