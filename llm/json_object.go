package llm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// objectWriter writes a JSON object field by field, followed by the extra fields.
type objectWriter struct {
	buf   []byte
	names []string
	err   error
}

func (w *objectWriter) put(name string, v any) {
	if w.err != nil {
		return
	}
	raw, err := json.Marshal(v)
	if err != nil {
		w.err = fmt.Errorf("%s: %w", name, err)
		return
	}
	w.putRaw(name, raw)
}

func (w *objectWriter) putRaw(name string, raw []byte) {
	w.name(name, len(raw))
	w.buf = append(w.buf, raw...)
}

// name starts a field whose name needs no escaping and whose value has about n
// bytes.
func (w *objectWriter) name(name string, n int) {
	w.open(len(name) + n)
	w.buf = append(w.buf, '"')
	w.buf = append(w.buf, name...)
	w.buf = append(w.buf, '"', ':')
	w.names = append(w.names, name)
}

func (w *objectWriter) open(n int) {
	if w.buf == nil {
		w.buf = append(make([]byte, 0, n+256), '{')
		w.names = make([]string, 0, 12)
	} else {
		w.buf = append(w.buf, ',')
	}
}

// putText writes a string unless it is empty.
func (w *objectWriter) putText(name, v string) {
	if v != "" {
		w.putString(name, v)
	}
}

// putOrNull writes a string, or null if it is empty.
func (w *objectWriter) putOrNull(name, v string) {
	if v == "" {
		w.putRaw(name, []byte("null"))
	} else {
		w.putString(name, v)
	}
}

// putString writes a string. Most strings need no escaping.
func (w *objectWriter) putString(name, v string) {
	for i := range len(v) {
		if c := v[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			w.put(name, v)
			return
		}
	}
	w.name(name, len(v)+2)
	w.buf = append(append(append(w.buf, '"'), v...), '"')
}

// putAll writes a list, even if it is empty.
func putAll[T json.Marshaler](w *objectWriter, name string, list []T) {
	if len(list) == 0 {
		w.putRaw(name, []byte("[]"))
		return
	}
	putList(w, name, list)
}

// putList writes a list, unless it is empty.
func putList[T json.Marshaler](w *objectWriter, name string, list []T) {
	if len(list) == 0 {
		return
	}
	w.name(name, 64)
	for i, v := range list {
		raw, err := v.MarshalJSON()
		if err != nil {
			w.err = fmt.Errorf("%s %d: %w", name, i, err)
			return
		}
		if i == 0 {
			w.buf = append(w.buf, '[')
		} else {
			w.buf = append(w.buf, ',')
		}
		w.buf = append(w.buf, raw...)
	}
	w.buf = append(w.buf, ']')
}

// end writes the extra fields whose names have not been written, and returns the
// object.
func (w *objectWriter) end(extra map[string]any) ([]byte, error) {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if slices.Contains(w.names, name) {
			continue
		}
		key, keyErr := json.Marshal(name)
		raw, err := json.Marshal(extra[name])
		if err = cmp.Or(err, keyErr); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		w.open(len(key) + len(raw))
		w.buf = append(append(append(w.buf, key...), ':'), raw...)
	}
	if w.err != nil {
		return nil, w.err
	}
	if w.buf == nil {
		return []byte("{}"), nil
	}
	return append(w.buf, '}'), nil
}

// object is a JSON object being decoded. Taking a field removes it, so the unknown
// fields remain.
type object map[string]json.RawMessage

func readObject(raw []byte) (object, error) {
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	if o == nil {
		return nil, errors.New("null instead of an object")
	}
	return o, nil
}

// isNull reports whether a field is absent or null.
func (o object) isNull(name string) bool {
	raw, ok := o[name]
	return !ok || string(raw) == "null"
}

// take moves a field into dst. A missing or null field leaves dst unchanged.
func (o object) take(name string, dst any) error {
	if o.isNull(name) {
		delete(o, name)
		return nil
	}
	if err := json.Unmarshal(o[name], dst); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	delete(o, name)
	return nil
}

// rest returns the remaining fields.
func (o object) rest() (map[string]any, error) {
	if len(o) == 0 {
		return nil, nil
	}
	out := make(map[string]any, len(o))
	for name, raw := range o {
		v, err := decodeAny(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = v
	}
	return out, nil
}

// takeMap moves a field that is an object into dst, unless it is empty.
func (o object) takeMap(name string, dst *map[string]any) error {
	var raw json.RawMessage
	if err := o.take(name, &raw); err != nil || raw == nil {
		return err
	}
	v, err := decodeAny(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: not an object", name)
	}
	if len(m) > 0 {
		*dst = m
	}
	return nil
}

// decodeAny decodes any JSON value. Numbers become float64, or json.Number where
// float64 would change them, so that data merely passed on stays the same.
func decodeAny(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return exactNumbers(v), nil
}

func exactNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			v[name] = exactNumbers(e)
		}
	case []any:
		for i, e := range v {
			v[i] = exactNumbers(e)
		}
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v
		}
		// Long numbers may have lost digits.
		if len(v) > 15 && strconv.FormatFloat(f, 'g', -1, 64) != string(v) && strconv.FormatFloat(f, 'f', -1, 64) != string(v) {
			return v
		}
		return f
	}
	return v
}
