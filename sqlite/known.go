package sqlite

import "github.com/treadle-go/treadle/internal/saved"

// known is what the holder of the writer's connection remembers. All of it may
// be behind the times, when another process has written, but none of it is
// ever wrong: what it says of ids stays true, and what it says of a head is
// used only under the compare-and-set of that head.
type known struct {
	heads  saved.Memo[lineName, *head]
	shapes saved.Memo[string, int64] // by saved.EncodeNames
	stamps saved.Memo[string, int64] // of the store
}

type lineName struct{ thread, path string }

func (k *known) forget() {
	k.heads.Clear()
	k.shapes.Clear()
	k.stamps.Clear()
}
