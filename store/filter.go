package store

import (
	"encoding/json"
)

// A Filter says which items a search returns. The zero Filter lets all through.
// Filters are made with [Eq], [Gt], [And] and so on, or read from JSON with
// [ParseFilter]; one that makes no sense is an error of the search.
//
// Paths are keys joined with dots, "address.city"; a backslash before a dot
// makes it part of a key. In an array a number is an index.
//
// Numbers compare as numbers, exactly, whatever their notation; texts by their
// bytes. Values of different types are neither equal nor in any order, so a
// comparison with a value that is missing or of another type does not hold.
//
// The fields are for backends that want to narrow a search down. A backend may
// use as much of a filter as it likes to leave items out that cannot match, but
// what it returns must have passed [Query.Match].
type Filter struct {
	Op     Operator
	Path   []string          // of Eq to Exists
	Values []json.RawMessage // one for a comparison, any number for In
	Of     []Filter          // of And, Or; exactly one of Not and Meta

	err error // why the filter cannot be used
}

// An Operator is what a Filter does.
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
	OpMeta   Operator = "meta" // paths in it are of the item's Meta
)

// Eq holds where the value at path equals v: the same number, the same text,
// arrays and objects with equal contents. A nil v is JSON's null, which is not
// the same as missing.
func Eq(path string, v any) Filter { return compare(OpEq, path, v) }

// Ne holds wherever Eq does not, also where path is missing.
func Ne(path string, v any) Filter { return compare(OpNe, path, v) }

// Gt holds where the value at path is greater than v, a number or a text.
func Gt(path string, v any) Filter { return compare(OpGt, path, v) }

// Gte is Gt or equal.
func Gte(path string, v any) Filter { return compare(OpGte, path, v) }

// Lt holds where the value at path is less than v, a number or a text.
func Lt(path string, v any) Filter { return compare(OpLt, path, v) }

// Lte is Lt or equal.
func Lte(path string, v any) Filter { return compare(OpLte, path, v) }

// In holds where the value at path equals one of vs; for none it never holds.
func In[T any](path string, vs ...T) Filter {
	values := make([]any, len(vs))
	for i, v := range vs {
		values[i] = v
	}
	return compare(OpIn, path, values...)
}

// Exists holds where there is a value at path, be it null.
func Exists(path string) Filter { return compare(OpExists, path) }

// And holds where all of fs do; for none it always holds.
func And(fs ...Filter) Filter { return Filter{Op: OpAnd, Of: fs} }

// Or holds where one of fs does; for none it never holds.
func Or(fs ...Filter) Filter { return Filter{Op: OpOr, Of: fs} }

// Not holds where f does not.
func Not(f Filter) Filter { return Filter{Op: OpNot, Of: []Filter{f}} }

// Meta applies f to the item's Meta instead of its value.
func Meta(f Filter) Filter { return Filter{Op: OpMeta, Of: []Filter{f}} }
