package schema

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/treadle-go/treadle/internal/plainjson"
)

// A Checker checks JSON against a schema without decoding it. It supports the keywords
// that [Of] writes. If it accepts JSON, the JSON is valid. Otherwise, a validator must
// decide and give the reason.
type Checker struct {
	kinds  kind
	enum   []string // for strings
	low    *float64 // for numbers
	high   *float64
	items  *Checker // nil accepts anything
	fields []checkedField
	others *Checker // for other properties; nil rejects them
}

type checkedField struct {
	name  string
	value *Checker
	must  bool // must be present: it is required, or has a default to fill in
}

// kind is a set of JSON types.
type kind uint8

const (
	text kind = 1 << iota
	integer
	number
	boolean
	array
	object
	null
	anyKind = text | integer | number | boolean | array | object | null
)

var kinds = map[string]kind{"string": text, "integer": integer, "number": number | integer, "boolean": boolean,
	"array": array, "object": object, "null": null}

var anything = &Checker{kinds: anyKind}

// NewChecker returns a Checker for s, or nil if the schema uses unsupported keywords.
func NewChecker(s *jsonschema.Schema) *Checker {
	if s == nil {
		return nil
	}
	rest := *s
	rest.Title, rest.Description, rest.Default, rest.PropertyOrder, rest.ContentEncoding = "", "", nil, nil, ""
	rest.Type, rest.Types, rest.Enum, rest.Minimum, rest.Maximum = "", nil, nil, nil, nil
	rest.Items, rest.Properties, rest.Required, rest.AdditionalProperties = nil, nil, nil, nil
	if !reflect.ValueOf(rest).IsZero() {
		return nil
	}
	c := &Checker{kinds: kinds[s.Type], low: s.Minimum, high: s.Maximum}
	for _, t := range s.Types {
		c.kinds |= kinds[t]
	}
	if s.Type == "" && s.Types == nil {
		c.kinds = anyKind
	}
	for _, v := range s.Enum {
		word, ok := v.(string)
		if !ok {
			return nil
		}
		c.enum = append(c.enum, word)
	}
	if s.Enum != nil {
		c.kinds &= text
	}
	c.items, c.others = anything, anything
	if s.Items != nil {
		c.items = NewChecker(s.Items)
	}
	if a := s.AdditionalProperties; a != nil {
		if isFalse(a) {
			c.others = nil
		} else if c.others = NewChecker(a); c.others == nil {
			return nil
		}
	}
	for name, p := range s.Properties {
		value := NewChecker(p)
		if value == nil {
			return nil
		}
		c.fields = append(c.fields, checkedField{name, value, slices.Contains(s.Required, name) || p.Default != nil})
	}
	for _, name := range s.Required {
		if s.Properties[name] == nil {
			return nil
		}
	}
	if c.items == nil || len(c.fields) > 64 {
		return nil
	}
	return c
}

// isFalse reports whether s is the false schema, as package jsonschema represents it.
func isFalse(s *jsonschema.Schema) bool {
	return s.Not != nil && reflect.DeepEqual(s, &jsonschema.Schema{Not: &jsonschema.Schema{}})
}

// Fits reports whether a JSON object matches the schema and contains all properties with
// a default. It may return false for an object that does.
func (c *Checker) Fits(raw json.RawMessage) bool {
	r := plainjson.NewReader(raw)
	if r.Next() != '{' {
		return false
	}
	c.check(r, 0)
	return r.Done()
}

// maxCheck is the maximum nesting depth; it bounds the stack.
const maxCheck = 100

// check consumes a value. The reader gives up if the value may not match.
func (c *Checker) check(r *plainjson.Reader, depth int) {
	got := kindOf(r.Next())
	switch {
	case depth > maxCheck || c.kinds&got == 0:
		r.Fail()
	case got == object && c != anything:
		c.object(r, depth)
	case got == array && c != anything:
		for r.Begin('['); r.More(']'); {
			c.items.check(r, depth+1)
		}
	case got == text && c.enum != nil:
		if !slices.Contains(c.enum, r.String()) {
			r.Fail()
		}
	case got&(integer|number) == 0:
		r.Raw()
	case c.kinds&number == 0:
		c.within(r, float64(r.Int(54))) // integers that a float64 represents exactly
	default:
		c.within(r, r.Float(64))
	}
}

func (c *Checker) within(r *plainjson.Reader, v float64) {
	if c.low != nil && v < *c.low || c.high != nil && v > *c.high {
		r.Fail()
	}
}

func (c *Checker) object(r *plainjson.Reader, depth int) {
	var seen uint64
	for r.Begin('{'); r.More('}'); {
		key := r.Key()
		at := slices.IndexFunc(c.fields, func(f checkedField) bool { return f.name == string(key) })
		switch {
		case r.Failed():
		case at >= 0 && seen&(1<<at) == 0:
			seen |= 1 << at
			c.fields[at].value.check(r, depth+1)
		case at < 0 && c.others != nil:
			c.others.check(r, depth+1)
		default:
			r.Fail()
		}
	}
	for i, f := range c.fields {
		if f.must && seen&(1<<i) == 0 {
			r.Fail()
		}
	}
}

// kindOf returns the possible kinds of a value by its first byte.
func kindOf(first byte) kind {
	switch first {
	case '"':
		return text
	case '{':
		return object
	case '[':
		return array
	case 't', 'f':
		return boolean
	case 'n':
		return null
	case 0:
		return 0
	}
	return number | integer
}
