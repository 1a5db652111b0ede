package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/llm"
)

// Memory is the kind of documents where nothing else is said: a note.
type Memory struct {
	Content string `json:"content" jsonschema:"the memory, a statement that can be understood by itself"`
}

const memoryKind = "Memory"

// A Kind is a type of documents that a model may write: see [KindOf]. The zero
// Kind is none.
type Kind struct {
	name     string
	tool     *llm.Tool
	resolved *jsonschema.Resolved
	// value decodes a document that is valid and writes it anew, in the order of
	// the type's fields.
	value func(json.RawMessage) (json.RawMessage, error)
	err   error
}

// KindOf makes a kind of a struct. The kind's name is the type's; the model sees
// the fields as those of [llm.NewTool], with the description, which says what such
// a document is for. A document is checked against the schema, and by the type's
// own method Validate() error if it has one.
func KindOf[T any](description string) Kind {
	t := reflect.TypeFor[T]()
	k := Kind{name: t.Name()}
	if k.name == "" {
		k.err = fmt.Errorf("memory: %v has no name: a kind is a named struct", t)
		return k
	}
	k.tool = llm.NewTool(k.name, description, func(_ context.Context, v T) (json.RawMessage, error) {
		if v, ok := any(&v).(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return nil, err
			}
		}
		return encodeAny(v)
	})
	if k.tool.Parameters == nil {
		k.err = fmt.Errorf("memory: kind %s: %v cannot be described by a schema: use a struct of plain fields", k.name, t)
		return k
	}
	k.resolved, k.err = k.tool.Parameters.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	k.value = func(raw json.RawMessage) (json.RawMessage, error) {
		out, err := k.tool.Run(context.Background(), raw) // it only decodes
		if err != nil {
			return nil, err
		}
		return out.(json.RawMessage), nil
	}
	return k
}

var defaultKinds = []Kind{KindOf[Memory]("Remember something. One call for each memory; several may be made at once.")}

// check is the document as it is stored, or why it is none of the kind.
func (k Kind) check(raw json.RawMessage) (json.RawMessage, error) {
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil || doc == nil {
		return nil, fmt.Errorf("a %s is a JSON object", k.name)
	}
	if err := k.resolved.ApplyDefaults(&doc); err != nil {
		return nil, err
	}
	if err := k.resolved.Validate(doc); err != nil {
		return nil, err
	}
	full, err := withDefaults(raw, doc)
	if err != nil {
		return nil, err
	}
	return k.value(full)
}

// withDefaults adds to a document the members that only the decoded one has, so
// that the numbers of the rest keep their digits.
func withDefaults(raw json.RawMessage, doc map[string]any) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, err
	}
	for name, v := range doc {
		if _, ok := members[name]; ok {
			continue
		}
		m, err := encodeAny(v)
		if err != nil {
			return nil, err
		}
		members[name] = m
	}
	return encodeAny(members)
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
