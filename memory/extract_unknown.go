package memory

import (
	"encoding/json"
	"maps"

	"github.com/google/jsonschema-go/jsonschema"
)

// unknownFields contains the fields of a document that its kind does not declare. They were
// written by another version of the program, or by another program. Updates keep them, and
// a model may not add any.
type unknownFields struct {
	fields   map[string]any            // of the object itself
	members  map[string]*unknownFields // of the values of its other fields
	elements map[int]*unknownFields    // of the elements, if the value is a list
}

// checkChange validates the new content of a document. It rejects fields that the kind does
// not declare, unless the document already had them; then they are kept.
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

// carry adds the unknown fields of the old content to the new content. It omits fields
// inside lists, because it cannot match the elements of the old list to those of the new
// one.
func (k Kind) carry(before, now json.RawMessage) (json.RawMessage, error) {
	was, err := decodeAny(before)
	if err != nil {
		return nil, err
	}
	same, err := decodeAny(before) // a copy, because takeUnknown modifies its argument
	if err != nil {
		return nil, err
	}
	u := takeUnknown(k.tool.Parameters, was, []any{same})
	if u == nil {
		return now, nil
	}
	return u.withoutElements().addTo(now)
}

// takeUnknown removes from now the fields that the schema does not declare but one of the
// earlier values had, and returns them, or nil if there are none. An element of a list has
// several earlier values: edits move elements, so it may correspond to any of the old
// elements.
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

// closed reports whether an object may only have the fields that its schema declares.
func closed(s *jsonschema.Schema) bool {
	a := s.AdditionalProperties
	return a != nil && a.Not != nil
}

// fieldOf returns the values of the named field in those values that have it.
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

// elementsOf returns the elements of all values that are lists.
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

// addTo returns the document with the unknown fields restored.
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
