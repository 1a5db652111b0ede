package treadle

import (
	"testing"

	"github.com/treadle-go/treadle/internal/pregel"
)

// The constants are written out so that documentation shows their values; the
// engine has the same.
func TestConstantsAreThoseOfTheEngine(t *testing.T) {
	for ours, engines := range map[string]string{
		Start: pregel.Start, End: pregel.End, InputNode: pregel.InputNode, CopyNode: pregel.CopyNode,
		TagHidden: pregel.TagHidden, TagNoStream: pregel.TagNoStream,
	} {
		if ours != engines {
			t.Errorf("%q is %q in the engine", ours, engines)
		}
	}
	for ours, engines := range map[Mode]pregel.Mode{
		ModeValues: pregel.ModeValues, ModeUpdates: pregel.ModeUpdates, ModeCustom: pregel.ModeCustom,
		ModeTokens: pregel.ModeTokens, ModeTasks: pregel.ModeTasks, ModeCheckpoints: pregel.ModeCheckpoints,
		ModeDebug: pregel.ModeDebug, ModeEvents: pregel.ModeEvents, ModeWrites: pregel.ModeWrites,
	} {
		if ours != Mode(engines) {
			t.Errorf("mode %v is %v in the engine", ours, engines)
		}
	}
	for ours, engines := range map[Durability]pregel.Durability{Sync: pregel.Sync, Async: pregel.Async, Exit: pregel.Exit} {
		if ours != Durability(engines) {
			t.Errorf("durability %d is %d in the engine", ours, engines)
		}
	}
}
