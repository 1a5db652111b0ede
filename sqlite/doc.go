// Package sqlite saves checkpoints in an SQLite file. The same file can hold a result
// cache, an item store, and a server ledger.
//
// [Open] returns a [DB], which implements [checkpoint.Saver] and all optional interfaces
// of package checkpoint. Its methods return a [checkpoint.Cache], a [store.Store], and a
// [ledger.Backend]. The driver is pure Go. Several processes can open the same file: if
// two of them write to one thread, the compare-and-set of the thread's head lets only one
// succeed.
//
// # Durability
//
// A put returns after its transaction commits. By default, the file is in WAL mode with
// synchronous=NORMAL. Committed data survives the end of the process, even by kill -9. A
// power failure may lose the last commits, but never part of a commit. With
// [Options].PowerSafe, each commit waits for the disk.
//
// # Damage
//
// Each row has a checksum of its content and its location, which is verified when the row
// is read. Changed bytes, moved rows, and missing rows cause an [ErrDamaged] that names
// the thread or key. They never cause a panic, an empty thread, or a shortened history. A
// damaged thread can still be deleted, and a damaged item can still be forgotten.
//
// Reading cannot detect all damage:
//
//   - If a pending write is missing, its task runs again, or its interrupt is raised again,
//     as if the process had ended before the write was saved.
//   - If an old version of an item is missing, it may have been dropped on purpose.
//   - An item may be missing from the lists of its namespace, words, and vectors, so a
//     search does not find it. Get finds it by its key.
//   - If a subgraph's part of a thread is missing, reading it fails, but copying the
//     thread does not.
//   - A damaged cached result is not used; the node runs instead.
//   - If a ledger row is missing, it may have been deleted on purpose. A row that a search
//     misses can still be found by its ID.
//
// [Options].Check reads the whole file, including indexes, and detects the second kind
// and most of the third. Rows written before file version 3 have no checksum; among
// these, only missing and unreadable rows are detected. Checksums protect against
// accidents, not against an attacker who can write to the file.
//
// # Deleted data
//
// When [DB.DeleteThread], [DB.DeleteRuns], [DB.Prune], Forget or ForgetAll of a store, or
// the deletion of an assistant, a thread, or a cron from the ledger returns, the removed
// data has been overwritten in the file, and the write-ahead log has been truncated. If a
// transaction in this process or another still reads an older state, the log is truncated
// after that transaction ends, by the next write or by Close. There is one exception:
// when SQLite moves rows to other pages, it leaves copies in unused parts of the old
// pages. [DB.Scrub] overwrites these copies. After it, none of the database's files
// contain removed data. Backups, and old blocks kept by a file system or disk, may still
// contain it.
//
// # File format
//
//	thread ──< line ──< checkpoint ──< pending
//	             ├────< chunk
//	             └────< run                      shape   cache   witness   meta
//
// This section is for contributors. A line is a namespace of a thread. A checkpoint's
// record (manifest.go) contains the small values and refers to chunks for the others, so
// the cost of a step depends on how much it changes:
//
//   - A list is a chain of chunks (chunk.go). Each chunk drops elements from the end and
//     appends others. Every 32 chunks are packed into one row. A list of a few bytes is a
//     small value.
//   - A large value is written when it changes.
//   - Small values that have not changed for a while are in a base that many records share.
//   - Elements that a step appends and that the preceding control data already contains, as
//     for an input, are stored once (echo.go).
//
// A fork shares all of this with the original. Rows may be packed or shortened later, but
// the checkpoints stay the same. References are relative to the line, so copying a thread
// means copying rows. The only data shared by all lines are shapes, which are lists of
// channel names. Shapes are never removed.
//
// The store has separate tables:
//
//	space ──< record ─── life, vector      under   words   stamp   state   part
//	 (namespaces)  (versions)
//
// A record is a version of an item and is immutable; mutable data is in its life row.
// Current records are listed under their namespace and each of its ancestors (under) and
// by key (key). Their words and hashes of their values are in an FTS5 index (words), and
// their vectors have positive IDs (vector). store_near.go explains semantic search, which
// uses vector signatures in memory; store_parts.go explains how the signatures are stored
// (part). store_lists.go and store_tally.go explain what keyword search caches in memory,
// and store_leaves.go explains how selective filters are looked up.
//
// The ledger has four tables, which are created when it is first used:
//
//	server_row ─── server_body      server_term   server_event
//
// Package ledger defines the content of a row. A row's body is stored separately, because
// rows are written more often than bodies. Searches find rows by their terms.
//
// A put is one transaction; puts that wait at the same time share one (commit.go). The
// file's user_version is the number of applied migrations (migrate.go).
package sqlite
