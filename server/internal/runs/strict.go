package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/dynamic"
)

// UnknownInterruptError reports a strict resume whose answers do not match the pending
// interrupts. Clients see the name of the type, which is LangGraph's.
type UnknownInterruptError struct{ text string }

func (e *UnknownInterruptError) Error() string { return e.text }

// strictResume returns an [*UnknownInterruptError] if the answers in a run's command do not
// match the pending interrupts of th, the thread at the checkpoint that the run starts from. A
// single answer without a pending interrupt is valid, because it also resumes a breakpoint. So
// is every answer at a checkpoint that is no longer the latest, because the nodes after it
// interrupt again.
func strictResume(ctx context.Context, latest, th *dynamic.Thread, k *Kwargs) error {
	var command struct {
		Resume json.RawMessage `json:"resume"`
	}
	if err := json.Unmarshal(k.Command, &command); err != nil {
		return fmt.Errorf("command: %w", err)
	}
	if !present(command.Resume) {
		return nil
	}
	snap, err := th.State(ctx)
	if err != nil {
		return err
	}
	if text, _ := k.Configurable()["checkpoint_id"].(string); text != "" {
		conf := maps.Clone(k.Configurable())
		delete(conf, "checkpoint_id")
		if latest, err = At(latest, conf); err != nil {
			return err
		}
		head, err := latest.State(ctx)
		if err != nil || head.ID != snap.ID {
			return err
		}
	}
	open := map[string]bool{}
	for _, p := range snap.Pauses {
		if p.Kind == treadle.QuestionPause {
			open[p.ID] = true
		}
	}
	var byID map[string]json.RawMessage
	if json.Unmarshal(command.Resume, &byID) != nil || len(byID) > 0 && !areIDs(byID) {
		if len(open) > 1 {
			return &UnknownInterruptError{severalOpen}
		}
		return nil
	}
	if len(byID) == 0 {
		return &UnknownInterruptError{"The resume map names no interrupt"}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		if !open[id] {
			return &UnknownInterruptError{"Unknown or already-consumed interrupt: " + id}
		}
	}
	return nil
}
