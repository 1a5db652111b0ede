package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/treadle-go/treadle/llm"
)

// Memory is the default kind of document: a note.
type Memory struct {
	Content string `json:"content" jsonschema:"the memory, a statement that can be understood by itself"`
}

const memoryKind = "Memory"

// A Kind is a type of document that a model may write. Create one with [NewKind]; the zero
// Kind is invalid.
type Kind struct {
	name string
	// tool is the tool that a model calls to write a document of this kind. It returns the
	// document with its fields in the order of the Go type.
	tool *llm.Tool
	// migrate and was are the arguments of Migrate.
	migrate func(json.RawMessage) (json.RawMessage, error)
	was     []string
	err     error
}

// NewKind returns a kind for the named struct type T. The kind has the name of the type.
// The model sees the fields as it does with [llm.NewTool], and the description explains the
// purpose of such documents to the model. Documents are validated against the schema, and
// by the type's method Validate() error if it has one.
func NewKind[T any](description string) Kind {
	t := reflect.TypeFor[T]()
	k := Kind{name: t.Name()}
	if k.name == "" {
		k.err = fmt.Errorf("memory: %v has no name: a kind must be a named struct", t)
		return k
	}
	k.tool = documentTool[T](k.name, description)
	if k.tool.Parameters == nil {
		k.err = fmt.Errorf("memory: kind %s: no schema for %v: use a struct of plain fields", k.name, t)
	}
	return k
}

// documentTool returns the tool that a model calls to write a document of type T.
func documentTool[T any](name, description string) *llm.Tool {
	return llm.NewTool(name, description, func(_ context.Context, v T) (json.RawMessage, error) { return encodeValid(&v) })
}

// encodeValid calls v's method Validate, if any, and returns v encoded as a document.
func encodeValid[T any](v *T) (json.RawMessage, error) {
	if v, ok := any(v).(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return nil, err
		}
	}
	return encodeAny(v)
}

var defaultKinds = []Kind{NewKind[Memory]("Remember something. One call for each memory; several may be made at once.")}

// check returns the document in its stored form, or an error if it is not valid for the
// kind.
func (k Kind) check(raw json.RawMessage) (json.RawMessage, error) {
	// Use a new context: the call is not part of a run and emits no events.
	out, err := k.tool.Call(context.Background(), llm.ToolCall{Name: k.name, Args: raw})
	if err != nil {
		// The error is about the document, so omit the tool's name.
		if e, ok := errors.AsType[*llm.ArgumentsError](err); ok {
			return nil, e.Err
		}
		if e, ok := errors.AsType[*llm.ToolError](err); ok {
			return nil, e.Err
		}
		return nil, err
	}
	return out.(json.RawMessage), nil
}

// A Document is a memory, or another JSON object that a model keeps up to date.
type Document struct {
	ID string `json:"id"`
	// Kind is the name of the Go type. Documents whose kind is not listed in
	// [ExtractOptions].Kinds can be patched and removed, but their content is not
	// validated.
	Kind    string          `json:"kind"`
	Content json.RawMessage `json:"content"` // a JSON object
	// Validity is the period during which the document is true, if known. Models see it.
	Validity Validity `json:"validity,omitzero"`
}

// NewDocument returns a document from a struct, whose type becomes the kind, or from a
// string, which becomes a [Memory].
func NewDocument(id string, v any) (Document, error) {
	if text, ok := v.(string); ok {
		v = Memory{Content: text}
	}
	t := reflect.TypeOf(v)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	raw, err := encodeAny(v)
	if err != nil {
		return Document{}, fmt.Errorf("memory: document %q: %w", id, err)
	}
	if t == nil || len(raw) == 0 || raw[0] != '{' {
		return Document{}, fmt.Errorf("memory: document %q: %T is not a JSON object", id, v)
	}
	return Document{ID: id, Kind: t.Name(), Content: raw}, nil
}

// Decode unmarshals the content into v with encoding/json.
func (d Document) Decode(v any) error { return json.Unmarshal(d.Content, v) }
