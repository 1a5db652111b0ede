package memory_test

import (
	"context"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/memory/prompts"
	"github.com/treadle-go/treadle/store"
)

// A missing argument causes an error that names it, not a panic. A value that was not
// created by its constructor does not read everyone's memories.
func TestMissingArgumentErrors(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	ask := []llm.Message{llm.User("tea")}
	place := memory.ToolOptions{Store: s, Namespace: memories}
	work := func(context.Context, string, int) (int, error) { return 0, nil }
	for want, do := range map[string]func(ctx context.Context) error{
		"Extract: nil model": func(ctx context.Context) error {
			_, err := memory.Extract(ctx, nil, ask, nil, nil)
			return err
		},
		"SearchFor: nil model": func(ctx context.Context) error {
			_, err := memory.SearchFor(ctx, nil, ask, &place)
			return err
		},
		"ExtractThread: nil model": func(ctx context.Context) error {
			_, err := memory.ExtractThread[memory.ThreadSummary](ctx, nil, ask, "")
			return err
		},
		"nil optimizer": func(ctx context.Context) error {
			i, err := memory.NewInstructions(prompts.Prompt{Name: "a", Text: "b"}, &memory.InstructionsOptions{Store: s})
			if err != nil {
				return err
			}
			_, err = i.Improve(ctx, nil, []prompts.Trajectory{{Messages: ask}})
			return err
		},
		"Workers -1": func(context.Context) error {
			_, err := memory.NewReflector(work, &memory.ReflectorOptions[int, int]{Workers: -1})
			return err
		},
		"reflector: empty namespace": func(ctx context.Context) error {
			_, err := memory.OpenReflector(ctx, s, store.Namespace{}, work, nil)
			return err
		},
		"no namespace": func(ctx context.Context) error {
			_, err := (&memory.Recaller{}).Recall(ctx, ask...)
			return err
		},
		"create managers": func(ctx context.Context) error {
			_, err := (&memory.StoreManager{}).Reflect(ctx, ask...)
			return err
		},
	} {
		t.Run(want, func(t *testing.T) {
			if err := do(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	if d := memory.DocumentOf(nil); d.ID != "" || d.Content != nil {
		t.Errorf("no item is the document %+v", d)
	}
}

func TestImproveKeepsUnknownFields(t *testing.T) {
	s := newStore(t, nil)
	if err := s.Put(t.Context(), store.Namespace{"instructions"}, "tone",
		map[string]any{"kind": "Prompt", "owner": "Bob", "content": map[string]any{"name": "tone", "prompt": "Be brief.", "audience": "children"}}, nil); err != nil {
		t.Fatal(err)
	}
	i, err := memory.NewInstructions(prompts.Prompt{Name: "tone", Text: "Hello."}, &memory.InstructionsOptions{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Improve(t.Context(), newOptimizer(t, llmtest.Scripted(t, updated(true, "Be very brief."))), complaint); err != nil {
		t.Fatal(err)
	}
	item, err := s.Get(t.Context(), store.Namespace{"instructions"}, "tone", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"owner":"Bob"`, `"audience":"children"`, `"prompt":"Be very brief."`} {
		if !strings.Contains(string(item.Value), want) {
			t.Errorf("%s is not in %s", want, item.Value)
		}
	}
}
