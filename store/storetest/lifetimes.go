package storetest

import (
	"errors"
	"time"

	"github.com/treadle-go/treadle/store"
)

var lifetimes = []test{
	{"ExpiredItemsAreInvisible", func(w *fixture) {
		s := w.with(store.Options{Embedder: topics{}})
		w.ok(s.Put(w.Context(), ns("a"), "k", object{"text": "pizza"}, &store.PutOptions{TTL: time.Minute}))
		version := w.get("a", "k").Version
		w.clock.pass(time.Minute)
		if _, err := s.Get(w.Context(), ns("a"), "k", nil); !errors.Is(err, store.ErrNotFound) {
			w.Errorf("get: %v", err)
		}
		for _, o := range []store.SearchOptions{
			{}, {Filter: store.Exists("text")}, {Query: "pizza"}, {Query: "pizza", Ranking: store.Keyword}, {Query: "pizza", Ranking: store.Hybrid},
		} {
			w.finds(s, "a", &o, "")
		}
		want(w, "namespaces", must(s.Namespaces(w.Context(), nil))(w), []store.Namespace(nil))
		err := s.Put(w.Context(), ns("a"), "k", object{}, &store.PutOptions{IfVersion: version})
		if c, ok := errors.AsType[*store.ConflictError](err); !ok || c.Have != 0 {
			w.Errorf("put that replaces the item: %v", err)
		}
		w.delete("a", "k")
		want(w, "number of changes", len(must(s.History(w.Context(), ns("a"), "k"))(w)), 1)
		w.ok(s.Put(w.Context(), ns("a"), "k", object{}, &store.PutOptions{IfAbsent: true}))
		if item := w.get("a", "k"); !item.Created.Equal(w.clock.Now()) || !item.Expires.IsZero() {
			w.Errorf("new item: created %v, expires %v", item.Created, item.Expires)
		}
	}},
	{"ReadsRefreshTTL", func(w *fixture) {
		for name, test := range map[string]struct {
			read   func(*store.Store) error
			off    bool // Options.NoRefresh
			expect bool
		}{
			"get": {read: func(s *store.Store) error { _, err := s.Get(w.Context(), ns("a"), "k", nil); return err }, expect: true},
			"get with NoRefresh": {read: func(s *store.Store) error {
				_, err := s.Get(w.Context(), ns("a"), "k", &store.GetOptions{NoRefresh: true})
				return err
			}},
			"search": {read: func(s *store.Store) error { _, err := s.Search(w.Context(), nil, nil); return err }, expect: true},
			"search by query": {read: func(s *store.Store) error {
				_, err := s.Search(w.Context(), nil, &store.SearchOptions{Query: "tea"})
				return err
			}, expect: true},
			"search with NoRefresh": {read: func(s *store.Store) error {
				_, err := s.Search(w.Context(), nil, &store.SearchOptions{NoRefresh: true})
				return err
			}},
			"search for other items": {read: func(s *store.Store) error {
				_, err := s.Search(w.Context(), nil, &store.SearchOptions{Filter: store.Eq("drink", "coffee")})
				return err
			}},
			"store with NoRefresh": {read: func(s *store.Store) error { _, err := s.Get(w.Context(), ns("a"), "k", nil); return err }, off: true},
			"view of the past":     {read: func(s *store.Store) error { _, err := s.AsOf(w.clock.Now()).Get(w.Context(), ns("a"), "k"); return err }},
			"namespaces":           {read: func(s *store.Store) error { _, err := s.Namespaces(w.Context(), nil); return err }},
		} {
			s := w.with(store.Options{TTL: time.Hour, NoRefresh: test.off})
			w.ok(s.Put(w.Context(), ns("a"), "k", object{"drink": "tea"}, nil))
			expires := w.clock.pass(0).Add(time.Hour)
			w.clock.pass(40 * time.Minute)
			w.ok(test.read(s))
			if test.expect {
				expires = expires.Add(40 * time.Minute)
			}
			item := must(s.Get(w.Context(), ns("a"), "k", &store.GetOptions{NoRefresh: true}))(w)
			want(w, name+": expires", item.Expires, expires)
			want(w, name+": updated", item.Updated, w.clock.Now().Add(-40*time.Minute))
		}
	}},
	{"RefreshedItemHasNewExpiry", func(w *fixture) {
		w.put("a", "k", object{}, store.PutOptions{TTL: time.Hour})
		now := w.clock.pass(time.Minute)
		want(w, "get: expires", w.get("a", "k").Expires, now.Add(time.Hour))
		now = w.clock.pass(time.Minute)
		want(w, "search: expires", w.finds(w, "a", nil, "k")[0].Expires, now.Add(time.Hour))
		want(w, "versions", len(must(w.History(w.Context(), ns("a"), "k"))(w)), 1)
	}},
	{"ItemTTLOverridesDefault", func(w *fixture) {
		s := w.with(store.Options{TTL: time.Hour})
		for key, ttl := range map[string]time.Duration{"default": 0, "own": time.Minute, "forever": store.Forever} {
			w.ok(s.Put(w.Context(), ns("a"), key, object{}, &store.PutOptions{TTL: ttl}))
		}
		now := w.clock.Now()
		want(w, "default expiry", w.get("a", "default").Expires, now.Add(time.Hour))
		want(w, "item's own expiry", w.get("a", "own").Expires, now.Add(time.Minute))
		want(w, "no expiry", w.get("a", "forever").Expires, time.Time{})
		for key, ttl := range map[string]time.Duration{"default": time.Hour, "own": time.Minute, "forever": 0} {
			want(w, key+": TTL of the item", w.get("a", key).TTL, ttl)
			want(w, key+": TTL in the history", must(w.History(w.Context(), ns("a"), key))(w)[0].Item.TTL, ttl)
		}
		w.put("a", "own", object{})
		want(w, "expiry after a put with Forever", w.get("a", "own").Expires, time.Time{})
	}},
	{"SweepRemovesExpiredItems", func(w *fixture) {
		for i, key := range []string{"a", "b", "c"} {
			w.put("n", key, object{}, store.PutOptions{TTL: time.Duration(i+1) * time.Minute})
		}
		w.put("n", "d", object{})
		w.clock.pass(2 * time.Minute)
		want(w, "expired", must(w.Sweep(w.Context()))(w), 2)
		want(w, "items expired by the second sweep", must(w.Sweep(w.Context()))(w), 0)
		w.finds(w, "n", nil, "c d")
		history := must(w.History(w.Context(), ns("n"), "a"))(w)
		if len(history) != 2 || history[0].Kind != store.Expired || history[0].Item != nil || !history[0].At.Equal(w.clock.Now()) || history[1].Kind != store.Put {
			w.Errorf("history of an expired item: %+v", history)
		}
	}},
	{"SweepDropsOldHistory", func(w *fixture) {
		s := w.with(store.Options{HistoryAge: time.Hour})
		for i := range 4 { // at 0, 30, 60 and 90 minutes
			w.put("n", "k", object{"i": i})
			if i == 1 {
				w.put("n", "gone", object{})
				w.delete("n", "gone")
				w.put("n", "back", object{"i": 1})
				w.delete("n", "back")
			}
			if i == 2 {
				w.put("n", "back", object{"i": 2})
			}
			w.clock.pass(30 * time.Minute)
		}
		must(s.Sweep(w.Context()))(w) // at 120: removes versions replaced before 60
		kinds := func(key string) (all []string) {
			for _, c := range must(s.History(w.Context(), ns("n"), key))(w) {
				all = append(all, string(c.Kind))
			}
			return all
		}
		want(w, "versions", kinds("k"), []string{"put", "put", "put"})
		want(w, "deleted item", kinds("gone"), []string(nil))
		want(w, "item put again", kinds("back"), []string{"put", "deleted"})
		w.finds(s, "n", nil, "back k")
	}},
	{"SweepWithoutHistory", func(w *fixture) {
		s := w.with(store.Options{History: 1})
		w.ok(s.Put(w.Context(), ns("n"), "k", object{"secret": 1}, &store.PutOptions{TTL: time.Minute}))
		w.clock.pass(time.Minute)
		must(s.Sweep(w.Context()))(w)
		history := must(s.History(w.Context(), ns("n"), "k"))(w)
		if len(history) != 1 || history[0].Kind != store.Expired {
			w.Errorf("got history %+v", history)
		}
	}},
}
