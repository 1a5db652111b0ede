package memory_test

import (
	"context"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

func TestEmptyNamespaceIsRejected(t *testing.T) {
	_, recaller := memory.NewRecaller(&memory.RecallerOptions{Namespace: []string{}})
	_, manager := memory.NewStoreManager(llmtest.NewScript(), &memory.StoreManagerOptions{Namespace: []string{}})
	_, tool := memory.SearchTool(&memory.ToolOptions{Namespace: []string{}})
	for who, err := range map[string]error{"NewRecaller": recaller, "NewStoreManager": manager, "SearchTool": tool} {
		if err == nil || !strings.Contains(err.Error(), "empty namespace") {
			t.Errorf("%s: the error is %v", who, err)
		}
	}
}

// A user whose name equals a reserved name cannot access records of others.
func TestRecordsCannotBeForged(t *testing.T) {
	for _, root := range []string{"__memory_uses__", "__memory_sleep__", "__memory_latch__"} {
		if _, err := memory.ManageTool[string](&memory.ToolOptions{Namespace: []string{root, "x"}}); err == nil {
			t.Errorf("the namespace %s is accepted", root)
		}
		s := newStore(t, nil)
		tool, err := memory.ManageTool[string](&memory.ToolOptions{Store: s, Namespace: []string{"{user}", "memories"}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := memory.WithVars(t.Context(), map[string]string{"user": root})
		if _, err := tool.Call(ctx, llmtest.ToolCall("manage_memory", `{"content":"x"}`)); err == nil || !strings.Contains(err.Error(), "reserved") {
			t.Errorf("user %s: the error is %v", root, err)
		}
	}
	for _, forged := range []any{map[string]any{"count": -5}, map[string]any{"count": "many"}, []int{1}, map[string]any{"count": -1 << 40}} {
		s := newShelf(t, store.Options{})
		s.note("tea", "Ann likes tea", nil)
		if err := s.Put(context.Background(), append(store.Namespace{"__memory_uses__"}, memories...), "tea", map[string]any{"value": forged}, nil); err != nil {
			t.Fatal(err)
		}
		if m, ok := forged.(map[string]any); ok {
			if err := s.Put(context.Background(), append(store.Namespace{"__memory_uses__"}, memories...), "tea", m, nil); err != nil {
				t.Fatal(err)
			}
		}
		got := s.recall(memory.RecallerOptions{Weights: &memory.Weights{Access: 1}}, "tea")
		if len(got.Memories) != 1 || got.Memories[0].Score != 1 || got.Memories[0].Why.Uses != 0 {
			t.Errorf("%v: %+v", forged, got.Memories)
		}
	}
}
