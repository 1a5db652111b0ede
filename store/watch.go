package store

import (
	"context"
	"iter"
	"math"
)

// Latest is the version to watch from to see only changes from now on.
const Latest int64 = -1

// watchPage is how many changes Watch reads at a time.
const watchPage = 256

// Watch yields the changes of items under prefix, in the order of their versions,
// as they happen, until ctx ends or the loop is left. Each comes once. It begins
// with the first change after the given version: 0 is the beginning, [Latest] is
// now. Whoever keeps the version of the last change it has dealt with can go on
// from there later, also in another process.
//
// Versions that the bounds of history have removed are not among the changes,
// but the last change of each item is. After [Store.Sweep] has dropped the
// traces of deleted items, going on from before them fails with
// [ErrCompacted]; begin again at 0 then. Items that have expired are not
// yielded; that they have expired comes as a change of its own, with the sweep.
func (s *Store) Watch(ctx context.Context, prefix Namespace, after int64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		if err := s.watch(ctx, prefix, after, func(c Change) bool { return yield(c, nil) }); err != nil {
			yield(Change{}, err)
		}
	}
}

func (s *Store) watch(ctx context.Context, prefix Namespace, after int64, yield func(Change) bool) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := prefix.check(true); err != nil {
		return err
	}
	if after == Latest {
		_, seq, err := s.backend.Changes(ctx, prefix, math.MaxInt64, 0)
		if err != nil {
			return err
		}
		after = seq
	}
	if after < 0 {
		return &InvalidError{What: "version", Reason: "to watch from is negative"}
	}
	for {
		records, seq, err := s.backend.Changes(ctx, prefix, after, watchPage)
		if err != nil {
			return err
		}
		now := s.now()
		for _, r := range records {
			if r.Kind == Put && !r.Live(now) {
				continue
			}
			if !yield(changeOf(r)) {
				return nil
			}
		}
		after = seq
		if len(records) < watchPage {
			if err := s.backend.Wait(ctx, seq); err != nil {
				return err
			}
		}
	}
}
