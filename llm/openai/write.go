package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/treadle-go/treadle/internal/plainjson"
)

// object is a JSON object whose fields are written in order.
type object []field

type field struct {
	name  string
	value any // see appendValue
}

// written is encoded JSON.
type written []byte

// with returns the object with further fields, sorted by name. The value of an
// existing field is replaced.
func (o object) with(extra map[string]any) object {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		at := slices.IndexFunc(o, func(f field) bool { return f.name == name })
		if at < 0 {
			o = append(o, field{name, extra[name]})
		} else {
			o[at].value = extra[name]
		}
	}
	return o
}

// add adds a field, unless the text is empty.
func (o *object) add(name, text string) {
	if text != "" {
		*o = append(*o, field{name, text})
	}
}

// marshal encodes a value as JSON.
func marshal(v any) ([]byte, error) { return appendValue(nil, v) }

// appendValue encodes objects, lists of objects, encoded JSON, and any value that
// encoding/json supports.
func appendValue(b []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case string:
		return plainjson.AppendString(b, v), nil
	case written:
		return append(b, v...), nil
	case object:
		b = append(b, '{')
		for i, f := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(plainjson.AppendString(b, f.name), ':')
			if b, err = appendValue(b, f.value); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	case []object:
		return appendList(b, v)
	case []any:
		return appendList(b, v)
	}
	w := bytes.NewBuffer(b)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // models read the text, and < is shorter
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(w.Bytes(), []byte("\n")), nil
}

func appendList[T any](b []byte, list []T) (_ []byte, err error) {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, v); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}
