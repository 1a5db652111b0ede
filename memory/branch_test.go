package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

func TestBranchUndoKeepsTrunk(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "old", `{"content":"Eve sings"}`)
	branch, err := s.Fork(t.Context(), store.Latest, store.BranchInfo{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "late", `{"content":"Dan is late"}`)
	before := stored(t, s)
	m, changes := threeChanges(t, branch, withDeletes)
	if _, err := m.Undo(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	wantStored(t, branch, `{"content":"Eve sings"}`, `{"content":"Ann likes tea"}`, tallItem)
	wantStored(t, s, before...)
	// Also for a memory that the trunk had when the branch was created.
	m = newStoreManager(t, branch, llmtest.Scripted(t, llmtest.Ask(remove("m1"), remove("m2"), remove("m3"))), withDeletes)
	if changes, err = m.Reflect(t.Context(), llm.User("…")); err != nil || len(changes) != 3 {
		t.Fatalf("%v: the changes are %+v", err, changes)
	}
	wantStored(t, branch)
	if _, err := m.Undo(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	if n := len(stored(t, branch)); n != 3 {
		t.Errorf("%d memories are back, want 3", n)
	}
	wantStored(t, s, before...)
}

type talk struct{ Said string }

// talker returns a graph whose runs reflect on the conversation.
func talker(t *testing.T, s *store.Store, m *memory.StoreManager) *treadle.Thread[talk, talk] {
	t.Helper()
	b := treadle.New[talk]("talker")
	treadle.AddNode(b, "reflect", func(ctx context.Context, in talk) (talk, error) {
		_, err := m.Reflect(ctx, llm.User(in.Said))
		return in, err
	})
	b.Edge(treadle.Start, "reflect")
	return treadle.Must(b.Compile(&treadle.Options{Store: s, Saver: checkpoint.NewMemory()})).Thread("t1")
}

// A manager without its own store writes to the store branch of the run, and the history
// of a memory names the run that learned it, even after the merge.
func TestHistoryRecordsRunAndBranch(t *testing.T) {
	s := newStore(t, &store.Options{Branches: true})
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(note("Ann likes tea")), llmtest.Ask(note("Bob swims")), llmtest.Ask(patch("m1", replace("/content", "Ann likes milk")))),
		memory.StoreManagerOptions{})
	thread := talker(t, s, m)
	say := func(th *treadle.Thread[talk, talk], text string) *treadle.Snapshot {
		t.Helper()
		if _, err := th.Run(t.Context(), talk{text}); err != nil {
			t.Fatal(err)
		}
		snap, err := thread.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	first := say(thread, "tea")
	say(thread, "swims")
	say(thread.At(first.ID), "milk")
	all, err := s.Branches(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("the branches are %+v, %v", all, err)
	}
	branch, err := s.Branch(t.Context(), all[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, memoryItem("Ann likes tea"), memoryItem("Bob swims"))
	wantStored(t, branch, memoryItem("Ann likes milk"))
	if err := memory.Merge(t.Context(), branch, nil); err != nil {
		t.Fatal(err)
	}
	items, err := s.Search(t.Context(), memories, &store.SearchOptions{Filter: store.Eq("content.content", "Ann likes milk")})
	if err != nil || len(items) != 1 {
		t.Fatalf("after the merge: %v, %v", items, err)
	}
	history, err := s.History(t.Context(), memories, items[0].Key)
	if err != nil || len(history) != 2 {
		t.Fatalf("the history is %v, %v", history, err)
	}
	runs := map[string]bool{}
	for i, branch := range []string{all[0].Name, ""} {
		var meta struct{ Provenance memory.Provenance }
		if err := json.Unmarshal(history[i].Item.Meta, &meta); err != nil {
			t.Fatal(err)
		}
		p := meta.Provenance
		if p.Thread != "t1" || p.Run == "" || p.Branch != branch || p.Checkpoint == "" {
			t.Errorf("version %d was learned by %+v, want branch %q", i, p, branch)
		}
		runs[p.Run] = true
	}
	if len(runs) != 2 || !runs[all[0].Run] {
		t.Errorf("the runs are %v, and the branch was created by %s", runs, all[0].Run)
	}
}

// A conversation in a branch that is reflected on later changes the memories of the
// branch.
func TestBranchSessionReflectsInBranch(t *testing.T) {
	s := newStore(t, nil)
	branch, err := s.Fork(t.Context(), store.Latest, store.BranchInfo{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(note("Ann likes tea")), llmtest.Ask(note("Bob swims"))), memory.StoreManagerOptions{})
	session := memory.Session{Source: memory.Provenance{Branch: "b"}, Messages: llm.Messages{llm.User("…")}}
	if _, err := m.ReflectOn(t.Context(), "", session); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s)
	wantStored(t, branch, memoryItem("Ann likes tea"))
	if err := branch.Merge(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ReflectOn(t.Context(), "", session); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, memoryItem("Ann likes tea"), memoryItem("Bob swims"))
	if err := branch.Discard(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.ReflectOn(t.Context(), "", session); !strings.Contains(errText(err), "was discarded") {
		t.Errorf("a session of a discarded branch: %v", err)
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// memoryItem returns the stored form of a manager's memory.
func memoryItem(text string) string {
	return `{"kind":"Memory","content":{"content":"` + text + `"}}`
}

// Both sides of a merge have used a memory: its uses are added, and other conflicts
// are still conflicts.
func TestMergeAddsUseCounts(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "tea", `{"content":"Ann likes tea"}`)
	recall := func(s *store.Store, times int) {
		t.Helper()
		in, err := memory.NewRecaller(&memory.RecallerOptions{Namespace: memories, Store: s})
		if err != nil {
			t.Fatal(err)
		}
		for range times {
			if got, err := in.Recall(t.Context(), llm.User("does Ann like tea?")); err != nil || len(got.Memories) != 1 {
				t.Fatalf("%v: recalled %+v", err, got)
			}
		}
	}
	recall(s, 2)
	branch, err := s.Fork(t.Context(), store.Latest, store.BranchInfo{})
	if err != nil {
		t.Fatal(err)
	}
	recall(s, 3)
	recall(branch, 4)
	if err := branch.Put(t.Context(), memories, "both", json.RawMessage(`{"content":"b"}`), nil); err != nil {
		t.Fatal(err)
	}
	put(t, s, "both", `{"content":"t"}`)
	err = memory.Merge(t.Context(), branch, nil)
	if e, ok := errors.AsType[*store.MergeError](err); !ok || len(e.Conflicts) != 1 || e.Conflicts[0].Key != "both" {
		t.Fatalf("the error is %v, want one conflict", err)
	}
	err = memory.Merge(t.Context(), branch, &store.MergeOptions{Resolve: func(c store.Conflict) (*store.Item, error) { return c.Branch, nil }})
	if err != nil {
		t.Fatal(err)
	}
	item, err := s.Get(t.Context(), append(store.Namespace{"__memory_uses__"}, memories...), "tea", nil)
	if err != nil {
		t.Fatal(err)
	}
	var uses struct {
		Count int
		Last  time.Time
	}
	if err := item.Decode(&uses); err != nil || uses.Count != 9 || uses.Last.IsZero() {
		t.Errorf("the uses are %s, %v, want 9", item.Value, err)
	}
}

// Consolidation in a branch does not affect memories that the trunk received in the
// meantime, and both sides may have consolidated.
func TestBranchConsolidationKeepsTrunk(t *testing.T) {
	for _, both := range []bool{false, true} {
		s, note := newDiary(t)
		m := newStoreManager(t, s, llmtest.Scripted(t), memory.StoreManagerOptions{})
		note("tall", "Bob is tall")
		branch, err := s.Fork(t.Context(), store.Latest, store.BranchInfo{})
		if err != nil {
			t.Fatal(err)
		}
		note("tea", "Ann likes tea")
		if both {
			consolidated(t, m, nil)
		}
		note("again", "Ann  likes tea.")
		put(t, branch, "tall too", noteValue("Bob  is tall."))
		in := newStoreManager(t, branch, llmtest.Scripted(t), memory.StoreManagerOptions{})
		if c := consolidated(t, in, nil); len(c.Sets) != 1 {
			t.Errorf("in the branch: %+v", c)
		}
		wantAsleep(t, in, nil)
		if err := memory.Merge(t.Context(), branch, nil); err != nil {
			t.Fatal(err)
		}
		wantStored(t, s, noteValue("Ann likes tea"), noteValue("Ann  likes tea."), noteValue("Bob  is tall."))
		if c := consolidated(t, m, nil); len(c.Sets) != 1 {
			t.Errorf("both %v: after the merge: %+v", both, c)
		}
		wantStored(t, s, noteValue("Ann  likes tea."), noteValue("Bob  is tall."))
		wantAsleep(t, m, nil)
	}
}

// A fork stores memories in its branch. Merge copies them to the store from which the
// branch was created.
func ExampleMerge() {
	ctx, ada := context.Background(), store.Namespace{"memories", "ada"}
	s := treadle.Must(store.NewMemory(nil))
	if err := s.Put(ctx, ada, "home", map[string]string{"content": "Ada lives in Bonn"}, nil); err != nil {
		fmt.Println(err)
		return
	}
	fork := treadle.Must(s.Fork(ctx, store.Latest, store.BranchInfo{Name: "what if"}))
	model := llmtest.NewScript(llmtest.Ask(llmtest.ToolCall("Memory", `{"content": "Ada keeps bees"}`)))
	manager := treadle.Must(memory.NewStoreManager(model, &memory.StoreManagerOptions{Namespace: ada, Store: fork}))
	if _, err := manager.Reflect(ctx, llm.User("Suppose that I keep bees.")); err != nil {
		fmt.Println(err)
		return
	}
	show := func(name string, s *store.Store) {
		recall := treadle.Must(memory.NewRecaller(&memory.RecallerOptions{Namespace: ada, Store: s}))
		got, err := recall.Recall(ctx, llm.User("Does Ada have bees?"))
		fmt.Println(name, len(got.Memories), err)
	}
	show("trunk", s)
	show("branch", fork)
	fmt.Println("merge", memory.Merge(ctx, fork, nil))
	show("trunk", s)
	// Output:
	// trunk 1 <nil>
	// branch 2 <nil>
	// merge <nil>
	// trunk 2 <nil>
}
