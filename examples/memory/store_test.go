package memory_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// User is who a run is for.
type User struct {
	ID string `json:"user_id"`
}

// show prints the values under a prefix.
func show(ctx context.Context, s *store.Store, prefix ...string) {
	items, err := s.Search(ctx, prefix, nil)
	if err != nil {
		fmt.Println(err)
	}
	for _, item := range items {
		fmt.Println(item.Namespace, string(item.Value))
	}
}

// After each turn a manager reads the conversation and stores memories.
//
// Sample: E1.
func Example_backgroundManager() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	model := llmtest.NewScript(llmtest.Say("That's nice! What kind of dog is Fido?"))
	extractor := llmtest.NewScript(llmtest.Ask(
		llmtest.ToolCall("Memory", `{"content":"User likes dogs as pets"}`), llmtest.ToolCall("Memory", `{"content":"User has a dog named Fido"}`)))
	manager, err := memory.NewStoreManager(extractor, &memory.StoreManagerOptions{Namespace: []string{"memories"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	chat := treadle.Must(treadle.NewWorkflow("chat", func(ctx context.Context, text string) (string, error) {
		answer, err := llm.Generate(ctx, model, llm.User(text))
		if err != nil {
			return "", err
		}
		_, err = manager.Reflect(ctx, llm.User(text), answer)
		return answer.Text(), err
	}, &treadle.Options{Store: s}))
	answer, err := chat.Run(ctx, "I like dogs. My dog's name is Fido.")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(answer)
	show(ctx, s, "memories")

	// Output:
	// That's nice! What kind of dog is Fido?
	// ["memories"] {"kind":"Memory","content":{"content":"User likes dogs as pets"}}
	// ["memories"] {"kind":"Memory","content":{"content":"User has a dog named Fido"}}
}

// librarian stands for a real model: its response depends on the request.
func librarian(respond func(shown string) []llm.ToolCall) llm.Model {
	return llmtest.Func(func(_ context.Context, req *llm.Request) (llm.Message, error) {
		var shown strings.Builder
		for _, m := range req.Messages {
			shown.WriteString(m.Text() + "\n")
		}
		return llm.Assistant("", respond(shown.String())...), nil
	})
}

var document = regexp.MustCompile(`<document id="(\w+)" kind="\w+">\n(.*)\n`)

// about returns the ID of the document that contains words.
func about(shown, words string) string {
	for _, m := range document.FindAllStringSubmatch(shown, -1) {
		if strings.Contains(m[2], words) {
			return m[1]
		}
	}
	return "none"
}

// team returns the calls that a good model would make about a team.
func team(shown string) []llm.ToolCall {
	switch {
	case strings.Contains(shown, "left the company"):
		return []llm.ToolCall{removal(about(shown, "mentors")), triple("Alice", "employment_status", "left_company")}
	case strings.Contains(shown, "now leads"):
		return []llm.ToolCall{removal(about(shown, "manages")), triple("Bob", "leads", "ML_team"), triple("Bob", "leads", "NLP_project")}
	}
	return []llm.ToolCall{triple("Alice", "manages", "ML_team"), triple("Alice", "mentors", "Bob"), triple("Bob", "is_member_of", "ML_team")}
}

// A store manager recalls memories, has the model update them, and stores them in the
// namespace of the run's user.
//
// Sample: E4.
func Example_triplesWithStorage() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	manager, err := memory.NewStoreManager(librarian(team), &memory.StoreManagerOptions{
		Namespace: []string{"chat", "{user_id}", "triples"},
		ManagerOptions: memory.ManagerOptions{
			ExtractOptions: memory.ExtractOptions{Kinds: []memory.Kind{memory.NewKind[Triple](aboutTriples)}, Deletes: true},
			Instructions:   "Extract all user information and events as triples.",
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	app := treadle.Must(treadle.NewWorkflow("app", func(ctx context.Context, text string) (int, error) {
		changes, err := manager.Reflect(ctx, llm.User(text))
		return len(changes), err
	}, &treadle.Options{Store: s}))
	for _, said := range []string{
		"Alice manages the ML team and mentors Bob, who is also on the team.",
		"Bob now leads the ML team and the NLP project.",
		"Alice left the company.",
	} {
		changed, err := app.With(treadle.Context(User{ID: "user123"})).Run(ctx, said)
		fmt.Println(changed, err)
	}
	show(ctx, s, "chat", "user123")

	// Output:
	// 3 <nil>
	// 3 <nil>
	// 2 <nil>
	// ["chat" "user123" "triples"] {"kind":"Triple","content":{"subject":"Bob","predicate":"is_member_of","object":"ML_team"}}
	// ["chat" "user123" "triples"] {"kind":"Triple","content":{"subject":"Bob","predicate":"leads","object":"ML_team"}}
	// ["chat" "user123" "triples"] {"kind":"Triple","content":{"subject":"Bob","predicate":"leads","object":"NLP_project"}}
	// ["chat" "user123" "triples"] {"kind":"Triple","content":{"subject":"Alice","predicate":"employment_status","object":"left_company"}}
}

// Preference is a user's preference.
type Preference struct {
	What string `json:"what"`
}

// Several kinds of memories are extracted together. The variables of the namespace are
// filled in for each call, so that users have separate memories.
//
// Sample: E5.
func Example_kindsAndNamespaces() {
	ctx := context.Background()
	s, err := store.NewMemory(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	model := llmtest.NewScript(
		llmtest.Ask(llmtest.ToolCall("Preference", Preference{What: "dark mode"}), triple("user-a", "works_at", "night")),
		llmtest.Ask(llmtest.ToolCall("Preference", Preference{What: "light mode"})),
	)
	options := &memory.StoreManagerOptions{Namespace: []string{"chat", "{user_id}", "{domain}"}, Store: s}
	options.Kinds = []memory.Kind{memory.NewKind[Triple](aboutTriples), memory.NewKind[Preference]("What the user prefers.")}
	manager, err := memory.NewStoreManager(model, options)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, user := range []string{"user-a", "user-b"} {
		ctx := memory.WithVars(ctx, map[string]string{"user_id": user, "domain": "settings"})
		if _, err := manager.Reflect(ctx, llm.User("I prefer this mode")); err != nil {
			fmt.Println(err)
		}
	}
	show(ctx, s, "chat", "user-a")
	_, err = manager.Reflect(memory.WithVars(ctx, map[string]string{"user_id": "user-c"}), llm.User("Hello"))
	fmt.Println(err)

	// Output:
	// ["chat" "user-a" "settings"] {"kind":"Preference","content":{"what":"dark mode"}}
	// ["chat" "user-a" "settings"] {"kind":"Triple","content":{"subject":"user-a","predicate":"works_at","object":"night"}}
	// memory: no value for variable "domain": variables are user_id: set it with memory.WithVars, or as a JSON field of treadle.Context
}
