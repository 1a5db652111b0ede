package ledger

import (
	"bytes"
	"encoding/json"
	"maps"
)

// Object is a JSON object. Its numbers are json.Number, so they keep all digits; nil
// is {} as JSON.
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
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return err
	}
	*o = m
	return nil
}

// merged returns o with the keys of over laid over its own.
func (o Object) merged(over Object) Object {
	m := make(Object, len(o)+len(over))
	maps.Copy(m, o)
	maps.Copy(m, over)
	return m
}
