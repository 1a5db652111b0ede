package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// counting counts the searches with an explicit limit that reach the backend.
type counting struct {
	store.Backend
	batches, searches atomic.Int64
}

func (c *counting) Do(ctx context.Context, b *store.Batch) (*store.Results, error) {
	c.batches.Add(1)
	c.searches.Add(int64(len(b.Searches)))
	return c.Backend.Do(ctx, b)
}

// Upstream's synchronous path runs every search twice, and its other path forgets
// the limit.
//
// Defect: §3.1 one path runs every search twice.
// Defect: §3.1 the other path forgets the limit.
func TestStoreManagerRecallsInOneBatch(t *testing.T) {
	backend := &counting{Backend: store.NewMemoryBackend()}
	s, err := store.New(backend, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		put(t, s, fmt.Sprint(i), fmt.Sprintf(`{"kind":"Memory","content":{"content":"fact %d"}}`, i))
	}
	backend.batches.Store(0)
	m := newStoreManager(t, s, llmtest.NewScript(), memory.StoreManagerOptions{Limit: 8})
	items, err := m.Recall(t.Context(), llm.User("fact"), llm.User("fact 1"), llm.User("fact 2"))
	if err != nil || len(items) != 8 {
		t.Fatalf("got %d items and %v, want 8", len(items), err)
	}
	// Two windows of messages, the two before the last by themselves, and the newest.
	if b, n := backend.batches.Load(), backend.searches.Load(); b != 1 || n != 5 {
		t.Errorf("there were %d batches with %d searches, want 1 with 5", b, n)
	}
}

// LangMem searches only by the last message, unless its limit is raised, so earlier
// messages are stored alongside memories that they contradict.
func TestStoreManagerComparesAllMessages(t *testing.T) {
	backend := &counting{Backend: store.NewMemoryBackend()}
	s, err := store.New(backend, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", teaItem)
	for i := range 10 {
		put(t, s, fmt.Sprint(i), fmt.Sprintf(`{"kind":"Memory","content":{"content":"goodbye number %d"}}`, i))
	}
	m := newStoreManager(t, s, llmtest.NewScript(), memory.StoreManagerOptions{Limit: 5})
	messages := []llm.Message{llm.User("No tea for me any more!"), llm.Assistant("I see."), llm.User("That was all, goodbye."), llm.Assistant("Goodbye!")}
	for range 2 {
		items, err := m.Recall(t.Context(), messages...)
		if err != nil || len(items) != 5 || !slices.ContainsFunc(items, func(i *store.Item) bool { return i.Key == "a" }) {
			t.Errorf("got %v and %v, want five with the tea", items, err)
		}
		// Now a conversation that is so long that not all of it is searched for.
		for i := range 100 {
			messages = append([]llm.Message{llm.User(fmt.Sprint("earlier ", i))}, messages...)
		}
		backend.searches.Store(0)
	}
	if _, err := m.Recall(t.Context(), messages...); err != nil || backend.searches.Load() != 17 {
		t.Errorf("%d searches and %v, want 16 and the newest", backend.searches.Load(), err)
	}
}

// Upstream keeps the first store that it was used with for good.
//
// Defect: §3.1 the first store is used for good.
func TestStoreManagerUsesStoreOfRun(t *testing.T) {
	m, err := memory.NewStoreManager(llmtest.Scripted(t, llmtest.Ask(note("x")), llmtest.Ask(note("y"))), &memory.StoreManagerOptions{Namespace: memories})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"x", "y"} {
		s := newStore(t, nil)
		g, err := treadle.NewWorkflow("learn", func(ctx context.Context, text string) (int, error) {
			changes, err := m.Reflect(ctx, llm.User(text))
			return len(changes), err
		}, &treadle.Options{Store: s})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Run(t.Context(), "…"); err != nil {
			t.Fatal(err)
		}
		wantStored(t, s, `{"kind":"Memory","content":{"content":"`+want+`"}}`)
	}
}

// Defect: §3.1 phases do not get the number of steps.
func TestPhasesUseManagerSteps(t *testing.T) {
	s := newStore(t, nil)
	model := llmtest.Scripted(t, llmtest.Ask(note("x")), llmtest.Ask(done()), llmtest.Ask(note("y")), llmtest.Ask(note("z")))
	o := memory.StoreManagerOptions{Phases: []memory.Phase{{}}}
	o.Steps = 2
	changes, err := newStoreManager(t, s, model, o).Reflect(t.Context(), llm.User("…"))
	if d := cmp.Diff([]string{"insert", "insert", "insert"}, opsOf(changes)); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
}

// Defect: §3.1 updates cannot be switched off.
func TestNoUpdatesKeepsMemories(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	o := memory.StoreManagerOptions{}
	o.NoUpdates = true
	model := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("", done()), Expect: []func(*llm.Request) error{llmtest.Offered("Memory", "Done")}})
	if changes, err := newStoreManager(t, s, model, o).Reflect(t.Context(), llm.User("…")); err != nil || len(changes) != 0 {
		t.Errorf("got %v and %v, want no change", changes, err)
	}
}

// Different namespaces may have equal keys: LangMem's IDs combine both, ours are positions
// in the recalled list.
func TestEqualKeysInDifferentNamespaces(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	below := store.Namespace{"memories", "below"}
	if err := s.Put(t.Context(), below, "a", map[string]string{"content": "Bob is tall"}, nil); err != nil {
		t.Fatal(err)
	}
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(patch("m1", replace("/content", "Bob is small")))), memory.StoreManagerOptions{})
	changes, err := m.Reflect(t.Context(), llm.User("Bob"))
	if err != nil || len(changes) != 1 || cmp.Diff(below, changes[0].Namespace) != "" {
		t.Fatalf("got %v and %v", changes, err)
	}
	wantStored(t, s, teaItem, `{"kind":"Memory","content":{"content":"Bob is small"}}`)
}

// LangMem's factory disables deletes, but its class and manual claim that they are
// enabled. Here, one option, off by default, controls all three.
//
// Defect: §3.1 whether deletes are on by default depends on where one looks.
func TestDeletesAreOffByDefault(t *testing.T) {
	existing := []memory.Document{doc(t, "a", "Ann likes tea")}
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	offered := llmtest.Offered("Memory", "PatchDoc", "Done")
	model := func() llm.Model {
		return llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("", remove("m1")), Expect: []func(*llm.Request) error{offered}})
	}
	once := memory.ExtractOptions{Attempts: 1}
	_, extract := memory.Extract(t.Context(), model(), said("…"), existing, &once)
	_, manage := newManager(t, model(), &memory.ManagerOptions{ExtractOptions: once}).Reflect(t.Context(), said("…"), existing)
	_, keep := newStoreManager(t, s, model(), memory.StoreManagerOptions{ManagerOptions: memory.ManagerOptions{ExtractOptions: once}}).Reflect(t.Context(), llm.User("…"))
	for who, err := range map[string]error{"Extract": extract, "Manager": manage, "StoreManager": keep} {
		if ce, ok := errors.AsType[*memory.CallError](err); !ok || ce.Tool != "RemoveDoc" {
			t.Errorf("%s: the error is %v, want the removal's error", who, err)
		}
	}
	wantStored(t, s, teaItem)
}

// LangMem's manual claims that the primary model writes the queries if no query model is
// set, but none does. Here none does either, as documented.
//
// Defect: §3.1 the manual says that the primary model is asked what to recall.
func TestRecallCallsNoModelByDefault(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	m := newStoreManager(t, s, llmtest.Scripted(t), memory.StoreManagerOptions{})
	if items, err := m.Recall(t.Context(), llm.User("tea")); err != nil || len(items) != 1 {
		t.Errorf("got %v and %v, want the tea", items, err)
	}
}

// With upstream's default limit of 5 there is one window, the last message, so
// that a conversation that ends with thanks recalls by thanks.
//
// Defect: §3.1 by default only the last message is searched by.
func TestStoreManagerRecallsByAllMessages(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	for i := range 10 {
		put(t, s, fmt.Sprint(i), fmt.Sprintf(`{"kind":"Memory","content":{"content":"fact %d"}}`, i))
	}
	m := newStoreManager(t, s, llmtest.NewScript(), memory.StoreManagerOptions{Limit: 5})
	items, err := m.Recall(t.Context(), llm.User("Hello"), llm.User("What tea do I drink?"), llm.Assistant("Green, I think"), llm.User("Thanks"))
	if err != nil || len(items) != 5 || items[0].Key != "a" {
		t.Errorf("got %v and %v, want the tea first of 5", items, err)
	}
}

func TestUpdateKeepsExactMetaNumbers(t *testing.T) {
	s := newStore(t, nil)
	meta := json.RawMessage(`{"order":12345678901234567891}`)
	if err := s.Put(t.Context(), memories, "a", json.RawMessage(teaItem), &store.PutOptions{Meta: meta}); err != nil {
		t.Fatal(err)
	}
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(patch("m1", replace("/content", "Ann likes milk")))), memory.StoreManagerOptions{})
	if _, err := m.Reflect(t.Context(), llm.User("Milk, please")); err != nil {
		t.Fatal(err)
	}
	item, err := s.Get(t.Context(), memories, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := item.DecodeMeta(&got); err != nil || string(got["order"]) != "12345678901234567891" {
		t.Errorf("%v: the meta is %s", err, item.Meta)
	}
}

func TestUpdateKeepsOtherValues(t *testing.T) {
	for before, after := range map[string]string{
		`{"content":"Ann likes tea","tags":["x"]}`:                         `{"content":{"content":"Ann likes milk"},"kind":"Memory","tags":["x"]}`,
		`{"kind":"Memory","content":{"content":"Ann likes tea"},"n":1}`:    `{"content":{"content":"Ann likes milk"},"kind":"Memory","n":1}`,
		`{"content":{"content":"Ann likes tea"},"n":12345678901234567891}`: `{"content":{"content":"Ann likes milk"},"n":12345678901234567891}`,
		`{"content":"Ann likes tea"}`:                                      `{"kind":"Memory","content":{"content":"Ann likes milk"}}`,
	} {
		t.Run(before, func(t *testing.T) {
			s := newStore(t, nil)
			put(t, s, "a", before)
			m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(patch("m1", replace("/content", "Ann likes milk")))), memory.StoreManagerOptions{})
			if _, err := m.Reflect(t.Context(), llm.User("Milk, please")); err != nil {
				t.Fatal(err)
			}
			wantStored(t, s, after)
		})
	}
}

func TestManageToolKeepsOtherValues(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", `{"content":"Ann likes tea","tags":["x"]}`)
	tool, err := memory.ManageTool[string](&memory.ToolOptions{Store: s, Namespace: memories})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tool.Call(t.Context(), llmtest.ToolCall("manage_memory", `{"action":"update","id":"a","content":"Ann likes milk"}`)); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, `{"content":"Ann likes milk","tags":["x"]}`)
}

// unforgetting is a backend that cannot forget.
type unforgetting struct {
	store.Backend
	err error
}

func (b unforgetting) Do(ctx context.Context, batch *store.Batch) (*store.Results, error) {
	if slices.ContainsFunc(batch.Writes, func(w store.Write) bool { return w.Kind == store.Forgotten }) {
		return nil, b.err
	}
	return b.Backend.Do(ctx, batch)
}

func TestChangesReportedIfForgetFails(t *testing.T) {
	locked := errors.New("the database is locked")
	s, err := store.New(unforgetting{store.NewMemoryBackend(), locked}, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", teaItem)
	o := withDeletes
	o.Overwrite = true
	changes, err := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(remove("m1"), note("Bob is tall"))), o).Reflect(t.Context(), llm.User("…"))
	if !errors.Is(err, locked) {
		t.Errorf("the error is %v, want the store's error", err)
	}
	if d := cmp.Diff([]string{"delete", "insert"}, opsOf(changes)); d != "" {
		t.Fatal(d)
	}
	if changes[1].Version == 0 {
		t.Error("the insert has no version, so undoing it would remove any later value")
	}
	wantStored(t, s, tallItem)
}
