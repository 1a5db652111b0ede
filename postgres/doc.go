// Package postgres keeps checkpoints, a cache of results, and a store of items in
// Postgres.
//
// [Open] gives a [DB], which is a [checkpoint.Saver] with every ability that
// package checkpoint names, and has a [checkpoint.Cache] and a [store.Store]
// beside it. Any number of processes may use the same tables; two writers that
// meet on one thread are told apart by the compare-and-set of its head.
//
// # Roles and migrations
//
// The tables and functions live in a schema of their own. Whoever may create
// it runs the SQL of [Migrations], or opens once with [Options].Migrate. The
// program itself then needs no more than
//
//	GRANT USAGE ON SCHEMA treadle TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA treadle TO app;
//	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA treadle TO app;
//
// The migration creates the extension pgvector if the server has it and the role
// may; a database administrator may do that at any time, and run the SQL again
// then. Where it is, the program needs the right to use its schema:
//
//	GRANT USAGE ON SCHEMA public TO app;
//
// Nothing relies on the search_path, and nothing is kept in a session, so a
// pooler that hands out a connection per transaction will do; tell it by
// [Options].PoolerSafe.
//
// # What a commit survives
//
// A put is one call of one function and returns when its transaction is
// committed, with the durability that the server's synchronous_commit gives. If
// the connection breaks before the answer is there, the put is sent again over
// another: its id and the compare-and-set make sure that it is stored once. If
// that fails too, or the context has ended, the error is an [ErrOutcomeUnknown].
// So are pending writes and the deletion of a thread, which may be done twice. A
// connection that the server has closed while it was idle is noticed before
// anything is sent over it, and a server that restarts is waited for, for some
// seconds. What else was sent when the connection broke, a write of the store for
// instance, is an ErrOutcomeUnknown.
//
// # What was deleted
//
// What was deleted, pruned or forgotten is gone for every query when the call
// returns, but the server still has it: in the dead rows of tables and indexes until
// a VACUUM, in pages of files that it has not used again after that (VACUUM FULL
// writes the tables anew), in the write-ahead log until its segments are recycled
// and overwritten, in archived segments, on replicas, and in backups. Where
// nobody may see a text again, VACUUM the schema's tables after forgetting it, and
// let archives and backups end; or encrypt what is stored and throw the key away.
//
// # What is in the tables
//
//	thread ──< line ──< checkpoint (id, run, base, record, control, echo, metadata)
//	   │         ├────< chunk      (chain, seq, data)
//	   │         └────< pending    (id, task, kind, data)
//	   └──< run (name, metadata)             shape (names)
//
// A line is a namespace of a thread. The record of a checkpoint holds what is
// small, and refers to chunks for the rest: see manifest.go, chunk.go, echo.go. It is
// never changed after it was inserted. A list is a chain of chunks, each of
// which drops elements from the end and appends others, so that a step costs
// what it adds. Nothing is shared between lines but shapes, the lists of channel
// names, which are never removed.
//
//	store_record (seq, name, key, kind, terms, value) ──< store_vector (field, data)
//	     ├──── store_life (expires, ended)                     │
//	     └──── store_item (words, doc)                    store_stamp        store_state (seq)
//
// A record of the store is a version of an item, under the name of its namespace.
// Those that are current, and not the end of an item, have a row in store_item,
// where searches look: an index of words and one of values narrow them down, and
// what passes is decided in the process. Whoever writes holds the row of
// store_state until its commit, which makes the numbers of records visible in
// order; writers of one process who wait for it go together.
package postgres
