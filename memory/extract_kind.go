package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/treadle-go/treadle/llm"
)

// Memory is the kind of documents where nothing else is said: a note.
type Memory struct {
	Content string `json:"content" jsonschema:"the memory, a statement that can be understood by itself"`
}

const memoryKind = "Memory"

// A Kind is a type of documents that a model may write: see [NewKind]. The zero
// Kind is none.
type Kind struct {
	name string
	// tool is how the model writes such a document. Its function writes the
	// document anew, in the order of the type's fields.
	tool *llm.Tool
	err  error
}

// NewKind makes a kind of a struct. The kind's name is the type's; the model sees
// the fields as those of [llm.NewTool], with the description, which says what such
// a document is for. A document is checked against the schema, and by the type's
// own method Validate() error if it has one.
func NewKind[T any](description string) Kind {
	t := reflect.TypeFor[T]()
	k := Kind{name: t.Name()}
	if k.name == "" {
		k.err = fmt.Errorf("memory: %v has no name: a kind is a named struct", t)
		return k
	}
	k.tool = documentTool[T](k.name, description)
	if k.tool.Parameters == nil {
		k.err = fmt.Errorf("memory: kind %s: %v cannot be described by a schema: use a struct of plain fields", k.name, t)
	}
	return k
}

// documentTool is how a model writes a document of type T.
func documentTool[T any](name, description string) *llm.Tool {
	return llm.NewTool(name, description, func(_ context.Context, v T) (json.RawMessage, error) { return encodeValid(&v) })
}

// encodeValid is the document that v is, if its own method has no objection.
func encodeValid[T any](v *T) (json.RawMessage, error) {
	if v, ok := any(v).(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return nil, err
		}
	}
	return encodeAny(v)
}

var defaultKinds = []Kind{NewKind[Memory]("Remember something. One call for each memory; several may be made at once.")}

// check is the document as it is stored, or why it is none of the kind.
func (k Kind) check(raw json.RawMessage) (json.RawMessage, error) {
	// A context of its own: this is no tool call that a run should hear of.
	out, err := k.tool.Call(context.Background(), llm.ToolCall{Name: k.name, Args: raw})
	if err != nil {
		// What is wrong is told about the document, not about the tool.
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

// A Document is something remembered, or an object of a program that a model is
// to keep up to date.
type Document struct {
	ID string `json:"id"`
	// Kind is the name of the Go type. Documents of kinds that are not among those
	// of the extraction may be patched and removed like others; they are just not
	// checked.
	Kind    string          `json:"kind"`
	Content json.RawMessage `json:"content"` // a JSON object
	// Validity is when it holds, as far as that is known. Models are shown it.
	Validity Validity `json:"validity,omitzero"`
}

// NewDocument makes a document of a value, a struct whose type is the kind. A
// string is a [Memory].
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
		return Document{}, fmt.Errorf("memory: document %q: %T is no object", id, v)
	}
	return Document{ID: id, Kind: t.Name(), Content: raw}, nil
}

// Decode reads the content into v, as encoding/json does.
func (d Document) Decode(v any) error { return json.Unmarshal(d.Content, v) }
