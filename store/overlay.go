package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// BranchRoot is the first segment of the namespaces that store branches. A [Store]
// rejects it in namespaces. Records under it do not cause a [*GoneError] for a batch
// with Until and an empty prefix.
const BranchRoot = "treadle:branches"

// A branch is kept in the store that it belongs to, in namespaces that start with BranchRoot:
//
//	{BranchRoot, "index"} NAME            the branch: a BranchInfo
//	{BranchRoot, NAME, "mark", …} KEY     a mark: the branch has written this key
//	{BranchRoot, NAME, "item", …} KEY     the item that the branch has put, if it still exists
//
// A mark hides the base's item under the key, even after the branch's item has been deleted
// or has expired. All three are ordinary items, so they are encrypted, indexed, swept, and
// versioned like all others, and a merge is one batch.
const (
	branchIndex = "index"
	branchMarks = "mark"
	branchItems = "item"
)

// branchTag starts the Meta of all items of branches, so that a search of the whole
// store can omit them.
const branchTag = `{"treadle:branch":true`

// tagged reports whether an item belongs to a branch.
func tagged(meta json.RawMessage) bool { return bytes.HasPrefix(meta, []byte(branchTag)) }

// withTag returns the Meta for an item of a branch; withoutTag is its inverse.
func withTag(meta json.RawMessage) json.RawMessage {
	switch {
	case meta == nil:
		return json.RawMessage(branchTag + "}")
	case string(meta) == "{}":
		return json.RawMessage(branchTag + `,"":0}`)
	}
	return append([]byte(branchTag+","), meta[1:]...)
}

func withoutTag(meta json.RawMessage) json.RawMessage {
	rest := meta[len(branchTag):]
	switch string(rest) {
	case "}":
		return nil
	case `,"":0}`:
		return json.RawMessage("{}")
	}
	return append([]byte("{"), rest[1:]...)
}

// overlay is the backend of a branch: the items of its base as of the base version, and
// the branch's own items.
type overlay struct {
	Backend         // backend of the trunk, which keeps everything
	base    Backend // backend of the parent branch or the trunk
	info    BranchInfo
	history int
	age     time.Duration

	mu sync.Mutex // held by a writer; writers in other processes are detected by conflicts
}

// mark records that a branch has written a key.
type mark struct {
	// Created is the creation time of the base's item that the first put replaced.
	Created *time.Time `json:"created,omitempty"`
	Gone    Kind       `json:"gone,omitempty"` // how the item ended: Deleted or Forgotten
	All     bool       `json:"all,omitempty"`  // together with all other items under a prefix

	seq int64
}

func markOf(r *Record) (mark, error) {
	m := mark{seq: r.Seq}
	if err := json.Unmarshal(r.Value, &m); err != nil {
		return m, fmt.Errorf("store: mark of key %q in namespace %v: %w", r.Key, r.Namespace, err)
	}
	return m, nil
}

// in returns the namespace of the branch's items or marks.
func (o *overlay) in(part string, n Namespace) Namespace {
	return append(Namespace{BranchRoot, o.info.Name, part}, n...)
}

// owned is the length of the prefix of those namespaces.
const owned = 3

func idOf(n Namespace, key string) string { return append(slices.Clone(n), key).Encode() }

// isBranch reports whether a namespace belongs to a branch.
func isBranch(n Namespace) bool { return len(n) > 0 && n[0] == BranchRoot }

// outer converts a record of the branch to the item that it represents.
func outer(r *Record, m mark) *Record {
	out := *r
	out.Namespace = r.Namespace[owned:]
	if r.Kind != Put {
		return &out
	}
	out.Meta = withoutTag(r.Meta)
	if m.Created != nil {
		out.Created = *m.Created
	}
	return &out
}

// limits returns the history limits for reads of the past.
func (o *overlay) limits(now time.Time) Sweep {
	s := Sweep{Keep: o.history}
	if o.age > 0 {
		s.Before = now.Add(-o.age)
	}
	return s
}

// own returns a batch for the branch's own items, at the time of b. below returns a
// batch for the base.
func (o *overlay) own(b *Batch) *Batch {
	return &Batch{Now: b.Now, AsOf: b.AsOf, Until: b.Until, Limits: b.Limits}
}

func (o *overlay) below(b *Batch) *Batch {
	return &Batch{Now: b.Now, AsOf: b.AsOf, Until: o.info.Base + 1, Limits: o.limits(b.Now)}
}

// fromBase performs a batch of reads on the base.
func (o *overlay) fromBase(ctx context.Context, b *Batch) (*Results, error) {
	if len(b.Gets)+len(b.Searches)+len(b.Namespaces) == 0 {
		return &Results{}, nil
	}
	return o.base.Do(ctx, b)
}

// state is the state of the branch as seen by a batch.
type state struct {
	info BranchInfo
	seq  int64 // version of the info
	keys []keyState
}

// keyState is the state of a key as seen by a branch.
type keyState struct {
	mark *mark   // nil if the branch has not written it
	item *Record // the live item, of the branch or of the base
	mine bool    // it belongs to the branch
	gone error   // the base's item is no longer known
}

// Do implements [Backend]. The base does not change, so the reads of a branch are
// consistent if the reads of its own items are. Before a write, Do reads the keys to be
// written. The write is conditional on the version of the branch's info, which every
// write replaces, so everything that was read still holds.
func (o *overlay) Do(ctx context.Context, b *Batch) (*Results, error) {
	if len(b.Writes) == 0 {
		results, _, err := o.read(ctx, b, nil)
		return results, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		results, err := o.change(ctx, b)
		if e, ok := errors.AsType[*ConflictError](err); ok && e.Key == o.info.Name && isBranch(e.Namespace) {
			continue // another process has written to the branch
		}
		return results, err
	}
}

// read performs the reads of a batch and reads additional keys.
func (o *overlay) read(ctx context.Context, b *Batch, keys []Lookup) (*Results, *state, error) {
	own, lookups := o.own(b), slices.Concat(b.Gets, keys)
	if !b.Past() {
		own.Gets = append(own.Gets, Lookup{Namespace: Namespace{BranchRoot, branchIndex}, Key: o.info.Name})
	}
	first := len(own.Gets)
	for _, l := range lookups {
		own.Gets = append(own.Gets, Lookup{o.in(branchItems, l.Namespace), l.Key, l.Refresh && !b.Past()}, Lookup{Namespace: o.in(branchMarks, l.Namespace), Key: l.Key})
	}
	shadows := make([]int, 0, len(b.Searches)+len(b.Namespaces))
	all := func(prefix Namespace) {
		shadows = append(shadows, len(own.Searches))
		own.Searches = append(own.Searches, &Query{Prefix: o.in(branchMarks, prefix), Limit: math.MaxInt32})
	}
	searches := make([]*layered, len(b.Searches))
	for i, q := range b.Searches {
		all(q.Prefix)
		searches[i] = layer(q)
		mine := searches[i].query(0)
		mine.Prefix, mine.hide = o.in(branchItems, q.Prefix), false
		own.Searches = append(own.Searches, mine)
	}
	for _, prefix := range b.Namespaces {
		all(prefix)
		own.Namespaces = append(own.Namespaces, o.in(branchItems, prefix))
	}
	mine, err := o.Backend.Do(ctx, own)
	if err != nil {
		return nil, nil, err
	}
	s := &state{info: o.info}
	if !b.Past() {
		if s.info, s.seq, err = infoOf(mine.Gets[0], o.info.Name); err != nil {
			return nil, nil, err
		}
		if s.info.State == Discarded {
			return nil, nil, &BranchError{Name: o.info.Name, State: Discarded}
		}
	}
	below := o.below(b)
	marked := make([]map[string]mark, len(shadows))
	for i, at := range shadows {
		marked[i] = map[string]mark{}
		for _, f := range mine.Searches[at] {
			m, err := markOf(f.Record)
			if err != nil {
				return nil, nil, err
			}
			marked[i][idOf(f.Record.Namespace[owned:], f.Record.Key)] = m
		}
	}
	s.keys = make([]keyState, len(lookups))
	var missing []int
	for i, l := range lookups {
		k, item, m := &s.keys[i], mine.Gets[first+2*i], mine.Gets[first+2*i+1]
		if m == nil {
			missing = append(missing, i)
			below.Gets = append(below.Gets, Lookup{Namespace: l.Namespace, Key: l.Key})
			continue
		}
		read, err := markOf(m)
		if err != nil {
			return nil, nil, err
		}
		k.mark = &read
		if item != nil {
			k.item, k.mine = outer(item, read), true
		}
	}
	for i, l := range searches {
		below.Searches = append(below.Searches, l.query(len(marked[i])))
	}
	below.Namespaces = b.Namespaces
	theirs, err := o.fromBase(ctx, below)
	if _, lost := errors.AsType[*GoneError](err); lost && len(keys) > 0 {
		theirs, err = o.oneByOne(ctx, below, len(below.Gets)-len(keys), s, missing)
	}
	if err != nil {
		return nil, nil, err
	}
	for j, i := range missing {
		s.keys[i].item = theirs.Gets[j]
	}
	out := &Results{Gets: make([]*Record, len(b.Gets)), Searches: make([][]Found, len(b.Searches)), Namespaces: make([][]Namespace, len(b.Namespaces))}
	for i := range b.Gets {
		out.Gets[i] = s.keys[i].item
	}
	for i, l := range searches {
		out.Searches[i] = l.merge(mine.Searches[2*i+1], theirs.Searches[i], marked[i])
	}
	for i := range b.Namespaces {
		if out.Namespaces[i], err = o.namespaces(ctx, b, mine.Namespaces[i], theirs.Namespaces[i], marked[len(searches)+i]); err != nil {
			return nil, nil, err
		}
	}
	return out, s, o.refresh(ctx, b, out)
}

// oneByOne repeats a batch on the base. It reads the keys to be written, which start at
// index from, one by one, and records an error for each key whose history the base no
// longer has.
func (o *overlay) oneByOne(ctx context.Context, b *Batch, from int, s *state, missing []int) (*Results, error) {
	gets := b.Gets
	records := make([]*Record, len(gets))
	for i := max(0, from); i < len(gets); i++ {
		alone := o.below(b)
		alone.Gets = gets[i : i+1]
		got, err := o.base.Do(ctx, alone)
		if _, lost := errors.AsType[*GoneError](err); lost {
			s.keys[missing[i]].gone = err
			continue
		}
		if err != nil {
			return nil, err
		}
		records[i] = got.Gets[0]
	}
	rest := *b
	rest.Gets = gets[:max(0, from)]
	out, err := o.fromBase(ctx, &rest)
	if err != nil {
		return nil, err
	}
	copy(records, out.Gets)
	whole := *out
	whole.Gets = records
	return &whole, nil
}

// refresh resets the TTL of the branch's own items that searches have returned.
func (o *overlay) refresh(ctx context.Context, b *Batch, out *Results) error {
	if b.Past() {
		return nil
	}
	own := o.own(b)
	var records []**Record
	for i, found := range out.Searches {
		for j, f := range found {
			if b.Searches[i].Refresh && f.Record.TTL > 0 && f.Record.Seq > o.info.Base {
				own.Gets = append(own.Gets, Lookup{o.in(branchItems, f.Record.Namespace), f.Record.Key, true})
				records = append(records, &out.Searches[i][j].Record)
			}
		}
	}
	if records == nil {
		return nil
	}
	got, err := o.Backend.Do(ctx, own)
	if err != nil {
		return err
	}
	for i, r := range got.Gets {
		if r != nil && r.Seq == (*records[i]).Seq {
			fresh := **records[i]
			fresh.Expires = r.Expires
			*records[i] = &fresh
		}
	}
	return nil
}

// namespaces returns the namespaces that contain an item of the branch, or an item of
// the base that the branch has not hidden.
func (o *overlay) namespaces(ctx context.Context, b *Batch, mine, theirs []Namespace, marked map[string]mark) ([]Namespace, error) {
	var out []Namespace
	seen := map[string]bool{}
	for _, n := range mine {
		out = append(out, n[owned:])
		seen[n[owned:].Encode()] = true
	}
	hidden := map[string]int{}
	for id := range marked {
		n, err := DecodeNamespace(id)
		if err != nil {
			return nil, err
		}
		hidden[n[:len(n)-1].Encode()]++
	}
	for _, n := range theirs {
		name := n.Encode()
		switch {
		case seen[name] || isBranch(n):
			continue
		case hidden[name] > 0:
			below := o.below(b)
			below.Searches = []*Query{{Prefix: n, Limit: math.MaxInt32}}
			found, err := o.base.Do(ctx, below)
			if err != nil {
				return nil, err
			}
			if !slices.ContainsFunc(found.Searches[0], func(f Found) bool {
				_, is := marked[idOf(n, f.Record.Key)]
				return !is && slices.Equal(f.Record.Namespace, n)
			}) {
				continue
			}
		}
		out = append(out, n)
	}
	return out, nil
}

// layered is a search over several layers. The candidates of all layers are ranked
// together, so that results and scores equal those of a single store with the same
// items.
type layered struct {
	of    *Query
	parts []*candidates
}

// candidates are the candidates that a backend found for part of a search.
type candidates struct{ near, matching []Candidate }

func layer(q *Query) *layered { return &layered{of: q} }

// query returns the search for a layer in which up to hidden items may be hidden.
func (l *layered) query(hidden int) *Query {
	q := *l.of
	q.Refresh, q.Offset = false, 0
	if q.ByNewest() {
		q.Limit = l.of.Limit + l.of.Offset + hidden
		return &q
	}
	if q.Depth > 0 {
		q.Depth += hidden
	}
	q.collect = &candidates{}
	l.parts = append(l.parts, q.collect)
	return &q
}

// take keeps the candidates and returns all of them as results, so that their records
// are read.
func (c *candidates) take(near, matching []Candidate) []Ranked {
	*c = candidates{near, matching}
	var all []Ranked
	seen := map[int64]bool{}
	for _, of := range slices.Concat(near, matching) {
		if !seen[of.Seq] {
			seen[of.Seq] = true
			all = append(all, Ranked{Seq: of.Seq})
		}
	}
	return all
}

// merge returns the result of the search, given the results for the branch's own items
// and for the base.
func (l *layered) merge(mine, theirs []Found, marked map[string]mark) []Found {
	records := map[int64]*Record{}
	var newest []Found
	for _, f := range mine {
		r := outer(f.Record, marked[idOf(f.Record.Namespace[owned:], f.Record.Key)])
		records[r.Seq] = r
		newest = append(newest, Found{Record: r})
	}
	for _, f := range theirs {
		if _, hidden := marked[idOf(f.Record.Namespace, f.Record.Key)]; !hidden {
			records[f.Record.Seq] = f.Record
			newest = append(newest, Found{Record: f.Record})
		}
	}
	if l.of.ByNewest() {
		slices.SortFunc(newest, func(a, b Found) int { return cmp.Compare(b.Record.Seq, a.Record.Seq) })
		return page(newest, l.of.Limit, l.of.Offset)
	}
	var near, matching []Candidate
	visible := func(all []Candidate) (out []Candidate) {
		for _, c := range all {
			if records[c.Seq] != nil {
				out = append(out, c)
			}
		}
		return out
	}
	for _, p := range l.parts {
		near, matching = append(near, visible(p.near)...), append(matching, visible(p.matching)...)
	}
	if len(matching) > MaxMatches {
		slices.SortFunc(matching, func(a, b Candidate) int {
			return cmp.Or(cmp.Compare(different(b.Counts), different(a.Counts)), cmp.Compare(b.Seq, a.Seq))
		})
		matching = matching[:MaxMatches]
	}
	ranked := l.of.Rank(near, matching)
	found := make([]Found, len(ranked))
	for i, r := range ranked {
		found[i] = Found{Record: records[r.Seq], Ranked: r}
	}
	return found
}

// different returns the number of nonzero counts.
func different(counts []int) (n int) {
	for _, c := range counts {
		n += min(c, 1)
	}
	return n
}
