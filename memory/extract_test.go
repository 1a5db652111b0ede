package memory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
)

type Triple struct {
	Subject   string `json:"subject"`
	Predicate string `json:"predicate"`
	Object    string `json:"object"`
	Context   string `json:"context,omitempty"`
}

type Profile struct {
	Name  string   `json:"name"`
	Age   int      `json:"age"`
	Likes []string `json:"likes"`
	Tone  string   `json:"tone" default:"friendly"`
}

func (p *Profile) Validate() error {
	if p.Age < 0 {
		return errors.New("an age is not negative")
	}
	return nil
}

var (
	triples  = memory.NewKind[Triple]("A fact about people and teams.")
	profiles = memory.NewKind[Profile]("What is known of the user.")
)

func said(texts ...string) []llm.Message {
	var out []llm.Message
	for _, text := range texts {
		out = append(out, llm.User(text))
	}
	return out
}

func doc(t *testing.T, id string, v any) memory.Document {
	t.Helper()
	d, err := memory.NewDocument(id, v)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// lines formats the changes for comparison: new documents have no ID.
func lines(cs memory.ChangeSet) []string {
	var out []string
	for _, c := range cs {
		id := c.ID
		if c.Op == memory.Insert {
			id = "new"
		}
		content := c.After
		if c.Op == memory.Delete {
			content = c.Before
		}
		out = append(out, fmt.Sprintf("%s %s %s %s", c.Op, id, c.Kind, content))
	}
	return out
}

func wantLines(t *testing.T, cs memory.ChangeSet, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, lines(cs)); d != "" {
		t.Errorf("the changes are others (-want +got):\n%s", d)
	}
}

func patch(id string, ops ...map[string]any) llm.ToolCall {
	return llmtest.ToolCall("PatchDoc", map[string]any{"json_doc_id": id, "planned_edits": "as said", "patches": ops})
}

func replace(path string, v any) map[string]any {
	return map[string]any{"op": "replace", "path": path, "value": v}
}

func remove(id string) llm.ToolCall {
	return llmtest.ToolCall("RemoveDoc", map[string]any{"json_doc_id": id})
}

func done() llm.ToolCall { return llmtest.ToolCall("Done", `{}`) }

func TestExtractWritesSeveralKinds(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Turn{
		Message: llm.Assistant("",
			llmtest.ToolCall("Profile", `{"name":"Ann","age":40,"likes":["tea"]}`),
			llmtest.ToolCall("Triple", Triple{Subject: "Ann", Predicate: "manages", Object: "ML"})),
		Expect: []func(*llm.Request) error{llmtest.Offered("Profile", "Triple", "Done"), llmtest.Asked("I am Ann")},
	})
	cs, err := memory.Extract(t.Context(), model, said("I am Ann"), nil, &memory.ExtractOptions{Kinds: []memory.Kind{profiles, triples}})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, cs,
		`insert new Profile {"name":"Ann","age":40,"likes":["tea"],"tone":"friendly"}`,
		`insert new Triple {"subject":"Ann","predicate":"manages","object":"ML"}`)
	if cs[0].ID == cs[1].ID || len(cs[0].ID) != 36 {
		t.Errorf("the ids are %q and %q, want two UUIDs", cs[0].ID, cs[1].ID)
	}
}

func TestExtractTakesNullAsAbsent(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("Triple", `{"subject":"A","predicate":"b","object":"C","context":null}`)))
	cs, err := memory.Extract(t.Context(), model, said("…"), nil, &memory.ExtractOptions{Kinds: []memory.Kind{triples}})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, cs, `insert new Triple {"subject":"A","predicate":"b","object":"C"}`)
}

func TestExtractPatchesRemovesAndKeeps(t *testing.T) {
	existing := []memory.Document{
		doc(t, "a-long-id", Profile{Name: "Ann", Age: 40, Likes: []string{"tea"}}),
		doc(t, "b", "Bob is tall"), doc(t, "c", "Ann likes tea"),
	}
	model := llmtest.Scripted(t, llmtest.Turn{
		Message: llm.Assistant("",
			patch("m1", replace("/age", 41), map[string]any{"op": "add", "path": "/likes/-", "value": "milk"}), remove("m3")),
		Expect: []func(*llm.Request) error{llmtest.Offered("Profile", "Memory", "PatchDoc", "RemoveDoc", "Done"), func(r *llm.Request) error {
			system := r.Messages[0].Text()
			if !strings.Contains(system, `id="m1" kind="Profile"`) || strings.Contains(system, "a-long-id") {
				return fmt.Errorf("the model does not see short ids: %s", system)
			}
			return nil
		}},
	})
	cs, err := memory.Extract(t.Context(), model, said("I am 41 now and like milk"), existing, &memory.ExtractOptions{
		Kinds: []memory.Kind{profiles, memory.NewKind[memory.Memory]("A note.")}, Deletes: true})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, cs,
		`update a-long-id Profile {"name":"Ann","age":41,"likes":["tea","milk"],"tone":""}`,
		`keep b Memory {"content":"Bob is tall"}`,
		`delete c Memory {"content":"Ann likes tea"}`)
	if c := cs[0]; string(c.Before) != string(existing[0].Content) || len(c.Patch) != 2 || c.Reason != "as said" {
		t.Errorf("the update is %+v", c)
	}
	if got := len(cs.Documents()); got != 2 {
		t.Errorf("%d documents are left, want 2", got)
	}
	if got := len(cs.Changed()); got != 2 {
		t.Errorf("%d documents have changed, want 2", got)
	}
}

// With inserts enabled and existing documents, LangMem forces the model to write: its only
// alternative is an empty patch.
//
// Defect: §2.2 the model must write something, as there is no way to do nothing.
func TestExtractOffersToDoNothing(t *testing.T) {
	existing := []memory.Document{doc(t, "a", "Ann likes tea")}
	for _, answer := range []llm.ToolCall{done(), patch("m1")} {
		model := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("", answer),
			Expect: []func(*llm.Request) error{llmtest.Offered("Memory", "PatchDoc", "Done")}})
		cs, err := memory.Extract(t.Context(), model, said("Hello"), existing, nil)
		if err != nil {
			t.Fatal(err)
		}
		wantLines(t, cs, `keep a Memory {"content":"Ann likes tea"}`)
	}
}

func TestExtractRepairsOnlyFailedCall(t *testing.T) {
	seesOneCall := func(r *llm.Request) error {
		said := r.Messages[len(r.Messages)-2]
		if len(said.ToolCalls) != 1 || said.ToolCalls[0].Name != "Profile" {
			return fmt.Errorf("the model sees %v", said.ToolCalls)
		}
		return nil
	}
	fix := func(v any) llm.ToolCall {
		return llmtest.ToolCall("FixCall", map[string]any{"planned_edits": "a number", "patches": []any{replace("/age", v)}})
	}
	bad := llmtest.ToolCall("Profile", `{"name":"Ann","age":"forty","likes":[]}`)
	good := `insert new Profile {"name":"Ann","age":40,"likes":[],"tone":"friendly"}`
	tests := []struct {
		name    string
		repairs []llm.ToolCall
		want    []string
	}{
		{"by a patch", []llm.ToolCall{fix(40)}, []string{good}},
		{"by an invalid patch and a valid one", []llm.ToolCall{fix(-1), fix(40)}, []string{good}},
		{"by an inapplicable patch and an applicable one", []llm.ToolCall{
			llmtest.ToolCall("FixCall", `{"patches":[{"op":"remove","path":"/x"}]}`), fix(40)}, []string{good}},
		{"by another call", []llm.ToolCall{llmtest.ToolCall("Profile", `{"name":"Ann","age":40,"likes":[]}`)}, []string{good}},
		{"by taking it back", []llm.ToolCall{done()}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			turns := []llmtest.Turn{llmtest.Ask(llmtest.ToolCall("Triple", Triple{Subject: "Ann", Predicate: "is", Object: "here"}), bad)}
			for _, call := range test.repairs {
				turns = append(turns, llmtest.Turn{Message: llm.Assistant("", call), Expect: []func(*llm.Request) error{seesOneCall}})
			}
			cs, err := memory.Extract(t.Context(), llmtest.Scripted(t, turns...), said("I am Ann, 40"), nil,
				&memory.ExtractOptions{Kinds: []memory.Kind{profiles, triples}})
			if err != nil {
				t.Fatal(err)
			}
			wantLines(t, cs, append([]string{`insert new Triple {"subject":"Ann","predicate":"is","object":"here"}`}, test.want...)...)
		})
	}
}

// Upstream logs invalid calls that are left and omits them.
//
// Defect: §7 calls that stay invalid are left out of the result without an error.
// Defect: §2.2 calls that stay invalid are dropped silently.
func TestExtractReturnsChangesWithError(t *testing.T) {
	bad := llmtest.ToolCall("Profile", `{"name":"Ann"}`)
	model := llmtest.Scripted(t, llmtest.Ask(bad, llmtest.ToolCall("Triple", Triple{Subject: "A", Predicate: "b", Object: "C"})),
		llmtest.Ask(bad), llmtest.Ask(bad))
	cs, err := memory.Extract(t.Context(), model, said("Hi"), nil, &memory.ExtractOptions{Kinds: []memory.Kind{profiles, triples}})
	ce, ok := errors.AsType[*memory.CallError](err)
	if !ok || ce.Tool != "Profile" || ce.Attempts != 3 || ce.Args != `{"name":"Ann"}` {
		t.Fatalf("the error is %v", err)
	}
	wantLines(t, cs, `insert new Triple {"subject":"A","predicate":"b","object":"C"}`)
}

// Upstream drops a patch of an unknown document with a line in the log.
//
// Defect: §7 patches of unknown documents are dropped.
func TestExtractListsKnownDocuments(t *testing.T) {
	existing := []memory.Document{doc(t, "a", "Ann likes tea")}
	model := llmtest.Scripted(t,
		llmtest.Ask(patch("a", replace("/content", "x")), remove("m7")),
		llmtest.Turn{Message: llm.Assistant("", patch("m1", replace("/content", "Ann likes milk"))),
			Expect: []func(*llm.Request) error{llmtest.Asked(`unknown document "a": want one of m1`)}},
		llmtest.Turn{Message: llm.Assistant("", done()), Expect: []func(*llm.Request) error{llmtest.Asked(`unknown document "m7"`)}})
	cs, err := memory.Extract(t.Context(), model, said("Hi"), existing, &memory.ExtractOptions{Deletes: true})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, cs, `update a Memory {"content":"Ann likes milk"}`)
}

// Upstream drops a patched document whose kind is not among the schemas.
//
// Defect: §7 patched documents of unknown kinds are dropped.
func TestExtractPatchesUnknownKinds(t *testing.T) {
	existing := []memory.Document{{ID: "a", Kind: "Recipe", Content: json.RawMessage(`{"dish":"soup","n":1}`)}}
	model := llmtest.Scripted(t, llmtest.Ask(patch("m1", replace("/dish", "stew"))))
	cs, err := memory.Extract(t.Context(), model, said("Hi"), existing, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, cs, `update a Recipe {"dish":"stew","n":1}`)
}

// LangMem's update path calls a failing model until its graph's recursion limit, and hides
// the reason.
//
// Defect: §7 a model that keeps failing is asked without end.
// Defect: §2.2 errors of the provider are swallowed where documents exist.
func TestExtractReturnsModelErrorImmediately(t *testing.T) {
	down := errors.New("the provider is down")
	existing := []memory.Document{doc(t, "a", "Ann likes tea")}
	cs, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Fail(down)), said("Hi"), existing, nil)
	if !errors.Is(err, down) {
		t.Fatalf("the error is %v, want %v", err, down)
	}
	wantLines(t, cs, `keep a Memory {"content":"Ann likes tea"}`)

	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("Memory", `{"content":"x"}`), llmtest.ToolCall("Memory", `{}`)), llmtest.Fail(down))
	cs, err = memory.Extract(t.Context(), model, said("Hi"), nil, nil)
	if _, ok := errors.AsType[*memory.CallError](err); !ok || !errors.Is(err, down) {
		t.Fatalf("the error is %v, want the call's and %v", err, down)
	}
	wantLines(t, cs, `insert new Memory {"content":"x"}`)
}

func TestExtractRepairsInvalidCalls(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Turn{Message: llm.Message{Role: llm.RoleAI, ToolCalls: []llm.ToolCall{{ID: "1", Name: "Memo", Args: json.RawMessage(`{"content":"x"}`)}},
			InvalidToolCalls: []llm.InvalidToolCall{{ID: "2", Name: "Memory", Args: `{"content":`, Error: "cut off"}}}},
		llmtest.Turn{Message: llm.Assistant("", llmtest.ToolCall("Memory", `{"content":"x"}`)),
			Expect: []func(*llm.Request) error{llmtest.Asked(`unknown tool "Memo": use one of Memory, Done`)}},
		llmtest.Turn{Message: llm.Assistant("", llmtest.ToolCall("Memory", `{"content":"y"}`)),
			Expect: []func(*llm.Request) error{llmtest.Asked("not a JSON object")}})
	cs, err := memory.Extract(t.Context(), model, said("Hi"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, cs, `insert new Memory {"content":"x"}`, `insert new Memory {"content":"y"}`)
}

// Without inserts, a first document may be created, which is a profile. LangMem creates
// several if the model calls the tool twice.
//
// Defect: §2.2 several documents are made although inserts are off.
func TestExtractWithoutInsertsCreatesOne(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Ask(llmtest.ToolCall("Profile", `{"name":"Ann","age":40,"likes":[]}`), llmtest.ToolCall("Profile", `{"name":"Ann","age":41,"likes":[]}`)),
		llmtest.Turn{Message: llm.Assistant("", patch("m1", replace("/age", 41))),
			Expect: []func(*llm.Request) error{llmtest.Asked("no more calls of Profile"), llmtest.Offered("PatchDoc", "Done", "FixCall")}})
	cs, err := memory.Extract(t.Context(), model, said("I am Ann"), nil, &memory.ExtractOptions{Kinds: []memory.Kind{profiles}, NoInserts: true})
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, cs, `insert new Profile {"name":"Ann","age":41,"likes":[],"tone":"friendly"}`)
}

func TestExtractSkipsDuplicates(t *testing.T) {
	existing := []memory.Document{doc(t, "a", "Ann likes tea")}
	call := llmtest.ToolCall("Memory", `{"content":"Ann likes tea"}`)
	cs, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Ask(call, call)), said("Hi"), existing, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, cs, `keep a Memory {"content":"Ann likes tea"}`)
}

func TestExtractReportsIncompleteResponse(t *testing.T) {
	cut := llm.Assistant("", llmtest.ToolCall("Memory", `{"content":"x"}`))
	cut.Stop = llm.StopLength
	cs, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Turn{Message: cut}), said("Hi"), nil, nil)
	if !errors.Is(err, llm.ErrLength) {
		t.Errorf("the error is %v, want %v", err, llm.ErrLength)
	}
	wantLines(t, cs, `insert new Memory {"content":"x"}`)

	no := llm.Assistant("I would rather not.")
	no.Stop = llm.StopRefusal
	if _, err := memory.Extract(t.Context(), llmtest.Scripted(t, llmtest.Turn{Message: no}), said("Hi"), nil, nil); !errors.Is(err, llm.ErrRefused) {
		t.Errorf("the error is %v, want %v", err, llm.ErrRefused)
	}
}

func TestExtractRejectsInvalidInput(t *testing.T) {
	type Done struct {
		A string `json:"a"`
	}
	twice := []memory.Document{doc(t, "a", "x"), doc(t, "a", "y")}
	tests := []struct {
		name     string
		existing []memory.Document
		o        memory.ExtractOptions
		want     string
	}{
		{"nothing allowed", nil, memory.ExtractOptions{NoInserts: true, NoUpdates: true}, "no changes allowed"},
		{"a kind that is not a struct", nil, memory.ExtractOptions{Kinds: []memory.Kind{memory.NewKind[string]("")}}, "kind string"},
		{"a kind without a name", nil, memory.ExtractOptions{Kinds: []memory.Kind{memory.NewKind[struct{ A int }]("")}}, "has no name"},
		{"the zero kind", nil, memory.ExtractOptions{Kinds: []memory.Kind{{}}}, "NewKind"},
		{"a kind twice", nil, memory.ExtractOptions{Kinds: []memory.Kind{triples, triples}}, "kind name Triple"},
		{"a kind named as a tool", nil, memory.ExtractOptions{Kinds: []memory.Kind{memory.NewKind[Done]("")}}, "kind name Done"},
		{"attempts below zero", nil, memory.ExtractOptions{Attempts: -1}, "Attempts -1"},
		{"a duplicate ID", twice, memory.ExtractOptions{}, `ID "a"`},
		{"no JSON", []memory.Document{{ID: "b", Content: json.RawMessage("{")}}, memory.ExtractOptions{}, "not JSON"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := memory.Extract(t.Context(), llmtest.Scripted(t), said("Hi"), test.existing, &test.o)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want one with %q", err, test.want)
			}
		})
	}
}
