package storetest

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/treadle-go/treadle/store"
)

var items = []test{
	{"GetReturnsPutItem", func(w *fixture) {
		at := w.clock.Now()
		w.put("users/ada", "tea", json.RawMessage(` {"n": 12345678901234567890, "t": "<é\u0000>", "l": [1, {"a": null}]} `),
			store.PutOptions{Meta: object{"source": "chat"}})
		item := w.get("users/ada", "tea")
		want(w, "item", item, &store.Item{
			Namespace: ns("users/ada"), Key: "tea", Version: item.Version, Created: at, Updated: at,
			Value: json.RawMessage(`{"n":12345678901234567890,"t":"<é\u0000>","l":[1,{"a":null}]}`),
			Meta:  json.RawMessage(`{"source":"chat"}`),
		})
		if item.Version <= 0 {
			w.Errorf("got version %d", item.Version)
		}
	}},
	{"PutKeepsCreated", func(w *fixture) {
		w.put("a", "k", object{"v": 1}, store.PutOptions{Meta: object{"m": 1}})
		first := w.get("a", "k")
		later := w.clock.pass(time.Minute)
		w.put("a", "k", object{"v": 2})
		second := w.get("a", "k")
		if !second.Created.Equal(first.Created) || !second.Updated.Equal(later) || second.Version <= first.Version {
			w.Errorf("got created %v, updated %v, version %d after %+v", second.Created, second.Updated, second.Version, first)
		}
		want(w, "value", string(second.Value), `{"v":2}`)
		want(w, "meta", second.Meta, json.RawMessage(nil))
	}},
	{"MissingItemsAreNotFound", func(w *fixture) {
		w.put("a/b", "k", object{})
		for _, at := range []string{"a", "a/b/c", "b"} {
			if _, err := w.Get(w.Context(), ns(at), "k", nil); !errors.Is(err, store.ErrNotFound) {
				w.Errorf("get in %s: %v", at, err)
			}
		}
		w.delete("a", "k") // has no effect
		w.get("a/b", "k")
		w.delete("a/b", "k")
		if _, err := w.Get(w.Context(), ns("a/b"), "k", nil); !errors.Is(err, store.ErrNotFound) {
			w.Errorf("get after delete: %v", err)
		}
		w.finds(w, "", nil, "")
	}},
	{"PutAfterDeleteCreates", func(w *fixture) {
		w.put("a", "k", object{"v": 1})
		before := w.get("a", "k").Version
		w.delete("a", "k")
		now := w.clock.pass(time.Minute)
		w.put("a", "k", object{"v": 2})
		item := w.get("a", "k")
		if !item.Created.Equal(now) || item.Version <= before+1 {
			w.Errorf("got created %v, version %d after %d", item.Created, item.Version, before)
		}
	}},
	{"ReturnedItemsAreCopies", func(w *fixture) {
		value := json.RawMessage(`{"v":1}`)
		w.put("a", "k", value)
		value[5] = '9'
		first := w.get("a", "k")
		first.Value[5], first.Namespace[0] = '8', "z"
		want(w, "value", string(w.get("a", "k").Value), `{"v":1}`)
		want(w, "namespaces", names(w.finds(w, "", nil, "k")), []string{"a/k"})
	}},
	{"LargeValuesAndLongNames", func(w *fixture) {
		long := strings.Repeat("é", 500)
		w.put(long, long, object{"v": strings.Repeat("x", 1<<20)})
		var v struct{ V string }
		w.ok(w.get(long, long).Decode(&v))
		want(w, "length of the value", len(v.V), 1<<20)
	}},
	{"VersionConditionsHold", func(w *fixture) {
		conflict := func(what string, err error, wanted, have int64) {
			w.Helper()
			c, ok := errors.AsType[*store.ConflictError](err)
			if !ok {
				w.Fatalf("%s: %v", what, err)
			}
			want(w, what, c, &store.ConflictError{Namespace: ns("a"), Key: "k", Want: wanted, Have: have})
		}
		put := func(o store.PutOptions) error { return w.Put(w.Context(), ns("a"), "k", object{"v": o.IfVersion}, &o) }
		conflict("version of a missing item", put(store.PutOptions{IfVersion: 7}), 7, 0)
		w.ok(put(store.PutOptions{IfAbsent: true}))
		v1 := w.get("a", "k").Version
		conflict("absent", put(store.PutOptions{IfAbsent: true}), 0, v1)
		w.ok(put(store.PutOptions{IfVersion: v1}))
		v2 := w.get("a", "k").Version
		conflict("old version", put(store.PutOptions{IfVersion: v1}), v1, v2)
		conflict("delete", w.Delete(w.Context(), ns("a"), "k", &store.DeleteOptions{IfVersion: v1}), v1, v2)
		w.ok(w.Delete(w.Context(), ns("a"), "k", &store.DeleteOptions{IfVersion: v2}))
		conflict("version of a deleted item", put(store.PutOptions{IfVersion: v2}), v2, 0)
		w.ok(put(store.PutOptions{IfAbsent: true}))
	}},
	{"ForgetLeavesOneRecord", func(w *fixture) {
		for _, at := range []string{"a", "a/b", "ab"} {
			w.put(at, "k", object{"v": 1})
			w.put(at, "k", object{"v": 2})
			w.put(at, "l", object{"v": 3})
		}
		seen := w.clock.Now()
		w.clock.pass(time.Minute)
		w.ok(w.Forget(w.Context(), ns("a"), "k"))
		want(w, "remaining items", names(must(w.Search(w.Context(), nil, nil))(w)), []string{"a/l", "a/b/k", "a/b/l", "ab/k", "ab/l"})
		want(w, "past items", names(must(w.AsOf(seen).Search(w.Context(), nil, nil))(w)), []string{"a/l", "a/b/k", "a/b/l", "ab/k", "ab/l"})
		history := must(w.History(w.Context(), ns("a"), "k"))(w)
		if len(history) != 1 || history[0].Kind != store.Forgotten || history[0].Item != nil || !history[0].At.Equal(w.clock.Now()) {
			w.Errorf("history of a forgotten item: %+v", history)
		}
		w.ok(w.ForgetAll(w.Context(), ns("a")))
		want(w, "items after ForgetAll", names(must(w.Search(w.Context(), nil, nil))(w)), []string{"ab/k", "ab/l"})
		want(w, "history after ForgetAll", must(w.History(w.Context(), ns("a/b"), "l"))(w), []store.Change(nil))
		w.put("a", "k", object{"v": 4})
		want(w, "new value", string(w.get("a", "k").Value), `{"v":4}`)
	}},
}

var batches = []test{
	{"BatchReadsPrecedeWrites", func(w *fixture) {
		w.put("a", "old", object{"v": 1})
		results := must(w.Batch(w.Context(),
			store.PutOp{Namespace: ns("a"), Key: "new", Value: object{"v": 2}},
			store.DeleteOp{Namespace: ns("a"), Key: "old"},
			store.GetOp{Namespace: ns("a"), Key: "old"},
			store.GetOp{Namespace: ns("a"), Key: "new"},
			store.SearchOp{Prefix: ns("a")},
			store.PutOp{Namespace: ns("b"), Key: "k", Value: object{}},
			store.NamespacesOp{},
		))(w)
		want(w, "item put", string(results[0].Item.Value), `{"v":2}`)
		want(w, "old item", string(results[2].Item.Value), `{"v":1}`)
		want(w, "new item", results[3].Item, (*store.Item)(nil))
		want(w, "search", names(results[4].Items), []string{"a/old"})
		want(w, "namespaces", results[6].Namespaces, []store.Namespace{{"a"}})
		want(w, "items after the batch", names(must(w.Search(w.Context(), nil, nil))(w)), []string{"a/new", "b/k"})
		want(w, "new version", results[0].Item.Version, w.get("a", "new").Version)
	}},
	{"LastWriteToKeyWins", func(w *fixture) {
		w.put("a", "k", object{"v": 0})
		must(w.Batch(w.Context(),
			store.PutOp{Namespace: ns("a"), Key: "k", Value: object{"v": 1}},
			store.PutOp{Namespace: ns("a"), Key: "l", Value: object{"v": 1}},
			store.PutOp{Namespace: ns("a"), Key: "k", Value: object{"v": 2}},
			store.DeleteOp{Namespace: ns("a"), Key: "l"},
		))(w)
		want(w, "value", string(w.get("a", "k").Value), `{"v":2}`)
		want(w, "versions", len(must(w.History(w.Context(), ns("a"), "k"))(w)), 2)
		w.finds(w, "a", nil, "k")
	}},
	{"BatchIsAtomic", func(w *fixture) {
		w.put("a", "k", object{"v": 0})
		for name, bad := range map[string]store.Op{
			"conflict":         store.PutOp{Namespace: ns("a"), Key: "k", Value: object{}, PutOptions: store.PutOptions{IfAbsent: true}},
			"invalid value":    store.PutOp{Namespace: ns("a"), Key: "x", Value: 7},
			"invalid key":      store.GetOp{Namespace: ns("a")},
			"invalid operator": store.SearchOp{SearchOptions: store.SearchOptions{Filter: store.Filter{Op: "like", Path: ns("a")}}},
		} {
			_, err := w.Batch(w.Context(), store.PutOp{Namespace: ns("a"), Key: "l", Value: object{}}, store.DeleteOp{Namespace: ns("a"), Key: "k"}, bad)
			if err == nil {
				w.Errorf("%s: no error", name)
			}
			w.finds(w, "", nil, "k")
		}
	}},
	{"EmptyBatch", func(w *fixture) {
		if results, err := w.Batch(w.Context()); len(results) != 0 || err != nil {
			w.Errorf("%v, %v", results, err)
		}
	}},
}
