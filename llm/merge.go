package llm

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// mergeMaps joins what two pieces of an answer say by the same names: texts and
// lists are put one behind the other, maps are joined in turn, whole numbers
// are added. Neither map is changed.
func mergeMaps(a, b map[string]any) (map[string]any, error) {
	if len(b) == 0 {
		return a, nil
	}
	if len(a) == 0 {
		return b, nil
	}
	out := maps.Clone(a)
	for _, name := range slices.Sorted(maps.Keys(b)) {
		v, err := mergeValues(name, out[name], b[name])
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// mergeValues joins two values of the same name.
func mergeValues(name string, a, b any) (any, error) {
	switch {
	case b == nil:
		return a, nil
	case a == nil:
		return b, nil
	}
	switch a := a.(type) {
	case string:
		if b, ok := b.(string); ok {
			if a == b && keepsText(name, a) {
				return a, nil
			}
			return a + b, nil
		}
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			return mergeMaps(a, b)
		}
	case []any:
		if b, ok := b.([]any); ok {
			return mergeLists(a, b)
		}
	default:
		return mergeOthers(name, a, b)
	}
	return nil, fmt.Errorf("field %s: a %T and a %T cannot be joined", name, a, b)
}

// keepsText reports whether a text is a name that providers repeat with every
// piece, not a text that goes on.
func keepsText(name, v string) bool {
	switch name {
	case "id", "type", "output_version", "model_provider":
		return true
	case "index":
		return strings.HasPrefix(v, "lc_")
	}
	return false
}

func mergeOthers(name string, a, b any) (any, error) {
	if reflect.DeepEqual(a, b) {
		return a, nil
	}
	x, xok := number(a)
	y, yok := number(b)
	switch {
	case !xok || !yok:
		return nil, fmt.Errorf("field %s: %v (%T) and %v (%T) cannot be joined", name, a, a, b, b)
	case name == "index" || name == "created" || name == "timestamp":
		return b, nil
	}
	if sum := x + y; sum == float64(int64(sum)) && x == float64(int64(x)) {
		if _, ok := a.(int); ok {
			return int(sum), nil
		}
		return sum, nil
	}
	return b, nil // a measure, not a count: the last one counts
}

func number(v any) (float64, bool) {
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		return f, err == nil
	}
	rv := reflect.ValueOf(v)
	switch {
	case rv.CanInt():
		return float64(rv.Int()), true
	case rv.CanUint():
		return float64(rv.Uint()), true
	case rv.CanFloat():
		return rv.Float(), true
	}
	return 0, false
}

// mergeLists joins elements that have the same index and no different id, and
// appends the others.
func mergeLists(a, b []any) ([]any, error) {
	out := slices.Clone(a)
next:
	for _, v := range b {
		m, _ := v.(map[string]any)
		if at, ok := slotOf(nil, m); ok {
			for i, old := range out {
				o, _ := old.(map[string]any)
				if place, ok := slotOf(nil, o); ok && place == at && joins(text(o["id"]), text(m["id"])) {
					merged, err := mergeMaps(o, m)
					if err != nil {
						return nil, err
					}
					out[i] = merged
					continue next
				}
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// slotOf is the place in a stream that a piece belongs to: a number, or a name
// that LangChain made.
func slotOf(index *int, fields map[string]any) (string, bool) {
	if index != nil {
		return strconv.Itoa(*index), true
	}
	switch v := fields["index"].(type) {
	case nil:
		return "", false
	case string:
		return v, strings.HasPrefix(v, "lc_")
	default:
		if f, ok := number(v); ok && f == float64(int64(f)) {
			return strconv.FormatInt(int64(f), 10), true
		}
	}
	return "", false
}
