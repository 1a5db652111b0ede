// Package saved implements the parts of the stored checkpoint format that all of this
// module's databases share.
//
// A checkpoint is a record: a [Header] and one [Slot] per channel. Small values are
// stored in their slots. Other values are stored in chains of chunks ([Chunk]) that slots
// refer to: a large value is a chain with one chunk, and a list consists of prefixes of
// one or more chains ([Segment]). A chunk is only data: the number of elements to drop
// and the elements to append. Reading therefore needs no reducer, and changing a reducer
// does not change the history. [Growth] derives the slots and chunks of a put from its
// parent's slots, and [Chains] reconstructs values from slots.
//
// This package excludes everything that differs between databases: how a record refers to
// unchanged slots of an earlier record (the cost of a row differs), where control and
// metadata are stored, when chunks share a row, and all SQL.
//
// For stores, this package provides the numbers of the item kinds, the bounds of the
// names under a namespace, and News, which wakes goroutines that wait for a write.
//
// The stored format never changes, so all data stays readable forever. The golden tests
// of the packages that use it check that.
package saved
