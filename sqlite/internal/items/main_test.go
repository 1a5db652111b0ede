package items

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/sqlite/internal/databasetest"
	"github.com/treadle-go/treadle/store"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(storeWriterEnv); path != "" {
		putUntilKilled(path)
	}
	if path := os.Getenv(mergerEnv); path != "" {
		mergeUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}

// A testDB is a file with the backend of its stores.
type testDB struct {
	conn  *database.DB
	items *Backend
}

func (db *testDB) Store(opts *store.Options) (*store.Store, error) { return store.New(db.items, opts) }

func (db *testDB) Close() error { return db.conn.Close() }

// openTest opens a file as sqlite.Open does.
func openTest(path string, opts *database.Options) (*testDB, error) {
	if opts == nil {
		opts = &database.Options{}
	}
	db := &testDB{}
	opts.Forget = func() { db.items.Forget() }
	var err error
	if db.conn, err = database.Open(path, opts); err != nil {
		return nil, err
	}
	db.items = New(db.conn)
	return db, nil
}

// open opens a file that is closed with the test.
func open(t testing.TB, path string, opts *database.Options) *testDB {
	t.Helper()
	databasetest.Create(t, path)
	db, err := openTest(path, opts)
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

func storeOf(t testing.TB, db *testDB, opts *store.Options) *store.Store {
	t.Helper()
	s, err := db.Store(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
