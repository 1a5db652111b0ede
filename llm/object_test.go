package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

type owl struct {
	Name string   `json:"name" jsonschema:"what people call it"`
	Eggs int      `json:"eggs"`
	Food []string `json:"food,omitempty"`
}

func (o owl) Validate() error {
	if o.Eggs > 13 {
		return fmt.Errorf("no owl lays %d eggs", o.Eggs)
	}
	return nil
}

func TestObjectByEachWay(t *testing.T) {
	want := owl{"barn owl", 5, nil}
	const good = `{"name":"barn owl","eggs":5}`
	for _, test := range []struct {
		name            string
		mode            llm.ObjectMode
		native, noTools bool
		answer          llmtest.Turn
		expect          func(*llm.Request) error
	}{
		{"natively, if it can", "", true, false, llmtest.Say(good), func(r *llm.Request) error {
			if r.Output == nil || r.Output.Name != "owl" || r.Output.Schema.Properties["name"].Description != "what people call it" {
				return fmt.Errorf("the output is %+v", r.Output)
			}
			return nil
		}},
		{"by tool, if it cannot", "", false, false, llmtest.Ask(llmtest.ToolCall("owl", good)), func(r *llm.Request) error {
			if r.Output != nil || r.ToolChoice != "owl" || len(r.Tools) != 1 {
				return fmt.Errorf("the tool choice is %q of %v", r.ToolChoice, r.Tools)
			}
			return nil
		}},
		{"by prompt, if all else fails", "", false, true, llmtest.Say("Here you are:\n```json\n" + good + "\n```\nGood bye {"), func(r *llm.Request) error {
			if s := r.Messages[0]; s.Role != llm.RoleSystem || !strings.HasPrefix(s.Content, "Be brief.\n\n") || !strings.Contains(s.Content, `"eggs":{"type":"integer"}`) {
				return fmt.Errorf("the system prompt is %q", s.Content)
			}
			return nil
		}},
		{"by tool, as chosen", llm.ByTool, true, false, llmtest.Ask(llmtest.ToolCall("owl", good)), llmtest.Offered("owl")},
		{"by prompt, as chosen", llm.ByPrompt, true, false, llmtest.Say(good), llmtest.Offered()},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.answer.Expect = append(test.answer.Expect, test.expect)
			script := llmtest.Scripted(t, test.answer)
			script.NativeOutput, script.NoTools = test.native, test.noTools
			var model llm.Model = script
			if test.mode != "" {
				model = llm.With(model, test.mode)
			}
			got, err := llm.Object[owl](t.Context(), model, llm.System("Be brief."), llm.User("An owl?"))
			if err != nil {
				t.Fatal(err)
			}
			same(t, "the value", want, got)
		})
	}
}

func TestObjectRejectsUnsupportedMode(t *testing.T) {
	script := llmtest.NewScript()
	script.NoTools = true
	for mode, want := range map[llm.ObjectMode]string{llm.ByOutput: "use ByTool or ByPrompt", llm.ByTool: "use ByPrompt"} {
		if _, err := llm.Object[owl](t.Context(), llm.With(script, mode), llm.User("?")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", mode, err, want)
		}
	}
}

// What is wrong goes back to the model.
func TestObjectRepairs(t *testing.T) {
	for _, test := range []struct {
		bad, said string
	}{
		{`{"name":"barn owl"}`, "required: missing properties"},
		{`{"name":"barn owl","eggs":"five"}`, `has type "string", want "integer"`},
		{`{"name":"barn owl","eggs":99}`, "no owl lays 99 eggs"},
		{`{"name":"barn owl","eggs":5,"wings":2}`, "wings"},
	} {
		for _, mode := range []llm.ObjectMode{llm.ByOutput, llm.ByTool, llm.ByPrompt} {
			turn := func(raw string, expect ...func(*llm.Request) error) llmtest.Turn {
				if mode == llm.ByTool {
					out := llmtest.Ask(llmtest.ToolCall("owl", raw))
					out.Expect = expect
					return out
				}
				return llmtest.Say(raw, expect...)
			}
			script := llmtest.Scripted(t, turn(test.bad), turn(`{"name":"barn owl","eggs":5}`, llmtest.Asked(test.said)))
			script.NativeOutput = true
			got, err := llm.Object[owl](t.Context(), llm.With(script, mode), llm.User("An owl?"))
			if err != nil || got.Eggs != 5 {
				t.Errorf("%s, %s: got %+v, %v", mode, test.bad, got, err)
			}
			if m := script.Requests()[1].Messages; len(m) < 3 {
				t.Errorf("%s: the second request has %d messages", mode, len(m))
			}
		}
	}
}

func TestObjectGivesUp(t *testing.T) {
	refused := llm.Message{Role: llm.RoleAI, Content: "I will not.", Stop: llm.StopRefusal}
	cut := llm.Message{Role: llm.RoleAI, Content: `{"name":`, Stop: llm.StopLength}
	for _, test := range []struct {
		name  string
		turns []llmtest.Turn
		tries int
		is    error
		want  string
	}{
		{"after three tries", []llmtest.Turn{llmtest.Say("{}"), llmtest.Say("nonsense"), llmtest.Say("nonsense")}, 3, nil, "no llm_test.owl after 3 tries: response is not JSON"},
		{"at a refusal", []llmtest.Turn{{Message: refused}}, 1, llm.ErrRefused, ": model refused to answer: I will not."},
		{"at a length stop", []llmtest.Turn{{Message: cut}}, 1, llm.ErrLength, ": response truncated at the token limit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			script := llmtest.Scripted(t, test.turns...)
			script.NativeOutput = true
			_, err := llm.Object[owl](t.Context(), script, llm.User("An owl?"))
			e, ok := errors.AsType[*llm.ObjectError](err)
			if !ok || e.Tries != test.tries || !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("the error is %v, want an ObjectError after %d tries with %q", err, test.tries, test.want)
			}
		})
	}
	if _, err := llm.Object[owl](t.Context(), llmtest.NewScript(llmtest.Fail(denied)), llm.User("?")); !errors.Is(err, denied) {
		t.Errorf("the error is %v, want the provider's", err)
	}
	if _, err := llm.Object[chan int](t.Context(), llmtest.NewScript(), llm.User("?")); err == nil || !strings.Contains(err.Error(), "no schema for chan int") {
		t.Errorf("the error is %v, want one about the type", err)
	}
}

// Values that are no objects stand in one.
func TestObjectOfAnyType(t *testing.T) {
	script := llmtest.Scripted(t, llmtest.Say(`{"value": ["a", "b"]}`), llmtest.Say(`{"value": 3}`), llmtest.Say(`{"a": 1}`))
	script.NativeOutput = true
	list, err := llm.Object[[]string](t.Context(), script, llm.User("?"))
	if err != nil || strings.Join(list, "") != "ab" {
		t.Errorf("got %v, %v", list, err)
	}
	n, err := llm.Object[int](t.Context(), script, llm.User("?"))
	if err != nil || n != 3 {
		t.Errorf("got %v, %v", n, err)
	}
	m, err := llm.Object[map[string]int](t.Context(), script, llm.User("?"))
	if err != nil || m["a"] != 1 {
		t.Errorf("got %v, %v", m, err)
	}
}

type weatherQuery struct {
	City string   `json:"city" jsonschema:"where to look"`
	Unit string   `json:"unit" enum:"celsius,fahrenheit" default:"celsius"`
	Days int      `json:"days" default:"1"`
	Tags []string `json:"tags,omitempty" enum:"rain,wind"`
	Near *string  `json:"near"`
}

func TestNewToolDescribesItsArguments(t *testing.T) {
	tool := llm.NewTool("w", "Weather.", func(context.Context, weatherQuery) (string, error) { return "", nil })
	raw, err := json.Marshal(tool.Parameters)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{"city":{"type":"string","description":"where to look"},` +
		`"unit":{"type":"string","default":"celsius","enum":["celsius","fahrenheit"]},"days":{"type":"integer","default":1},` +
		`"tags":{"type":"array","items":{"type":"string","enum":["rain","wind"]}},"near":{"type":"string"}},"required":["city"],"additionalProperties":false}`
	if string(raw) != want {
		t.Errorf("the schema is\n%s\nwant\n%s", raw, want)
	}
}

func TestToolChecksItsArguments(t *testing.T) {
	var got weatherQuery
	tool := llm.NewTool("w", "", func(_ context.Context, in weatherQuery) (string, error) { got = in; return "", nil })
	near := "SF"
	for raw, want := range map[string]weatherQuery{
		`{"city":"x"}`: {City: "x", Unit: "celsius", Days: 1},
		`{"city":"x","unit":"fahrenheit","days":2.0}`:      {City: "x", Unit: "fahrenheit", Days: 2},
		`{"city":"x","near":"SF","tags":["rain"]}`:         {City: "x", Unit: "celsius", Days: 1, Near: &near, Tags: []string{"rain"}},
		`{"city":"x","near":null,"days":null}`:             {City: "x", Unit: "celsius", Days: 1},
		`{"city":"x","days":9007199254740993,"unit":null}`: {City: "x", Unit: "celsius", Days: 9007199254740993},
	} {
		if _, err := tool.Call(t.Context(), llm.ToolCall{ID: "1", Name: "w", Args: json.RawMessage(raw)}); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		same(t, raw, want, got)
	}
	for raw, want := range map[string]string{
		``:                          `Error invoking tool 'w' with kwargs {} with error:`,
		`{"city":5}`:                `/properties/city: type: 5 has type "integer", want "string"`,
		`{"city":null}`:             `want "string"`,
		`{"city":"x","unit":"K"}`:   "enum: K does not equal any of: [celsius fahrenheit]",
		`{"city":"x","days":1.5}`:   `want "integer"`,
		`{"city":"x","day":1}`:      `unexpected additional properties ["day"]`,
		`[1]`:                       "not a JSON object",
		`{"city":"x","tags":["x"]}`: "tags",
	} {
		_, err := tool.Call(t.Context(), llm.ToolCall{ID: "1", Name: "w", Args: json.RawMessage(raw)})
		if _, ok := errors.AsType[*llm.ArgumentsError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want an ArgumentsError with %q", raw, err, want)
		}
	}
}

// Strict providers make models write every property; null stands for absence.
func TestObjectTakesNullAsAbsentAtAnyDepth(t *testing.T) {
	type nest struct {
		Tree string `json:"tree"`
		Eggs int    `json:"eggs,omitempty"`
	}
	type forest struct {
		Nests []nest `json:"nests"`
		Best  *nest  `json:"best,omitempty"`
	}
	script := llmtest.Scripted(t, llmtest.Say(`{"nests":[{"tree":"oak","eggs":null},{"tree":"elm","eggs":2}],"best":{"tree":"elm","eggs":null}}`))
	script.NativeOutput = true
	got, err := llm.Object[forest](t.Context(), script, llm.User("Nests?"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the value", forest{[]nest{{"oak", 0}, {"elm", 2}}, &nest{"elm", 0}}, got)
}
