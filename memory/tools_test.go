package memory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

func manageTool[T any](t *testing.T, o memory.ToolOptions) *llm.Tool {
	t.Helper()
	if o.Namespace == nil {
		o.Namespace = memories
	}
	tool, err := memory.ManageTool[T](&o)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func call(t *testing.T, tool *llm.Tool, args string) (any, error) {
	t.Helper()
	return tool.Call(t.Context(), llm.ToolCall{ID: "1", Name: tool.Name, Args: json.RawMessage(args)})
}

func TestManageToolCreatesUpdatesAndDeletes(t *testing.T) {
	s := newStore(t, nil)
	tool := manageTool[string](t, memory.ToolOptions{Store: s})
	out, err := call(t, tool, `{"content":"Ann likes tea"}`)
	key, ok := strings.CutPrefix(out.(string), "created memory ")
	if err != nil || !ok || len(key) != 36 {
		t.Fatalf("got %v and %v", out, err)
	}
	wantStored(t, s, `{"content":"Ann likes tea"}`)
	if out, err := call(t, tool, `{"action":"update","id":"`+key+`","content":"Ann likes milk"}`); err != nil || out != "updated memory "+key {
		t.Fatalf("got %v and %v", out, err)
	}
	wantStored(t, s, `{"content":"Ann likes milk"}`)
	if out, err := call(t, tool, `{"action":"delete","id":"`+key+`"}`); err != nil || out != "Deleted memory "+key {
		t.Fatalf("got %v and %v", out, err)
	}
	wantStored(t, s)
	if tool.Name != "manage_memory" {
		t.Errorf("the tool's name is %q", tool.Name)
	}
}

// LangMem's update creates missing memories, its create stores null, and both overwrite
// without checking.
//
// Defect: §3.3 an update of a memory that is not there writes it.
// Defect: §3.3 create without content stores null.
func TestManageToolRejectsInvalidCalls(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "fact", `{"kind":"Triple","content":{"subject":"A","predicate":"b","object":"C"}}`)
	tool := manageTool[string](t, memory.ToolOptions{Store: s, Actions: []string{"create", "update"}})
	for args, want := range map[string]string{
		`{}`:                                            "missing content of the memory to create",
		`{"content":null}`:                              "missing content of the memory to create",
		`{"content":"x","id":"a"}`:                      "create with an ID",
		`{"content":"x","action":"update"}`:             "missing ID of the memory to update",
		`{"action":"update","id":"fact"}`:               "missing content of the memory to update",
		`{"content":"x","action":"delete"}`:             "action",
		`{"content":"x","action":"update","id":"gone"}`: "unknown memory gone",
		`{"content":"x","action":"update","id":"fact"}`: "memory fact is a Triple",
	} {
		if out, err := call(t, tool, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v and %v, want an error with %q", args, out, err, want)
		}
	}
	if got := stored(t, s); len(got) != 1 {
		t.Errorf("the store holds %v", got)
	}
}

// LangMem's IDs must be UUIDs, so a profile under "default" is out of reach.
//
// Defect: §3.3 a memory whose key is no UUID, such as a profile, is out of reach.
// Defect: §3.3 what the tool writes has no kind, not even what had one.
func TestManageToolUpdatesManagerMemories(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "default", teaItem)
	put(t, s, "fact", `{"kind":"Triple","content":{"subject":"A","predicate":"b","object":"C"}}`)
	if _, err := call(t, manageTool[string](t, memory.ToolOptions{Store: s}), `{"action":"update","id":"default","content":"Ann likes milk"}`); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, manageTool[Triple](t, memory.ToolOptions{Store: s}), `{"action":"update","id":"fact","content":{"subject":"A","predicate":"b","object":"D"}}`); err != nil {
		t.Fatal(err)
	}
	wantStored(t, s, `{"kind":"Memory","content":{"content":"Ann likes milk"}}`, `{"kind":"Triple","content":{"subject":"A","predicate":"b","object":"D"}}`)
}

// Defect: §3.3 the same memory is created again and again.
func TestManageToolSkipsDuplicates(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", `{"content":"Ann likes tea"}`)
	if err := s.Put(t.Context(), store.Namespace{"memories", "below"}, "b", map[string]string{"content": "Bob is tall"}, nil); err != nil {
		t.Fatal(err)
	}
	tool := manageTool[string](t, memory.ToolOptions{Store: s})
	if out, err := call(t, tool, `{"content":"Ann likes tea"}`); err != nil || out != "memory a says this already" {
		t.Errorf("got %v and %v", out, err)
	}
	put(t, s, "c", `{"kind":"Memory","content":{"content":"Cy came"}}`)
	if out, err := call(t, tool, `{"content":"Cy came"}`); err != nil || out != "memory c says this already" {
		t.Errorf("got %v and %v", out, err)
	}
	put(t, s, "d", `{"kind":"Triple","content":{"subject":"A","predicate":"b","object":"C"}}`)
	if out, err := call(t, manageTool[Triple](t, memory.ToolOptions{Store: s}), `{"content":{"object":"C","subject":"A","predicate":"b"}}`); err != nil || out != "memory d says this already" {
		t.Errorf("got %v and %v", out, err)
	}
	// An item in a namespace below is not a duplicate.
	if out, err := call(t, tool, `{"content":"Bob is tall"}`); err != nil || !strings.HasPrefix(out.(string), "created memory ") {
		t.Errorf("got %v and %v", out, err)
	}
}

// LangMem's error for a missing store derives from BaseException, so the tool node cannot
// convert it to a message.
//
// Defect: §3.3 a missing store is an error that the tool node cannot catch.
func TestManageToolReportsMissingStore(t *testing.T) {
	_, err := call(t, manageTool[string](t, memory.ToolOptions{}), `{"content":"x"}`)
	if _, ok := errors.AsType[*llm.ToolError](err); !ok || !errors.Is(err, store.ErrNoStore) {
		t.Errorf("the error is %v, want a tool's with %v", err, store.ErrNoStore)
	}
}

func TestManageToolDescribesItsActions(t *testing.T) {
	tool := manageTool[string](t, memory.ToolOptions{Actions: []string{"update", "delete"}, Instructions: "Be brief.", Name: "notes"})
	if want := "Update or delete a memory that lasts beyond this conversation. Give the id only to update or delete an existing memory. Be brief."; tool.Description != want || tool.Name != "notes" {
		t.Errorf("the tool is %q: %q", tool.Name, tool.Description)
	}
	action := tool.Parameters.Properties["action"]
	if d := cmp.Diff([]any{"update", "delete"}, action.Enum); d != "" || string(action.Default) != `"update"` {
		t.Errorf("the actions are %v, by default %s", action.Enum, action.Default)
	}
	for _, actions := range [][]string{{}, {"read"}} {
		if _, err := memory.ManageTool[string](&memory.ToolOptions{Actions: actions}); err == nil || !strings.Contains(err.Error(), "action") {
			t.Errorf("%v: the error is %v", actions, err)
		}
	}
}

func TestManageToolConcurrentUse(t *testing.T) {
	s := newStore(t, nil)
	tool := manageTool[string](t, memory.ToolOptions{Store: s})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := tool.Call(t.Context(), llmtest.ToolCall(tool.Name, map[string]string{"content": fmt.Sprint(i)})); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := stored(t, s); len(got) != 8 {
		t.Errorf("the store holds %v, want 8 memories", got)
	}
}

func TestSearchToolFindsMemories(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", `{"content":"Ann likes tea"}`)
	put(t, s, "b", `{"content":"Bob is tall"}`)
	tool, err := memory.SearchTool(&memory.ToolOptions{Store: s, Namespace: memories, Artifact: true})
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{"query":"tea"}`: "a", `{"query":"","filter":{"content":"Bob is tall"}}`: "b", `{"query":"","limit":1,"offset":1}`: "a",
	} {
		out, err := call(t, tool, args)
		if err != nil {
			t.Fatal(err)
		}
		m := llm.ToolResult(llm.ToolCall{ID: "1"}, out)
		var got []map[string]any
		if err := json.Unmarshal([]byte(m.Content), &got); err != nil || len(got) != 1 || got[0]["key"] != want {
			t.Fatalf("%s: got %s and %v, want only %s", args, m.Content, err, want)
		}
		if _, scored := got[0]["score"].(float64); len(got[0]) != 6 || scored != strings.Contains(args, "tea") || m.Artifact == nil {
			t.Errorf("%s: got %v and %v", args, got[0], m.Artifact)
		}
	}
	if _, err := call(t, tool, `{"query":"x","filter":{"$nope":1}}`); err == nil || !strings.Contains(err.Error(), "$nope") {
		t.Errorf("the error is %v", err)
	}
}

// Upstream's searcher works only inside of a graph.
//
// Defect: §2.4 the searcher takes no store, so it works only inside a graph.
func TestSearchForFindsEachItemOnce(t *testing.T) {
	s := newStore(t, nil)
	put(t, s, "a", `{"content":"Ann likes tea"}`)
	put(t, s, "b", `{"content":"Bob likes tall tea"}`)
	model := llmtest.Scripted(t, llmtest.Ask(llmtest.ToolCall("search_memory", `{"query":"tea"}`), llmtest.ToolCall("search_memory", `{"query":"tall tea"}`)),
		llmtest.Say("nothing"))
	o := &memory.ToolOptions{Store: s, Namespace: memories}
	items, err := memory.SearchFor(t.Context(), model, said("…"), o)
	if err != nil || len(items) != 2 || items[0].Key != "b" || items[1].Key != "a" {
		t.Errorf("got %v and %v, want b and a", items, err)
	}
	if items, err := memory.SearchFor(t.Context(), model, said("…"), o); err != nil || len(items) != 0 {
		t.Errorf("got %v and %v, want nothing", items, err)
	}
	for i, r := range model.Requests() {
		if r.ToolChoice != llm.ToolChoiceAny {
			t.Errorf("request %d: tool choice %q", i, r.ToolChoice)
		}
	}
}

// Upstream fails with an IndexError if the model answers with nothing.
//
// Defect: §2.3 an answer without a call is an IndexError.
// Defect: §2.3 the instructions are a format template, so braces break them.
func TestExtractThreadReturnsValue(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Turn{Message: llm.Assistant("", llmtest.ToolCall("ThreadSummary", `{"title":"Tea","summary":"Ann wants {tea}."}`)),
		Expect: []func(*llm.Request) error{llmtest.Asked("I want {tea}")}})
	got, err := memory.ExtractThread[memory.ThreadSummary](t.Context(), model, said("I want {tea}"), "Use {braces} as you like.")
	if d := cmp.Diff(memory.ThreadSummary{Title: "Tea", Summary: "Ann wants {tea}."}, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	silent := llmtest.NewScript(llmtest.Say("no"), llmtest.Say("no"), llmtest.Say("no"))
	_, err = memory.ExtractThread[memory.ThreadSummary](t.Context(), silent, said("x"), "")
	if _, ok := errors.AsType[*llm.ObjectError](err); !ok {
		t.Errorf("the error is %v", err)
	}
}

func TestToolMemoryIsValidNow(t *testing.T) {
	over, ahead := time.Date(2020, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(9000, 3, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		until time.Time
		call  string
		want  []string // with when they end
	}{
		"an update of what is over":   {over, `{"action":"update","id":"a","content":"Ann is in Oslo"}`, []string{`{"content":"Ann is in Oslo"} 0001`}},
		"an update of what holds":     {ahead, `{"action":"update","id":"a","content":"Ann is in Oslo"}`, []string{`{"content":"Ann is in Oslo"} 9000`}},
		"what was over is told again": {over, `{"content":"Ann is in Rome"}`, []string{`{"content":"Ann is in Rome"} 2020`, `{"content":"Ann is in Rome"} 0001`}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, nil)
			meta := map[string]any{"validity": memory.Validity{Until: test.until}}
			if err := s.Put(t.Context(), memories, "a", map[string]string{"content": "Ann is in Rome"}, &store.PutOptions{Meta: meta}); err != nil {
				t.Fatal(err)
			}
			tool, err := memory.ManageTool[string](&memory.ToolOptions{Store: s, Namespace: memories})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tool.Call(t.Context(), llmtest.ToolCall("manage_memory", test.call)); err != nil {
				t.Fatal(err)
			}
			items, err := s.Search(t.Context(), memories, nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range items {
				got = append(got, string(item.Value)+" "+memory.DocumentOf(item).Validity.Until.Format("2006"))
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
