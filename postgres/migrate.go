package postgres

import (
	"context"
	"embed"
	"fmt"
	"hash/fnv"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The table migration records which of these scripts have been applied, in the order of
// their names. A released script is never changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

// scripts contains the migrations, starting with the first.
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
// version. The SQL is one transaction, which does nothing if the schema is up to date.
// [DB.Migrate] runs the same SQL; use Migrations if an administrator must run it. An
// empty name means the default schema. For an invalid name, the result is an SQL comment
// that reports the error.
func Migrations(schema string) string {
	if schema == "" {
		schema = defaultSchema
	}
	quoted, err := quoteSchema(schema)
	if err != nil {
		return fmt.Sprintf("-- %v\n", err)
	}
	return migrationsUpTo(schema, quoted, len(scripts))
}

func migrationsUpTo(schema, quoted string, version int) string {
	literal := "'" + strings.ReplaceAll(schema, "'", "''") + "'"
	if strings.Contains(schema, `\`) {
		literal = " E" + strings.ReplaceAll(literal, `\`, `\\`)
	}
	var b strings.Builder
	// The lock serializes concurrent migrations.
	fmt.Fprintf(&b, `-- Treadle's checkpoints, store and ledger: schema %s, version %d.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock(%d);
DO $migration$ BEGIN
IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = %s) THEN
CREATE SCHEMA %s;
END IF;
END $migration$;
CREATE TABLE IF NOT EXISTS %[5]s.migration (version int PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
`, strings.ReplaceAll(quoted, "\n", " "), version, lockOf(schema), literal, quoted)
	for i, script := range scripts[:version] {
		fmt.Fprintf(&b, `
DO $migration$ BEGIN
IF NOT EXISTS (SELECT FROM %[1]s.migration WHERE version = %[2]d) THEN
%[3]s
INSERT INTO %[1]s.migration (version) VALUES (%[2]d);
END IF;
END $migration$;
`, quoted, i+1, strings.ReplaceAll(script, "{schema}", quoted))
	}
	if version == len(scripts) {
		// Build pgvector indexes, in case the extension was added since the last run.
		fmt.Fprintf(&b, "\nSELECT %s.store_index();\n", quoted)
	}
	b.WriteString("\nCOMMIT;\n")
	return b.String()
}

// lockOf returns the key of the advisory lock that migrations of a schema hold.
func lockOf(schema string) int64 {
	h := fnv.New64a()
	h.Write([]byte("treadle migration of " + schema))
	return int64(h.Sum64())
}

// Migrate creates the schema or updates it. The role must be allowed to create the schema
// or, if it exists, to create tables in it. Migrate does nothing if the schema is up to
// date. It returns ErrSchema if a later release has migrated the schema.
func (db *DB) Migrate(ctx context.Context) error {
	version, err := db.version(ctx)
	if err != nil {
		return err
	}
	if version < len(scripts) {
		err := db.write(ctx, func(c *pgx.Conn) error {
			// Multiple statements require the simple protocol.
			_, err := c.PgConn().Exec(ctx, migrationsUpTo(db.schema, db.quoted, len(scripts))).ReadAll()
			return err
		})
		if err != nil {
			return fmt.Errorf("migrate schema %s: %w", db.quoted, err)
		}
		if version, err = db.version(ctx); err != nil {
			return err
		}
	}
	return db.checkVersion(version)
}

// version returns the number of migrations applied to the schema.
func (db *DB) version(ctx context.Context) (version int, err error) {
	err = db.read(ctx, func(c *pgx.Conn) error {
		// The simple protocol avoids caching a description of the table, which may be
		// about to be created.
		return c.QueryRow(ctx, "SELECT coalesce(max(version), 0) FROM "+db.quoted+".migration", pgx.QueryExecModeSimpleProtocol).Scan(&version)
	})
	switch state(err) {
	case stateNoTable, stateNoSchema:
		return 0, nil
	case stateNoRight:
		return 0, fmt.Errorf("%w: this role may not read schema %s: see the GRANTs in the documentation of this package: %w", ErrSchema, db.quoted, err)
	}
	return version, err
}

func (db *DB) checkVersion(version int) error {
	const how = "open with Options.Migrate, or have the SQL of postgres.Migrations run"
	switch {
	case version == 0:
		return fmt.Errorf("%w: there is no schema %s with treadle's tables in this database: %s", ErrSchema, db.quoted, how)
	case version < len(scripts):
		return fmt.Errorf("%w: schema %s has version %d and this program needs %d: %s", ErrSchema, db.quoted, version, len(scripts), how)
	case version > len(scripts):
		return fmt.Errorf("%w: schema %s has version %d, but this program supports versions up to %d: a later release has migrated it; use that release", ErrSchema, db.quoted, version, len(scripts))
	}
	return nil
}
