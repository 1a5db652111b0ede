package memory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
)

func newManager(t *testing.T, model llm.Model, o *memory.ManagerOptions) *memory.Manager {
	t.Helper()
	m, err := memory.NewManager(model, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func note(text string) llm.ToolCall {
	return llmtest.ToolCall("Memory", memory.Memory{Content: text})
}

// LangMem returns the whole set without reporting the changes.
//
// Defect: §2.2 the result does not tell what changed.
func TestManagerReportsEachDocument(t *testing.T) {
	existing := []memory.Document{doc(t, "a", "Ann likes tea"), doc(t, "b", "Bob is tall"), doc(t, "c", "Cy left")}
	model := llmtest.Scripted(t, llmtest.Ask(patch("m1", replace("/content", "Ann likes milk")), remove("m3"), note("Dee came")))
	cs, err := newManager(t, model, &memory.ManagerOptions{ExtractOptions: memory.ExtractOptions{Deletes: true}}).Reflect(t.Context(), said("…"), existing)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, cs, `update a Memory {"content":"Ann likes milk"}`, `keep b Memory {"content":"Bob is tall"}`,
		`delete c Memory {"content":"Cy left"}`, `insert new Memory {"content":"Dee came"}`)
}

func TestManagerContinuesUntilDone(t *testing.T) {
	existing := []memory.Document{doc(t, "a", "Ann likes tea")}
	model := llmtest.Scripted(t,
		llmtest.Ask(note("x"), note("y"), remove("m1")),
		llmtest.Ask(remove("m2"), patch("m3", replace("/content", "z"))),
		llmtest.Ask(done()))
	o := &memory.ManagerOptions{Steps: 5, ExtractOptions: memory.ExtractOptions{Deletes: true}}
	cs, err := newManager(t, model, o).Reflect(t.Context(), said("…"), existing)
	if err != nil {
		t.Fatal(err)
	}
	// A document created and removed again does not appear.
	wantLines(t, cs, `delete a Memory {"content":"Ann likes tea"}`, `insert new Memory {"content":"z"}`)
}

// Upstream pairs calls with results through a map of documents: two calls about
// one document shift the pairing.
//
// Defect: §2.2 acknowledgements are paired with the wrong calls.
func TestManagerAnswersEachCall(t *testing.T) {
	model := llmtest.Scripted(t,
		llmtest.Ask(note("x"), patch("m1", replace("/content", "y")), patch("m1", replace("/content", "z"))),
		llmtest.Turn{Message: llm.Assistant("", done()), Expect: []func(*llm.Request) error{func(r *llm.Request) error {
			var got []string
			for _, m := range r.Messages {
				if m.Role == llm.RoleTool {
					got = append(got, m.ToolCallID+" "+m.Text())
				}
			}
			want := "call_1 Document m1 inserted.|call_2 Document m1 updated.|call_3 Document m1 updated."
			if strings.Join(got, "|") != want {
				return fmt.Errorf("the results are %q", got)
			}
			return nil
		}}})
	cs, err := newManager(t, model, &memory.ManagerOptions{Steps: 2}).Reflect(t.Context(), said("…"), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantLines(t, cs, `insert new Memory {"content":"z"}`)
}

// Upstream's hint breaks off in the middle of its sentence.
//
// Defect: §2.2 the hint of how many steps are left breaks off.
func TestManagerShowsRemainingSteps(t *testing.T) {
	model := llmtest.Scripted(t, llmtest.Ask(note("x")),
		llmtest.Turn{Message: llm.Assistant("", note("y")), Expect: []func(*llm.Request) error{llmtest.Asked("in at most 2 more steps, or call Done.")}},
		llmtest.Turn{Message: llm.Assistant("", note("z")), Expect: []func(*llm.Request) error{llmtest.Asked("in at most 1 more steps, or call Done.")}})
	cs, err := newManager(t, model, &memory.ManagerOptions{Steps: 3}).Reflect(t.Context(), said("…"), nil)
	if err != nil || len(cs) != 3 {
		t.Fatalf("got %v and %v, want three changes", cs, err)
	}
}

func TestManagerFencesConversation(t *testing.T) {
	var tags []string
	model := llmtest.Scripted(t, llmtest.Ask(done()), llmtest.Ask(done()), llmtest.Ask(done()))
	m := newManager(t, model, &memory.ManagerOptions{Instructions: "Note names."})
	for _, text := range []string{"I am Ann", "I am Ann", "I am Bob"} {
		if _, err := m.Reflect(t.Context(), said(text), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range model.Requests() {
		ask := r.Messages[len(r.Messages)-1].Text()
		_, tag, _ := strings.Cut(ask, "<session_")
		tag, _, _ = strings.Cut(tag, ">")
		if !strings.HasPrefix(ask, "Note names.") || len(tag) != 32 || !strings.HasSuffix(ask, "</session_"+tag+">") {
			t.Errorf("request %d is %q", i, ask)
		}
		tags = append(tags, tag)
	}
	if tags[0] != tags[1] || tags[0] == tags[2] {
		t.Errorf("the tags are %q: the same for the same conversation, another for another", tags)
	}
}

func TestManagerKeepsEarlierSteps(t *testing.T) {
	down := errors.New("the provider is down")
	cs, err := newManager(t, llmtest.Scripted(t, llmtest.Ask(note("x")), llmtest.Fail(down)), &memory.ManagerOptions{Steps: 3}).Reflect(t.Context(), said("…"), nil)
	if !errors.Is(err, down) {
		t.Errorf("the error is %v, want %v", err, down)
	}
	wantLines(t, cs, `insert new Memory {"content":"x"}`)
}

func TestManagerRejectsInvalidOptions(t *testing.T) {
	for want, make := range map[string]func() (*memory.Manager, error){
		"nil model": func() (*memory.Manager, error) { return memory.NewManager(nil, nil) },
		"Steps -1": func() (*memory.Manager, error) {
			return memory.NewManager(llmtest.NewScript(), &memory.ManagerOptions{Steps: -1})
		},
	} {
		if _, err := make(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}
