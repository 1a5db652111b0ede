// Package reduce has types for fields that accumulate, and interfaces for types of
// your own that do.
//
// A write to a field of a graph's state replaces its value, unless the field's type
// has a reducer. The types of this package have one: [List] appends, [Set] and [Map]
// add elements, [Sum] adds numbers and [Max] keeps the greatest.
//
//	type state struct {
//		Log   reduce.List[string]
//		Total reduce.Sum[int]
//	}
//
// Your own type accumulates if it has a method Reduce, which merges an update into
// the value and returns the result. It must change neither of them:
//
//	type Votes map[string]int
//
//	func (v Votes) Reduce(u Votes) Votes { … }
//
// A slice type that only appends should also have a method Reducer that returns
// [Appending]. Then an append does not copy the list, and a checkpoint stores only
// the new elements.
package reduce
