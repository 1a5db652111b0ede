package store

import (
	"slices"
	"time"
)

// A reading answers the reads of a batch. It begins with a lock that others may
// share; if it finds that it has something to change, an item to refresh, it is
// done again with a lock of its own.
type reading struct {
	*memory
	batch     *Batch
	exclusive bool
	mustWrite bool
	refreshed map[*entry]*Record
}

func (r *reading) all() *Results {
	results := &Results{
		Gets:       make([]*Record, len(r.batch.Gets)),
		Searches:   make([][]Found, len(r.batch.Searches)),
		Namespaces: make([][]Namespace, len(r.batch.Namespaces)),
	}
	// All reads come before all refreshes, so that none sees another's.
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

// answer is the record of an entry, refreshed if that is due.
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

// at is the time that the batch looks at.
func (r *reading) at() time.Time {
	if r.batch.AsOf.IsZero() {
		return r.batch.Now
	}
	return r.batch.AsOf
}

// version is the entry of a key that was live at the batch's time, or nil.
func (r *reading) version(line []*entry) *entry {
	for _, e := range slices.Backward(line) {
		if !r.batch.AsOf.IsZero() && e.record.Updated.After(r.batch.AsOf) {
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
	return r.version(s.lines[key])
}

func (r *reading) namespaces(prefix Namespace) []Namespace {
	var live []Namespace
	for _, s := range r.under(prefix) {
		for _, line := range s.lines {
			if r.version(line) != nil {
				live = append(live, s.namespace)
				break
			}
		}
	}
	return live
}
