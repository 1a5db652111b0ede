package memory

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/treadle-go/treadle"
	"github.com/treadle-go/treadle/store"
)

// Undo reverts all of the changes or none: it removes inserted memories, and restores the
// value and Meta of updated or removed ones. The changes come from [StoreManager.Reflect]
// or the tools, with at most one change per memory. Undo returns a [*store.ConflictError]
// if a memory has been changed since.
//
// Undo returns the changes that it made, which can be undone in turn. Memories that were
// removed together with their history cannot be restored.
func (m *StoreManager) Undo(ctx context.Context, changes ...ItemChange) ([]ItemChange, error) {
	s, err := storeFor(ctx, m.o.Store)
	if err != nil {
		return nil, err
	}
	var ops []store.Op
	var made []ItemChange
	seen := map[string]bool{}
	for _, c := range changes {
		id := itemID(&store.Item{Namespace: c.Namespace, Key: c.Key})
		if seen[id] {
			return nil, fmt.Errorf("memory: undo: two changes of %q: undo the later one first", c.Key)
		}
		seen[id] = true
		op, back, err := m.undo(ctx, s, c)
		if err != nil {
			return nil, err
		}
		ops, made = append(ops, op), append(made, back)
	}
	if ops == nil {
		return nil, nil
	}
	results, err := s.Batch(ctx, ops...)
	if err != nil {
		return nil, fmt.Errorf("memory: undo: no change undone: %w", err)
	}
	for i := range made {
		made[i].Version = versionOf(results[i])
		treadle.Emit(ctx, made[i])
	}
	return made, nil
}

// undo returns the write that reverts a change, and the resulting change.
func (m *StoreManager) undo(ctx context.Context, s *store.Store, c ItemChange) (store.Op, ItemChange, error) {
	back := c
	back.Change = Change{ID: c.ID, Kind: c.Kind, Before: c.After, After: c.Before, Reason: "undone"}
	switch c.Op {
	case Insert:
		back.Op = Delete
		return store.DeleteOp{Namespace: c.Namespace, Key: c.Key, DeleteOptions: store.DeleteOptions{IfVersion: c.Version}}, back, nil
	case Update:
		back.Op = Update
	case Delete:
		back.Op = Insert
	default:
		return nil, back, fmt.Errorf("memory: undo: cannot undo change of %q with Op %q", c.Key, c.Op)
	}
	old, err := m.before(ctx, s, c)
	if err != nil {
		return nil, back, err
	}
	back.Validity = validityOf(old)
	o := store.PutOptions{TTL: lifeOf(old), IfVersion: c.Version, IfAbsent: c.Op == Delete}
	if old.Meta != nil {
		o.Meta = old.Meta
	}
	return store.PutOp{Namespace: c.Namespace, Key: c.Key, Value: old.Value, PutOptions: o}, back, nil
}

// before returns the item that a change replaced or removed.
func (m *StoreManager) before(ctx context.Context, s *store.Store, c ItemChange) (*store.Item, error) {
	past, err := s.History(ctx, c.Namespace, c.Key)
	if err != nil {
		return nil, err
	}
	for _, p := range past {
		if p.Kind != store.Put || c.Op != Delete && p.Version >= c.Version {
			continue
		}
		seen := *p.Item // in the shape that the manager saw; the stored shape is restored
		if err := m.migrate(&seen); err != nil {
			return nil, err
		}
		// A removal has no version, so compare the content.
		if c.Op == Delete && !hasContent(&seen, c.Before) {
			return nil, fmt.Errorf("memory: undo: %q was written and removed since: %w", c.Key,
				&store.ConflictError{Namespace: c.Namespace, Key: c.Key, Have: past[0].Version})
		}
		return p.Item, nil
	}
	return nil, fmt.Errorf("memory: undo: earlier version of %q is no longer in the store's history", c.Key)
}

// hasContent reports whether an item has the content that a change reports. Tools report
// texts without their kind.
func hasContent(item *store.Item, content json.RawMessage) bool {
	var text string
	if json.Unmarshal(content, &text) == nil {
		content, _ = encodeAny(Memory{Content: text})
	}
	return sameJSON(DocumentOf(item).Content, content)
}
