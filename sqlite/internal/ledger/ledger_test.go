package ledger

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/internal/test/race"
	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/ledger/ledgertest"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/sqlite/internal/databasetest"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]func(*testing.T) string{
		"file":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "test.db") },
		"memory": func(*testing.T) string { return database.InMemory },
	} {
		if !race.Runs(name == "file") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.Run(t, func(t *testing.T) ledger.Backend { return open(t, path(t)).Ledger() })
		})
	}
}

// Whatever is done, the ledger in the file says what one in memory says.
func TestLedgerBehavesLikeMemory(t *testing.T) {
	t.Parallel()
	db := open(t, filepath.Join(t.TempDir(), "test.db"))
	ledgertest.Differential(t, func(*testing.T) ledger.Backend { return db.Ledger() })
	checkFile(t, db)
}

// A file has the tables of the ledger once somebody uses it. Those who use it first at
// the same time do not get in each other's way, and a table that is lost is not replaced
// by an empty one.
func TestLedgerTablesAreCreatedLazily(t *testing.T) {
	tables := func(db *testDB) int {
		return databasetest.Ask(t, db.conn, "SELECT count(*) FROM sqlite_schema WHERE type='table' AND name LIKE 'server%'")
	}
	path := filepath.Join(t.TempDir(), "test.db")
	var dbs []*testDB
	for range 3 {
		dbs = append(dbs, open(t, path))
	}
	checkFile(t, dbs[0])
	_ = dbs[0].Ledger()
	if n := tables(dbs[0]); n != 0 {
		t.Fatalf("a file without a server has %d of its tables", n)
	}
	var wg sync.WaitGroup
	for _, db := range dbs {
		for range 4 {
			wg.Go(func() {
				if row, err := db.Ledger().Get(t.Context(), ledger.Threads, uuid.New()); row != nil || err != nil {
					t.Error(row, err)
				}
			})
		}
	}
	wg.Wait()
	if n := tables(dbs[1]); n != 4 {
		t.Errorf("the ledger has %d tables, want 4", n)
	}
	err := dbs[0].conn.Write(t.Context(), func(c *database.Conn) error { return c.Script("DROP TABLE server_row") })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, path).Ledger().Get(t.Context(), ledger.Threads, uuid.New()); err == nil {
		t.Error("the ledger goes on without the table of its rows")
	}
}

// Once a thread was deleted, nothing of it or its runs is in any file.
func TestDeletedLedgerThreadIsInNoFile(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"))
	l := ledger.New(db.Ledger(), nil)
	secretThread := uuid.New()
	for i := range 60 {
		thread, text := uuid.New(), "harmless"
		if i%2 == 0 {
			thread, text = secretThread, databasetest.Secret
		}
		c, err := l.CreateRun(t.Context(), &ledger.NewRun{
			Run:            &ledger.Run{Thread: thread, Kwargs: fmt.Appendf(nil, `{"input":"%s %s"}`, text, strings.Repeat("x", i%9*900)), Metadata: ledger.Object{"about": text}},
			Create:         &ledger.Thread{},
			ThreadMetadata: ledger.Object{fmt.Sprint(text, i): text},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Append(t.Context(), &ledger.Events{Thread: thread, Run: c.Run.ID, First: uint64(i + 1), Last: uint64(i + 1), Data: []byte(text + strings.Repeat("x", 5000))}); err != nil {
			t.Fatal(err)
		}
	}
	if len(databasetest.InFiles(t, db.conn.Path)) == 0 {
		t.Fatal("the databasetest.Secret was never in the files")
	}
	if _, err := l.DeleteThread(t.Context(), secretThread, nil); err != nil {
		t.Fatal(err)
	}
	if found := databasetest.InFiles(t, db.conn.Path); len(found) > 0 {
		t.Errorf("the databasetest.Secret is still there: %v", found)
	}
	checkFile(t, db)
}

// A byte that changed in a row, a body or events is an error, and a check finds it, a
// term that is missing too.
func TestDamagedLedgerIsError(t *testing.T) {
	for name, query := range map[string]string{
		"a doc":    "UPDATE server_row SET doc=x'7b7d' WHERE kind=4",
		"a worker": "UPDATE server_row SET worker=randomblob(16) WHERE kind=4",
		"a status": "UPDATE server_row SET open=1-open WHERE kind=4",
		"a time":   "UPDATE server_row SET created=created+1 WHERE kind=4",
		"a body":   "UPDATE server_body SET body=x'7b7d'",
		"an id":    "UPDATE server_row SET id=randomblob(16) WHERE kind=4",
		"events":   "UPDATE server_event SET data=x'00'",
		"a term":   "DELETE FROM server_term",
		"a parent": "UPDATE server_row SET parent=x'00' WHERE kind=4",
		"no body":  "UPDATE server_body SET row=row+100",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "test.db")
			db := open(t, path)
			l := ledger.New(db.Ledger(), nil)
			thread := uuid.New()
			c, err := l.CreateRun(t.Context(), &ledger.NewRun{Run: &ledger.Run{Thread: thread, Kwargs: []byte(`{"a":1}`)}, Create: &ledger.Thread{Metadata: ledger.Object{"a": "b"}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Append(t.Context(), &ledger.Events{Thread: thread, Run: c.Run.ID, First: 1, Last: 1, Data: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			databasetest.Force(t, db.conn, query)
			_, runErr := l.Runs(t.Context(), thread, nil, "", ledger.Page{})
			for _, err := range l.Events(t.Context(), thread, uuid.Nil, 0) {
				runErr = errors.Join(runErr, err)
			}
			for _, err := range l.OpenRuns(t.Context(), nil) {
				runErr = errors.Join(runErr, err)
			}
			if name != "a term" && name != "a parent" && name != "no body" && !errors.Is(runErr, database.ErrDamaged) {
				t.Errorf("a reader finds %v", runErr)
			}
			if again, err := openTest(path, &database.Options{Check: Check}); !errors.Is(err, database.ErrDamaged) {
				t.Errorf("a check of the file finds %v", errors.Join(err, again.Close()))
			}
		})
	}
}
