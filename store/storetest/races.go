package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/treadle-go/treadle/store"
)

var races = []test{
	{"ConcurrentIncrements", func(w *fixture) {
		const writers, each = 6, 12
		w.put("a", "counter", map[string]int{"n": 0})
		increment := func() error {
			for {
				item, err := w.Get(w.Context(), ns("a"), "counter", nil)
				if err != nil {
					return err
				}
				var v map[string]int
				if err := item.Decode(&v); err != nil {
					return err
				}
				v["n"]++
				err = w.Put(w.Context(), ns("a"), "counter", v, &store.PutOptions{IfVersion: item.Version})
				if _, lost := errors.AsType[*store.ConflictError](err); !lost {
					return err
				}
			}
		}
		var group sync.WaitGroup
		for range writers {
			group.Go(func() {
				for range each {
					if err := increment(); err != nil {
						w.Error(err)
					}
				}
			})
		}
		group.Wait()
		want(w, "counter", string(w.get("a", "counter").Value), fmt.Sprintf(`{"n":%d}`, writers*each))
	}},
	{"WatcherSeesAllConcurrentWrites", func(w *fixture) {
		const writers, each = 6, 20
		s := w.with(store.Options{Embedder: topics{}})
		var group sync.WaitGroup
		for i := range writers {
			group.Go(func() {
				for j := range each {
					if _, err := s.Batch(w.Context(),
						store.PutOp{Namespace: ns(fmt.Sprint("a/", i)), Key: fmt.Sprint(j), Value: object{"t": "pizza"}},
						store.SearchOp{Prefix: ns("a"), SearchOptions: store.SearchOptions{Query: "food", Ranking: store.Hybrid}},
					); err != nil {
						w.Error(err)
						return
					}
				}
			})
		}
		next := make(map[string]int)
		last := int64(0)
		seen := 0
		ctx, cancel := context.WithTimeout(w.Context(), changeTimeout)
		defer cancel()
		for c, err := range s.Watch(ctx, ns("a"), 0) {
			if err != nil {
				w.Fatalf("after %d changes: %v", seen, err)
			}
			if want := fmt.Sprint(next[c.Namespace[1]]); c.Key != want || c.Version <= last {
				w.Fatalf("got %v %s (version %d) after version %d, want %s", c.Namespace, c.Key, c.Version, last, want)
			}
			next[c.Namespace[1]]++
			last = c.Version
			seen++
			if seen == writers*each {
				break
			}
		}
		group.Wait()
	}},
}
