package store

import (
	"encoding/json"
)

// Filter selects the items that a search returns. The zero Filter selects all. Make
// filters with [Eq], [Gt], [And] and so on, or parse JSON with [ParseFilter]. An invalid
// filter is an error of the search.
//
// Paths are keys joined with dots, "address.city"; a backslash before a dot
// makes it part of a key. In an array a number is an index.
//
// Numbers are compared exactly, whatever their notation, and texts by their bytes.
// Values of different types are neither equal nor ordered, so a comparison with a value
// that is missing or of another type is false.
//
// The fields are for backends, which may use a filter, or a part of it, to skip items
// that cannot match. The items that they return must pass [Query.Match].
type Filter struct {
	Op     Operator
	Path   []string          // of Eq to Exists
	Values []json.RawMessage // one for a comparison, any number for In
	Of     []Filter          // of And, Or; exactly one of Not and Meta

	err error // why the filter is invalid
}

// Operator is the operator of a Filter.
type Operator string

// The operators of filters. The empty Operator is that of the zero Filter.
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
	OpMeta   Operator = "meta" // its paths are in the item's Meta
)

// Eq is true if the value at path equals v: the same number, the same text, or
// arrays and objects with equal contents. A nil v is JSON's null, which differs
// from a missing value.
func Eq(path string, v any) Filter { return compare(OpEq, path, v) }

// Ne is true if Eq is false, also if path is missing.
func Ne(path string, v any) Filter { return compare(OpNe, path, v) }

// Gt is true if the value at path is greater than v, a number or a text.
func Gt(path string, v any) Filter { return compare(OpGt, path, v) }

// Gte is true if the value at path is greater than v or equal to it.
func Gte(path string, v any) Filter { return compare(OpGte, path, v) }

// Lt is true if the value at path is less than v, a number or a text.
func Lt(path string, v any) Filter { return compare(OpLt, path, v) }

// Lte is true if the value at path is less than v or equal to it.
func Lte(path string, v any) Filter { return compare(OpLte, path, v) }

// In is true if the value at path equals one of vs; without vs it is false.
func In[T any](path string, vs ...T) Filter {
	values := make([]any, len(vs))
	for i, v := range vs {
		values[i] = v
	}
	return compare(OpIn, path, values...)
}

// Exists is true if there is a value at path, even null.
func Exists(path string) Filter { return compare(OpExists, path) }

// And is true if all of fs are; without fs it is true.
func And(fs ...Filter) Filter { return Filter{Op: OpAnd, Of: fs} }

// Or is true if one of fs is; without fs it is false.
func Or(fs ...Filter) Filter { return Filter{Op: OpOr, Of: fs} }

// Not is true if f is false.
func Not(f Filter) Filter { return Filter{Op: OpNot, Of: []Filter{f}} }

// Meta applies f to the item's Meta instead of its value.
func Meta(f Filter) Filter { return Filter{Op: OpMeta, Of: []Filter{f}} }
