package memorytest

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// Recall returns the same memories, scores, and blocks on SQLite as in memory, even as
// uses add up.
func TestRecallMatchesMemoryStore(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	opts := &store.Options{Embedder: store.NewHashEmbedder(64), Now: func() time.Time { return now }}
	volatile, err := store.NewMemory(opts)
	if err != nil {
		t.Fatal(err)
	}
	stores := []*store.Store{volatile, newStore(t, openFile(t, filepath.Join(t.TempDir(), "memories.db")), opts)}
	rnd := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("tea milk sugar cup pot green black morning evening Ann Bob likes hates has lost found the a in")
	sentence := func(n int) string {
		var out []string
		for range n {
			out = append(out, words[rnd.IntN(len(words))])
		}
		return strings.Join(out, " ")
	}
	for i := range 150 { // more than a search returns
		value := map[string]any{"kind": "Memory", "content": memory.Memory{Content: sentence(3 + rnd.IntN(8))}}
		meta := map[string]float64{"importance": rnd.Float64()}
		for _, s := range stores {
			if err := s.Put(t.Context(), memories, fmt.Sprint(i), value, &store.PutOptions{Meta: meta}); err != nil {
				t.Fatal(err)
			}
		}
		now = now.Add(time.Duration(rnd.IntN(48)) * time.Hour)
	}
	for range 15 {
		asked := []llm.Message{llm.User(sentence(4)), llm.Assistant(sentence(2)), llm.User(sentence(3))}
		var blocks [2][]string
		for i, s := range stores {
			r, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: memories, Store: s, MaxTokens: 200, Now: opts.Now})
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Recall(t.Context(), asked...)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range got.Memories {
				blocks[i] = append(blocks[i], fmt.Sprintf("%s %.12f %s", m.Item.Key, m.Score, m.Why))
			}
			blocks[i] = append(blocks[i], fmt.Sprintf("%d tokens, %d hidden\n%s", got.Tokens, got.Hidden, got.Block))
		}
		if d := cmp.Diff(blocks[0], blocks[1]); d != "" {
			t.Fatalf("%q: (-memory +SQLite):\n%s", asked[2].Text(), d)
		}
	}
}
