package store

import (
	"context"
	"fmt"
	"iter"
	"math"
)

// Latest is the version to pass to [Store.Watch] to see only new changes.
const Latest int64 = -1

// watchPage is the page size of Watch.
const watchPage = 256

// Watch yields the changes of items under prefix as they happen, in version order and
// each once, until ctx is done or the loop ends. It starts with the first change after
// the given version: 0 means from the beginning, and [Latest] means from now. To resume
// later, even in another process, pass the version of the last change handled.
//
// Versions removed by the history limits are not yielded, but the last change of each
// item is. After [Store.Sweep] has removed records of deletions, resuming from a
// version before them fails with [ErrCompacted]; start again from 0 in this case.
// Expired items are not yielded; a sweep records their expiry as a change.
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
		return &InvalidError{What: "watch", Reason: fmt.Sprintf("has an invalid start %d: want a version, 0, or store.Latest", after)}
	}
	for {
		records, seq, err := s.backend.Changes(ctx, prefix, after, watchPage)
		if err != nil {
			return err
		}
		now := s.now()
		for _, r := range records {
			if r.Kind == Put && !r.Live(now) || isBranch(r.Namespace) {
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
