// Package elicit turns the questions of runs into MCP elicitations, which are forms of simple
// fields, and the answers back. It does not use MCP's SDK.
package elicit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/bounded"
)

// Values of the protocol.
const (
	Type         = "mcp_elicitation" // type of an interrupt that passes a server's question on
	ModeForm     = "form"
	ModeURL      = "url"
	ActionAccept = "accept"
	// Stateless is the first protocol version without sessions. A server asks its client by
	// returning the questions as the result of a call, and the client calls again with the answers.
	Stateless = "2026-07-28"
)

// MaxFields limits the fields of a form.
const MaxFields = 100

// ErrDeclined is returned if the user declined to answer.
var ErrDeclined = errors.New("user did not answer the question")

// State returns the request state of a call: the client sends it back with its answers. It names
// the thread of the run, and changes with the questions, so that none is answered twice.
func State(thread string, questions []string) string {
	sum := sha256.New()
	for _, id := range questions {
		sum.Write([]byte(id + "\x00"))
	}
	return thread + "." + hex.EncodeToString(sum.Sum(nil)[:8])
}

// A Form is a question to the user of an MCP client.
type Form struct {
	Mode, Message, URL string
	Schema             any // of a form

	answer func(action string, content map[string]any) (any, error)
}

// Answer converts the user's answer to the value for the run. It returns [ErrDeclined] if there
// is none, and another error if the content does not match the form.
func (f *Form) Answer(action string, content map[string]any) (any, error) {
	return f.answer(action, content)
}

// Of returns the form for an interrupt with the given value, whose answer must match a schema,
// which may be empty. A question of another server is passed on. The properties of an object
// become fields. Any other value becomes the field "answer".
func Of(value, schema json.RawMessage) *Form {
	out := &Form{Mode: ModeForm, Message: messageOf(value)}
	var from struct {
		Type, Mode, Message, URL string
		Schema                   json.RawMessage
	}
	if json.Unmarshal(value, &from) == nil && from.Type == Type {
		out.Message, out.Mode, out.URL = from.Message, from.Mode, from.URL
		if from.Mode == ModeForm {
			out.Schema = from.Schema
		}
		out.answer = func(action string, content map[string]any) (any, error) {
			return passedOn{action, content}, nil
		}
		return out
	}
	wanted, err := bounded.Parse(schema)
	if err != nil {
		wanted = &jsonschema.Schema{}
	}
	wrapped, asText := false, false
	switch {
	case wanted.Type == "object" && Flat(wanted) == nil:
		out.Schema = schema
	default:
		field := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"answer": wanted}, Required: []string{"answer"}}
		wrapped = true
		if Flat(field) != nil {
			asText = len(schema) > 0 && wanted.Type != "string"
			field.Properties["answer"] = &jsonschema.Schema{Type: "string"}
			if asText {
				field.Properties["answer"].Description = "JSON"
			}
		}
		out.Schema = field
	}
	out.answer = func(action string, content map[string]any) (any, error) {
		if action != ActionAccept {
			return nil, ErrDeclined
		}
		content, err := Complete(out.Schema, content)
		if err != nil || !wrapped {
			return content, err
		}
		answer := content["answer"]
		if text, ok := answer.(string); ok && asText {
			if json.Unmarshal([]byte(text), &answer) != nil {
				answer = text
			}
		}
		if resolved, err := bounded.Resolve(wanted, nil); err == nil {
			return answer, resolved.Validate(answer)
		}
		return answer, nil
	}
	return out
}

// passedOn is the answer to a question of another server.
type passedOn struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content,omitempty"`
}

// messageOf returns the text of a question.
func messageOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var named struct{ Message, Question string }
	if json.Unmarshal(value, &named) == nil {
		for _, text := range []string{named.Message, named.Question} {
			if text != "" {
				return text
			}
		}
	}
	return string(value)
}

// Flat returns an error if a schema is not an object of simple fields, as the protocol requires
// of forms.
func Flat(s *jsonschema.Schema) error {
	if s.Type != "" && s.Type != "object" || s.Ref != "" || s.AllOf != nil || s.AnyOf != nil || s.OneOf != nil {
		return errors.New("want an object of simple fields")
	}
	if len(s.Properties) > MaxFields {
		return fmt.Errorf("more than %d fields", MaxFields)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		switch p := s.Properties[name]; {
		case p == nil || p.Ref != "" || p.Properties != nil || p.AllOf != nil:
			return fmt.Errorf("field %.100q is not simple", name)
		case slices.Contains([]string{"string", "number", "integer", "boolean"}, p.Type):
		case p.Type == "array" && p.Items != nil && p.Items.Ref == "" && (p.Items.Type == "string" || p.Items.AnyOf != nil):
		default:
			return fmt.Errorf("field %.100q is not simple", name)
		}
	}
	return nil
}

// Complete adds defaults to the fields of a form and validates them.
func Complete(schema any, content map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	parsed, err := bounded.Parse(raw)
	if err != nil {
		return nil, err
	}
	resolved, err := bounded.Resolve(parsed, nil)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(content)
	if out == nil {
		out = map[string]any{}
	}
	for name, field := range parsed.Properties {
		if _, ok := out[name]; ok || field.Default == nil {
			continue
		}
		var value any
		if err := json.Unmarshal(field.Default, &value); err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, resolved.Validate(any(out))
}
