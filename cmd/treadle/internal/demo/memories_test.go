package demo

import (
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/store"
)

// Users do not see each other's memories.
func TestMemoriesArePerUser(t *testing.T) {
	s, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := openMemories(t.Context(), s, offline{}, never)
	if err != nil {
		t.Fatal(err)
	}
	use := func(tool int, user, args string) string {
		t.Helper()
		out, err := m.tools[tool].Call(forUser(t.Context(), user), llm.ToolCall{ID: "1", Name: m.tools[tool].Name, Args: []byte(args)})
		if err != nil {
			t.Fatal(err)
		}
		return llm.ToolResult(llm.ToolCall{}, out).Text()
	}
	for range 2 { // storing it twice creates one memory
		use(0, "ada", `{"content":"I like green tea"}`)
	}
	for _, test := range []struct{ user, query, want string }{
		{"ada", "tea", "I know this: I like green tea"},
		{"ada", "", "I know this: I like green tea"},
		{"ada", "coffee", "I know nothing about it."},
		{"bob", "tea", "I know nothing about it."},
	} {
		found := llm.Message{Content: use(1, test.user, `{"query":"`+test.query+`"}`)}
		diff(t, (&turn{}).known(test.query, found), test.want)
	}
}
