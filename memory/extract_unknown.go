package memory

import (
	"encoding/json"
	"maps"

	"github.com/google/jsonschema-go/jsonschema"
)

// unknownFields are the fields of a document that its kind does not have. Another
// version of the program, or another program, wrote them. An update keeps them, and
// a model may not add any.
type unknownFields struct {
	fields   map[string]any            // of this object
	members  map[string]*unknownFields // of the values of its other fields
	elements map[int]*unknownFields    // of the elements of this list
}

// checkChange checks the new content of a document. Fields that the kind does not
// have are an error, unless the document had them before: then they stay.
func (k Kind) checkChange(before, now json.RawMessage) (json.RawMessage, error) {
	if before == nil {
		return k.check(now)
	}
	was, err := decodeAny(before)
	if err != nil {
		return nil, err
	}
	is, err := decodeAny(now)
	if err != nil {
		return nil, err
	}
	u := takeUnknown(k.tool.Parameters, is, []any{was})
	if u == nil {
		return k.check(now)
	}
	known, err := encodeAny(is)
	if err != nil {
		return nil, err
	}
	if known, err = k.check(known); err != nil {
		return nil, err
	}
	return u.addTo(known)
}

// carry adds to a new content the unknown fields of the old one. Those inside lists
// are left out, because nothing tells which element of the new list an old one became.
func (k Kind) carry(before, now json.RawMessage) (json.RawMessage, error) {
	was, err := decodeAny(before)
	if err != nil {
		return nil, err
	}
	same, err := decodeAny(before) // a copy, because takeUnknown changes the first
	if err != nil {
		return nil, err
	}
	u := takeUnknown(k.tool.Parameters, was, []any{same})
	if u == nil {
		return now, nil
	}
	return u.withoutElements().addTo(now)
}

// takeUnknown removes from a value the fields that its schema does not have and one
// of the earlier values had, and returns them; nil if there are none. A value has
// several earlier values if it is in a list: edits move elements, so each of the old
// ones may be the one it was.
func takeUnknown(s *jsonschema.Schema, now any, before []any) *unknownFields {
	if s == nil {
		return nil
	}
	u := &unknownFields{fields: map[string]any{}, members: map[string]*unknownFields{}, elements: map[int]*unknownFields{}}
	switch now := now.(type) {
	case map[string]any:
		for name, v := range now {
			earlier := fieldOf(before, name)
			switch p := s.Properties[name]; {
			case p != nil:
				u.members[name] = takeUnknown(p, v, earlier)
			case !closed(s):
				u.members[name] = takeUnknown(s.AdditionalProperties, v, earlier)
			case len(earlier) > 0:
				u.fields[name] = v
				delete(now, name)
			}
		}
	case []any:
		earlier := elementsOf(before)
		for i, v := range now {
			u.elements[i] = takeUnknown(s.Items, v, earlier)
		}
	}
	maps.DeleteFunc(u.members, func(_ string, u *unknownFields) bool { return u == nil })
	maps.DeleteFunc(u.elements, func(_ int, u *unknownFields) bool { return u == nil })
	if len(u.fields)+len(u.members)+len(u.elements) == 0 {
		return nil
	}
	return u
}

// closed reports whether an object may only have the fields that its schema names.
func closed(s *jsonschema.Schema) bool {
	a := s.AdditionalProperties
	return a != nil && a.Not != nil
}

// fieldOf returns the values of a field in those of the values that have it.
func fieldOf(values []any, name string) []any {
	var out []any
	for _, v := range values {
		object, _ := v.(map[string]any)
		if field, ok := object[name]; ok {
			out = append(out, field)
		}
	}
	return out
}

// elementsOf returns the elements of those of the values that are lists.
func elementsOf(values []any) []any {
	var out []any
	for _, v := range values {
		list, _ := v.([]any)
		out = append(out, list...)
	}
	return out
}

func (u *unknownFields) withoutElements() *unknownFields {
	out := &unknownFields{fields: u.fields, members: map[string]*unknownFields{}}
	for name, m := range u.members {
		out.members[name] = m.withoutElements()
	}
	return out
}

// addTo returns the document with the fields in their places.
func (u *unknownFields) addTo(document json.RawMessage) (json.RawMessage, error) {
	v, err := decodeAny(document)
	if err != nil {
		return nil, err
	}
	u.putInto(v)
	return encodeAny(v)
}

func (u *unknownFields) putInto(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range u.fields {
			if _, ok := v[name]; !ok {
				v[name] = field
			}
		}
		for name, m := range u.members {
			m.putInto(v[name])
		}
	case []any:
		for i, e := range u.elements {
			if i < len(v) {
				e.putInto(v[i])
			}
		}
	}
}
