package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// The model rates its confidence and the importance of a memory. The ratings are part of
// the changes and are stored with the memories: in their provenance and as their
// importance.
func ExampleStoreManager_Reflect_rated() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	model := llmtest.NewScript(llmtest.Ask(
		llmtest.ToolCall("Memory", `{"content": "Ann is allergic to nuts", "_confidence": 1, "_importance": 0.9}`),
		llmtest.ToolCall("Memory", `{"content": "Ann may like jazz", "_confidence": 0.4, "_importance": 0.2}`)))
	o := &memory.StoreManagerOptions{Store: s, Namespace: []string{"memories", "ann"}}
	o.Rate = true
	m, err := memory.NewStoreManager(model, o)
	if err != nil {
		fmt.Println(err)
		return
	}
	changes, err := m.Reflect(ctx, llm.User("No nuts for me, they would kill me. Is that Coltrane playing?"))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range changes {
		item, err := s.Get(ctx, c.Namespace, c.Key, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		var meta struct {
			Importance float64
			Provenance memory.Provenance
		}
		if err := item.DecodeMeta(&meta); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(c.Op, string(item.Value))
		fmt.Println("sure:", *meta.Provenance.Confidence, "important:", meta.Importance)
	}
	// Output:
	// insert {"kind":"Memory","content":{"content":"Ann is allergic to nuts"}}
	// sure: 1 important: 0.9
	// insert {"kind":"Memory","content":{"content":"Ann may like jazz"}}
	// sure: 0.4 important: 0.2
}

// Acquaintance was {"full_name": …} in an earlier version of the program.
type Acquaintance struct {
	First string `json:"first"`
	Last  string `json:"last"`
}

// A function brings documents of an earlier shape into the present one.
func ExampleKind_Migrate() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	old := json.RawMessage(`{"kind":"User","content":{"full_name":"Ada Lovelace"}}`)
	_ = s.Put(ctx, store.Namespace{"people"}, "ada", old, nil)

	o := &memory.StoreManagerOptions{Store: s, Namespace: []string{"people"}}
	o.Kinds = []memory.Kind{memory.NewKind[Acquaintance]("somebody the user knows").Migrate(func(content json.RawMessage) (json.RawMessage, error) {
		var v struct {
			FullName *string `json:"full_name"`
		}
		if err := json.Unmarshal(content, &v); err != nil || v.FullName == nil {
			return content, err // it has the present shape
		}
		first, last, _ := strings.Cut(*v.FullName, " ")
		return json.Marshal(Acquaintance{first, last})
	}, "User")}
	m, err := memory.NewStoreManager(llmtest.NewScript(), o)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := m.Get(ctx, "ada")
	fmt.Println(d.Kind, string(d.Content), err)
	// Output: Acquaintance {"first":"Ada","last":"Lovelace"} <nil>
}
