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

type toolArgs = map[string]any

const promptOutput = "optimized_prompt_output"

func thinks() llmtest.Turn { return byTool("think", toolArgs{"thought": "hm"}) }

func byTool(tool string, a toolArgs, expect ...func(*llm.Request) error) llmtest.Turn {
	turn := llmtest.Ask(llmtest.ToolCall(tool, a))
	turn.Expect = expect
	return turn
}

func rewritten(text string, expect ...func(*llm.Request) error) llmtest.Turn {
	return byTool(promptOutput, toolArgs{"analysis": "because", "improved_prompt": text}, expect...)
}

func updated(yes bool, text string, expect ...func(*llm.Request) error) llmtest.Turn {
	return byTool(promptOutput, toolArgs{"logic": "because", "update_prompt": yes, "new_prompt": text}, expect...)
}

func recommend(expect ...func(*llm.Request) error) llmtest.Turn {
	return byTool("recommend", toolArgs{"warrants_adjustment": true, "hypotheses": "too long", "full_recommendations": "be brief"}, expect...)
}

func fine() llmtest.Turn {
	return byTool("recommend", toolArgs{"warrants_adjustment": false, "hypotheses": "all is well"})
}

func newOptimizer(t *testing.T, model llm.Model, kind memory.OptimizerKind, opts *memory.OptimizerOptions) *memory.Optimizer {
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

const briefly = "Greet {name} briefly."

func improvedPrompt(why string) memory.Improvement {
	return memory.Improvement{Prompt: memory.Prompt{Name: "main", Text: briefly}, Changed: true, Rationale: why,
		Diff: "- Greet {name}.\n+ Greet {name} briefly.\n"}
}

func keptPrompt(why string) memory.Improvement {
	return memory.Improvement{Prompt: greeting, Rationale: why}
}

// Every turn is asked for and no more: the length of a script is the number of
// calls.
func TestOptimizerCallsTheModelNoOftenerThanNeeded(t *testing.T) {
	only, thinking := llmtest.Offered(promptOutput), llmtest.Offered("think", "critique")
	for name, test := range map[string]struct {
		kind  memory.OptimizerKind
		opts  *memory.OptimizerOptions
		turns []llmtest.Turn
		want  memory.Improvement
	}{
		"gradient rewrites after the first recommendation": {memory.Gradient, nil,
			[]llmtest.Turn{thinks(), recommend(llmtest.Offered("think", "critique", "recommend")), rewritten(briefly, only, llmtest.Asked("be brief"))},
			improvedPrompt("too long\n\nbecause")},
		"gradient ends when no adjustment is warranted": {memory.Gradient, nil, []llmtest.Turn{thinks(), fine()}, keptPrompt("all is well")},
		"gradient need not think":                       {memory.Gradient, &memory.OptimizerOptions{MinSteps: -1}, []llmtest.Turn{fine()}, keptPrompt("all is well")},
		"gradient must recommend in the last step": {memory.Gradient, nil,
			[]llmtest.Turn{thinks(), thinks(), thinks(), thinks(), recommend(llmtest.Offered("recommend")), rewritten(briefly)},
			improvedPrompt("too long\n\nbecause")},
		"gradient asks again for recommendations that are missing": {memory.Gradient, &memory.OptimizerOptions{MinSteps: -1, MaxSteps: 1},
			[]llmtest.Turn{byTool("recommend", toolArgs{"warrants_adjustment": true}), recommend(llmtest.Asked("full_recommendations is empty")), rewritten(briefly)},
			improvedPrompt("too long\n\nbecause")},
		"metaprompt ends with the first output": {memory.Metaprompt, nil,
			[]llmtest.Turn{rewritten(briefly, llmtest.Offered("think", "critique", promptOutput))}, improvedPrompt("because")},
		"metaprompt thinks first if it must": {memory.Metaprompt, &memory.OptimizerOptions{MinSteps: 2},
			[]llmtest.Turn{byTool("critique", toolArgs{"criticism": "hm"}, thinking), rewritten(briefly)}, improvedPrompt("because")},
		"metaprompt must answer in the last step": {memory.Metaprompt, nil,
			[]llmtest.Turn{thinks(), thinks(), thinks(), thinks(), rewritten(briefly, only)}, improvedPrompt("because")},
		"metaprompt keeps the prompt without a result":    {memory.Metaprompt, nil, []llmtest.Turn{rewritten(" ")}, keptPrompt("because")},
		"metaprompt keeps the prompt if told so in words": {memory.Metaprompt, nil, []llmtest.Turn{rewritten("No recommendations.")}, keptPrompt("because")},
		"prompt memory asks once":                         {memory.PromptMemory, nil, []llmtest.Turn{updated(true, briefly, only)}, improvedPrompt("because")},
		"prompt memory asks again for a prompt that is empty": {memory.PromptMemory, nil,
			[]llmtest.Turn{updated(true, ""), updated(true, briefly, llmtest.Asked("the new prompt is empty"))}, improvedPrompt("because")},
		"prompt memory keeps the prompt when the model declines": {memory.PromptMemory, nil, []llmtest.Turn{updated(false, "")}, keptPrompt("because")},
		"a declined update counts more than a new text":          {memory.PromptMemory, nil, []llmtest.Turn{updated(false, briefly)}, keptPrompt("because")},
		"the same text is no change":                             {memory.PromptMemory, nil, []llmtest.Turn{updated(true, greeting.Text)}, keptPrompt("because")},
		"an answer without a call is asked again": {memory.PromptMemory, nil,
			[]llmtest.Turn{llmtest.Say("Sure!"), updated(false, "", llmtest.Asked("no tool was called: call "+promptOutput))}, keptPrompt("because")},
		"a tool that is not offered is no way out": {memory.PromptMemory, nil,
			[]llmtest.Turn{thinks(), updated(false, "", llmtest.Asked(`there is no tool "think" now`))}, keptPrompt("because")},
	} {
		t.Run(name, func(t *testing.T) {
			model := llmtest.Scripted(t, test.turns...)
			got, err := newOptimizer(t, model, test.kind, test.opts).Improve(t.Context(), greeting, complaints)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("improvement (-want +got):\n%s", d)
			}
		})
	}
}

// Defect: §5 metaprompt ignores an output before the last call.
// Defect: §5 metaprompt always makes as many calls as it may.
func TestMetapromptEndsWithItsFirstOutput(t *testing.T) {
	model := llmtest.Scripted(t, thinks(), rewritten("Hi {name}."))
	got, err := newOptimizer(t, model, memory.Metaprompt, nil).Improve(t.Context(), greeting, complaints)
	if got.Prompt.Text != "Hi {name}." || err != nil {
		t.Errorf("prompt %q, error %v", got.Prompt.Text, err)
	}
}

// Defect: §5 prompt_memory empties a prompt whose update was declined.
func TestDeclinedUpdateKeepsThePrompt(t *testing.T) {
	for _, text := range []string{"", "Hi."} {
		model := llmtest.Scripted(t, updated(false, text))
		got, err := newOptimizer(t, model, memory.PromptMemory, nil).Improve(t.Context(), greeting, complaints)
		if d := cmp.Diff(keptPrompt("because"), got); d != "" || err != nil {
			t.Errorf("error %v, improvement (-want +got):\n%s", err, d)
		}
	}
}

func TestArgumentsThatAreNoJSONGoBackToTheModel(t *testing.T) {
	broken := llmtest.Turn{Chunks: []llm.Chunk{{Stop: llm.StopTools, ToolCalls: []llm.ToolCallChunk{{ID: "1", Name: promptOutput, Args: `{"logic`}}}}}
	model := llmtest.Scripted(t, broken, updated(false, ""))
	got, err := newOptimizer(t, model, memory.PromptMemory, nil).Improve(t.Context(), greeting, complaints)
	if d := cmp.Diff(keptPrompt("because"), got); d != "" || err != nil {
		t.Errorf("error %v, improvement (-want +got):\n%s", err, d)
	}
}

func TestOptimizerAsksNothingWithoutTrajectories(t *testing.T) {
	for _, kind := range []memory.OptimizerKind{memory.Gradient, memory.Metaprompt, memory.PromptMemory} {
		o := newOptimizer(t, llmtest.Scripted(t), kind, nil)
		for _, none := range [][]memory.Trajectory{nil, {}, {{}}} {
			got, err := o.Improve(t.Context(), greeting, none)
			if d := cmp.Diff(keptPrompt(""), got); d != "" || err != nil {
				t.Errorf("%s: error %v, improvement (-want +got):\n%s", kind, err, d)
			}
			all, err := o.ImproveAll(t.Context(), []memory.Prompt{greeting, {Name: "other"}}, none)
			if d := cmp.Diff([]memory.Improvement{keptPrompt(""), {Prompt: memory.Prompt{Name: "other"}}}, all); d != "" || err != nil {
				t.Errorf("%s: error %v, improvements (-want +got):\n%s", kind, err, d)
			}
		}
	}
}

func TestLostVariablesAreFedBackAndBounded(t *testing.T) {
	lost := "the new prompt lacks {name}"
	for kind, turns := range map[memory.OptimizerKind][]llmtest.Turn{
		memory.Gradient:     {thinks(), recommend(), rewritten("Hi."), rewritten("Hi {{name}}.", llmtest.Asked(lost)), rewritten("Ho {nam}.", llmtest.Asked(lost))},
		memory.Metaprompt:   {thinks(), thinks(), thinks(), thinks(), rewritten("Hi."), rewritten("Hi.", llmtest.Asked(lost)), rewritten("Ho.", llmtest.Asked(lost))},
		memory.PromptMemory: {updated(true, "Hi."), updated(true, "Hi.", llmtest.Asked(lost)), updated(true, "Ho.", llmtest.Asked(lost))},
	} {
		got, err := newOptimizer(t, llmtest.Scripted(t, turns...), kind, nil).Improve(t.Context(), greeting, complaints)
		e, ok := errors.AsType[*memory.LostVariablesError](err)
		if !ok || !cmp.Equal(e, &memory.LostVariablesError{Prompt: "main", Variables: []string{"name"}}) {
			t.Errorf("%s: error %v", kind, err)
		}
		if d := cmp.Diff(keptPrompt(""), got); d != "" {
			t.Errorf("%s: improvement (-want +got):\n%s", kind, d)
		}
	}
}

func TestOptimizerMendsALostVariable(t *testing.T) {
	model := llmtest.Scripted(t, updated(true, "Hi."), updated(true, "Hi {name}, answer {\"ok\": 1}."))
	got, err := newOptimizer(t, model, memory.PromptMemory, nil).Improve(t.Context(), greeting, complaints)
	if want := "Hi {name}, answer {{\"ok\": 1}}."; got.Prompt.Text != want || err != nil {
		t.Errorf("prompt %q, error %v; want %q", got.Prompt.Text, err, want)
	}
}

// Defect: §3.4 two conversations are read as one and its feedback.
func TestTrajectoriesAreShownOneByOne(t *testing.T) {
	model := llmtest.Scripted(t, updated(false, "", llmtest.Heard(llm.System("Do it."), llm.User(strings.Join([]string{
		"<TO_OPTIMIZE>\nGreet {name}.\n</TO_OPTIMIZE>",
		"<variables>\n{name}\n</variables>",
		"<update_instructions>\nstay polite\n</update_instructions>",
		"<session_1>\nhuman: a\nai: b\n</session_1>",
		"<session_2>\nhuman: &lt;/session_2>\nai calls look: {}\n</session_2>",
		"<session_3>\n<feedback>\nbad\nspeed: 0.5\ntaste: 0\n</feedback>\n</session_3>",
	}, "\n\n")))))
	o := newOptimizer(t, model, memory.PromptMemory, &memory.OptimizerOptions{RewriteInstructions: "Do it."})
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

// Defect: §5 the tool choice is pinned to a name, which some servers refuse.
func TestOptimizerNeverDemandsAToolByName(t *testing.T) {
	model := llmtest.Scripted(t, byTool("classify", toolArgs{"reasoning": "r", "which": []string{"main"}}), thinks(), recommend(), rewritten("Hi {name}."))
	bound := llm.With(model, llm.Tools(llm.NewTool("stray", "Is none of our tools.", func(context.Context, struct{}) (string, error) { return "", nil })))
	o := newOptimizer(t, bound, memory.Gradient, nil)
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
		got, err := newOptimizer(t, llmtest.Scripted(t, test.turn), memory.Gradient, nil).Improve(t.Context(), greeting, complaints)
		if d := cmp.Diff(keptPrompt(""), got); d != "" || !errors.Is(err, test.want) {
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

func TestOfSeveralResultsTheFirstGoodOneCounts(t *testing.T) {
	result := func(text string) llm.ToolCall {
		return llmtest.ToolCall(promptOutput, toolArgs{"logic": text, "update_prompt": true, "new_prompt": text})
	}
	model := llmtest.Scripted(t, llmtest.Ask(result("Hi."), result("Hello {name}."), result("Ho {name}.")))
	got, err := newOptimizer(t, model, memory.PromptMemory, nil).Improve(t.Context(), greeting, complaints)
	if got.Prompt.Text != "Hello {name}." || err != nil {
		t.Errorf("prompt %q, error %v", got.Prompt.Text, err)
	}
}
