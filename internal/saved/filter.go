package saved

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// A Filter is the metadata of a [checkpoint.Query] as JSON has it, so that 1 and
// 1.0 are one number.
type Filter map[string]any

// NewFilter is an error if something has no JSON, and so is in no metadata.
func NewFilter(want map[string]any) (Filter, error) {
	out := Filter{}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		raw, err := json.Marshal(want[k])
		if err != nil {
			return nil, fmt.Errorf("metadata %q: what is wanted has no JSON: %w", k, err)
		}
		var norm any
		if err := json.Unmarshal(raw, &norm); err != nil {
			return nil, fmt.Errorf("metadata %q: %w", k, err)
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
