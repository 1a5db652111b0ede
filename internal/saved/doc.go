// Package saved is the form in which databases save what they are given, as far
// as those of this module agree on it.
//
// A checkpoint is a record: a [Header], and one [Slot] per channel. Small values
// are in their slots. Others are in chains of chunks ([Chunk]), which slots
// refer to: a large value is a chain of one chunk, a list is the beginnings of
// one chain or several ([Segment]). A chunk is data and nothing else (drop so
// many elements, append these), so reading needs no reducer, and a reducer that
// changes leaves history alone. [Growth] makes the slots and chunks of a put out
// of its parent's slots, and [Chains] makes values out of slots again.
//
// What a package does in a way of its own is not here: how slots are told that
// did not change since an earlier record (each database has another price for a
// row), where control and metadata are, when chunks share a row, and all SQL.
//
// Of the items of a store this package has the numbers of their kinds and the
// bounds of the names under a namespace; and News, by which those who wait hear
// that something was written.
//
// Whatever is stored can be read for ever: what these functions write does not
// change. The golden tests of the packages that use them hold them to it.
package saved
