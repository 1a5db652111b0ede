package postgres

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

func TestScrubVacuumsAllTables(t *testing.T) {
	for name, o := range modes {
		t.Run(name, func(t *testing.T) {
			db := fresh(t, quick(t), o)
			if err := db.Scrub(t.Context()); err != nil {
				t.Fatal(err)
			}
			var tables, vacuumed int
			err := db.conn.Read(t.Context(), func(c *pgx.Conn) error {
				return c.QueryRow(t.Context(), "SELECT count(*), count(last_vacuum) FROM pg_stat_all_tables WHERE schemaname = $1", db.conn.Schema).Scan(&tables, &vacuumed)
			})
			if err != nil || tables < 10 || vacuumed != tables {
				t.Errorf("%d of %d tables were vacuumed, %v", vacuumed, tables, err)
			}
		})
	}
}

// A VACUUM of somebody else's table does nothing and succeeds.
func TestScrubReportsMissingPrivilege(t *testing.T) {
	server := quick(t)
	owner := fresh(t, server, Options{})
	role := strings.ReplaceAll(databasetest.NewSchema(), " ", "_reader_")
	exec := func(ctx context.Context, statements string) {
		t.Helper()
		err := owner.conn.Read(ctx, func(c *pgx.Conn) error {
			_, err := c.Exec(ctx, strings.ReplaceAll(strings.ReplaceAll(statements, "{schema}", owner.conn.Quoted), "{role}", role), pgx.QueryExecModeSimpleProtocol)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	exec(t.Context(), `CREATE ROLE {role} LOGIN PASSWORD 'secret'; GRANT USAGE ON SCHEMA {schema} TO {role};
		GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}`)
	t.Cleanup(func() { exec(context.WithoutCancel(t.Context()), "DROP OWNED BY {role}; DROP ROLE {role}") })
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "secret")
	db := open(t, u.String(), &Options{Schema: owner.conn.Schema})
	if err := db.Scrub(t.Context()); err == nil || !strings.Contains(err.Error(), "may not VACUUM tables cache, checkpoint") {
		t.Errorf("the error is %v", err)
	}
}
