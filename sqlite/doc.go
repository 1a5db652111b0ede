// Package sqlite keeps checkpoints, a cache of results, and a store, in one
// SQLite file.
//
// [Open] gives a [DB], which is a [checkpoint.Saver] with every ability that
// package checkpoint names, and has a [checkpoint.Cache] and a [store.Store]
// beside it. The driver is pure Go. Several processes may have the same file
// open; two writers that meet on one thread are told apart by the
// compare-and-set of its head.
//
// # What a commit survives
//
// A put returns when its transaction is committed. By default the file is
// written in WAL mode with synchronous=NORMAL: what was committed survives the
// end of the process, kill -9 included, but a power cut may take the last
// commits with it (never half of one). [Options].PowerSafe waits for the disk
// at every commit.
//
// # What is in the file
//
//	thread ──< line ──< checkpoint ──< pending
//	             ├────< chunk
//	             └────< run                      shape   cache
//
// A line is a namespace of a thread. The record of a checkpoint (manifest.go)
// holds what is small and refers to chunks for the rest, so that a step costs
// what it changes:
//
//   - A list is a chain of chunks (chunk.go), each of which drops elements from
//     the end and appends others. Every 32 of them become one row.
//   - A large value is written when it changes.
//   - Small values that have not changed for a while are in a base that many
//     records share.
//   - What a step appends and the control before it already says, which is what
//     an input does, is there once (echo.go).
//
// A fork shares all of that with the branch that it leaves. Rows may be packed
// or shortened later, but what a checkpoint means never changes. References are
// relative to the line, so a copy of a thread is a copy of rows. Only shapes,
// the lists of channel names, are common to all lines; they are never removed.
//
// The store has tables of its own:
//
//	space ──< record ─── life, vector      under   words   stamp   state
//	 (namespaces)  (versions)
//
// A record is a version of an item and never changes; what does is in its life.
// The records of items, not of their past, are listed under their namespace and
// each one above it (under), their words are in an index of FTS5 (words), and
// their vectors have positive ids (vector). How a search by meaning gets by with
// signatures of vectors in memory is told in store_near.go, and what searches by
// words remember in store_lists.go and store_terms.go.
//
// One put is one transaction, and puts of many threads that wait for each other
// share one (commit.go). The file's user_version counts migrations (migrate.go).
package sqlite
