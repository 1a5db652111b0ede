package studiotest_test

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/internal/browsertest"
	"github.com/treadle-go/treadle/internal/studiotest"
	"github.com/treadle-go/treadle/server"
	"github.com/treadle-go/treadle/sqlite"
)

// serve starts a server with the studio on a database of its own.
func serve(t *testing.T) string {
	t.Helper()
	graphs, err := studiotest.Graphs()
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(filepath.Join(t.TempDir(), "studio.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(db, graphs, &server.Options{Studio: true})
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(srv)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
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

func TestFlows(t *testing.T) {
	scripts, err := filepath.Glob("flows/*.mjs")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".mjs"), func(t *testing.T) {
			t.Parallel() // as many at a time as there are processors
			browsertest.Run(t, script, serve(t))
		})
	}
}
