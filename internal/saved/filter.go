package saved

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// A Filter holds the metadata of a [checkpoint.Query] with values normalized through
// JSON, so that 1 and 1.0 are equal.
type Filter map[string]any

// NewFilter returns a filter for want. It returns an error if a value cannot be encoded
// as JSON, because no metadata can contain such a value.
func NewFilter(want map[string]any) (Filter, error) {
	out := Filter{}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		raw, err := json.Marshal(want[k])
		if err != nil {
			return nil, fmt.Errorf("metadata %q: value cannot be encoded as JSON: %w", k, err)
		}
		var norm any
		if err := json.Unmarshal(raw, &norm); err != nil {
			return nil, fmt.Errorf("metadata %q: %w", k, err)
		}
		out[k] = norm
	}
	return out, nil
}

// Matches reports whether the metadata contains all values of the filter.
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
