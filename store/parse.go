package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ParseFilter reads a filter as LangGraph writes it: an object whose members must
// all hold. A member is a key with the value it must equal, or with an object
// of operators: $eq, $ne, $gt, $gte, $lt, $lte, $in (an array), $exists (true or
// false), $not (an object of operators). Within a value an object without
// operators is compared member by member, so that others may be there too. $and
// and $or take an array of filters, $not a filter, $meta one about the item's
// Meta. An operator that is none of these is an error.
func ParseFilter(raw json.RawMessage) (Filter, error) {
	f, err := parseObject(nil, raw)
	if err != nil {
		return Filter{}, &InvalidError{What: "filter", Reason: err.Error()}
	}
	return f, nil
}

// operators of a comparison, by their names in JSON.
var operators = map[string]Operator{
	"$eq": OpEq, "$ne": OpNe, "$gt": OpGt, "$gte": OpGte, "$lt": OpLt, "$lte": OpLte, "$in": OpIn, "$exists": OpExists,
}

// parseObject reads the conditions on what is at a path.
func parseObject(at []string, raw json.RawMessage) (Filter, error) {
	members, err := membersOf(raw)
	if err != nil {
		return Filter{}, fmt.Errorf("%sis not a JSON object: %w", where(at), err)
	}
	all := Filter{Op: OpAnd}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		f, err := parseMember(at, key, members[key])
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

func parseMember(at []string, key string, raw json.RawMessage) (Filter, error) {
	if strings.HasPrefix(key, "$") {
		return parseOperator(at, key, raw)
	}
	path := append(slices.Clone(at), key)
	if inner, err := membersOf(raw); err == nil && len(inner) > 0 {
		return parseObject(path, raw)
	}
	return Filter{Op: OpEq, Path: path, Values: []json.RawMessage{raw}}, nil
}

func parseOperator(at []string, key string, raw json.RawMessage) (Filter, error) {
	switch key {
	case "$and", "$or":
		var of []json.RawMessage
		if err := json.Unmarshal(raw, &of); err != nil {
			return Filter{}, fmt.Errorf("%s%s needs an array of filters: %w", where(at), key, err)
		}
		f := Filter{Op: Operator(key[1:])}
		for _, o := range of {
			inner, err := parseObject(at, o)
			if err != nil {
				return Filter{}, err
			}
			f.Of = append(f.Of, inner)
		}
		return f, nil
	case "$not":
		inner, err := parseObject(at, raw)
		return Not(inner), err
	case "$meta":
		if len(at) > 0 {
			return Filter{}, fmt.Errorf("%s$meta is for the item as a whole", where(at))
		}
		inner, err := parseObject(nil, raw)
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
			return Filter{}, fmt.Errorf("%s$in needs an array: %w", where(f.Path), err)
		}
	case OpExists:
		var want bool
		if err := json.Unmarshal(raw, &want); err != nil {
			return Filter{}, fmt.Errorf("%s$exists needs true or false: %w", where(f.Path), err)
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

// membersOf are the members of a JSON object, and an error for all else.
func membersOf(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, errors.New("it does not begin with {")
	}
	var members map[string]json.RawMessage
	err := json.Unmarshal(raw, &members)
	return members, err
}
