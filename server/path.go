package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// extractRoots lists the thread fields that extract paths start with, as on LangGraph's
// servers.
var extractRoots = []string{"config", "interrupts", "metadata", "values"}

// parseExtract parses an extract path. It returns an error if the path does not start with one
// of extractRoots.
func parseExtract(path string) ([]any, error) {
	steps, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	if root, _ := steps[0].(string); !slices.Contains(extractRoots, root) {
		return nil, fmt.Errorf("path %q must start with one of %s", path, strings.Join(extractRoots, ", "))
	}
	return steps, nil
}

// parsePath parses a path such as "values.messages[-1].content": object keys and list indices.
// Negative indices count from the end.
func parsePath(path string) ([]any, error) {
	var steps []any
	for part := range strings.SplitSeq(path, ".") {
		name, rest, _ := strings.Cut(part, "[")
		if name == "" && len(steps) == 0 || name == "" && rest == "" {
			return nil, fmt.Errorf("path %q: empty name", path)
		}
		if name != "" {
			steps = append(steps, name)
		}
		for rest != "" {
			index, behind, closed := strings.Cut(rest, "]")
			n, err := strconv.Atoi(index)
			if err != nil || !closed || behind != "" && !strings.HasPrefix(behind, "[") {
				return nil, fmt.Errorf("path %q: want an index such as [0] or [-1]", path)
			}
			steps = append(steps, n)
			rest = strings.TrimPrefix(behind, "[")
		}
	}
	return steps, nil
}

// extract returns the parts of a thread at the given paths, null for missing parts.
func extract(t *threadJSON, paths map[string]string) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	whole, err := json.Marshal(t)
	for alias, path := range paths {
		steps, pathErr := parsePath(path)
		at := json.RawMessage(whole)
		if err != nil || pathErr != nil {
			at = nil
		}
		for _, step := range steps {
			at = child(at, step)
		}
		if at == nil {
			at = json.RawMessage("null")
		}
		out[alias] = at
	}
	return out
}

// child returns the value one step down, or nil if it does not exist.
func child(raw json.RawMessage, step any) json.RawMessage {
	switch step := step.(type) {
	case string:
		var object map[string]json.RawMessage
		if json.Unmarshal(raw, &object) == nil {
			return object[step]
		}
	case int:
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return nil
		}
		if step < 0 {
			step += len(list)
		}
		if step >= 0 && step < len(list) {
			return list[step]
		}
	}
	return nil
}
