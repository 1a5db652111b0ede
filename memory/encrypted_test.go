package memory_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/sqlite"
	"github.com/treadle-go/treadle/store"
)

// In a store with keys, managers, tools, recallers and reflectors work as without, and no
// file has a word of the memories.
func TestEncryptedMemoriesAreFoundAndInNoFile(t *testing.T) {
	dir := t.TempDir()
	db, err := sqlite.Open(filepath.Join(dir, "memories.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := db.Store(&store.Options{Keys: []checkpoint.EncryptionKey{{ID: 1, Secret: bytes.Repeat([]byte{7}, 32)}}, Embedder: store.NewHashEmbedder(32)})
	if err != nil {
		t.Fatal(err)
	}
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(note("Ann plays the theremin"))), memory.StoreManagerOptions{})
	changes, err := m.Reflect(t.Context(), llm.User("I play the theremin"))
	if err != nil || len(changes) != 1 {
		t.Fatalf("learnt is %v, %v", changes, err)
	}
	manage := manageTool[string](t, memory.ToolOptions{Store: s})
	out, err := call(t, manage, `{"content":"Ann collects marmalade"}`)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimPrefix(out.(string), "created memory ")
	if _, err := call(t, manage, `{"action":"update","id":"`+id+`","content":"Ann collects marmalade and Kerguelen stamps"}`); err != nil {
		t.Error(err)
	}
	search, err := memory.SearchTool(&memory.ToolOptions{Namespace: memories, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	found, err := search.Call(t.Context(), llm.ToolCall{ID: "1", Name: search.Name, Args: []byte(`{"query":"Kerguelen"}`)})
	if err != nil || !strings.Contains(string(treadle.Must(json.Marshal(found))), "Kerguelen stamps") {
		t.Errorf("search_memory finds %v, %v", found, err)
	}
	recall, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: memories, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	r, err := recall.Recall(t.Context(), llm.User("Who plays the theremin?"))
	if err != nil || !strings.Contains(r.Block, "theremin") {
		t.Errorf("recalled is %q, %v", r.Block, err)
	}
	old, err := s.History(t.Context(), memories, id)
	if err != nil || len(old) != 2 || !strings.Contains(string(old[1].Item.Value), "marmalade") {
		t.Errorf("the history is %v, %v", old, err)
	}
	reflector, err := memory.OpenReflector(t.Context(), s, pendingWork, m.ReflectOn, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reflector.Submit(t.Context(), "thread", memory.Session{Messages: llm.Messages{llm.User("I breed axolotls")}}, time.Hour); err != nil {
		t.Error(err)
	}
	if err := reflector.Close(t.Context()); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 2 {
		t.Fatalf("the files are %v, %v", files, err)
	}
	for _, f := range files { // the log among them
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"theremin", "marmalade", "kerguelen", "axolotl"} {
			if bytes.Contains(bytes.ToLower(raw), []byte(word)) {
				t.Errorf("%s has %q", f.Name(), word)
			}
		}
	}
}
