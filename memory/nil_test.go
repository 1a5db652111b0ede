package memory

import (
	"context"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/memory/prompts"
	"github.com/treadle-go/treadle/store"
)

// Constructors name the missing argument.
func TestNilArguments(t *testing.T) {
	ctx := t.Context()
	said := []llm.Message{llm.User("hello")}
	mem, err := store.NewMemory(nil)
	if err != nil {
		t.Fatal(err)
	}
	run := func(context.Context, string, int) (int, error) { return 0, nil }
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"Extract":      {func() error { _, err := Extract(ctx, nil, said, nil, nil); return err }, "model"},
		"Manager":      {func() error { _, err := NewManager(nil, nil); return err }, "model"},
		"StoreManager": {func() error { _, err := NewStoreManager(nil, nil); return err }, "model"},
		"Recaller":     {func() error { _, err := NewRecaller(nil); return err }, ""},
		"Reflector":    {func() error { _, err := NewReflector[int, int](nil, nil); return err }, "function"},
		"OpenReflector without a store": {func() error {
			_, err := OpenReflector(ctx, nil, store.Namespace{"a"}, run, nil)
			return err
		}, "store"},
		"OpenReflector without a namespace": {func() error {
			_, err := OpenReflector(ctx, mem, nil, run, nil)
			return err
		}, "namespace"},
		"OpenReflector without a function": {func() error {
			_, err := OpenReflector[int, int](ctx, mem, store.Namespace{"a"}, nil, nil)
			return err
		}, "function"},
		"Instructions":  {func() error { _, err := NewInstructions(prompts.Prompt{}, nil); return err }, "require a name"},
		"ManageTool":    {func() error { _, err := ManageTool[string](nil); return err }, ""},
		"SearchTool":    {func() error { _, err := SearchTool(nil); return err }, ""},
		"SearchFor":     {func() error { _, err := SearchFor(ctx, nil, said, nil); return err }, "model"},
		"ExtractThread": {func() error { _, err := ExtractThread[struct{ A string }](ctx, nil, said, ""); return err }, "model"},
		"NewDocument":   {func() error { _, err := NewDocument("a", nil); return err }, "not a JSON object"},
		"DocumentOf":    {func() error { DocumentOf(nil); return nil }, ""},
		"Middleware":    {func() error { Middleware(nil); return nil }, ""},
		"WithVars":      {func() error { WithVars(ctx, nil); return nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.do()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("the error is %v, want none", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the error is %v, want an error with %q", err, c.want)
			}
		})
	}
}
