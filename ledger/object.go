package ledger

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/treadle-go/treadle/internal/plainjson"
)

// Object is a JSON object. Its numbers are of type json.Number, so they keep all digits. A nil
// Object encodes as {}.
type Object map[string]any

// MarshalJSON implements [json.Marshaler].
func (o Object) MarshalJSON() ([]byte, error) {
	if len(o) == 0 {
		return []byte("{}"), nil
	}
	return json.Marshal(map[string]any(o))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (o *Object) UnmarshalJSON(raw []byte) error {
	if string(raw) == "{}" {
		*o = Object{}
		return nil
	}
	r := plainjson.NewReader(raw)
	if r.Next() == '{' {
		m := plainObject(r, 0)
		if r.Done() {
			*o = m
			return nil
		}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return err
	}
	*o = m
	return nil
}

// plainDepth is the maximum nesting depth of values that plainObject reads.
const plainDepth = 50

// plainObject reads an object like encoding/json with UseNumber. It fails the reader on input
// that it does not support.
func plainObject(r *plainjson.Reader, depth int) map[string]any {
	m := map[string]any{}
	r.Begin('{')
	for r.More('}') {
		k := string(r.Key())
		m[k] = plainValue(r, depth+1)
	}
	return m
}

func plainValue(r *plainjson.Reader, depth int) any {
	switch c := r.Next(); {
	case depth > plainDepth:
		r.Fail()
		return nil
	case c == '{':
		return plainObject(r, depth)
	case c == '[':
		list := []any{}
		r.Begin('[')
		for r.More(']') {
			list = append(list, plainValue(r, depth+1))
		}
		return list
	case c == '"':
		return r.String()
	case c == 't' || c == 'f':
		return r.Bool()
	case c == 'n':
		r.Raw()
		return nil
	}
	return json.Number(r.Raw())
}

// merged returns a copy of o with the members of over added, which replace members of o with
// the same key.
func (o Object) merged(over Object) Object {
	m := make(Object, len(o)+len(over))
	maps.Copy(m, o)
	maps.Copy(m, over)
	return m
}
