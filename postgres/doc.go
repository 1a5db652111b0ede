// Package postgres saves checkpoints in Postgres. It also provides a result cache, an
// item store, and a server ledger.
//
// [Open] returns a [DB], which implements [checkpoint.Saver] and all optional interfaces
// of package checkpoint. [New] does the same with a pgxpool.Pool that the program already
// has. The methods of a DB return a [checkpoint.Cache], a [store.Store], and a
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
package postgres
