package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

// exported returns an export of the store.
func exported(w *fixture, s *store.Store, prefixes ...store.Namespace) string {
	w.Helper()
	var b bytes.Buffer
	n, err := s.Export(w.Context(), &b, prefixes...)
	w.ok(err)
	if lines := strings.Count(b.String(), "\n"); lines != n+2 {
		w.Errorf("export of %d versions contains %d lines", n, lines)
	}
	return b.String()
}

func imported(w *fixture, s *store.Store, file string) *store.ImportReport {
	w.Helper()
	return must(s.Import(w.Context(), strings.NewReader(file)))(w)
}

// another returns an in-memory store with the same clock.
func (w *fixture) another(o store.Options) *store.Store {
	w.Helper()
	o.Now = w.clock.Now
	return must(store.NewMemory(&o))(w)
}

// lived makes changes of every kind in a store.
func (w *fixture) lived(s *store.Store) {
	w.Helper()
	put := func(at, key string, value any, opts *store.PutOptions) {
		w.ok(s.Put(w.Context(), ns(at), key, value, opts))
		w.clock.pass(time.Minute)
	}
	put("u/ada", "tea", object{"text": "green tea"}, &store.PutOptions{Meta: object{"provenance": object{"run": "r1"}, "n": 1.50}})
	put("u/ada", "tea", object{"text": "black tea <3 & more"}, nil)
	put("u/bob", "job", object{"text": "plumber"}, &store.PutOptions{TTL: time.Hour})
	put("u/ada", "gone", object{"text": "pizza"}, nil)
	w.ok(s.Delete(w.Context(), ns("u/ada"), "gone", nil))
	put("u/ada", "back", object{"text": "pasta"}, &store.PutOptions{TTL: 5 * time.Minute})
	w.clock.pass(10 * time.Minute)
	must(s.Sweep(w.Context()))(w)
	put("u/ada", "back", object{"text": "pasta again"}, nil)
	put("u/ada", "short", object{"text": "tennis"}, &store.PutOptions{TTL: 2 * time.Minute})
	for range 4 { // each read resets its TTL, far beyond its first two minutes
		must(s.Get(w.Context(), ns("u/ada"), "short", nil))(w)
		w.clock.pass(time.Minute)
	}
	put("u/é/\x00", "k.%", object{"text": "love"}, &store.PutOptions{NoIndex: true})
	put("u/ada", "paths", object{"a": "work", "b": "pizza"}, &store.PutOptions{Index: []string{"a"}})
	put("u/ada", "secret", object{"text": "x"}, nil)
	w.ok(s.Forget(w.Context(), ns("u/ada"), "secret"))
}

var travel = []test{
	{"ExportIncludesHistory", func(w *fixture) {
		o := store.Options{Embedder: topics{}}
		here, there := w.with(o), w.another(o)
		w.lived(there)
		file := exported(w, there)
		if strings.Contains(file, "secret") {
			w.Error("export contains a forgotten item")
		}
		report := imported(w, here, file)
		want(w, "versions added", report.Versions, strings.Count(file, "\n")-2)
		want(w, "export of the import", exported(w, here), file)
		third := w.another(o)
		imported(w, third, exported(w, here))
		want(w, "export of the second import", exported(w, third), file)
		start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		for d := time.Duration(0); d < 35*time.Minute; d += 30 * time.Second {
			search := func(s *store.Store) string {
				return keys(must(s.AsOf(start.Add(d)).Search(w.Context(), nil, &store.SearchOptions{Limit: 100}))(w))
			}
			want(w, fmt.Sprint("items after ", d), search(here), search(there))
		}
		found := func(s *store.Store, query string) string {
			return keys(must(s.Search(w.Context(), nil, &store.SearchOptions{Query: query, NoRefresh: true}))(w))
		}
		for _, query := range []string{"pasta", "plumber", "love", "work"} {
			want(w, "items for "+query, found(here, query), found(there, query))
		}
	}},
	{"ImportingTwiceAddsNothing", func(w *fixture) {
		w.lived(w.Store)
		file := exported(w, w.Store)
		for range 2 {
			want(w, "report", imported(w, w.Store, file), &store.ImportReport{Same: strings.Count(file, "\n") - 2})
		}
		want(w, "export", exported(w, w.Store), file)
	}},
	{"ImportAddsNewerVersions", func(w *fixture) {
		there := w.another(store.Options{})
		w.lived(there)
		imported(w, w.Store, exported(w, there))
		w.ok(there.Put(w.Context(), ns("u/ada"), "tea", object{"text": "no tea"}, nil))
		w.ok(there.Delete(w.Context(), ns("u/ada"), "back", nil))
		w.clock.pass(2 * time.Hour)
		must(w.Sweep(w.Context()))(w) // each store detects expired items by itself
		w.clock.pass(time.Second)
		must(there.Sweep(w.Context()))(w)
		w.ok(there.Put(w.Context(), ns("u/bob"), "job", object{"text": "tennis"}, nil))
		report := imported(w, w.Store, exported(w, there))
		want(w, "versions added and conflicts", []int{report.Versions, len(report.Conflicts)}, []int{3, 0})
		want(w, "tea", string(w.get("u/ada", "tea").Value), `{"text":"no tea"}`)
		want(w, "job", string(w.get("u/bob", "job").Value), `{"text":"tennis"}`)
	}},
	{"ImportKeepsNewerChange", func(w *fixture) {
		there := w.another(store.Options{})
		w.lived(there)
		imported(w, w.Store, exported(w, there))
		w.put("u/ada", "tea", object{"text": "here first"})
		w.clock.pass(time.Minute)
		w.ok(there.Put(w.Context(), ns("u/ada"), "tea", object{"text": "there last"}, nil))
		w.ok(there.Put(w.Context(), ns("u/ada"), "paths", object{"a": "there first"}, nil))
		w.clock.pass(time.Minute)
		w.put("u/ada", "paths", object{"a": "here last"})
		w.delete("u/ada", "back")
		file := exported(w, there)
		report := imported(w, w.Store, file)
		want(w, "conflicts", described(report.Conflicts), []string{`put ["u" "ada"] paths {"a":"here last"}`})
		want(w, "versions added", report.Versions, 1)
		want(w, "tea", described(must(w.History(w.Context(), ns("u/ada"), "tea"))(w))[:2],
			[]string{`put ["u" "ada"] tea {"text":"there last"}`, `put ["u" "ada"] tea {"text":"here first"}`})
		want(w, "item deleted here", described(must(w.History(w.Context(), ns("u/ada"), "back"))(w))[0], `deleted ["u" "ada"] back`)
		again := imported(w, w.Store, file)
		want(w, "added by the second import", again.Versions, 0)
		want(w, "conflicts of the second import", described(again.Conflicts), described(report.Conflicts))
	}},
	{"ImportRestoresForgottenItems", func(w *fixture) {
		w.lived(w.Store)
		file := exported(w, w.Store)
		w.ok(w.Forget(w.Context(), ns("u/ada"), "tea"))
		w.ok(w.ForgetAll(w.Context(), ns("u/bob")))
		w.ok(w.ForgetAll(w.Context(), ns("u/é")))
		imported(w, w.Store, file)
		want(w, "tea", len(must(w.History(w.Context(), ns("u/ada"), "tea"))(w)), 3) // including the record that it was forgotten
		want(w, "job", string(w.get("u/bob", "job").Value), `{"text":"plumber"}`)
		fresh := w.another(store.Options{})
		imported(w, fresh, exported(w, w.Store))
		want(w, "versions", strings.Count(exported(w, fresh), "\n"), strings.Count(file, "\n"))
	}},
	{"ImportBoundsHistory", func(w *fixture) {
		there := w.another(store.Options{History: 1})
		w.lived(there)
		file := exported(w, there) // includes end records of items without other records
		imported(w, w.Store, file)
		want(w, "export", exported(w, w.Store), file)
		long := w.another(store.Options{})
		for i := range 6 {
			w.ok(long.Put(w.Context(), ns("l"), "k", object{"v": i}, nil))
			w.clock.pass(time.Minute)
		}
		s := w.with(store.Options{History: 2})
		want(w, "added", imported(w, s, exported(w, long)).Versions, 6)
		want(w, "history", described(must(s.History(w.Context(), ns("l"), "k"))(w)), []string{`put ["l"] k {"v":5}`, `put ["l"] k {"v":4}`})
		want(w, "second import", imported(w, s, exported(w, long)), &store.ImportReport{Same: 2, Older: 4})
		want(w, "created", w.get("l", "k").Created, must(long.Get(w.Context(), ns("l"), "k", nil))(w).Created)
	}},
	{"ImportStopsAtDamagedLine", func(w *fixture) {
		there := w.another(store.Options{})
		for i := range 5 {
			w.ok(there.Put(w.Context(), ns("a"), fmt.Sprint("k", i), object{"v": i}, nil))
		}
		file := exported(w, there)
		lines := strings.SplitAfter(file, "\n")
		damaged := strings.Join(lines[:3], "") + strings.Replace(lines[3], `"kind"`, `"kidn"`, 1) + strings.Join(lines[4:], "")
		report, err := w.Import(w.Context(), strings.NewReader(damaged))
		e, ok := errors.AsType[*store.ImportError](err)
		if !ok || e.Line != 4 || report.Versions != 2 {
			w.Fatalf("got error %v and %d imported versions, want line 4 and 2", err, report.Versions)
		}
		want(w, "items", keys(must(w.Search(w.Context(), nil, nil))(w)), "k0 k1")
		want(w, "whole file", imported(w, w.Store, file), &store.ImportReport{Versions: 3, Same: 2})
		want(w, "export", exported(w, w.Store), file)
	}},
	{"ExportByPrefix", func(w *fixture) {
		w.lived(w.Store)
		fresh := w.another(store.Options{})
		imported(w, fresh, exported(w, w.Store, ns("u/bob"), ns("u/é"), ns("u/bob"), ns("x")))
		want(w, "items", keys(must(fresh.Search(w.Context(), nil, nil))(w)), "job k.%")
	}},
}

// travel compares exports, or imports an earlier export.
func (w *comparison) travel() {
	if slices.Contains(w.without, "imports") {
		return
	}
	prefix := w.prefix()
	if w.file != "" && w.rnd.IntN(2) == 0 {
		w.last = "import"
		both(w, func(_ int, s *store.Store) ([]store.Change, error) {
			r, err := s.Import(w.Context(), strings.NewReader(w.file))
			return append(r.Conflicts, store.Change{Key: fmt.Sprint(r.Versions, r.Same)}), err
		})
		return
	}
	w.last = fmt.Sprintf("export %v", prefix)
	both(w, func(_ int, s *store.Store) (string, error) {
		var b strings.Builder
		_, err := s.Export(w.Context(), &b, prefix)
		w.file = b.String()
		return w.file, err
	})
}
