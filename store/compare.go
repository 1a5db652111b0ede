package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
)

// This file compares encoded JSON values, so that numbers stay exact and little is
// decoded. Values are valid and compact, because Put checks them.

// jsonType returns the first byte of a value, one of { [ " t f n, or '0' for a number.
func jsonType(raw []byte) byte {
	switch c := raw[0]; c {
	case '{', '[', '"', 't', 'f', 'n':
		return c
	}
	return '0'
}

// equalJSON reports whether two values are equal.
func equalJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if jsonType(a) != jsonType(b) {
		return false
	}
	switch jsonType(a) {
	case '"':
		return unquote(a) == unquote(b)
	case '0':
		return parseDecimal(a).compare(parseDecimal(b)) == 0
	case '{', '[':
		return equalTrees(decodeTree(a), decodeTree(b))
	}
	return true // both true, both false, both null
}

// orderJSON compares two numbers or two strings; ok is false for other types.
func orderJSON(a, b []byte) (order int, ok bool) {
	if jsonType(a) != jsonType(b) {
		return 0, false
	}
	switch jsonType(a) {
	case '"':
		return strings.Compare(unquote(a), unquote(b)), true
	case '0':
		return parseDecimal(a).compare(parseDecimal(b)), true
	}
	return 0, false
}

// unquote decodes a JSON string.
func unquote(raw []byte) string {
	inside := raw[1 : len(raw)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return string(inside)
	}
	var s string
	_ = json.Unmarshal(raw, &s) // raw is valid
	return s
}

func decodeTree(raw []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var v any
	_ = decoder.Decode(&v) // raw is valid
	return v
}

func equalTrees(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if w, ok := b[k]; !ok || !equalTrees(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i, v := range a {
			if !equalTrees(v, b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && parseDecimal([]byte(a)).compare(parseDecimal([]byte(b))) == 0
	}
	return a == b
}

// decimal is a number in the form 0.digits × 10^exp, where digits has no leading or
// trailing zeros. The cost of a comparison depends only on the number of digits, not on
// the exponent.
type decimal struct {
	negative bool
	digits   string // empty for zero
	exp      int64
}

func parseDecimal(raw []byte) decimal {
	text := string(raw)
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		d.exp = parseExponent(text[i+1:])
		text = text[:i]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	d.exp += int64(len(whole))
	digits := whole + fraction
	trimmed := strings.TrimLeft(digits, "0")
	d.exp -= int64(len(digits) - len(trimmed))
	d.digits = strings.TrimRight(trimmed, "0")
	if d.digits == "" {
		return decimal{}
	}
	return d
}

// parseExponent parses an exponent and clamps it to a range beyond any real number.
func parseExponent(text string) int64 {
	const most = 1 << 60
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil && strings.HasPrefix(text, "-"):
		return -most
	case err != nil:
		return most
	}
	return max(-most, min(most, n))
}

func (d decimal) compare(o decimal) int {
	switch {
	case d.sign() != o.sign():
		return cmp.Compare(d.sign(), o.sign())
	case d.digits == "":
		return 0
	}
	// With equal exponents, digits sort as text: 0.12 is less than 0.121.
	return d.sign() * cmp.Or(cmp.Compare(d.exp, o.exp), strings.Compare(d.digits, o.digits))
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}
