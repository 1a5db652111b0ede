package database

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtest uses
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/pgtest"
)

// tests stops the server before goroutines are counted.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(tests{m})
}

// open opens a schema that is closed with the test.
func open(t *testing.T, url string, opts *Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// runScript executes a script in a connection of its own, as an administrator would.
func runScript(t *testing.T, url, script string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if _, err := c.PgConn().Exec(t.Context(), script).ReadAll(); err != nil {
		t.Fatalf("%v\n%s", err, script)
	}
}
