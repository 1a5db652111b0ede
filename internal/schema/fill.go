package schema

import (
	"bytes"
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// HasDefaults reports whether any property of the schema, at any depth, has a default.
func HasDefaults(s *jsonschema.Schema) bool {
	if s == nil {
		return false
	}
	for _, p := range s.Properties {
		if HasDefaults(p) || p != nil && p.Default != nil {
			return true
		}
	}
	return HasDefaults(s.Items) || HasDefaults(s.AdditionalProperties)
}

// Fill returns raw with the defaults of absent properties filled in.
func Fill(s *jsonschema.Schema, raw json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // preserves the text of numbers
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if !fill(s, v) {
		return raw, nil
	}
	return json.Marshal(v)
}

// fill modifies v and reports whether it changed.
func fill(s *jsonschema.Schema, v any) (changed bool) {
	if s == nil {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for name, p := range s.Properties {
			if in, ok := v[name]; ok {
				changed = fill(p, in) || changed
			} else if p != nil && p.Default != nil {
				v[name], changed = p.Default, true
			}
		}
		for name, in := range v {
			if s.Properties[name] == nil {
				changed = fill(s.AdditionalProperties, in) || changed
			}
		}
	case []any:
		for _, in := range v {
			changed = fill(s.Items, in) || changed
		}
	}
	return changed
}
