package bedrock

import (
	"github.com/google/jsonschema-go/jsonschema"
)

// restrict returns the part of a schema that structured output supports: objects
// without additional properties, and no limits of numbers, texts, and lists.
// [llm.Object] checks the response against the whole schema.
func restrict(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil {
		return nil
	}
	out := *s
	out.Minimum = nil
	out.Maximum = nil
	out.ExclusiveMinimum = nil
	out.ExclusiveMaximum = nil
	out.MultipleOf = nil
	out.MinLength = nil
	out.MaxLength = nil
	out.MaxItems = nil
	out.UniqueItems = false
	out.MinProperties, out.MaxProperties, out.Default = nil, nil, nil
	if s.MinItems != nil && *s.MinItems > 1 {
		out.MinItems = nil
	}
	out.Items = restrict(s.Items)
	out.Properties, out.Defs, out.Definitions = restrictAll(s.Properties), restrictAll(s.Defs), restrictAll(s.Definitions)
	out.AnyOf, out.AllOf, out.OneOf = restrictList(s.AnyOf), restrictList(s.AllOf), restrictList(s.OneOf)
	if len(s.Properties) > 0 {
		out.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}} // false
	}
	return &out
}

func restrictAll(in map[string]*jsonschema.Schema) map[string]*jsonschema.Schema {
	if in == nil {
		return nil
	}
	out := make(map[string]*jsonschema.Schema, len(in))
	for name, s := range in {
		out[name] = restrict(s)
	}
	return out
}

func restrictList(in []*jsonschema.Schema) []*jsonschema.Schema {
	if in == nil {
		return nil
	}
	out := make([]*jsonschema.Schema, len(in))
	for i, s := range in {
		out[i] = restrict(s)
	}
	return out
}
