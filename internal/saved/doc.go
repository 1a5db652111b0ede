// Package saved has the parts of the stored form of checkpoints that all databases of
// this module share.
//
// A checkpoint is a record: a [Header], and one [Slot] per channel. Small values
// are in their slots. Others are in chains of chunks ([Chunk]), which slots
// refer to: a large value is a chain of one chunk, a list is the beginnings of
// one chain or several ([Segment]). A chunk is only data: how many elements to drop, and
// which to append. So reading needs no reducer, and a changed reducer does not change
// the history. [Growth] makes the slots and chunks of a put from its parent's slots, and
// [Chains] makes values from slots.
//
// Parts in which databases differ are not here: how a record refers to unchanged slots
// of an earlier one (a row costs more in one database than in another), where control
// and metadata are, when chunks share a row, and all SQL.
//
// For stores this package has the numbers of the kinds of items, the bounds of the names
// under a namespace, and News, which wakes those who wait for a write.
//
// The stored form never changes, so that everything can be read for ever. The golden
// tests of the packages that use it check that.
package saved
