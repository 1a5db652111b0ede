// Package postgres saves checkpoints in Postgres. It also provides a result cache, an
// item store, and a server ledger.
//
// [Open] returns a [DB], which implements [checkpoint.Saver] and all optional interfaces
// of package checkpoint. Its methods return a [checkpoint.Cache], a [store.Store], and a
// [ledger.Backend]. Any number of processes can use the same tables: if two of them write
// to one thread, the compare-and-set of the thread's head lets only one succeed.
//
// # Roles and migrations
//
// All tables and functions are in one schema. A role that may create the schema runs the
// SQL returned by [Migrations], or opens the database once with [Options].Migrate. The
// application's role then needs only these privileges:
//
//	GRANT USAGE ON SCHEMA treadle TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA treadle TO app;
//	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA treadle TO app;
//
// The migration creates the pgvector extension if it is installed on the server and the
// role may create it. An administrator can also create the extension later and run the
// SQL again. The application's role then needs the USAGE privilege on the extension's
// schema:
//
//	GRANT USAGE ON SCHEMA public TO app;
//
// The package does not rely on the search_path or on session state, except for the
// session locks that let a ledger detect that a process has ended. It therefore works
// behind a transaction pooler. Set [Options].PoolerSafe there, which disables these
// locks.
//
// # Durability
//
// A put returns after its transaction commits; the server's synchronous_commit setting
// determines how durable the commit is. If the connection breaks before the response
// arrives, the put is resent over another connection. Its ID and the compare-and-set
// ensure that it is saved only once. Pending writes and thread deletions are also resent,
// because they are idempotent. Ledger transactions are retried after a check on whether
// the first attempt committed. If the retries fail or the context ends, the error matches
// [ErrOutcomeUnknown]. Other writes, such as those of the store, are never resent: they
// return ErrOutcomeUnknown immediately.
//
// If the server closed an idle connection, the connection is replaced before use. If the
// server restarts, calls wait for it for a few seconds.
//
// # Deleted data
//
// Queries never return data that was deleted, pruned, or forgotten, but the server still
// holds it:
//
//   - in dead rows of tables and indexes, until a VACUUM
//   - in unused pages of files, until they are reused or a VACUUM FULL runs
//   - in the write-ahead log, until its segments are overwritten
//   - in archived segments, on replicas, and in backups
//
// To make a text unrecoverable, forget it, call [DB.Scrub], which runs VACUUM on the
// schema's tables, and delete old archives and backups. Alternatively, encrypt the data
// and delete the key.
//
// # Tables
//
//	thread ──< line ──< checkpoint (id, run, base, record, control, echo, metadata)
//	   │         ├────< chunk      (chain, seq, data)
//	   │         └────< pending    (id, task, kind, data)
//	   └──< run (name, metadata)             shape (names)
//
// This section is for contributors. A line is a namespace of a thread. A checkpoint's
// record contains the small values and refers to chunks for the others: see manifest.go,
// chunk.go, and echo.go. Records are immutable. A list is a chain of chunks. Each chunk
// drops elements from the end and appends others, so the cost of a step depends on how
// much it adds. Lines share only shapes, which are lists of channel names. Shapes are
// never removed.
//
//	store_record (seq, name, key, kind, terms, value) ──< store_vector (field, data)
//	     ├──── store_life (expires, ended)                     │
//	     └──── store_item (words, doc)                    store_stamp        store_state (seq, reworded)
//
// A store record is a version of an item or a tombstone, under the name of its namespace.
// Each current version has a row in store_item, which searches read. A word index and a
// value index preselect rows, and the process decides which items match. For common
// words, the process caches the list of items that contain the word: see store_lists.go.
// A writer locks the store_state row until it commits, so record numbers become visible
// in order. Writers of one process that wait at the same time share a transaction.
//
//	server_row (kind, id, parent, worker, open, due, created, terms, doc, body) ──< server_term (term, created)
//	server_event (thread, run, first, last, data)
//
// A ledger row is a thread, a run, a worker, and so on. The table server_term contains
// the rows' terms in listing order. A transaction holds the advisory lock of a thread:
// see ledger_update.go.
package postgres
