package main

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver, to damage a copy

	"github.com/treadle-go/treadle/internal/imports/langgraphimport"
)

const langgraphFile = "../../examples/imported/langgraph.sqlite"

func TestImport(t *testing.T) {
	db := filepath.Join(t.TempDir(), "agent.db")
	dry := call(t.Context(), "import", "--from", langgraphFile, "--dry-run")
	diff(t, dry, result{Stdout: "Would import 1 thread with 3 checkpoints, and 1 store item.\n"})
	if _, err := os.Stat(db); err == nil {
		t.Error("dry run created the file")
	}
	first := call(t.Context(), "import", "--from", langgraphFile, "--db", db)
	diff(t, first, result{Stdout: "Imported 1 thread with 3 checkpoints, and 1 store item.\n"})
	again := call(t.Context(), "import", "--from", langgraphFile, "--db", db)
	diff(t, again, result{Stdout: "Imported 0 threads with 0 checkpoints, and 0 store items.\nAlready imported: 1 thread and 1 item.\n"})
	list := call(t.Context(), "threads", "list", "--db", db, "--json")
	var got struct {
		Thread string
		Status string
		Next   []string
	}
	if err := json.Unmarshal([]byte(list.Stdout), &got); err != nil {
		t.Fatalf("%+v: %v", list, err)
	}
	if got.Thread != "customer 7" || got.Status != "waiting for an answer" || len(got.Next) != 1 || got.Next[0] != "refund" {
		t.Errorf("treadle threads list shows %+v", got)
	}
}

func TestImportListsUnconvertedData(t *testing.T) {
	data, err := os.ReadFile(langgraphFile)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "damaged.sqlite")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE checkpoints SET checkpoint = x'c1' WHERE json_extract(metadata, '$.step') = 0"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	got := call(t.Context(), "import", "--from", file, "--db", filepath.Join(t.TempDir(), "agent.db"))
	if got.Code != exitFailed || !strings.Contains(got.Stdout, "\nNot converted:\n  thread customer 7, checkpoint 1f") ||
		!strings.Contains(got.Stdout, ": unreadable checkpoint omitted: invalid first byte 0xc1 of a value\n") ||
		got.Stderr != "treadle: 1 part could not be converted; the rest was imported: use --allow-incomplete to exit with 0\n" {
		t.Errorf("%+v", got)
	}
	got = call(t.Context(), "import", "--from", file, "--db", filepath.Join(t.TempDir(), "agent.db"), "--allow-incomplete", "--json")
	var r langgraphimport.Report
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil {
		t.Fatalf("%+v: %v", got, err)
	}
	if got.Code != exitOK || r.Threads != 1 || r.Checkpoints != 2 || len(r.Problems) != 1 || r.Problems[0].Thread != "customer 7" {
		t.Errorf("%+v: %+v", got, r)
	}
}

func TestImportRejectsOtherFiles(t *testing.T) {
	other := filepath.Join(t.TempDir(), "none.sqlite")
	target := filepath.Join(t.TempDir(), "agent.db")
	got := call(t.Context(), "import", "--from", other, "--db", target)
	diff(t, got, result{Stderr: "treadle: import: open " + other + ": file does not exist\n", Code: exitFailed})
	got = call(t.Context(), "import", "--from", langgraphFile, "--db", copyOf(t, langgraphFile))
	if got.Code != exitFailed || got.Stdout != "" || !strings.Contains(got.Stderr, "another application") {
		t.Errorf("LangGraph file as target: %+v", got)
	}
}

func copyOf(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}
