package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/postgres/internal/database"
)

// vacuumed lists the tables of a schema and whether the role may VACUUM them. Without the
// privilege, VACUUM succeeds but does nothing. Postgres versions before 17 do not support
// the MAINTAIN privilege.
const vacuumed = `SELECT c.relname, pg_has_role(c.relowner, 'USAGE') OR pg_has_role(d.datdba, 'USAGE') OR
	CASE WHEN current_setting('server_version_num')::int >= 170000 THEN has_table_privilege(c.oid, 'MAINTAIN') ELSE false END
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_database d ON d.datname = current_database()
	WHERE n.nspname = $1 AND c.relkind = 'r' ORDER BY c.relname`

// Scrub implements [checkpoint.Scrubber]. It runs VACUUM on all tables of the schema,
// which removes deleted rows and their index entries unless a transaction can still see
// them. VACUUM does not block reads or writes. It reads all pages that have changed since
// the previous VACUUM. It does not overwrite unused space in files: only VACUUM FULL
// does, under an exclusive lock. The package documentation lists the other places where
// deleted data may remain.
func (db *DB) Scrub(ctx context.Context) error {
	var tables, refused []string
	err := db.conn.Read(ctx, func(c *pgx.Conn) error {
		tables, refused = nil, nil
		var table string
		var may bool
		return database.Each(ctx, c, vacuumed, []any{db.conn.Schema}, []any{&table, &may}, func() error {
			tables = append(tables, db.conn.Quoted+"."+pgx.Identifier{table}.Sanitize())
			if !may {
				refused = append(refused, table)
			}
			return nil
		})
	})
	switch {
	case err != nil:
		return err
	case len(refused) > 0:
		return fmt.Errorf("postgres: scrub: role may not VACUUM tables %s of schema %s: run VACUUM as their owner, or grant MAINTAIN to the role (Postgres 17)", strings.Join(refused, ", "), db.conn.Schema)
	case len(tables) == 0:
		return fmt.Errorf("%w: no tables in schema %s", ErrSchema, db.conn.Schema)
	}
	return db.conn.Read(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "VACUUM "+strings.Join(tables, ", "))
		return err
	})
}
