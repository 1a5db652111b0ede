package memtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/memory"
	"github.com/treadle-go/treadle/store"
)

// wanted is a parsed pattern.
type wanted struct {
	Pattern
	content, value, meta any
}

func ready(p Pattern) (wanted, error) {
	w := wanted{Pattern: p}
	if p.Key == "" && p.Kind == "" && p.Content == nil && p.Text == "" && p.Value == nil && p.Meta == nil {
		return w, errors.New("empty pattern: describe the memory")
	}
	var err error
	if w.content, err = decode(p.Content); err != nil {
		return w, fmt.Errorf("content of %s: %w", p, err)
	}
	if w.value, err = decode(p.Value); err != nil {
		return w, fmt.Errorf("value of %s: %w", p, err)
	}
	if w.meta, err = decode(p.Meta); err != nil {
		return w, fmt.Errorf("meta of %s: %w", p, err)
	}
	return w, nil
}

// String returns the pattern as text for error messages.
func (p Pattern) String() string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	add("key", p.Key)
	add("kind", p.Kind)
	add("content", string(compact(p.Content)))
	if p.Text != "" {
		add("text", fmt.Sprintf("%q", p.Text))
	}
	add("value", string(compact(p.Value)))
	add("meta", string(compact(p.Meta)))
	return "{" + strings.Join(parts, ", ") + "}"
}

// fits reports whether an item matches the pattern.
func (w wanted) fits(item *store.Item) bool {
	d := memory.DocumentOf(item)
	switch {
	case w.Key != "" && w.Key != item.Key, w.Kind != "" && w.Kind != d.Kind:
		return false
	case w.Text != "" && !strings.Contains(plain(d.Content), w.Text):
		return false
	}
	return covers(w.Content, w.content, d.Content) && covers(w.Value, w.value, item.Value) && covers(w.Meta, w.meta, item.Meta)
}

// covers reports whether raw contains part. It returns true if asked is nil.
func covers(asked json.RawMessage, part any, raw json.RawMessage) bool {
	if asked == nil {
		return true
	}
	whole, err := decode(raw)
	return err == nil && subset(part, whole)
}

// subset reports whether whole contains all of part.
func subset(part, whole any) bool {
	switch part := part.(type) {
	case map[string]any:
		whole, ok := whole.(map[string]any)
		if !ok {
			return false
		}
		for name, v := range part {
			if !subset(v, whole[name]) {
				return false
			}
		}
		return true
	case []any:
		whole, ok := whole.([]any)
		return ok && slices.EqualFunc(part, whole, subset)
	case json.Number:
		whole, ok := whole.(json.Number)
		return ok && sameNumber(part, whole)
	}
	return part == whole // strings, booleans, and null are comparable
}

// sameNumber compares numbers by value, so 1 equals 1.0, unless both are plain integers.
func sameNumber(a, b json.Number) bool {
	if a == b || !strings.ContainsAny(string(a+b), ".eE") {
		return a == b
	}
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y
}

// decode decodes JSON. It returns nil for empty input.
func decode(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// plain returns the values in the JSON as text, one per line, without names, quotes, or
// escapes.
func plain(raw json.RawMessage) string {
	v, err := decode(raw)
	if err != nil {
		return string(raw)
	}
	return strings.Join(values(v, nil), "\n")
}

func values(v any, out []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = values(v[name], out)
		}
	case []any:
		for _, v := range v {
			out = values(v, out)
		}
	case nil:
	default:
		out = append(out, fmt.Sprint(v))
	}
	return out
}

func compact(raw json.RawMessage) []byte {
	var b bytes.Buffer
	if len(raw) == 0 || json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}
