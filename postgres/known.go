package postgres

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/internal/saved"
)

// Values of o_status that the functions return.
const (
	statusDone     = 0
	statusNotFound = 2
	statusFenced   = 3
)

func uuid(id checkpoint.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// uuidOr returns a UUID that is NULL for the zero ID.
func uuidOr(id checkpoint.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }

// known is the process's cache. It may be outdated if another process has written, but it
// is never wrong: its facts about IDs remain true, and its facts about a head are used
// only under the compare-and-set of that head.
type known struct {
	heads  *budget.Cache[lineName, *head]
	shapes saved.Memo[string, int64] // by saved.EncodeNames
	names  saved.Memo[int64, []string]
}

type lineName struct{ thread, path string }

// A head is the state of a line. It is immutable once shared.
type head struct {
	thread int64 // 0: no such thread
	epoch  uint64
	line   int64 // 0: no such line
	id     checkpoint.ID
	rev    uint64
	next   int64
	run    run       // run of checkpoint id, so it exists as long as the checkpoint does
	names  []string  // the channels of m
	m      *manifest // manifest of checkpoint id; nil: not read
	// control is the control of checkpoint id, if it is cached, is worth an echo, and has
	// none yet.
	control []byte
}

type run struct {
	id       int64 // 0: none
	name     string
	metadata []byte
	known    bool // whether metadata equals the row's
}
