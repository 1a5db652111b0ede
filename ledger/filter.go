package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Filter is a condition on the metadata of an object. A nil Filter accepts everything.
type Filter struct {
	// Contains must be contained in the metadata: objects by key, recursively, lists as sets,
	// scalars by equality, and numbers by value.
	Contains Object
	// Auth lists conditions that must all hold.
	Auth []Condition
}

// Condition is a condition on one key of the metadata.
type Condition struct {
	Key      string
	Contains bool // the value at Key is a list that contains all of Values; otherwise, it equals Values[0]
	Values   []any
	Optional bool // metadata without Key also satisfies the condition
}

// Match reports whether metadata satisfies the filter.
func (f *Filter) Match(metadata Object) bool {
	if f == nil {
		return true
	}
	if len(f.Contains) > 0 && !contains(map[string]any(metadata), map[string]any(f.Contains)) {
		return false
	}
	for i := range f.Auth {
		if !f.Auth[i].match(metadata) {
			return false
		}
	}
	return true
}

func (f *Filter) empty() bool { return f == nil || len(f.Contains) == 0 && len(f.Auth) == 0 }

func (c *Condition) match(metadata Object) bool {
	have, ok := metadata[c.Key]
	if !ok {
		return c.Optional
	}
	if len(c.Values) == 0 {
		return false
	}
	if !c.Contains {
		return equal(plain(have), plain(c.Values[0]))
	}
	list, ok := plain(have).([]any)
	if !ok {
		return false
	}
	for _, want := range c.Values {
		want = plain(want)
		if !slices.ContainsFunc(list, func(v any) bool { return equal(plain(v), want) }) {
			return false
		}
	}
	return true
}

// contains reports whether have contains want, like Postgres's @> operator: it compares objects
// by key, lists as sets, and anything else by equality.
func contains(have, want any) bool {
	have, want = plain(have), plain(want)
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		if !ok {
			return false
		}
		for k, w := range want {
			if h, ok := have[k]; !ok || !contains(h, w) {
				return false
			}
		}
		return true
	case []any:
		have, ok := have.([]any)
		if !ok {
			return false
		}
		for _, w := range want {
			if !slices.ContainsFunc(have, func(h any) bool { return contains(h, w) }) {
				return false
			}
		}
		return true
	}
	return equal(have, want)
}

// equal compares plain values.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !equal(plain(v), plain(w)) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(v, w any) bool { return equal(plain(v), plain(w)) })
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || canonical(string(a)) == canonical(string(b)))
	case string, bool, nil:
		switch b.(type) {
		case string, bool, nil:
			return a == b
		}
	}
	return false
}

// plain converts a value to one of the types of decoded JSON: map[string]any, []any, string,
// bool, json.Number, or nil. It does not convert nested values.
func plain(v any) any {
	switch v := v.(type) {
	case nil, map[string]any, []any, string, bool, json.Number:
		return v
	case Object:
		return map[string]any(v)
	case []string:
		list := make([]any, len(v))
		for i, s := range v {
			list[i] = s
		}
		return list
	case int:
		return json.Number(strconv.Itoa(v))
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%v", v)
	}
	var o Object
	if err := json.Unmarshal([]byte(`{"":`+string(raw)+`}`), &o); err != nil {
		return string(raw)
	}
	return o[""]
}

// canonical returns the same string for all JSON numbers of equal value: the digits without
// leading and trailing zeros, and the exponent of the first digit.
func canonical(n string) string {
	mantissa, sign := n, ""
	if strings.HasPrefix(mantissa, "-") {
		mantissa, sign = mantissa[1:], "-"
	}
	exp := int64(0)
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		e, err := strconv.ParseInt(mantissa[i+1:], 10, 62)
		if err != nil {
			return n // exponent out of range; equal only to itself
		}
		mantissa, exp = mantissa[:i], e
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	exp += int64(len(whole))
	trimmed := strings.TrimLeft(digits, "0")
	exp -= int64(len(digits) - len(trimmed))
	trimmed = strings.TrimRight(trimmed, "0")
	if trimmed == "" {
		return "0"
	}
	return sign + trimmed + "e" + strconv.FormatInt(exp, 10)
}
