package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// MergeOptions configures a merge. A nil *MergeOptions means the defaults.
type MergeOptions struct {
	// Resolve resolves a conflict: an item that both the branch and its parent store
	// have changed. It returns one of the items of the conflict, or an item with
	// another Value, Meta, and TTL; nil deletes the item. Without Resolve, a merge with
	// conflicts returns a [*MergeError]. Resolve may be called again for the same item
	// if the store changes concurrently.
	Resolve func(Conflict) (*Item, error)
}

// A Conflict is an item that a branch and its parent store have changed in different
// ways. A missing item is nil. Base is also nil if it is no longer in the history.
type Conflict struct {
	Namespace Namespace
	Key       string
	Base      *Item // at the branch's base version
	Branch    *Item
	Target    *Item // in the store that the branch is merged into
}

// MergeError reports the conflicts of a merge. Nothing was merged.
type MergeError struct {
	Branch    string
	Conflicts []Conflict
}

func (e *MergeError) Error() string {
	c := e.Conflicts[0]
	return fmt.Sprintf("store: merge branch %q: %d items changed on both sides, including key %q in namespace %v: set MergeOptions.Resolve",
		e.Branch, len(e.Conflicts), c.Key, c.Namespace)
}

// A Difference is an item that differs between two stores; a missing item is nil.
type Difference struct {
	Namespace Namespace
	Key       string
	A, B      *Item
}

// errTrunk returns the error for a branch operation called on the trunk.
func (s *Store) errTrunk(what string) error {
	return &InvalidError{What: what, Reason: "requires a branch, not the trunk: use Store.Branch"}
}

// Merge writes the changes of a branch to its parent store, or to the nearest ancestor
// that is still open, and ends the branch. It is one transaction. Items keep their
// Meta; their Created and Updated times are set as by a put. The branch can still be
// read.
//
// An item that the target store has changed since the branch's base version is a
// conflict, unless both now have the same value, meta, and TTL.
func (s *Store) Merge(ctx context.Context, opts *MergeOptions) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.branch == nil {
		return s.errTrunk("merge")
	}
	for {
		err := s.merge(ctx, deref(opts))
		if _, ok := errors.AsType[*ConflictError](err); ok {
			continue // concurrent write: compare again
		}
		return err
	}
}

// openBelow returns the nearest ancestor of a branch that can be written to.
func (s *Store) openBelow(ctx context.Context) (*Store, error) {
	for of := s.branch.info.Of; of != ""; {
		below, err := s.Branch(ctx, of)
		if err != nil {
			return nil, err
		}
		if below.branch.info.State == Open {
			return below, nil
		}
		of = below.branch.info.Of
	}
	return s.Trunk(), nil
}

func (s *Store) merge(ctx context.Context, opts MergeOptions) error {
	info, seq, err := s.ending(ctx, Open)
	if err != nil {
		return err
	}
	now := &Batch{Now: s.now()}
	target, err := s.openBelow(ctx)
	if err != nil {
		return err
	}
	keys, err := s.branch.written(ctx, now)
	if err != nil {
		return err
	}
	sides, err := s.compare(ctx, now, target, keys)
	if err != nil {
		return err
	}
	p := &plan{store: target, batch: Batch{Now: now.Now}}
	var open []Conflict
	for i, c := range sides {
		item := c.Branch
		if c.unknown || !sameItem(c.Target, c.Base) {
			if sameItem(c.Target, c.Branch) {
				continue
			}
			if opts.Resolve == nil {
				open = append(open, c.Conflict)
				continue
			}
			if item, err = opts.Resolve(c.Conflict); err != nil {
				return fmt.Errorf("store: merge branch %q: key %q in namespace %v: %w", info.Name, c.Key, c.Namespace, err)
			}
		}
		if err := p.take(c, item, keys[i].mark.Gone); err != nil {
			return err
		}
	}
	if open != nil {
		return &MergeError{info.Name, open}
	}
	if err := p.index(ctx); err != nil {
		return err
	}
	info.State = Merged
	w, err := infoWrite(info, seq)
	if err != nil {
		return err
	}
	p.batch.Writes = append(p.batch.Writes, w)
	_, err = target.backend.Do(ctx, &p.batch)
	return err
}

// sides holds an item on all sides of a merge.
type sides struct {
	Conflict
	unknown bool   // Base is no longer in the history
	paths   string // of the branch's item; see Indexed.Paths
}

// compare reads the keys on all sides of a merge.
func (s *Store) compare(ctx context.Context, now *Batch, target *Store, keys []writtenKey) ([]sides, error) {
	all := make([]sides, len(keys))
	below, own, there := s.branch.below(now), s.branch.own(now), &Batch{Now: now.Now}
	if len(keys) == 0 {
		return nil, nil
	}
	for i, k := range keys {
		all[i].Namespace, all[i].Key = k.namespace, k.key
		below.Gets = append(below.Gets, Lookup{Namespace: k.namespace, Key: k.key})
		own.Gets = append(own.Gets, Lookup{Namespace: s.branch.in(branchItems, k.namespace), Key: k.key})
	}
	there.Gets = below.Gets
	mine, err := s.branch.Backend.Do(ctx, own)
	if err != nil {
		return nil, err
	}
	theirs, err := target.backend.Do(ctx, there)
	if err != nil {
		return nil, err
	}
	base := &state{keys: make([]keyState, len(keys))}
	places := make([]int, len(keys))
	for i := range places {
		places[i] = i
	}
	old, err := s.branch.base.Do(ctx, below)
	if _, lost := errors.AsType[*GoneError](err); lost {
		old, err = s.branch.oneByOne(ctx, below, 0, base, places)
	}
	if err != nil {
		return nil, err
	}
	for i := range all {
		c := &all[i]
		c.Base, c.Target, c.unknown = itemOf(old.Gets[i]), itemOf(theirs.Gets[i]), base.keys[i].gone != nil
		if r := mine.Gets[i]; r != nil {
			c.Branch, c.paths = itemOf(outer(r, keys[i].mark)), r.Paths
		}
	}
	return all, nil
}

// take adds the write that gives an item of the target its merged content.
func (p *plan) take(c sides, item *Item, gone Kind) error {
	var have int64
	if c.Target != nil {
		have = c.Target.Version
	}
	if item == nil || sameItem(item, c.Target) {
		if item != nil || c.Target == nil && gone != Forgotten {
			return nil
		}
		w := Write{Namespace: c.Namespace, Key: c.Key, Kind: Deleted, Keep: p.store.opts.History, If: &have}
		if gone == Forgotten {
			w.Kind, w.Keep = Forgotten, 1
		}
		_, err := p.addWrite(w)
		return err
	}
	o := PutOptions{TTL: Forever, IfVersion: have, IfAbsent: have == 0}
	if item.TTL > 0 {
		o.TTL = item.TTL
	}
	if item.Meta != nil {
		o.Meta = item.Meta
	}
	if err := p.addPut(PutOp{c.Namespace, c.Key, item.Value, o}); err != nil {
		return err
	}
	// Index the fields of the branch's item.
	at := len(p.batch.Writes) - 1
	w := &p.batch.Writes[at]
	w.Indexed.Paths = c.paths
	var err error
	p.puts[at], err = p.store.texts(w.Value, w.Indexed.Paths)
	return err
}

// Discard ends a branch and forgets its changes. A merged branch can also be discarded,
// to free the space that its items take. Open branches created from it must be discarded
// or merged first; merged ones are discarded too.
func (s *Store) Discard(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.branch == nil {
		return s.errTrunk("discard")
	}
	for {
		info, seq, err := s.ending(ctx, Open, Merged)
		if err != nil {
			return err
		}
		if err := s.children(ctx, info); err != nil {
			return err
		}
		info.State = Discarded
		w, err := infoWrite(info, seq)
		if err != nil {
			return err
		}
		_, err = s.branch.Backend.Do(ctx, &Batch{Now: s.now(), Writes: []Write{w, {Namespace: Namespace{BranchRoot, info.Name}, Kind: Forgotten, Keep: 1}}})
		if _, ok := errors.AsType[*ConflictError](err); ok {
			continue
		}
		return err
	}
}

// ending returns the info of a branch that is about to end, with its version.
func (s *Store) ending(ctx context.Context, from ...BranchState) (BranchInfo, int64, error) {
	info, seq, err := s.branch.present(ctx, s.now())
	if err != nil {
		return info, 0, err
	}
	if !slices.Contains(from, info.State) {
		return info, 0, &BranchError{Name: info.Name, State: info.State}
	}
	return info, seq, nil
}

// children returns an error if the branch has open child branches, which need it, and
// discards merged ones.
func (s *Store) children(ctx context.Context, info BranchInfo) error {
	all, err := s.Branches(ctx)
	if err != nil {
		return err
	}
	e := &BranchError{Name: info.Name, State: info.State}
	var merged []string // children before their parents
	var visit func(name string)
	visit = func(name string) {
		for _, b := range all {
			switch {
			case b.Of != name:
			case b.State == Open:
				e.Children = append(e.Children, b.Name)
			case b.State == Merged:
				visit(b.Name)
				merged = append(merged, b.Name)
			}
		}
	}
	visit(info.Name)
	if e.Children != nil {
		return e
	}
	// A merged branch has nothing that this branch lacks, but it cannot be read, and so not
	// be discarded, without this branch.
	for _, name := range merged {
		child, err := s.Branch(ctx, name)
		if err != nil {
			return err
		}
		if err := child.Discard(ctx); err != nil {
			return err
		}
	}
	return nil
}

// writtenKey is a key that a branch has written.
type writtenKey struct {
	namespace Namespace
	key       string
	mark      mark
}

// written returns the keys that a branch has written as of the time of a batch.
func (o *overlay) written(ctx context.Context, b *Batch) ([]writtenKey, error) {
	own := o.own(b)
	own.Searches = []*Query{{Prefix: o.in(branchMarks, nil), Limit: math.MaxInt32}}
	got, err := o.Backend.Do(ctx, own)
	if err != nil {
		return nil, err
	}
	keys := make([]writtenKey, len(got.Searches[0]))
	for i, f := range got.Searches[0] {
		m, err := markOf(f.Record)
		if err != nil {
			return nil, err
		}
		keys[i] = writtenKey{f.Record.Namespace[owned:], f.Record.Key, m}
	}
	return keys, nil
}

// Diff returns the items whose value, meta, or TTL differs between two branches of one
// store, in order. Either may be the trunk. It examines all keys that the branches have
// written, and the changes to the trunk since the older branch's base version.
func (s *Store) Diff(ctx context.Context, other *Store) ([]Difference, error) {
	if err := errors.Join(s.ready(ctx), other.ready(ctx)); err != nil {
		return nil, err
	}
	if s.Trunk() != other.Trunk() {
		return nil, &InvalidError{What: "diff", Reason: "requires two branches of one store"}
	}
	keys := map[string]Lookup{}
	now := &Batch{Now: s.now()}
	mine, err := s.branch.touched(ctx, now, keys)
	if err != nil {
		return nil, err
	}
	theirs, err := other.branch.touched(ctx, now, keys)
	if err != nil {
		return nil, err
	}
	if mine != theirs {
		if err := s.Trunk().changedSince(ctx, min(mine, theirs), keys); err != nil {
			return nil, err
		}
	}
	b := &Batch{Now: now.Now}
	for _, id := range slices.Sorted(maps.Keys(keys)) {
		b.Gets = append(b.Gets, keys[id])
	}
	if b.Gets == nil {
		return nil, nil
	}
	as, err := s.backend.Do(ctx, b)
	if err != nil {
		return nil, err
	}
	bs, err := other.backend.Do(ctx, b)
	if err != nil {
		return nil, err
	}
	var out []Difference
	for i, l := range b.Gets {
		if a, b := itemOf(as.Gets[i]), itemOf(bs.Gets[i]); !sameItem(a, b) {
			out = append(out, Difference{l.Namespace, l.Key, a, b})
		}
	}
	return out, nil
}

// touched adds the keys that a branch and its ancestors have written, and returns the
// version of the trunk at which the lowest of them starts.
func (o *overlay) touched(ctx context.Context, b *Batch, keys map[string]Lookup) (base int64, err error) {
	if o == nil {
		return math.MaxInt64, nil
	}
	written, err := o.written(ctx, b)
	if err != nil {
		return 0, err
	}
	for _, k := range written {
		keys[idOf(k.namespace, k.key)] = Lookup{Namespace: k.namespace, Key: k.key}
	}
	if below, ok := o.base.(*overlay); ok {
		return below.touched(ctx, o.below(b), keys)
	}
	return o.info.Base, nil
}

// changedSince adds the trunk's keys that have changed since a version.
func (s *Store) changedSince(ctx context.Context, version int64, keys map[string]Lookup) error {
	for version < math.MaxInt64 {
		records, seq, err := s.backend.Changes(ctx, nil, version, watchPage)
		if errors.Is(err, ErrCompacted) {
			err = &GoneError{Version: version}
		}
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.Key != "" && !isBranch(r.Namespace) {
				keys[idOf(r.Namespace, r.Key)] = Lookup{Namespace: r.Namespace, Key: r.Key}
			}
		}
		version = seq
		if len(records) < watchPage {
			break
		}
	}
	return nil
}

// sameItem reports whether two items have the same content.
func sameItem(a, b *Item) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.TTL == b.TTL && bytes.Equal(a.Value, b.Value) && bytes.Equal(a.Meta, b.Meta)
}
