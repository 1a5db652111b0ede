package llm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/schema"
)

// An ObjectMode is a method of requesting a value from a model. It is an [Option].
type ObjectMode string

// Methods of requesting a value. The default is the first that the model supports.
const (
	// ByOutput makes the provider return JSON that matches the schema.
	ByOutput ObjectMode = "output"
	// ByTool makes the model call a tool whose arguments are the value.
	ByTool ObjectMode = "tool"
	// ByPrompt puts the schema into the prompt and searches the response for JSON.
	ByPrompt ObjectMode = "prompt"
)

func (m ObjectMode) set(r *Request) { r.Objects = m }

// objectTries is the maximum number of calls for a value.
const objectTries = 3

// ErrRefused and ErrLength are causes of an [ObjectError]: the model refused to
// answer, or its response was truncated at the token limit.
var (
	ErrRefused = errors.New("llm: model refused to answer")
	ErrLength  = errors.New("llm: response truncated at the token limit")
)

// ObjectError reports that a model did not return the value that [Object]
// requested.
type ObjectError struct {
	Type   string  // the type of the value
	Tries  int     // the number of model calls
	Answer Message // the last response
	Err    error   // why the last response cannot be used
}

// Error returns a message that names the type and the problem with the last
// response.
func (e *ObjectError) Error() string {
	return fmt.Sprintf("llm: no %s after %d tries: %s", e.Type, e.Tries, strings.TrimPrefix(e.Err.Error(), "llm: "))
}

// Unwrap returns the problem with the last response.
func (e *ObjectError) Unwrap() error { return e.Err }

// Object requests a value of type T from the model. The schema is derived from T as
// for the arguments of [NewTool]. Object checks the value against the schema and
// calls its method Validate() error, if it has one. If the value is invalid, Object
// reports the problem to the model and tries again, up to three times in all. It
// returns an [*ObjectError] after the last attempt, or if the model refuses
// ([ErrRefused]) or reaches the token limit ([ErrLength]).
//
// If the model's [Info] has NativeOutput set, Object sets [Request.Output], and the
// model responds with JSON text. Otherwise, Object offers a tool named after T, or "answer"
// if T has no name, whose arguments are the value. If the model cannot call tools either,
// Object puts the schema into the prompt. An [ObjectMode] overrides this choice. A value
// that is not a JSON object, such as a slice, is the member "value" of an object.
func Object[T any](ctx context.Context, model Model, history ...Message) (T, error) {
	var out T
	if ctx == nil || model == nil {
		return out, errNil(ctx)
	}
	var req Request
	bind(model, &req)
	a, err := newAsker(reflect.TypeFor[T](), Describe(model), req.Objects)
	if err != nil {
		return out, err
	}
	history = a.prompt(slices.Clip(history))
	var answer Message
	for try := 1; ; try++ {
		if answer, err = Generate(ctx, a.with(model), history...); err != nil {
			return out, err
		}
		raw, err := a.value(&answer)
		if err == nil {
			var v T
			if err = a.check(raw, &v); err == nil {
				return v, nil
			}
		}
		if try == objectTries || errors.Is(err, ErrRefused) || errors.Is(err, ErrLength) {
			return out, &ObjectError{Type: reflect.TypeFor[T]().String(), Tries: try, Answer: answer, Err: err}
		}
		history = append(history, answer)
		history = append(history, a.complain(&answer, err)...)
	}
}

// asker requests a value and checks the response.
type asker struct {
	mode     ObjectMode
	name     string
	schema   *jsonschema.Schema
	resolved *parameters
	wrapped  bool // the value is wrapped in an object, which providers require
}

const wrapName = "value"

func newAsker(t reflect.Type, info Info, mode ObjectMode) (*asker, error) {
	s, err := schema.Of(t, schema.Options{})
	if err != nil {
		return nil, fmt.Errorf("llm: Object: %w", err)
	}
	a := &asker{mode: mode, name: outputName(t), schema: s}
	if s.Type != "object" {
		a.wrapped = true
		a.schema = &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{wrapName: s},
			Required: []string{wrapName}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}}}
	}
	if a.resolved, err = newParameters(a.schema, &jsonschema.ResolveOptions{ValidateDefaults: true}); err != nil {
		return nil, fmt.Errorf("llm: Object: schema of %v: %w", t, err)
	}
	switch {
	case mode == ByOutput && !info.NativeOutput:
		return nil, fmt.Errorf("llm: Object: %s does not support ByOutput: use ByTool or ByPrompt", info)
	case mode == ByTool && info.NoTools:
		return nil, fmt.Errorf("llm: Object: %s cannot call tools: use ByPrompt", info)
	case mode != "":
	case info.NativeOutput:
		a.mode = ByOutput
	case !info.NoTools:
		a.mode = ByTool
	default:
		a.mode = ByPrompt
	}
	return a, nil
}

var notName = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

func outputName(t reflect.Type) string {
	name := strings.Trim(notName.ReplaceAllString(t.Name(), "_"), "_")
	return cmp.Or(name[:min(len(name), 64)], "answer")
}

// with returns the model with the settings that request the value.
func (a *asker) with(model Model) Model {
	switch a.mode {
	case ByOutput:
		return With(model, &Output{Name: a.name, Schema: a.schema})
	case ByTool:
		tool := &Tool{Name: a.name, Description: "Give the answer by calling this tool.", Parameters: a.schema,
			Run: func(context.Context, json.RawMessage) (any, error) {
				return nil, errors.New("calls of this tool are not run")
			}}
		return With(model, Tools(tool), ToolChoice(a.name), SerialTools())
	}
	return model
}

// prompt returns the history with the instructions that the model needs.
func (a *asker) prompt(history []Message) []Message {
	if a.mode != ByPrompt {
		return history
	}
	raw, err := schema.Marshal(a.schema)
	if err != nil {
		return history // the check reports it
	}
	rules := "Answer with JSON only, without any other text. It must be valid against this JSON schema:\n" + string(raw)
	if len(history) > 0 && history[0].Role == RoleSystem {
		first := history[0]
		if len(first.Blocks) > 0 {
			first.Blocks = append(slices.Clip(first.Blocks), Text("\n\n"+rules))
		} else {
			first.Content += "\n\n" + rules
		}
		return append([]Message{first}, history[1:]...)
	}
	return append([]Message{System(rules)}, history...)
}

// value returns the JSON in a response.
func (a *asker) value(m *Message) (json.RawMessage, error) {
	switch m.Stop {
	case StopRefusal, StopFilter:
		return nil, fmt.Errorf("%w: %s", ErrRefused, m.Text())
	case StopLength:
		return nil, ErrLength
	}
	if a.mode == ByTool {
		for _, c := range m.ToolCalls {
			if c.Name == a.name {
				return c.arguments(), nil
			}
		}
		for _, c := range m.InvalidToolCalls {
			return nil, errors.New(c.Error)
		}
		return nil, fmt.Errorf("tool %s was not called", a.name)
	}
	raw, ok := findJSON(m.Text())
	if !ok {
		return nil, errors.New("response is not JSON")
	}
	return raw, nil
}

// findJSON finds an object in a text: the whole text, in a code fence, or anywhere.
// It tries at most 100 positions, because each attempt may scan the whole text.
func findJSON(s string) (json.RawMessage, bool) {
	i := strings.IndexByte(s, '{')
	for tries := 0; i >= 0 && tries < 100; tries++ {
		d := json.NewDecoder(strings.NewReader(s[i:]))
		var raw json.RawMessage
		if d.Decode(&raw) == nil {
			return raw, true
		}
		next := strings.IndexByte(s[i+1:], '{')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return nil, false
}

// check decodes a value and reports why it is invalid.
func (a *asker) check(raw json.RawMessage, into any) error {
	tool := Tool{Parameters: a.schema, resolved: a.resolved}
	raw, err := tool.arguments(raw)
	if err != nil {
		return err
	}
	if a.wrapped {
		var in map[string]json.RawMessage
		if err := json.Unmarshal(raw, &in); err != nil {
			return err
		}
		raw = in[wrapName]
	}
	if err := decodeArgs(raw, into); err != nil {
		return err
	}
	if v, ok := into.(interface{ Validate() error }); ok {
		return v.Validate()
	}
	return nil
}

// complain returns messages that report an invalid value to the model.
func (a *asker) complain(answer *Message, problem error) []Message {
	what := fmt.Sprintf("That is not what was asked for: %v. Please correct it.", problem)
	var out []Message
	for _, c := range answer.ToolCalls {
		out = append(out, ToolResult(c, errors.New(what)))
	}
	for _, c := range answer.InvalidToolCalls {
		out = append(out, ToolResult(ToolCall{ID: c.ID, Name: c.Name}, errors.New(what)))
	}
	if len(out) == 0 {
		out = append(out, User(what))
	}
	return out
}
