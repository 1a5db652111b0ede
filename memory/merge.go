package memory

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/treadle-go/treadle/store"
)

// Merge is like [store.Store.Merge], but for a store branch with memories. Use counts and
// the records of [StoreManager.Consolidate] do not cause conflicts: Merge adds the use
// counts of both sides and keeps the target's consolidation records.
func Merge(ctx context.Context, branch *store.Store, opts *store.MergeOptions) error {
	var o store.MergeOptions
	if opts != nil {
		o = *opts
	}
	if o.Resolve == nil {
		err := branch.Merge(ctx, nil)
		e, ok := errors.AsType[*store.MergeError](err)
		if !ok {
			return err
		}
		if e.Conflicts = slices.DeleteFunc(e.Conflicts, func(c store.Conflict) bool { return isUse(c) || isMark(c) }); len(e.Conflicts) > 0 {
			return e
		}
	}
	return branch.Merge(ctx, &store.MergeOptions{Resolve: func(c store.Conflict) (*store.Item, error) {
		switch {
		case isUse(c):
			return addUses(c)
		case isMark(c):
			return c.Target, nil
		case o.Resolve == nil: // a new conflict since the first attempt
			return nil, &store.MergeError{Branch: branch.BranchInfo().Name, Conflicts: []store.Conflict{c}}
		}
		return o.Resolve(c)
	}})
}

// isUse reports whether a conflict concerns a use count or ratings.
func isUse(c store.Conflict) bool { return c.Namespace[0] == usesRoot }

// isMark reports whether a conflict concerns a consolidation record.
func isMark(c store.Conflict) bool { return c.Namespace[0] == sleepRoot }

// addUses returns the use count with the uses of both sides added.
func addUses(c store.Conflict) (*store.Item, error) {
	if c.Branch == nil || c.Target == nil { // the memory was forgotten on one side
		return nil, nil
	}
	if n := c.Namespace; n[len(n)-1] == usesRoot {
		return withValue(c.Target, addRatings(c))
	}
	var base, ours, theirs use
	for item, u := range map[*store.Item]*use{c.Base: &base, c.Branch: &ours, c.Target: &theirs} {
		if item == nil {
			continue
		}
		if err := item.Decode(u); err != nil {
			return nil, err
		}
	}
	sum := use{Count: max(0, ours.Count-base.Count) + theirs.Count, Last: theirs.Last}
	if ours.Last.After(sum.Last) {
		sum.Last = ours.Last
	}
	return withValue(c.Target, sum)
}

func withValue(item *store.Item, v any) (*store.Item, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	changed := *item
	changed.Value = raw
	return &changed, nil
}
