package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// text is an indexed text of an item.
type text struct {
	field string
	text  string
}

// textsOf returns the texts of a value at the given paths. A text that several paths
// lead to occurs once for each; blank texts are omitted.
func textsOf(value json.RawMessage, paths []path) ([]text, error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	var texts []text
	for _, p := range paths {
		var found []string
		w := walker{left: maxSteps, visit: func(v any) error {
			t, err := leafText(v)
			if strings.TrimSpace(t) != "" {
				found = append(found, t)
			}
			if len(texts)+len(found) > maxTexts {
				return errTooMany
			}
			return err
		}}
		if err := w.walk(v, p.steps); err != nil {
			return nil, fmt.Errorf("path %q %w", p.text, err)
		}
		for i, t := range found {
			field := p.text
			if len(found) > 1 {
				field += "." + strconv.Itoa(i)
			}
			texts = append(texts, text{field, t})
		}
	}
	return texts, nil
}

// leafText converts a value to text: "" for null, the text of a wrapped text, and JSON with
// sorted keys for other objects and arrays.
func leafText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	if object, ok := v.(map[string]any); ok {
		if len(object) == 0 {
			return "", nil
		}
		if text, ok := wrapped(object); ok {
			return text, nil
		}
	}
	raw, err := marshal(v)
	return string(raw), err
}

// wrapped returns the text of an object that consists of a text and its kind, such as
// {"kind": "Memory", "content": {"content": "Ann likes tea"}}. The words of the wrapping
// are the same in all such items: they say nothing about one, and an embedder finds all of
// them similar because of it.
func wrapped(object map[string]any) (string, bool) {
	content, ok := object["content"]
	if _, kind := object["kind"].(string); !ok || len(object) != 1 && (len(object) != 2 || !kind) {
		return "", false
	}
	if inner, ok := content.(map[string]any); ok && len(inner) == 1 {
		content = inner["content"]
	}
	text, ok := content.(string)
	return text, ok
}

// marshal is like json.Marshal, but without HTML escapes, which would become words in
// the index.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.Clone(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

func sortedKeys(object map[string]any) []string { return slices.Sorted(maps.Keys(object)) }
