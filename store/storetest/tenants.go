package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

// awkward lists segments and keys that a database might confuse with each other.
var awkward = []string{
	"a", "A", "a.", ".a", "a.b", "a%", "%", "_", "a_", "a*", "*", "?", "[a]", `\`, `a\`, `\%`, "'", `"`, `a"b`, "a/b", "/", ":",
	"\x00", "a\x00", "a\x00b", "\x01", "a\x01", "a\x01b", "\x02", "a\x02", "a\x01\x01", "\x7f", " ", "a ", "  ", "\t", "\n", "é", "e\u0301", "É", "ß", "ss", "ﬀ",
	"İ", "i", "ı", "日本", "🍕", "\U0010ffff", "\u200b", "\u202e", "null", "true", "0", "00", "-1", "$", "{a}", "(a)", "a,b", "{a,b}", "langgraph", "--", ";", "a;drop", "%s", "$1",
}

// trees returns namespaces built from these segments: each alone, below another, above
// another, and as prefixes of each other.
func trees() []store.Namespace {
	var all []store.Namespace
	for i, s := range awkward {
		all = append(all, store.Namespace{s}, store.Namespace{"t", s}, store.Namespace{s, awkward[(i+1)%len(awkward)]})
	}
	return append(all, store.Namespace{"a", "b", "c"}, store.Namespace{"a", "b"}, store.Namespace{"a", "bc"}, store.Namespace{"ab", "c"}, store.Namespace{"abc"},
		store.Namespace{"a.b", "c"}, store.Namespace{"a", "b.c"}, store.Namespace{"a", "b", "c", "d"}, store.Namespace{"t"})
}

var tenants = []test{
	{"NamespacesAreIsolated", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}})
		all := trees()
		var ops []store.Op
		for i, n := range all {
			ops = append(ops, store.PutOp{Namespace: n, Key: "same", Value: object{"i": i, "t": "pizza"}})
		}
		must(s.Batch(w.Context(), ops...))(w)
		under := map[string]map[string]bool{} // the items under each prefix
		prefixes := map[string]store.Namespace{}
		for i, n := range all {
			for depth := range n {
				id := n[:depth+1].Encode()
				if under[id] == nil {
					under[id], prefixes[id] = map[string]bool{}, n[:depth+1]
				}
				under[id][fmt.Sprint(i)] = true
			}
		}
		for id, prefix := range prefixes {
			for _, o := range []store.SearchOptions{
				{}, {Filter: store.Exists("i")}, {Query: "pizza"}, {Query: "pizza", Ranking: store.Keyword}, {Query: "pizza", Ranking: store.Hybrid},
			} {
				o.Limit = 1000
				items := must(s.Search(w.Context(), prefix, &o))(w)
				if len(items) != len(under[id]) {
					w.Errorf("search %+v under %v: got %d items, want %d", o, prefix, len(items), len(under[id]))
				}
				for _, item := range items {
					if !item.Namespace.HasPrefix(prefix) {
						w.Errorf("search %+v under %v found an item in %v", o, prefix, item.Namespace)
					}
				}
			}
			if listed := must(s.Namespaces(w.Context(), &store.NamespacesOptions{Prefix: prefix, Limit: 1000}))(w); !strings.Contains(id, "*") && len(listed) != len(under[id]) {
				w.Errorf("namespaces under %v: got %v, want %d", prefix, listed, len(under[id]))
			}
			records, _, err := w.backend.Changes(w.Context(), prefix, 0, 1000)
			w.ok(err)
			if len(records) != len(under[id]) {
				w.Errorf("changes under %v: got %d, want %d", prefix, len(records), len(under[id]))
			}
		}
	}},
	{"WriteAffectsOneNamespace", func(w *fixture) {
		all := trees()
		value := func(n store.Namespace) (string, bool) {
			results := must(w.Batch(w.Context(), store.GetOp{Namespace: n, Key: "same"}))(w)
			if results[0].Item == nil {
				return "", false
			}
			return string(results[0].Item.Value), true
		}
		for i, n := range all { // changed below, once all of them exist
			w.ok(w.Put(w.Context(), n, "same", object{"i": i}, nil))
		}
		w.clock.pass(time.Second)
		for i, n := range all {
			switch i % 3 {
			case 0:
				w.ok(w.Put(w.Context(), n, "same", object{"i": -i}, nil))
			case 1:
				w.ok(w.Delete(w.Context(), n, "same", nil))
			case 2:
				w.ok(w.Forget(w.Context(), n, "same"))
			}
		}
		for i, n := range all {
			got, ok := value(n)
			if want := fmt.Sprintf(`{"i":%d}`, -i); ok != (i%3 == 0) || ok && got != want {
				w.Errorf("%v: got %q, %t", n, got, ok)
			}
			if versions := len(must(w.History(w.Context(), n, "same"))(w)); versions != []int{2, 2, 1}[i%3] {
				w.Errorf("%v: got %d versions", n, versions)
			}
		}
	}},
	{"AwkwardKeysAreDistinct", func(w *fixture) {
		for i, key := range awkward {
			w.put("n", key, object{"i": i})
		}
		w.put("n", "gone", object{})
		w.delete("n", "gone")
		for i, key := range awkward {
			want(w, fmt.Sprintf("the value of %q", key), string(w.get("n", key).Value), fmt.Sprintf(`{"i":%d}`, i))
		}
		items := must(w.Search(w.Context(), ns("n"), &store.SearchOptions{Limit: 1000}))(w)
		want(w, "keys", strings.Split(keys(items), " "), strings.Split(strings.Join(awkward, " "), " "))
	}},
	{"ForgetAllKeepsOtherNamespaces", func(w *fixture) {
		for _, n := range trees() {
			w.ok(w.Put(w.Context(), n, "k", object{}, nil))
		}
		left := trees()
		for _, s := range awkward {
			w.ok(w.ForgetAll(w.Context(), store.Namespace{s}))
			kept := left[:0]
			for _, n := range left {
				if n[0] != s {
					kept = append(kept, n)
				}
			}
			left = kept
			if got := must(w.Namespaces(w.Context(), &store.NamespacesOptions{Limit: 1000}))(w); len(got) != len(left) {
				w.Fatalf("after forgetting %q: got %d namespaces, want %d: %v", s, len(got), len(left), got)
			}
		}
	}},
}
