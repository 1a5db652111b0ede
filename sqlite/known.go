package sqlite

import (
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/internal/saved"
)

// known is what the holder of the writer's connection remembers. All of it may
// be behind the times, when another process has written, but none of it is
// ever wrong: what it says of ids stays true, and what it says of a head is
// used only under the compare-and-set of that head, or if nothing has changed
// since: see sight.
type known struct {
	edits          int64 // see sight
	threads, lines reserved
	heads          *budget.Cache[lineName, *head]
	absent         saved.Memo[string, sight] // threads that were looked for and not there
	shapes         saved.Memo[string, int64] // by saved.EncodeNames
	stamps         saved.Memo[string, int64] // of the store
}

type lineName struct{ thread, path string }

func (k *known) forget() {
	k.threads, k.lines = reserved{}, reserved{}
	k.heads.Clear()
	k.absent.Clear()
	k.shapes.Clear()
	k.stamps.Clear()
}
