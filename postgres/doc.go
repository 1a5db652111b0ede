// Package postgres stores checkpoints, a cache of results, a store of items and the
// ledger of a server in Postgres.
//
// [Open] returns a [DB]. It is a [checkpoint.Saver] with all optional interfaces of
// package checkpoint, and has a [checkpoint.Cache], a [store.Store] and a
// [ledger.Backend]. Any number of processes may use the same tables: if two write to
// one thread, the compare-and-set of its head lets only one succeed.
//
// # Roles and migrations
//
// The tables and functions are in one schema. A role that may create it runs the SQL of
// [Migrations], or opens the database once with [Options].Migrate. The role of the
// program then needs only these rights:
//
//	GRANT USAGE ON SCHEMA treadle TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA treadle TO app;
//	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA treadle TO app;
//
// The migration creates the extension pgvector if the server has it and the role may
// create it. An administrator may also create it later and run the SQL again. The role
// of the program then needs the right to use the schema of the extension:
//
//	GRANT USAGE ON SCHEMA public TO app;
//
// The package does not use the search_path or any state of a session, except for the
// locks by which a ledger notices that a process has ended. So it works behind a
// pooler that gives each transaction another connection; set [Options].PoolerSafe,
// which does without these locks.
//
// # Durability
//
// A put returns when its transaction is committed; the server's synchronous_commit
// decides what that means. If the connection breaks before the answer, the put is sent
// again over another connection. Its id and the compare-and-set ensure that it is
// stored once. Pending writes and the deletion of a thread are sent again too, because
// doing them twice changes nothing. If that fails or the context ends, the error is an
// [ErrOutcomeUnknown]. So are transactions of the ledger: before one is done again, the
// server is asked whether it was committed. Other writes, such as those of the store,
// are not sent again: their error is an ErrOutcomeUnknown at once.
//
// A connection that the server closed while it was idle is replaced before it is used.
// If the server restarts, calls wait for it for some seconds.
//
// # Deleted data
//
// No query finds data after it was deleted, pruned or forgotten, but the server still
// has it:
//
//   - in dead rows of tables and indexes, until a VACUUM
//   - in unused pages of files, until they are used again or a VACUUM FULL
//   - in the write-ahead log, until its segments are overwritten
//   - in archived segments, on replicas and in backups
//
// If nobody may ever see a text again, call [DB.Scrub] after forgetting it, which runs
// VACUUM on the tables of the schema, and delete old archives and backups. Or encrypt the
// data and delete the key.
//
// # The tables
//
//	thread ──< line ──< checkpoint (id, run, base, record, control, echo, metadata)
//	   │         ├────< chunk      (chain, seq, data)
//	   │         └────< pending    (id, task, kind, data)
//	   └──< run (name, metadata)             shape (names)
//
// This part is for those who change the package. A line is a namespace of a thread. The
// record of a checkpoint has the small values and refers to chunks for the others: see
// manifest.go, chunk.go, echo.go. It is never changed. A list is a chain of chunks, each
// of which drops elements from the end and appends others, so that the cost of a step
// depends on what it adds. Lines share only shapes, the lists of channel names, which
// are never removed.
//
//	store_record (seq, name, key, kind, terms, value) ──< store_vector (field, data)
//	     ├──── store_life (expires, ended)                     │
//	     └──── store_item (words, doc)                    store_stamp        store_state (seq, reworded)
//
// A record of the store is a version of an item, or the mark of its end, under the name
// of its namespace. Current versions have a row in store_item, which searches read. An
// index of words and one of values preselect rows, and the process decides which items
// match. It keeps which items have a word if they are many: see store_lists.go. A writer locks the row of store_state until its commit, so that the numbers of
// records become visible in their order. Writers of one process that wait at the same
// time share a transaction.
//
//	server_row (kind, id, parent, worker, open, due, created, terms, doc, body) ──< server_term (term, created)
//	server_event (thread, run, first, last, data)
//
// A row of the ledger is a thread, a run, a worker and so on. server_term has the terms of
// rows in the order in which they are listed. A transaction holds the advisory lock of
// a thread: see ledger_update.go.
package postgres
