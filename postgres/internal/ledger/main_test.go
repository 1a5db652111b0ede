package ledger

import (
	"log/slog"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtest uses
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
)

// tests stops the server before goroutines are counted.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // faults are injected, so warnings are expected
	if at := os.Getenv(ledgerWriterEnv); at != "" {
		runUntilKilled(at)
	}
	goleak.VerifyTestMain(tests{m})
}

// A testDB is a schema with its ledger.
type testDB struct {
	conn    *database.DB
	ledger  ledger.Backend
	backend *backend // the ledger, without attending
}

// newTestDB returns db with both forms of its ledger, which share their state.
func newTestDB(db *database.DB) *testDB {
	t := &testDB{conn: db, ledger: New(db, func(ledger.Memory) {})}
	switch b := t.ledger.(type) {
	case *backend:
		t.backend = b
	case *witness:
		t.backend = b.backend
	}
	return t
}

func (db *testDB) Ledger() ledger.Backend { return db.ledger }

// open opens a schema that is closed with the test.
func open(t testing.TB, url string, opts *database.Options) *testDB {
	t.Helper()
	return newTestDB(databasetest.Open(t, url, opts))
}

// fresh opens a new schema.
func fresh(t testing.TB, url string, opts database.Options) *testDB {
	t.Helper()
	return newTestDB(databasetest.Fresh(t, url, opts))
}
