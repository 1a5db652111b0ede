package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

var withDeletes = memory.StoreManagerOptions{ManagerOptions: memory.ManagerOptions{ExtractOptions: memory.ExtractOptions{Deletes: true}}}

// threeChanges has a manager remove, update and insert a memory.
func threeChanges(t *testing.T, s *store.Store, o memory.StoreManagerOptions) (*memory.StoreManager, []memory.ItemChange) {
	t.Helper()
	if err := s.Put(t.Context(), memories, "a", map[string]any{"content": "Ann likes tea"}, &store.PutOptions{Meta: map[string]int{"importance": 1}}); err != nil {
		t.Fatal(err)
	}
	put(t, s, "b", tallItem)
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(remove("m1"), patch("m2", replace("/content", "Ann likes milk")), note("Cy came"))), o)
	changes, err := m.Reflect(t.Context(), llm.User("…"))
	if err != nil || len(changes) != 3 {
		t.Fatalf("%v: the changes are %+v", err, changes)
	}
	return m, changes
}

func TestUndoCanBeUndone(t *testing.T) {
	s := newStore(t, nil)
	m, changes := threeChanges(t, s, withDeletes)
	after := stored(t, s)
	undone, err := m.Undo(t.Context(), changes...)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"insert", "update", "delete"}, opsOf(undone)); d != "" {
		t.Error(d)
	}
	wantStored(t, s, `{"content":"Ann likes tea"}`, tallItem) // in the form it had
	if item, err := s.Get(t.Context(), memories, "a", nil); err != nil || string(item.Meta) != `{"importance":1}` {
		t.Errorf("%v: the meta is %s", err, item.Meta)
	}
	if _, err := m.Undo(t.Context(), undone...); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, after...)
	if again, err := m.Undo(t.Context()); again != nil || err != nil {
		t.Errorf("undoing nothing gives %v, %v", again, err)
	}
}

func TestUndoDetectsConflict(t *testing.T) {
	s := newStore(t, nil)
	m, changes := threeChanges(t, s, withDeletes)
	put(t, s, changes[2].Key, `{"content":"Cy left"}`)
	before := stored(t, s)
	_, err := m.Undo(t.Context(), changes...)
	if c, ok := errors.AsType[*store.ConflictError](err); !ok || c.Key != changes[2].Key {
		t.Errorf("the error is %v, want the conflict", err)
	}
	put(t, s, "b", `{"content":"Bob is back"}`)
	if _, err := m.Undo(t.Context(), changes[0]); err == nil {
		t.Error("a memory that came back is overwritten by an undone removal")
	}
	wantStored(t, s, append(before, `{"content":"Bob is back"}`)...)
}

func TestUndoErrors(t *testing.T) {
	s := newStore(t, nil)
	o := withDeletes
	o.Overwrite = true // which removes the history
	m, changes := threeChanges(t, s, o)
	for want, cs := range map[string][]memory.ItemChange{
		`earlier version of "b" is no longer in the store's history`: changes[:1],
		`two changes of "a"`:                       {changes[1], changes[1]},
		`cannot undo change of "x" with Op "keep"`: {{Key: "x", Change: memory.Change{Op: memory.Keep}}},
	} {
		if _, err := m.Undo(t.Context(), cs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}

func TestUndoRemovalDetectsLaterRemoval(t *testing.T) {
	s := newStore(t, nil)
	m, changes := threeChanges(t, s, withDeletes)
	put(t, s, "b", `{"content":"Bob is back"}`)
	if err := s.Delete(t.Context(), memories, "b", nil); err != nil {
		t.Fatal(err)
	}
	before := stored(t, s)
	_, err := m.Undo(t.Context(), changes[0])
	if c, ok := errors.AsType[*store.ConflictError](err); !ok || c.Key != "b" {
		t.Errorf("the error is %v, want a conflict", err)
	}
	wantStored(t, s, before...)
}

func TestUndoAndRedoToolChange(t *testing.T) {
	s := newStore(t, nil)
	tool, err := memory.ManageTool[string](&memory.ToolOptions{Store: s, Namespace: memories})
	if err != nil {
		t.Fatal(err)
	}
	g, err := treadle.NewWorkflow("tools", func(ctx context.Context, args string) (string, error) {
		_, err := tool.Call(ctx, llmtest.ToolCall("manage_memory", args))
		return "", err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var told []memory.ItemChange
	for ev, err := range g.Stream(t.Context(), `{"content":"Ann likes tea"}`, treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := ev.(treadle.Custom); ok {
			told = append(told, c.Value.(memory.ItemChange))
		}
	}
	m := newStoreManager(t, s, llmtest.Scripted(t), memory.StoreManagerOptions{})
	for _, want := range [][]string{nil, {`{"content":"Ann likes tea"}`}, nil} {
		if told, err = m.Undo(t.Context(), told...); err != nil {
			t.Fatal(err)
		}
		wantStored(t, s, want...)
	}
}

func TestUndoRestoresValidity(t *testing.T) {
	s := newStore(t, nil)
	held := memory.Validity{Until: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	if err := s.Put(t.Context(), memories, "a", json.RawMessage(teaItem), &store.PutOptions{Meta: map[string]any{"validity": held}}); err != nil {
		t.Fatal(err)
	}
	var o memory.StoreManagerOptions
	o.Rate = true
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(ratedPatch("m1", "Ann likes milk", `"_valid_until":null`))), o)
	changes, err := m.Reflect(t.Context(), llm.User("Milk, please"))
	if err != nil {
		t.Fatal(err)
	}
	undone, err := m.Undo(t.Context(), changes...)
	if err != nil || len(undone) != 1 {
		t.Fatalf("%v: %v", err, undone)
	}
	if d := cmp.Diff(held, undone[0].Validity); d != "" {
		t.Error(d)
	}
}
