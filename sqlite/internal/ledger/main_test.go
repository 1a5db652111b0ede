package ledger

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/sqlite/internal/databasetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(ledgerWriterEnv); path != "" {
		runUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}

// A testDB is a file with its ledger.
type testDB struct {
	conn   *database.DB
	ledger *Backend
}

func (db *testDB) Ledger() ledger.Backend { return db.ledger }

func (db *testDB) Close() error { return db.conn.Close() }

// openTest opens a file as sqlite.Open does.
func openTest(path string, opts *database.Options) (*testDB, error) {
	if opts == nil {
		opts = &database.Options{}
	}
	db := &testDB{}
	opts.Forget = func() { db.ledger.Forget() }
	var err error
	if db.conn, err = database.Open(path, opts); err != nil {
		return nil, err
	}
	db.ledger = New(db.conn, budget.New(1<<20), func(*budget.Budget) {})
	return db, nil
}

// open opens a file that is closed with the test.
func open(t testing.TB, path string) *testDB {
	t.Helper()
	databasetest.Create(t, path)
	db, err := openTest(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// checkFile reads and verifies the ledger's rows.
func checkFile(t testing.TB, db *testDB) {
	t.Helper()
	if err := db.conn.Read(t.Context(), Check); err != nil {
		t.Fatal(err)
	}
}
