package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
)

type Pet struct {
	Name string `json:"name"`
}

type Owner struct {
	Name string         `json:"name"`
	Age  int            `json:"age"`
	Home Home           `json:"home"`
	Pets []Pet          `json:"pets"`
	More map[string]Pet `json:"more"`
}

// ownerNow is a document of a newer version of the program, or of another one.
const ownerNow = `{"name":"Ann","age":30,"timezone":"CET","home":{"city":"Bonn","street":"Am Hof","floor":3},` +
	`"pets":[{"name":"Rex","chip":7},{"name":"Tom"}],"more":{"x":{"name":"Pip","chip":8}}}`

// sorted returns an object with sorted fields, which is how objects with unknown fields
// are written.
func sorted(t *testing.T, object string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(object), &v); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func patching(patches string) string {
	return `{"json_doc_id":"m1","planned_edits":"news","patches":` + patches + `}`
}

func TestUpdateKeepsUnknownFields(t *testing.T) {
	for name, test := range map[string]struct{ patches, want string }{
		"beside them":  {`[{"op":"replace","path":"/age","value":31}]`, strings.Replace(ownerNow, "30", "31", 1)},
		"in an object": {`[{"op":"replace","path":"/home/city","value":"Rome"}]`, strings.Replace(ownerNow, "Bonn", "Rome", 1)},
		"in a list": {`[{"op":"add","path":"/pets/0","value":{"name":"Mia"}}]`,
			strings.Replace(ownerNow, `[{"name":"Rex"`, `[{"name":"Mia"},{"name":"Rex"`, 1)},
		"by themselves": {`[{"op":"replace","path":"/timezone","value":"UTC"}]`, strings.Replace(ownerNow, "CET", "UTC", 1)},
		"if the model removes them, they are gone": {`[{"op":"remove","path":"/timezone"}]`, strings.Replace(ownerNow, `"timezone":"CET",`, "", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			put(t, s, "default", `{"kind":"Owner","content":`+ownerNow+`}`)
			o := memory.StoreManagerOptions{Guard: func(context.Context, *memory.ItemChange) error { return nil }}
			o.Kinds, o.NoInserts = []memory.Kind{memory.NewKind[Owner]("the user")}, true
			m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("PatchDoc", patching(test.patches)))), o)
			if _, err := m.Reflect(t.Context(), llm.User("news")); err != nil {
				t.Fatal(err)
			}
			wantStored(t, s, `{"kind":"Owner","content":`+sorted(t, test.want)+`}`)
		})
	}
}

type Street struct {
	Houses []Owner `json:"houses"`
	Plan   [][]Pet `json:"plan"`
}

// Unknown fields at any depth of a list stay, whichever element has them.
func TestUpdateKeepsUnknownNestedFields(t *testing.T) {
	house := func(city, unknown string) string {
		return `{"name":"Ann","age":30,"home":{"city":"` + city + `","street":"Am Hof",` + unknown + `},"pets":[],"more":{}}`
	}
	street := `{"houses":[` + house("Bonn", `"floor":3`) + `,` + house("Rome", `"lift":true`) + `],"plan":[[{"name":"Rex","chip":7}],[{"name":"Tom","coat":"red"}]]}`
	s := newStore(t, nil)
	put(t, s, "default", `{"kind":"Street","content":`+street+`}`)
	o := memory.StoreManagerOptions{Guard: func(context.Context, *memory.ItemChange) error { return nil }}
	o.Kinds, o.NoInserts = []memory.Kind{memory.NewKind[Street]("a street")}, true
	edit := patching(`[{"op":"replace","path":"/houses/0/age","value":31}]`)
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("PatchDoc", edit))), o)
	if _, err := m.Reflect(t.Context(), llm.User("news")); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, `{"kind":"Street","content":`+sorted(t, strings.Replace(street, "30", "31", 1))+`}`)
}

func TestUnknownNewFieldsAreRejected(t *testing.T) {
	for _, patches := range []string{
		`[{"op":"add","path":"/shoes","value":43}]`,
		`[{"op":"add","path":"/home/shoes","value":43}]`,
		`[{"op":"add","path":"/pets/-","value":{"name":"Mia","shoes":4}}]`,
	} {
		s := newStore(t, nil)
		put(t, s, "default", `{"kind":"Owner","content":`+ownerNow+`}`)
		o := memory.StoreManagerOptions{}
		o.Kinds, o.NoInserts, o.Attempts = []memory.Kind{memory.NewKind[Owner]("the user")}, true, 1
		m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("PatchDoc", patching(patches)))), o)
		if _, err := m.Reflect(t.Context(), llm.User("news")); !strings.Contains(fmt.Sprint(err), "shoes") {
			t.Errorf("%s: the error is %v, want an error that names the field", patches, err)
		}
		wantStored(t, s, `{"kind":"Owner","content":`+ownerNow+`}`)
	}
}

func TestManageToolKeepsUnknownFields(t *testing.T) {
	whole := `{"name":"Ann","age":31,"home":{"city":"Bonn","street":"Am Hof"},"pets":[{"name":"Tom"}],"more":{}}`
	for name, test := range map[string]struct {
		merge        bool
		update, want string
	}{
		"of a merged document": {true, `{"age":31}`, strings.Replace(ownerNow, "30", "31", 1)},
		"of a replaced document": {false, whole, `{"name":"Ann","age":31,"timezone":"CET","home":{"city":"Bonn","street":"Am Hof","floor":3},` +
			`"pets":[{"name":"Tom"}],"more":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			put(t, s, "a", `{"kind":"Owner","content":`+ownerNow+`}`)
			tool := manageTool[Owner](t, memory.ToolOptions{Store: s, Merge: test.merge})
			if _, err := call(t, tool, `{"action":"update","id":"a","content":`+test.update+`}`); err != nil {
				t.Fatal(err)
			}
			wantStored(t, s, `{"kind":"Owner","content":`+sorted(t, test.want)+`}`)
		})
	}
}
