// Package schema derives JSON schemas from Go types. Tools, structured output, graphs,
// workflows, and interrupt answers all use it, so a type has the same schema everywhere.
//
// In addition to the rules of [jsonschema.ForType]:
//
//   - The tag jsonschema sets the description of a field. enum lists the values of the
//     field, or of the elements of a slice. default sets the default value, as JSON or,
//     for a string, as text.
//   - A field is required unless it has a default, is a pointer, or is marked
//     omitempty or omitzero.
//   - A type with a method JSONSchema() *jsonschema.Schema uses the returned schema. A
//     type with a method JSONType() reflect.Type uses the schema of the returned type.
//   - As in encoding/json, json.RawMessage is any value, json.Number a number, []byte
//     a string, a type with MarshalText a string, and maps may have integer keys.
package schema

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Options configures the schema.
type Options struct {
	// Nulls allows null for pointers and slices, whose JSON may be null. If false, the
	// schema is meant for models: nil means an absent value, because most providers do
	// not support union types.
	Nulls bool
	// SkipInvalid omits fields that have no JSON form, such as functions. If false, they
	// cause an error.
	SkipInvalid bool
}

// Described holds the options for the types of graphs, answers, and signals. Their
// schemas describe their JSON, in which a pointer may be null.
var Described = Options{Nulls: true, SkipInvalid: true}

// Of returns the schema of a type.
func Of(t reflect.Type, o Options) (*jsonschema.Schema, error) {
	return newBuilder(o).of(t)
}

// Field returns the schema of a struct field of type t with the given tags.
func Field(t reflect.Type, tag reflect.StructTag, o Options) (*jsonschema.Schema, error) {
	b := newBuilder(o)
	s, err := b.of(t)
	if err != nil {
		return nil, err
	}
	s.Description = tag.Get("jsonschema")
	return s, readTags(s, tag)
}

// builder builds one schema.
type builder struct {
	Options
	known map[reflect.Type]*jsonschema.Schema // schemas of types whose JSON differs from that of their kind
	open  map[reflect.Type]bool               // types whose schema in known is being built
}

func newBuilder(o Options) *builder {
	return &builder{Options: o, known: map[reflect.Type]*jsonschema.Schema{}, open: map[reflect.Type]bool{}}
}

func (b *builder) of(t reflect.Type) (*jsonschema.Schema, error) {
	if err := b.learn(t, map[reflect.Type]bool{}); err != nil {
		return nil, err
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{IgnoreInvalidTypes: b.SkipInvalid, TypeSchemas: b.known})
	if err == nil && s == nil {
		err = errors.New("no JSON representation")
	}
	if err != nil {
		return nil, fmt.Errorf("no schema for %v: %w", t, err)
	}
	if err := b.refine(s, t, t.String()); err != nil {
		return nil, err
	}
	return s, nil
}

var (
	describer   = reflect.TypeFor[interface{ JSONSchema() *jsonschema.Schema }]()
	substitute  = reflect.TypeFor[interface{ JSONType() reflect.Type }]()
	jsonEncoder = reflect.TypeFor[json.Marshaler]()
	textEncoder = reflect.TypeFor[encoding.TextMarshaler]()
	rawJSON     = reflect.TypeFor[json.RawMessage]()
	jsonNumber  = reflect.TypeFor[json.Number]()
)

// learn finds the types inside t whose JSON differs from that of their kind.
func (b *builder) learn(t reflect.Type, seen map[reflect.Type]bool) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if seen[t] || b.known[t] != nil || t.Kind() == reflect.Interface {
		return nil
	}
	seen[t] = true
	if s, err := b.special(t); s != nil || err != nil {
		b.known[t] = s
		return err
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return b.learn(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" {
				continue
			}
			if err := b.learn(f.Type, seen); err != nil {
				return err
			}
		}
	}
	return nil
}

// special returns the schema of a type whose JSON differs from that of its kind, or nil.
func (b *builder) special(t reflect.Type) (*jsonschema.Schema, error) {
	if v, ok := implementation(t, describer); ok {
		s := v.(interface{ JSONSchema() *jsonschema.Schema }).JSONSchema()
		if s == nil {
			return nil, fmt.Errorf("no schema for %v: its method JSONSchema returns nil", t)
		}
		return s, nil
	}
	if v, ok := implementation(t, substitute); ok {
		return b.inside(t, v.(interface{ JSONType() reflect.Type }).JSONType())
	}
	switch {
	case t == rawJSON:
		return &jsonschema.Schema{}, nil
	case t == jsonNumber:
		return &jsonschema.Schema{Type: "number"}, nil
	case t.Implements(jsonEncoder):
		// Package jsonschema supports the types of the standard library. Other types
		// describe their JSON with JSONSchema or use the schema of their fields.
	case t.Implements(textEncoder):
		return &jsonschema.Schema{Type: "string"}, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !t.Elem().Implements(jsonEncoder) && !t.Elem().Implements(textEncoder):
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}, nil
	case t.Kind() == reflect.Map && isInteger(t.Key()) && !t.Key().Implements(textEncoder):
		values, err := b.inside(t, t.Elem())
		if err != nil {
			return nil, err
		}
		return &jsonschema.Schema{Type: "object", AdditionalProperties: values}, nil
	}
	return nil, nil
}

// inside returns the schema of t, from which the schema of outer is built.
func (b *builder) inside(outer, t reflect.Type) (*jsonschema.Schema, error) {
	switch {
	case t == nil:
		return nil, fmt.Errorf("no schema for %v: its method JSONType returns nil", outer)
	case b.open[outer]:
		return nil, fmt.Errorf("no schema for %v: it contains itself", outer)
	}
	b.open[outer] = true
	defer delete(b.open, outer)
	return b.of(t)
}

// implementation returns a value of type t, or a pointer to one, that implements iface.
func implementation(t, iface reflect.Type) (any, bool) {
	switch {
	case t.Implements(iface):
		return reflect.Zero(t).Interface(), true
	case reflect.PointerTo(t).Implements(iface):
		return reflect.New(t).Interface(), true
	}
	return nil, false
}

func isInteger(t reflect.Type) bool { return t.Kind() >= reflect.Int && t.Kind() <= reflect.Uintptr }

// refine applies the tags of t's fields to a schema and removes null unless it is
// allowed.
func (b *builder) refine(s *jsonschema.Schema, t reflect.Type, path string) error {
	pointer := t.Kind() == reflect.Pointer
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(s.Types) == 2 && s.Types[0] == "null" && !b.Nulls {
		s.Type, s.Types = s.Types[1], nil
	}
	if known := b.known[t]; known != nil {
		if pointer && known.Type == "" && known.Types == nil {
			s.Types = nil // package jsonschema would allow only null
		}
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return b.refine(s.Items, t.Elem(), path+"[]")
	case reflect.Map:
		return b.refine(s.AdditionalProperties, t.Elem(), path+"[]")
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			p := s.Properties[name]
			if p == nil || !f.IsExported() || f.Anonymous && f.Tag.Get("json") == "" {
				continue
			}
			if err := b.refineField(s, p, f, name, path+"."+f.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *builder) refineField(s, p *jsonschema.Schema, f reflect.StructField, name, path string) error {
	if err := b.refine(p, f.Type, path); err != nil {
		return err
	}
	if err := readTags(p, f.Tag); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if f.Type.Kind() == reflect.Pointer || p.Default != nil {
		s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
	}
	return nil
}

// readTags applies the enum and default tags of a field to its schema.
func readTags(s *jsonschema.Schema, tag reflect.StructTag) error {
	if list, ok := tag.Lookup("enum"); ok {
		target := s
		if s.Items != nil {
			target = s.Items
		}
		for word := range strings.SplitSeq(list, ",") {
			v, err := tagValue(target, word)
			if err != nil {
				return fmt.Errorf("enum: %w", err)
			}
			target.Enum = append(target.Enum, v)
		}
		if slices.Contains(target.Types, "null") {
			target.Enum = append(target.Enum, nil)
		}
	}
	if word, ok := tag.Lookup("default"); ok {
		v, err := tagValue(s, word)
		if err != nil {
			return fmt.Errorf("default: %w", err)
		}
		if s.Default, err = json.Marshal(v); err != nil {
			return fmt.Errorf("default: %w", err)
		}
	}
	return nil
}

// tagValue parses a tag's value: JSON, or plain text for a string.
func tagValue(s *jsonschema.Schema, word string) (v any, err error) {
	if s.Type == "string" || slices.Contains(s.Types, "string") {
		return word, nil
	}
	if err := json.Unmarshal([]byte(word), &v); err != nil {
		return nil, fmt.Errorf("%q is not JSON: %w", word, err)
	}
	return v, nil
}
