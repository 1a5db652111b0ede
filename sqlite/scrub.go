package sqlite

import (
	"context"

	"github.com/treadle-go/treadle/sqlite/internal/database"
)

// Scrub implements [checkpoint.Scrubber]. It writes zeros over the unused parts of all
// pages of the file and truncates the write-ahead log. The log can contain deleted data
// if the process that deleted it was killed, or if another transaction was reading an
// older state. Scrub waits a few seconds for such readers, and returns an error if one
// remains.
//
// Scrub reads the whole file and writes the pages that have data in their unused parts.
// Other connections can read and write while it runs. The file does not shrink.
func (db *DB) Scrub(ctx context.Context) error { return db.conn.Scrub(ctx, database.ScrubWait) }
