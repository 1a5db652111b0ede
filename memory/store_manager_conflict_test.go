package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// changing stores a memory under key during the model call, bypassing the manager.
func changing(s *store.Store, key, text string) func(*llm.Request) error {
	return func(*llm.Request) error {
		return s.Put(context.Background(), memories, key, json.RawMessage(`{"kind":"Memory","content":{"content":"`+text+`"}}`), nil)
	}
}

// sees expects the model to be shown a text among the documents.
func sees(text string) func(*llm.Request) error {
	return func(r *llm.Request) error {
		if got := r.Messages[0].Text(); !strings.Contains(got, text) {
			return fmt.Errorf("the model does not see %q: %s", text, got)
		}
		return nil
	}
}

func turn(calls []llm.ToolCall, expect ...func(*llm.Request) error) llmtest.Turn {
	return llmtest.Turn{Message: llm.Assistant("", calls...), Expect: expect}
}

func TestStoreManagerRetriesAfterConflict(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	model := llmtest.Scripted(t,
		turn([]llm.ToolCall{patch("m1", replace("/content", "Ann likes milk")), note("Cy came")}, sees("Ann likes tea"), changing(s, "a", "Ann likes rum")),
		turn([]llm.ToolCall{patch("m1", replace("/content", "Ann likes rum and milk")), note("Cy came")}, sees("Ann likes rum"), changing(s, "b", "Bob is tall")))
	changes, err := newStoreManager(t, s, model, memory.StoreManagerOptions{}).Reflect(t.Context(), llm.User("…"))
	if d := cmp.Diff([]string{"update", "insert"}, opsOf(changes)); err != nil || d != "" {
		t.Fatalf("%v %s", err, d)
	}
	if string(changes[0].Before) != `{"content":"Ann likes rum"}` {
		t.Errorf("the update is of %s", changes[0].Before)
	}
	// The insert of the first attempt exists once.
	wantStored(t, s, `{"kind":"Memory","content":{"content":"Ann likes rum and milk"}}`, `{"kind":"Memory","content":{"content":"Cy came"}}`, tallItem)
}

// Two that meet in an empty namespace do not both make the default.
func TestConcurrentDefaultIsShared(t *testing.T) {
	s := newStore(t, nil)
	model := llmtest.Scripted(t,
		turn([]llm.ToolCall{patch("m1", replace("/content", "mine"))}, sees("first"), changing(s, "default", "theirs")),
		turn([]llm.ToolCall{patch("m1", replace("/content", "theirs and mine"))}, sees("theirs")))
	changes, err := newStoreManager(t, s, model, memory.StoreManagerOptions{Default: "first"}).Reflect(t.Context(), llm.User("…"))
	if d := cmp.Diff([]string{"update"}, opsOf(changes)); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	wantStored(t, s, `{"kind":"Memory","content":{"content":"theirs and mine"}}`)
}

// Problems of a discarded attempt are not reported after a successful one.
func TestConflictReportsLastAttemptOnly(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	bad := llmtest.ToolCall("Memory", `{}`)
	model := llmtest.Scripted(t,
		turn([]llm.ToolCall{bad, patch("m1", replace("/content", "x"))}, changing(s, "a", "Ann likes rum")),
		turn([]llm.ToolCall{patch("m1", replace("/content", "y"))}))
	o := memory.StoreManagerOptions{}
	o.Attempts = 1
	if changes, err := newStoreManager(t, s, model, o).Reflect(t.Context(), llm.User("…")); err != nil || len(changes) != 1 {
		t.Errorf("got %v and %v, want one change", changes, err)
	}
}

func TestNoConflictRetryAfterCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := &ending{Backend: store.NewMemoryBackend(), cancel: cancel}
	s, err := store.New(ended, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", teaItem)
	ended.armed = true
	model := llmtest.Scripted(t, turn([]llm.ToolCall{patch("m1", replace("/content", "x"))}))
	_, err = newStoreManager(t, s, model, memory.StoreManagerOptions{}).Reflect(ctx, llm.User("…"))
	if _, ok := errors.AsType[*store.ConflictError](err); !ok {
		t.Errorf("the error is %v, want a conflict", err)
	}
}

// ending is a backend whose writes conflict, and end the context of the caller.
type ending struct {
	store.Backend
	armed  bool
	cancel context.CancelFunc
}

func (e *ending) Do(ctx context.Context, b *store.Batch) (*store.Results, error) {
	if e.armed && len(b.Writes) > 0 {
		e.cancel()
		return nil, &store.ConflictError{Namespace: memories, Key: "a", Want: 1, Have: 2}
	}
	return e.Backend.Do(ctx, b)
}

// A queued conversation is not lost if another writer changes a memory during the model
// call.
func TestDurableReflectionSurvivesConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, nil)
		put(t, s, "a", teaItem)
		model := llmtest.Scripted(t,
			turn([]llm.ToolCall{patch("m1", replace("/content", "Ann likes milk"))}, changing(s, "a", "Ann likes rum")),
			turn([]llm.ToolCall{patch("m1", replace("/content", "Ann likes rum and milk"))}))
		m := newStoreManager(t, s, model, memory.StoreManagerOptions{})
		r, err := memory.OpenReflector(t.Context(), s, store.Namespace{"pending"}, func(ctx context.Context, _ string, ms llm.Messages) (int, error) {
			changes, err := m.Reflect(ctx, ms...)
			return len(changes), err
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		h, err := r.Submit(t.Context(), "thread", chat(1, 1), 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := h.Wait(t.Context()); n != 1 || err != nil {
			t.Errorf("got %d changes and %v, want one", n, err)
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantStored(t, s, `{"kind":"Memory","content":{"content":"Ann likes rum and milk"}}`)
	})
}

// Both sessions find nothing, and each would write a profile.
func TestConcurrentSessionsShareProfile(t *testing.T) {
	s := newStore(t, nil)
	var o memory.StoreManagerOptions
	o.Kinds, o.NoInserts = []memory.Kind{memory.NewKind[Home]("Where the user lives.")}, true
	home := func(city string) llm.ToolCall { return llmtest.ToolCall("Home", Home{City: city}) }
	other := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(home("Bonn"))), o)
	meanwhile := llmtest.Ask(home("Rome"))
	meanwhile.Expect = []func(*llm.Request) error{func(*llm.Request) error {
		_, err := other.Reflect(t.Context(), llm.User("I live in Bonn"))
		return err
	}}
	m := newStoreManager(t, s, llmtest.Scripted(t, meanwhile, llmtest.Ask(patch("m1", replace("/city", "Rome")))), o)
	changes, err := m.Reflect(t.Context(), llm.User("I live in Rome"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"update"}, opsOf(changes)); d != "" {
		t.Error(d)
	}
	wantStored(t, s, `{"kind":"Home","content":{"city":"Rome","street":""}}`)
	r, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: memories, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Recall(t.Context(), llm.User("Hello"))
	if err != nil {
		t.Fatal(err)
	}
	wantRecalled(t, got, "default")
}
