package pgtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { Main(m) }

func TestEachDatabaseIsFresh(t *testing.T) {
	urls := map[string]bool{}
	for range 2 {
		url := URL(t)
		urls[url] = true
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(t.Context(), "CREATE TABLE mark (n int)"); err != nil {
			t.Errorf("the database is not fresh: %v", err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(urls) != 2 {
		t.Errorf("two databases have one URL: %v", urls)
	}
}

// The cluster of a binary ends, and leaves nothing behind, when its input ends.
func TestAClusterLeavesNothingBehind(t *testing.T) {
	var c cluster
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	if err := c.stop(); err != nil {
		t.Errorf("the cluster ended with %v", err)
	}
	if c, err := pgx.Connect(t.Context(), c.url); err == nil {
		t.Errorf("a server still answers: %v", c.Close(t.Context()))
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", c.dir, err)
	}
}

func TestAServerIsStoppedAndStartedAgain(t *testing.T) {
	p := New(t)
	for _, statement := range []string{"CREATE TABLE mark (n int)", "INSERT INTO mark VALUES (1)"} {
		c, err := pgx.Connect(t.Context(), p.URL())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(t.Context(), statement); err != nil {
			t.Error(err)
		}
		p.Stop()
		if err := c.Ping(t.Context()); err == nil {
			t.Error("a session outlives its server")
		}
		_ = c.Close(t.Context())
		if c, err := pgx.Connect(t.Context(), p.URL()); err == nil {
			t.Errorf("the server still answers: %v", c.Close(t.Context()))
		}
		p.Start()
	}
}

func TestWithoutPostgresTheErrorSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, err := programs(filepath.Join(t.TempDir(), "*"))
	want := "these tests need Postgres and there is none: install it (Debian, Ubuntu: apt-get install -y postgresql), or set TREADLE_TEST_POSTGRES to the URL of a server that may be used"
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestWithoutNpmTheErrorSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "internal", "npm"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "internal", "npm", "package.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := packages(filepath.Join(dir, "some", "package"))
	want := "these tests need a Postgres with pgvector from npm, and it is not there: run .ci/npm"
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestAPGliteHasPgvectorAndEnds(t *testing.T) {
	var p pglite
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), p.url)
	if err != nil {
		t.Fatal(err)
	}
	var distance float64
	if _, err := c.Exec(t.Context(), "CREATE EXTENSION vector"); err != nil {
		t.Fatal(err)
	}
	if err := c.QueryRow(t.Context(), "SELECT '[1,2]'::vector <#> '[3,4]'").Scan(&distance); err != nil || distance != -11 {
		t.Errorf("the distance is %v, %v", distance, err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := p.stop(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if c, err := pgx.Connect(t.Context(), p.url); err == nil {
		t.Errorf("a server still answers: %v", c.Close(t.Context()))
	}
}
