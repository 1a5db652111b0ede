package pregel

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/treadle-go/treadle/checkpoint"
	"github.com/treadle-go/treadle/store"
)

// A store with Options.Branches follows the threads of a graph. Each checkpoint
// records the store's version and store branch in its metadata:
//
//	trunk     v1 ─ v2 ─ v3 ─ v4 …          the store
//	thread    C1 ─ C2 ─ C3                 C2 records v2
//	                └── C4 ─ C5            on a store branch forked at v2
//
// A run that continues from the head uses the head's store branch, or the trunk. A
// run from an older checkpoint starts a store branch at the version recorded in
// that checkpoint. Without the option, none of this applies.

// memoryKey is the key in a checkpoint's metadata.
const memoryKey = "__memory__"

// memoryAt is the state of the store at a checkpoint.
type memoryAt struct {
	Version int64  `json:"version"`
	Branch  string `json:"branch,omitempty"` // empty means the trunk
}

// memory tracks how the store of a run follows its thread.
type memory struct {
	at    *memoryAt // of the loaded checkpoint; nil if not recorded
	forks bool      // the loaded checkpoint is not the head

	given *store.Store // the store from the settings
}

// follows reports whether the store follows the thread.
func (r *Run) follows() bool { return r.set.Store.Branching() && r.saving() }

// memoryOf reads the state of the store from a checkpoint's metadata.
func memoryOf(metadata json.RawMessage) *memoryAt {
	var m struct {
		At *memoryAt `json:"__memory__"`
	}
	if len(metadata) > 0 {
		_ = json.Unmarshal(metadata, &m) // metadata that is not an object records nothing
	}
	return m.At
}

// openMemory selects the store branch for a run or an edit.
func (r *Run) openMemory() (err error) {
	if r.parent() != nil || !r.follows() || r.head.IsZero() {
		return nil
	}
	if _, trying := r.set.Saver.(unsaved); trying {
		return nil
	}
	if r.memory.given == nil {
		r.memory.given = r.set.Store
	}
	r.set.Store = r.memory.given // a stale cached head may have selected a store branch
	switch {
	case r.memory.forks:
		r.set.Store, err = r.plan.forkMemory(r.ctx, r.set, r.id(), r.head, r.memory.at)
	case r.memory.at != nil && r.memory.at.Branch != "":
		r.set.Store, err = openBranch(r.ctx, r.set.Store, r.memory.at.Branch)
	}
	if err != nil {
		return fmt.Errorf("graph %q: thread %q: %w", r.plan.name, r.set.Thread, err)
	}
	return nil
}

// openBranch opens a store branch. If it has ended, openBranch returns the store
// that it was forked from.
func openBranch(ctx context.Context, s *store.Store, name string) (*store.Store, error) {
	for name != "" {
		b, err := s.Branch(ctx, name)
		if err != nil {
			return nil, err
		}
		if b.BranchInfo().State == store.Open {
			return b, nil
		}
		name = b.BranchInfo().Of
	}
	return s.Trunk(), nil
}

// forkMemory starts a store branch from the state of the store at a checkpoint.
func (p *Plan) forkMemory(ctx context.Context, set *Settings, run string, id checkpoint.ID, at *memoryAt) (*store.Store, error) {
	if at == nil {
		return nil, fmt.Errorf("checkpoint %s does not record the store version, because it was saved without store.Options.Branches: continue from the head, or without that option", id)
	}
	s := set.Store.Trunk()
	if at.Branch != "" {
		var err error
		if s, err = s.Branch(ctx, at.Branch); err != nil {
			return nil, err
		}
	}
	return s.Fork(ctx, at.Version, store.BranchInfo{Thread: set.Thread, Checkpoint: id.String(), Run: run})
}

// withMemory adds the state of the store to metadata. A nil at means the current
// state.
func (r *Run) withMemory(metadata map[string]any, at *memoryAt) (json.RawMessage, error) {
	if at == nil {
		at = &memoryAt{Branch: r.set.Store.BranchInfo().Name}
		err := r.save(func(ctx context.Context) (err error) {
			at.Version, err = r.set.Store.Version(ctx)
			return err
		})
		if err != nil {
			return nil, r.saverFault(fmt.Errorf("graph %q: thread %q: store version: %w", r.plan.name, r.set.Thread, err))
		}
	}
	raw, err := toJSON(merged(metadata, map[string]any{memoryKey: at}))
	if err != nil {
		return nil, fmt.Errorf("graph %q: metadata: %w", r.plan.name, err)
	}
	return raw, nil
}
