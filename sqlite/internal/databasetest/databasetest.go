// Package databasetest contains what the tests of package sqlite and of the packages
// below it share.
package databasetest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// Create writes an empty database to path, unless the file exists. Copying one is much
// faster than creating its tables.
func Create(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Stat(path); path == database.InMemory || !errors.Is(err, fs.ErrNotExist) {
		return
	}
	raw, err := emptyFile()
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// emptyFile returns the content of a file that Open has created.
var emptyFile = sync.OnceValues(func() (raw []byte, err error) {
	dir, err := os.MkdirTemp("", "treadle")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "empty.db")
	db, err := database.Open(path, &database.Options{})
	if err != nil {
		return nil, err
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// Open opens a database that is closed with the test.
func Open(t testing.TB, path string, opts *database.Options) *database.DB {
	t.Helper()
	Create(t, path)
	db, err := database.Open(path, opts)
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

// Ask returns the first column of a query's first row.
func Ask(t testing.TB, db *database.DB, query string, args ...any) (n int) {
	t.Helper()
	err := db.Read(t.Context(), func(c *database.Conn) error {
		ok, err := c.Row(query, args, &n)
		if err == nil && !ok {
			t.Fatalf("%s: no row", query)
		}
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// Force changes the file without updating any cache or checksum.
func Force(t testing.TB, db *database.DB, query string) {
	t.Helper()
	err := db.Write(t.Context(), func(c *database.Conn) error {
		n, err := c.Change(query)
		if err == nil && n == 0 {
			t.Errorf("%s: nothing changed", query)
		}
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// Secret is a word that does not occur in a database by chance.
const Secret = "Zebrapox"

// InFiles returns the files of a database that contain the secret, in any case.
func InFiles(t testing.TB, path string) (found []string) {
	t.Helper()
	for _, end := range []string{"", "-wal", "-shm"} {
		raw, err := os.ReadFile(path + end)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if n := bytes.Count(bytes.ToLower(raw), []byte(strings.ToLower(Secret))); n > 0 {
			found = append(found, fmt.Sprintf("%d times in %s", n, filepath.Base(path)+end))
		}
	}
	return found
}
