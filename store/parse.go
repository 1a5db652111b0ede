package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/leaves"
)

// ParseFilter parses a filter in LangGraph's JSON format: an object whose members must all
// hold. A member maps a key to the value that it must equal, or to an object of operators: $eq,
// $ne, $gt, $gte, $lt, $lte, $in (an array), $exists (true or false), and $not (an object of
// operators). An object without operators is compared member by member, so the item's value may
// have additional members. $and and $or take an array of filters, $not takes a filter, and $meta
// takes a filter for the item's Meta. ParseFilter returns an error for an unknown operator, and
// for a key with a dot, which may be meant as a path; a backslash before the dot makes it part of
// the key.
//
// A filter may come from a client or a model, so it is limited to 1 MiB of JSON, 64 levels of
// nested objects and arrays, and 1000 members and filters.
func ParseFilter(raw json.RawMessage) (Filter, error) {
	f, err := parseFilter(raw)
	if err != nil {
		return Filter{}, &InvalidError{What: "filter", Reason: err.Error()}
	}
	return f, nil
}

// The limits of ParseFilter. Each level of a filter is scanned once per enclosing
// level, so limiting the depth keeps the time linear in the size.
const (
	maxFilterSize  = 1 << 20
	maxFilterDepth = 64
	maxFilterTerms = 1000
)

func parseFilter(raw json.RawMessage) (Filter, error) {
	if len(raw) > maxFilterSize {
		return Filter{}, fmt.Errorf("has %d bytes: the limit is %d", len(raw), maxFilterSize)
	}
	var compact bytes.Buffer
	if trimmed := bytes.TrimSpace(raw); len(trimmed) > 0 && trimmed[0] == '{' {
		if err := json.Compact(&compact, raw); err != nil {
			return Filter{}, fmt.Errorf("is not a JSON object: %w", err)
		}
	}
	if depth := depthOf(compact.Bytes()); depth > maxFilterDepth {
		return Filter{}, fmt.Errorf("is nested %d levels deep: the limit is %d", depth, maxFilterDepth)
	}
	return (&filterParser{}).object(nil, compact.Bytes())
}

// depthOf returns the nesting depth of objects and arrays in a valid JSON value.
func depthOf(raw []byte) (deepest int) {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i += leaves.StringLen(raw[i:]) - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// filterParser parses a filter from valid, compact JSON.
type filterParser struct{ terms int }

// count returns an error if the filter has too many parts.
func (p *filterParser) count() error {
	p.terms++
	if p.terms > maxFilterTerms {
		return fmt.Errorf("has more than %d members and filters", maxFilterTerms)
	}
	return nil
}

// operators maps the JSON names of comparisons to operators.
var operators = map[string]Operator{
	"$eq": OpEq, "$ne": OpNe, "$gt": OpGt, "$gte": OpGte, "$lt": OpLt, "$lte": OpLte, "$in": OpIn, "$exists": OpExists,
}

// object parses the conditions on the value at a path.
func (p *filterParser) object(at []string, raw json.RawMessage) (Filter, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return Filter{}, fmt.Errorf("%sis not a JSON object: want {", where(at))
	}
	members := membersOf(raw)
	all := Filter{Op: OpAnd}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		f, err := p.member(at, key, members[key])
		if err != nil {
			return Filter{}, err
		}
		all.Of = append(all.Of, f)
	}
	if len(all.Of) == 1 {
		return all.Of[0], nil
	}
	return all, nil
}

func (p *filterParser) member(at []string, key string, raw json.RawMessage) (Filter, error) {
	if err := p.count(); err != nil {
		return Filter{}, err
	}
	if strings.HasPrefix(key, "$") {
		return p.operator(at, key, raw)
	}
	if strings.Contains(key, ".") {
		parts, err := splitPath(key)
		if err != nil || len(parts) > 1 {
			return Filter{}, fmt.Errorf("%shas a key %q with a dot: nest objects ({\"a\": {\"b\": …}}), or escape the dot with a backslash", where(at), key)
		}
		key = parts[0]
	}
	path := append(slices.Clone(at), key)
	if raw[0] == '{' && len(raw) > len("{}") {
		return p.object(path, raw)
	}
	return Filter{Op: OpEq, Path: path, Values: []json.RawMessage{raw}}, nil
}

func (p *filterParser) operator(at []string, key string, raw json.RawMessage) (Filter, error) {
	switch key {
	case "$and", "$or":
		var of []json.RawMessage
		if err := json.Unmarshal(raw, &of); err != nil {
			return Filter{}, fmt.Errorf("%s%s requires an array of filters: %w", where(at), key, err)
		}
		f := Filter{Op: Operator(key[1:])}
		for _, o := range of {
			if err := p.count(); err != nil {
				return Filter{}, err
			}
			inner, err := p.object(at, o)
			if err != nil {
				return Filter{}, err
			}
			f.Of = append(f.Of, inner)
		}
		return f, nil
	case "$not":
		inner, err := p.object(at, raw)
		return Not(inner), err
	case "$meta":
		if len(at) > 0 {
			return Filter{}, fmt.Errorf("%s$meta is allowed only at the top level", where(at))
		}
		inner, err := p.object(nil, raw)
		return Meta(inner), err
	}
	op, ok := operators[key]
	switch {
	case !ok:
		return Filter{}, fmt.Errorf("%shas an unknown operator %q", where(at), key)
	case len(at) == 0:
		return Filter{}, fmt.Errorf("has %s without a key to compare", key)
	}
	return parseComparison(Filter{Op: op, Path: at}, raw)
}

func parseComparison(f Filter, raw json.RawMessage) (Filter, error) {
	switch f.Op {
	case OpIn:
		if err := json.Unmarshal(raw, &f.Values); err != nil {
			return Filter{}, fmt.Errorf("%s$in requires an array: %w", where(f.Path), err)
		}
	case OpExists:
		var want bool
		if err := json.Unmarshal(raw, &want); err != nil {
			return Filter{}, fmt.Errorf("%s$exists requires true or false: %w", where(f.Path), err)
		}
		if !want {
			return Not(f), nil
		}
	default:
		f.Values = []json.RawMessage{raw}
	}
	return f, f.check()
}

func where(at []string) string {
	if len(at) == 0 {
		return ""
	}
	return "at " + strings.Join(at, ".") + ": "
}

// membersOf returns the members of a valid, compact JSON object. If a key occurs twice,
// the last value counts.
func membersOf(raw json.RawMessage) map[string]json.RawMessage {
	members := map[string]json.RawMessage{}
	for i := 1; raw[i] != '}'; {
		if raw[i] == ',' {
			i++
		}
		name := raw[i : i+leaves.ValueLen(raw[i:])]
		i += len(name) + 1 // the colon
		value := raw[i : i+leaves.ValueLen(raw[i:])]
		i += len(value)
		members[strings.ToValidUTF8(unquote(name), "\uFFFD")] = value
	}
	return members
}
