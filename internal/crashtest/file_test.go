package crashtest

import (
	"database/sql"
	"testing"

	_ "modernc.org/sqlite" // the driver
)

// checkpointLog moves the log of a SQLite file into it.
func checkpointLog(t *testing.T, path string) {
	t.Helper()
	var busy, log, moved int
	sqliteRow(t, path, "PRAGMA wal_checkpoint(TRUNCATE)", &busy, &log, &moved)
	if busy != 0 {
		t.Fatalf("wal_checkpoint: %d pages in the log, %d moved: somebody has it", log, moved)
	}
}

// checkFile has SQLite check the whole file.
func checkFile(t *testing.T, path string) {
	t.Helper()
	var answer string
	sqliteRow(t, path, "PRAGMA integrity_check", &answer)
	if answer != "ok" {
		t.Errorf("the file is damaged: %s", answer)
	}
}

func sqliteRow(t *testing.T, path, query string, into ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := db.QueryRowContext(t.Context(), query).Scan(into...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
