package llm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/llm"
	"github.com/treadle-go/treadle/llm/llmtest"
)

// given returns a tool with a schema that is known at run time.
func given(t *testing.T, schema string) *llm.Tool {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(schema), &s); err != nil {
		t.Fatal(err)
	}
	return &llm.Tool{Name: "t", Parameters: &s, Run: func(context.Context, json.RawMessage) (any, error) { return "ran", nil }}
}

func TestSelfReferencingSchemaIsError(t *testing.T) {
	for _, schema := range []string{`{"$ref":"#"}`, `{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#/properties/a"}]}}}`} {
		tool := given(t, schema)
		if err := tool.Check(); err == nil || !strings.Contains(err.Error(), "tool t") {
			t.Errorf("Check: %v", err)
		}
		_, err := tool.Call(t.Context(), llm.ToolCall{ID: "1", Name: "t", Args: json.RawMessage(`{"a":1}`)})
		if err == nil {
			t.Errorf("%s: the call was made", schema)
		}
	}
}

func TestDoublingSchemaReferencesAreErrors(t *testing.T) {
	var defs []string
	for k := 1; k <= 40; k++ {
		defs = append(defs, fmt.Sprintf(`"x%d":{"allOf":[{"$ref":"#/$defs/x%d"},{"$ref":"#/$defs/x%d"}]}`, k, k-1, k-1))
	}
	tool := given(t, `{"$defs":{"x0":{"type":"object"},`+strings.Join(defs, ",")+`},"$ref":"#/$defs/x40"}`)
	_, err := tool.Call(t.Context(), llm.ToolCall{ID: "1", Name: "t"})
	if _, ok := errors.AsType[*llm.ArgumentsError](err); !ok {
		t.Errorf("%v", err)
	}
}

func TestRecursiveToolSchema(t *testing.T) {
	tool := given(t, `{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`)
	if err := tool.Check(); err != nil {
		t.Fatal(err)
	}
	call := func(args string) error {
		_, err := tool.Call(t.Context(), llm.ToolCall{ID: "1", Name: "t", Args: json.RawMessage(args)})
		return err
	}
	if err := call(`{"kids":[{"kids":[{}]},{}]}`); err != nil {
		t.Error(err)
	}
	if err := call(`{"kids":[{"kids":[{"x":1}]},{}]}`); err == nil {
		t.Error("arguments that do not fit were taken")
	}
}

func TestDeepArgumentsAreError(t *testing.T) {
	tool := llm.NewTool("t", "", func(context.Context, struct{ V any }) (string, error) { return "ran", nil })
	deep := `{"V":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`
	_, err := tool.Call(t.Context(), llm.ToolCall{ID: "1", Name: "t", Args: json.RawMessage(deep)})
	if _, ok := errors.AsType[*llm.ArgumentsError](err); !ok {
		t.Errorf("%v", err)
	}
}

// Every brace may start an object that extends to the end of the text.
func TestFindJSONInBracesIsBounded(t *testing.T) {
	text := strings.Repeat(`{"a":`, 200_000)
	model := llm.With(llmtest.NewScript(llmtest.Say(text), llmtest.Say(text), llmtest.Say(text)), llm.ByPrompt)
	_, err := llm.Object[struct{ A int }](t.Context(), model, llm.User("x"))
	if _, ok := errors.AsType[*llm.ObjectError](err); !ok {
		t.Errorf("%v", err)
	}
}

func TestPrintEscapesTerminalSequences(t *testing.T) {
	bad := "a\x1b[2J\u009b\x7f\r\u202e\u2066b"
	m := llm.Message{Role: llm.RoleAI, Name: bad, Content: bad + "\n\tc", Blocks: []llm.Block{{Type: bad}, {Type: llm.BlockReasoning, Reasoning: bad}},
		ToolCalls:        []llm.ToolCall{{ID: bad, Name: bad, Args: json.RawMessage(`{"a\u001b":"\u001b[2J\u202e"}`)}},
		InvalidToolCalls: []llm.InvalidToolCall{{ID: bad, Name: bad, Args: bad, Error: bad}}}
	var b strings.Builder
	if err := llm.Print(&b, m, llm.Message{Role: llm.Role(bad)}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\u009b\x7f\r\u202e\u2066") {
		t.Errorf("%q", b.String())
	}
	if !strings.Contains(b.String(), "a[2Jb\n\tc") {
		t.Errorf("%q", b.String())
	}
}
