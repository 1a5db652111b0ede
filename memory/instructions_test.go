package memory_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/agent"
	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/memory/prompts"
	"github.com/treadle-go/treadle/store"
)

func newInstructions(t *testing.T, s *store.Store, text string) *memory.Instructions {
	t.Helper()
	i, err := memory.NewInstructions(prompts.Prompt{Name: "guide", Text: text}, &memory.InstructionsOptions{Namespace: []string{"how", "{user}"}, Store: s})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// updated returns a response of the optimizer's model.
func updated(yes bool, text string, expect ...func(*llm.Request) error) llmtest.Turn {
	call := llmtest.ToolCall("optimized_prompt_output", map[string]any{"logic": "because", "update_prompt": yes, "new_prompt": text})
	return turn([]llm.ToolCall{call}, expect...)
}

func newOptimizer(t *testing.T, model llm.Model) *prompts.Optimizer {
	t.Helper()
	o, err := prompts.NewOptimizer(model, prompts.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var complaint = []prompts.Trajectory{{Messages: llm.Messages{llm.User("hi"), llm.Assistant("Good day")}, Feedback: "too stiff"}}

func TestRunningAgentsUseNewInstructions(t *testing.T) {
	s := newStore(t, nil)
	i := newInstructions(t, s, "Greet {user}. Braces: {{}}.")
	model := llmtest.Scripted(t, llmtest.Say("ok"), llmtest.Say("ok"), llmtest.Say("ok"))
	g, err := agent.New(model, &agent.Options{Prompt: "Be brief.", Middleware: []*agent.Middleware{i.Middleware()}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(user string) {
		t.Helper()
		if _, err := g.With(treadle.Context(account{user})).Run(t.Context(), agent.Ask("hi")); err != nil {
			t.Fatal(err)
		}
	}
	ask("ann")
	opt := newOptimizer(t, llmtest.Scripted(t, updated(true, "Hug {user}.")))
	ann := memory.WithVars(t.Context(), map[string]string{"user": "ann"})
	better, err := i.Improve(ann, opt, complaint)
	if err != nil || !better.Changed || better.Prompt.Text != "Hug {user}." {
		t.Fatalf("%v: it became %+v", err, better)
	}
	ask("ann")
	ask("bob") // whose instructions are his own
	var systems []string
	for _, req := range model.Requests() {
		systems = append(systems, req.Messages[0].Text())
	}
	if d := cmp.Diff([]string{"Greet ann. Braces: {}.\n\nBe brief.", "Hug ann.\n\nBe brief.", "Greet bob. Braces: {}.\n\nBe brief."}, systems); d != "" {
		t.Errorf("the system prompts are others (-want +got):\n%s", d)
	}
	item, err := s.Get(t.Context(), store.Namespace{"how", "ann"}, "guide", nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"kind":"Prompt","content":{"name":"guide","prompt":"Hug {user}."}}`; string(item.Value) != want {
		t.Errorf("%s is stored, want %s", item.Value, want)
	}
	var meta struct{ Provenance memory.Provenance }
	if err := item.DecodeMeta(&meta); err != nil || meta.Provenance.Reason == "" || meta.Provenance.Reason != better.Rationale {
		t.Errorf("%v: the reason is %q, want %q", err, meta.Provenance.Reason, better.Rationale)
	}
}

func TestImproveWithoutChangeWritesNothing(t *testing.T) {
	s := newStore(t, nil)
	i := newInstructions(t, s, "Greet {user}.")
	ctx := memory.WithVars(t.Context(), map[string]string{"user": "ann"})
	for name, model := range map[string]*llmtest.Script{
		"the model declines": llmtest.Scripted(t, updated(false, "")),
		"the model fails":    llmtest.Scripted(t, llmtest.Fail(errors.New("no model"))),
	} {
		better, err := i.Improve(ctx, newOptimizer(t, model), complaint)
		if (err != nil) != (name == "the model fails") || better.Changed || better.Prompt.Text != "Greet {user}." {
			t.Errorf("%s: %v, %+v", name, err, better)
		}
	}
	if all, err := s.Namespaces(ctx, nil); err != nil || len(all) > 0 {
		t.Errorf("%v: there is something in %v", err, all)
	}
}

func TestImproveDetectsConflict(t *testing.T) {
	s := newStore(t, nil)
	i := newInstructions(t, s, "Greet.")
	ctx := memory.WithVars(t.Context(), map[string]string{"user": "ann"})
	for range 2 { // first without stored instructions
		meddle := func(*llm.Request) error {
			return s.Put(ctx, store.Namespace{"how", "ann"}, "guide", prompts.Prompt{Name: "guide", Text: "Nod."}, nil)
		}
		_, err := i.Improve(ctx, newOptimizer(t, llmtest.Scripted(t, updated(true, "Hug.", meddle))), complaint)
		if _, ok := errors.AsType[*store.ConflictError](err); !ok {
			t.Errorf("the error is %v, want a conflict", err)
		}
		// It was written by hand, without a kind.
		if p, err := i.Prompt(ctx); err != nil || p.Text != "Nod." {
			t.Errorf("%v: the prompt is %+v", err, p)
		}
	}
}

func TestInstructionsErrors(t *testing.T) {
	if _, err := memory.NewInstructions(prompts.Prompt{Text: "Greet."}, nil); err == nil || !strings.Contains(err.Error(), "set Prompt.Name") {
		t.Errorf("without a name the error is %v", err)
	}
	if _, err := memory.NewInstructions(prompts.Prompt{Name: "a"}, &memory.InstructionsOptions{Namespace: []string{"{"}}); err == nil {
		t.Error("an invalid namespace was accepted")
	}
	s := newStore(t, nil)
	i := newInstructions(t, s, "Greet {guest}.")
	g, err := agent.New(llmtest.Scripted(t), &agent.Options{Middleware: []*agent.Middleware{i.Middleware()}})
	if err != nil {
		t.Fatal(err)
	}
	for want, ctx := range map[string]treadle.RunOption{
		`instructions "guide": memory: no value for variable "guest": variables are user`: treadle.Context(account{"ann"}),
		`no value for variable "user"`: treadle.Context(struct{}{}),
	} {
		if _, err := g.With(ctx).Run(t.Context(), agent.Ask("hi")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
	if err := s.Put(t.Context(), store.Namespace{"how", "bob"}, "guide", map[string]any{"kind": "Prompt", "content": map[string]any{}}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := i.Prompt(memory.WithVars(t.Context(), map[string]string{"user": "bob"})); err == nil || !strings.Contains(err.Error(), `"guide" are not a prompt: empty text`) {
		t.Errorf("the error is %v", err)
	}
}
