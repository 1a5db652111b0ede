package store

import (
	"context"
	"math"
	"slices"
)

// A Counter is a [Backend] that counts records faster than it returns them.
type Counter interface {
	Backend
	// Count returns the number of keys under a prefix that have records of any kind,
	// and the number of these records. Records without a Key do not count.
	Count(ctx context.Context, prefix Namespace) (items, changes int, err error)
}

// Count returns the number of items under prefix that have any data in the database,
// and their total number of changes. Deleted, expired, and forgotten items count for as
// long as a change in their history is kept, and so do items written by branches. After
// [Store.ForgetAll], both numbers are 0. Count does not need the keys of an encrypted
// store.
func (s *Store) Count(ctx context.Context, prefix Namespace) (items, changes int, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, 0, err
	}
	if err := prefix.check(true); err != nil {
		return 0, 0, err
	}
	items, changes, err = s.count(ctx, prefix)
	if _, branch := s.backend.(*overlay); err != nil || branch || len(prefix) == 0 {
		return items, changes, err // an empty prefix includes the branches
	}
	marks, err := s.marked(ctx, prefix)
	seen := map[string]bool{}
	for _, n := range marks {
		if seen[n[1]] {
			continue
		}
		seen[n[1]] = true
		in := n[:owned+len(prefix)]
		keys, _, err := s.count(ctx, in)
		if err != nil {
			return items, changes, err
		}
		_, puts, err := s.count(ctx, itemsBeside(in))
		if err != nil {
			return items, changes, err
		}
		// A key that the branch has only deleted has no item record.
		items, changes = items+keys, changes+max(keys, puts)
	}
	return items, changes, err
}

// count counts the records under a prefix.
func (s *Store) count(ctx context.Context, prefix Namespace) (items, changes int, err error) {
	b := s.backend
	for {
		e, ok := b.(*encrypted)
		if !ok {
			break
		}
		b = e.Backend
	}
	if c, ok := b.(Counter); ok {
		return c.Count(ctx, prefix)
	}
	records, _, err := b.Changes(ctx, prefix, 0, math.MaxInt32)
	seen := map[string]bool{}
	for _, r := range records {
		if r.Key != "" {
			seen[append(slices.Clip(r.Namespace), r.Key).Encode()] = true
			changes++
		}
	}
	return len(seen), changes, err
}

// Count implements [Counter].
func (m *memory) Count(ctx context.Context, prefix Namespace) (items, changes int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, s := range m.under(prefix) {
		items += len(s.versions)
		for _, records := range s.versions {
			changes += len(records)
		}
	}
	return items, changes, nil
}
