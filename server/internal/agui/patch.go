package agui

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// operation is a change of a JSON document, as in RFC 6902.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value *any   `json:"value,omitempty"` // nil for remove
}

// pointer escapes a key for a JSON pointer.
var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// diff appends the operations that turn old into fresh, both decoded from JSON. A list that has
// only grown gets its new elements; any other changed list is replaced.
func diff(ops []operation, path string, old, fresh any) []operation {
	switch was := old.(type) {
	case map[string]any:
		now, ok := fresh.(map[string]any)
		if !ok {
			break
		}
		for _, key := range slices.Sorted(maps.Keys(was)) {
			if _, kept := now[key]; !kept {
				ops = append(ops, operation{Op: "remove", Path: path + "/" + pointer.Replace(key)})
			}
		}
		for _, key := range slices.Sorted(maps.Keys(now)) {
			at, v := path+"/"+pointer.Replace(key), now[key]
			if before, had := was[key]; had {
				ops = diff(ops, at, before, v)
			} else {
				ops = append(ops, operation{"add", at, &v})
			}
		}
		return ops
	case []any:
		now, ok := fresh.([]any)
		if !ok || len(now) < len(was) || !reflect.DeepEqual(was, now[:len(was)]) {
			break
		}
		for i, v := range now[len(was):] {
			ops = append(ops, operation{"add", path + "/" + strconv.Itoa(len(was)+i), &v})
		}
		return ops
	}
	if reflect.DeepEqual(old, fresh) {
		return ops
	}
	return append(ops, operation{"replace", path, &fresh})
}
