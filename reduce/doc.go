// Package reduce has the types of fields that accumulate, and what a type of
// your own needs to do the same.
//
// A field of a graph's state holds one value and a write replaces it, unless the
// field's type says how to merge. The types here do: [List] appends, [Set] and
// [Map] add, [Sum] adds up and [Max] keeps the greatest.
//
//	type state struct {
//		Log   reduce.List[string]
//		Total reduce.Sum[int]
//	}
//
// A type of your own accumulates if it has a method Reduce that merges an update
// into a value and returns the result without changing either:
//
//	type Votes map[string]int
//
//	func (v Votes) Reduce(u Votes) Votes { … }
//
// A slice type that only appends can also have a method Reducer that returns
// [Appending]: then an append does not copy the list, and a checkpoint stores only
// the new elements.
package reduce
