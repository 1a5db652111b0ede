package database

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a file that is closed with the test.
func open(t *testing.T, path string) *DB {
	t.Helper()
	db, err := Open(path, &Options{})
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

// fill writes a row of size bytes to table filler.
func fill(t *testing.T, db *DB, size int) {
	t.Helper()
	err := db.Write(t.Context(), func(c *Conn) error {
		if err := c.Script("CREATE TABLE IF NOT EXISTS filler (data BLOB) STRICT"); err != nil {
			return err
		}
		_, err := c.Change("INSERT INTO filler VALUES(randomblob(?))", size)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// ask returns the first column of a query's first row.
func ask(t *testing.T, db *DB, query string) (n int) {
	t.Helper()
	err := db.Read(t.Context(), func(c *Conn) error {
		_, err := c.Row(query, nil, &n)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}
