package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/treadle-go/treadle/llm"
)

// Memory is the default kind of documents: a note.
type Memory struct {
	Content string `json:"content" jsonschema:"the memory, a statement that can be understood by itself"`
}

const memoryKind = "Memory"

// Kind is a type of documents that a model may write. Make one with [NewKind]; the
// zero Kind is not valid.
type Kind struct {
	name string
	// tool is the tool with which a model writes such a document. Its function returns
	// the document with its fields in the order of the type's.
	tool *llm.Tool
	// migrate and was are those of Migrate.
	migrate func(json.RawMessage) (json.RawMessage, error)
	was     []string
	err     error
}

// NewKind makes a kind from a struct type. The kind's name is the name of the type.
// The model sees the fields as with [llm.NewTool]; the description tells it what
// such a document is for. Documents are checked against the schema, and with the
// type's method Validate() error if it has one.
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

// documentTool returns the tool with which a model writes a document of type T.
func documentTool[T any](name, description string) *llm.Tool {
	return llm.NewTool(name, description, func(_ context.Context, v T) (json.RawMessage, error) { return encodeValid(&v) })
}

// encodeValid calls v's method Validate, if it has one, and returns v as a
// document.
func encodeValid[T any](v *T) (json.RawMessage, error) {
	if v, ok := any(v).(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return nil, err
		}
	}
	return encodeAny(v)
}

var defaultKinds = []Kind{NewKind[Memory]("Remember something. One call for each memory; several may be made at once.")}

// check returns the document in its stored form, or an error if it is not of the
// kind.
func (k Kind) check(raw json.RawMessage) (json.RawMessage, error) {
	// This context is a new one: the call is not part of a run and sends no events.
	out, err := k.tool.Call(context.Background(), llm.ToolCall{Name: k.name, Args: raw})
	if err != nil {
		// The error is about the document, so the tool's name is left out.
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

// Document is a memory, or another JSON object that a model keeps up to date.
type Document struct {
	ID string `json:"id"`
	// Kind is the name of the Go type. A document of a kind that is not among those of
	// the extraction can be patched and removed, but its content is not checked.
	Kind    string          `json:"kind"`
	Content json.RawMessage `json:"content"` // a JSON object
	// Validity is the time for which it is true, if that is known. Models see it.
	Validity Validity `json:"validity,omitzero"`
}

// NewDocument makes a document from a struct, whose type becomes the kind, or from
// a string, which becomes a [Memory].
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
