package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

var memories = store.Namespace{"memories"}

func newStore(t *testing.T, o *store.Options) *store.Store {
	t.Helper()
	s, err := store.NewMemory(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newStoreManager(t *testing.T, s *store.Store, model llm.Model, o memory.StoreManagerOptions) *memory.StoreManager {
	t.Helper()
	o.Store = s
	if o.Namespace == nil {
		o.Namespace = memories
	}
	m, err := memory.NewStoreManager(model, &o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func put(t *testing.T, s *store.Store, key, value string) {
	t.Helper()
	if err := s.Put(t.Context(), memories, key, json.RawMessage(value), nil); err != nil {
		t.Fatal(err)
	}
}

// stored returns the values under the namespace, sorted.
func stored(t *testing.T, s *store.Store) []string {
	t.Helper()
	items, err := s.Search(t.Context(), memories, &store.SearchOptions{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, item := range items {
		out = append(out, string(item.Value))
	}
	slices.Sort(out)
	return out
}

func wantStored(t *testing.T, s *store.Store, want ...string) {
	t.Helper()
	slices.Sort(want)
	if d := cmp.Diff(want, stored(t, s)); d != "" {
		t.Errorf("the store holds other values (-want +got):\n%s", d)
	}
}

func opsOf(changes []memory.ItemChange) []string {
	var out []string
	for _, c := range changes {
		out = append(out, string(c.Op))
	}
	return out
}

const teaItem, tallItem = `{"kind":"Memory","content":{"content":"Ann likes tea"}}`, `{"kind":"Memory","content":{"content":"Bob is tall"}}`

// Upstream reports the puts only.
//
// Defect: §3.1 deletes are not reported.
func TestStoreManagerReportsAllChanges(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	put(t, s, "b", tallItem)
	// The newest memory is recalled first.
	model := llmtest.Scripted(t, llmtest.Ask(remove("m1"), patch("m2", replace("/content", "Ann likes milk")), note("Cy came")))
	m := newStoreManager(t, s, model, memory.StoreManagerOptions{ManagerOptions: memory.ManagerOptions{ExtractOptions: memory.ExtractOptions{Deletes: true}}})
	changes, err := m.Reflect(t.Context(), llm.User("…"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"delete", "update", "insert"}, opsOf(changes)); d != "" {
		t.Error(d)
	}
	if changes[0].Key != "b" || changes[1].Key != "a" || changes[1].ID != "a" || len(changes[2].Key) != 36 {
		t.Errorf("the changes are %+v", changes)
	}
	wantStored(t, s, `{"kind":"Memory","content":{"content":"Ann likes milk"}}`, `{"kind":"Memory","content":{"content":"Cy came"}}`)
}

// LangMem indexes value["kind"] and fails on items written by the tools.
//
// Defect: §3.1 memories of the tools raise KeyError, even in a namespace below.
func TestStoreManagerReadsItemsWithoutKind(t *testing.T) {
	s := newStore(t, nil)
	if err := s.Put(t.Context(), store.Namespace{"memories", "below"}, "text", map[string]string{"content": "Bob is tall"}, nil); err != nil {
		t.Fatal(err)
	}
	put(t, s, "text", `{"content":"Ann likes tea"}`)
	put(t, s, "object", `{"content":{"city":"Bonn"}}`)
	put(t, s, "foreign", `{"anything":1}`)
	model := llmtest.Scripted(t, llmtest.Turn{
		Message: llm.Assistant("", patch("m1", replace("/anything", 2)), patch("m2", replace("/city", "Rome")), patch("m3", replace("/content", "Ann likes milk")), patch("m4", replace("/content", "Bob is small"))),
		Expect: []func(*llm.Request) error{func(r *llm.Request) error {
			if text := r.Messages[0].Text(); !strings.Contains(text, `<document id="m3" kind="Memory">`+"\n"+`{"content":"Ann likes tea"}`) {
				return fmt.Errorf("the model sees %s", text)
			}
			return nil
		}}})
	if _, err := newStoreManager(t, s, model, memory.StoreManagerOptions{}).Reflect(t.Context(), llm.User("…")); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, `{"anything":2}`, `{"content":{"city":"Rome"}}`, `{"kind":"Memory","content":{"content":"Ann likes milk"}}`,
		`{"kind":"Memory","content":{"content":"Bob is small"}}`)
}

// LangMem writes its default whenever recall finds nothing, over later changes of the
// default.
//
// Defect: §3.1 the default overwrites what it has become.
func TestStoreManagerKeepsStoredDefault(t *testing.T) {
	s := newStore(t, nil)
	o := memory.StoreManagerOptions{Default: "Use short answers", Limit: 1}
	reflect := func(text string, calls ...llm.ToolCall) {
		t.Helper()
		if _, err := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(calls...)), o).Reflect(t.Context(), llm.User(text)); err != nil {
			t.Fatal(err)
		}
	}
	reflect("Hello", done())
	wantStored(t, s, `{"kind":"Memory","content":{"content":"Use short answers"}}`)
	reflect("Longer please", patch("m1", replace("/content", "Use long answers")))
	put(t, s, "newer", teaItem) // which takes the only place there is
	reflect("nothing that matches", done())
	wantStored(t, s, `{"kind":"Memory","content":{"content":"Use long answers"}}`, teaItem)
}

func TestStoreManagerChangesUnstoredDefault(t *testing.T) {
	s := newStore(t, nil)
	o := memory.StoreManagerOptions{DefaultFunc: func(context.Context) (any, error) { return Profile{Name: "?", Likes: []string{}}, nil }}
	o.Kinds, o.NoInserts = []memory.Kind{profiles}, true
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(patch("m1", replace("/name", "Ann")))), o)
	changes, err := m.Reflect(t.Context(), llm.User("I am Ann"))
	if err != nil || len(changes) != 1 || changes[0].Op != memory.Insert || changes[0].Key != "default" {
		t.Fatalf("got %+v and %v", changes, err)
	}
	wantStored(t, s, `{"kind":"Profile","content":{"name":"Ann","age":0,"likes":[],"tone":""}}`)
}

// LangMem creates query_limit/4 windows: none below 4.
//
// Defect: §3.1 a limit below four means no recall at all.
func TestStoreManagerAlwaysRecalls(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	for i := range 10 {
		put(t, s, fmt.Sprint(i), fmt.Sprintf(`{"kind":"Memory","content":{"content":"fact %d"}}`, i))
	}
	for limit := 1; limit <= 9; limit++ {
		m := newStoreManager(t, s, llmtest.NewScript(), memory.StoreManagerOptions{Limit: limit})
		items, err := m.Recall(t.Context(), llm.User("Do you know me?"), llm.Assistant("No"), llm.User("What tea do I drink?"))
		if err != nil || len(items) != limit || items[0].Key != "a" {
			t.Errorf("limit %d: got %v and %v, want the tea first of %d", limit, items, err, limit)
		}
	}
}

func TestStoreManagerUsesQueryModel(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	put(t, s, "b", tallItem)
	search := func(args string) llm.ToolCall { return llmtest.ToolCall("search_memory", args) }
	queries := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("", search(`{"query":"tea"}`), search(`{"query":"tea Ann"}`)),
		Expect: []func(*llm.Request) error{llmtest.Offered("search_memory"), llmtest.Asked("hot drinks")}},
		llmtest.Say("I do not know what to look for"),
		llmtest.Ask(search(`{"query":"x","filter":{"$nope":1}}`)))
	m := newStoreManager(t, s, llmtest.NewScript(), memory.StoreManagerOptions{QueryModel: queries, Limit: 1})
	for _, text := range []string{"hot drinks", "who likes tea"} {
		if items, err := m.Recall(t.Context(), llm.User(text)); err != nil || len(items) != 1 || items[0].Key != "a" {
			t.Errorf("got %v and %v, want the tea", items, err)
		}
	}
	if _, err := m.Recall(t.Context(), llm.User("…")); err == nil || !strings.Contains(err.Error(), "$nope") {
		t.Errorf("the error is %v, want the filter's", err)
	}
}

// LangMem's synchronous path passes writes to an executor and never checks their results.
//
// Defect: §3.1 errors of writes are swallowed.
// Defect: §3.1 the writes are no transaction.
func TestStoreManagerWritesAllOrNothing(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	meanwhile := `{"kind":"Memory","content":{"content":"Ann likes rum"}}`
	interfere := func(*llm.Request) error {
		return s.Put(context.Background(), memories, "a", json.RawMessage(meanwhile), nil)
	}
	turn := llmtest.Turn{Message: llm.Assistant("", patch("m1", replace("/content", "Ann likes milk")), note("Cy came")),
		Expect: []func(*llm.Request) error{interfere}}
	// Each attempt is interfered with.
	changes, err := newStoreManager(t, s, llmtest.Scripted(t, turn, turn, turn), memory.StoreManagerOptions{}).Reflect(t.Context(), llm.User("…"))
	if ce, ok := errors.AsType[*store.ConflictError](err); !ok || ce.Key != "a" || changes != nil {
		t.Fatalf("got %v and %v, want a conflict about a", changes, err)
	}
	wantStored(t, s, meanwhile)

	changes, err = newStoreManager(t, s, llmtest.Scripted(t, turn), memory.StoreManagerOptions{Overwrite: true}).Reflect(t.Context(), llm.User("…"))
	if err != nil || len(changes) != 2 {
		t.Fatalf("got %v and %v, want both changes", changes, err)
	}
	wantStored(t, s, `{"kind":"Memory","content":{"content":"Ann likes milk"}}`, `{"kind":"Memory","content":{"content":"Cy came"}}`)
}

func TestStoreManagerWritesChangesWithError(t *testing.T) {
	s := newStore(t, nil)
	bad := llmtest.ToolCall("Memory", `{}`)
	o := memory.StoreManagerOptions{}
	o.Attempts = 1
	changes, err := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(bad, note("x"))), o).Reflect(t.Context(), llm.User("…"))
	if _, ok := errors.AsType[*memory.CallError](err); !ok || len(changes) != 1 {
		t.Errorf("got %v and %v", changes, err)
	}
	wantStored(t, s, `{"kind":"Memory","content":{"content":"x"}}`)
}

func TestInsertSkipsUnrecalledDuplicate(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", teaItem)
	put(t, s, "b", tallItem)
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(note("Ann likes tea"))), memory.StoreManagerOptions{Limit: 1})
	if changes, err := m.Reflect(t.Context(), llm.User("…")); err != nil || len(changes) != 0 {
		t.Errorf("got %v and %v, want no change", changes, err)
	}
	wantStored(t, s, teaItem, tallItem)
}

// The tools store a text without a kind.
func TestInsertSkipsToolDuplicate(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", `{"content":"Ann likes tea"}`)
	put(t, s, "b", tallItem)
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(note("Ann likes tea"))), memory.StoreManagerOptions{Limit: 1})
	if changes, err := m.Reflect(t.Context(), llm.User("…")); err != nil || len(changes) != 0 {
		t.Errorf("got %v and %v, want no change", changes, err)
	}
	wantStored(t, s, `{"content":"Ann likes tea"}`, tallItem)
}

func TestStoreManagerRunsPhases(t *testing.T) {
	s := newStore(t, nil)
	model := llmtest.Scripted(t,
		llmtest.Ask(note("x"), note("y")),
		llmtest.Turn{Message: llm.Assistant("", remove("m1"), patch("m2", replace("/content", "x and y"))), Expect: []func(*llm.Request) error{
			llmtest.Offered("Memory", "PatchDoc", "RemoveDoc", "Done"), func(r *llm.Request) error {
				if strings.Contains(r.Messages[1].Text(), "the words") {
					return errors.New("a phase sees the conversation though it is not to")
				}
				return nil
			}}},
		llmtest.Turn{Message: llm.Assistant("", done()), Expect: []func(*llm.Request) error{
			llmtest.Offered("PatchDoc", "Done"), llmtest.Asked("the words"), llmtest.Asked("Again.")}})
	m := newStoreManager(t, s, model, memory.StoreManagerOptions{Phases: []memory.Phase{{}, {Instructions: "Again.", IncludeMessages: true, NoInserts: true, NoDeletes: true}}})
	changes, err := m.Reflect(t.Context(), llm.User("the words"))
	if err != nil || len(changes) != 1 {
		t.Fatalf("got %v and %v, want one change", changes, err)
	}
	wantStored(t, s, `{"kind":"Memory","content":{"content":"x and y"}}`)
}

func TestStoreManagerKeepsHistory(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := newStore(t, &store.Options{Now: func() time.Time { return now }})
	put(t, s, "a", teaItem)
	tea := now
	now = now.Add(time.Hour)
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(patch("m1", replace("/content", "Ann likes milk")))), memory.StoreManagerOptions{})
	if _, err := m.Reflect(t.Context(), llm.Message{Role: llm.RoleHuman, ID: "msg-1", Content: "I like milk"}); err != nil {
		t.Fatal(err)
	}
	history, err := m.History(t.Context(), "a")
	if err != nil || len(history) != 2 {
		t.Fatalf("got %v and %v, want two versions", history, err)
	}
	var meta struct{ Provenance memory.Provenance }
	if err := history[0].Item.DecodeMeta(&meta); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(memory.Provenance{Messages: []string{"msg-1"}, Reason: "as said"}, meta.Provenance, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Model" }, cmp.Ignore())); d != "" {
		t.Error(d)
	}
	if items, err := m.AsOf(t.Context(), tea, nil); err != nil || len(items) != 1 || string(items[0].Value) != teaItem {
		t.Errorf("got %v and %v, want the tea", items, err)
	}
	if err := m.Forget(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if items, err := m.AsOf(t.Context(), tea, nil); err != nil || len(items) != 0 {
		t.Errorf("got %v and %v, want nothing", items, err)
	}
}

func TestOverwriteForgetsRemovedMemories(t *testing.T) {
	for _, overwrite := range []bool{false, true} {
		s := newStore(t, nil)
		put(t, s, "a", teaItem)
		o := memory.StoreManagerOptions{Overwrite: overwrite}
		o.Deletes = true
		m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(remove("m1"))), o)
		if _, err := m.Reflect(t.Context(), llm.User("…")); err != nil {
			t.Fatal(err)
		}
		history, err := m.History(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		known := slices.ContainsFunc(history, func(c store.Change) bool { return c.Item != nil })
		if known == overwrite {
			t.Errorf("overwrite %v: the history is %v", overwrite, history)
		}
	}
}

// LangMem's get of the default crashes if no default is configured, and its put does not
// wrap the stored value.
//
// Defect: §3.2 get of the default crashes if there is none.
// Defect: §3.2 get of the default crashes if it is not stored, although there is one.
// Defect: §3.2 put of a value without kind makes the next invoke raise KeyError.
// Defect: §3.2 put stores a value without its kind.
func TestStoreManagerReadsAndWritesMemories(t *testing.T) {
	s := newStore(t, nil)
	m := newStoreManager(t, s, llmtest.NewScript(), memory.StoreManagerOptions{})
	if _, err := m.Get(t.Context(), "default"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the error is %v, want %v", err, store.ErrNotFound)
	}
	if err := m.Put(t.Context(), "a", Triple{Subject: "Ann", Predicate: "likes", Object: "tea"}, nil); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, `{"kind":"Triple","content":{"subject":"Ann","predicate":"likes","object":"tea"}}`)
	var got Triple
	if d, err := m.Get(t.Context(), "a"); err != nil || d.Kind != "Triple" || d.Decode(&got) != nil || got.Object != "tea" {
		t.Errorf("got %v and %v", d, err)
	}
	withDefault := newStoreManager(t, s, llmtest.NewScript(), memory.StoreManagerOptions{Default: "x"})
	if d, err := withDefault.Get(t.Context(), "default"); err != nil || string(d.Content) != `{"content":"x"}` {
		t.Errorf("got %v and %v, want the default", d, err)
	}
	for range 2 { // also without a memory
		if err := m.Delete(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	wantStored(t, s)
	if past, err := m.History(t.Context(), "a"); err != nil || len(past) != 2 || past[0].Kind != store.Deleted {
		t.Errorf("%v: the history is %+v, want the removal and the previous value", err, past)
	}
}

func TestStoreManagerEmitsChanges(t *testing.T) {
	s := newStore(t, nil)
	m, err := memory.NewStoreManager(llmtest.Scripted(t, llmtest.Ask(note("x"))), &memory.StoreManagerOptions{Namespace: []string{"memories", "{user}"}})
	if err != nil {
		t.Fatal(err)
	}
	g, err := treadle.NewWorkflow("learn", func(ctx context.Context, text string) (int, error) {
		changes, err := m.Reflect(ctx, llm.User(text))
		return len(changes), err
	}, &treadle.Options{Store: s})
	if err != nil {
		t.Fatal(err)
	}
	type user struct {
		User string `json:"user"`
	}
	var got []string
	for e, err := range g.With(treadle.Context(user{"ann"})).Stream(t.Context(), "hello", treadle.Modes(treadle.ModeCustom)) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := e.(treadle.Custom); ok {
			if change, ok := c.Value.(memory.ItemChange); ok {
				got = append(got, fmt.Sprintf("%s %v %s", change.Op, change.Namespace, change.After))
			}
		}
	}
	if d := cmp.Diff([]string{`insert ["memories" "ann"] {"content":"x"}`}, got); d != "" {
		t.Error(d)
	}
}

func TestStoreManagerRejectsInvalidOptions(t *testing.T) {
	f := func(context.Context) (any, error) { return "x", nil }
	for want, o := range map[string]memory.StoreManagerOptions{
		"both Default and DefaultFunc": {Default: "x", DefaultFunc: f},
		"Limit -1":                     {Limit: -1},
		"unpaired {":                   {Namespace: []string{"{a"}},
		"of Default is not in Kinds":   {Default: Triple{}},
		"a nil slice or map is null":   {Default: Profile{Name: "?"}, ManagerOptions: memory.ManagerOptions{ExtractOptions: memory.ExtractOptions{Kinds: []memory.Kind{memory.NewKind[Profile]("")}}}},
	} {
		if _, err := memory.NewStoreManager(llmtest.NewScript(), &o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
	m, err := memory.NewStoreManager(llmtest.NewScript(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Reflect(t.Context(), llm.User("x")); err == nil || !strings.Contains(err.Error(), `"langgraph_user_id"`) {
		t.Errorf("the error is %v, want the variable's", err)
	}
	ctx := memory.WithVars(t.Context(), map[string]string{"langgraph_user_id": "u"})
	if _, err := m.Reflect(ctx, llm.User("x")); !errors.Is(err, store.ErrNoStore) {
		t.Errorf("the error is %v, want %v", err, store.ErrNoStore)
	}
}

// Updating a memory with a TTL of an hour extends it by an hour.
func TestUpdateKeepsTTL(t *testing.T) {
	s := newStore(t, &store.Options{TTL: time.Minute})
	for _, m := range []struct {
		key string
		ttl time.Duration
	}{{"a", time.Hour}, {"b", store.Forever}} {
		if err := s.Put(t.Context(), memories, m.key, map[string]any{"content": "is " + m.key}, &store.PutOptions{TTL: m.ttl}); err != nil {
			t.Fatal(err)
		}
	}
	model := llmtest.Scripted(t, llmtest.Ask(patch("m1", replace("/content", "was one")), patch("m2", replace("/content", "was another")), note("new")))
	m := newStoreManager(t, s, model, memory.StoreManagerOptions{})
	changes, err := m.Reflect(t.Context(), llm.User("…"))
	if err != nil {
		t.Fatal(err)
	}
	lives := func(want map[string]time.Duration) {
		t.Helper()
		for key, ttl := range want {
			if item, err := s.Get(t.Context(), memories, key, nil); err != nil || item.TTL != ttl {
				t.Errorf("%v: %q lives for %v, want %v", err, key, item.TTL, ttl)
			}
		}
	}
	lives(map[string]time.Duration{"a": time.Hour, "b": 0, changes[2].Key: time.Minute})
	if _, err := call(t, manageTool[string](t, memory.ToolOptions{Store: s, Namespace: memories}), `{"action":"update","id":"a","content":"is a"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Undo(t.Context(), changes[0]); err != nil { // of b, the newer memory
		t.Fatal(err)
	}
	lives(map[string]time.Duration{"a": time.Hour, "b": 0})
}
