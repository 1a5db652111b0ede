package ledger

import (
	"encoding/json"
	"slices"
	"strings"
)

// Each scalar in a row's metadata adds a term to the row: a hash of its path and value. A query
// for metadata uses the terms to read only rows that can match; Filter.Match then decides. The
// hashes are stored, so they must never change.
//
// A row with more than maxTerms scalars has the term moreTerm instead, and a query also reads
// all such rows.

const maxTerms = 64

// moreTerm is the term of rows with too much metadata for individual terms.
var moreTerm = term("more", "")

// term returns the 64-bit FNV-1a hash of a value in a namespace.
func term(space string, parts ...string) uint64 {
	h := fnvText(fnvOffset, space)
	for _, p := range parts {
		h = fnvText(fnvByte(h, 0xff), p) // never occurs in UTF-8
	}
	return h
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func fnvByte(h uint64, b byte) uint64 { return (h ^ uint64(b)) * fnvPrime }

func fnvText(h uint64, s string) uint64 {
	for i := range len(s) {
		h = fnvByte(h, s[i])
	}
	return h
}

// leaves appends the terms of the scalars in v.
func leaves(terms []uint64, h uint64, v any) []uint64 {
	switch v := plain(v).(type) {
	case map[string]any:
		for k, e := range v {
			terms = leaves(terms, fnvText(fnvByte(h, 0xfe), k), e)
		}
		return terms
	case []any:
		for _, e := range v {
			terms = leaves(terms, fnvByte(h, 0xfd), e)
		}
		return terms
	case string:
		return append(terms, fnvText(fnvByte(h, 0xf8), v))
	case json.Number:
		return append(terms, fnvText(fnvByte(h, 0xf9), canonical(string(v))))
	case bool:
		if v {
			return append(terms, fnvByte(h, 0xfa))
		}
		return append(terms, fnvByte(h, 0xfb))
	}
	return append(terms, fnvByte(h, 0xfc)) // null
}

// metadataTerms appends the terms of a row's metadata.
func metadataTerms(terms []uint64, metadata Object) []uint64 {
	n := len(terms)
	terms = leaves(terms, fnvOffset, map[string]any(metadata))
	slices.Sort(terms[n:])
	terms = terms[:n+len(slices.Compact(terms[n:]))]
	if len(terms)-n > maxTerms {
		terms = append(terms[:n], moreTerm)
	}
	return terms
}

// filterTerms returns the terms of every row that matches the filter, except rows with
// moreTerm.
func filterTerms(f *Filter) []uint64 {
	if f.empty() {
		return nil
	}
	terms := leaves(nil, fnvOffset, map[string]any(f.Contains))
	for _, c := range f.Auth {
		if c.Optional {
			continue // rows without the key have no term for it
		}
		key := fnvText(fnvByte(fnvOffset, 0xfe), c.Key)
		if c.Contains {
			key = fnvByte(key, 0xfd)
			for _, v := range c.Values {
				terms = leaves(terms, key, v)
			}
		} else if len(c.Values) > 0 {
			terms = leaves(terms, key, c.Values[0])
		}
	}
	slices.Sort(terms)
	return slices.Compact(terms)
}

// has reports whether text contains part, ignoring case.
func has(text, part string) bool {
	return part == "" || strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
