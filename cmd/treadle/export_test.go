package main

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// newFile creates a database, which the caller closes.
func newFile(t *testing.T) (string, *sqlite.DB, *store.Store) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent.db")
	db, err := sqlite.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := db.Store(nil)
	if err != nil {
		t.Fatal(err)
	}
	return file, db, s
}

// remembering creates a database with memories of two users, one of which was recalled.
func remembering(t *testing.T) string {
	t.Helper()
	file, db, s := newFile(t)
	for _, user := range []string{"ada", "bob/1"} {
		for _, text := range []string{"likes coffee", "likes tea"} {
			if err := s.Put(t.Context(), store.Namespace{"memories", user}, "drink", map[string]string{"content": text}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := memory.NewRecaller(&memory.RecallerOptions{Store: s, Namespace: []string{"memories", "ada"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Recall(t.Context(), llm.User("what does she like? tea?")); err != nil || len(got.Memories) != 1 {
		t.Fatalf("%v: recalled %+v", err, got)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExportedMemoriesCanBeImported(t *testing.T) {
	from, to := remembering(t), filepath.Join(t.TempDir(), "other.db")
	all := call(t.Context(), "export", "--db", from)
	if all.Code != exitOK || all.Stderr != "Exported 5 versions.\n" || !strings.HasSuffix(all.Stdout, `{"end":5}`+"\n") {
		t.Fatalf("%+v", all)
	}
	file := written(t, "items.jsonl", all.Stdout)
	diff(t, call(t.Context(), "import", "--from", file, "--dry-run"), result{Stdout: "Would import 5 versions of store items.\n"})
	diff(t, call(t.Context(), "import", "--from", file, "--db", to), result{Stdout: "Imported 5 versions of store items.\n"})
	diff(t, call(t.Context(), "import", "--from", file, "--db", to),
		result{Stdout: "Imported 0 versions of store items.\nAlready imported: 5 versions.\n"})
	diff(t, call(t.Context(), "export", "--db", to), all)

	ada := call(t.Context(), "export", "--db", from, "--memory", "memories/ada")
	if strings.Contains(ada.Stdout, "bob") || !strings.Contains(ada.Stdout, "__memory_uses__") || !strings.HasSuffix(ada.Stdout, `{"end":3}`+"\n") {
		t.Errorf("export of ada: %+v", ada)
	}
	bob := call(t.Context(), "export", "--db", from, "--memory", `["memories","bob/1"]`)
	if strings.Contains(bob.Stdout, "ada") || !strings.HasSuffix(bob.Stdout, `{"end":2}`+"\n") {
		t.Errorf("export of bob: %+v", bob)
	}
}

func TestImportCountsOlderVersions(t *testing.T) {
	file := written(t, "items.jsonl", call(t.Context(), "export", "--db", remembering(t), "--memory", `["memories","bob/1"]`).Stdout)
	target, db, s := newFile(t)
	err := s.Put(t.Context(), store.Namespace{"memories", "bob/1"}, "drink", map[string]string{"content": "likes water"}, nil)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	got := call(t.Context(), "import", "--from", file, "--db", target)
	if want := "Imported 0 versions of store items.\nNot imported because the target has newer versions: 2 versions.\n\nNewer in the target"; got.Code != exitFailed || !strings.HasPrefix(got.Stdout, want) {
		t.Errorf("%+v, want %s", got, want)
	}
}

func TestImportNamesDamagedLine(t *testing.T) {
	from, to := remembering(t), filepath.Join(t.TempDir(), "other.db")
	lines := strings.SplitAfter(call(t.Context(), "export", "--db", from).Stdout, "\n")
	file := written(t, "items.jsonl", strings.Join(lines[:3], "")+lines[3][:40])
	got := call(t.Context(), "import", "--from", file, "--db", to)
	if got.Code != exitFailed || !strings.HasPrefix(got.Stdout, "Imported 2 versions") || !strings.Contains(got.Stderr, "line 4: invalid JSON") {
		t.Errorf("%+v", got)
	}
	whole := written(t, "whole.jsonl", strings.Join(lines, ""))
	diff(t, call(t.Context(), "import", "--from", whole, "--db", to),
		result{Stdout: "Imported 3 versions of store items.\nAlready imported: 2 versions.\n"})
}

func TestImportReadsOtherSystems(t *testing.T) {
	db := filepath.Join(t.TempDir(), "agent.db")
	mem0 := "../../internal/imports/memoryimport/testdata/mem0.json"
	got := call(t.Context(), "import", "--from", mem0, "--db", db, "--memory", "m/mem0")
	if got.Code != exitFailed || !strings.HasPrefix(got.Stdout, "Imported 3 memories as store items.\n\nNot converted:\n  entry 4: ") ||
		!strings.Contains(got.Stderr, "3 parts could not be converted") {
		t.Errorf("%+v", got)
	}
	got = call(t.Context(), "import", "--from", mem0, "--db", db, "--memory", "m/mem0", "--allow-incomplete")
	if got.Code != exitOK || !strings.HasPrefix(got.Stdout, "Imported 0 memories as store items.\nAlready imported: 3 memories.\n") {
		t.Errorf("%+v", got)
	}
	got = call(t.Context(), "import", "--from", "../../internal/imports/memoryimport/testdata/letta-0.6.af", "--db", db)
	diff(t, got, result{Stdout: "Imported 1 memory as store items.\n" +
		"To recall them always, as their system does, list them in memory.RecallerOptions.Pinned: human.\n"})
	exported := call(t.Context(), "export", "--db", db)
	for _, part := range []string{`"namespace":["m","mem0","ada"]`, `"namespace":["memories","old agent"]`, `"updated":"2025-04-01T03:52:02.091007Z"`} {
		if !strings.Contains(exported.Stdout, part) {
			t.Errorf("export lacks %s:\n%s", part, exported.Stdout)
		}
	}
	got = call(t.Context(), "import", "--from", written(t, "x.json", `{"a":1}`), "--db", db)
	if got.Code != exitFailed || !strings.Contains(got.Stderr, "want a mem0 export") {
		t.Errorf("%+v", got)
	}
}

func TestExportReportsMissingFlags(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.db")
	diff(t, call(t.Context(), "export", "--db", none), result{Stderr: "treadle: " + none + ": file does not exist\n", Code: exitFailed})
	for _, args := range [][]string{{"export"}, {"export", "x", "--db", none}, {"export", "--db", none, "--memory", "a//b"}, {"export", "--db", none, "--memory", "[1]"}} {
		if got := call(t.Context(), args...); got.Code != exitUsage || got.Stdout != "" || !strings.Contains(got.Stderr, "treadle export -h") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// LangMem keeps a profile under a random key.
func TestImportedLangMemProfilesAreRecalled(t *testing.T) {
	file, target := copyOf(t, langgraphFile), filepath.Join(t.TempDir(), "agent.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `INSERT INTO store (prefix, key, value, created_at, updated_at) VALUES
		('memories.ada', '7c1f', '{"kind":"User","content":{"name":"Ada"}}', '2026-01-02 03:04:05', '2026-02-03 04:05:06'),
		('memories.ada', '9e2b', '{"kind":"Memory","content":{"content":"likes tea"}}', '2026-01-02 03:04:05', '2026-01-02 03:04:05'),
		('memories.bob', 'a', '{"kind":"User","content":{"name":"Bob"}}', '2026-01-02 03:04:05', '2026-01-02 03:04:05'),
		('memories.bob', 'b', '{"kind":"User","content":{"name":"Rob"}}', '2026-01-02 03:04:05', '2026-01-02 03:04:05')`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := call(t.Context(), "import", "--from", file, "--db", target, "--profile", "User"); got.Code != exitOK {
			t.Fatalf("%+v", got)
		}
	}
	to, err := sqlite.Open(target, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := to.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := to.Store(nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := memory.NewRecaller(&memory.RecallerOptions{Store: s, Namespace: []string{"memories", "ada"}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Recall(t.Context(), llm.User("hello"))
	if err != nil || len(got.Memories) != 1 || !got.Memories[0].Why.Pinned || string(got.Memories[0].Document.Content) != `{"name":"Ada"}` {
		t.Fatalf("%v: recalled %+v", err, got)
	}
	item := got.Memories[0].Item
	if item.Created.Format(time.DateTime) != "2026-01-02 03:04:05" || item.Updated.Format(time.DateTime) != "2026-02-03 04:05:06" {
		t.Errorf("profile created at %v, updated at %v", item.Created, item.Updated)
	}
	if past, err := s.History(t.Context(), item.Namespace, item.Key); err != nil || len(past) != 1 {
		t.Errorf("%v: profile has %d versions", err, len(past))
	}
	if items, err := s.Search(t.Context(), store.Namespace{"memories", "bob"}, nil); err != nil || len(items) != 2 || items[0].Key == "default" {
		t.Errorf("%v: one of two users in a namespace became the profile: %v", err, items)
	}
}
