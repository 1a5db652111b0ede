package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

// described returns changes in short form.
func described(changes []store.Change) []string {
	out := make([]string, len(changes))
	for i, c := range changes {
		out[i] = fmt.Sprintf("%s %s %s", c.Kind, c.Namespace, c.Key)
		if c.Item != nil {
			out[i] += " " + string(c.Item.Value)
		}
	}
	return out
}

var past = []test{
	{"History", func(w *fixture) {
		w.put("a", "k", object{"v": 1}, store.PutOptions{Meta: object{"m": 1}})
		first := w.clock.Now()
		w.clock.pass(time.Minute)
		w.put("a", "k", object{"v": 2})
		w.put("a", "l", object{"v": 9})
		w.delete("a", "k")
		w.put("a", "k", object{"v": 3})
		history := must(w.History(w.Context(), ns("a"), "k"))(w)
		want(w, "changes", described(history), []string{`put ["a"] k {"v":3}`, `deleted ["a"] k`, `put ["a"] k {"v":2}`, `put ["a"] k {"v":1}`})
		oldest := history[3]
		want(w, "meta of the oldest", string(oldest.Item.Meta), `{"m":1}`)
		want(w, "time of the oldest", oldest.At, first)
		want(w, "version of the oldest", oldest.Item.Version, oldest.Version)
		for i := range 3 {
			if history[i].Version <= history[i+1].Version {
				w.Errorf("version %d precedes %d", history[i].Version, history[i+1].Version)
			}
		}
		want(w, "history of another namespace", len(must(w.History(w.Context(), ns("a/k"), "k"))(w)), 0)
	}},
	{"CountIncludesHistory", func(w *fixture) {
		count := func(prefix string, items, changes int) {
			w.Helper()
			i, c, err := w.Count(w.Context(), ns(prefix))
			w.ok(err)
			want(w, "items and changes under "+prefix, []int{i, c}, []int{items, changes})
		}
		count("", 0, 0)
		w.put("a", "k", object{"v": 1})
		w.put("a", "k", object{"v": 2})
		w.put("a/b", "k", object{"v": 3})
		w.put("ab", "k", object{"v": 4})
		w.put("a", "l", object{"v": 5}, store.PutOptions{TTL: time.Minute})
		w.delete("a", "k")
		count("", 4, 6)
		count("a", 3, 5)
		count("a/b", 1, 1)
		count("b", 0, 0)
		w.clock.pass(time.Hour)
		count("a", 3, 5)
		must(w.Sweep(w.Context()))(w)
		count("a", 3, 6)
		w.ok(w.Forget(w.Context(), ns("a"), "k"))
		count("a", 3, 4)
		w.ok(w.ForgetAll(w.Context(), ns("a")))
		count("a", 0, 0)
		count("", 1, 1)
		if _, _, err := w.Count(w.Context(), ns("a//b")); err == nil {
			w.Error("Count accepted an invalid prefix")
		}
	}},
	{"CountIncludesBranches", func(w *fixture) {
		count := func(prefix string, items, changes int) {
			w.Helper()
			i, c, err := w.Count(w.Context(), ns(prefix))
			w.ok(err)
			want(w, "items and changes under "+prefix, []int{i, c}, []int{items, changes})
		}
		w.put("a", "k", object{"v": 1})
		w.put("a", "l", object{"v": 1})
		w.put("b", "k", object{"v": 1})
		branch := must(w.Fork(w.Context(), store.Latest, store.BranchInfo{Name: "one"}))(w)
		count("a", 2, 2)
		for _, n := range []string{"a", "a/b", "a/b/c", "d"} {
			w.ok(branch.Put(w.Context(), ns(n), "k", object{"v": 2}, nil))
			w.ok(branch.Put(w.Context(), ns(n), "k", object{"v": 3}, nil))
		}
		w.ok(branch.Delete(w.Context(), ns("d"), "k", nil))
		count("a", 5, 8)
		count("a/b", 2, 4)
		count("d", 1, 3)
		other := must(branch.Fork(w.Context(), store.Latest, store.BranchInfo{Name: "two"}))(w)
		w.ok(other.Delete(w.Context(), ns("a"), "l", nil))
		w.ok(other.Delete(w.Context(), ns("b"), "k", nil))
		count("a", 6, 9)
		count("b", 2, 2)
		for _, n := range []string{"a", "d"} {
			w.ok(w.ForgetAll(w.Context(), ns(n)))
			count(n, 0, 0)
		}
		count("b", 2, 2)
	}},
	{"HistoryIsBounded", func(w *fixture) {
		s := w.with(store.Options{History: 3})
		for i := range 10 {
			w.ok(s.Put(w.Context(), ns("a"), "k", object{"v": i}, nil))
		}
		want(w, "history", described(must(s.History(w.Context(), ns("a"), "k"))(w)),
			[]string{`put ["a"] k {"v":9}`, `put ["a"] k {"v":8}`, `put ["a"] k {"v":7}`})
		s = w.with(store.Options{History: 1})
		w.ok(s.Delete(w.Context(), ns("a"), "k", nil))
		want(w, "history after the delete", described(must(s.History(w.Context(), ns("a"), "k"))(w)), []string{`deleted ["a"] k`})
	}},
	{"AsOfReadsThePast", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}})
		put := func(key, text string, opts *store.PutOptions) time.Time {
			w.ok(s.Put(w.Context(), ns("u/1"), key, object{"t": text}, opts))
			at := w.clock.Now()
			w.clock.pass(time.Minute)
			return at
		}
		before := w.clock.Now().Add(-time.Microsecond)
		t1 := put("a", "pizza", nil)
		t2 := put("b", "plumber", nil)
		t3 := put("a", "tennis", nil)
		t4 := put("c", "pasta", &store.PutOptions{TTL: 90 * time.Second})
		w.ok(s.Delete(w.Context(), ns("u/1"), "b", nil))
		t5 := w.clock.Now()
		t6 := w.clock.pass(time.Minute)
		must(s.Sweep(w.Context()))(w)
		all := func(at time.Time) string { return keys(must(s.AsOf(at).Search(w.Context(), nil, nil))(w)) }
		for i, test := range []struct {
			at   time.Time
			want string
		}{{time.Time{}, ""}, {before, ""}, {t1, "a"}, {t2.Add(-1), "a"}, {t2, "a b"}, {t3, "b a"}, {t4, "b a c"}, {t5, "a c"}, {t6, "a"}} {
			want(w, fmt.Sprint("items at time ", i), all(test.at), test.want)
		}
		for _, ranking := range []store.Ranking{store.Semantic, store.Keyword, store.Hybrid} {
			o := &store.SearchOptions{Query: "pizza tennis sport", Ranking: ranking, Limit: 1}
			want(w, "value found at t2", string(w.finds(s.AsOf(t2), "u", o, "a")[0].Value), `{"t":"pizza"}`)
			want(w, "value found at t4", string(w.finds(s.AsOf(t4), "u", o, "a")[0].Value), `{"t":"tennis"}`)
		}
		w.finds(s.AsOf(t2), "u", &store.SearchOptions{Filter: store.Eq("t", "pizza")}, "a")
		w.finds(s.AsOf(t3), "u", &store.SearchOptions{Filter: store.Eq("t", "pizza")}, "")
		w.finds(s.AsOf(t4), "u", &store.SearchOptions{Limit: 1, Offset: 1}, "a")
		item := must(s.AsOf(t2).Get(w.Context(), ns("u/1"), "a"))(w)
		want(w, "item at t2", string(item.Value), `{"t":"pizza"}`)
		if _, err := s.AsOf(before).Get(w.Context(), ns("u/1"), "a"); !errors.Is(err, store.ErrNotFound) {
			w.Errorf("item before its creation: %v", err)
		}
		want(w, "namespaces at t1", must(s.AsOf(t1).Namespaces(w.Context(), nil))(w), []store.Namespace{{"u", "1"}})
		want(w, "namespaces before the first put", must(s.AsOf(before).Namespaces(w.Context(), nil))(w), []store.Namespace(nil))
	}},
	{"AsOfIncludesWholeMicrosecond", func(w *fixture) {
		w.put("a", "k", object{"v": 1})
		w.put("a", "k", object{"v": 2})
		item := must(w.AsOf(w.clock.Now()).Get(w.Context(), ns("a"), "k"))(w)
		want(w, "value", string(item.Value), `{"v":2}`)
	}},
	{"UntilReadsBeforeVersion", func(w *fixture) {
		// The clock stands still, so only the version numbers distinguish the versions.
		w.put("a", "k", object{"v": 1})
		w.put("a", "l", object{"v": 1}, store.PutOptions{TTL: time.Minute})
		until := w.version() + 1
		w.put("a", "k", object{"v": 2})
		w.put("b", "m", object{"v": 2})
		w.delete("a", "l")
		want(w, "past items", w.until(until), []string{`a/k {"v":1}`, `a/l {"v":1}`})
		want(w, "current items", w.until(w.version()+1), []string{`a/k {"v":2}`, `b/m {"v":2}`})
		want(w, "items at version 1", w.until(1), []string{})
		w.clock.pass(2 * time.Minute)
		want(w, "past items without expired ones", w.until(until), []string{`a/k {"v":1}`})
		w.ok(w.Forget(w.Context(), ns("a"), "k"))
		want(w, "past items without forgotten ones", w.until(until), []string{})
	}},
	{"UntilFailsWithoutHistory", func(w *fixture) {
		limits := store.Sweep{Keep: 3}
		s := w.with(store.Options{History: 3})
		put := func(key string, n int) {
			for i := range n {
				w.ok(s.Put(w.Context(), ns("a"), key, object{"v": i}, nil))
			}
		}
		put("k", 2)
		put("same", 1)
		until := w.version() + 1
		put("k", 2)
		put("new", 2)
		want(w, "items within the history", w.until(until, limits), []string{`a/k {"v":1}`, `a/same {"v":0}`})
		put("k", 1)
		w.gone("k", until, limits)
		w.ok(s.Forget(w.Context(), ns("a"), "k"))
		want(w, "items without the forgotten one", w.until(until, limits), []string{`a/same {"v":0}`})
	}},
	{"UntilFailsAfterSweep", func(w *fixture) {
		s := w.with(store.Options{HistoryAge: time.Hour})
		limits := func() store.Sweep { return store.Sweep{Keep: 100, Before: w.clock.Now().Add(-time.Hour)} }
		w.put("a", "k", object{"v": 1})
		w.put("a", "l", object{"v": 1})
		until := w.version() + 1
		w.clock.pass(time.Minute)
		w.put("a", "k", object{"v": 2})
		w.clock.pass(time.Minute)
		want(w, "past items", w.until(until, limits()), []string{`a/k {"v":1}`, `a/l {"v":1}`})
		w.clock.pass(2 * time.Hour)
		must(s.Sweep(w.Context()))(w)
		w.gone("k", until, limits())
		w.ok(w.Forget(w.Context(), ns("a"), "k"))
		w.delete("a", "l")
		w.clock.pass(2 * time.Hour)
		must(s.Sweep(w.Context()))(w) // including the records of both ends
		w.gone("", until, limits())
	}},
}

// version returns the number of the latest change.
func (w *fixture) version() int64 {
	w.Helper()
	_, seq, err := w.backend.Changes(w.Context(), nil, 0, 0)
	w.ok(err)
	return seq
}

// until returns the items before a version, in order, read by searches, gets, and
// namespace listings.
func (w *fixture) until(version int64, limits ...store.Sweep) []string {
	w.Helper()
	all, err := w.readUntil(version, limits...)
	w.ok(err)
	return all
}

func (w *fixture) readUntil(version int64, limits ...store.Sweep) ([]string, error) {
	b := &store.Batch{Now: w.clock.Now(), Until: version, Searches: []*store.Query{{Limit: 100}}, Namespaces: []store.Namespace{nil}}
	for _, l := range limits {
		b.Limits = l
	}
	found, err := w.backend.Do(w.Context(), b)
	if err != nil {
		return nil, err
	}
	out := []string{}
	b.Searches, b.Namespaces = nil, nil
	spaces := map[string]bool{}
	for _, f := range found.Searches[0] {
		out = append(out, fmt.Sprintf("%s/%s %s", f.Record.Namespace[0], f.Record.Key, f.Record.Value))
		b.Gets = append(b.Gets, store.Lookup{Namespace: f.Record.Namespace, Key: f.Record.Key})
		spaces[f.Record.Namespace[0]] = true
	}
	want(w, "number of namespaces", len(found.Namespaces[0]), len(spaces))
	got, err := w.backend.Do(w.Context(), b)
	if err != nil {
		return nil, err
	}
	for i, r := range got.Gets {
		if r == nil || r.Seq != found.Searches[0][i].Record.Seq {
			w.Errorf("before version %d: search found %s, get %v", version, out[i], r)
		}
	}
	slices.Sort(out)
	return out, nil
}

// gone expects reads before a version to fail because of a key.
func (w *fixture) gone(key string, version int64, limits store.Sweep) {
	w.Helper()
	_, err := w.readUntil(version, limits)
	e, ok := errors.AsType[*store.GoneError](err)
	if !ok || e.Key != key || e.Version != version-1 {
		w.Errorf("search before version %d: %v, want a GoneError for key %q", version, err, key)
	}
	if key == "" {
		return
	}
	_, err = w.backend.Do(w.Context(), &store.Batch{Now: w.clock.Now(), Until: version, Limits: limits, Gets: []store.Lookup{{Namespace: ns("a"), Key: key}}})
	if e, ok := errors.AsType[*store.GoneError](err); !ok || e.Key != key {
		w.Errorf("get before version %d: %v, want a GoneError for key %q", version, err, key)
	}
}

// changeTimeout is the timeout for a change to arrive.
const changeTimeout = 30 * time.Second

// watch reads n changes.
func (w *fixture) watch(at string, after int64, n int) []store.Change {
	w.Helper()
	var changes []store.Change
	if n == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.Context(), changeTimeout)
	defer cancel()
	for c, err := range w.Watch(ctx, ns(at), after) {
		if err != nil {
			w.Fatalf("after %v: %v", described(changes), err)
		}
		changes = append(changes, c)
		if len(changes) == n {
			break
		}
	}
	return changes
}

var watching = []test{
	{"WatchResumes", func(w *fixture) {
		w.put("a", "k", object{"v": 1})
		w.put("b", "x", object{})
		w.put("a/b", "l", object{"v": 2})
		w.delete("a", "k")
		w.ok(w.Forget(w.Context(), ns("a/b"), "l"))
		w.put("ab", "y", object{})
		w.put("a", "m", object{"v": 3}, store.PutOptions{TTL: time.Minute})
		w.put("a", "n", object{"v": 4})
		w.ok(w.ForgetAll(w.Context(), ns("a/b")))
		w.ok(w.ForgetAll(w.Context(), ns("b")))
		w.put("a", "o", object{"v": 5})
		all := w.watch("a", 0, 6)
		want(w, "all changes", described(all), []string{
			`put ["a"] k {"v":1}`, `deleted ["a"] k`, `put ["a"] m {"v":3}`, `put ["a"] n {"v":4}`, `forgotten ["a" "b"] `, `put ["a"] o {"v":5}`})
		for i := range all {
			want(w, fmt.Sprint("changes after ", i), described(w.watch("a", all[i].Version, 5-i)), described(all[i+1:]))
		}
		// Forgetting a whole prefix notifies watchers of a longer prefix.
		want(w, "changes under a longer prefix", described(w.watch("b/c", 0, 1)), []string{`forgotten ["b"] `})
		w.clock.pass(time.Minute)
		must(w.Sweep(w.Context()))(w)
		want(w, "changes without expired items", described(w.watch("a", all[1].Version, 4)),
			[]string{`put ["a"] n {"v":4}`, `forgotten ["a" "b"] `, `put ["a"] o {"v":5}`, `expired ["a"] m`})
	}},
	{"WatchIsLive", func(w *fixture) {
		w.put("a", "before", object{})
		ctx, cancel := context.WithTimeout(w.Context(), changeTimeout)
		defer cancel()
		watched, done := make(chan string), make(chan error, 1)
		go func() {
			defer close(watched)
			for c, err := range w.Watch(ctx, ns("a"), 0) {
				if err != nil {
					done <- err
					return
				}
				watched <- c.Key
			}
		}()
		want(w, "first change", <-watched, "before")
		for i := range 20 {
			w.put("b", "x", object{})
			w.put("a", fmt.Sprint(i), object{})
			want(w, "change", <-watched, fmt.Sprint(i))
		}
		cancel()
		if key, ok := <-watched; ok {
			w.Errorf("got %q after the end", key)
		}
		if err := <-done; !errors.Is(err, context.Canceled) {
			w.Errorf("watch ended with %v", err)
		}
	}},
	{"WatchLatestSkipsPast", func(w *fixture) {
		w.put("a", "before", object{})
		_, seq, err := w.backend.Changes(w.Context(), nil, 1<<62, 0)
		w.ok(err)
		want(w, "latest version", seq, w.get("a", "before").Version)
		w.put("a", "after", object{})
		want(w, "next change", w.watch("a", seq, 1)[0].Key, "after")
	}},
	{"WatchPagesThroughManyChanges", func(w *fixture) {
		const n = 700
		var ops []store.Op
		for i := range n {
			ops = append(ops, store.PutOp{Namespace: ns(fmt.Sprint("a/", i%2)), Key: fmt.Sprint(i), Value: object{}})
		}
		must(w.Batch(w.Context(), ops...))(w)
		last := int64(0)
		for i, c := range w.watch("a/1", 0, n/2) {
			if want := fmt.Sprint(2*i + 1); c.Key != want || c.Version <= last {
				w.Fatalf("change %d: key %s, version %d after %d", i, c.Key, c.Version, last)
			}
			last = c.Version
		}
	}},
	{"SweptRecordEndsOldWatches", func(w *fixture) {
		s := w.with(store.Options{HistoryAge: time.Hour})
		w.put("a", "k", object{})
		w.put("a", "l", object{})
		at := w.get("a", "l").Version
		w.delete("a", "k")
		w.clock.pass(2 * time.Hour)
		must(s.Sweep(w.Context()))(w)
		w.put("a", "m", object{})
		for _, err := range s.Watch(w.Context(), ns("a"), at) {
			if !errors.Is(err, store.ErrCompacted) {
				w.Errorf("resuming from %d: %v", at, err)
			}
		}
		want(w, "changes from the start", described(w.watch("a", 0, 2)), []string{`put ["a"] l {}`, `put ["a"] m {}`})
		want(w, "changes after the swept record", described(w.watch("a", at+1, 1)), []string{`put ["a"] m {}`})
	}},
}

var reindexing = []test{
	{"NewModelReindexes", func(w *fixture) {
		old := w.with(store.Options{})
		w.menu(old)
		w.ok(old.Put(w.Context(), ns("u/1"), "hidden", object{"text": "pizza"}, &store.PutOptions{NoIndex: true}))
		w.ok(old.Put(w.Context(), ns("u/1"), "food1", object{"text": "I like pizza"}, &store.PutOptions{Index: []string{"text"}}))
		for _, model := range []string{"1", "2"} {
			var calls []string
			s := w.with(store.Options{Embedder: topics{model: model, calls: &calls}})
			w.finds(s, "u", &store.SearchOptions{Query: "hungry", Limit: 2}, "food1 food2")
			// The query and five versions; the sixth is not indexed.
			want(w, fmt.Sprint("texts embedded by model ", model), len(calls), 6)
			w.finds(s, "u", &store.SearchOptions{Query: "hungry", Limit: 2}, "food1 food2")
			want(w, "texts embedded by the second search", len(calls), 6)
			want(w, "versions left to reindex", must(s.Reindex(w.Context()))(w), 0)
		}
		want(w, "versions", len(must(w.History(w.Context(), ns("u/1"), "food1"))(w)), 2)
	}},
	{"NewFieldsReindex", func(w *fixture) {
		s := w.with(store.Options{Fields: []string{"a"}})
		for i := range 200 {
			w.ok(s.Put(w.Context(), ns("u"), fmt.Sprint(i), object{"a": fmt.Sprint("left", i), "b": fmt.Sprint("right", i)}, nil))
		}
		w.ok(s.Put(w.Context(), ns("u"), "own", object{"a": "left7", "b": "right7"}, &store.PutOptions{Index: []string{"a"}}))
		w.finds(s, "u", &store.SearchOptions{Query: "right7"}, "")
		s = w.with(store.Options{Fields: []string{"b"}})
		w.finds(s, "u", &store.SearchOptions{Query: "right7"}, "7")
		w.finds(s, "u", &store.SearchOptions{Query: "left7"}, "own")
	}},
	{"WarnsOfAnotherModel", func(w *fixture) {
		var log bytes.Buffer
		open := func(e store.Embedder) *store.Store {
			log.Reset()
			return w.with(store.Options{Embedder: e, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		}
		warned := func(what string, models ...string) {
			w.Helper()
			n := min(1, len(models))
			if strings.Count(log.String(), "level=WARN") != n || strings.Count(log.String(), "Store.Reindex") != n {
				w.Errorf("%s: log is %q, want %d warnings", what, log.String(), n)
			}
			for _, m := range models {
				if !strings.Contains(log.String(), m) {
					w.Errorf("%s: log is %q without %s", what, log.String(), m)
				}
			}
		}
		food := &store.SearchOptions{Query: "hungry", Limit: 1}
		s := open(nil)
		w.ok(s.Put(w.Context(), ns("u"), "food", object{"text": "pizza"}, nil))
		s = open(topics{})
		w.finds(s, "u", food, "food")
		warned("items without vectors")
		s = open(topics{})
		w.finds(s, "u", food, "food")
		w.ok(s.Put(w.Context(), ns("u"), "food", object{"text": "pasta"}, nil))
		warned("same model")

		s = open(topics{model: "2"})
		must(s.Get(w.Context(), ns("u"), "food", nil))(w)
		warned("get")
		for range 2 {
			w.ok(s.Put(w.Context(), ns("u"), "food", object{"text": "pizza"}, nil))
			w.finds(s, "u", food, "food")
			warned("put with another model", `items="topics (4 dimensions)"`, `store="topics2 (4 dimensions)"`)
		}
		s = open(topics{model: "2"})
		w.finds(s, "u", food, "food")
		warned("model of all items")
		s = open(store.NewHashEmbedder(8))
		must(s.Search(w.Context(), ns("u"), food))(w)
		warned("search with another model", `items="topics2 (4 dimensions)"`, `store="treadle-hash-1 (8 dimensions)"`)
		s = open(store.NewHashEmbedder(16))
		must(s.Search(w.Context(), ns("u"), food))(w)
		warned("another dimension", `items="treadle-hash-1 (8 dimensions)"`, `store="treadle-hash-1 (16 dimensions)"`)
		s = open(nil)
		must(s.Search(w.Context(), ns("u"), food))(w)
		warned("no embedder", `items="treadle-hash-1 (16 dimensions)"`, `store="no embedder"`)
	}},
	{"ReindexContinuesAfterError", func(w *fixture) {
		for i := range 300 {
			w.put("u", fmt.Sprint(i), object{"t": fmt.Sprint("pizza ", i)})
		}
		failing := &failsAfter{Embedder: topics{}, calls: 1}
		s := w.with(store.Options{Embedder: failing})
		first, err := s.Reindex(w.Context())
		if !errors.Is(err, errBroken) {
			w.Fatalf("reindex: %v", err)
		}
		failing.calls = 100
		second := must(s.Reindex(w.Context()))(w)
		if first == 0 || first+second != 300 {
			w.Errorf("%d and %d versions indexed", first, second)
		}
	}},
}
