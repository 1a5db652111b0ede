package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/bounded"
	"github.com/treadle-go/treadle/internal/plainjson"
	"github.com/treadle-go/treadle/internal/schema"
)

// parameters checks arguments against a schema.
type parameters struct {
	*bounded.Schema
	plain    *schema.Checker // a short way for most arguments, or nil
	defaults bool            // the schema has some
}

func newParameters(s *jsonschema.Schema, o *jsonschema.ResolveOptions) (*parameters, error) {
	r, err := bounded.Resolve(s, o)
	if err != nil {
		return nil, err
	}
	return &parameters{r, schema.NewChecker(s), schema.HasDefaults(s)}, nil
}

// parametersOf makes the schema of a tool's arguments.
func parametersOf[In any]() (*jsonschema.Schema, *parameters, error) {
	t := reflect.TypeFor[In]()
	s, err := schema.Of(t, schema.Options{})
	if err != nil {
		return nil, nil, err
	}
	if s.Type != "object" {
		return nil, nil, fmt.Errorf("its arguments must be a struct, not %v", t)
	}
	p, err := newParameters(s, &jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		return nil, nil, fmt.Errorf("the schema of %v: %w", t, err)
	}
	return s, p, nil
}

// arguments checks a call's arguments and fills in what is absent.
func (t *Tool) arguments(raw json.RawMessage) (json.RawMessage, error) {
	p := t.resolved
	if p != nil && p.Schema.Schema() != t.Parameters {
		p = nil
	}
	if p != nil && p.plain != nil && p.plain.Fits(raw) {
		return raw, nil
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
			return nil, fmt.Errorf("the tool's own schema is invalid: %w", err)
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

// decodeArgs reads checked arguments into a Go value. JSON schema counts 2.0 as
// a whole number and Go does not, so on failure the numbers are written anew.
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
