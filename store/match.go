package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/treadle-go/treadle/internal/leaves"
)

// compare builds a filter from a path and values. It keeps an error in the filter, for
// the search to return, so that filters can be written as expressions.
func compare(op Operator, path string, values ...any) Filter {
	f := Filter{Op: op}
	f.Path, f.err = splitPath(path)
	for _, v := range values {
		raw, err := marshal(v)
		if err != nil {
			f.err = errors.Join(f.err, fmt.Errorf("%s %s: %w", path, op, err))
			continue
		}
		f.Values = append(f.Values, raw)
	}
	return f
}

// splitPath splits a filter path at its dots.
func splitPath(path string) ([]string, error) {
	var parts []string
	var part strings.Builder
	for i := 0; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\' && i+1 < len(path) && (path[i+1] == '.' || path[i+1] == '\\'):
			i++
			part.WriteByte(path[i])
		case c == '.':
			parts = append(parts, part.String())
			part.Reset()
		default:
			part.WriteByte(c)
		}
	}
	if path == "" {
		return nil, errors.New("has an empty path")
	}
	return append(parts, part.String()), nil
}

// matcher is a validated filter. A nil matcher passes all items.
type matcher struct{ filter Filter }

func compile(f Filter) (*matcher, error) {
	if f.Op == "" && f.Path == nil && f.Values == nil && f.Of == nil && f.err == nil {
		return nil, nil
	}
	if err := f.check(); err != nil {
		return nil, &InvalidError{What: "filter", Reason: err.Error()}
	}
	return &matcher{f}, nil
}

// check returns an error if the filter is invalid. The fields are exported, so a filter
// need not come from a constructor.
func (f *Filter) check() error {
	if f.err != nil {
		return f.err
	}
	switch f.Op {
	case "":
		return nil
	case OpAnd, OpOr:
		return f.checkOf()
	case OpNot, OpMeta:
		if len(f.Of) != 1 {
			return fmt.Errorf("%s takes one filter, not %d", f.Op, len(f.Of))
		}
		return f.checkOf()
	case OpEq, OpNe, OpGt, OpGte, OpLt, OpLte, OpIn, OpExists:
		return f.checkComparison()
	}
	return fmt.Errorf("has an unknown operator %q", string(f.Op))
}

func (f *Filter) checkOf() error {
	f.Of = slices.Clone(f.Of)
	for i := range f.Of {
		if err := f.Of[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (f *Filter) checkComparison() error {
	at := strings.Join(f.Path, ".")
	want := 1
	switch f.Op {
	case OpExists:
		want = 0
	case OpIn:
		want = len(f.Values)
	}
	if len(f.Path) == 0 {
		return fmt.Errorf("%s has no path", f.Op)
	}
	if len(f.Values) != want {
		return fmt.Errorf("%s %s has %d values", at, f.Op, len(f.Values))
	}
	f.Values = slices.Clone(f.Values) // they belong to the caller
	for i, v := range f.Values {
		compact, err := marshal(v)
		if err != nil {
			return fmt.Errorf("%s %s: %w", at, f.Op, err)
		}
		f.Values[i] = compact
		if t := jsonType(compact); f.Op.orders() && t != '0' && t != '"' {
			return fmt.Errorf("%s %s compares with %s: only numbers and strings are ordered", at, f.Op, compact)
		}
	}
	return nil
}

func (o Operator) orders() bool { return o == OpGt || o == OpGte || o == OpLt || o == OpLte }

func (m *matcher) source() Filter {
	if m == nil {
		return Filter{}
	}
	return m.filter
}

func (m *matcher) match(value, meta json.RawMessage) bool {
	return m == nil || subject{meta}.passes(&m.filter, value)
}

// subject is the item that a filter is applied to.
type subject struct{ meta []byte }

// passes reports whether the item passes a filter. The filter's paths start at in,
// which is the value or the meta.
func (s subject) passes(f *Filter, in []byte) bool {
	switch f.Op {
	case "":
		return true
	case OpAnd:
		for i := range f.Of {
			if !s.passes(&f.Of[i], in) {
				return false
			}
		}
		return true
	case OpOr:
		for i := range f.Of {
			if s.passes(&f.Of[i], in) {
				return true
			}
		}
		return false
	case OpNot:
		return !s.passes(&f.Of[0], in)
	case OpMeta:
		return s.passes(&f.Of[0], s.meta)
	}
	return f.compares(leaves.Find(in, f.Path))
}

// compares reports whether v, the value at the filter's path, satisfies the comparison.
func (f *Filter) compares(v []byte) bool {
	switch {
	case f.Op == OpNe:
		return v == nil || !equalJSON(v, f.Values[0])
	case v == nil:
		return false
	case f.Op == OpExists:
		return true
	case f.Op == OpEq || f.Op == OpIn:
		for _, w := range f.Values {
			if equalJSON(v, w) {
				return true
			}
		}
		return false
	}
	order, ok := orderJSON(v, f.Values[0])
	switch f.Op {
	case OpGt:
		return ok && order > 0
	case OpGte:
		return ok && order >= 0
	case OpLt:
		return ok && order < 0
	}
	return ok && order <= 0
}
