// Package database opens an SQLite file, migrates it, and runs statements in it. It
// queues writes so that they share transactions, writes the log back concurrently, and
// erases deleted data from the files.
//
// # File format
//
//	thread ──< line ──< checkpoint ──< pending
//	             ├────< chunk
//	             └────< run                      shape   cache   witness   meta
//
// A line is a namespace of a thread. A checkpoint's record (sqlite/manifest.go) contains
// the small values and refers to chunks for the others, so the cost of a step depends on
// how much it changes:
//
//   - A list is a chain of chunks (sqlite/chunk.go). Each chunk drops elements from the end
//     and appends others. Every 32 chunks are packed into one row. A list of a few bytes is
//     a small value.
//   - A large value is written when it changes.
//   - Small values that have not changed for a while are in a base that many records share.
//   - Elements that a step appends and that the preceding control data already contains, as
//     for an input, are stored once (sqlite/echo.go).
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
// their vectors have positive IDs (vector). In package items, the files named near,
// parts, lists, tally, and leaves explain semantic search, which uses vector signatures
// in memory; how the signatures are stored (part); what keyword search caches in memory;
// and how selective filters are looked up.
//
// The ledger has four tables, which are created when it is first used:
//
//	server_row ─── server_body      server_term   server_event
//
// Package ledger defines the content of a row. A row's body is stored separately, because
// rows are written more often than bodies. Searches find rows by their terms.
//
// A put is one transaction; puts that wait at the same time share one (commit.go).
//
// The file schema.sql creates the tables. The user_version of an SQLite file is the number
// of applied scripts: 1 for schema.sql, and one more for each later change of the tables.
package database
