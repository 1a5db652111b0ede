// Package reduce provides types for fields that accumulate updates, and interfaces for
// implementing your own.
//
// A write to a field of a graph's state replaces its value, unless the field's type has a
// reducer. The types in this package have one: [List] appends, [Set] and [Map] add elements, [Sum]
// adds numbers, and [Max] keeps the greatest value.
//
//	type state struct {
//		Log   reduce.List[string]
//		Total reduce.Sum[int]
//	}
//
// A node writes reduce.SumOf(1) to Total, and reads the sum as s.Total.N.
//
// Your own type accumulates updates if it has a method Reduce, which merges an update
// into the value and returns the result. Reduce must modify neither of them:
//
//	type Votes map[string]int
//
//	func (v Votes) Reduce(u Votes) Votes { … }
//
// A slice type that only appends should also have a method Reducer that returns
// [Appending]. An append then does not copy the list, and a checkpoint stores only the
// new elements.
package reduce
