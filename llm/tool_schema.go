package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/bounded"
)

// argumentsOf is the schema of a tool's arguments.
func argumentsOf[In any]() (*jsonschema.Schema, *bounded.Schema, error) {
	t := reflect.TypeFor[In]()
	s, err := schemaOf(t)
	if err != nil {
		return nil, nil, err
	}
	if s.Type != "object" {
		return nil, nil, fmt.Errorf("its arguments must be a struct, not %v", t)
	}
	r, err := bounded.Resolve(s, &jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, nil, fmt.Errorf("the schema of %v: %w", t, err)
	}
	return s, r, nil
}

// schemaOf is the schema of a Go type as models are shown it.
func schemaOf(t reflect.Type) (*jsonschema.Schema, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Message]():  Message{}.JSONSchema(),
		reflect.TypeFor[Messages](): Messages{}.JSONSchema(),
	}})
	if err != nil {
		return nil, fmt.Errorf("no schema for %v: %w", t, err)
	}
	if err := refine(s, t, t.String()); err != nil {
		return nil, err
	}
	return s, nil
}

// refine adds to the schema what the tags enum and default say, makes pointers
// optional, and takes null away: Go's nil slices and pointers are absent values,
// and most providers do not know types with alternatives.
func refine(s *jsonschema.Schema, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		if s.Items != nil {
			return refine(s.Items, t.Elem(), path+"[]")
		}
	case reflect.Map:
		if s.AdditionalProperties != nil {
			return refine(s.AdditionalProperties, t.Elem(), path+"[]")
		}
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
			if err := refineField(s, p, f, name, path+"."+f.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func refineField(s, p *jsonschema.Schema, f reflect.StructField, name, path string) error {
	if err := refine(p, f.Type, path); err != nil {
		return err
	}
	optional := f.Type.Kind() == reflect.Pointer
	if list, ok := f.Tag.Lookup("enum"); ok {
		target := p
		if p.Items != nil {
			target = p.Items
		}
		for word := range strings.SplitSeq(list, ",") {
			v, err := tagValue(target, word)
			if err != nil {
				return fmt.Errorf("%s: enum: %w", path, err)
			}
			target.Enum = append(target.Enum, v)
		}
	}
	if word, ok := f.Tag.Lookup("default"); ok {
		v, err := tagValue(p, word)
		if err != nil {
			return fmt.Errorf("%s: default: %w", path, err)
		}
		if p.Default, err = json.Marshal(v); err != nil {
			return fmt.Errorf("%s: default: %w", path, err)
		}
		optional = true
	}
	if optional {
		s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
	}
	return nil
}

// tagValue is a value in a tag: JSON, or a string as it is.
func tagValue(s *jsonschema.Schema, word string) (v any, err error) {
	if s.Type == "string" {
		return word, nil
	}
	if err := json.Unmarshal([]byte(word), &v); err != nil {
		return nil, fmt.Errorf("%q is not JSON: %w", word, err)
	}
	return v, nil
}

// arguments checks a call's arguments and fills in what is absent.
func (t *Tool) arguments(raw json.RawMessage) (json.RawMessage, error) {
	if err := bounded.JSON(raw); err != nil {
		return nil, err
	}
	args, err := decodeObject(raw)
	if err != nil {
		return nil, err
	}
	if t.Parameters == nil {
		return raw, nil
	}
	r := t.resolved
	if r == nil || r.Schema() != t.Parameters {
		if r, err = bounded.Resolve(t.Parameters, nil); err != nil {
			return nil, fmt.Errorf("the tool's own schema is invalid: %w", err)
		}
	}
	changed := dropNulls(t.Parameters, args)
	if hasDefaults(t.Parameters) {
		changed = true
		if err := r.ApplyDefaults(&args); err != nil {
			return nil, err
		}
	}
	if err := r.Validate(args); err != nil {
		return nil, err
	}
	if !changed {
		return raw, nil
	}
	return json.Marshal(args)
}

// decodeObject reads a JSON object. Whole numbers keep all their digits.
func decodeObject(raw json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if out == nil || d.More() {
		return nil, errors.New("not a JSON object")
	}
	return plainNumbers(out).(map[string]any), nil
}

// plainNumbers makes Go numbers of the decoder's, which the validator does not
// know.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			v[name] = plainNumbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = plainNumbers(e)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // too large is infinite, which no schema allows
		return f
	}
	return v
}

// dropNulls takes out the nulls of properties that need not be there: that is
// how some models say that they leave one out.
func dropNulls(s *jsonschema.Schema, args map[string]any) (changed bool) {
	for name, v := range args {
		p := s.Properties[name]
		switch {
		case p == nil:
		case v == nil:
			if !slices.Contains(s.Required, name) && p.Type != "" && p.Type != "null" {
				delete(args, name)
				changed = true
			}
		case dropNullsIn(p, v):
			changed = true
		}
	}
	return changed
}

// dropNullsIn does it for a value of any kind.
func dropNullsIn(s *jsonschema.Schema, v any) (changed bool) {
	switch v := v.(type) {
	case map[string]any:
		return dropNulls(s, v)
	case []any:
		for _, e := range v {
			if s.Items != nil && dropNullsIn(s.Items, e) {
				changed = true
			}
		}
	}
	return changed
}

func hasDefaults(s *jsonschema.Schema) bool {
	for _, p := range s.Properties {
		if p.Default != nil || hasDefaults(p) {
			return true
		}
	}
	return false
}

// decodeArgs reads checked arguments into a Go value. JSON schema counts 2.0 as
// a whole number and Go does not, so on failure the numbers are written anew.
func decodeArgs(raw json.RawMessage, into any) error {
	err := json.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	var plain any
	if json.Unmarshal(raw, &plain) != nil {
		return err
	}
	again, merr := json.Marshal(plain)
	if merr != nil || json.Unmarshal(again, into) != nil {
		return err
	}
	return nil
}
