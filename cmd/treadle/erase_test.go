package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/ledger"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

func TestErase(t *testing.T) {
	file, db, s := newFile(t)
	for _, person := range []string{"ann", "bob"} {
		if err := s.Put(t.Context(), store.Namespace{"memories", person}, "k", map[string]string{"content": person + " has zebrapox"}, nil); err != nil {
			t.Fatal(err)
		}
		if err := ledger.New(db.Ledger(), nil).CreateThread(t.Context(), &ledger.Thread{Metadata: ledger.Object{"user_id": person}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put(t.Context(), store.Namespace{"users/here", "ann"}, "k", map[string]int{}, nil); err != nil {
		t.Fatal(err)
	}
	for _, journal := range []store.Namespace{{"pending", "profile"}, {"pending", "notes"}, {"queue"}} {
		work := map[string]any{"pending": memory.Session{Vars: map[string]string{"user": "ann"}}}
		if err := s.Put(t.Context(), journal, "thread/ann", work, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	diff(t, call(t.Context(), "erase", "--db", file, "--user", "ann", "-n"), result{Stdout: "would erase: 1 item, 1 version, 1 thread of the server\n"})
	diff(t, call(t.Context(), "erase", "--db", file, "--user", "ann", "--yes"), result{Stdout: `erased: 1 item, 1 version, 1 thread of the server
cleared: the cached results of all nodes
scrubbed: the files of the databases
`})
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte("ann has")) || !bytes.Contains(raw, []byte("bob has zebrapox")) {
		t.Error("file contains erased data, or lacks other data")
	}
	again := call(t.Context(), "erase", "--db", file, "--user", "ann", "--yes", "--json", "--keep-cache", "--metadata", "", "--namespace", "memories/ann", "--namespace", `["users/here","ann"]`, "--thread", "7", "--journal", "pending", "--journal", "queue")
	var report memory.Erased
	if err := json.Unmarshal([]byte(again.Stdout), &report); err != nil || report.Found != (memory.Holdings{Items: 1, Changes: 1, Pending: 3}) || !report.Scrubbed || report.CacheCleared || again.Code != 0 {
		t.Errorf("%+v: %v", again, err)
	}
	diff(t, call(t.Context(), "erase", "--db", file, "--user", "ann", "-n", "--namespace", "memories/"), result{Stderr: "treadle: --namespace memories/ has an empty segment\n", Code: exitFailed})
	missing := filepath.Join(t.TempDir(), "none.db")
	if got := call(t.Context(), "erase", "--db", missing, "--user", "ann", "-n"); got.Code != exitFailed || !strings.Contains(got.Stderr, "file does not exist") {
		t.Errorf("missing file: %+v", got)
	}
}
