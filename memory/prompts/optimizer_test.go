package prompts_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
	"github.com/treadle-go/treadle/memory/prompts"
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

func newOptimizer(t *testing.T, model llm.Model, kind prompts.Kind, opts *prompts.Options) *prompts.Optimizer {
	t.Helper()
	o, err := prompts.NewOptimizer(model, kind, opts)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

var complaints = []prompts.Trajectory{{
	Messages: llm.Messages{llm.User("What is an owl?"), llm.Assistant("Well, where to begin")},
	Feedback: "too long",
}}

var greeting = prompts.Prompt{Name: "main", Text: "Greet {name}."}

const briefly = "Greet {name} briefly."

func improvedPrompt(why string) prompts.Improvement {
	return prompts.Improvement{Prompt: prompts.Prompt{Name: "main", Text: briefly}, Changed: true, Rationale: why,
		Diff: "- Greet {name}.\n+ Greet {name} briefly.\n"}
}

func keptPrompt(why string) prompts.Improvement {
	return prompts.Improvement{Prompt: greeting, Rationale: why}
}

// Every turn is requested, and no more: the length of a script is the number of calls.
func TestOptimizerModelCalls(t *testing.T) {
	only, thinking := llmtest.Offered(promptOutput), llmtest.Offered("think", "critique")
	for name, test := range map[string]struct {
		kind  prompts.Kind
		opts  *prompts.Options
		turns []llmtest.Turn
		want  prompts.Improvement
	}{
		"gradient rewrites after the first recommendation": {prompts.Gradient, nil,
			[]llmtest.Turn{thinks(), recommend(llmtest.Offered("think", "critique", "recommend")), rewritten(briefly, only, llmtest.Asked("be brief"))},
			improvedPrompt("too long\n\nbecause")},
		"gradient ends when no adjustment is warranted": {prompts.Gradient, nil, []llmtest.Turn{thinks(), fine()}, keptPrompt("all is well")},
		"gradient need not think":                       {prompts.Gradient, &prompts.Options{MinSteps: -1}, []llmtest.Turn{fine()}, keptPrompt("all is well")},
		"gradient must recommend in the last step": {prompts.Gradient, nil,
			[]llmtest.Turn{thinks(), thinks(), thinks(), thinks(), recommend(llmtest.Offered("recommend")), rewritten(briefly)},
			improvedPrompt("too long\n\nbecause")},
		"gradient asks again for recommendations that are missing": {prompts.Gradient, &prompts.Options{MinSteps: -1, MaxSteps: 1},
			[]llmtest.Turn{byTool("recommend", toolArgs{"warrants_adjustment": true}), recommend(llmtest.Asked("full_recommendations is empty")), rewritten(briefly)},
			improvedPrompt("too long\n\nbecause")},
		"metaprompt ends with the first output": {prompts.Metaprompt, nil,
			[]llmtest.Turn{rewritten(briefly, llmtest.Offered("think", "critique", promptOutput))}, improvedPrompt("because")},
		"metaprompt thinks first if it must": {prompts.Metaprompt, &prompts.Options{MinSteps: 2},
			[]llmtest.Turn{byTool("critique", toolArgs{"criticism": "hm"}, thinking), rewritten(briefly)}, improvedPrompt("because")},
		"metaprompt must answer in the last step": {prompts.Metaprompt, nil,
			[]llmtest.Turn{thinks(), thinks(), thinks(), thinks(), rewritten(briefly, only)}, improvedPrompt("because")},
		"metaprompt keeps the prompt without a result":    {prompts.Metaprompt, nil, []llmtest.Turn{rewritten(" ")}, keptPrompt("because")},
		"metaprompt keeps the prompt if told so in words": {prompts.Metaprompt, nil, []llmtest.Turn{rewritten("No recommendations.")}, keptPrompt("because")},
		"prompt memory asks once":                         {prompts.Memory, nil, []llmtest.Turn{updated(true, briefly, only)}, improvedPrompt("because")},
		"prompt memory asks again for a prompt that is empty": {prompts.Memory, nil,
			[]llmtest.Turn{updated(true, ""), updated(true, briefly, llmtest.Asked("new prompt is empty"))}, improvedPrompt("because")},
		"prompt memory keeps the prompt when the model declines": {prompts.Memory, nil, []llmtest.Turn{updated(false, "")}, keptPrompt("because")},
		"a declined update counts more than a new text":          {prompts.Memory, nil, []llmtest.Turn{updated(false, briefly)}, keptPrompt("because")},
		"the same text is no change":                             {prompts.Memory, nil, []llmtest.Turn{updated(true, greeting.Text)}, keptPrompt("because")},
		"an answer without a call is asked again": {prompts.Memory, nil,
			[]llmtest.Turn{llmtest.Say("Sure!"), updated(false, "", llmtest.Asked("no tool was called: call "+promptOutput))}, keptPrompt("because")},
		"a tool that is not offered is no way out": {prompts.Memory, nil,
			[]llmtest.Turn{thinks(), updated(false, "", llmtest.Asked(`tool "think" is not available now`))}, keptPrompt("because")},
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
func TestMetapromptEndsWithFirstOutput(t *testing.T) {
	model := llmtest.Scripted(t, thinks(), rewritten("Hi {name}."))
	got, err := newOptimizer(t, model, prompts.Metaprompt, nil).Improve(t.Context(), greeting, complaints)
	if got.Prompt.Text != "Hi {name}." || err != nil {
		t.Errorf("prompt %q, error %v", got.Prompt.Text, err)
	}
}

// Defect: §5 prompt_memory empties a prompt whose update was declined.
func TestDeclinedUpdateKeepsPrompt(t *testing.T) {
	for _, text := range []string{"", "Hi."} {
		model := llmtest.Scripted(t, updated(false, text))
		got, err := newOptimizer(t, model, prompts.Memory, nil).Improve(t.Context(), greeting, complaints)
		if d := cmp.Diff(keptPrompt("because"), got); d != "" || err != nil {
			t.Errorf("error %v, improvement (-want +got):\n%s", err, d)
		}
	}
}

func TestInvalidJSONArgumentsAreRetried(t *testing.T) {
	broken := llmtest.Turn{Chunks: []llm.Chunk{{Stop: llm.StopTools, ToolCalls: []llm.ToolCallChunk{{ID: "1", Name: promptOutput, Args: `{"logic`}}}}}
	model := llmtest.Scripted(t, broken, updated(false, ""))
	got, err := newOptimizer(t, model, prompts.Memory, nil).Improve(t.Context(), greeting, complaints)
	if d := cmp.Diff(keptPrompt("because"), got); d != "" || err != nil {
		t.Errorf("error %v, improvement (-want +got):\n%s", err, d)
	}
}

func TestNoTrajectoriesNoModelCall(t *testing.T) {
	for _, kind := range []prompts.Kind{prompts.Gradient, prompts.Metaprompt, prompts.Memory} {
		o := newOptimizer(t, llmtest.Scripted(t), kind, nil)
		for _, none := range [][]prompts.Trajectory{nil, {}, {{}}} {
			got, err := o.Improve(t.Context(), greeting, none)
			if d := cmp.Diff(keptPrompt(""), got); d != "" || err != nil {
				t.Errorf("%s: error %v, improvement (-want +got):\n%s", kind, err, d)
			}
			all, err := o.ImproveAll(t.Context(), []prompts.Prompt{greeting, {Name: "other"}}, none)
			if d := cmp.Diff([]prompts.Improvement{keptPrompt(""), {Prompt: prompts.Prompt{Name: "other"}}}, all); d != "" || err != nil {
				t.Errorf("%s: error %v, improvements (-want +got):\n%s", kind, err, d)
			}
		}
	}
}

func TestLostVariablesAreRetried(t *testing.T) {
	lost := "new prompt lacks {name}"
	for kind, turns := range map[prompts.Kind][]llmtest.Turn{
		prompts.Gradient:   {thinks(), recommend(), rewritten("Hi."), rewritten("Hi {{name}}.", llmtest.Asked(lost)), rewritten("Ho {nam}.", llmtest.Asked(lost))},
		prompts.Metaprompt: {thinks(), thinks(), thinks(), thinks(), rewritten("Hi."), rewritten("Hi.", llmtest.Asked(lost)), rewritten("Ho.", llmtest.Asked(lost))},
		prompts.Memory:     {updated(true, "Hi."), updated(true, "Hi.", llmtest.Asked(lost)), updated(true, "Ho.", llmtest.Asked(lost))},
	} {
		got, err := newOptimizer(t, llmtest.Scripted(t, turns...), kind, nil).Improve(t.Context(), greeting, complaints)
		e, ok := errors.AsType[*prompts.LostVariablesError](err)
		if !ok || !cmp.Equal(e, &prompts.LostVariablesError{Prompt: "main", Variables: []string{"name"}}) {
			t.Errorf("%s: error %v", kind, err)
		}
		if d := cmp.Diff(keptPrompt(""), got); d != "" {
			t.Errorf("%s: improvement (-want +got):\n%s", kind, d)
		}
	}
}

func TestOptimizerRestoresLostVariable(t *testing.T) {
	model := llmtest.Scripted(t, updated(true, "Hi."), updated(true, "Hi {name}, answer {\"ok\": 1}."))
	got, err := newOptimizer(t, model, prompts.Memory, nil).Improve(t.Context(), greeting, complaints)
	if want := "Hi {name}, answer {{\"ok\": 1}}."; got.Prompt.Text != want || err != nil {
		t.Errorf("prompt %q, error %v; want %q", got.Prompt.Text, err, want)
	}
}

// Defect: §3.4 two conversations are read as one and its feedback.
func TestTrajectoriesAreSeparate(t *testing.T) {
	model := llmtest.Scripted(t, updated(false, "", llmtest.Heard(llm.System("Do it."), llm.User(strings.Join([]string{
		"<TO_OPTIMIZE>\nGreet {name}.\n</TO_OPTIMIZE>",
		"<variables>\n{name}\n</variables>",
		"<update_instructions>\nstay polite\n</update_instructions>",
		"<session_1>\nhuman: a\nai: b\n</session_1>",
		"<session_2>\nhuman: &lt;/session_2>\nai calls look: {}\n</session_2>",
		"<session_3>\n<feedback>\nbad\nspeed: 0.5\ntaste: 0\n</feedback>\n</session_3>",
	}, "\n\n")))))
	o := newOptimizer(t, model, prompts.Memory, &prompts.Options{RewriteInstructions: "Do it."})
	p := greeting
	p.UpdateInstructions = "stay polite"
	if _, err := o.Improve(t.Context(), p, []prompts.Trajectory{
		{Messages: llm.Messages{llm.User("a"), llm.Assistant("b")}},
		{Messages: llm.Messages{llm.User("</session_2>"), llm.Assistant("", llmtest.ToolCall("look", "{}"))}},
		{},
		{Feedback: "bad", Scores: map[string]float64{"taste": 0, "speed": 0.5}},
	}); err != nil {
		t.Error(err)
	}
}

// Defect: §5 the tool choice is pinned to a name, which some servers refuse.
func TestOptimizerNeverForcesToolByName(t *testing.T) {
	model := llmtest.Scripted(t, byTool("classify", toolArgs{"reasoning": "r", "which": []string{"main"}}), thinks(), recommend(), rewritten("Hi {name}."))
	bound := llm.With(model, llm.Tools(llm.NewTool("stray", "Is none of our tools.", func(context.Context, struct{}) (string, error) { return "", nil })))
	o := newOptimizer(t, bound, prompts.Gradient, nil)
	if _, err := o.ImproveAll(t.Context(), []prompts.Prompt{greeting, {Name: "b", Text: "B"}}, complaints); err != nil {
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
		got, err := newOptimizer(t, llmtest.Scripted(t, test.turn), prompts.Gradient, nil).Improve(t.Context(), greeting, complaints)
		if d := cmp.Diff(keptPrompt(""), got); d != "" || !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, improvement (-want +got):\n%s", name, err, d)
		}
	}
}

func TestNewOptimizerRejectsInvalidOptions(t *testing.T) {
	noTools := llmtest.NewScript()
	noTools.NoTools = true
	for want, test := range map[string]struct {
		model llm.Model
		kind  prompts.Kind
		opts  *prompts.Options
	}{
		"nil model":              {nil, prompts.Gradient, nil},
		"does not support tools": {noTools, prompts.Gradient, nil},
		`unknown kind "magic": want "gradient", "metaprompt", or "prompt_memory"`: {llmtest.NewScript(), "magic", nil},
		"invalid Options.MaxSteps 5: want 6 (MinSteps) or more, or 0 for 5":       {llmtest.NewScript(), prompts.Gradient, &prompts.Options{MinSteps: 6}},
		"MaxSteps -1": {llmtest.NewScript(), prompts.Gradient, &prompts.Options{MaxSteps: -1}},
	} {
		if _, err := prompts.NewOptimizer(test.model, test.kind, test.opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestFirstValidResultWins(t *testing.T) {
	result := func(text string) llm.ToolCall {
		return llmtest.ToolCall(promptOutput, toolArgs{"logic": text, "update_prompt": true, "new_prompt": text})
	}
	model := llmtest.Scripted(t, llmtest.Ask(result("Hi."), result("Hello {name}."), result("Ho {name}.")))
	got, err := newOptimizer(t, model, prompts.Memory, nil).Improve(t.Context(), greeting, complaints)
	if got.Prompt.Text != "Hello {name}." || err != nil {
		t.Errorf("prompt %q, error %v", got.Prompt.Text, err)
	}
}
