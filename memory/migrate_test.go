package memory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// Contact is the current shape of the former kind User, {"full_name": …}.
type Contact struct {
	First string `json:"first"`
	Last  string `json:"last"`
	Age   int    `json:"age"`
}

var errNoName = errors.New("missing name")

// split migrates a Contact.
func split(content json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(content, &fields); err != nil {
		return nil, err
	}
	full, old := fields["full_name"]
	if !old {
		if fields["first"] == nil {
			return nil, errNoName
		}
		return content, nil
	}
	var name string
	if err := json.Unmarshal(full, &name); err != nil {
		return nil, err
	}
	first, last, _ := strings.Cut(name, " ")
	delete(fields, "full_name")
	fields["first"], _ = json.Marshal(first)
	fields["last"], _ = json.Marshal(last)
	return json.Marshal(fields)
}

var contactKinds = []memory.Kind{memory.NewKind[Contact]("somebody").Migrate(split, "User")}

const (
	oldContact = `{"kind":"User","content":{"full_name":"Ann Lee","age":30,"zone":"CET"},"source":"crm"}`
	newContact = `{"content":{"age":30,"first":"Ann","last":"Lee","zone":"CET"},"kind":"Contact","source":"crm"}`
)

func contactManager(t *testing.T, s *store.Store, turns ...llmtest.Turn) *memory.StoreManager {
	t.Helper()
	var o memory.StoreManagerOptions
	o.Kinds, o.NoInserts, o.Deletes = contactKinds, true, true
	return newStoreManager(t, s, llmtest.Scripted(t, turns...), o)
}

// Upstream reads nothing at all if one memory has the shape of an earlier schema.
//
// Defect: §3.2 one memory of an earlier schema makes get and search fail.
func TestStoredMemoriesAreMigrated(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "ann", oldContact)
	before, err := s.Get(t.Context(), memories, "ann", nil)
	if err != nil {
		t.Fatal(err)
	}
	m := contactManager(t, s)
	d, err := m.Get(t.Context(), "ann")
	var p Contact
	if err != nil || d.Kind != "Contact" || d.Decode(&p) != nil || p != (Contact{"Ann", "Lee", 30}) {
		t.Errorf("%v: got %s of kind %s", err, d.Content, d.Kind)
	}
	for name, read := range map[string]func() ([]*store.Item, error){
		"Search": func() ([]*store.Item, error) { return m.Search(t.Context(), nil) },
		"AsOf":   func() ([]*store.Item, error) { return m.AsOf(t.Context(), time.Now(), nil) },
		"Recall": func() ([]*store.Item, error) { return m.Recall(t.Context(), llm.User("Ann")) },
	} {
		if items, err := read(); err != nil || len(items) != 1 || string(items[0].Value) != newContact {
			t.Errorf("%s: %v: got %v", name, err, items)
		}
	}
	r, err := memory.NewRecaller(&memory.RecallerOptions{Store: s, Namespace: memories, Kinds: contactKinds, Pinned: []string{"ann"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Recall(t.Context(), llm.User("Ann")); err != nil || len(got.Memories) != 1 || got.Memories[0].Document.Kind != "Contact" {
		t.Errorf("%v: recalled %+v", err, got)
	}
	search, err := memory.SearchTool(&memory.ToolOptions{Store: s, Namespace: memories, Kinds: contactKinds})
	if err != nil {
		t.Fatal(err)
	}
	got, err := call(t, search, `{"query":"Ann"}`)
	if text, jsonErr := json.Marshal(got); err != nil || jsonErr != nil || !strings.Contains(string(text), `"last":"Lee"`) {
		t.Errorf("%v: the tool found %s", err, text)
	}
	wantStored(t, s, string(before.Value)) // reading writes nothing
}

// Defect: §3.1 an update drops the fields that the schema does not have.
// Defect: §3.1 an update drops all fields except kind and content.
func TestNextWriteStoresCurrentShape(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "default", oldContact)
	m := contactManager(t, s, llmtest.Ask(llmtest.ToolCall("PatchDoc", patching(`[{"op":"replace","path":"/age","value":31}]`))))
	changes, err := m.Reflect(t.Context(), llm.User("I turned 31"))
	if err != nil || len(changes) != 1 {
		t.Fatalf("changes %v, error %v", changes, err)
	}
	wantStored(t, s, strings.Replace(newContact, "30", "31", 1))
	if _, err := m.Undo(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, oldContact) // as it was before
}

func TestUndoRemovalOfEarlierShape(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "default", oldContact)
	m := contactManager(t, s, llmtest.Ask(llmtest.ToolCall("RemoveDoc", `{"json_doc_id":"m1"}`)))
	changes, err := m.Reflect(t.Context(), llm.User("forget me"))
	if err != nil || len(changes) != 1 || changes[0].Op != memory.Delete {
		t.Fatalf("changes %v, error %v", changes, err)
	}
	wantStored(t, s)
	if _, err := m.Undo(t.Context(), changes...); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, oldContact)
}

func TestManageToolUpdatesEarlierShape(t *testing.T) {
	for name, test := range map[string]struct{ stored, want string }{
		"that a manager wrote": {oldContact, strings.Replace(newContact, "30", "31", 1)},
		"that the tool wrote":  {`{"content":{"full_name":"Ann Lee","age":30}}`, `{"content":{"first":"Ann","last":"Lee","age":31}}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			put(t, s, "a", test.stored)
			tool := manageTool[Contact](t, memory.ToolOptions{Store: s, Merge: true, Kinds: contactKinds})
			if _, err := call(t, tool, `{"action":"update","id":"a","content":{"age":31}}`); err != nil {
				t.Fatal(err)
			}
			wantStored(t, s, test.want)
		})
	}
}

func TestExtractMigratesDocuments(t *testing.T) {
	old := []memory.Document{{ID: "ann", Kind: "User", Content: json.RawMessage(`{"full_name":"Ann Lee","age":30}`)}}
	edit := patching(`[{"op":"replace","path":"/last","value":"Ray"}]`)
	o := memory.ExtractOptions{Kinds: contactKinds}
	cs, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("PatchDoc", edit))), []llm.Message{llm.User("I married")}, old, &o)
	if err != nil || len(cs) != 1 || cs[0].Kind != "Contact" || string(cs[0].After) != `{"first":"Ann","last":"Ray","age":30}` {
		t.Errorf("%v: the changes are %+v", err, cs)
	}
	if old[0].Kind != "User" {
		t.Error("the caller's documents have changed")
	}
}

func TestMigrationErrorNamesDocument(t *testing.T) {
	notJSON := memory.NewKind[Contact]("x").Migrate(func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage("{"), nil })
	list := memory.NewKind[Contact]("x").Migrate(func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage("[]"), nil })
	for _, test := range []struct {
		kind memory.Kind
		want string
	}{{contactKinds[0], "missing name"}, {notJSON, "not JSON"}, {list, "not a JSON object"}} {
		s := newStore(t, nil)
		put(t, s, "ann", `{"kind":"Contact","content":{"age":30}}`)
		var o memory.StoreManagerOptions
		o.Kinds = []memory.Kind{test.kind}
		m := newStoreManager(t, s, llmtest.NewScript(), o)
		for _, err := range []error{second(m.Get(t.Context(), "ann")), second(m.Search(t.Context(), nil)), second(m.Reflect(t.Context(), llm.User("hi")))} {
			if text := fmt.Sprint(err); !strings.Contains(text, test.want) || !strings.Contains(text, `"ann"`) {
				t.Errorf("the error is %v, want one about ann with %q", err, test.want)
			}
		}
	}
	var o memory.StoreManagerOptions
	o.Kinds = []memory.Kind{memory.NewKind[Contact]("x").Migrate(nil)}
	if _, err := memory.NewStoreManager(llmtest.NewScript(), &o); !strings.Contains(fmt.Sprint(err), "nil migration function") {
		t.Errorf("the error is %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestStoreManagerPutOptions(t *testing.T) {
	s := newStore(t, nil)
	m := newStoreManager(t, s, llmtest.NewScript(), memory.StoreManagerOptions{})
	o := &store.PutOptions{TTL: time.Hour, Index: []string{"content.object"}, Meta: map[string]any{"importance": 1}}
	if err := m.Put(t.Context(), "a", Triple{Subject: "Ann", Predicate: "likes", Object: "tea"}, o); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{"tea": 1, "Ann": 0} {
		if items, err := m.Search(t.Context(), &store.SearchOptions{Query: query}); err != nil || len(items) != want {
			t.Errorf("%v: %q finds %d memories, want %d", err, query, len(items), want)
		} else if want > 0 && (items[0].TTL != time.Hour || string(items[0].Meta) != `{"importance":1}`) {
			t.Errorf("the memory lives for %v and has the meta %s", items[0].TTL, items[0].Meta)
		}
	}
}

func TestStoreManagerNamespace(t *testing.T) {
	m, err := memory.NewStoreManager(llmtest.NewScript(), &memory.StoreManagerOptions{Namespace: []string{"team", "{user}"}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := m.Namespace(memory.WithVars(t.Context(), map[string]string{"user": "ada"}))
	if err != nil || !n.HasPrefix(store.Namespace{"team", "ada"}) || len(n) != 2 {
		t.Errorf("the namespace is %v and the error %v", n, err)
	}
	_, err = m.Namespace(t.Context())
	if e, ok := errors.AsType[*memory.VarError](err); !ok || e.Var != "user" {
		t.Errorf("the error is %v", err)
	}
}

func TestManagerFindsReflectedMemories(t *testing.T) {
	s := newStore(t, nil)
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(note("Ann likes tea"))), memory.StoreManagerOptions{})
	r, err := memory.NewReflector(func(ctx context.Context, _ string, messages llm.Messages) ([]memory.ItemChange, error) {
		return m.Reflect(ctx, messages...)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := r.Submit(t.Context(), "thread 1", llm.Messages{llm.User("I like tea")}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	items, err := m.Search(t.Context(), &store.SearchOptions{Query: "tea", Filter: store.Eq("kind", "Memory"), Limit: 3})
	if err != nil || len(items) != 1 || !strings.Contains(string(items[0].Value), "Ann likes tea") {
		t.Errorf("%v: found %v", err, items)
	}
}

func TestExportIncludesUseCounts(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", `{"content":"Ann likes tea"}`)
	r, err := memory.NewRecaller(&memory.RecallerOptions{Store: s, Namespace: memories})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Recall(t.Context(), llm.User("tea?")); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), store.Namespace{"other"}, "k", map[string]int{"v": 1}, nil); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if n, err := memory.Export(t.Context(), s, &file, memories); err != nil || n != 2 || strings.Contains(file.String(), "other") {
		t.Errorf("%v: %d versions:\n%s", err, n, file.String())
	}
	if n, err := memory.Export(t.Context(), s, io.Discard, nil); err != nil || n != 3 {
		t.Errorf("%v: %d versions of the whole store, want 3", err, n)
	}
}

// Defect: §7 an answer in words to a request for a repair is an AttributeError.
func TestTextResponseDoesNotRepairCall(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "default", `{"kind":"Contact","content":{"age":30}}`)
	var o memory.StoreManagerOptions
	o.Kinds, o.NoInserts = []memory.Kind{memory.NewKind[Contact]("somebody")}, true
	edit := patching(`[{"op":"replace","path":"/age","value":31}]`)
	m := newStoreManager(t, s, llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("PatchDoc", edit)), llmtest.Say("sorry")), o)
	changes, err := m.Reflect(t.Context(), llm.User("I turned 31"))
	if e, ok := errors.AsType[*memory.CallError](err); !ok || len(changes) != 0 || !strings.Contains(e.Error(), "first") {
		t.Errorf("changes %v, error %v, want an error that names the missing field", changes, err)
	}
	wantStored(t, s, `{"kind":"Contact","content":{"age":30}}`)
}
