package store

import (
	"cmp"
	"context"
	"slices"
)

// History implements [Backend].
func (m *memory) History(ctx context.Context, n Namespace, key string) ([]*Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := m.byName[n.Encode()]
	if s == nil {
		return nil, nil
	}
	var records []*Record
	for _, e := range slices.Backward(s.versions[key]) {
		records = append(records, e.record)
	}
	return records, nil
}

// logIndex returns the log index of the first entry whose Seq is at least seq.
func (m *memory) logIndex(seq int64) int {
	i, _ := slices.BinarySearchFunc(m.log, seq, func(e *entry, seq int64) int { return cmp.Compare(e.record.Seq, seq) })
	return i
}

// Changes implements [Backend].
func (m *memory) Changes(ctx context.Context, prefix Namespace, after int64, limit int) ([]*Record, int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if after != 0 && after < m.swept {
		return nil, 0, ErrCompacted
	}
	if limit == 0 || after >= m.seq {
		return nil, m.seq, nil
	}
	var records []*Record
	for _, e := range m.log[m.logIndex(after+1):] {
		if e.removed || !e.record.concerns(prefix) {
			continue
		}
		records = append(records, e.record)
		if len(records) == limit {
			return records, e.record.Seq, nil
		}
	}
	return records, m.seq, nil
}

// concerns reports whether a record is about an item under prefix, or about several
// items that may include some under it.
func (r *Record) concerns(prefix Namespace) bool {
	return r.Namespace.HasPrefix(prefix) || r.Key == "" && prefix.HasPrefix(r.Namespace)
}

// Wait implements [Backend].
func (m *memory) Wait(ctx context.Context, seq int64) error {
	m.mu.RLock()
	now, changed := m.seq, m.changed
	m.mu.RUnlock()
	if now > seq {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Sweep implements [Backend].
func (m *memory) Sweep(ctx context.Context, s Sweep) (expired, dropped int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.overdue(s) {
		w := &Write{Namespace: e.record.Namespace, Key: e.record.Key, Keep: s.Keep}
		before := len(e.space.versions[w.Key])
		m.add(w, &Record{Kind: Expired, Updated: s.Now})
		dropped += before + 1 - len(e.space.versions[w.Key])
		expired++
	}
	if expired > 0 {
		m.notifyWaiters()
	}
	if !s.Before.IsZero() {
		for _, space := range slices.Clone(m.spaces) {
			for key := range space.versions {
				dropped += m.dropHistory(space, key, s)
			}
			m.removeEmpty(space)
		}
		dropped += m.dropForgotten(s)
	}
	return expired, dropped, nil
}

// overdue returns the expired entries in order of Seq, so that a sweep is
// deterministic.
func (m *memory) overdue(s Sweep) []*entry {
	var due []*entry
	for _, space := range m.spaces {
		for _, e := range space.items {
			if !e.old && !e.record.Live(s.Now) {
				due = append(due, e)
			}
		}
	}
	slices.SortFunc(due, func(a, b *entry) int { return newerFirst(b, a) })
	return due
}

// dropHistory drops the history of a key that ended before s.Before.
func (m *memory) dropHistory(space *space, key string, s Sweep) int {
	versions := space.versions[key]
	kept := slices.DeleteFunc(slices.Clone(versions), func(e *entry) bool {
		i := slices.Index(versions, e)
		if i < len(versions)-1 {
			if ended := versions[i+1].record.Updated.Before(s.Before); !ended {
				return false
			}
		} else if e.record.Kind == Put || !e.record.Updated.Before(s.Before) {
			return false
		} else {
			m.swept = max(m.swept, e.record.Seq)
		}
		m.drop(e)
		return true
	})
	if len(kept) == 0 {
		delete(space.versions, key)
	} else {
		space.versions[key] = kept
	}
	return len(versions) - len(kept)
}

// dropForgotten does the same for the records of ForgetAll, which only the log
// contains.
func (m *memory) dropForgotten(s Sweep) (dropped int) {
	for _, e := range slices.Clone(m.log) {
		if e.space == nil && !e.removed && e.record.Updated.Before(s.Before) {
			m.swept = max(m.swept, e.record.Seq)
			m.drop(e)
			dropped++
		}
	}
	return dropped
}

// Stale implements [Backend].
func (m *memory) Stale(ctx context.Context, stamp string, after int64, limit int) ([]*Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	var records []*Record
	for _, e := range m.log[m.logIndex(after+1):] {
		if len(records) == limit {
			break
		}
		if !e.removed && e.record.Kind == Put && e.indexed.Stamp != "" && e.indexed.Stamp != stamp {
			records = append(records, e.record)
		}
	}
	return records, nil
}

// Stamps implements [Backend].
func (m *memory) Stamps(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	var stamps []string
	for _, e := range m.log {
		if stamp := e.indexed.Stamp; !e.removed && stamp != "" && !slices.Contains(stamps, stamp) {
			stamps = append(stamps, stamp)
		}
	}
	return stamps, nil
}

// Reindex implements [Backend].
func (m *memory) Reindex(ctx context.Context, by map[int64]Indexed) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for seq, indexed := range by {
		i := m.logIndex(seq)
		if i == len(m.log) || m.log[i].record.Seq != seq || m.log[i].removed {
			continue
		}
		m.reindex(m.log[i], indexed)
	}
	return nil
}

func (m *memory) reindex(e *entry, by Indexed) {
	if !e.old {
		m.removeVectors(e)
		if !slices.Equal(e.indexed.Terms, by.Terms) {
			e.space.stale = true
		}
	}
	e.indexed, e.length = by, 0
	for _, t := range by.Terms {
		e.length += t.Count
	}
	if !e.old {
		m.addVectors(e)
	}
}
