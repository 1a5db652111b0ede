package memory_test

import (
	"context"
	"fmt"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// Profile contains everything known about a user, in one document.
type Profile struct {
	Name  string   `json:"name"`
	City  string   `json:"city"`
	Likes []string `json:"likes"`
}

// A profile is one document that is patched, so that other fields are kept; a collection
// consists of many documents and grows. Both are extracted from the same turns.
//
// Sample: E11.
func Example_profileAndCollection() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	patch := func(op, path, value string) llmtest.Turn {
		return llmtest.Ask(llmtest.ToolCall("PatchDoc", fmt.Sprintf(
			`{"json_doc_id":"m1","planned_edits":"as the user says","patches":[{"op":%q,"path":%q,"value":%q}]}`, op, path, value)))
	}
	one := &memory.StoreManagerOptions{Namespace: []string{"ada", "profile"}, Store: s}
	one.Kinds, one.NoInserts = []memory.Kind{memory.NewKind[Profile]("What is known of the user.")}, true
	profile, err := memory.NewStoreManager(llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("Profile", Profile{Name: "Ada", City: "London", Likes: []string{"tea"}})),
		patch("replace", "/city", "Paris"), patch("add", "/likes/-", "engines")), one)
	if err != nil {
		fmt.Println(err)
		return
	}
	note := func(text string) llmtest.Turn {
		return llmtest.Ask(llmtest.ToolCall("Memory", memory.Memory{Content: text}))
	}
	collection, err := memory.NewStoreManager(llmtest.NewScript(
		note("Ada introduced herself over tea"), note("Ada has moved to Paris"), note("Ada talked about engines")),
		&memory.StoreManagerOptions{Namespace: []string{"ada", "events"}, Store: s})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, said := range []string{"I am Ada from London, and I like tea", "I have moved to Paris", "I like engines, too"} {
		for _, m := range []*memory.StoreManager{profile, collection} {
			if _, err := m.Reflect(ctx, llm.User(said)); err != nil {
				fmt.Println(err)
			}
		}
	}
	show(ctx, s, "ada", "profile")
	show(ctx, s, "ada", "events")

	// Output:
	// ["ada" "profile"] {"kind":"Profile","content":{"name":"Ada","city":"Paris","likes":["tea","engines"]}}
	// ["ada" "events"] {"kind":"Memory","content":{"content":"Ada introduced herself over tea"}}
	// ["ada" "events"] {"kind":"Memory","content":{"content":"Ada has moved to Paris"}}
	// ["ada" "events"] {"kind":"Memory","content":{"content":"Ada talked about engines"}}
}
