package sqlite

import (
	"github.com/treadle-go/treadle/internal/budget"
	"github.com/treadle-go/treadle/internal/saved"
)

// known is the cache of the holder of the writer's connection. It may be outdated if
// another process has written, but it is never wrong: its facts about IDs remain true,
// and its facts about a head are used only under the compare-and-set of that head, or if
// nothing has changed since: see sight.
type known struct {
	threads, lines reserved
	heads          *budget.Cache[lineName, *head]
	absent         saved.Memo[string, sight] // threads that were looked up and did not exist
	shapes         saved.Memo[string, int64] // by saved.EncodeNames
}

type lineName struct{ thread, path string }

func (k *known) forget() {
	k.threads, k.lines = reserved{}, reserved{}
	k.heads.Clear()
	k.absent.Clear()
	k.shapes.Clear()
}
