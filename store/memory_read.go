package store

import (
	"slices"
	"time"
)

// reading performs the reads of a batch. It starts with a read lock. If it needs to
// refresh an item, it sets mustWrite and is repeated with a write lock.
type reading struct {
	*memory
	batch     *Batch
	exclusive bool
	mustWrite bool
	gone      *GoneError // a record that the reads need may have been removed
	refreshed map[*entry]*Record
}

func (r *reading) all() *Results {
	results := &Results{
		Gets:       make([]*Record, len(r.batch.Gets)),
		Searches:   make([][]Found, len(r.batch.Searches)),
		Namespaces: make([][]Namespace, len(r.batch.Namespaces)),
	}
	// Refreshes follow all reads, so that no read sees one.
	defer r.refresh()
	gets := make([]*entry, len(r.batch.Gets))
	for i, l := range r.batch.Gets {
		gets[i] = r.get(l.Namespace, l.Key)
	}
	found := make([][]*entry, len(r.batch.Searches))
	for i, q := range r.batch.Searches {
		found[i], results.Searches[i] = r.search(q)
	}
	for i, prefix := range r.batch.Namespaces {
		results.Namespaces[i] = r.namespaces(prefix)
	}
	for i, e := range gets {
		results.Gets[i] = r.answer(e, r.batch.Gets[i].Refresh)
	}
	for i, q := range r.batch.Searches {
		for j, e := range found[i] {
			results.Searches[i][j].Record = r.answer(e, q.Refresh)
		}
	}
	return results
}

// answer returns the record of an entry, refreshed if requested.
func (r *reading) answer(e *entry, refresh bool) *Record {
	switch {
	case e == nil:
		return nil
	case !refresh || e.record.TTL == 0:
		return e.record
	case !r.exclusive:
		r.mustWrite = true
		return e.record
	}
	fresh := *e.record
	fresh.Expires = r.batch.Now.Add(fresh.TTL)
	if r.refreshed == nil {
		r.refreshed = map[*entry]*Record{}
	}
	r.refreshed[e] = &fresh
	return &fresh
}

func (r *reading) refresh() {
	for e, fresh := range r.refreshed {
		e.record = fresh
	}
}

// at returns the time that the reads refer to.
func (r *reading) at() time.Time {
	if r.batch.AsOf.IsZero() {
		return r.batch.Now
	}
	return r.batch.AsOf
}

// lost records that the reads may need records of a key that have been removed.
func (r *reading) lost(versions []*entry, prefix Namespace) {
	if r.batch.Until == 0 || len(versions) == 0 || versions[0].record.Seq < r.batch.Until || len(prefix) == 0 && isBranch(versions[0].record.Namespace) {
		return
	}
	oldest, l := versions[0].record, r.batch.Limits
	if oldest.Kind != Forgotten && (oldest.Kind != Put || !oldest.Created.Equal(oldest.Updated) ||
		oldest.Updated.Before(l.Before) || l.Keep > 0 && len(versions) >= l.Keep) {
		r.gone = &GoneError{r.batch.Until - 1, oldest.Namespace, oldest.Key}
	}
}

// version returns the version that was live at the time of the reads, or nil. The reads
// cover the namespaces under prefix.
func (r *reading) version(versions []*entry, prefix Namespace) *entry {
	r.lost(versions, prefix)
	for _, e := range slices.Backward(versions) {
		if r.batch.Until != 0 && e.record.Seq >= r.batch.Until || !r.batch.AsOf.IsZero() && e.record.Updated.After(r.batch.AsOf) {
			continue
		}
		if e.record.Live(r.at()) {
			return e
		}
		return nil
	}
	return nil
}

func (r *reading) get(n Namespace, key string) *entry {
	s := r.byName[n.Encode()]
	if s == nil {
		return nil
	}
	return r.version(s.versions[key], n)
}

func (r *reading) namespaces(prefix Namespace) []Namespace {
	var live []Namespace
	for _, s := range r.under(prefix) {
		found := false
		for _, versions := range s.versions {
			found = r.version(versions, prefix) != nil || found
			if found && r.batch.Until == 0 {
				break
			}
		}
		if found {
			live = append(live, s.namespace)
		}
	}
	return live
}
