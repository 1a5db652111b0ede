package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/treadle-go/treadle/store"
)

// Branches tests store branches on a backend: random histories of writes, forks,
// merges, and discards, whose results are compared with a simple model. open is like
// the argument of [Run], and seeds is the number of histories.
func Branches(t *testing.T, open func(t *testing.T) store.Backend, seeds int) {
	t.Helper()
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newHistory(t, seed, open(t))
			for range 80 {
				w.step()
			}
			w.compareAll()
		})
	}
}

// line is the trunk or a branch in the model, with everything ever written to it.
type line struct {
	name   string
	parent *line
	base   int64
	state  store.BranchState
	writes []written
	store  *store.Store
}

// written is a write in the model. Without content, it is the end of an item.
type written struct {
	version   int64
	key       string
	content   *content
	forgotten bool
}

type content struct {
	text    string
	ttl     time.Duration
	expires time.Time
}

func (c *content) same(o *content) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.text == o.text && c.ttl == o.ttl
}

// at returns the content of a key on the line at a version, or nil.
func (l *line) at(key string, version int64, now time.Time) *content {
	for _, w := range slices.Backward(l.writes) {
		if w.key != key || w.version > version {
			continue
		}
		if w.content != nil && !w.content.expires.IsZero() && !w.content.expires.After(now) {
			return nil
		}
		return w.content
	}
	if l.parent == nil {
		return nil
	}
	return l.parent.at(key, l.base, now)
}

func (l *line) forget(key string, version int64) {
	if l.parent == nil {
		l.writes = slices.DeleteFunc(l.writes, func(w written) bool { return w.key == key })
		return
	}
	for i := range l.writes {
		if l.writes[i].key == key {
			l.writes[i].content = nil
		}
	}
	l.writes = append(l.writes, written{version: version, key: key, forgotten: true})
}

type history struct {
	*testing.T
	rnd      *rand.Rand
	clock    *clock
	lines    []*line // the trunk first
	versions []int64 // versions at which a branch can start
	last     string
}

func newHistory(t *testing.T, seed uint64, b store.Backend) *history {
	w := &history{T: t, rnd: rand.New(rand.NewPCG(seed, 5)), clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, versions: []int64{0}}
	s, err := store.New(b, &store.Options{Now: w.clock.Now, Embedder: topics{}, NoRefresh: true, History: 1000})
	if err != nil {
		t.Fatal(err)
	}
	w.lines = []*line{{state: store.Open, store: s}}
	return w
}

var branchKeys = []string{"a/x", "a/y", "a/b/x", "c/x", "c/z"}

func split(key string) (store.Namespace, string) {
	parts := strings.Split(key, "/")
	return parts[:len(parts)-1], parts[len(parts)-1]
}

func (w *history) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", w.last, err)
	}
}

func (w *history) version() int64 {
	v, err := w.lines[0].store.Version(w.Context())
	w.must(err)
	return v
}

func (w *history) open() []*line {
	return slices.DeleteFunc(slices.Clone(w.lines), func(l *line) bool { return l.state != store.Open })
}

func (w *history) step() {
	open := w.open()
	l := open[w.rnd.IntN(len(open))]
	key := branchKeys[w.rnd.IntN(len(branchKeys))]
	n, k := split(key)
	if w.rnd.IntN(3) == 0 {
		w.clock.pass(time.Duration(w.rnd.IntN(60)) * time.Second)
	}
	switch r := w.rnd.IntN(100); {
	case r < 40:
		w.put(l, key)
	case r < 52:
		w.last = fmt.Sprintf("delete %s in %q", key, l.name)
		had := l.at(key, 1<<62, w.clock.Now()) != nil
		w.must(l.store.Delete(w.Context(), n, k, nil))
		if had {
			l.writes = append(l.writes, written{version: w.version(), key: key})
		}
	case r < 56:
		w.last = fmt.Sprintf("forget %s in %q", key, l.name)
		w.must(l.store.Forget(w.Context(), n, k))
		if l.parent != nil {
			l.forget(key, w.version())
			break
		}
		for _, other := range w.lines {
			other.writes = slices.DeleteFunc(other.writes, func(w written) bool { return w.key == key })
		}
	case r < 58:
		w.forgetAll(l)
	case r < 72:
		w.fork(w.lines[w.rnd.IntN(len(w.lines))])
	case r < 82:
		w.merge(l)
	case r < 88:
		w.discard(w.lines[w.rnd.IntN(len(w.lines))])
	case r < 94:
		w.diff(w.lines[w.rnd.IntN(len(w.lines))], w.lines[w.rnd.IntN(len(w.lines))])
	default:
		w.last = "sweep"
		_, err := w.lines[0].store.Sweep(w.Context())
		w.must(err)
	}
	w.versions = append(w.versions, w.version())
	w.compare(l)
}

// texts are found by keyword and semantic queries.
var texts = []string{"pizza for lunch", "the plumber has a job", "tennis and pizza", "swim", "pasta pasta", "nothing known"}

func (w *history) put(l *line, key string) {
	n, k := split(key)
	now := w.clock.Now()
	c := &content{text: texts[w.rnd.IntN(len(texts))]}
	o := &store.PutOptions{}
	if w.rnd.IntN(4) == 0 {
		c.ttl = time.Minute
		c.expires = now.Add(c.ttl)
		o.TTL = c.ttl
	}
	w.last = fmt.Sprintf("put %s %q in %q", key, c.text, l.name)
	if w.rnd.IntN(2) == 0 { // conditional on the version that the branch sees
		item, err := l.store.Get(w.Context(), n, k, nil)
		if o.IfAbsent = errors.Is(err, store.ErrNotFound); !o.IfAbsent {
			w.must(err)
			o.IfVersion = item.Version
		}
	}
	w.must(l.store.Put(w.Context(), n, k, object{"t": c.text}, o))
	l.writes = append(l.writes, written{version: w.version(), key: key, content: c})
	o.IfVersion, o.IfAbsent = 0, true
	if _, conflict := errors.AsType[*store.ConflictError](l.store.Put(w.Context(), n, k, object{}, o)); !conflict {
		w.Errorf("%s: second put with IfAbsent succeeded", w.last)
	}
}

func (w *history) forgetAll(l *line) {
	w.last = fmt.Sprintf("forget all of a in %q", l.name)
	now := w.clock.Now()
	w.must(l.store.ForgetAll(w.Context(), store.Namespace{"a"}))
	for _, key := range branchKeys {
		if !strings.HasPrefix(key, "a/") {
			continue
		}
		if l.parent == nil {
			for _, other := range w.lines {
				other.writes = slices.DeleteFunc(other.writes, func(w written) bool { return w.key == key })
			}
			continue
		}
		wrote := slices.ContainsFunc(l.writes, func(w written) bool { return w.key == key })
		if wrote || l.at(key, 1<<62, now) != nil {
			l.forget(key, w.version())
		}
	}
}

func (w *history) fork(l *line) {
	at := w.versions[w.rnd.IntN(len(w.versions))]
	if at < l.base || w.rnd.IntN(2) == 0 {
		at = w.version()
	}
	child := &line{name: fmt.Sprint("b", len(w.lines)), parent: l, base: at, state: store.Open}
	w.last = fmt.Sprintf("fork %s of %q at %d", child.name, l.name, at)
	var err error
	child.store, err = l.store.Fork(w.Context(), at, store.BranchInfo{Name: child.name})
	if l.state == store.Discarded {
		if _, ended := errors.AsType[*store.BranchError](err); !ended {
			w.Fatalf("%s: got error %v", w.last, err)
		}
		return
	}
	w.must(err)
	w.lines = append(w.lines, child)
}

func (w *history) merge(l *line) {
	if l.parent == nil {
		return
	}
	w.last = fmt.Sprintf("merge %q", l.name)
	target := l.parent
	for target.state != store.Open {
		target = target.parent
	}
	now := w.clock.Now()
	type change struct {
		key       string
		to        *content
		forgotten bool
	}
	var changes []change
	conflicts := map[string]bool{}
	for _, key := range branchKeys {
		i := slices.IndexFunc(l.writes, func(w written) bool { return w.key == key })
		if i < 0 {
			continue
		}
		forgotten := false
		for _, w := range l.writes {
			if w.key == key {
				forgotten = w.forgotten
			}
		}
		base, mine, theirs := l.parent.at(key, l.base, now), l.at(key, 1<<62, now), target.at(key, 1<<62, now)
		if !theirs.same(base) {
			if mine.same(theirs) {
				continue
			}
			conflicts[key] = true
			if len(key)%2 == 0 { // see resolve
				mine = theirs
			}
		}
		switch {
		case mine == nil && theirs == nil && !forgotten, mine != nil && mine.same(theirs):
		case mine == nil:
			changes = append(changes, change{key, nil, forgotten})
		default:
			c := &content{text: mine.text, ttl: mine.ttl}
			if c.ttl > 0 {
				c.expires = now.Add(c.ttl)
			}
			changes = append(changes, change{key, c, false})
		}
	}
	if len(conflicts) > 0 {
		err := l.store.Merge(w.Context(), nil)
		e, ok := errors.AsType[*store.MergeError](err)
		if !ok || len(e.Conflicts) != len(conflicts) {
			w.Fatalf("%s: got error %v, want conflicts %v", w.last, err, conflicts)
		}
		for _, c := range e.Conflicts {
			if !conflicts[key(c.Namespace, c.Key)] {
				w.Errorf("%s: unexpected conflict for %v %s", w.last, c.Namespace, c.Key)
			}
		}
		w.compare(target)
	}
	w.must(l.store.Merge(w.Context(), &store.MergeOptions{Resolve: func(c store.Conflict) (*store.Item, error) {
		if len(key(c.Namespace, c.Key))%2 == 0 {
			return c.Target, nil
		}
		return c.Branch, nil
	}}))
	l.state = store.Merged
	version := w.version()
	for _, c := range changes {
		if c.forgotten {
			target.forget(c.key, version)
			continue
		}
		target.writes = append(target.writes, written{version: version, key: c.key, content: c.to})
	}
	if _, ended := errors.AsType[*store.BranchError](l.store.Put(w.Context(), store.Namespace{"a"}, "x", object{}, nil)); !ended {
		w.Errorf("%s: write succeeded after the merge", w.last)
	}
	w.compare(target)
	w.compare(l)
}

func key(n store.Namespace, k string) string { return strings.Join(append(slices.Clone(n), k), "/") }

func (w *history) discard(l *line) {
	w.last = fmt.Sprintf("discard %q", l.name)
	if l.parent == nil || l.state == store.Discarded {
		return
	}
	var needed bool
	var merged []*line // discarded with it
	var visit func(l *line)
	visit = func(l *line) {
		for _, c := range w.lines {
			if c.parent == l && c.state == store.Merged {
				visit(c)
				merged = append(merged, c)
			}
			needed = needed || c.parent == l && c.state == store.Open
		}
	}
	visit(l)
	err := l.store.Discard(w.Context())
	if e, ok := errors.AsType[*store.BranchError](err); needed && (!ok || len(e.Children) == 0) {
		w.Fatalf("%s: got error %v, want one about its child branches", w.last, err)
	}
	if needed {
		return
	}
	for _, c := range merged {
		c.state = store.Discarded
	}
	w.must(err)
	l.state = store.Discarded
}

func (w *history) diff(a, b *line) {
	if a.state == store.Discarded || b.state == store.Discarded {
		return
	}
	w.last = fmt.Sprintf("diff of %q and %q", a.name, b.name)
	got, err := a.store.Diff(w.Context(), b.store)
	w.must(err)
	var want, have []string
	for _, d := range got {
		have = append(have, key(d.Namespace, d.Key))
	}
	now := w.clock.Now()
	for _, key := range branchKeys {
		if !a.at(key, 1<<62, now).same(b.at(key, 1<<62, now)) {
			want = append(want, key)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		w.Errorf("%s: %v, want %v", w.last, have, want)
	}
}

func (w *history) compareAll() {
	for _, l := range w.lines {
		if l.state == store.Discarded {
			if _, err := l.store.Search(w.Context(), nil, nil); err == nil {
				w.Errorf("discarded branch %q is still readable", l.name)
			}
			continue
		}
		w.compare(l)
	}
	all, err := w.lines[0].store.Branches(w.Context())
	w.must(err)
	states := map[string]store.BranchState{}
	for _, b := range all {
		states[b.Name] = b.State
	}
	for _, l := range w.lines[1:] {
		if states[l.name] != l.state {
			w.Errorf("state of branch %q: got %q, want %q", l.name, states[l.name], l.state)
		}
	}
}

// compare compares the items of a line with the model, and its query results with those
// of a store that contains only these items.
func (w *history) compare(l *line) {
	w.Helper()
	if l.state == store.Discarded {
		return
	}
	now := w.clock.Now()
	items, err := l.store.Search(w.Context(), nil, &store.SearchOptions{Limit: 100})
	w.must(err)
	var have, want []string
	spaces := map[string]bool{}
	alone, err := store.NewMemory(&store.Options{Now: w.clock.Now, Embedder: topics{}})
	w.must(err)
	for _, item := range items {
		have = append(have, fmt.Sprintf("%s %s %v", key(item.Namespace, item.Key), item.Value, item.TTL))
		w.must(alone.Put(w.Context(), item.Namespace, item.Key, item.Value, nil))
		got, err := l.store.Get(w.Context(), item.Namespace, item.Key, nil)
		w.must(err)
		if got.Version != item.Version || !got.Created.Equal(item.Created) || got.Created.After(got.Updated) {
			w.Errorf("%s: %q: get %+v, search %+v", w.last, l.name, got, item)
		}
	}
	for _, k := range branchKeys {
		if c := l.at(k, 1<<62, now); c != nil {
			want = append(want, fmt.Sprintf("%s %s %v", k, raw(object{"t": c.text}), c.ttl))
			n, _ := split(k)
			spaces[n.Encode()] = true
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		w.Fatalf("after %s, %q (base %d): got\n%v, want\n%v", w.last, l.name, l.base, have, want)
	}
	listed, err := l.store.Namespaces(w.Context(), nil)
	w.must(err)
	if len(listed) != len(spaces) {
		w.Errorf("after %s, %q lists %v", w.last, l.name, listed)
	}
	for _, o := range []store.SearchOptions{
		{Query: "pizza and tennis", Ranking: store.Hybrid}, {Query: "the pasta pizza job", Ranking: store.Keyword, Explain: true},
		{Query: "sport", Ranking: store.Semantic, Limit: 2, Offset: 1}, {Filter: store.Eq("t", "swim")}, {Limit: 2},
	} {
		prefix := store.Namespace(nil)
		if w.rnd.IntN(2) == 0 {
			prefix = store.Namespace{"a"}
		}
		if got, want := w.answers(l.store, prefix, o), w.answers(alone, prefix, o); !slices.Equal(got, want) {
			w.Errorf("after %s, %q: search %+v under %v: got %v, want %v", w.last, l.name, o, prefix, got, want)
		}
	}
}

func (w *history) answers(s *store.Store, prefix store.Namespace, o store.SearchOptions) (out []string) {
	items, err := s.Search(w.Context(), prefix, &o)
	w.must(err)
	for _, item := range items {
		out = append(out, fmt.Sprintf("%s %.6f", key(item.Namespace, item.Key), item.Score))
	}
	return out
}
