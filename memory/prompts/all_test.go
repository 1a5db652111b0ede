package prompts_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory/prompts"
)

var promptTeam = []prompts.Prompt{
	{Name: "plan", Text: "Plan."},
	{Name: "write", Text: "Write.", WhenToUpdate: "when the style is bad"},
	{Name: "check", Text: "Check."},
}

func blames(names ...string) toolArgs {
	return toolArgs{"reasoning": "the others are fine", "which": append([]string{}, names...)}
}

func promptTexts(all []prompts.Improvement) []string {
	var out []string
	for _, i := range all {
		out = append(out, i.Prompt.Name+": "+i.Prompt.Text)
	}
	return out
}

func TestImproveAllChangesBlamedPrompts(t *testing.T) {
	model := llmtest.Scripted(t,
		byTool("classify", blames("check", "plan"), llmtest.Offered("classify"), llmtest.Asked("too long")),
		updated(true, "Plan well.", llmtest.Asked("\nPlan.\n")),
		updated(true, "Check well.", llmtest.Asked("\nCheck.\n")),
	)
	all, err := newOptimizer(t, model, prompts.Memory, nil).ImproveAll(t.Context(), promptTeam, complaints)
	if err != nil {
		t.Fatal(err)
	}
	want := []prompts.Improvement{
		{Prompt: prompts.Prompt{Name: "plan", Text: "Plan well."}, Changed: true, Rationale: "because", Diff: "- Plan.\n+ Plan well.\n"},
		{Prompt: promptTeam[1], Rationale: "the others are fine"},
		{Prompt: prompts.Prompt{Name: "check", Text: "Check well."}, Changed: true, Rationale: "because", Diff: "- Check.\n+ Check well.\n"},
	}
	if d := cmp.Diff(want, all); d != "" {
		t.Errorf("improvements (-want +got):\n%s", d)
	}
}

// Defect: §5 when_to_update is not shown to the classifier.
func TestCreditAssignmentSeesWhenToUpdate(t *testing.T) {
	const when = "<when_to_update>\nwhen the style is bad\n</when_to_update>"
	for _, ps := range [][]prompts.Prompt{promptTeam, promptTeam[1:2]} {
		model := llmtest.Scripted(t, byTool("classify", blames(), llmtest.Asked(when)))
		all, err := newOptimizer(t, model, prompts.Gradient, nil).ImproveAll(t.Context(), ps, complaints)
		if d := cmp.Diff(promptTexts(all), promptTexts(samePrompts(ps))); d != "" || err != nil {
			t.Errorf("error %v, prompts (-got +want):\n%s", err, d)
		}
	}
}

func samePrompts(ps []prompts.Prompt) (out []prompts.Improvement) {
	for _, p := range ps {
		out = append(out, prompts.Improvement{Prompt: p})
	}
	return out
}

func TestSinglePromptSkipsClassifier(t *testing.T) {
	model := llmtest.Scripted(t, updated(true, "Hi {name}!", llmtest.Offered(promptOutput)))
	all, err := newOptimizer(t, model, prompts.Memory, nil).ImproveAll(t.Context(), []prompts.Prompt{greeting}, complaints)
	if d := cmp.Diff([]string{"main: Hi {name}!"}, promptTexts(all)); d != "" || err != nil {
		t.Errorf("error %v, prompts (-want +got):\n%s", err, d)
	}
}

func TestUnknownPromptNamesAreRetried(t *testing.T) {
	const problem = `unknown prompt "edit": want some of ["plan" "write" "check"]`
	model := llmtest.Scripted(t,
		byTool("classify", blames("plan", "edit")),
		byTool("classify", blames("write"), llmtest.Asked(problem)),
		updated(true, "Write well."),
	)
	all, err := newOptimizer(t, model, prompts.Memory, nil).ImproveAll(t.Context(), promptTeam, complaints)
	if d := cmp.Diff([]string{"plan: Plan.", "write: Write well.", "check: Check."}, promptTexts(all)); d != "" || err != nil {
		t.Errorf("error %v, prompts (-want +got):\n%s", err, d)
	}

	model = llmtest.Scripted(t, byTool("classify", blames("edit")), byTool("classify", blames("edit")), byTool("classify", blames("edit")))
	all, err = newOptimizer(t, model, prompts.Memory, nil).ImproveAll(t.Context(), promptTeam, complaints)
	if d := cmp.Diff(samePrompts(promptTeam), all); d != "" || err == nil || !strings.HasSuffix(err.Error(), problem) {
		t.Errorf("error %v, improvements (-want +got):\n%s", err, d)
	}
}

func TestImproveAllRequiresUniqueNames(t *testing.T) {
	for want, ps := range map[string][]prompts.Prompt{
		`prompt 1 is named "": names must be unique and not empty`:  {{Name: "a"}, {}},
		`prompt 1 is named "a": names must be unique and not empty`: {{Name: "a"}, {Name: "a"}},
	} {
		all, err := newOptimizer(t, llmtest.Scripted(t), prompts.Gradient, nil).ImproveAll(t.Context(), ps, complaints)
		if d := cmp.Diff(samePrompts(ps), all); d != "" || err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error %v, want %s; improvements (-want +got):\n%s", err, want, d)
		}
	}
}

func TestImproveAllContinuesAfterError(t *testing.T) {
	down := errors.New("down")
	model := llmtest.Scripted(t, byTool("classify", blames("plan", "check")), llmtest.Fail(down), updated(true, "Check well."))
	all, err := newOptimizer(t, model, prompts.Memory, nil).ImproveAll(t.Context(), promptTeam, complaints)
	if d := cmp.Diff([]string{"plan: Plan.", "write: Write.", "check: Check well."}, promptTexts(all)); d != "" {
		t.Errorf("prompts (-want +got):\n%s", d)
	}
	if !errors.Is(err, down) || !strings.Contains(err.Error(), `improve "plan"`) {
		t.Errorf("error %v", err)
	}
}
