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
		var fsync string
		if err := c.QueryRow(t.Context(), "SHOW fsync").Scan(&fsync); err != nil || fsync != "on" {
			t.Errorf("fsync is %q, %v", fsync, err)
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

func TestWithoutPostgresTheErrorSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, err := programs(filepath.Join(t.TempDir(), "*"))
	want := "these tests need Postgres and there is none: install it (Debian, Ubuntu: apt-get install -y postgresql), or set TREADLE_TEST_POSTGRES to the URL of a server that may be used"
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}
