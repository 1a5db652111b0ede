package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/bounded"
	"github.com/treadle-go/treadle/internal/plainjson"
	"github.com/treadle-go/treadle/internal/schema"
)

// parameters validates arguments against a schema.
type parameters struct {
	*bounded.Schema
	plain    *schema.Checker // a fast path for most arguments, or nil
	defaults bool            // the schema has defaults
	size     atomic.Pointer[toolSize]
}

func newParameters(s *jsonschema.Schema, opts *jsonschema.ResolveOptions) (*parameters, error) {
	r, err := bounded.Resolve(s, opts)
	if err != nil {
		return nil, err
	}
	return &parameters{Schema: r, plain: schema.NewChecker(s), defaults: schema.HasDefaults(s)}, nil
}

// parametersOf derives the JSON schema for a tool's arguments.
func parametersOf[In any]() (*jsonschema.Schema, *parameters, error) {
	t := reflect.TypeFor[In]()
	s, err := schema.Of(t, schema.Options{})
	if err != nil {
		return nil, nil, err
	}
	if s.Type != "object" {
		return nil, nil, fmt.Errorf("arguments must be a struct, not %v", t)
	}
	p, err := newParameters(s, &jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, nil, fmt.Errorf("schema of %v: %w", t, err)
	}
	return s, p, nil
}

// arguments validates a call's arguments and applies defaults.
func (t *Tool) arguments(raw json.RawMessage) (json.RawMessage, error) {
	p := t.resolved
	if p != nil && p.Schema.Schema() != t.Parameters {
		p = nil
	}
	if p != nil && p.plain != nil {
		if args, ok := p.plain.Fill(raw); ok {
			return args, nil
		}
	}
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
	if p == nil {
		if p, err = newParameters(t.Parameters, nil); err != nil {
			return nil, fmt.Errorf("tool has an invalid schema: %w", err)
		}
	}
	changed := dropNulls(t.Parameters, args)
	if p.defaults {
		changed = true
		if err := p.ApplyDefaults(&args); err != nil {
			return nil, err
		}
	}
	if err := p.Validate(args); err != nil {
		return nil, err
	}
	if !changed {
		return raw, nil
	}
	return json.Marshal(args)
}

// decodeObject decodes a JSON object. Integers keep all their digits.
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

// plainNumbers replaces json.Number values, which the validator does not support,
// with Go numbers.
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
		f, _ := v.Float64() // an overflow yields infinity, which no schema allows
		return f
	}
	return v
}

// dropNulls deletes the nulls of optional properties, because some models write
// null to omit a property.
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

// dropNullsIn is like dropNulls, but for a value of any kind.
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

// decodeArgs decodes validated arguments into a Go value. JSON Schema treats 2.0 as
// an integer and Go does not, so after a failure the numbers are encoded again.
func decodeArgs(raw json.RawMessage, into any) error {
	if plainjson.Unmarshal(raw, into) {
		return nil
	}
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
