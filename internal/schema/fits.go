package schema

import (
	"bytes"
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
	name     string
	value    *Checker
	must     bool            // it is required
	standard json.RawMessage // the default, or nil
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
	rest.Title = ""
	rest.Description = ""
	rest.Default = nil
	rest.PropertyOrder = nil
	rest.ContentEncoding = ""
	rest.Type = ""
	rest.Types = nil
	rest.Enum = nil
	rest.Minimum = nil
	rest.Maximum = nil
	rest.Items = nil
	rest.Properties = nil
	rest.Required = nil
	rest.AdditionalProperties = nil
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
		if p.Default != nil && !value.fits(p.Default) {
			return nil
		}
		c.fields = append(c.fields, checkedField{name, value, slices.Contains(s.Required, name), p.Default})
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

// Fill returns a JSON object with the defaults of its absent properties. The second result
// is false if the object may not match the schema, or if an object in it lacks a property
// with a default.
func (c *Checker) Fill(raw json.RawMessage) (json.RawMessage, bool) {
	r := plainjson.NewReader(raw)
	if r.Next() != '{' || c.kinds&object == 0 {
		return nil, false
	}
	seen := c.object(r, 0)
	if !r.Done() {
		return nil, false
	}
	filled := raw
	for i, f := range c.fields {
		if f.standard != nil && seen&(1<<i) == 0 {
			filled = withProperty(filled, f)
		}
	}
	return filled, true
}

// withProperty adds a property with its default to an object.
func withProperty(raw json.RawMessage, f checkedField) json.RawMessage {
	rest := raw[:bytes.LastIndexByte(raw, '}')]
	out := append(make(json.RawMessage, 0, len(raw)+len(f.name)+len(f.standard)+4), rest...)
	if !bytes.HasSuffix(bytes.TrimRight(rest, " \t\r\n"), []byte("{")) {
		out = append(out, ',')
	}
	out = append(plainjson.AppendString(out, f.name), ':')
	return append(append(out, f.standard...), '}')
}

// fits reports whether a JSON value matches the schema.
func (c *Checker) fits(raw json.RawMessage) bool {
	r := plainjson.NewReader(raw)
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
		seen := c.object(r, depth)
		for i, f := range c.fields {
			if f.standard != nil && seen&(1<<i) == 0 {
				r.Fail()
			}
		}
	case got == array && c != anything:
		r.Begin('[')
		for r.More(']') {
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

// object consumes an object and returns the set of its properties, as indexes of c.fields.
func (c *Checker) object(r *plainjson.Reader, depth int) (seen uint64) {
	r.Begin('{')
	for r.More('}') {
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
	return seen
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
