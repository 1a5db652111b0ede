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
// and most of the third. Checksums protect against accidents, not against an attacker who
// can write to the file.
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
package sqlite
