package memory_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

func TestInsertLinksSupersededMemory(t *testing.T) {
	for text, want := range map[string]string{
		"Ann lives in Rome":                  "home",
		"Ann has lived in Bonn since spring": "", // adds to it
		"Ann likes tea":                      "", // shares one word
		"Ann works in Köln":                  "job",
		"Bob plays the cello":                "",
		"Ann was born in Kiel":               "", // says something else of her
	} {
		s := newStore(t, nil)
		put(t, s, "home", `{"kind":"Memory","content":{"content":"Ann lives in Bonn"}}`)
		put(t, s, "job", `{"kind":"Memory","content":{"content":"Ann works in Trier"}}`)
		m := newStoreManager(t, s, llmtest.NewScript(llmtest.Ask(note(text))), memory.StoreManagerOptions{})
		changes, err := m.Reflect(t.Context(), llm.User(text))
		if err != nil || len(changes) != 1 || changes[0].Supersedes != want {
			t.Errorf("%s: %+v, %v, want it to supersede %q", text, changes, err, want)
			continue
		}
		item, err := s.Get(t.Context(), memories, changes[0].Key, nil)
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(string(item.Meta), `"supersedes":"`+want+`"`); has != (want != "") {
			t.Errorf("%s: the meta is %s", text, item.Meta)
		}
	}
}

func TestEndedMemoryIsNotSuperseded(t *testing.T) {
	s := newStore(t, nil)
	ended := map[string]any{"validity": memory.Validity{Until: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}}
	value := json.RawMessage(`{"kind":"Memory","content":{"content":"Ann lives in Bonn"}}`)
	if err := s.Put(t.Context(), memories, "ended", value, &store.PutOptions{Meta: ended}); err != nil {
		t.Fatal(err)
	}
	m := newStoreManager(t, s, llmtest.NewScript(llmtest.Ask(note("Ann lives in Rome"))), memory.StoreManagerOptions{})
	if changes, err := m.Reflect(t.Context(), llm.User("Rome")); err != nil || len(changes) != 1 || changes[0].Supersedes != "" {
		t.Errorf("%+v, %v", changes, err)
	}
}

func TestManageToolNamesOutdatedMemory(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "home", `{"content":"Ann lives in Bonn"}`)
	tool, err := memory.ManageTool[string](&memory.ToolOptions{Store: s, Namespace: memories})
	if err != nil {
		t.Fatal(err)
	}
	out, err := tool.Call(t.Context(), llm.ToolCall{ID: "1", Name: tool.Name, Args: json.RawMessage(`{"content":"Ann lives in Rome"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := json.Marshal(out); err != nil || !strings.Contains(string(raw), "memory home may be outdated") {
		t.Errorf("the model receives %s, %v", raw, err)
	}
	items, err := s.Search(t.Context(), memories, &store.SearchOptions{Filter: store.Meta(store.Eq("supersedes", "home"))})
	if err != nil || len(items) != 1 {
		t.Errorf("%v and %v, want the new memory", items, err)
	}
}

func TestEqualInsertsAreWrittenOnce(t *testing.T) {
	s := newStore(t, &store.Options{Embedder: store.NewHashEmbedder(256)})
	answer := llmtest.Ask(note("Ann likes green tea a lot"), note("Ann likes green tea a lot!"), note("Bob plays the cello"))
	m := newStoreManager(t, s, llmtest.NewScript(answer), memory.StoreManagerOptions{Similar: 0.9})
	changes, err := m.Reflect(t.Context(), llm.User("I like green tea"))
	if err != nil || len(changes) != 2 || !strings.Contains(string(changes[1].After), "cello") {
		t.Errorf("%+v, %v", changes, err)
	}
}

// Each topic of a message has its share of the memories that the model is shown,
// though another topic has more and better matches.
func TestEveryTopicGetsShare(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "van", `{"kind":"Memory","content":{"content":"Omar drives a white van"}}`)
	for i := range 40 {
		put(t, s, "bread"+string(rune('A'+i)), `{"kind":"Memory","content":{"content":"Omar bakes rye bread in a stone oven at dawn"}}`)
	}
	m := newStoreManager(t, s, llmtest.NewScript(), memory.StoreManagerOptions{})
	items, err := m.Recall(t.Context(), llm.User("How long does rye bread bake in a stone oven at dawn? The van is sold."))
	if err != nil || len(items) != 15 {
		t.Fatalf("%d memories and %v, want 15", len(items), err)
	}
	for _, item := range items {
		if item.Key == "van" {
			return
		}
	}
	t.Error("the van is not among them")
}
