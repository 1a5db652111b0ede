package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// reindexPage is the number of records that Reindex embeds at a time.
const reindexPage = 128

// Reindex reindexes items that were indexed with another model, dimension, or Fields,
// or without a model. It returns the number of versions that it indexed. After an
// interruption, it continues where it stopped.
//
// The first search with a query also does this, because it would otherwise miss items.
// Call Reindex to do it at a time of your choice. Options.Logger receives a warning if
// another model embedded the items.
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

// freshness records that all items are indexed with the store's stamp. The channel is a
// lock whose acquisition a context can interrupt.
type freshness struct {
	lock     chan struct{}
	done     atomic.Bool
	compared atomic.Bool // compareModels has read the stamps
}

// compareModels warns, before the first use of the index, if items were embedded with
// another model. The next search embeds them again, which takes time and money, and
// hides them from processes that still use the other model.
func (s *Store) compareModels(ctx context.Context) error {
	if s.fresh.compared.Load() {
		return nil
	}
	stamps, err := s.backend.Stamps(ctx)
	if err != nil {
		return err
	}
	if s.fresh.compared.Swap(true) {
		return nil // a concurrent operation has warned
	}
	own := modelOf(s.stamp)
	var others []string
	for _, stamp := range stamps {
		if other := modelOf(stamp); other != "" && other != own && !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	if others == nil {
		return nil
	}
	slices.Sort(others)
	s.opts.Logger.WarnContext(ctx, "store: items are embedded with another model: the next search embeds them again, and processes with the other model no longer find them; "+
		"set Options.Embedder to the same model in all processes, or call Store.Reindex to change the model now",
		"items", strings.Join(others, ", "), "store", cmp.Or(own, "no embedder"))
	return nil
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
		return nil // another search has reindexed
	}
	if _, err := s.Reindex(ctx); err != nil {
		return err
	}
	s.fresh.done.Store(true)
	return nil
}
