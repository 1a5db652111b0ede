package items

import (
	"log/slog"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtest uses
	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/test/pgtest"
	"github.com/treadle-go/treadle/postgres/internal/database"
	"github.com/treadle-go/treadle/postgres/internal/databasetest"
	"github.com/treadle-go/treadle/store"
)

// tests stops the server before goroutines are counted.
type tests struct{ *testing.M }

func (t tests) Run() int { return pgtest.Run(t.M) }

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(tests{m})
}

// A testDB is a schema with the backend of its stores.
type testDB struct {
	conn    *database.DB
	backend *Backend
}

func newTestDB(db *database.DB) *testDB { return &testDB{db, New(db)} }

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

func storeOf(t testing.TB, db *testDB, opts *store.Options) *store.Store {
	t.Helper()
	s, err := store.New(db.backend, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
