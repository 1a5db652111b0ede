package memory

import (
	"encoding/json"
	"maps"

	"github.com/google/jsonschema-go/jsonschema"
)

// A foreign part of a document is what its kind does not know: fields that an older
// or newer version of the program, or another program, has written. They are not
// the model's to write, and not ours to lose.
type foreign struct {
	fields map[string]any
	in     map[string]*foreign // of fields that the kind knows
	at     map[int]*foreign    // of the elements of a list
}

// checkChange is check for what a document is to become. Fields that the kind does
// not have are wrong, unless the document had them before: these stay.
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
	f := takeForeign(k.tool.Parameters, is, was)
	if f == nil {
		return k.check(now)
	}
	known, err := encodeAny(is)
	if err != nil {
		return nil, err
	}
	if known, err = k.check(known); err != nil {
		return nil, err
	}
	return withForeign(known, f)
}

// carry is a new content with what the kind does not know of the old one.
func (k Kind) carry(before, now json.RawMessage) (json.RawMessage, error) {
	was, err := decodeAny(before)
	if err != nil {
		return nil, err
	}
	f := takeForeign(k.tool.Parameters, was, was)
	if f == nil {
		return now, nil
	}
	return withForeign(now, f.outsideLists())
}

// takeForeign takes out of a value what its schema does not know and the value had
// before; nil if there is nothing.
func takeForeign(s *jsonschema.Schema, now, before any) *foreign {
	if s == nil {
		return nil
	}
	f := &foreign{fields: map[string]any{}, in: map[string]*foreign{}, at: map[int]*foreign{}}
	switch now := now.(type) {
	case map[string]any:
		was, _ := before.(map[string]any)
		was = maps.Clone(was) // it may be the same
		for name, v := range now {
			old, had := was[name]
			switch p := s.Properties[name]; {
			case p != nil:
				f.in[name] = takeForeign(p, v, old)
			case closed(s) && had:
				f.fields[name] = v
				delete(now, name)
			case !closed(s):
				f.in[name] = takeForeign(s.AdditionalProperties, v, old)
			}
		}
	case []any:
		was := together(before)
		for i, v := range now {
			f.at[i] = takeForeign(s.Items, v, was)
		}
	}
	maps.DeleteFunc(f.in, func(_ string, f *foreign) bool { return f == nil })
	maps.DeleteFunc(f.at, func(_ int, f *foreign) bool { return f == nil })
	if len(f.fields)+len(f.in)+len(f.at) == 0 {
		return nil
	}
	return f
}

// closed reports whether an object may have no fields but those that are named.
func closed(s *jsonschema.Schema) bool {
	a := s.AdditionalProperties
	return a != nil && a.Not != nil
}

// together has the fields of all elements of a list, since edits move these.
func together(list any) map[string]any {
	all := map[string]any{}
	elements, _ := list.([]any)
	for _, v := range elements {
		object, _ := v.(map[string]any)
		maps.Copy(all, object)
	}
	return all
}

// outsideLists is what can be put into another value: the elements of its lists may
// be others.
func (f *foreign) outsideLists() *foreign {
	out := &foreign{fields: f.fields, in: map[string]*foreign{}}
	for name, g := range f.in {
		out.in[name] = g.outsideLists()
	}
	return out
}

// withForeign puts foreign fields into a document.
func withForeign(known json.RawMessage, f *foreign) (json.RawMessage, error) {
	v, err := decodeAny(known)
	if err != nil {
		return nil, err
	}
	f.putInto(v)
	return encodeAny(v)
}

func (f *foreign) putInto(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range f.fields {
			if _, ok := v[name]; !ok {
				v[name] = field
			}
		}
		for name, g := range f.in {
			g.putInto(v[name])
		}
	case []any:
		for i, g := range f.at {
			if i < len(v) {
				g.putInto(v[i])
			}
		}
	}
}
