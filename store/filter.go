package store

import (
	"encoding/json"
)

// A Filter selects the items that a search returns. The zero Filter selects all items. Build
// filters with [Eq], [Gt], [And], and so on, or parse JSON with [ParseFilter]. A search with
// an invalid filter returns an error.
//
// A path consists of keys joined with dots, such as "address.city"; a backslash before a dot
// makes the dot part of a key. In an array, a number is an index.
//
// Numbers are compared exactly, regardless of their notation, and strings by their bytes.
// Values of different types are neither equal nor ordered, so a comparison with a missing
// value, or with a value of another type, is false.
//
// The fields are for backends, which may use all or part of a filter to skip items that
// cannot match. The items that they return must pass [Query.Match].
type Filter struct {
	Op     Operator
	Path   []string          // for Eq to Exists
	Values []json.RawMessage // one for a comparison, any number for In
	Of     []Filter          // for And and Or; exactly one for Not and Meta

	err error // why the filter is invalid
}

// Operator is the operator of a Filter.
type Operator string

// The operators of filters. The zero Filter has an empty Operator.
const (
	OpEq     Operator = "eq"
	OpNe     Operator = "ne"
	OpGt     Operator = "gt"
	OpGte    Operator = "gte"
	OpLt     Operator = "lt"
	OpLte    Operator = "lte"
	OpIn     Operator = "in"
	OpExists Operator = "exists"
	OpAnd    Operator = "and"
	OpOr     Operator = "or"
	OpNot    Operator = "not"
	OpMeta   Operator = "meta" // its paths refer to the item's Meta
)

// Eq returns a filter that matches if the value at path equals v: the same number, the
// same string, or arrays and objects with equal contents. A nil v is JSON null, which
// differs from a missing value.
func Eq(path string, v any) Filter { return compare(OpEq, path, v) }

// Ne returns a filter that matches if Eq does not, including if path is missing.
func Ne(path string, v any) Filter { return compare(OpNe, path, v) }

// Gt returns a filter that matches if the value at path is greater than v, a number or
// a string.
func Gt(path string, v any) Filter { return compare(OpGt, path, v) }

// Gte returns a filter that matches if the value at path is greater than or equal to v.
func Gte(path string, v any) Filter { return compare(OpGte, path, v) }

// Lt returns a filter that matches if the value at path is less than v, a number or a
// string.
func Lt(path string, v any) Filter { return compare(OpLt, path, v) }

// Lte returns a filter that matches if the value at path is less than or equal to v.
func Lte(path string, v any) Filter { return compare(OpLte, path, v) }

// In returns a filter that matches if the value at path equals one of vs. Without vs,
// it never matches.
func In[T any](path string, vs ...T) Filter {
	values := make([]any, len(vs))
	for i, v := range vs {
		values[i] = v
	}
	return compare(OpIn, path, values...)
}

// Exists returns a filter that matches if path has a value, even null.
func Exists(path string) Filter { return compare(OpExists, path) }

// And returns a filter that matches if all of fs match. Without fs, it always matches.
func And(fs ...Filter) Filter { return Filter{Op: OpAnd, Of: fs} }

// Or returns a filter that matches if any of fs matches. Without fs, it never matches.
func Or(fs ...Filter) Filter { return Filter{Op: OpOr, Of: fs} }

// Not returns a filter that matches if f does not.
func Not(f Filter) Filter { return Filter{Op: OpNot, Of: []Filter{f}} }

// Meta returns a filter that applies f to the item's Meta instead of its value.
func Meta(f Filter) Filter { return Filter{Op: OpMeta, Of: []Filter{f}} }
