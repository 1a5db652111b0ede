// Package database opens a schema in a Postgres database, migrates it, and runs
// statements in it. It retries statements when a connection breaks or the server
// restarts, and it classifies the server's errors.
//
// # Tables
//
//	thread ──< line ──< checkpoint (id, run, base, record, control, echo, metadata)
//	   │         ├────< chunk      (chain, seq, data)
//	   │         └────< pending    (id, task, kind, data)
//	   └──< run (name, metadata)             shape (names)
//
// A line is a namespace of a thread. A checkpoint's record contains the small values and
// refers to chunks for the others: see postgres/manifest.go, postgres/chunk.go, and
// postgres/echo.go. Records are immutable. A list is a chain of chunks. Each chunk
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
// words, the process caches the list of items that contain the word: see
// postgres/internal/items/lists.go. A writer locks the store_state row until it commits,
// so record numbers become visible in order. Writers of one process that wait at the same
// time share a transaction.
//
//	server_row (kind, id, parent, worker, open, due, created, terms, doc, body) ──< server_term (term, created)
//	server_event (thread, run, first, last, data)
//
// A ledger row is a thread, a run, a worker, and so on. The table server_term contains
// the rows' terms in listing order. A transaction holds the advisory lock of a thread:
// see postgres/internal/ledger/update.go.
package database
