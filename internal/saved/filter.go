package saved

import (
	"encoding/json"
	"reflect"
)

// A Filter is the metadata of a [checkpoint.Query] as JSON has it, so that 1 and
// 1.0 are one number.
type Filter map[string]any

// NewFilter is an error if something has no JSON, and so is in no metadata.
func NewFilter(want map[string]any) (Filter, error) {
	out := Filter{}
	for k, v := range want {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		var norm any
		if err := json.Unmarshal(raw, &norm); err != nil {
			return nil, err
		}
		out[k] = norm
	}
	return out, nil
}

// Matches reports whether the metadata has all that is wanted.
func (f Filter) Matches(metadata []byte) bool {
	var have map[string]any
	if json.Unmarshal(metadata, &have) != nil {
		return false
	}
	for k, want := range f {
		if v, ok := have[k]; !ok || !reflect.DeepEqual(v, want) {
			return false
		}
	}
	return true
}
