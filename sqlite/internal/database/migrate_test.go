package database

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// later returns the migrations of a made-up later release.
func later(steps ...string) []string { return append(slices.Clone(migrations), steps...) }

// migrateTo applies scripts to the file of db.
func migrateTo(db *DB, scripts []string) error {
	c := <-db.Writer
	defer func() { db.Writer <- c }()
	return c.migrate(scripts)
}

func TestMigrateAppliesMissingSteps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path)
	fill(t, db, 1)
	scripts := later("ALTER TABLE meta ADD COLUMN added INTEGER NOT NULL DEFAULT 7",
		"CREATE TABLE more (x INTEGER) STRICT; INSERT INTO more SELECT added FROM meta", "UPDATE meta SET added=added+1")
	for range 2 { // the second time, nothing is missing
		if err := migrateTo(db, scripts); err != nil {
			t.Fatal(err)
		}
		if got := ask(t, db, "PRAGMA user_version"); got != len(migrations)+3 {
			t.Errorf("file version %d, want %d", got, len(migrations)+3)
		}
		if added, copied := ask(t, db, "SELECT added FROM meta"), ask(t, db, "SELECT x FROM more"); added != 8 || copied != 7 {
			t.Errorf("migrated values %d and %d, want 8 and 7", added, copied)
		}
	}
	if n := ask(t, db, "SELECT count(*) FROM filler"); n != 1 {
		t.Errorf("%d rows after the migration, want 1", n)
	}
	if db, err := Open(path, &Options{}); err == nil || !strings.Contains(err.Error(), "written by a later release") {
		t.Errorf("the earlier release opens the file: %v, %v", db, err)
	}
}

func TestFailedMigrationChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	db := open(t, path)
	err := migrateTo(db, later("CREATE TABLE more (x INTEGER) STRICT; UPDATE meta SET threads=99", "INSERT INTO missing VALUES (1)"))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("migrate to file version %d: ", len(migrations)+2)) {
		t.Errorf("error %v, want the version", err)
	}
	if version, tables, threads := ask(t, db, "PRAGMA user_version"), ask(t, db, "SELECT count(*) FROM sqlite_schema WHERE name='more'"), ask(t, db, "SELECT threads FROM meta"); version != len(migrations) || tables != 0 || threads != 0 {
		t.Errorf("file version %d, %d tables, %d threads; want %d, 0, 0", version, tables, threads, len(migrations))
	}
	fill(t, open(t, path), 1)
}

func TestNewFileGetsAllMigrations(t *testing.T) {
	db := open(t, InMemory)
	c := <-db.Writer
	err := c.close() // the next connection is to a new, empty database
	if err == nil {
		err = c.Ready()
	}
	db.Writer <- c
	if err == nil {
		err = migrateTo(db, later("CREATE TABLE more (x INTEGER) STRICT"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if version, id := ask(t, db, "PRAGMA user_version"), ask(t, db, "PRAGMA application_id"); version != len(migrations)+1 || id != applicationID {
		t.Errorf("file version %d, application ID %x; want %d, %x", version, id, len(migrations)+1, applicationID)
	}
	fill(t, db, 1)
}
