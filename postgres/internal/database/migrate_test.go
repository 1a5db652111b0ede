package database

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/internal/test/pgtest"
)

// wantSchemaError checks that opening the default schema fails with ErrSchema and a text
// that ends in want.
func wantSchemaError(t *testing.T, url string, opts *Options, want string) {
	t.Helper()
	db, err := Open(t.Context(), url, opts)
	if err == nil {
		db.Close()
		t.Errorf("opened, want %v, ending in\n%s", ErrSchema, want)
		return
	}
	if !errors.Is(err, ErrSchema) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("error\n%v\nwant %v, ending in\n%s", err, ErrSchema, want)
	}
}

const schemaRemedy = ": set Options.Migrate, or run the SQL that postgres.Migrations returns"

func TestOpenRejectsMissingSchema(t *testing.T) {
	server := pgtest.URL(t)
	const missing = `schema "treadle" is missing or not Treadle's` + schemaRemedy
	wantSchemaError(t, server, nil, missing)
	runScript(t, server, "CREATE SCHEMA treadle")
	wantSchemaError(t, server, nil, missing)
	runScript(t, server, "CREATE TABLE treadle.migration (version int); INSERT INTO treadle.migration VALUES (1)")
	wantSchemaError(t, server, nil, missing)
	open(t, server, &Options{Migrate: true}) // the table of the other program has another name
}

func TestMigrateRejectsForeignSchema(t *testing.T) {
	for name, script := range map[string]string{
		"table":    "CREATE TABLE treadle.store_item (id int)",
		"function": "CREATE FUNCTION treadle.shape_of(names bytea) RETURNS int LANGUAGE sql AS 'SELECT 1'",
	} {
		t.Run(name, func(t *testing.T) {
			server := pgtest.URL(t)
			runScript(t, server, "CREATE SCHEMA treadle; "+script)
			for range 2 { // the failed migration left nothing
				_, err := Open(t.Context(), server, &Options{Migrate: true})
				if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), `schema "treadle" belongs to another program: set Options.Schema to a new name: `) {
					t.Errorf("error %v, want %v", err, ErrSchema)
				}
			}
		})
	}
}

func TestOpenRejectsNewerSchema(t *testing.T) {
	server := pgtest.URL(t)
	db := open(t, server, &Options{Migrate: true})
	runScript(t, server, "INSERT INTO treadle.treadle_migration (version) VALUES (99)")
	newer := fmt.Sprintf(`schema "treadle" has version 99, but this release supports versions up to %d: use the release that migrated the schema, or a later one`, len(scripts))
	wantSchemaError(t, server, nil, newer)
	wantSchemaError(t, server, &Options{Migrate: true}, newer)
	if err := db.Migrate(t.Context()); !errors.Is(err, ErrSchema) {
		t.Errorf("migrate: %v, want %v", err, ErrSchema)
	}
	runScript(t, server, Migrations("")) // an administrator's script of the older release changes nothing
	wantSchemaError(t, server, nil, newer)
}

func TestMigrateUpgradesSchema(t *testing.T) {
	server := pgtest.URL(t)
	db := open(t, server, &Options{Migrate: true})
	runScript(t, server, "INSERT INTO treadle.thread (name, epoch) VALUES ('thread', 0)")
	old := len(db.scripts)
	newer := append(slices.Clone(db.scripts),
		"ALTER TABLE {schema}.thread ADD COLUMN note text;\nUPDATE {schema}.thread SET note = 'upgraded';",
		"CREATE INDEX thread_note ON {schema}.thread (note);")
	db.scripts = newer
	want := fmt.Sprintf(`schema "treadle" has version %d, but this release requires version %d%s`, old, old+2, schemaRemedy)
	if err := db.checkOrMigrate(t.Context(), false); !errors.Is(err, ErrSchema) || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("older schema: %v, want %v, ending in\n%s", err, ErrSchema, want)
	}

	// A script that fails undoes all scripts of the migration.
	db.scripts = append(slices.Clone(newer), "ALTER TABLE {schema}.thread ADD COLUMN note text;")
	if err := db.Migrate(t.Context()); err == nil {
		t.Error("migrated with a script that fails")
	}
	if version, err := db.version(t.Context()); err != nil || version != old {
		t.Errorf("version %d, %v after a failed migration, want %d", version, err, old)
	}

	db.scripts = newer
	for range 2 {
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		runScript(t, server, migrationSQL(db.Schema, db.Quoted, newer))
	}
	if version, err := db.version(t.Context()); err != nil || version != old+2 {
		t.Errorf("version %d, %v, want %d", version, err, old+2)
	}
	var note string
	if err := db.Pool.QueryRow(t.Context(), "SELECT note FROM treadle.thread WHERE name = 'thread'").Scan(&note); err != nil || note != "upgraded" {
		t.Errorf("note %q, %v", note, err)
	}
}

func TestConcurrentMigrations(t *testing.T) {
	url := pgtest.URL(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			db, err := Open(t.Context(), url, &Options{Migrate: true})
			if err != nil {
				t.Error(err)
				return
			}
			db.Close()
		})
	}
	wg.Wait()
}
