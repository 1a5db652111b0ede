package openai

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// strictFormats lists the formats that strict mode supports.
var strictFormats = []string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}

// strict returns the schema in the form that strict mode requires. It fails, naming
// the place, if strict mode cannot express the schema.
func strict(s *jsonschema.Schema) (*jsonschema.Schema, error) {
	if s.Type != "object" {
		return nil, errors.New("value is not an object")
	}
	return strictAt(s, "the value")
}

func strictAt(s *jsonschema.Schema, path string) (*jsonschema.Schema, error) {
	if what := beyond(s); what != "" {
		return nil, fmt.Errorf("%s: strict mode does not support %s", path, what)
	}
	out := &jsonschema.Schema{Ref: s.Ref, Title: s.Title, Description: s.Description,
		Type: s.Type, Types: s.Types, Enum: s.Enum, Const: s.Const, Pattern: s.Pattern,
		MultipleOf: s.MultipleOf, Minimum: s.Minimum, Maximum: s.Maximum,
		ExclusiveMinimum: s.ExclusiveMinimum, ExclusiveMaximum: s.ExclusiveMaximum,
		MinItems: s.MinItems, MaxItems: s.MaxItems, PropertyOrder: s.PropertyOrder}
	if slices.Contains(strictFormats, s.Format) {
		out.Format = s.Format
	}
	var err error
	if s.Items != nil {
		if out.Items, err = strictAt(s.Items, path+"[]"); err != nil {
			return nil, err
		}
	}
	for i, one := range s.AnyOf {
		sub, err := strictAt(one, fmt.Sprintf("%s, alternative %d", path, i))
		if err != nil {
			return nil, err
		}
		out.AnyOf = append(out.AnyOf, sub)
	}
	if out.Defs, err = strictAll(s.Defs, path+" $defs"); err != nil {
		return nil, err
	}
	if out.Definitions, err = strictAll(s.Definitions, path+" definitions"); err != nil {
		return nil, err
	}
	if hasType(s, "object") {
		return out, strictObject(out, s, path)
	}
	return out, nil
}

// strictObject sets the properties of out to those of s, all of them required.
func strictObject(out, s *jsonschema.Schema, path string) (err error) {
	if out.Properties, err = strictAll(s.Properties, path); err != nil {
		return err
	}
	out.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}} // false
	names := slices.Sorted(maps.Keys(s.Properties))
	for _, name := range s.PropertyOrder {
		if i := slices.Index(names, name); i >= 0 && !slices.Contains(out.Required, name) {
			out.Required = append(out.Required, name)
		}
	}
	for _, name := range names {
		if !slices.Contains(out.Required, name) {
			out.Required = append(out.Required, name)
		}
		if !slices.Contains(s.Required, name) {
			out.Properties[name] = orNull(out.Properties[name])
		}
	}
	return nil
}

func strictAll(in map[string]*jsonschema.Schema, path string) (map[string]*jsonschema.Schema, error) {
	if in == nil {
		return nil, nil
	}
	out := make(map[string]*jsonschema.Schema, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) { // so that the first error is deterministic
		sub, err := strictAt(in[name], path+"."+name)
		if err != nil {
			return nil, err
		}
		out[name] = sub
	}
	return out, nil
}

// orNull returns a schema that also allows null. It may modify s.
func orNull(s *jsonschema.Schema) *jsonschema.Schema {
	null := &jsonschema.Schema{Type: "null"}
	switch {
	case hasType(s, "null"):
	case s.Const != nil, s.Ref != "":
		about := s.Description
		s.Description = ""
		return &jsonschema.Schema{Description: about, AnyOf: []*jsonschema.Schema{s, null}}
	case s.AnyOf != nil:
		s.AnyOf = append(s.AnyOf, null)
	default:
		s.Types = append(slices.Clone(s.Types), "null")
		if s.Type != "" {
			s.Type, s.Types = "", []string{s.Type, "null"}
		}
		if s.Enum != nil {
			s.Enum = append(slices.Clip(s.Enum), nil)
		}
	}
	return s
}

func hasType(s *jsonschema.Schema, typ string) bool {
	return s.Type == typ || slices.Contains(s.Types, typ)
}

// beyond returns the part of a schema that strict mode cannot express and that
// cannot be omitted without changing the shape of the value, or "".
func beyond(s *jsonschema.Schema) string {
	switch {
	case s.Type == "" && len(s.Types) == 0 && s.Ref == "" && s.AnyOf == nil && s.Enum == nil && s.Const == nil:
		return "values of any type"
	case hasType(s, "object") && s.Properties == nil && (s.AdditionalProperties == nil || !isFalse(s.AdditionalProperties)):
		return "objects with any properties, such as maps"
	case s.AdditionalProperties != nil && !isFalse(s.AdditionalProperties):
		return "additionalProperties"
	case hasType(s, "array") && s.Items == nil:
		return "arrays of anything"
	}
	for _, word := range []struct {
		name  string
		there bool
	}{
		{"allOf", s.AllOf != nil}, {"oneOf", s.OneOf != nil}, {"not", s.Not != nil}, {"if", s.If != nil},
		{"patternProperties", s.PatternProperties != nil}, {"propertyNames", s.PropertyNames != nil},
		{"prefixItems", len(s.PrefixItems)+len(s.ItemsArray) > 0}, {"contains", s.Contains != nil},
		{"dependentRequired", s.DependentRequired != nil}, {"dependentSchemas", s.DependentSchemas != nil},
		{"$dynamicRef", s.DynamicRef != ""},
	} {
		if word.there {
			return word.name
		}
	}
	return ""
}

// isFalse reports whether the schema allows nothing.
func isFalse(s *jsonschema.Schema) bool {
	return s.Not != nil && s.Not.Type == "" && len(s.Not.Types) == 0 && s.Not.Properties == nil && s.Not.Enum == nil
}
