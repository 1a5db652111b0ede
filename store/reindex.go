package store

import (
	"context"
	"fmt"
	"sync/atomic"
)

// reindexPage is how many records Reindex embeds at a time.
const reindexPage = 128

// Reindex indexes anew what was indexed in another way than this store does: by
// another model, with another dimension or other Fields, or by none. It returns
// how many versions that were. If it is interrupted it goes on where it was.
//
// The first search with a query does this before it answers, since its answer
// would miss items otherwise; calling Reindex before is a way to choose the
// moment.
func (s *Store) Reindex(ctx context.Context) (versions int, err error) {
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	for after := int64(0); ; {
		records, err := s.backend.Stale(ctx, s.stamp, after, reindexPage)
		if err != nil || len(records) == 0 {
			return versions, err
		}
		if err := s.reindex(ctx, records); err != nil {
			return versions, err
		}
		versions += len(records)
		after = records[len(records)-1].Seq
	}
}

func (s *Store) reindex(ctx context.Context, records []*Record) error {
	texts := make([][]text, len(records))
	var e embedding
	for i, r := range records {
		var err error
		if texts[i], err = s.texts(r.Value, r.Paths); err != nil {
			return fmt.Errorf("store: reindex key %q in namespace %v: %w", r.Key, r.Namespace, err)
		}
		if s.opts.Embedder != nil {
			for _, t := range texts[i] {
				e.add(t.text)
			}
		}
	}
	if s.opts.Embedder != nil {
		if err := s.embed(ctx, &e); err != nil {
			return err
		}
	}
	by := make(map[int64]Indexed, len(records))
	for i, r := range records {
		by[r.Seq] = s.indexed(r.Paths, texts[i], &e)
	}
	return s.backend.Reindex(ctx, by)
}

// freshness remembers that all there was is indexed as this store does it. Its
// channel is a lock that a context can interrupt.
type freshness struct {
	lock chan struct{}
	done atomic.Bool
}

// ensureFresh reindexes before the first search with a query.
func (s *Store) ensureFresh(ctx context.Context) error {
	if s.fresh.done.Load() {
		return nil
	}
	select {
	case s.fresh.lock <- struct{}{}:
		defer func() { <-s.fresh.lock }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.fresh.done.Load() {
		return nil // another search was waited for, which has done it
	}
	if _, err := s.Reindex(ctx); err != nil {
		return err
	}
	s.fresh.done.Store(true)
	return nil
}
