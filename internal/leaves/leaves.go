// Package leaves reads the leaves of JSON values. [Of] computes hashes, by which a store finds
// the items that pass a filter for equality. Values that a filter considers equal have the same
// hashes: numbers are compared by value, and strings regardless of their escapes. Different
// values may have the same hash, so the items found must be checked.
package leaves

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Of returns the hashes of the leaves of a value at a path, sorted and without duplicates. It
// considers at most the given number of leaves. The result is false if the value is invalid.
func Of(path []string, value []byte, most int) (hashes []uint64, ok bool) {
	l := walk{most: most}
	at := root
	for _, key := range path {
		at = at.with('.', key)
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return nil, false
	}
	l.add(at, v)
	slices.Sort(l.hashes)
	return slices.Compact(l.hashes), true
}

// walk collects the hashes of leaves.
type walk struct {
	hashes []uint64
	most   int
}

func (l *walk) add(path hash, v any) {
	if len(l.hashes) >= l.most {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			l.leaf(path, '{', "")
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			l.add(path.with('.', k), v[k])
		}
	case []any:
		if len(v) == 0 {
			l.leaf(path, '[', "")
		}
		for i, e := range v {
			l.add(path.with('.', strconv.Itoa(i)), e)
		}
	case json.Number:
		l.leaf(path, '0', number(string(v)))
	case string:
		l.leaf(path, '"', v)
	case bool:
		l.leaf(path, 'b', strconv.FormatBool(v))
	default:
		l.leaf(path, 'n', "")
	}
}

// number returns the same text for equal numbers. Nearly equal numbers may have the same
// text.
func number(text string) string {
	f, _ := strconv.ParseFloat(text, 64) // too large numbers become infinite
	if f == 0 {
		f = 0 // not -0
	}
	return strconv.FormatUint(math.Float64bits(f), 36)
}

func (l *walk) leaf(path hash, kind byte, text string) {
	l.hashes = append(l.hashes, uint64(path.with(kind, text)))
}

// A hash is an FNV-1a hash.
type hash uint64

const root hash = 14695981039346656037

func (h hash) with(kind byte, text string) hash {
	const prime = 1099511628211
	h = (h ^ hash(kind)) * prime
	for i := range len(text) {
		h = (h ^ hash(text[i])) * prime
	}
	return (h ^ 0xff) * prime // this byte occurs in no text
}
