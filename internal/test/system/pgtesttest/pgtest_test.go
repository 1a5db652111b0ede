// Package pgtesttest tests pgtest and netfault with a Postgres client, which their module
// does not require.
package pgtesttest

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver that pgtest uses

	"github.com/treadle-go/treadle/internal/test/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestEachDatabaseIsFresh(t *testing.T) {
	urls := map[string]bool{}
	for range 2 {
		url := pgtest.URL(t)
		urls[url] = true
		c := connect(t, url)
		if _, err := c.Exec(t.Context(), "CREATE TABLE mark (n int)"); err != nil {
			t.Errorf("database is not fresh: %v", err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(urls) != 2 {
		t.Errorf("two databases have one URL: %v", urls)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestServerEndsWithoutLeavingFiles(t *testing.T) {
	var url, dir string
	t.Run("server", func(t *testing.T) {
		url = pgtest.New(t).URL()
		c := connect(t, url)
		if err := c.QueryRow(t.Context(), "SHOW data_directory").Scan(&dir); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if c, err := pgx.Connect(t.Context(), url); err == nil {
		t.Errorf("server still responds: %v", c.Close(t.Context()))
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s still exists: %v", dir, err)
	}
}

func TestServerCanBeStoppedAndRestarted(t *testing.T) {
	p := pgtest.New(t)
	for _, statement := range []string{"CREATE TABLE mark (n int)", "INSERT INTO mark VALUES (1)"} {
		c := connect(t, p.URL())
		if _, err := c.Exec(t.Context(), statement); err != nil {
			t.Error(err)
		}
		p.Stop()
		if err := c.Ping(t.Context()); err == nil {
			t.Error("session outlives its server")
		}
		_ = c.Close(t.Context())
		if c, err := pgx.Connect(t.Context(), p.URL()); err == nil {
			t.Errorf("server still responds: %v", c.Close(t.Context()))
		}
		p.Start()
	}
}

func TestPGliteHasPgvector(t *testing.T) {
	c := connect(t, pgtest.PGlite(t))
	if _, err := c.Exec(t.Context(), "CREATE EXTENSION IF NOT EXISTS vector"); err != nil {
		t.Fatal(err)
	}
	var distance float64
	if err := c.QueryRow(t.Context(), "SELECT '[1,2]'::vector <#> '[3,4]'").Scan(&distance); err != nil || distance != -11 {
		t.Errorf("distance: %v, %v", distance, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
