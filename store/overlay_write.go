package store

import (
	"context"
	"encoding/json"
	"math"
	"slices"
)

// change performs a batch with writes.
func (o *overlay) change(ctx context.Context, b *Batch) (*Results, error) {
	var keys []Lookup
	for i := range b.Writes {
		if w := &b.Writes[i]; w.Key != "" && !isBranch(w.Namespace) {
			keys = append(keys, Lookup{Namespace: w.Namespace, Key: w.Key})
		}
	}
	results, s, err := o.read(ctx, b, keys)
	if err != nil {
		return nil, err
	}
	if s.info.State != Open {
		return nil, &BranchError{Name: o.info.Name, State: s.info.State}
	}
	touched, err := infoWrite(s.info, s.seq)
	if err != nil {
		return nil, err
	}
	c := &changing{overlay: o, state: s, batch: Batch{Now: b.Now, Writes: []Write{touched}}}
	results.Writes = make([]*Record, len(b.Writes))
	next := len(b.Gets)
	for i := range b.Writes {
		w := &b.Writes[i]
		switch {
		case isBranch(w.Namespace): // part of a merge
			c.batch.Writes = append(c.batch.Writes, *w)
			continue
		case w.Key == "":
			err = c.forgetAll(ctx, w, &results.Writes[i])
		default:
			err = c.write(w, &s.keys[next], &results.Writes[i])
			next++
		}
		if err != nil {
			return nil, err
		}
	}
	if len(c.batch.Writes) == 1 {
		return results, nil // only deletes of missing items
	}
	made, err := o.Backend.Do(ctx, &c.batch)
	if err != nil {
		return nil, err
	}
	for _, done := range c.done {
		done(made.Writes)
	}
	return results, nil
}

// changing is a batch of writes under construction.
type changing struct {
	*overlay
	state *state
	batch Batch
	done  []func([]*Record) // functions that set the returned records
}

func (c *changing) add(w Write) int {
	c.batch.Writes = append(c.batch.Writes, w)
	return len(c.batch.Writes) - 1
}

// addMark adds a mark and returns the index of its write.
func (c *changing) addMark(n Namespace, key string, m mark) (int, error) {
	raw, err := json.Marshal(m)
	return c.add(Write{
		Namespace: c.in(branchMarks, n),
		Key:       key,
		Kind:      Put,
		Value:     raw,
		Meta:      withTag(nil),
		Indexed:   Indexed{Paths: noPaths},
		Keep:      c.history,
	}), err
}

// write adds one write of the branch.
func (c *changing) write(w *Write, k *keyState, out **Record) error {
	var have int64
	if k.item != nil {
		have = k.item.Seq
	}
	if w.If != nil {
		if k.gone != nil {
			return k.gone
		}
		if have != *w.If {
			return &ConflictError{w.Namespace, w.Key, *w.If, have}
		}
	}
	if w.Kind == Put {
		return c.put(w, k, out)
	}
	if w.Kind == Deleted && k.item == nil && k.gone == nil {
		return nil
	}
	i, err := c.addMark(w.Namespace, w.Key, mark{Gone: w.Kind})
	if err != nil {
		return err
	}
	if k.mine || w.Kind == Forgotten && k.mark != nil {
		own := *w
		own.Namespace, own.If = c.in(branchItems, w.Namespace), nil
		c.add(own)
	}
	c.done = append(c.done, func(made []*Record) {
		*out = &Record{Seq: made[i].Seq, Kind: w.Kind, Namespace: w.Namespace, Key: w.Key, Updated: c.batch.Now}
	})
	return nil
}

func (c *changing) put(w *Write, k *keyState, out **Record) error {
	var m mark
	switch {
	case k.mine:
		m.Created = k.mark.Created
	case k.item != nil:
		created := k.item.Created
		m.Created = &created
	}
	if k.mark == nil || k.mark.Gone != "" || k.mark.Created != m.Created {
		if _, err := c.addMark(w.Namespace, w.Key, m); err != nil {
			return err
		}
	}
	own := *w
	own.Namespace, own.Meta, own.If = c.in(branchItems, w.Namespace), withTag(w.Meta), nil
	i := c.add(own)
	c.done = append(c.done, func(made []*Record) { *out = outer(made[i], m) })
	return nil
}

// forgetAll hides all items of the base under a prefix and forgets the branch's items.
func (c *changing) forgetAll(ctx context.Context, w *Write, out **Record) error {
	b := &Batch{Now: c.batch.Now}
	below := c.below(b)
	below.Searches = []*Query{{Prefix: w.Namespace, Limit: math.MaxInt32}}
	theirs, err := c.base.Do(ctx, below)
	if err != nil {
		return err
	}
	own := c.own(b)
	own.Searches = []*Query{{Prefix: c.in(branchMarks, w.Namespace), Limit: math.MaxInt32}}
	mine, err := c.Backend.Do(ctx, own)
	if err != nil {
		return err
	}
	hidden := map[string]bool{}
	for _, f := range slices.Concat(mine.Searches[0], theirs.Searches[0]) {
		n := f.Record.Namespace
		if isBranch(n) {
			n = n[owned:]
		}
		if id := idOf(n, f.Record.Key); !hidden[id] {
			hidden[id] = true
			if _, err := c.addMark(n, f.Record.Key, mark{Gone: Forgotten, All: true}); err != nil {
				return err
			}
		}
	}
	own2 := *w
	own2.Namespace = c.in(branchItems, w.Namespace)
	i := c.add(own2)
	c.done = append(c.done, func(made []*Record) { *out = outer(made[i], mark{}) })
	return nil
}

// History implements [Backend].
func (o *overlay) History(ctx context.Context, n Namespace, key string) ([]*Record, error) {
	items, err := o.Backend.History(ctx, o.in(branchItems, n), key)
	if err != nil {
		return nil, err
	}
	marks, err := o.Backend.History(ctx, o.in(branchMarks, n), key)
	if err != nil {
		return nil, err
	}
	var out []*Record
	forgotten := false
	for len(marks) > 0 && !forgotten {
		m, err := markOf(marks[0])
		if err != nil {
			return nil, err
		}
		for len(items) > 0 && items[0].Seq > m.seq {
			if r := items[0]; r.Kind == Put || r.Kind == Expired {
				out = append(out, outer(r, m))
			}
			items = items[1:]
		}
		if m.Gone != "" && !m.All {
			out = append(out, ended(marks[0], m))
		}
		forgotten = m.Gone == Forgotten
		marks = marks[1:]
	}
	if forgotten {
		return out, nil
	}
	for _, r := range items { // their marks were removed by the history limits
		if r.Kind == Put || r.Kind == Expired {
			out = append(out, outer(r, mark{}))
		}
	}
	past, err := o.base.History(ctx, n, key)
	if err != nil {
		return nil, err
	}
	for _, r := range past {
		if r.Seq <= o.info.Base {
			out = append(out, r)
		}
	}
	return out, nil
}

// ended returns the record of an item's end that a mark represents.
func ended(r *Record, m mark) *Record {
	return &Record{Seq: r.Seq, Kind: m.Gone, Namespace: r.Namespace[owned:], Key: r.Key, Updated: r.Updated}
}

// Changes implements [Backend]. It returns the changes of the base up to the start of
// the branch, then those of the branch.
func (o *overlay) Changes(ctx context.Context, prefix Namespace, after int64, limit int) ([]*Record, int64, error) {
	if limit == 0 {
		return o.Backend.Changes(ctx, nil, math.MaxInt64, 0)
	}
	var out []*Record
	for after < o.info.Base {
		records, seq, err := o.base.Changes(ctx, prefix, after, limit)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range records {
			if r.Seq > o.info.Base {
				break
			}
			if !isBranch(r.Namespace) {
				out = append(out, r)
			}
			if len(out) == limit {
				return out, r.Seq, nil
			}
		}
		after = min(seq, o.info.Base)
		if len(records) < limit { // the base may have changed since
			after = o.info.Base
		}
	}
	for {
		records, seq, err := o.Backend.Changes(ctx, Namespace{BranchRoot, o.info.Name}, after, watchPage)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range records {
			c, err := o.changed(r)
			if err != nil {
				return nil, 0, err
			}
			if c == nil || !c.concerns(prefix) {
				continue
			}
			if out = append(out, c); len(out) == limit {
				return out, c.Seq, nil
			}
		}
		after = seq
		if len(records) < watchPage {
			return out, seq, nil
		}
	}
}

// changed returns the change that a record of the branch represents, or nil.
func (o *overlay) changed(r *Record) (*Record, error) {
	if len(r.Namespace) < owned {
		return nil, nil
	}
	switch part := r.Namespace[owned-1]; {
	case part == branchMarks && r.Kind == Put:
		m, err := markOf(r)
		if err != nil || m.Gone == "" || m.All {
			return nil, err
		}
		return ended(r, m), nil
	case part == branchItems && (r.Kind == Put || r.Kind == Expired || r.Kind == Forgotten && r.Key == ""):
		return outer(r, mark{}), nil
	}
	return nil, nil
}
