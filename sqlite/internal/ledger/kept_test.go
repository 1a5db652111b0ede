package ledger

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/sqlite/internal/database"
	"github.com/treadle-go/treadle/sqlite/internal/databasetest"
)

func putDoc(t *testing.T, db *testDB, id uuid.UUID, doc string) error {
	t.Helper()
	return db.Ledger().Update(t.Context(), id, func(tx ledger.Tx) error {
		return tx.Put(&ledger.Row{Kind: ledger.Threads, ID: id, Doc: []byte(doc), Created: time.UnixMicro(1)})
	})
}

// wantDoc checks the document that a transaction reads; "" means that there is no row.
func wantDoc(t *testing.T, db *testDB, id uuid.UUID, want string) {
	t.Helper()
	err := db.Ledger().Update(t.Context(), id, func(tx ledger.Tx) error {
		r, err := tx.Get(ledger.Threads, id)
		if err != nil {
			return err
		}
		got := ""
		if r != nil {
			got = string(r.Doc)
			r.Doc, r.Open = []byte("not put"), true // the row is the caller's own
		}
		if got != want {
			t.Errorf("a transaction reads %q, want %q", got, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLedgerTxSeesWritesOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.db")
	here, there := open(t, path), open(t, path)
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	for i := range 20 {
		writer, reader := here, there
		if i%3 == 0 {
			writer, reader = there, here
		}
		for k, id := range ids {
			doc := fmt.Sprint("state ", i, " of ", k)
			if i == 10 {
				doc += strings.Repeat("x", keptDocMost) // too long to be kept
			}
			if err := putDoc(t, writer, id, doc); err != nil {
				t.Fatal(err)
			}
			wantDoc(t, reader, id, doc)
			wantDoc(t, writer, id, doc)
		}
		if i%5 == 4 {
			err := writer.Ledger().Update(t.Context(), ids[0], func(tx ledger.Tx) error { return tx.Delete(ledger.Threads, ids[0]) })
			if err != nil {
				t.Fatal(err)
			}
			wantDoc(t, reader, ids[0], "")
			wantDoc(t, writer, ids[0], "")
		}
	}
	checkFile(t, here)
}

func TestRollbackDropsCachedLedgerRows(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"))
	old, made := uuid.New(), uuid.New()
	if err := putDoc(t, db, old, "before"); err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	err := db.Ledger().Update(t.Context(), old, func(tx ledger.Tx) error {
		for _, id := range []uuid.UUID{old, made} {
			if err := tx.Put(&ledger.Row{Kind: ledger.Threads, ID: id, Doc: []byte("undone"), Created: time.UnixMicro(1)}); err != nil {
				return err
			}
		}
		return no
	})
	if !errors.Is(err, no) {
		t.Fatal(err)
	}
	wantDoc(t, db, old, "before")
	wantDoc(t, db, made, "")
	if err := putDoc(t, db, made, "after"); err != nil {
		t.Fatal(err)
	}
	checkFile(t, db)
}

// A row that is kept and was lost from the file is not put as if it were there.
func TestPutDetectsMissingLedgerRow(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "test.db"))
	id := uuid.New()
	if err := putDoc(t, db, id, "1"); err != nil {
		t.Fatal(err)
	}
	databasetest.Force(t, db.conn, "DELETE FROM server_row")
	if err := putDoc(t, db, id, "2"); !errors.Is(err, database.ErrDamaged) {
		t.Errorf("the row is put: %v, want %v", err, database.ErrDamaged)
	}
}
