package database

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The scripts in this directory, in the order of their names, take a schema from each
// version to the next. The first script creates the schema at version 1. A released
// script is never changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

// scripts contains the migrations. Script i takes a schema from version i to i+1.
var scripts = func() (out []string) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		panic(err) // invalid pattern
	}
	for _, name := range names {
		script, err := migrations.ReadFile(name)
		if err != nil {
			panic(err) // cannot happen: the file is embedded
		}
		out = append(out, string(script))
	}
	return out
}()

// Migrations returns the SQL that creates a schema or updates it from any earlier
// version: see postgres.Migrations.
func Migrations(schema string) string {
	if schema == "" {
		schema = defaultSchema
	}
	quoted, err := quoteSchema(schema)
	if err != nil {
		return fmt.Sprintf("-- %v\n", err)
	}
	return migrationSQL(schema, quoted, scripts)
}

// migrationSQL returns the SQL that applies the scripts that a schema lacks. The table
// treadle_migration lists the applied scripts by the version that each resulted in.
func migrationSQL(schema, quoted string, scripts []string) string {
	literal := "'" + strings.ReplaceAll(schema, "'", "''") + "'"
	if strings.Contains(schema, `\`) {
		literal = " E" + strings.ReplaceAll(literal, `\`, `\\`)
	}
	var b strings.Builder
	// The lock serializes concurrent migrations.
	fmt.Fprintf(&b, `-- Treadle's checkpoints, store, and ledger: schema %s, version %d.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock(%d);
DO $migration$ BEGIN
IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s) THEN
CREATE SCHEMA %s;
END IF;
END $migration$;
CREATE TABLE IF NOT EXISTS %[5]s.treadle_migration (version int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
`, strings.ReplaceAll(quoted, "\n", " "), len(scripts), lockOf(schema), literal, quoted)
	for i, script := range scripts {
		fmt.Fprintf(&b, `
DO $migration$ BEGIN
IF NOT EXISTS (SELECT FROM %[1]s.treadle_migration WHERE version >= %[2]d) THEN
%[3]s
INSERT INTO %[1]s.treadle_migration (version) VALUES (%[2]d);
END IF;
END $migration$;
`, quoted, i+1, strings.ReplaceAll(script, "{schema}", quoted))
	}
	// Build pgvector indexes, in case the extension was added since the last run.
	fmt.Fprintf(&b, "\nSELECT %s.store_index();\n\nCOMMIT;\n", quoted)
	return b.String()
}

// lockOf returns the key of the advisory lock that migrations of a schema hold.
func lockOf(schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("treadle migration of " + schema))
	return int64(h.Sum64())
}

// Migrate creates the schema or updates it: see postgres.DB.Migrate.
func (db *DB) Migrate(ctx context.Context) error {
	version, err := db.version(ctx)
	if err != nil {
		return err
	}
	if version < len(db.scripts) {
		err := db.Write(ctx, func(c *pgx.Conn) error {
			// Multiple statements require the simple protocol.
			_, err := c.PgConn().Exec(ctx, migrationSQL(db.Schema, db.Quoted, db.scripts)).ReadAll()
			return err
		})
		switch State(err) {
		case stateTableExists, stateFunctionExists:
			return fmt.Errorf("%w: schema %s belongs to another program: set Options.Schema to a new name: %w", ErrSchema, db.Quoted, err)
		}
		if err != nil {
			return opError{"migrate schema " + db.Quoted, err}
		}
		if version, err = db.version(ctx); err != nil {
			return err
		}
	}
	return db.checkVersion(version)
}

// version returns the schema's version, or 0 if the schema does not contain Treadle's
// tables.
func (db *DB) version(ctx context.Context) (version int, err error) {
	err = db.Read(ctx, func(c *pgx.Conn) error {
		// The simple protocol avoids caching a description of the table, which may be
		// about to be created.
		return c.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM "+db.Quoted+".treadle_migration", pgx.QueryExecModeSimpleProtocol).Scan(&version)
	})
	switch State(err) {
	case stateNoTable, stateNoSchema:
		return 0, nil
	case stateNoRight:
		return 0, fmt.Errorf("%w: role may not read schema %s: run the GRANTs in the documentation of package postgres: %w", ErrSchema, db.Quoted, err)
	}
	return version, err
}

func (db *DB) checkVersion(version int) error {
	const remedy = "set Options.Migrate, or run the SQL that postgres.Migrations returns"
	switch supported := len(db.scripts); {
	case version == 0:
		return fmt.Errorf("%w: schema %s is missing or not Treadle's: %s", ErrSchema, db.Quoted, remedy)
	case version < supported:
		return fmt.Errorf("%w: schema %s has version %d, but this release requires version %d: %s", ErrSchema, db.Quoted, version, supported, remedy)
	case version > supported:
		return fmt.Errorf("%w: schema %s has version %d, but this release supports versions up to %d: use the release that migrated the schema, or a later one", ErrSchema, db.Quoted, version, supported)
	}
	return nil
}
