// Package sqlite keeps checkpoints, a cache of results, a store, and the ledger of
// a server, in one SQLite file.
//
// [Open] gives a [DB], which is a [checkpoint.Saver] with every ability that
// package checkpoint names, and has a [checkpoint.Cache], a [store.Store] and a
// [ledger.Backend] beside it. The driver is pure Go. Several processes may have the same file
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
// # Damage
//
// What is read is checked: each row has a checksum of what it says and where it
// belongs. A byte that changed, rows that changed places and rows that are missing
// are an [ErrDamaged] that names the thread or the key, never a panic, and never an
// empty thread or a shorter history. Such a thread can still be deleted, and such
// an item forgotten.
//
// A reader cannot notice everything, because some of it is never read:
//
//   - A pending write that is missing is as if the process had ended before it was
//     stored: its task runs again, its question is asked again.
//   - A version of an item's past that is missing may have been dropped.
//   - An item may be missing from what helps to find it, the lists of a namespace,
//     words and vectors. It is found by its key.
//   - A nested line that is missing is noticed by who reads it, not by a copy of
//     its thread.
//   - A cached result that is damaged is not used and made anew.
//   - A row of the ledger that is missing may have been deleted, and one that is not
//     found by a search is found by its id.
//
// [Options].Check reads the whole file, indexes included, and finds the second and
// most of the third. Rows that versions before 3 have written have no checksum; of
// those what is missing or unreadable is noticed. A checksum is against accidents:
// who can write the file can make it.
//
// # What was deleted
//
// When [DB.DeleteThread], [DB.DeleteRuns], [DB.Prune], the Forget and ForgetAll
// of a store, or the calls that delete an assistant, a thread or a cron of the ledger
// have returned, what they removed is in none of the database's files, also not in
// what is free of them: it was overwritten, and the log was cut off. A
// transaction that reads an older state, in this process or another, keeps the log
// until it ends; it is then cut off by the next write or by Close. File systems and
// disks that keep old blocks, and backups, are out of reach.
//
// # What is in the file
//
//	thread ──< line ──< checkpoint ──< pending
//	             ├────< chunk
//	             └────< run                      shape   cache   witness   meta
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
// each one above it (under) and by their keys (key), their words are in an index of FTS5 (words), and
// their vectors have positive ids (vector). How a search by meaning gets by with
// signatures of vectors in memory is told in store_near.go, and what searches by
// words remember in store_lists.go and store_terms.go.
//
// The ledger has four:
//
//	server_row ─── server_body      server_term   server_event
//
// A row is what package ledger makes it, and its body is apart, because rows are
// written more often than bodies. Terms are what searches find rows by.
//
// One put is one transaction, and puts of many threads that wait for each other
// share one (commit.go). The file's user_version counts migrations (migrate.go).
package sqlite
