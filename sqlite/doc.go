// Package sqlite stores checkpoints, a cache of results, a store of items and the
// ledger of a server in one SQLite file.
//
// [Open] returns a [DB]. It is a [checkpoint.Saver] with all optional interfaces of
// package checkpoint, and has a [checkpoint.Cache], a [store.Store] and a
// [ledger.Backend]. The driver is pure Go. Several processes may open the same file: if
// two write to one thread, the compare-and-set of its head lets only one succeed.
//
// # Durability
//
// A put returns when its transaction is committed. By default the file is written in
// WAL mode with synchronous=NORMAL. Committed data survives the end of the process,
// kill -9 included. A power failure may lose the last commits, but never a part of
// one. With [Options].PowerSafe each commit waits for the disk.
//
// # Damage
//
// Each row has a checksum of its content and its place, which is checked when the row
// is read. Changed bytes, moved rows and missing rows are an [ErrDamaged] that names
// the thread or the key. They never lead to a panic, an empty thread or a shorter
// history. A damaged thread can still be deleted, and a damaged item forgotten.
//
// Reading cannot find all damage:
//
//   - If a pending write is missing, its task runs again, or its question is asked
//     again, as if the process had ended before it was stored.
//   - If an old version of an item is missing, it may have been dropped on purpose.
//   - An item may be missing from the lists of its namespace, words and vectors, so
//     that a search does not find it. Get finds it by its key.
//   - If a nested graph's part of a thread is missing, reading it fails, but copying
//     the thread does not.
//   - A damaged cached result is not used; the node runs instead.
//   - If a row of the ledger is missing, it may have been deleted on purpose. A row
//     that a search does not find is found by its id.
//
// [Options].Check reads the whole file, indexes included, and finds the second and
// most of the third kind. Rows that were written before file version 3 have no
// checksum; for these only missing and unreadable rows are found. Checksums protect
// against accidents, not against somebody who can write to the file.
//
// # Deleted data
//
// When [DB.DeleteThread], [DB.DeleteRuns], [DB.Prune], Forget or ForgetAll of a store,
// or the deletion of an assistant, a thread or a cron of the ledger returns, the
// removed data was overwritten in the file, and the write-ahead log was truncated. If a
// transaction still reads an older state, in this process or another, the log is
// truncated after it ends, by the next write or by Close. There is one exception: when
// SQLite moves rows to other pages, it leaves copies in unused parts of the old ones.
// [DB.Scrub] overwrites these. After it, what was removed is in none of the database's
// files. Old blocks that a file system or a disk keeps, and backups, still have the
// data.
//
// # The file
//
//	thread ──< line ──< checkpoint ──< pending
//	             ├────< chunk
//	             └────< run                      shape   cache   witness   meta
//
// This part is for those who change the package. A line is a namespace of a thread.
// The record of a checkpoint (manifest.go) has the small values and refers to chunks
// for the others, so that the cost of a step depends on what it changes:
//
//   - A list is a chain of chunks (chunk.go), each of which drops elements from
//     the end and appends others. Every 32 of them become one row. A list of a few
//     bytes is a small value.
//   - A large value is written when it changes.
//   - Small values that have not changed for a while are in a base that many
//     records share.
//   - Elements that a step appends and that the control data before it already has, as
//     for an input, are stored once (echo.go).
//
// A fork shares all of this with its original branch. Rows may be packed or shortened
// later, but the checkpoints stay the same. References are relative to the line, so a
// copy of a thread is a copy of rows. Only shapes, the lists of channel names, are
// shared by all lines; they are never removed.
//
// The store has tables of its own:
//
//	space ──< record ─── life, vector      under   words   stamp   state   part
//	 (namespaces)  (versions)
//
// A record is a version of an item and never changes; data that changes is in its
// life. The current records are listed under their namespace and each one above it
// (under) and by their keys (key), their words and hashes of their values are in an FTS5
// index (words), and their vectors have positive ids (vector). store_near.go explains the
// search by meaning, with signatures of vectors in memory, store_parts.go how these are
// stored (part), and store_lists.go and store_tally.go explain what searches by words
// keep in memory. store_leaves.go explains how a rare filter is looked up.
//
// The ledger has four tables, which are made when it is first used:
//
//	server_row ─── server_body      server_term   server_event
//
// A row is what package ledger makes it. Its body is stored apart, because rows are
// written more often than bodies. Searches find rows by their terms.
//
// A put is one transaction; puts that wait at the same time share one (commit.go). The
// file's user_version counts migrations (migrate.go).
package sqlite
