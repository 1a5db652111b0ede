package postgres

import (
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/internal/saved"
)

// What functions return as o_status.
const (
	statusDone     = 0
	statusNotFound = 2
	statusFenced   = 3
)

func uuid(id checkpoint.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// uuidOr is NULL for the zero ID.
func uuidOr(id checkpoint.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: !id.IsZero()} }

// name is a thread's or namespace's; nil would be NULL.
func name(s string) []byte { return append([]byte{}, s...) }

// known is what the process remembers. All of it may be behind the times, when
// another process has written, but none of it is ever wrong: what it says of
// ids stays true, and what it says of a head is used only under the
// compare-and-set of that head.
type known struct {
	heads  *budget.Cache[lineName, *head]
	shapes saved.Memo[string, int64] // by saved.EncodeNames
	names  saved.Memo[int64, []string]
}

type lineName struct{ thread, path string }

// head is the state of a line. It is not changed once others can see it.
type head struct {
	thread int64 // 0: there is no such thread
	epoch  uint64
	line   int64 // 0: there is no such line
	id     checkpoint.ID
	rev    uint64
	next   int64
	run    run       // of the checkpoint id, so it stays as long as that does
	names  []string  // the channels of m
	m      *manifest // of the checkpoint id; nil: not read
	// control of the checkpoint id, if it is known and worth an echo, and has
	// none.
	control []byte
}

type run struct {
	id       int64 // 0: none
	name     string
	metadata []byte
	known    bool // metadata is what the row has
}
