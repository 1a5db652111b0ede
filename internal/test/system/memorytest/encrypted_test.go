package memorytest

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
	"github.com/treadle-go/treadle/store"
)

// Managers, tools, recallers, and reflectors work on an encrypted store, and no file
// contains a word of the memories.
func TestEncryptedMemoriesAreSearchable(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, openFile(t, filepath.Join(dir, "memories.db")), &store.Options{
		Keys:     []checkpoint.EncryptionKey{{ID: 1, Secret: bytes.Repeat([]byte{7}, 32)}},
		Embedder: store.NewHashEmbedder(32),
	})
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("Memory", memory.Memory{Content: "Ann plays the theremin"}))))
	changes, err := m.Reflect(t.Context(), llm.User("I play the theremin"))
	if err != nil || len(changes) != 1 {
		t.Fatalf("learned: %v, %v", changes, err)
	}
	manage, err := memory.ManageTool[string](&memory.ToolOptions{Namespace: memories, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	call := func(tool *llm.Tool, args string) (any, error) {
		return tool.Call(t.Context(), llm.ToolCall{ID: "1", Name: tool.Name, Args: json.RawMessage(args)})
	}
	out, err := call(manage, `{"content":"Ann collects marmalade"}`)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimPrefix(out.(string), "created memory ")
	if _, err := call(manage, `{"action":"update","id":"`+id+`","content":"Ann collects marmalade and Kerguelen stamps"}`); err != nil {
		t.Error(err)
	}
	search, err := memory.SearchTool(&memory.ToolOptions{Namespace: memories, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	found, err := call(search, `{"query":"Kerguelen"}`)
	if err != nil || !strings.Contains(string(treadle.Must(json.Marshal(found))), "Kerguelen stamps") {
		t.Errorf("search_memory finds %v, %v", found, err)
	}
	recall, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: memories, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	r, err := recall.Recall(t.Context(), llm.User("Who plays the theremin?"))
	if err != nil || !strings.Contains(r.Block, "theremin") {
		t.Errorf("recalled: %q, %v", r.Block, err)
	}
	old, err := s.History(t.Context(), memories, id)
	if err != nil || len(old) != 2 || !strings.Contains(string(old[1].Item.Value), "marmalade") {
		t.Errorf("history: %v, %v", old, err)
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
		t.Fatalf("files: %v, %v", files, err)
	}
	for _, f := range files { // including the write-ahead log
		raw, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"theremin", "marmalade", "kerguelen", "axolotl"} {
			if bytes.Contains(bytes.ToLower(raw), []byte(word)) {
				t.Errorf("%s contains %q", f.Name(), word)
			}
		}
	}
}
