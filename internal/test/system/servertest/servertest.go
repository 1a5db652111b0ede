// Package servertest starts graph servers for tests of other packages.
package servertest

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// Start serves graphs from a new database until the test ends, and returns the server's
// address.
func Start(t testing.TB, opts *server.Options, graphs []treadle.AnyGraph) string {
	t.Helper()
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "test.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(db, graphs, opts)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := srv.Drain(ctx); err != nil {
			t.Error(err)
		}
		hs.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return hs.URL
}
