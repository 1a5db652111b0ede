package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory"
)

type args = map[string]any

const output = "optimized_prompt_output"

func think() llmtest.Turn { return call("think", args{"thought": "hm"}) }

func call(tool string, a args, expect ...func(*llm.Request) error) llmtest.Turn {
	turn := llmtest.Ask(llmtest.ToolCall(tool, a))
	turn.Expect = expect
	return turn
}

func rewritten(text string, expect ...func(*llm.Request) error) llmtest.Turn {
	return call(output, args{"analysis": "because", "improved_prompt": text}, expect...)
}

func update(yes bool, text string, expect ...func(*llm.Request) error) llmtest.Turn {
	return call(output, args{"logic": "because", "update_prompt": yes, "new_prompt": text}, expect...)
}

func recommend(expect ...func(*llm.Request) error) llmtest.Turn {
	return call("recommend", args{"warrants_adjustment": true, "hypotheses": "too long", "full_recommendations": "be brief"}, expect...)
}

func fine() llmtest.Turn {
	return call("recommend", args{"warrants_adjustment": false, "hypotheses": "all is well"})
}

func optimizer(t *testing.T, model llm.Model, kind memory.OptimizerKind, opts *memory.OptimizerOptions) *memory.Optimizer {
	t.Helper()
	o, err := memory.NewOptimizer(model, kind, opts)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var complaints = []memory.Trajectory{{
	Messages: llm.Messages{llm.User("What is an owl?"), llm.Assistant("Well, where to begin")},
	Feedback: "too long",
}}

var greeting = memory.Prompt{Name: "main", Text: "Greet {name}."}

func improved(text, why, diff string) memory.Improvement {
	return memory.Improvement{Prompt: memory.Prompt{Name: "main", Text: text}, Changed: true, Rationale: why, Diff: diff}
}

func kept(why string) memory.Improvement { return memory.Improvement{Prompt: greeting, Rationale: why} }

// Every turn is asked for and no more: the length of a script is the number of
// calls.
func TestOptimizerCallsTheModelNoOftenerThanNeeded(t *testing.T) {
	const briefly, diff = "Greet {name} briefly.", "- Greet {name}.\n+ Greet {name} briefly.\n"
	only, thinking := llmtest.Offered(output), llmtest.Offered("think", "critique")
	for name, test := range map[string]struct {
		kind  memory.OptimizerKind
		opts  *memory.OptimizerOptions
		turns []llmtest.Turn
		want  memory.Improvement
	}{
		"gradient rewrites after the first recommendation": {memory.Gradient, nil,
			[]llmtest.Turn{think(), recommend(llmtest.Offered("think", "critique", "recommend")), rewritten(briefly, only, llmtest.Asked("be brief"))},
			improved(briefly, "too long\n\nbecause", diff)},
		"gradient ends when no adjustment is warranted": {memory.Gradient, nil, []llmtest.Turn{think(), fine()}, kept("all is well")},
		"gradient need not think":                       {memory.Gradient, &memory.OptimizerOptions{MinSteps: -1}, []llmtest.Turn{fine()}, kept("all is well")},
		"gradient must recommend in the last step": {memory.Gradient, nil,
			[]llmtest.Turn{think(), think(), think(), think(), recommend(llmtest.Offered("recommend")), rewritten(briefly)},
			improved(briefly, "too long\n\nbecause", diff)},
		"gradient asks again for recommendations that are missing": {memory.Gradient, &memory.OptimizerOptions{MinSteps: -1, MaxSteps: 1},
			[]llmtest.Turn{call("recommend", args{"warrants_adjustment": true}), recommend(llmtest.Asked("full_recommendations is empty")), rewritten(briefly)},
			improved(briefly, "too long\n\nbecause", diff)},
		// Defect: 5 metaprompt ignores an output before the last step.
		"metaprompt ends with the first output": {memory.Metaprompt, nil,
			[]llmtest.Turn{rewritten(briefly, llmtest.Offered("think", "critique", output))}, improved(briefly, "because", diff)},
		"metaprompt thinks first if it must": {memory.Metaprompt, &memory.OptimizerOptions{MinSteps: 2},
			[]llmtest.Turn{call("critique", args{"criticism": "hm"}, thinking), rewritten(briefly)}, improved(briefly, "because", diff)},
		"metaprompt must answer in the last step": {memory.Metaprompt, nil,
			[]llmtest.Turn{think(), think(), think(), think(), rewritten(briefly, only)}, improved(briefly, "because", diff)},
		"metaprompt keeps the prompt without a result":    {memory.Metaprompt, nil, []llmtest.Turn{rewritten(" ")}, kept("because")},
		"metaprompt keeps the prompt if told so in words": {memory.Metaprompt, nil, []llmtest.Turn{rewritten("No recommendations.")}, kept("because")},
		"prompt memory asks once":                         {memory.PromptMemory, nil, []llmtest.Turn{update(true, briefly, only)}, improved(briefly, "because", diff)},
		"prompt memory asks again for a prompt that is empty": {memory.PromptMemory, nil,
			[]llmtest.Turn{update(true, ""), update(true, briefly, llmtest.Asked("the new prompt is empty"))}, improved(briefly, "because", diff)},
		// Defect: 5 prompt_memory ignores update_prompt and returns an empty prompt.
		"prompt memory keeps the prompt when the model declines": {memory.PromptMemory, nil, []llmtest.Turn{update(false, "")}, kept("because")},
		"a declined update counts more than a new text":          {memory.PromptMemory, nil, []llmtest.Turn{update(false, briefly)}, kept("because")},
		"the same text is no change":                             {memory.PromptMemory, nil, []llmtest.Turn{update(true, greeting.Text)}, kept("because")},
		"an answer without a call is asked again": {memory.PromptMemory, nil,
			[]llmtest.Turn{llmtest.Say("Sure!"), update(false, "", llmtest.Asked("no tool was called: call "+output))}, kept("because")},
		"a tool that is not offered is no way out": {memory.PromptMemory, nil,
			[]llmtest.Turn{think(), update(false, "", llmtest.Asked(`there is no tool "think" now`))}, kept("because")},
	} {
		t.Run(name, func(t *testing.T) {
			model := llmtest.Scripted(t, test.turns...)
			got, err := optimizer(t, model, test.kind, test.opts).Improve(t.Context(), greeting, complaints)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("improvement (-want +got):\n%s", d)
			}
		})
	}
}

func TestOptimizerAsksNothingWithoutTrajectories(t *testing.T) {
	for _, kind := range []memory.OptimizerKind{memory.Gradient, memory.Metaprompt, memory.PromptMemory} {
		o := optimizer(t, llmtest.Scripted(t), kind, nil)
		for _, none := range [][]memory.Trajectory{nil, {}, {{}}} {
			got, err := o.Improve(t.Context(), greeting, none)
			if d := cmp.Diff(kept(""), got); d != "" || err != nil {
				t.Errorf("%s: error %v, improvement (-want +got):\n%s", kind, err, d)
			}
			all, err := o.ImproveAll(t.Context(), []memory.Prompt{greeting, {Name: "other"}}, none)
			if d := cmp.Diff([]memory.Improvement{kept(""), {Prompt: memory.Prompt{Name: "other"}}}, all); d != "" || err != nil {
				t.Errorf("%s: error %v, improvements (-want +got):\n%s", kind, err, d)
			}
		}
	}
}

func TestLostVariablesAreFedBackAndBounded(t *testing.T) {
	lost := "the new prompt lacks {name}"
	for kind, turns := range map[memory.OptimizerKind][]llmtest.Turn{
		memory.Gradient:     {think(), recommend(), rewritten("Hi."), rewritten("Hi {{name}}.", llmtest.Asked(lost)), rewritten("Ho {nam}.", llmtest.Asked(lost))},
		memory.Metaprompt:   {think(), think(), think(), think(), rewritten("Hi."), rewritten("Hi.", llmtest.Asked(lost)), rewritten("Ho.", llmtest.Asked(lost))},
		memory.PromptMemory: {update(true, "Hi."), update(true, "Hi.", llmtest.Asked(lost)), update(true, "Ho.", llmtest.Asked(lost))},
	} {
		got, err := optimizer(t, llmtest.Scripted(t, turns...), kind, nil).Improve(t.Context(), greeting, complaints)
		e, ok := errors.AsType[*memory.LostVariablesError](err)
		if !ok || !cmp.Equal(e, &memory.LostVariablesError{Prompt: "main", Variables: []string{"name"}}) {
			t.Errorf("%s: error %v", kind, err)
		}
		if d := cmp.Diff(kept(""), got); d != "" {
			t.Errorf("%s: improvement (-want +got):\n%s", kind, d)
		}
	}
}

func TestOptimizerMendsALostVariable(t *testing.T) {
	model := llmtest.Scripted(t, update(true, "Hi."), update(true, "Hi {name}, answer {\"ok\": 1}."))
	got, err := optimizer(t, model, memory.PromptMemory, nil).Improve(t.Context(), greeting, complaints)
	if want := "Hi {name}, answer {{\"ok\": 1}}."; got.Prompt.Text != want || err != nil {
		t.Errorf("prompt %q, error %v; want %q", got.Prompt.Text, err, want)
	}
}

// Defect: 3.4 format_sessions reads a list of conversations as a conversation
// and its feedback.
func TestTrajectoriesAreShownOneByOne(t *testing.T) {
	model := llmtest.Scripted(t, update(false, "", llmtest.Heard(llm.System("Do it."), llm.User(strings.Join([]string{
		"<TO_OPTIMIZE>\nGreet {name}.\n</TO_OPTIMIZE>",
		"<variables>\n{name}\n</variables>",
		"<update_instructions>\nstay polite\n</update_instructions>",
		"<session_1>\nhuman: a\nai: b\n</session_1>",
		"<session_2>\nhuman: &lt;/session_2>\nai calls look: {}\n</session_2>",
		"<session_3>\n<feedback>\nbad\nspeed: 0.5\ntaste: 0\n</feedback>\n</session_3>",
	}, "\n\n")))))
	o := optimizer(t, model, memory.PromptMemory, &memory.OptimizerOptions{RewriteInstructions: "Do it."})
	p := greeting
	p.UpdateInstructions = "stay polite"
	if _, err := o.Improve(t.Context(), p, []memory.Trajectory{
		{Messages: llm.Messages{llm.User("a"), llm.Assistant("b")}},
		{Messages: llm.Messages{llm.User("</session_2>"), llm.Assistant("", llmtest.ToolCall("look", "{}"))}},
		{},
		{Feedback: "bad", Scores: map[string]float64{"taste": 0, "speed": 0.5}},
	}); err != nil {
		t.Error(err)
	}
}

// Defect: 5 tool_choice is pinned to a name, which some servers refuse.
func TestOptimizerNeverDemandsAToolByName(t *testing.T) {
	model := llmtest.Scripted(t, call("classify", args{"reasoning": "r", "which": []string{"main"}}), think(), recommend(), rewritten("Hi {name}."))
	bound := llm.With(model, llm.Tools(llm.NewTool("stray", "Is none of our tools.", func(context.Context, struct{}) (string, error) { return "", nil })))
	o := optimizer(t, bound, memory.Gradient, nil)
	if _, err := o.ImproveAll(t.Context(), []memory.Prompt{greeting, {Name: "b", Text: "B"}}, complaints); err != nil {
		t.Fatal(err)
	}
	for i, r := range model.Requests() {
		if r.ToolChoice != llm.ToolChoiceAny {
			t.Errorf("request %d: tool choice %q", i, r.ToolChoice)
		}
		for _, tool := range r.Tools {
			if tool.Name == "stray" {
				t.Errorf("request %d offers a tool that was bound to the model", i)
			}
		}
	}
}

func TestOptimizerErrors(t *testing.T) {
	down := errors.New("down")
	for name, test := range map[string]struct {
		turn llmtest.Turn
		want error
	}{
		"failure": {llmtest.Fail(down), down},
		"refusal": {llmtest.Turn{Message: llm.Message{Role: llm.RoleAI, Content: "no", Stop: llm.StopRefusal}}, llm.ErrRefused},
		"length":  {llmtest.Turn{Message: llm.Message{Role: llm.RoleAI, Content: "We", Stop: llm.StopLength}}, llm.ErrLength},
	} {
		got, err := optimizer(t, llmtest.Scripted(t, test.turn), memory.Gradient, nil).Improve(t.Context(), greeting, complaints)
		if d := cmp.Diff(kept(""), got); d != "" || !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, improvement (-want +got):\n%s", name, err, d)
		}
	}
}

func TestNewOptimizerRefusesWhatCannotWork(t *testing.T) {
	noTools := llmtest.NewScript()
	noTools.NoTools = true
	for want, test := range map[string]struct {
		model llm.Model
		kind  memory.OptimizerKind
		opts  *memory.OptimizerOptions
	}{
		"there is no model": {nil, memory.Gradient, nil},
		"cannot call tools": {noTools, memory.Gradient, nil},
		`unknown kind "magic": want "gradient", "metaprompt" or "prompt_memory"`: {llmtest.NewScript(), "magic", nil},
		"MinSteps 6, MaxSteps 5":  {llmtest.NewScript(), memory.Gradient, &memory.OptimizerOptions{MinSteps: 6}},
		"MinSteps 1, MaxSteps -1": {llmtest.NewScript(), memory.Gradient, &memory.OptimizerOptions{MaxSteps: -1}},
	} {
		if _, err := memory.NewOptimizer(test.model, test.kind, test.opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
